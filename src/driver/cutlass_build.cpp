// SPDX-License-Identifier: Apache-2.0
// build_cutlass: an emitted translation unit, compiled with the caller's CUTLASS and CUDA toolkit, with its header.
#include <chrono>

#include <fmt/format.h>

#include "base/files.hpp"
#include "codetta/evt.hpp"
#include "driver/build_plan.hpp"
#include "driver/context.hpp"
#include "driver/environment.hpp"
#include "toolchain/nvcc.hpp"

namespace codetta {
namespace {

// "out/libdigits.so.1" -> "digits".
std::string public_name_of(const std::string& output) {
  std::string name = output.substr(output.rfind('/') + 1);
  if (name.starts_with("lib")) name = name.substr(3);
  return name.substr(0, name.find('.'));
}

}  // namespace

Result<std::string> cutlass_version(const std::string& folder) {
  const std::string where = folder.empty() ? driver::cutlass_directory() : folder;
  if (where.empty()) return std::string();
  CODETTA_TRY(toolchain::CutlassHeaders headers, toolchain::find_cutlass(where, 402, 407));
  return std::move(headers.version);
}

Result<CutlassReport> build_cutlass(const GemmArguments& arguments, const EvtOptions& options,
                                    const CutlassBuild& build, Context& context) {
  const auto start = std::chrono::steady_clock::now();
  const driver::ContextState& state = *context.shared_state();
  if (state.options.no_jit || state.options.no_compiler) {
    return diag::error(diag::Code::jit_disabled, "compiling is switched off")
        .reason("a library is compiled")
        .help(state.options.no_jit ? "leave out `no_jit` and CODETTA_NO_JIT for builds"
                                   : "leave out `no_compiler` for builds");
  }
  const std::string name = build.name.empty() ? public_name_of(build.output) : build.name;
  CutlassReport report;
  report.library = build.output;
  const size_t slash = build.output.rfind('/');
  report.header = (slash == std::string::npos ? "" : build.output.substr(0, slash + 1)) + name + ".h";
  const std::vector<std::pair<std::string, std::string>> places{{"the library", report.library},
                                                                {"the header", report.header}};
  if (build.before_writing) CODETTA_CHECK_OK(build.before_writing(places, false));
  CODETTA_CHECK_OK(driver::check_writable(report.library, {report.header}));
  // What is wrong with the problem is told before what this machine lacks. What is left open is the best candidate's.
  CODETTA_TRY(const CutlassKernels found, find_cutlass_kernels(arguments, options, context));
  const CutlassKernel& best = found.kernels.front();
  CODETTA_TRY(const CutlassSource source, emit_cutlass(arguments, best.options, name));
  const std::string folder = build.cutlass_dir.empty() ? driver::cutlass_directory() : build.cutlass_dir;
  CODETTA_TRY(const toolchain::CutlassHeaders headers, toolchain::find_cutlass(folder, 402, 407));
  toolchain::NvccOptions nvcc{state.options.cuda_home, state.path, state.library_path,
                              std::max(600.0, state.options.compile_timeout_seconds), state.options.cancel};
  CODETTA_TRY(const std::string compiler, toolchain::find_nvcc(nvcc));
  CODETTA_TRY(const std::string bytes,
              toolchain::compile_cutlass(compiler, headers, source.source, source.flags, nvcc));
  report.version = headers.version;
  report.kernel = best.metadata.name;
  report.bytes = static_cast<int64_t>(bytes.size());
  if (build.before_writing) CODETTA_CHECK_OK(build.before_writing(places, true));
  const base::FileBytes files[] = {{report.header, source.header}, {report.library, bytes, 0777}};
  if (const auto written = base::write_files_atomically(files); !written)
    return driver::unwritable(written.error().path, written.error().message());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace codetta
