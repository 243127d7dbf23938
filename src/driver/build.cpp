// SPDX-License-Identifier: Apache-2.0
// build(): programs planned, printed, compiled and linked as one library, and published with its header and manifest.
#include "codetta/build.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/default_floats.hpp"
#include "base/files.hpp"
#include "codetta/version.hpp"
#include "device/embedded.hpp"
#include "diag/diagnostic.hpp"
#include "driver/build_apart.hpp"
#include "driver/build_constants.hpp"
#include "driver/build_id.hpp"
#include "driver/build_metal.hpp"
#include "driver/build_nvcc.hpp"
#include "driver/build_nvrtc.hpp"
#include "driver/build_plan.hpp"
#include "driver/build_sets.hpp"
#include "driver/build_tune.hpp"
#include "driver/compiler_help.hpp"
#include "driver/kernel_state.hpp"
#include "driver/output_folder.hpp"
#include "driver/planned_graph.hpp"
#include "driver/program_arguments.hpp"
#include "driver/program_kernels.hpp"
#include "driver/program_state.hpp"
#include "driver/program_times.hpp"
#include "driver/size_defaults.hpp"
#include "driver/size_sets.hpp"
#include "driver/value_place.hpp"
#include "emit/emit.hpp"
#include "emit/host/nvcc.hpp"
#include "emit/host/signature.hpp"
#include "emit/package.hpp"
#include "ir/devices.hpp"
#include "opt/passes.hpp"
#include "package/cpu_call.hpp"
#include "package/factors.hpp"
#include "package/gpu_call.hpp"

namespace codetta {
namespace driver {

Error unwritable(const std::string& path, const std::string& why) {
  return diag::error(diag::Code::output_unwritable, fmt::format("{} cannot be written", path))
      .reason(why)
      .help("choose a folder that exists and may be written to, with room for the library");
}

std::string add_unit(std::vector<KernelUnit>& units, KernelUnit unit) {
  const auto known = [&](const KernelUnit& one) { return one.function == unit.function; };
  std::string function = unit.function;
  if (std::none_of(units.begin(), units.end(), known)) units.push_back(std::move(unit));
  return function;
}

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t most_embedded = int64_t{1} << 30;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}
std::string file_of(const std::string& path) { return path.substr(folder_of(path).size()); }

// "out/libdigits.so.1" -> "digits".
std::string default_name(const std::string& output) {
  std::string name = file_of(output);
  if (name.starts_with("lib")) name = name.substr(3);
  return name.substr(0, name.find('.'));
}

// Whether a fused kernel may owe stores where its product has no elements.
bool stores_less_than_elements(const package::EpilogueProgram& program) {
  return std::any_of(program.operands.begin(), program.operands.end(), [](const package::Operand& operand) {
    return operand.is_store && operand.access != package::Access::Full;
  });
}

Result<void> add_kernel(const package::Kernel& kernel, emit::host::Program& program, std::vector<KernelUnit>& units) {
  const auto* config = std::get_if<package::CpuGemmConfig>(&kernel.config);
  const bool fused = config != nullptr && config->family == package::CpuFamily::Fused;
  emit::host::KernelFunctions functions;
  const auto unit = [&](std::string source, std::vector<std::string> gcc, std::vector<std::string> clang,
                        std::string entry, const std::string& function) {
    return add_unit(units, {std::move(source), std::move(gcc), std::move(clang), std::move(entry), function});
  };
  if (package::is_user(kernel.config)) {
    functions.user = unit(kernel.source, kernel.gcc_flags, kernel.clang_flags, kernel.symbol, kernel.name);
    program.functions.push_back(std::move(functions));
    return {};
  }
  if (!kernel.source.empty()) {
    (fused ? functions.fused : functions.tiles) =
        unit(kernel.source, kernel.gcc_flags, kernel.clang_flags, kernel.symbol, kernel.name);
  }
  const bool tiles_too = fused ? stores_less_than_elements(kernel.epilogue)
                               : kernel.source.empty() && !package::only_stores(kernel.epilogue);
  if (tiles_too) {
    CODETTA_TRY(
        emit::EmittedSource source,
        emit::emit_cpu_epilogue(kernel.epilogue, {.isa = config != nullptr ? config->isa : program.package->target.isa,
                                                  .strict = !kernel.epilogue.contracts}));
    functions.tiles = unit(std::move(source.text), std::move(source.gcc_flags), std::move(source.clang_flags),
                           std::move(source.entry), kernel.name + "_tiles");
  }
  program.functions.push_back(std::move(functions));
  return {};
}

// A kernel for a GPU, compiled.
Result<GpuBinary> binary_of(const package::Kernel& kernel, const Target& target, ContextState& context) {
  return target.backend == Backend::hip ? context.hip.binary(kernel) : context.cuda.binary(kernel);
}

Result<package::Package> emitted(const plan::Plan& plan, const std::string& name, const BuildOptions& options) {
  return emit::emit_package(plan,
                            {.name = name, .build_id = build_id(), .origins = true, .checks_contents = options.checks});
}

// Compiles the kernels of a plan for a GPU. One whose registers or spills rule it out (E0533) is passed over for the
// candidate that ranks next, as in process. Whether one was: the plan makes another package then.
Result<bool> passes_over(plan::Plan& plan, const package::Package& package, ContextState& context,
                         const BuildOptions& options) {
  std::vector<const package::Kernel*> all;
  for (const package::Kernel& kernel : package.kernels) all.push_back(&kernel);
  std::vector<double> ahead(all.size());
  if (package.target.backend == Backend::cuda) ahead = context.cuda.compile_ahead(all);
  if (package.target.backend == Backend::hip) ahead = context.hip.compile_ahead(all);
  for (size_t i = 0; i < package.kernels.size(); ++i) {
    CODETTA_TRY(const GpuBinary binary, binary_of(package.kernels[i], package.target, context));
    if (options.progress)
      options.progress(fmt::format("kernel {} of {}: {}, {:.0f} ms", i + 1, package.kernels.size(),
                                   package.kernels[i].name, (ahead[i] + binary.compile_seconds) * 1e3));
    const auto judged = context.cuda.judge(package.kernels[i], binary);
    if (judged) continue;
    const std::vector<uint32_t> kernel_of = kernels_of(plan, package);
    bool changed = false;
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      if (kernel_of[k] != i) continue;
      if (plan.kernels[k].chosen + 1 >= plan.kernels[k].discovery.candidates.size()) return judged.error();
      ++plan.kernels[k].chosen;
      changed = true;
    }
    if (changed) return true;
  }
  return false;
}

