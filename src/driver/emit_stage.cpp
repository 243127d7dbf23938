// SPDX-License-Identifier: Apache-2.0
// What emit() shows of a kernel, stage by stage.
#include <fmt/format.h>

#include "base/default_floats.hpp"
#include "codetta/memory.hpp"
#include "driver/compiler_help.hpp"
#include "driver/kernel_state.hpp"
#include "driver/program_kernels.hpp"
#include "emit/package.hpp"
#include "frontend/parser.hpp"
#include "package/image.hpp"
#include "toolchain/disassemble.hpp"

namespace codetta {
namespace {

Error library_code(const std::string& kernel) {
  return diag::error(diag::Code::stage_missing, "a kernel of the vendor's library has no source")
      .reason(kernel + " is computed by cuBLASLt, whose code is not shown")
      .help("ask for ast, graph, plan, memory or manifest, or for another kernel");
}

std::string_view extension_of(Backend backend) {
  return backend == Backend::cuda    ? ".cu"
         : backend == Backend::hip   ? ".hip"
         : backend == Backend::metal ? ".metal"
                                     : ".cpp";
}

Result<std::string> sass_of(driver::ContextState& context, const package::Kernel& kernel) {
  const toolchain::DisassembleOptions options{.path = context.path, .cuda_home = context.options.cuda_home};
  CODETTA_CHECK_OK(toolchain::find_disassembler(options));  // before anything is compiled for it
  CODETTA_TRY(const driver::GpuBinary binary, context.cuda.binary(kernel));
  std::string text;
  for (const std::string_view cubin : package::files_of(binary.image)) {
    CODETTA_TRY(const std::string part, toolchain::disassemble(cubin, options));
    text += part;
  }
  return text;
}

Result<std::string> assembly_of(driver::ContextState& context, const Target& target, const package::Kernel& kernel) {
  if (package::is_vendor(kernel.config)) return library_code(kernel.name);
  if (target.backend == Backend::cuda) return context.cuda.ptx(kernel);
  if (target.backend == Backend::metal) {
    return diag::error(diag::Code::stage_missing, "a Metal kernel has no assembly here")
        .reason("only Apple's compiler makes it, on macOS")
        .help("ask for the source, and compile it there: xcrun -sdk macosx metal -S x.metal");
  }
  if (target.backend == Backend::hip) return context.hip.assembly(kernel);
  if (kernel.source.empty()) return std::string("; the kernel stores the accumulators itself: nothing is compiled\n");
  const ContextOptions& options = context.options;
  if (options.no_compiler || options.no_jit) {
    return diag::error(diag::Code::jit_disabled, options.no_jit ? "compiling at run time is switched off"
                                                                : "the use of compilers is switched off")
        .reason("assembly is what the compiler makes of the emitted source")
        .help(options.no_jit ? "leave out `no_jit` and CODETTA_NO_JIT, or ask for the source"
                             : "leave out `no_compiler`, or ask for the source");
  }
  const auto& compiler = context.compiler();
  if (!compiler) return driver::without_compiler(compiler.error(), "or ask for the source, which needs none");
  const auto& flags = compiler->kind == toolchain::CompilerKind::Clang ? kernel.clang_flags : kernel.gcc_flags;
  return toolchain::assembly(*compiler, {kernel.source, flags, kernel.name}, context.compile_options());
}

// PTX, SASS or assembly of one kernel.
Result<std::string> code_of(driver::ContextState& context, const Target& target, const package::Kernel& kernel,
                            Stage stage) {
  if (stage == Stage::Asm) return assembly_of(context, target, kernel);
  if (target.backend != Backend::cuda) {
    return diag::error(diag::Code::stage_missing, "only CUDA kernels have this stage")
        .reason("the kernel is for " + target.to_string())
        .help(fmt::format("ask for {}, or name a target such as cuda:sm_90a",
                          target.backend == Backend::metal ? "source" : "asm"));
  }
  if (package::is_vendor(kernel.config)) return library_code(kernel.name);
  return stage == Stage::Ptx ? context.cuda.ptx(kernel) : sass_of(context, kernel);
}

std::string_view stages_of(Backend backend) {
  switch (backend) {
    case Backend::cuda:
      return "ast, graph, plan, memory, source, asm, ptx, sass or manifest";
    case Backend::metal:
      return "ast, graph, plan, memory, source or manifest";
    default:
      return "ast, graph, plan, memory, source, asm or manifest";
  }
}

}  // namespace

namespace driver {

Result<std::string> code_listing(ContextState& context, const package::Package& package, Stage stage) {
  std::string text;
  for (const package::Kernel& kernel : package.kernels) {
    CODETTA_TRY(const std::string code, code_of(context, package.target, kernel, stage));
    text += fmt::format("// ---- {} ----\n{}", kernel.name, code);
    if (!text.ends_with('\n')) text += '\n';
  }
  return text;
}

}  // namespace driver

Result<std::string> Kernel::emit(Stage stage) const {
  const base::DefaultFloats floats;
  if (!state_) return driver::nothing_held("kernel", "find_kernels");
  const driver::FoundState& found = *state_->found;
  switch (stage) {
    case Stage::Ast: {
      CODETTA_TRY(const frontend::ast::Module module, frontend::parse_text(found.problem.function->source));
      return frontend::ast::print_ast(module);
    }
    case Stage::Graph: {
      CODETTA_TRY(const driver::Planned* planned, found.planned());
      return ir::print(planned->graph);
    }
    case Stage::Plan: {
      CODETTA_TRY(const driver::Planned* planned, found.planned());
      return plan::to_string(planned->plan);
    }
    case Stage::Memory: {
      return memory_report(*this);
    }
    case Stage::Source: {
      CODETTA_TRY(const package::PackageRef package, state_->package());
      if (package::is_vendor(package->kernels[0].config)) return library_code(package->kernels[0].name);
      const std::string& source = package->kernels[0].source;
      return source.empty() ? std::string("// the kernel stores the accumulators itself: nothing is compiled\n")
                            : source;
    }
    case Stage::Manifest: {
      CODETTA_TRY(const package::PackageRef package, state_->package());
      return package->manifest_json();
    }
    case Stage::Asm:
    case Stage::Ptx:
    case Stage::Sass: {
      CODETTA_TRY(const package::PackageRef package, state_->package());
      return code_of(*found.context, found.target, package->kernels[0], stage);
    }
    case Stage::Host:
    case Stage::Python:
      break;
  }
  const Backend backend = found.target.backend;
  if (stage != Stage::Host && stage != Stage::Python) {  // casts make enums of anything
    return diag::error(diag::Code::stage_missing,
                       fmt::format("stage number {} does not exist", static_cast<int>(stage)))
        .reason("it is none of the enum codetta::Stage")
        .help(fmt::format("ask for {}", stages_of(backend)));
  }
  return diag::error(diag::Code::stage_missing, backend == Backend::cpu ? "a CPU kernel has no host code of its own"
                                                                        : "a GPU kernel has no host code of its own")
      .reason(std::string(backend == Backend::metal ? "" : "it runs in this process; ") +
              "host code is of programs, which `codetta build` makes libraries of")
      .help(fmt::format("ask for {}", stages_of(backend)));
}

Result<std::string> Kernel::source_path() const {
  if (!state_) return driver::nothing_held("kernel", "find_kernels");
  CODETTA_TRY(const package::PackageRef package, state_->package());
  driver::ContextState& context = *state_->found->context;
  const package::Kernel& kernel = package->kernels[0];
  if (!context.cache->enabled()) {
    return diag::error(diag::Code::cache_unavailable, "the emitted source has no place to lie: the cache is off")
        .reason(context.cache->warning())
        .help("set CODETTA_CACHE_DIR to a folder that you own");
  }
  const std::string text =
      kernel.source.empty() ? std::string("// the kernel stores the accumulators itself\n") : kernel.source;
  const std::string name = kernel.name + std::string(extension_of(state_->found->target.backend));
  if (auto path = context.cache->keep_source(name, text)) return *std::move(path);
  return diag::error(diag::Code::cache_unavailable, "the emitted source cannot be written")
      .in_file(context.cache->directory())
      .reason(context.options.cache_read_only ? "the cache is read-only" : context.cache->warning())
      .help("use a cache folder that can be written, or emit the source with `codetta emit`");
}

}  // namespace codetta
