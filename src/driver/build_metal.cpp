// SPDX-License-Identifier: Apache-2.0
#include "driver/build_metal.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "base/files.hpp"
#include "codetta/version.hpp"
#include "driver/build_id.hpp"
#include "driver/build_plan.hpp"
#include "driver/program_arguments.hpp"
#include "driver/program_state.hpp"
#include "emit/package.hpp"
#include "opt/passes.hpp"

namespace codetta::driver {

namespace {

// "out/digits/" -> "digits".
std::string folder_name(std::string path) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Result<std::vector<emit::host::File>> metal_files(const std::vector<Program>& programs, const Target& target,
                                                  const BuildOptions& options, ContextState& context) {
  if (programs.empty() || !options.constants.empty() || !options.weights.empty()) {
    return diag::error(diag::Code::host_feature,
                       programs.empty() ? "no program is given" : "libraries for Metal carry no constants")
        .reason(programs.empty() ? "a library has a function for each"
                                 : "their tensors lie in buffers of the caller's device")
        .help(programs.empty() ? "pass at least one" : "leave them parameters, and pass buffers");
  }
  if (options.tune_seconds > 0) {
    return diag::error(diag::Code::host_feature, "libraries for a GPU are not tuned while they are built")
        .reason("kernels for Metal run on a Mac alone")
        .help("leave out --tune: the cost model decides for the hinted sizes");
  }
  if (!options.header.empty() || !options.manifest.empty()) {
    return diag::error(diag::Code::host_feature, "the files of a library for Metal lie in one folder")
        .reason((options.header.empty() ? "a manifest" : "a header") + std::string(" elsewhere is asked for"))
        .help("leave out its path; the output names the folder");
  }
  CODETTA_CHECK_OK(check_hints(programs, options.size_hints));
  emit::host::Library library;
  library.name = options.name.empty() ? folder_name(options.output) : options.name;
  library.target = target;
  library.version = version();
  library.checked = options.checks;
  for (const Program& one : programs) {
    const ProgramState& state = *Program::Access::state(one);
    CODETTA_TRY(const opt::Optimized optimized, opt::optimize(state.graph));
    CODETTA_TRY(const plan::Plan plan, plan::plan_program(optimized.graph, target, context.machine(target),
                                                          options.size_hints, state.user_sources));
    CODETTA_TRY(package::Package package,
                emit::emit_package(plan, {.name = state.function.name, .build_id = build_id(), .origins = true}));
    emit::host::Program program;
    program.function = state.function.name;
    program.package = std::make_shared<const package::Package>(std::move(package));
    library.programs.push_back(std::move(program));
  }
  CODETTA_CHECK_OK(emit::host::check_metal_library(library));
  return emit::host::print_metal(library);
}

Result<BuildReport> build_metal(const std::vector<Program>& programs, const Target& target, const BuildOptions& options,
                                ContextState& context) {
  const auto start = std::chrono::steady_clock::now();
  CODETTA_TRY(const std::vector<emit::host::File> files, metal_files(programs, target, options, context));
  if (options.output.empty()) return unwritable("the library", "it names no folder");
  if (options.before_writing) {
    std::vector<std::pair<std::string, std::string>> places;
    for (const emit::host::File& file : files) places.emplace_back(file.name, options.output + "/" + file.name);
    CODETTA_CHECK_OK(options.before_writing(places, true));
  }
  if (::mkdir(options.output.c_str(), 0777) != 0 && errno != EEXIST)
    return unwritable(options.output, std::strerror(errno));
  BuildReport report;
  for (const emit::host::File& file : files) {
    const std::string path = options.output + "/" + file.name;
    base::WriteOptions how;
    how.mode = file.name.ends_with(".sh") ? 0777 : 0666;
    if (const auto written = base::write_file_atomically(path, file.text, how); !written)
      return unwritable(path, written.error().message());
    report.bytes += static_cast<int64_t>(file.text.size());
    if (file.name.ends_with(".mm")) report.library = path;
    if (file.name.ends_with(".h")) report.header = path;
    if (file.name.ends_with(".sh")) report.manifest = path;
    if (file.name.ends_with(".metal")) report.kernels.push_back(file.name.substr(0, file.name.size() - 6));
  }
  const std::string name = options.name.empty() ? folder_name(options.output) : options.name;
  for (const Program& one : programs)
    report.functions.push_back(name + "_" + Program::Access::state(one)->function.name);
  if (options.progress) options.progress("on a Mac with Xcode: cd " + options.output + " && sh build.sh");
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace codetta::driver