// `context`: compiles those for a GPU, and passes over what does not fit; null: nothing is compiled.
Result<package::PackageRef> package_of_library(plan::Plan& plan, const std::string& name, ContextState* context,
                                               const BuildOptions& options) {
  for (;;) {
    CODETTA_TRY(package::Package package, emitted(plan, name, options));
    bool again = false;
    if (context != nullptr && runs_on_gpu(plan.target)) {
      CODETTA_TRY(again, passes_over(plan, package, *context, options));
    }
    if (!again) return std::make_shared<const package::Package>(std::move(package));
  }
}

}  // namespace

Result<void> pass_over(plan::Plan& plan, const std::string& name, ContextState& context, const BuildOptions& options) {
  for (bool again = runs_on_gpu(plan.target); again;) {
    CODETTA_TRY(const package::Package package, emitted(plan, name, options));
    CODETTA_TRY(again, passes_over(plan, package, context, options));
  }
  return {};
}

namespace {

// What the constants fix, and the hints for the other sizes that this program has.
SizeHints hints_of(const ir::Graph& graph, const SizeHints& fixed, const SizeHints& wanted) {
  SizeHints hints = fixed;
  const std::vector<std::string> known = symbols_of_types(graph);
  for (const auto& hint : wanted) {
    const bool is_fixed =
        std::any_of(fixed.begin(), fixed.end(), [&](const auto& one) { return one.first == hint.first; });
    if (!is_fixed && std::find(known.begin(), known.end(), hint.first) != known.end()) hints.push_back(hint);
  }
  return hints;
}

// The code of its kernels joins the library.
Result<void> add_kernels(emit::host::Program& program, LibraryPlan& planned, ContextState& context, bool compiled,
                         BuildForm form) {
  const Target& target = planned.host.target;
  const bool gpu = target.backend != Backend::cpu;
  for (const package::Kernel& kernel : program.package->kernels) {
    if (form == BuildForm::Nvrtc) {
      program.images.push_back(planned.bytes.add(nvrtc_source(kernel)));
    } else if (gpu && compiled) {
      CODETTA_TRY(GpuBinary binary, binary_of(kernel, target, context));
      planned.compile_seconds += binary.compile_seconds;
      program.images.push_back(planned.bytes.add(std::move(binary.image)));
    } else if (gpu) {
      program.images.push_back("image_of_" + kernel.name);
    } else {
      CODETTA_CHECK_OK(add_kernel(kernel, program, planned.kernels));
    }
  }
  return {};
}

}  // namespace

