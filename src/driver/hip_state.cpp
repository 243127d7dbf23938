// SPDX-License-Identifier: Apache-2.0
// Compiling of HIP kernels for a context.
#include "driver/hip_state.hpp"

#include <fmt/format.h>

#include "device/embedded.hpp"
#include "device/gpu/abi.h"
#include "diag/diagnostic.hpp"
#include "driver/context.hpp"
#include "plan/families_hip.hpp"

namespace codetta::driver {

Result<Target> HipState::resolve(const Target& target) {
  if (plan::find_hip(target.arch) != nullptr) return target;
  std::vector<std::string> known;
  for (const plan::HipArchitecture& arch : plan::hip_architectures()) known.push_back(arch.facts.arch);
  const std::string near = diag::nearest(target.arch, known);
  return diag::error(diag::Code::target_architecture, fmt::format("no kernels are made for {}", target.to_string()))
      .reason(fmt::format("HIP kernels are made for {}", plan::hip_names()))
      .help(fmt::format("use hip:{}, say", near.empty() ? known.front() : near));
}

Result<toolchain::HostCompiler> HipState::compiler() {
  const std::lock_guard lock(mutex_);
  if (!compiler_) {
    toolchain::FindOptions find;
    // A named compiler that is no Clang is for host code.
    const bool named = !context_.options.compiler.empty();
    const bool for_host = named && context_.compiler() && context_.compiler()->kind != toolchain::CompilerKind::Clang;
    if (!for_host) find.wanted = context_.options.compiler;
    find.cancel = context_.options.cancel;
    find.path = context_.path;
    find.memo_dir = context_.keep_dir();
    CODETTA_TRY(compiler_, toolchain::find_hip_clang(find));
  }
  return *compiler_;
}

std::span<const toolchain::CudaHeader> HipState::headers() {
  struct Table {
    std::vector<std::string> paths;
    std::vector<toolchain::CudaHeader> headers;
  };
  static const Table table = [] {
    Table made;
    const auto files = device::files();
    made.paths.reserve(files.size());
    for (const device::EmbeddedFile& file : files) {
      if (!file.path.starts_with("hip/") && !file.path.starts_with("gpu/")) continue;
      made.paths.push_back("device/" + std::string(file.path));
      made.headers.push_back({made.paths.back(), file.text, file.digest_hex});
    }
    return made;
  }();
  return table.headers;
}

toolchain::CacheKey HipState::binary_key(const package::Kernel& kernel, const std::string& identity) {
  toolchain::CacheKey key(toolchain::EntryKind::Binary, "hip kernel");
  key.add("source", kernel.source);
  for (const toolchain::CudaHeader& header : toolchain::included_headers(kernel.source, headers()))
    key.add("header", fmt::format("{} {}", header.path, header.digest));
  for (const std::string& flag : toolchain::hip_arguments(kernel.nvrtc_flags)) key.add("flag", flag);
  key.add("abi", std::to_string(codetta::gpu::abi_version));
  key.add("compiler", identity);
  return key;
}

Result<void> HipState::may_compile(const package::Kernel& kernel) const {
  if (!context_.options.no_jit && !context_.options.no_compiler) return {};
  return diag::error(diag::Code::jit_disabled, context_.options.no_jit ? "compiling at run time is switched off"
                                                                       : "the use of compilers is switched off")
      .reason(kernel.name + " is not in the cache " + context_.cache->directory())
      .help(context_.options.no_jit
                ? "run `codetta compile` with the same cache folder beforehand, or unset CODETTA_NO_JIT"
                : "leave out --no-compiler");
}

toolchain::HipJob HipState::job_of(const package::Kernel& kernel) const {
  return {kernel.source, kernel.name, kernel.nvrtc_flags, headers()};
}

Result<CudaBinary> HipState::binary(const package::Kernel& kernel) {
  CODETTA_TRY(const toolchain::HostCompiler clang, compiler());
  CudaBinary result;
  const auto make = [&]() -> Result<toolchain::CacheEntry> {
    CODETTA_CHECK_OK(may_compile(kernel));
    CODETTA_TRY(toolchain::HipOutput output, toolchain::compile_hip(clang, job_of(kernel), context_.compile_options()));
    result.compile_seconds = output.seconds;
    return toolchain::CacheEntry{toolchain::encode_remarks(output.remarks), std::move(output.object)};
  };
  auto entry = context_.cache->get_or_make(binary_key(kernel, clang.identity), make, &result.from_cache);
  if (!entry) return std::move(entry).error();
  result.remarks = toolchain::decode_remarks(entry->metadata);
  result.cubin = std::move(entry->payload);
  if (context_.debug.time_passes) {
    context_.log(kernel.name + (result.from_cache
                                    ? std::string(" from cache")
                                    : fmt::format(" compiled in {:.1f} ms", result.compile_seconds * 1e3)));
  }
  return result;
}

Result<double> HipState::compile(const package::Kernel& kernel) {
  CODETTA_TRY(const CudaBinary made, binary(kernel));
  CODETTA_CHECK_OK(context_.cuda.judge(kernel, made));
  return made.compile_seconds;
}

std::vector<toolchain::PtxasRemarks> HipState::known_remarks(const package::Kernel& kernel) {
  const auto clang = compiler();
  if (!clang) return {};
  const auto entry = context_.cache->lookup(binary_key(kernel, clang->identity));
  return entry ? toolchain::decode_remarks(entry->metadata) : std::vector<toolchain::PtxasRemarks>();
}

Result<std::string> HipState::assembly(const package::Kernel& kernel) {
  CODETTA_CHECK_OK(may_compile(kernel));
  CODETTA_TRY(const toolchain::HostCompiler clang, compiler());
  return toolchain::hip_assembly(clang, job_of(kernel), context_.compile_options());
}

}  // namespace codetta::driver
