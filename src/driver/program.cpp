// SPDX-License-Identifier: Apache-2.0
// Programs: text to graph, graph to package, package to executions.
#include "codetta/program.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/default_floats.hpp"
#include "codetta/memory.hpp"
#include "driver/build_id.hpp"
#include "driver/by_rows.hpp"
#include "driver/fusion.hpp"
#include "driver/gpu_observer.hpp"
#include "driver/kernel_state.hpp"
#include "driver/less_aligned.hpp"
#include "driver/one_run.hpp"
#include "driver/package_entry.hpp"
#include "driver/planned_graph.hpp"
#include "driver/problem.hpp"
#include "driver/program_arguments.hpp"
#include "driver/program_kernels.hpp"
#include "driver/program_state.hpp"
#include "driver/program_times.hpp"
#include "driver/report.hpp"
#include "driver/roofline.hpp"
#include "driver/size_defaults.hpp"
#include "driver/step_records.hpp"
#include "driver/value_place.hpp"
#include "driver/workspace_report.hpp"
#include "emit/package.hpp"
#include "frontend/lower.hpp"
#include "frontend/parser.hpp"
#include "ir/analyses.hpp"
#include "ir/devices.hpp"
#include "opt/passes.hpp"
#include "package/factors.hpp"
#include "package/gpu_call.hpp"
#include "package/gpu_steps.hpp"
#include "runtime/operands.hpp"

namespace codetta {
namespace driver {

namespace {

Result<runtime::Bindings> bind(const package::Package& package, const ir::Graph& graph,
                               const std::vector<NamedArgument>& arguments) {
  CODETTA_CHECK_OK(check_known(graph, arguments));
  runtime::Bindings bindings = runtime::Bindings::of(package);
  for (size_t i = 0; i < package.buffers.size(); ++i) {
    const package::Buffer& buffer = package.buffers[i];
    if (buffer.role != package::Buffer::Role::Argument && buffer.role != package::Buffer::Role::Output) continue;
    const NamedArgument* found = nullptr;
    for (const NamedArgument& argument : arguments) {
      if (argument.name == buffer.name) found = &argument;
    }
    if (found == nullptr) {
      auto error = diag::error(diag::Code::argument_missing,
                               fmt::format("argument {} of the program is not provided", buffer.name));
      for (const ir::GraphOutput& output : graph.outputs()) {
        if (output.name == buffer.name) error.at(graph.source(), graph.span(output.node));
      }
      return error.reason(fmt::format("{} is an output of the program", buffer.name))
          .help(fmt::format("bind {} to the tensor that receives it", buffer.name));
    }
    if (const TensorView* tensor = found->value.tensor()) {
      if (tensor->dtype() != buffer.dtype) {
        return diag::error(diag::Code::symbol_conflict,
                           fmt::format("{} is {} but the program declares {}", buffer.name, dtype_name(tensor->dtype()),
                                       dtype_name(buffer.dtype)))
            .about(buffer.name)
            .reason("programs are compiled for their declared element types")
            .help("convert the tensor, or change the declaration");
      }
      bindings.tensors[i] = *tensor;
    } else if (buffer.is_scalar) {
      CODETTA_TRY(bindings.scalars[i], declared_number(buffer, found->value));
    } else {
      return diag::error(diag::Code::output_binding, fmt::format("output {} is bound to a scalar", buffer.name))
          .about(buffer.name)
          .reason("an output is written to memory")
          .help(fmt::format("bind {} to a tensor; a single value has shape [] or [1]", buffer.name));
    }
  }
  return bindings;
}

// What `debug` of the context asks for is told as it is made.
Result<plan::Plan> plan_of(const CompiledProgramState& state, const DebugSwitches& debug) {
  CODETTA_TRY(const ir::Graph graph, graph_for(state.program->graph, state.target));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph, state.context->debug.passes));
  if (debug.time_passes) {
    for (const opt::PassRecord& pass : optimized.passes) state.context->log(time_line(pass));
  }
  if (debug.dump_graph) state.context->log(ir::print(optimized.graph));
  CODETTA_TRY(plan::Plan plan, plan::plan_program(optimized.graph, state.target, state.context->machine(state.target),
                                                  state.hints, state.program->user_sources, state.alignment,
                                                  state.program->numerics, choices_of(state.times)));
  pick_configurations(plan, state.hints, state.tuning);
  pick_candidates(plan, state.times);
  if (debug.dump_plan) state.context->log(plan::to_string(plan));
  if (debug.dump_memory) state.context->log(plan::memory_text(plan));
  return plan;
}

}  // namespace

Result<plan::Plan> plan_of(const CompiledProgramState& state) { return plan_of(state, {}); }