Result<LibraryPlan> plan_library(const std::vector<Program>& programs, const Target& wanted,
                                 const BuildOptions& options, ContextState& context, bool compiled, bool whole,
                                 Context* tunes) {
  CODETTA_TRY(const Target target, resolve_target(context, wanted));
  if (target.backend != Backend::cpu && target.backend != Backend::cuda && target.backend != Backend::hip) {
    return diag::error(diag::Code::host_feature, fmt::format("libraries are not built for {}", target.to_string()))
        .reason("C++ host text exists for CPUs, for CUDA and for HIP")
        .help("choose --target cpu, cpu:avx2, cpu:avx512, cuda:sm_90a, hip:gfx942, ...");
  }
  const bool gpu = target.backend != Backend::cpu;
  if (programs.empty()) {
    return diag::error(diag::Code::usage, "no program is given")
        .reason("a library has a function for each")
        .help("pass at least one");
  }
  CODETTA_CHECK_OK(check_hints(programs, options.size_hints, Hinted::ForSeveralSizes));
  // Where nothing can be timed, that is said before anything is compiled.
  if (options.tune_seconds > 0) CODETTA_CHECK_OK(context.check_runs(target));
  LibraryPlan planned;
  planned.host.name = options.name.empty() ? default_name(options.output) : options.name;
  if (whole) CODETTA_CHECK_OK(emit::host::check_library_name(planned.host.name));
  planned.host.target = target;
  planned.host.version = version();
  planned.host.checked = options.checks;
  CODETTA_TRY(planned.values, constant_values(options));
  if (!planned.values.external.empty()) planned.host.weights_file = file_of(options.weights);
  for (const Program& one : programs) {
    const ProgramState& state = *Program::Access::state(one);
    CODETTA_TRY(const auto fixed, constant_hints(state.graph, planned.values));
    CODETTA_TRY(const SizeSets sizes, size_sets(hints_of(state.graph, fixed, options.size_hints)));
    CODETTA_TRY(const ir::Graph graph, graph_for(state.graph, target));
    CODETTA_TRY(opt::Optimized optimized, opt::optimize(graph));
    const auto own = [&](const ir::GraphInput& input) { return is_constant(planned.values, input.name); };
    if (gpu) {  // those that several devices read lie on each, and are copied in no call
      CODETTA_TRY(optimized.graph, ir::with_inputs_on_devices(std::move(optimized.graph), own));
    }
    plan::MachineFacts machine = context.machine(target);
    machine.gpu.vendor = nullptr;  // a library carries its own kernels
    const UserTuning tuning = load_user_tuning(context, state.user_sources, target);
    std::set<size_t> last;  // of the table's programs: those that take tensors however they lie
    emit::host::SizeTable table{.first = planned.host.programs.size(), .count = 0, .axes = sizes.axes};
    TuningRecord times;     // of the sizes that are planned for
    plan::Choices choices;  // likewise
    const auto planned_for = [&](const SizeHints& hints, plan::Alignment alignment) -> Result<plan::Plan> {
      CODETTA_TRY(plan::Plan plan, plan::plan_program(optimized.graph, target, machine, hints, state.user_sources,
                                                      alignment, state.numerics, choices));
      rank_for_constants(plan, machine, planned.values);
      pick_configurations(plan, hints, tuning);
      // In process a B is packed in every run, which constants are not.
      if (planned.values.embedded.empty() && planned.values.external.empty()) pick_candidates(plan, times);
      return plan;
    };
    const auto packed = [&](plan::Plan& plan) -> Result<package::PackageRef> {
      CODETTA_TRY(package::PackageRef made,
                  package_of_library(plan, state.function.name, compiled ? &context : nullptr, options));
      CODETTA_CHECK_OK(package::check(*made));  // as before runs in process: printers take it as sound
      return made;
    };
    // Which of the table's programs it is. Those that have the kernels of others share their program.
    const auto add = [&](const plan::Plan& plan, package::PackageRef made) -> Result<size_t> {
      emit::host::Program program;
      program.function = state.function.name;
      program.package = std::move(made);
      program.told = told_temporaries(*program.package, optimized.graph, plan);
      auto& all = planned.host.programs;
      const auto same = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(table.first), all.end(),
                                     [&](const auto& known) { return *known.package == *program.package; });
      const size_t at = static_cast<size_t>(same - all.begin()) - table.first;
      if (same != all.end()) return at;
      if (options.form == BuildForm::Nvcc) {  // nothing is inside: print_nvcc_kernels() says what finds them
        for (const package::Kernel& kernel : program.package->kernels) program.registered.push_back(kernel.name);
      } else {
        CODETTA_CHECK_OK(add_kernels(program, planned, context, compiled, options.form));
        if (!gpu) CODETTA_CHECK_OK(add_apart(program, plan, planned.values, planned.kernels));
      }
      all.push_back(std::move(program));
      ++table.count;
      return at;
    };
    // The program of the table for these sizes, and those that take over where it cannot be.
    const auto add_set = [&](const SizeHints& hints) -> Result<size_t> {
      times = load_program_times(context, state, target, hints);
      choices = choices_of(times);
      CODETTA_TRY(plan::Plan plan, planned_for(hints, plan::Alignment::Hinted));
      if (options.tune_seconds > 0) {
        std::string configurations;
        if (tunes != nullptr) {
          CODETTA_TRY(configurations, tune_configurations(plan, one, hints, options, *tunes));
        }
        // Kernels that spill are passed over before others are timed beside them.
        CODETTA_CHECK_OK(pass_over(plan, state.function.name, context, options));
        const auto otherwise = [&](const plan::Choices& others) -> Result<plan::Plan> {
          const plan::Choices now = std::exchange(choices, others);
          auto other = planned_for(hints, plan::Alignment::Hinted);
          choices = now;
          if (other) CODETTA_CHECK_OK(pass_over(*other, state.function.name, context, options));
          return other;
        };
        CODETTA_TRY(std::string tuned, tune_plan(plan, one, hints, planned.values, options, context, otherwise));
        // Decided here; programs that take over for other tensors are decided alike.
        for (const plan::Decision& decision : plan.decisions) {
          if (decision.measured) choices[decision.key] = decision.choice;
        }
        if (!configurations.empty()) {
          Json both = Json::parse(tuned);
          both["configurations"] = Json::parse(configurations);
          tuned = both.dump();
        }
        planned.tuning.emplace_back(
            sizes.axes.empty() ? state.function.name : state.function.name + ", " + hints_text(hints), tuned);
      }
      CODETTA_TRY(package::PackageRef first, packed(plan));
      CODETTA_TRY(const size_t at, add(plan, std::move(first)));
      if (last.contains(at) || table.takes_over(at)) return at;  // of sizes with the same kernels
      std::vector<size_t> chain{at};
      const package::PackageRef chosen = planned.host.programs[table.first + at].package;
      bool misses = false, uneven = package::may_be_uneven(*chosen);
      if (gpu) {
        // What takes over where sizes are none that rows of 16 bytes follow from, and where tensors lie anywhere: known
        // only now, for candidates that spill were passed over.
        CODETTA_TRY(plan::Plan any, planned_for(hints, plan::Alignment::Any));
        CODETTA_TRY(package::PackageRef anywhere, packed(any));
        misses = package::misses_stores(*anywhere);
        uneven = uneven || package::may_be_uneven(*anywhere);
        if (!(*anywhere == *chosen)) {
          CODETTA_TRY(plan::Plan proven, planned_for(hints, plan::Alignment::Proven));
          CODETTA_TRY(package::PackageRef behind, packed(proven));
          CODETTA_TRY(chain.emplace_back(), add(proven, std::move(behind)));
          CODETTA_TRY(chain.emplace_back(), add(any, std::move(anywhere)));
        }
      }
      // And what few calls need: where leading dims of a factor are not evenly spaced, and where sizes are 0.
      const auto add_rare = [&](plan::Alignment alignment, std::vector<size_t>& only) -> Result<void> {
        CODETTA_TRY(plan::Plan rare, planned_for(hints, alignment));
        CODETTA_TRY(package::PackageRef others, packed(rare));
        const size_t known = table.count;
        CODETTA_TRY(chain.emplace_back(), add(rare, std::move(others)));
        if (table.count > known) only.push_back(chain.back());
        return {};
      };
      if (uneven) CODETTA_CHECK_OK(add_rare(plan::Alignment::Uneven, table.when_uneven));
      if (misses) CODETTA_CHECK_OK(add_rare(plan::Alignment::Empty, table.when_empty));
      last.insert(chain.back());
      chain.erase(std::unique(chain.begin(), chain.end()), chain.end());
      if (chain.size() > 1) table.less_aligned.resize(table.count);
      for (size_t i = 0; i + 1 < chain.size(); ++i) {
        if (!last.contains(chain[i]) && !table.less_aligned[chain[i]]) table.less_aligned[chain[i]] = chain[i + 1];
      }
      return at;
    };
    for (const SizeHints& hints : sizes.sets) {
      CODETTA_TRY(table.chosen.emplace_back(), add_set(hints));
    }
    if (!sizes.axes.empty()) planned.sizes.push_back(sets_text(state.function.name, sizes.sets));
    // Where nothing is hinted at: kernels for some numbers of rows.
    const auto is_argument = [&](const ir::GraphInput& input) { return !own(input); };
    std::vector<std::string> symbols;
    if (options.programs_by_size != 1 && options.tune_seconds == 0 && sizes.axes.empty())
      symbols = symbols_of_rows(optimized.graph, sizes.sets.front(), is_argument);
    if (!symbols.empty()) {
      BuildShare share;
      const size_t usual = table.chosen.front();
      for (size_t i = 0; i < table.count; ++i) share.add(*planned.host.programs[table.first + i].package);
      share.begin();
      // The program for so many rows; none where it would be the usual one's, or take too much of the build.
      const auto add_rows = [&](int64_t rows) -> Result<std::optional<size_t>> {
        SizeHints hints = sizes.sets.front();
        for (auto& hint : hints_for_rows(symbols, rows)) hints.push_back(std::move(hint));
        times = load_program_times(context, state, target, hints);
        choices = choices_of(times);
        CODETTA_TRY(plan::Plan plan, planned_for(hints, plan::Alignment::Hinted));
        CODETTA_TRY(const package::Package seen, emitted(plan, state.function.name, options));
        const package::PackageRef before = planned.host.programs[table.first + usual].package;
        if (same_kernels(seen, *before)) return std::optional<size_t>();
        if (options.programs_by_size == 0) {
          if (!share.takes(seen)) return std::optional<size_t>();
          CODETTA_TRY(const bool more, wants_other_forms(seen, *before, planned.values));
          if (more) return std::optional<size_t>();
        }
        CODETTA_TRY(package::PackageRef made, packed(plan));
        if (same_kernels(*made, *before)) return std::optional<size_t>();
        const size_t known = table.count;
        const bool needs_others = gpu || package::may_be_uneven(*made);
        CODETTA_TRY(const size_t at, add(plan, std::move(made)));
        if (table.count == known) return std::optional<size_t>(at);
        share.add(*planned.host.programs[table.first + at].package);
        // What takes over for the usual program does for every size.
        if (needs_others) {
          table.less_aligned.resize(table.count);
          table.less_aligned[at] = usual;
        }
        return std::optional<size_t>(at);
      };
      const int most = options.programs_by_size == 0 ? usual_programs_by_size : options.programs_by_size;
      std::map<int64_t, size_t> by_rows{{usual_rows, usual}};
      for (int i = 1; i < most; ++i) {
        CODETTA_TRY(const std::optional<size_t> at, add_rows(rows_by_worth[i]));
        if (at) by_rows.emplace(rows_by_worth[i], *at);
      }
      if (by_rows.size() > 1) {
        std::vector<int64_t> rows;
        for (const auto& [number, at] : by_rows) rows.push_back(number);
        SizesOfRows chosen = sizes_of_rows(symbols, rows);
        table.axes = std::move(chosen.axes);
        table.chosen.clear();
        for (const size_t place : chosen.taken) table.chosen.push_back(by_rows.at(rows[place]));
        planned.sizes.push_back(rows_text(state.function.name, symbols, rows));
      }
    }
    if (table.count > 1) planned.host.by_size.push_back(std::move(table));
  }
  if (options.form == BuildForm::Nvrtc) planned.host.headers = planned.bytes.add(nvrtc_headers(planned.host));
  CODETTA_CHECK_OK(check_used(planned.values, options, planned.host.programs));
  for (emit::host::Program& program : planned.host.programs)
    CODETTA_CHECK_OK(bind_constants(program, planned.values, planned.bytes, *context.pool));
  if (whole) CODETTA_CHECK_OK(emit::host::check_library(planned.host));
  if (planned.bytes.byte_size() > most_embedded) {
    return diag::error(diag::Code::host_feature, "the constants are too large to be carried by the library")
        .reason(fmt::format("they have {} bytes; up to {} are possible", planned.bytes.byte_size(), most_embedded))
        .help("leave them in a safetensors file that the library maps: --weights without --embed-weights");
  }
  return planned;
}

