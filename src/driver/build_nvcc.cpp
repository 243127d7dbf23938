// SPDX-License-Identifier: Apache-2.0
#include "driver/build_nvcc.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "diag/diagnostic.hpp"
#include "driver/output_folder.hpp"
#include "driver/size_defaults.hpp"
#include "emit/host/nvcc.hpp"
#include "emit/host/signature.hpp"
#include "toolchain/nvrtc.hpp"

namespace codetta::driver {

namespace {

// What the texts include of device/ and of the engine, directly or through others.
void add_headers(NvccFolder& folder) {
  std::vector<std::string> paths;
  std::vector<toolchain::CudaHeader> headers;
  for (const device::EmbeddedFile& file : device::files()) paths.push_back("device/" + std::string(file.path));
  for (size_t i = 0; i < paths.size(); ++i)
    headers.push_back({paths[i], device::files()[i].text, device::files()[i].digest_hex});
  std::string all;
  for (const auto& [name, text] : folder.files) {
    if (name.ends_with(".cpp") || name.ends_with(".cu") || name.ends_with("_steps.h")) all += text + "\n";
  }
  for (const toolchain::CudaHeader& header : toolchain::included_headers(all, headers))
    folder.files[std::string(header.path)] = header.text;
}

}  // namespace

Result<LibraryPlan> judged_plan(const std::vector<Program>& programs, const Target& target, const BuildOptions& options,
                                Context& context) {
  ContextState& state = *context.shared_state();
  auto planned = plan_library(programs, target, options, state, !state.options.no_jit, true, &context);
  if (planned || planned.error().code() != static_cast<uint16_t>(diag::Code::cuda_compiler_missing)) return planned;
  if (options.progress) options.progress("there is no NVRTC: kernels are not looked at for spilled registers");
  return plan_library(programs, target, options, state, false, true, &context);
}

Result<void> check_form(const Target& target, const BuildOptions& options) {
  CODETTA_CHECK_OK(check_programs_by_size(options.programs_by_size));
  if (options.form == BuildForm::Library || target.backend == Backend::cuda) return {};
  const char* const compiler = options.form == BuildForm::Nvcc ? "nvcc" : "NVRTC";
  return diag::error(diag::Code::host_feature,
                     fmt::format("there are no sources for {} for {}", compiler, target.to_string()))
      .reason(fmt::format("{} compiles for NVIDIA GPUs", compiler))
      .help("choose --target cuda:sm_90a, ..., or leave out the form");
}

NvccFolder nvcc_folder(LibraryPlan planned) {
  NvccFolder folder;
  folder.name = planned.host.name;
  folder.library = "lib" + folder.name + ".so";
  std::vector<emit::host::NvccUnit> units = emit::host::print_nvcc_kernels(planned.host);
  for (const emit::host::NvccUnit& unit : units) folder.kernels.push_back(unit.file.substr(0, unit.file.size() - 3));
  toolchain::LibraryJob constants;
  planned.bytes.add_to(constants);
  std::set<std::string> taken;
  const auto add = [&](std::string file, std::string text, std::vector<std::string> flags) {
    const std::string stem = file.substr(0, file.rfind('.'));
    for (int i = 2; !taken.insert(file).second; ++i) file = fmt::format("{}_{}.cpp", stem, i);
    units.push_back({std::move(file), std::move(text), std::move(flags)});
  };
  for (emit::host::File& file : emit::host::print_cpp(planned.host)) {
    if (file.is_header()) {
      folder.files[file.name] = std::move(file.text);
    } else {
      add(std::move(file.name), std::move(file.text), emit::host::nvcc_host_flags(true));
    }
  }
  for (const toolchain::CompileJob& unit : constants.units)
    add(folder.name + "_constants.cpp", unit.source, emit::host::nvcc_host_flags(true));
  for (const toolchain::LibraryFile& file : constants.files) folder.files[file.path] = file.bytes;
  for (const device::EmbeddedFile& file : device::engine_values()) {
    if (file.path.ends_with(".cpp")) {
      add(std::string(file.path), std::string(file.text), emit::host::nvcc_host_flags(false));
    } else {
      folder.files[std::string(file.path)] = file.text;
    }
  }
  for (const emit::host::NvccUnit& unit : units) folder.files[unit.file] = unit.text;
  add_headers(folder);
  folder.files[folder.name + ".h"] = emit::host::print_header(planned.host);
  folder.files[folder.name + ".map"] = emit::host::print_exports(planned.host);
  folder.files["build.sh"] = emit::host::nvcc_script(planned.host, units, folder.library);
  for (const size_t first : emit::host::functions_of(planned.host))
    folder.functions.push_back(emit::host::function_name(planned.host, planned.host.programs[first]));

  using Json = nlohmann::ordered_json;
  Json manifest = Json::parse(emit::host::print_manifest(planned.host));
  for (const auto& [function, tuned] : planned.tuning) manifest["tuning"][function] = Json::parse(tuned);
  manifest["nvcc"]["sources"] = Json::array();
  for (const emit::host::NvccUnit& unit : units)
    manifest["nvcc"]["sources"].push_back({{"file", unit.file}, {"flags", unit.flags}});
  manifest["nvcc"]["include"] = ".";
  manifest["nvcc"]["link"] = emit::host::nvcc_link_flags(planned.host, folder.library);
  for (const auto& [name, text] : folder.files) manifest["nvcc"]["files"].push_back(name);
  folder.files[folder.name + ".json"] = manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return folder;
}

Result<BuildReport> build_nvcc(const std::vector<Program>& programs, const Target& target, const BuildOptions& options,
                               Context& context) {
  const auto start = std::chrono::steady_clock::now();
  if (!options.header.empty() || !options.manifest.empty()) {
    return diag::error(diag::Code::host_feature, "the sources for nvcc lie in one folder")
        .reason((options.header.empty() ? "a manifest" : "a header") + std::string(" elsewhere is asked for"))
        .help("leave out its path; the output names the folder");
  }
  if (!options.benchmark.empty()) {
    return diag::error(diag::Code::host_feature, "sources for nvcc come without a benchmark")
        .reason("it times a library that is there")
        .help("leave out the benchmark, or the form");
  }
  CODETTA_CHECK_OK(check_folder(options.output, "the folder of sources"));
  BuildOptions named = options;  // by the folder
  while (named.output.size() > 1 && named.output.back() == '/') named.output.pop_back();
  CODETTA_TRY(LibraryPlan planned, judged_plan(programs, target, named, context));
  BuildReport report;
  report.sizes = planned.sizes;
  NvccFolder folder = nvcc_folder(std::move(planned));
  if (options.before_writing) {
    std::vector<std::pair<std::string, std::string>> places;
    for (const auto& [name, text] : folder.files) places.emplace_back(name, options.output + "/" + name);
    CODETTA_CHECK_OK(options.before_writing(places, true));
  }
  CODETTA_CHECK_OK(write_folder(options.output, folder.files));
  const std::string below = options.output + (options.output.back() == '/' ? "" : "/");
  report.library = below + folder.library;
  report.header = below + folder.name + ".h";
  report.manifest = below + folder.name + ".json";
  for (const auto& [name, text] : folder.files) report.bytes += static_cast<int64_t>(text.size());
  report.functions = std::move(folder.functions);
  report.kernels = std::move(folder.kernels);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace codetta::driver