namespace {

// For GPUs: while the assembler's remarks rule a kernel out (E0533), its products take the candidate that ranks next.
// `load`: compiles (and loads, where there is a device) one for the package's devices that launch it; tells how long it
// compiled.
Result<package::Package> load_on_gpu(
    CompiledProgramState& state, package::Package package, const LoadProgress& progress,
    const std::function<Result<double>(const package::Kernel&, const std::vector<size_t>& places)>& load) {
  ContextState& context = *state.context;
  std::optional<plan::Plan> plan;  // made when a choice has to be changed
  std::vector<std::vector<bool>> launched = package::launched_on(package);
  for (size_t i = 0; i < package.kernels.size();) {
    std::vector<size_t> places;
    for (size_t place = 0; place < launched.size(); ++place) {
      if (launched[place][i]) places.push_back(place);
    }
    const Result<double> loaded = load(package.kernels[i], places);
    if (loaded) {
      state.compile_seconds += *loaded;
      ++i;
      if (progress) progress(i, package.kernels.size(), package.kernels[i - 1].name, *loaded);
      continue;
    }
    if (loaded.error().code() != static_cast<uint16_t>(diag::Code::kernel_resources)) return loaded.error();
    if (!plan) {
      CODETTA_TRY(plan, plan_of(state));
      const std::vector<uint32_t> kernel_of = kernels_of(*plan, package);
      for (size_t k = 0; k < plan->kernels.size(); ++k) {
        plan::PlannedKernel& kernel = plan->kernels[k];
        const auto& candidates = kernel.discovery.candidates;
        while (kernel.chosen < candidates.size() &&
               !(candidates[kernel.chosen].config == package.kernels[kernel_of[k]].config))
          ++kernel.chosen;
      }
    }
    const std::vector<uint32_t> kernel_of = kernels_of(*plan, package);
    for (size_t k = 0; k < plan->kernels.size(); ++k) {
      if (kernel_of[k] != i) continue;
      plan::PlannedKernel& kernel = plan->kernels[k];
      if (kernel.chosen + 1 >= kernel.discovery.candidates.size()) return loaded.error();
      const std::string& name = kernel.discovery.candidates[kernel.chosen].name;
      context.log_once("unfit " + name, name + " is passed over: " + loaded.error().message() + "; " +
                                            loaded.error().diagnostics().front().reason);
      ++kernel.chosen;
    }
    CODETTA_TRY(package, emit::emit_package(*plan, {.name = state.program->function.name, .build_id = build_id()}));
    launched = package::launched_on(package);
    i = 0;  // other kernels may be one now; those that are loaded are at hand
  }
  if (plan && context.cache->enabled() && !context.debug.any()) {
    context.cache->replace(program_key(state), {package.name, package.encode()});
  }
  return package;
}

// From the cache, or planned and emitted.
Result<package::Package> package_of(const CompiledProgramState& state) {
  ContextState& context = *state.context;
  const bool kept = context.cache->enabled() && !context.debug.any();
  const toolchain::CacheKey key = program_key(state);
  if (kept) {
    if (const auto entry = context.cache->lookup(key)) {
      if (auto package = package::Package::decode(entry->payload)) return package;
    }
  }
  CODETTA_TRY(const plan::Plan plan, plan_of(state, context.debug));
  std::vector<uint32_t> kernel_of;
  const std::string& name = state.program->function.name;
  CODETTA_TRY(package::Package package, emit::emit_package(plan, {.name = name, .build_id = build_id()}, &kernel_of));
  if (context.debug.dump_source) context.log(source_listing(plan, package));
  if (context.debug.explain_fusion)
    context.log(plan::explain_text(plan, name, emitted_kernels(package, kernel_of), state.hints));
  if (kept) context.cache->store(key, {package.name, package.encode()});
  return package;
}

ProgramParameter parameter(const std::string& name, const ir::TensorType& type, bool is_scalar = false,
                           bool donated = false, uint32_t device = 0) {
  return {name, is_scalar ? std::string(dtype_name(type.dtype)) : ir::to_string(type), donated,
          static_cast<int>(device)};
}

// Each once, in the order of the first calls.
void collect_user_kernels(const ir::Graph& graph, std::vector<std::string>& names) {
  for (size_t i = 0; i < graph.size(); ++i) {
    const ir::Attr& attr = graph.attr(ir::NodeId(i));
    if (const auto* kernel = std::get_if<ir::UserKernelAttr>(&attr);
        kernel != nullptr && std::find(names.begin(), names.end(), kernel->name) == names.end())
      names.push_back(kernel->name);
    for (const ir::GraphRef& child : ir::children(attr)) collect_user_kernels(*child, names);
  }
}

Result<std::string> emit_program(const ProgramState& program, Stage stage) {
  if (stage == Stage::Ast) {
    CODETTA_TRY(const frontend::ast::Module module, frontend::parse_text(program.function.source));
    return frontend::ast::print_ast(module);
  }
  if (stage == Stage::Graph) return ir::print(program.graph);
  return diag::error(diag::Code::stage_missing, "this stage needs a compiled program")
      .reason("only ast and graph exist before compilation")
      .help("compile the program for a target first");
}

}  // namespace
}  // namespace driver