std::string engine_folder(std::string folder) {
  if (folder.empty()) {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&version), &info) != 0 && info.dli_fname != nullptr)
      folder = folder_of(info.dli_fname) + "codetta";
  }
  if (!folder.empty() && folder.front() != '/') {
    char here[4096];
    if (::getcwd(here, sizeof here) != nullptr) folder = std::string(here) + "/" + folder;
  }
  return folder;
}

// Or what was looked for.
Result<std::vector<std::string>> engine_archives(const Target& target, const BuildOptions& options) {
  const std::string folder = engine_folder(options.engine_dir);
  const bool cpu = target.backend == Backend::cpu;
  const CpuIsa isa = cpu ? target.isa : CpuIsa::generic;
  std::vector<std::string> names{"libcodetta_engine.a"}, archives;
  if (cpu) names.emplace_back("libcodetta_sets.a");  // in front of the table, instead of which it is linked
  names.push_back(fmt::format("libcodetta_table_{}.a", isa_name(isa)));
  for (const std::string& name : names) {
    archives.push_back(folder + "/" + name);
    if (::access(archives.back().c_str(), R_OK) == 0) continue;
    return diag::error(diag::Code::engine_missing, "the CPU engine for libraries was not found")
        .reason(fmt::format("there is no {}", archives.back()))
        .help(name.find("table") == std::string::npos
                  ? "install it beside libcodetta, in a folder `codetta`, or name its folder (engine_dir)"
                  : fmt::format("this build of Codetta has no kernels for {}; choose another target", isa_name(isa)));
  }
  return archives;
}

