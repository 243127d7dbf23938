// SPDX-License-Identifier: Apache-2.0
// A program as a Python module, with its compiled kernels inside.
#include <unistd.h>

#include "codetta/build.hpp"
#include "driver/build_plan.hpp"
#include "driver/compiler_help.hpp"
#include "driver/program_kernels.hpp"
#include "emit/host/python.hpp"
#include "toolchain/compiler.hpp"

namespace codetta::driver {

namespace {

Result<std::string> code_for_module(ContextState& context, const package::Package& package,
                                    const package::Kernel& kernel) {
  if (package.target.backend == Backend::cuda) {
    CODETTA_TRY(GpuBinary binary, context.cuda.binary(kernel));
    return std::move(binary.image);
  }
  if (kernel.source.empty()) return std::string();  // the engine stores the accumulators itself
  const auto& compiler = context.compiler();
  if (!compiler)
    return without_compiler(compiler.error(), "the host text in C++ (`--what=host`) and the source take none");
  const bool clang = compiler->kind == toolchain::CompilerKind::Clang;
  const toolchain::CompileJob job{kernel.source, clang ? kernel.clang_flags : kernel.gcc_flags, kernel.name};
  CODETTA_TRY(toolchain::CompileOutput made, toolchain::compile(*compiler, job, context.compile_options()));
  return std::move(made.object);
}

}  // namespace

Result<std::string> python_text(ContextState& context, const package::Package& package,
                                const std::vector<package::PackageRef>& takes_over,
                                std::vector<std::map<uint32_t, std::string>> told) {
  emit::host::PythonOptions options;
  options.told = std::move(told);
  std::vector<package::Package> all{package};
  for (const package::PackageRef& one : takes_over) all.push_back(*one);
  for (size_t i = 1; i < all.size(); ++i) options.takes_over.push_back(&all[i]);
  // What this backend lacks is said before anything is compiled.
  for (package::Package& one : all) {
    for (package::Kernel& kernel : one.kernels) kernel.binary = "not yet";
  }
  CODETTA_CHECK_OK(emit::host::emit_python(all.front(), options));
  if (context.options.no_jit || context.options.no_compiler) {
    return diag::error(diag::Code::jit_disabled, "compiling is switched off")
        .reason("a module carries compiled kernels")
        .help(context.options.no_jit ? "leave out `no_jit` and CODETTA_NO_JIT" : "leave out `no_compiler`");
  }
  for (package::Package& one : all) {
    for (package::Kernel& kernel : one.kernels) {
      CODETTA_TRY(kernel.binary, code_for_module(context, one, kernel));
    }
  }
  const std::string engine = engine_folder({}) + "/libcodetta_host.so";
  if (::access(engine.c_str(), R_OK) == 0) options.engine = engine;
  return emit::host::emit_python(all.front(), options);
}

}  // namespace codetta::driver