Result<Program> Program::parse(std::string text, std::string name, std::string_view function) {
  const base::DefaultFloats floats;
  auto state = std::make_shared<driver::ProgramState>();
  const auto source = std::make_shared<const diag::SourceText>(std::move(name), std::move(text));
  CODETTA_TRY(state->function, frontend::parse_program(source, function));
  CODETTA_TRY(state->graph, ir::bind_program(state->function));
  return Program(std::move(state));
}

Result<Program> Program::with_kernels(std::vector<UserKernel> kernels) const {
  auto state = std::make_shared<driver::ProgramState>(*state_);
  std::vector<std::string> called;
  driver::collect_user_kernels(state->graph, called);
  for (UserKernel& kernel : kernels) {
    if (std::find(called.begin(), called.end(), kernel.name) == called.end()) {
      return diag::error(diag::Code::argument_unexpected, fmt::format("the program calls no kernel {}", kernel.name))
          .reason(called.empty() ? std::string("it calls none") : fmt::format("it calls {}", fmt::join(called, ", ")))
          .help("give sources of kernels that the program calls");
    }
    for (const plan::UserSource& known : state->user_sources) {
      if (known.name != kernel.name) continue;
      return diag::error(diag::Code::argument_duplicate, fmt::format("kernel {} has two sources", kernel.name))
          .about(kernel.name)
          .reason("kernels are called by name")
          .help("give each kernel one");
    }
    const std::string_view ending = kernel.language == UserKernel::Language::cuda  ? ".cu"
                                    : kernel.language == UserKernel::Language::hip ? ".hip"
                                                                                   : ".cpp";
    state->user_sources.push_back({kernel.name, std::move(kernel.source),
                                   static_cast<plan::UserSource::Language>(kernel.language),
                                   kernel.file.empty() ? kernel.name + std::string(ending) : std::move(kernel.file)});
  }
  return Program(std::move(state));
}

Program Program::with_hooked_results() const {
  auto state = std::make_shared<driver::ProgramState>(*state_);
  for (plan::UserSource& source : state->user_sources) source.keeps_hooked = true;
  return Program(std::move(state));
}

Result<Program> Program::with_numerics(const Numerics& numerics) const {
  CODETTA_CHECK_OK(
      driver::check_enum("math", static_cast<int>(numerics.math), static_cast<int>(MathMode::Fp8TwoLevelAccumulation)));
  auto state = std::make_shared<driver::ProgramState>(*state_);
  state->numerics = numerics;
  return Program(std::move(state));
}

Numerics Program::numerics() const { return state_->numerics; }

std::vector<ProgramParameter> Program::parameters() const {
  std::vector<ProgramParameter> result;
  for (const ir::GraphInput& input : state_->graph.inputs())
    result.push_back(
        driver::parameter(input.name, state_->graph.type(input.node), input.is_scalar, input.donated, input.device));
  return result;
}

std::vector<ProgramParameter> Program::outputs() const {
  std::vector<ProgramParameter> result;
  const std::vector<uint32_t> devices = ir::devices_of(state_->graph);
  for (const ir::GraphOutput& output : state_->graph.outputs()) {
    ir::TensorType type = state_->graph.type(output.node);
    type.dtype = output.dtype;
    result.push_back(driver::parameter(output.name, type, false, false, devices[output.node.index()]));
  }
  return result;
}

Result<std::string> Program::emit(Stage stage) const { return driver::emit_program(*state_, stage); }

Result<std::string> Program::emit(Stage stage, const Target& target,
                                  const std::vector<std::pair<std::string, int64_t>>& size_hints,
                                  Context& context) const {
  const base::DefaultFloats floats;
  if (stage != Stage::Plan && stage != Stage::Memory && stage != Stage::Host)
    return driver::emit_program(*state_, stage);
  if (stage == Stage::Host) {
    BuildOptions options;
    options.name = state_->function.name;
    options.size_hints = size_hints;
    options.programs_by_size = 1;  // what compile() makes
    return host_text({*this}, target, options, context);
  }
  if (stage == Stage::Memory) return memory_report(*this, target, size_hints, false, context);
  CODETTA_CHECK_OK(driver::check_hints(state_->graph, size_hints, driver::Hinted::ForSeveralSizes));
  driver::CompiledProgramState planned;
  planned.program = state_;
  planned.context = context.shared_state();
  CODETTA_TRY(planned.target, driver::resolve_target(*planned.context, target));
  CODETTA_TRY(const driver::SizeSets sizes, driver::size_sets(size_hints));
  planned.hints = sizes.sets.front();
  planned.tuning = driver::load_user_tuning(*planned.context, state_->user_sources, planned.target);
  planned.times = driver::load_program_times(*planned.context, *state_, planned.target, planned.hints);
  CODETTA_TRY(const plan::Plan plan, driver::plan_of(planned));
  return plan::to_string(plan);
}