toolchain::LibraryJob job_of(const LibraryPlan& planned, const toolchain::HostCompiler& compiler,
                             const std::string& file_name) {
  toolchain::LibraryJob job;
  job.name = file_name;
  job.exports = emit::host::print_exports(planned.host);
  for (const device::EmbeddedFile& file : device::files()) {
    if (file.path.starts_with("host/") || file.path == "cpu/abi.h" || file.path == "gpu/abi.h" ||
        file.path == "gpu/step_abi.h")
      job.files.push_back({"device/" + std::string(file.path), std::string(file.text)});
  }
  const std::vector<std::string> host_flags = {
      "-std=c++20",      "-O2",       "-fvisibility=hidden",     "-fvisibility-inlines-hidden",
      "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-ffunction-sections",
      "-fdata-sections"};
  for (emit::host::File& file : emit::host::print_cpp(planned.host)) {
    if (file.is_header()) {
      job.files.push_back({std::move(file.name), std::move(file.text)});
    } else {
      job.units.push_back({std::move(file.text), host_flags, std::move(file.name)});
    }
  }
  for (const KernelUnit& unit : planned.kernels) {
    std::vector<std::string> flags =
        compiler.kind == toolchain::CompilerKind::Clang ? unit.clang_flags : unit.gcc_flags;
    std::erase(flags, "-nostdlib");  // nothing is linked here
    // Every kernel's source calls its function the same; in a library each has its own name.
    flags.push_back("-D" + unit.entry + "=" + unit.function);
    flags.push_back("-D" + std::string(emit::entry_digest_symbol) + "=" + unit.function + "_digest");
    job.units.push_back({unit.source, std::move(flags), unit.function});
  }
  planned.bytes.add_to(job);
  if (planned.host.target.backend == Backend::cpu)
    job.units.push_back({micro_sets_text(planned.host), host_flags, "micro-kernels"});
  return job;
}

