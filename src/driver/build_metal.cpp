// SPDX-License-Identifier: Apache-2.0
#include "driver/build_metal.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "base/files.hpp"
#include "codetta/version.hpp"
#include "driver/build_constants.hpp"
#include "driver/build_id.hpp"
#include "driver/build_plan.hpp"
#include "driver/program_arguments.hpp"
#include "driver/program_state.hpp"
#include "emit/package.hpp"
#include "opt/passes.hpp"
#include "package/gpu_call.hpp"
#include "runtime/io/safetensors.hpp"

namespace codetta::driver {

namespace {

// "out/digits/" -> "digits", and so is "out/libdigits.dylib", which would be a library's file.
std::string folder_name(std::string path) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  std::string name = path.substr(path.rfind('/') + 1);
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return name;
  return name.substr(0, dot).substr(name.starts_with("lib") && dot > 3 ? 3 : 0);
}

}  // namespace

Result<std::vector<emit::host::File>> metal_files(const std::vector<Program>& programs, const Target& target,
                                                  const BuildOptions& options, ContextState& context) {
  if (programs.empty()) {
    return diag::error(diag::Code::host_feature, "no program is given")
        .reason("a library has a function for each")
        .help("pass at least one");
  }
  if (options.tune_seconds > 0) {
    return diag::error(diag::Code::host_feature, "libraries for a GPU are not tuned while they are built")
        .reason("kernels for Metal run on a Mac alone")
        .help("leave out --tune: the cost model decides for the hinted sizes");
  }
  if (options.programs_by_size > 1) {
    return diag::error(diag::Code::host_feature, "libraries for Metal have one program of a function")
        .reason(fmt::format("{} are asked for, each for other sizes", options.programs_by_size))
        .help("leave out --by-size (programs_by_size), and say with --hint which sizes kernels are chosen for");
  }
  if (!options.benchmark.empty()) {
    return diag::error(diag::Code::host_feature, "libraries for Metal come without a benchmark")
        .reason("their tensors are buffers of Metal, which a program in Python does not reach")
        .help("leave it out");
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
  CODETTA_TRY(const ConstantValues values, constant_values(options));
  if (!values.external.empty()) library.weights_file = options.weights.substr(options.weights.rfind('/') + 1);
  for (const Program& one : programs) {
    const ProgramState& state = *Program::Access::state(one);
    CODETTA_TRY(auto hints, constant_hints(state.graph, values));
    hints.insert(hints.end(), options.size_hints.begin(), options.size_hints.end());
    CODETTA_TRY(const opt::Optimized optimized, opt::optimize(state.graph));
    const auto packed = [&](plan::Alignment alignment) -> Result<package::PackageRef> {
      CODETTA_TRY(const plan::Plan plan, plan::plan_program(optimized.graph, target, context.machine(target), hints,
                                                            state.user_sources, alignment, state.numerics));
      CODETTA_TRY(package::Package package,
                  emit::emit_package(plan, {.name = state.function.name, .build_id = build_id(), .origins = true}));
      return std::make_shared<const package::Package>(std::move(package));
    };
    const size_t first = library.programs.size();
    CODETTA_TRY(package::PackageRef hinted, packed(plan::Alignment::Hinted));
    const bool misses = package::misses_stores(*hinted);
    library.programs.push_back({.function = state.function.name, .package = std::move(hinted)});
    if (!misses) continue;
    // Tensors are row-major: sizes of 0 alone ask for other kernels.
    CODETTA_TRY(package::PackageRef empty, packed(plan::Alignment::Empty));
    library.programs.push_back({.function = state.function.name, .package = std::move(empty)});
    library.by_size.push_back(
        {.first = first, .count = 2, .axes = {}, .chosen = {0}, .less_aligned = {1}, .when_empty = {1}});
  }
  CODETTA_CHECK_OK(check_used(values, options, library.programs));
  EmbeddedBytes bytes;
  for (emit::host::Program& program : library.programs)
    CODETTA_CHECK_OK(bind_constants(program, values, bytes, *context.pool));
  if (!bytes.contents().empty()) library.carried_file = library.name + ".constants.safetensors";
  if (!library.carried_file.empty() && library.carried_file == library.weights_file)
    return unwritable(library.carried_file, "the weights, which stay outside, have that name, too");
  CODETTA_CHECK_OK(emit::host::check_metal_library(library));
  std::vector<emit::host::File> files = emit::host::print_metal(library);
  if (!library.carried_file.empty()) {
    std::vector<std::pair<std::string, TensorView>> tensors;
    for (size_t i = 0; i < bytes.contents().size(); ++i) {
      const std::string& one = bytes.contents()[i];
      CODETTA_TRY(const TensorView view,
                  TensorView::make(const_cast<char*>(one.data()), DType::u8, {static_cast<int64_t>(one.size())}));
      tensors.emplace_back(EmbeddedBytes::symbol(i), view);
    }
    CODETTA_TRY(std::string text, runtime::io::safetensors_bytes(library.carried_file, tensors));
    files.push_back({library.carried_file, std::move(text)});
  }
  return files;
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