Result<ProgramShapes> Program::shapes(const std::vector<NamedArgument>& arguments) const {
  return driver::shapes_of(state_->graph, arguments);
}

Result<std::vector<ProgramInput>> Program::missing(const std::vector<NamedArgument>& given,
                                                   const std::vector<std::pair<std::string, int64_t>>& sizes,
                                                   int64_t otherwise) const {
  return driver::missing_inputs(state_->graph, given, sizes, otherwise);
}

namespace {

// What a program is for one set of sizes: planned, then loaded.
struct ForSizes {
  std::shared_ptr<driver::CompiledProgramState> state;
  package::Package package;
};

// `hints` has each symbol once.
Result<ForSizes> planned_for(std::shared_ptr<const driver::ProgramState> program,
                             std::shared_ptr<driver::ContextState> context, const Target& target,
                             const driver::SizeHints& hints, plan::Alignment alignment,
                             const driver::UserTuning& tuning, const driver::TuningRecord& times) {
  ForSizes made{std::make_shared<driver::CompiledProgramState>(), {}};
  made.state->program = std::move(program);
  made.state->context = std::move(context);
  made.state->target = target;
  made.state->hints = hints;
  made.state->alignment = alignment;
  made.state->tuning = tuning;
  made.state->times = times;
  CODETTA_TRY(made.package, driver::package_of(*made.state));
  return made;
}

// Tells of each kernel once, whichever of the sizes it is for.
driver::LoadProgress progress_of(const std::vector<ForSizes>& all,
                                 const std::function<void(const CompileProgress&)>& progress) {
  if (!progress) return {};
  if (all.size() == 1) {
    return [&progress](size_t done, size_t total, const std::string& kernel, double seconds) {
      progress({done, total, kernel, seconds});
    };
  }
  std::set<std::string> names;
  for (const ForSizes& one : all) {
    for (const package::Kernel& kernel : one.package.kernels) names.insert(kernel.name);
  }
  return [&progress, total = names.size(), told = std::set<std::string>()](size_t, size_t, const std::string& kernel,
                                                                           double seconds) mutable {
    if (!told.insert(kernel).second) return;
    progress(
        {told.size(), std::max(told.size(), total), kernel, seconds});  // on a GPU a kernel may get another's place
  };
}

// `fill_cache`: what is for another machine's GPU is compiled, too.
Result<void> load(ForSizes& one, const driver::LoadProgress& told, bool fill_cache = false) {
  const auto& state = one.state;
  package::Package package = std::move(one.package);
  if (driver::runs_on_gpu(state->target)) {
    driver::ContextState& on = *state->context;
    const bool runs = static_cast<bool>(on.check_runs(state->target));
    const bool hip = state->target.backend == Backend::hip;
    std::vector<const package::Kernel*> all;
    for (const package::Kernel& kernel : package.kernels) all.push_back(&kernel);
    if (runs || hip || fill_cache) {
      const std::vector<double> seconds = hip ? on.hip.compile_ahead(all) : on.cuda.compile_ahead(all);
      std::map<std::string, double> ahead;  // by name, as others may get the places of kernels
      for (size_t k = 0; k < all.size(); ++k) ahead.emplace(all[k]->name, seconds[k]);
      std::vector<runtime::cuda::DeviceRef> devices;
      if (runs) {  // fewer than the program has: said when it is prepared
        if (auto found = on.gpu(state->target).devices_for(state->target, package.device_count))
          devices = *std::move(found);
      }
      const auto load_one = [&](const package::Kernel& kernel, const std::vector<size_t>& places) -> Result<double> {
        const auto made = ahead.find(kernel.name);
        double spent = made != ahead.end() ? std::exchange(made->second, 0) : 0;
        if (!runs) {  // for another machine, whose cache this may be
          CODETTA_TRY(const double compiled, hip ? on.hip.compile(kernel) : on.cuda.compile(kernel));
          return spent + compiled;
        }
        std::vector<runtime::cuda::DeviceRef> where;
        for (const size_t place : places) {
          if (place < devices.size()) where.push_back(devices[place]);
        }
        if (where.empty()) where.emplace_back();  // the first one: that of steps on elements, which no launch names
        for (const runtime::cuda::DeviceRef& device : where) {
          CODETTA_TRY(const driver::LoadedGpuKernel here, on.load_on_gpu(kernel, state->target, false, device));
          spent += here.compile_seconds;
        }
        return spent;
      };
      CODETTA_TRY(package, driver::load_on_gpu(*state, std::move(package), told, load_one));
    }
  } else if (const auto supported = device_supports(state->target)) {
    CODETTA_TRY(std::vector<driver::LoadedKernel> loaded,
                state->context->load_all(package.kernels, state->target.isa, told));
    for (driver::LoadedKernel& kernel : loaded) {
      state->compile_seconds += kernel.compile_seconds;
      state->entries.push_back(std::move(kernel.entry));
    }
  } else if (fill_cache) {
    return supported;
  }
  state->package = std::make_shared<const package::Package>(std::move(package));
  return {};
}

// Of a program that is compiled for several sizes, or none: what it is for the sizes of these tensors.
Result<std::shared_ptr<const driver::CompiledProgramState>> for_sizes(
    const std::shared_ptr<const driver::CompiledProgramState>& state, const std::vector<NamedArgument>& arguments,
    bool captured) {
  if (state->for_other_sizes.empty() && state->row_symbols.empty()) return state;
  CODETTA_TRY(const ir::SymbolBindings symbols,
              ir::bind_symbols(state->program->graph, driver::bound_arguments(arguments)));
  const auto make = [&](const driver::SizeHints& hints, const driver::TuningRecord& times) {
    auto made = planned_for(state->program, state->context, state->target, hints, plan::Alignment::Hinted,
                            state->tuning, times);
    const bool differs = made && !driver::same_kernels(made->package, *state->package);
    return differs && load(*made, nullptr) ? made->state : nullptr;
  };
  if (!state->row_symbols.empty()) return driver::for_rows(state, symbols.values, captured, make);
  const size_t picked = state->taken[state->sizes.pick(symbols.values)];
  return picked == 0 ? state : state->for_other_sizes[picked - 1];
}

}  // namespace