namespace {

bool is_same_file(const std::string& path, const std::string& other) {
  std::error_code absent;
  return std::filesystem::equivalent(path, other, absent) && !absent;
}

// One spelling for a file, whether it is there or not.
std::string whole_path(const std::string& path) {
  std::error_code failed;
  const auto whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path, failed), failed);
  return failed ? path : whole.string();
}

}  // namespace

Result<void> check_writable(const std::string& library, const std::vector<std::string>& beside,
                            const std::vector<std::string>& read) {
  std::vector<std::string> paths{library};
  paths.insert(paths.end(), beside.begin(), beside.end());
  std::set<std::string> seen, folders;
  for (const std::string& path : paths) {
    if (path.empty() || path.back() == '/') return unwritable(path.empty() ? "the library" : path, "it names no file");
    struct stat info {};
    const bool there = ::stat(path.c_str(), &info) == 0;
    if (there && S_ISDIR(info.st_mode)) return unwritable(path, "it is a folder");
    const bool replaced = !there || S_ISREG(info.st_mode);
    if (!replaced && &path == &paths.front()) return unwritable(path, "it is no file but a device or a pipe");
    if (!replaced) continue;
    if (!seen.insert(whole_path(path)).second)
      return unwritable(path, "two of the files that are written would be one file");
    for (const std::string& input : read) {
      if (is_same_file(path, input)) return unwritable(path, fmt::format("it is {}, which is read", input));
    }
    const std::string folder = folder_of(path).empty() ? "./" : folder_of(path);
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
      return unwritable(path, fmt::format("{}: {}", folder, std::strerror(errno)));
    if (!folders.insert(folder).second) continue;
    if (const int why = refuses_files(folder); why != 0)
      return unwritable(path, fmt::format("create a file in {}: {}", folder, std::strerror(why)));
  }
  return {};
}