Result<CompiledProgram> compile(const Program& program, const Target& target,
                                const std::vector<std::pair<std::string, int64_t>>& size_hints, Context& context,
                                const std::function<void(const CompileProgress&)>& progress, bool fill_cache) {
  const base::DefaultFloats floats;
  CODETTA_TRY(const Target resolved, driver::resolve_target(*context.shared_state(), target));
  return driver::compile_with(
      program, resolved, size_hints,
      driver::load_user_tuning(*context.shared_state(), Program::Access::state(program)->user_sources, resolved),
      context, progress, fill_cache);
}

static Result<std::map<uint32_t, std::string>> told_in(const driver::CompiledProgramState& state) {
  if (!driver::looks_at_temporaries(*state.package)) return std::map<uint32_t, std::string>();
  CODETTA_TRY(const ir::Graph graph, driver::graph_for(state.program->graph, state.target));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph, state.context->debug.passes));
  CODETTA_TRY(const plan::Plan plan, driver::plan_of(state));
  return driver::told_temporaries(*state.package, optimized.graph, plan);
}

// With what takes over, as in a library; tensors of a CPU's whose elements lie apart are refused.
static Result<std::string> python_module(const driver::CompiledProgramState& state) {
  using plan::Alignment;
  const bool gpu = state.target.backend == Backend::cuda;
  std::vector<package::PackageRef> all;
  std::vector<std::map<uint32_t, std::string>> told;
  for (const auto alignment :
       {Alignment::Hinted, Alignment::Proven, Alignment::Any, Alignment::Uneven, Alignment::Empty}) {
    if (!gpu && alignment != Alignment::Hinted && alignment != Alignment::Uneven) continue;
    if (alignment == Alignment::Uneven && std::none_of(all.begin(), all.end(), [](const package::PackageRef& one) {
          return package::may_be_uneven(*one);
        }))
      continue;
    if (alignment == Alignment::Empty && !package::misses_stores(*all.back())) break;
    CODETTA_TRY(ForSizes one, planned_for(state.program, state.context, state.target, state.hints, alignment,
                                          state.tuning, state.times));
    CODETTA_CHECK_OK(load(one, nullptr));  // which passes over what spills, where the device is there
    if (!all.empty() && *all.back() == *one.state->package) continue;
    all.push_back(one.state->package);
    CODETTA_TRY(told.emplace_back(), told_in(*one.state));
  }
  const package::PackageRef first = all.front();
  all.erase(all.begin());
  return driver::python_text(*state.context, *first, all, std::move(told));
}

Result<CompiledProgram> driver::compile_with(const Program& program, const Target& target, const SizeHints& size_hints,
                                             const UserTuning& tuning, Context& context,
                                             const std::function<void(const CompileProgress&)>& progress,
                                             bool fill_cache) {
  CODETTA_CHECK_OK(check_hints(Program::Access::state(program)->graph, size_hints, Hinted::ForSeveralSizes));
  CODETTA_TRY(SizeSets sizes, size_sets(size_hints));
  std::vector<ForSizes> all;
  std::vector<size_t> taken;
  for (const SizeHints& hints : sizes.sets) {
    const auto& made = Program::Access::state(program);
    const TuningRecord times = load_program_times(*context.shared_state(), *made, target, hints);
    CODETTA_TRY(ForSizes planned,
                planned_for(made, context.shared_state(), target, hints, plan::Alignment::Hinted, tuning, times));
    const auto same =
        std::find_if(all.begin(), all.end(), [&](const ForSizes& one) { return one.package == planned.package; });
    taken.push_back(static_cast<size_t>(same - all.begin()));
    if (same == all.end()) all.push_back(std::move(planned));
  }
  const LoadProgress told = progress_of(all, progress);
  for (ForSizes& one : all) CODETTA_CHECK_OK(load(one, told, fill_cache));
  const auto state = all.front().state;
  for (size_t i = 1; i < all.size(); ++i) state->for_other_sizes.push_back(all[i].state);
  state->taken = std::move(taken);
  state->row_symbols = driver::unhinted_rows(*state->program, sizes);
  state->sizes = std::move(sizes);
  return CompiledProgram::Access::make(state);
}

Result<ProgramShapes> CompiledProgram::shapes(const std::vector<NamedArgument>& arguments) const {
  return driver::shapes_of(state_->program->graph, arguments);
}

namespace {

// Where the text has the value, or the call, that gives the size its value: in the graph, or in its branches and loops.
diag::Span place_of_size(const ir::Graph& graph, std::string_view symbol) {
  for (const ir::SizeSource& source : ir::size_sources(graph).sources) {
    if (source.symbol == symbol) return graph.span(source.node);
  }
  for (size_t n = 0; n < graph.size(); ++n) {
    for (const ir::GraphRef& child : ir::children(graph.attr(ir::NodeId(n)))) {
      if (const diag::Span span = place_of_size(*child, symbol); span.known()) return span;
    }
  }
  return {};
}

// What a run has found, at the place of the value that it is about: a parameter or an output of the text, a size, or
// what the temporary "t3" holds.
Error placed_in_run(const Error& error, const driver::CompiledProgramState& state) {
  std::vector<Diagnostic> found = driver::placed(error, state.program->function).diagnostics();
  Diagnostic& first = found.front();
  const std::string temporary = first.argument;
  if (first.where.line == 0 && first.code == static_cast<uint16_t>(diag::Code::guard_failed)) {
    const ir::Graph& graph = state.program->graph;
    if (const diag::Span span = place_of_size(graph, temporary); span.known() && graph.source())
      driver::place(first, graph.source(), span);
  }
  const auto call_it = [&](const std::string& name) {
    if (first.reason.ends_with(" of " + temporary))
      first.reason.replace(first.reason.size() - temporary.size(), temporary.size(), name);
  };
  if (first.where.line != 0 || !driver::is_temporary(temporary)) return Error(std::move(found));
  const auto made = driver::graph_for(state.program->graph, state.target);
  const auto optimized = made ? opt::optimize(*made, state.context->debug.passes) : made.error();
  const auto plan = driver::plan_of(state);
  const auto place = optimized && plan ? driver::place_of_temporary(optimized->graph, *plan, temporary) : std::nullopt;
  if (!place) {
    if (temporary.find('_') != std::string::npos) call_it("a value of a branch or loop"), first.argument.clear();
    return Error(std::move(found));
  }
  driver::place(first, place->source, place->span);
  call_it(place->name.empty() ? "this value" : place->name);
  first.argument = place->name;
  return Error(std::move(found));
}

// The same program with kernels that rely on less; null where there are none, or compiling is switched off. Made once.
// `refused`: what the kernels that are there say of the tensors. E0535: within a capture (`captured`), where nothing is
// compiled.
Result<std::shared_ptr<const driver::CompiledProgramState>> less_aligned(const driver::CompiledProgramState& state,
                                                                         const std::vector<NamedArgument>& arguments,
                                                                         const Error& refused, bool captured) {
  const std::shared_ptr<const driver::CompiledProgramState> none;
  const auto alignment = driver::less_than(state, arguments);
  if (!alignment) return none;
  const std::lock_guard lock(state.less_mutex);
  const auto known = state.less_aligned.find(*alignment);
  if (known != state.less_aligned.end()) return known->second;
  if (captured && !state.context->options.no_jit) {
    const Diagnostic& why = refused.diagnostics().front();
    return diag::error(diag::Code::compile_in_capture, "kernels would have to be compiled while a stream is captured")
        .about(why.argument)
        .reason(fmt::format("those that are there do not take these tensors: {}{}{}; the capture is still valid",
                            why.headline, why.reason.empty() ? "" : ": ", why.reason))
        .help(
            "call prepare() with tensors that lie as these do before the capture begins, and run() the Execution "
            "within it");
  }
  if (captured) return none;
  auto made =
      planned_for(state.program, state.context, state.target, state.hints, *alignment, state.tuning, state.times);
  const Result<void> loaded = made ? load(*made, nullptr) : Result<void>(made.error());
  const bool switched_off = !loaded && loaded.error().code() == static_cast<uint16_t>(diag::Code::jit_disabled);
  if (!switched_off) CODETTA_CHECK_OK(loaded);
  return state.less_aligned.emplace(*alignment, switched_off ? none : made->state).first->second;
}

// Whether a step calls it: calls whose results nobody needs are gone.
bool calls(const package::Package& package, const std::string& name) {
  const auto called = [&](const package::Step& step) {
    const auto* call = std::get_if<package::CallExtern>(&step);
    return call != nullptr && call->name == name;
  };
  const auto in = [&](const package::StepList& list) { return std::any_of(list.begin(), list.end(), called); };
  return in(package.steps) || std::any_of(package.step_lists.begin(), package.step_lists.end(), in);
}

// Every function that the program calls is there. Executions ask, too, but only here its place in the text is known.
Result<void> check_externs(const ir::Graph& graph, const package::Package& package,
                           const std::vector<ExternFunction>& given) {
  for (size_t i = 0; i < graph.size(); ++i) {
    const auto node = ir::NodeId(static_cast<uint32_t>(i));
    for (const ir::GraphRef& child : ir::children(graph.attr(node)))
      CODETTA_CHECK_OK(check_externs(*child, package, given));
    const auto* call = std::get_if<ir::ExternAttr>(&graph.attr(node));
    const auto named = [&](const ExternFunction& function) {
      return function.name == call->symbol && function.function != nullptr;
    };
    if (call == nullptr || std::any_of(given.begin(), given.end(), named) || !calls(package, call->symbol)) continue;
    std::vector<std::string> names;
    for (const ExternFunction& function : given) names.push_back(function.name);
    return diag::error(diag::Code::extern_missing, fmt::format("external function {} is not provided", call->symbol))
        .at(graph.source(), graph.span(node))
        .reason(fmt::format("the program calls it; provided are: {}",
                            names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", "))))
        .help("pass a function of that name: RunOptions::externs, or build a library that takes it");
  }
  return {};
}