namespace {

// Where a file lies as seen from another one's folder, as a literal of Python.
std::string seen_from(const std::string& file, const std::string& other) {
  const std::filesystem::path whole = whole_path(file), folder = std::filesystem::path(whole_path(other)).parent_path();
  return Json(whole.lexically_relative(folder).string()).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string benchmark_text(const BuildReport& report) {
  const device::EmbeddedFile* const text = device::find_file("host/benchmark.py");
  return fmt::format(
      "#!/usr/bin/env python3\n# Generated by Codetta {}.\n{}\n\nLIBRARY = {}\nMANIFEST = {}\n\nif __name__ == "
      "\"__main__\":\n    main()\n",
      version(), text->text, seen_from(report.library, report.benchmark), seen_from(report.manifest, report.benchmark));
}

std::string manifest_of(const LibraryPlan& planned, const toolchain::HostCompiler& compiler) {
  Json json = Json::parse(emit::host::print_manifest(planned.host));
  json["compiler"] = compiler.version;
  if (!planned.host.headers.empty()) json["kernels_as"] = "sources for NVRTC";
  for (const auto& [function, tuned] : planned.tuning) json["tuning"][function] = Json::parse(tuned);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace
}  // namespace driver

Result<BuildReport> build(const std::vector<Program>& programs, const Target& target, const BuildOptions& options,
                          Context& context) {
  const base::DefaultFloats floats;
  using namespace driver;
  const auto start = std::chrono::steady_clock::now();
  const auto tell = [&](const std::string& line) {
    if (options.progress) options.progress(line);
  };
  ContextState& state = *context.shared_state();
  CODETTA_CHECK_OK(check_form(target, options));
  if (target.backend == Backend::metal) {
    CODETTA_TRY(const Target resolved, resolve_target(state, target));
    return build_metal(programs, resolved, options, state);
  }
  if (options.form == BuildForm::Nvcc) return build_nvcc(programs, target, options, context);
  const std::string name = options.name.empty() ? default_name(options.output) : options.name;
  BuildReport report;
  report.library = options.output;
  report.header = options.header.empty() ? folder_of(options.output) + name + ".h" : options.header;
  report.manifest = options.manifest.empty() ? folder_of(options.output) + name + ".json" : options.manifest;
  report.benchmark = options.benchmark;
  std::vector<std::pair<std::string, std::string>> places{
      {"the library", report.library}, {"the header", report.header}, {"the manifest", report.manifest}};
  std::vector<std::string> beside{report.header, report.manifest};
  if (!options.benchmark.empty()) {
    places.emplace_back("the benchmark", options.benchmark);
    beside.push_back(options.benchmark);
  }
  if (options.before_writing) CODETTA_CHECK_OK(options.before_writing(places, false));
  std::vector<std::string> read;
  if (!options.weights.empty()) read.push_back(options.weights);
  CODETTA_CHECK_OK(check_writable(report.library, beside, read));
  CODETTA_TRY(const LibraryPlan planned,
              options.form == BuildForm::Nvrtc
                  ? judged_plan(programs, target, options, context)
                  : plan_library(programs, target, options, state, !state.options.no_jit, true, &context));
  if (state.options.no_jit || state.options.no_compiler) {
    return diag::error(diag::Code::jit_disabled, "compiling is switched off")
        .reason("a library is compiled")
        .help(state.options.no_jit ? "leave out `no_jit` and CODETTA_NO_JIT for builds"
                                   : "leave out `no_compiler` for builds");
  }
  const auto& found = state.compiler();
  if (!found) {
    return driver::without_compiler(
        found.error(), planned.host.target.backend == Backend::cuda
                           ? "`--form nvcc` (BuildForm::Nvcc) writes the library's sources, which takes none here"
                           : "the library's text (`--show`, host_text()) takes none");
  }
  const toolchain::HostCompiler& compiler = *found;
  toolchain::LibraryJob job = job_of(planned, compiler, file_of(options.output));
  CODETTA_TRY(job.archives, engine_archives(planned.host.target, options));
  const std::string kernels = planned.kernels.empty() ? ""  // of a GPU: told one by one
                                                      : fmt::format("{} kernel{}, ", planned.kernels.size(),
                                                                    planned.kernels.size() == 1 ? "" : "s");
  tell(kernels + fmt::format("{} translation units", job.units.size()));
  CODETTA_TRY(
      const toolchain::LibraryOutput output,
      toolchain::build_library(compiler, job, state.compile_options(), state.pool->size(),
                               [&](size_t done, size_t all) { tell(fmt::format("compiled {} of {}", done, all)); }));
  for (const auto& [label, seconds] : output.unit_seconds) tell(fmt::format("{}: {:.0f} ms", label, seconds * 1e3));
  // The library last: who sees it finds the header that goes with it.
  const std::string header = emit::host::print_header(planned.host), manifest = manifest_of(planned, compiler);
  if (options.before_writing) CODETTA_CHECK_OK(options.before_writing(places, true));
  const std::string benchmark = options.benchmark.empty() ? std::string() : benchmark_text(report);
  std::vector<base::FileBytes> files{{report.header, header}, {report.manifest, manifest}};
  if (!options.benchmark.empty()) files.push_back({options.benchmark, benchmark, 0777});
  files.push_back({report.library, output.bytes, 0777});
  if (const auto written = base::write_files_atomically(files); !written)
    return unwritable(written.error().path, written.error().message());
  report.bytes = static_cast<int64_t>(output.bytes.size());
  report.compile_seconds = output.seconds + planned.compile_seconds;
  for (const size_t first : emit::host::functions_of(planned.host))
    report.functions.push_back(emit::host::function_name(planned.host, planned.host.programs[first]));
  std::set<std::string> listed;  // of other sizes of one function
  for (size_t p = 0; p < planned.host.programs.size(); ++p) {
    const bool one_of_several = emit::host::table_of(planned.host, p) != nullptr;
    for (const package::Kernel& kernel : planned.host.programs[p].package->kernels) {
      if (listed.insert(kernel.name).second || !one_of_several) report.kernels.push_back(kernel.name);
    }
  }
  report.sizes = planned.sizes;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

Result<std::string> driver::library_text(const std::vector<Program>& programs, const Target& target,
                                         const BuildOptions& options, ContextState& context, Context* tunes) {
  if (target.backend == Backend::metal) {
    CODETTA_TRY(const Target resolved, resolve_target(context, target));
    CODETTA_TRY(const std::vector<emit::host::File> files, metal_files(programs, resolved, options, context));
    std::string all;
    for (const emit::host::File& file : files) {
      if (!file.name.ends_with(".metal") && !file.name.ends_with(".safetensors"))
        all += fmt::format("// ---- {} ----\n{}\n", file.name, file.text);
    }
    return all;
  }
  CODETTA_TRY(LibraryPlan planned, plan_library(programs, target, options, context, false, true, tunes));
  if (options.form == BuildForm::Nvcc) static_cast<void>(emit::host::print_nvcc_kernels(planned.host));
  std::string text;
  const auto add = [&](const std::string& name, const std::string& part) {
    text += fmt::format("// ---- {} ----\n{}\n", name, part);
  };
  add(planned.host.name + ".h", emit::host::print_header(planned.host));
  for (const emit::host::File& file : emit::host::print_cpp(planned.host)) add(file.name, file.text);
  return text;
}

Result<std::string> host_text(const std::vector<Program>& programs, const Target& target, const BuildOptions& options,
                              Context& context) {
  const base::DefaultFloats floats;
  CODETTA_CHECK_OK(driver::check_form(target, options));
  return driver::library_text(programs, target, options, *context.shared_state(), &context);
}

}  // namespace codetta