// `captured`: run once into a graph, so that what kernels find wrong with contents would be told to nobody.
Result<Execution> prepare_unplaced(const std::shared_ptr<const driver::CompiledProgramState>& state,
                                   const std::vector<NamedArgument>& arguments, const RunOptions& run_options,
                                   bool captured, bool& unaligned) {
  CODETTA_CHECK_OK(state->context->check_runs(state->target));
  const ir::Graph& graph = state->program->graph;
  CODETTA_CHECK_OK(ir::bind_symbols(graph, driver::bound_arguments(arguments)));
  CODETTA_TRY(runtime::Bindings bindings, driver::bind(*state->package, graph, arguments));
  CODETTA_CHECK_OK(check_externs(graph, *state->package, run_options.externs));
  std::shared_ptr<const driver::StepRecords> records;
  if (run_options.observer || run_options.starting) {
    CODETTA_TRY(const plan::Plan plan, driver::plan_of(*state));
    records = std::make_shared<const driver::StepRecords>(state->package, plan);
  }
  const auto in_text = [state](const Error& error) { return placed_in_run(error, *state); };
  if (driver::runs_on_gpu(state->target)) {
    double seconds = state->compile_seconds;
    driver::GpuPreparation how{.checked = run_options.checked,
                               .contents = !captured,
                               .graph = run_options.graph && !captured,
                               .unaligned = &unaligned};
    for (const ExternFunction& external : run_options.externs)
      how.outside.externs.push_back({external.name, external.function, external.context});
    if (run_options.observer) how.observer = driver::gpu_observer(records, run_options.observer, run_options.observed);
    CODETTA_TRY(runtime::cuda::Execution execution, driver::prepare_gpu(*state->context, state->package, state->target,
                                                                        std::move(bindings), seconds, std::move(how)));
    return driver::ExecutionState::make(std::move(execution), state, state->package, seconds, in_text);
  }
  runtime::ExecutionOptions options;
  options.pool = state->context->pool;
  options.allocator = state->context->allocator;
  options.checked = run_options.checked;
  options.unaligned = &unaligned;
  if (run_options.starting) {
    options.starting = [records, starting = run_options.starting](const package::Step& step) {
      return starting(records->started(step));
    };
  }
  if (run_options.observer) {
    options.observer = [records, observer = run_options.observer](const runtime::StepEvent& event) {
      return observer(records->record(event));
    };
  }
  for (const ExternFunction& external : run_options.externs)
    options.externs.push_back({external.name, external.function, external.context});
  CODETTA_TRY(runtime::Execution execution,
              runtime::Execution::make(state->package, state->entries, std::move(bindings), options));
  return driver::ExecutionState::make(std::move(execution), state, state->package, state->compile_seconds, in_text);
}

Result<Execution> prepare(const std::shared_ptr<const driver::CompiledProgramState>& compiled,
                          const std::vector<NamedArgument>& arguments, const RunOptions& options, bool captured) {
  auto state = for_sizes(compiled, arguments, captured);
  if (!state) return driver::placed(state.error(), compiled->program->function);
  bool unaligned = false;
  auto execution = prepare_unplaced(*state, arguments, options, captured, unaligned);
  bool few = !compiled->row_symbols.empty() && *state != compiled;  // for which the usual kernels take over first
  // Within a capture nothing is compiled, and what is compiled by then is taken.
  while (!execution && unaligned) {
    if (std::exchange(few, false)) {
      *state = compiled;
    } else {
      auto less = less_aligned(**state, arguments, execution.error(), captured);
      if (!less) return driver::placed(less.error(), compiled->program->function);
      if (*less == nullptr) break;
      *state = *less;
    }
    unaligned = false;
    auto other = prepare_unplaced(*state, arguments, options, captured, unaligned);
    if (other || !unaligned) execution = std::move(other);
  }
  if (!execution) return driver::placed(execution.error(), compiled->program->function);
  for (const ir::GraphInput& input : compiled->program->graph.inputs()) {
    if (!input.donated) continue;
    for (const NamedArgument& argument : arguments) {
      if (argument.name == input.name && argument.value.tensor() != nullptr)
        driver::ExecutionState::donates(*execution, input.name, *argument.value.tensor());
    }
  }
  return execution;
}

}  // namespace

Result<Execution> CompiledProgram::prepare(const std::vector<NamedArgument>& arguments,
                                           const RunOptions& options) const {
  const base::DefaultFloats floats;
  return codetta::prepare(state_, arguments, options, false);
}

Result<void> CompiledProgram::run(const std::vector<NamedArgument>& arguments, Stream stream,
                                  const RunOptions& options) const {
  const base::DefaultFloats floats;
  if (!driver::runs_on_gpu(state_->target)) {
    CODETTA_TRY(Execution execution, prepare(arguments, options));
    return execution.run(stream);
  }
  CODETTA_TRY(const driver::OneRun once, driver::OneRun::make(*state_->context, state_->target, stream));
  RunOptions of_one_run = options;
  of_one_run.graph = false;
  CODETTA_TRY(Execution execution, codetta::prepare(state_, arguments, of_one_run, once.capturing));
  return once.run(execution);
}

Result<std::string> CompiledProgram::html_report() const {
  const base::DefaultFloats floats;
  CODETTA_TRY(const ir::Graph graph, driver::graph_for(state_->program->graph, state_->target));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph, state_->context->debug.passes));
  CODETTA_TRY(const plan::Plan plan, driver::plan_of(*state_));
  CODETTA_TRY(const std::string source, emit(Stage::Source));
  const plan::EmittedKernels emitted =
      driver::emitted_kernels(*state_->package, driver::kernels_of(plan, *state_->package));
  const driver::Roofline roofline = driver::roofline(plan, state_->context->machine(state_->target), state_->hints);
  const driver::WorkspaceReport workspace =
      driver::workspace_report(plan, *state_->package, state_->hints, *state_->context);
  return driver::program_page(state_->program->function, state_->program->graph, optimized, plan, workspace, roofline,
                              source, plan::explain_text(plan, state_->program->function.name, emitted, state_->hints));
}

Result<std::string> CompiledProgram::emit(Stage stage) const {
  const base::DefaultFloats floats;
  switch (stage) {
    case Stage::Ast:
    case Stage::Graph:
      return driver::emit_program(*state_->program, stage);
    case Stage::Plan: {
      CODETTA_TRY(const plan::Plan plan, driver::plan_of(*state_));
      return plan::to_string(plan);
    }
    case Stage::Memory: {
      CODETTA_TRY(const plan::Plan plan, driver::plan_of(*state_));
      return driver::memory_text(plan,
                                 driver::workspace_report(plan, *state_->package, state_->hints, *state_->context));
    }
    case Stage::Source: {
      CODETTA_TRY(const plan::Plan plan, driver::plan_of(*state_));
      return driver::source_listing(plan, *state_->package);
    }
    case Stage::Manifest:
      return state_->package->manifest_json();
    case Stage::Python:
      return python_module(*state_);
    case Stage::Host: {
      BuildOptions options;
      options.name = state_->program->function.name;
      options.size_hints = state_->sizes.hints;
      options.programs_by_size = 1;  // as compile() makes it
      return driver::library_text({Program::Access::make(state_->program)}, state_->target, options, *state_->context);
    }
    case Stage::Asm:
    case Stage::Ptx:
    case Stage::Sass:
      return driver::code_listing(*state_->context, *state_->package, stage);
  }
  return std::string();  // all are above
}

}  // namespace codetta
