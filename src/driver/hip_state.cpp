// SPDX-License-Identifier: Apache-2.0
// Compiling and loading of HIP kernels for a context.
#include "driver/hip_state.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/kept.hpp"
#include "device/gpu/abi.h"
#include "diag/diagnostic.hpp"
#include "driver/context.hpp"
#include "driver/gpu_headers.hpp"
#include "plan/families_hip.hpp"
#include "toolchain/run_jobs.hpp"

namespace codetta::driver {

std::string HipCompiler::describe() const {
  return clang ? fmt::format("{} ({})", clang->path, clang->version)
               : fmt::format("{} (hiprtc {})", hiprtc->path(), hiprtc->version());
}

Result<Target> HipState::resolve(const Target& wanted) {
  CODETTA_TRY(Target target, gpu_.resolve(wanted));
  if (plan::find_hip(target.arch) != nullptr) return target;
  std::vector<std::string> known;
  for (const plan::HipArchitecture& arch : plan::hip_architectures()) known.push_back(arch.facts.arch);
  const std::string near = diag::nearest(target.arch, known);
  const std::string whose = wanted.arch.empty() ? ", which the device is of" : "";
  return diag::error(diag::Code::target_architecture,
                     fmt::format("no kernels are made for {}{}", target.to_string(), whose))
      .reason(fmt::format("HIP kernels are made for {}", plan::hip_names()))
      .help(fmt::format("use hip:{}, say", near.empty() ? known.front() : near));
}

Result<HipCompiler> HipState::find_compiler() {
  const auto library = [&]() -> Result<HipCompiler> {
    HipCompiler found;
    CODETTA_TRY(found.hiprtc, toolchain::Hiprtc::find(context_.options.hiprtc));
    found.identity = found.hiprtc->identity();
    if (!found.identity.empty()) return found;
    return diag::error(diag::Code::hip_compiler_unusable, "the HIP compiler can not be used")
        .reason(found.hiprtc->path() + " is not readable")
        .help("install ROCm's libhiprtc.so so that this user can read it");
  };
  if (!context_.options.hiprtc.empty()) return library();
  toolchain::FindOptions find;
  // A named compiler that is no Clang is for host code.
  const bool named = !context_.options.compiler.empty();
  const bool for_host = named && context_.compiler() && context_.compiler()->kind != toolchain::CompilerKind::Clang;
  if (!for_host) find.wanted = context_.options.compiler;
  find.cancel = context_.options.cancel;
  find.timeout_seconds = context_.options.compile_timeout_seconds;
  find.path = context_.path;
  find.memo_dir = context_.keep_dir();
  auto clang = toolchain::find_hip_clang(find);
  if (clang) {
    HipCompiler found;
    found.identity = clang->identity;
    found.clang = *std::move(clang);
    found.builder = std::make_shared<toolchain::HipBuilder>(context_.cache, context_.cpu().cores);
    return found;
  }
  // A Clang that was asked for by name is not replaced.
  if (!find.wanted.empty()) return std::move(clang).error();
  if (auto found = library()) return found;
  return std::move(clang).error();
}

Result<HipCompiler> HipState::compiler() {
  const std::lock_guard lock(mutex_);
  if (!compiler_) {
    CODETTA_TRY(compiler_, find_compiler());
  }
  return *compiler_;
}

std::span<const toolchain::CudaHeader> HipState::headers() {
  static const GpuHeaders& table = base::kept(GpuHeaders("hip/"));
  return table.headers;
}

toolchain::CacheKey HipState::binary_key(const package::Kernel& kernel, const std::string& identity) {
  toolchain::CacheKey key(toolchain::EntryKind::Binary, "hip kernel");
  key.add("source", kernel.source);
  for (const toolchain::CudaHeader& header : toolchain::included_headers(kernel.source, headers()))
    key.add("header", fmt::format("{} {}", header.path, header.digest));
  for (const std::string& flag : toolchain::hip_arguments(job_of(kernel))) key.add("flag", flag);
  key.add("abi", std::to_string(codetta::gpu::abi_version));
  key.add("compiler", identity);
  return key;
}

Result<void> HipState::may_make(const package::Kernel& kernel, bool capturing) const {
  CODETTA_CHECK_OK(may_compile(context_, kernel, capturing));
  if (!context_.options.no_compiler) return {};
  return diag::error(diag::Code::jit_disabled, "the use of compilers is switched off")
      .reason(kernel.name + " is not in the cache " + context_.cache->directory())
      .help("leave out `no_compiler`");
}

toolchain::HipJob HipState::job_of(const package::Kernel& kernel) {
  toolchain::HipJob job{kernel.source, kernel.name, kernel.nvrtc_flags, headers()};
  job.divisible = !package::is_user(kernel.config);
  return job;
}

Result<toolchain::HipOutput> HipState::make(const package::Kernel& kernel, const HipCompiler& compiler) {
  if (compiler.clang) return compiler.builder->compile(*compiler.clang, job_of(kernel), context_.compile_options());
  return compiler.hiprtc->compile(job_of(kernel), context_.keep_dir());
}

Result<GpuBinary> HipState::binary(const package::Kernel& kernel, bool capturing) {
  CODETTA_TRY(const HipCompiler compiler, this->compiler());
  GpuBinary result;
  const auto compile = [&]() -> Result<toolchain::CacheEntry> {
    CODETTA_CHECK_OK(may_make(kernel, capturing));
    CODETTA_TRY(toolchain::HipOutput output, make(kernel, compiler));
    result.compile_seconds = output.seconds;
    return toolchain::CacheEntry{toolchain::encode_remarks(output.remarks), std::move(output.object)};
  };
  auto entry = context_.cache->get_or_make(binary_key(kernel, compiler.identity), compile, &result.from_cache);
  if (!entry) return std::move(entry).error();
  take_entry(context_, kernel, *std::move(entry), result);
  return result;
}

std::vector<double> HipState::compile_ahead(const std::vector<const package::Kernel*>& kernels) {
  std::vector<double> seconds(kernels.size());
  if (context_.options.no_jit || !context_.cache->enabled()) return seconds;
  const auto found = compiler();
  if (!found) return seconds;
  std::vector<size_t> missing;
  std::set<std::string> keys;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const toolchain::CacheKey key = binary_key(*kernels[i], found->identity);
    if (keys.insert(key.digest_hex()).second && !context_.cache->lookup(key)) missing.push_back(i);
  }
  if (missing.size() < 2) return seconds;
  const int parallel = std::max(context_.pool->size(), context_.cpu().cores);
  toolchain::run_jobs(missing.size(), parallel, [&](size_t i) {
    if (const auto made = binary(*kernels[missing[i]])) seconds[missing[i]] = made->compile_seconds;
  });
  return seconds;
}

Result<double> HipState::compile(const package::Kernel& kernel) {
  CODETTA_TRY(const GpuBinary made, binary(kernel));
  CODETTA_CHECK_OK(context_.cuda.judge(kernel, made));
  return made.compile_seconds;
}

Result<LoadedGpuKernel> HipState::load_now(const package::Kernel& kernel, const runtime::cuda::DeviceRef& on,
                                           bool capturing) {
  CODETTA_TRY(GpuBinary made, binary(kernel, capturing));
  CODETTA_CHECK_OK(context_.cuda.judge(kernel, made));
  auto module = runtime::cuda::Module::load(on, made.image, kernel.name);
  if (!module && made.from_cache && module.error().code() == static_cast<uint16_t>(diag::Code::module_load)) {
    // A healthy entry that does not load here: make our own.
    CODETTA_CHECK_OK(may_make(kernel, capturing));
    CODETTA_TRY(const HipCompiler compiler, this->compiler());
    CODETTA_TRY(const toolchain::HipOutput again, make(kernel, compiler));
    made.compile_seconds = again.seconds;
    module = runtime::cuda::Module::load(on, again.object, kernel.name);
    if (module)
      context_.cache->replace(binary_key(kernel, compiler.identity),
                              {toolchain::encode_remarks(again.remarks), again.object});
  }
  if (!module) return std::move(module).error();
  return LoadedGpuKernel{*std::move(module), made.compile_seconds};
}

Result<LoadedGpuKernel> HipState::load(const package::Kernel& kernel, bool capturing, runtime::cuda::DeviceRef on) {
  if (on == nullptr) {
    CODETTA_TRY(on, gpu_.device());
  }
  CODETTA_TRY(const HipCompiler compiler, this->compiler());
  return gpu_.load(binary_key(kernel, compiler.identity).digest_hex(), on, capturing,
                   [&] { return load_now(kernel, on, capturing); });
}

std::vector<toolchain::PtxasRemarks> HipState::known_remarks(const package::Kernel& kernel) {
  const auto found = compiler();
  if (!found) return {};
  const auto entry = context_.cache->lookup(binary_key(kernel, found->identity));
  return entry ? toolchain::decode_remarks(entry->metadata) : std::vector<toolchain::PtxasRemarks>();
}

Result<std::string> HipState::assembly(const package::Kernel& kernel) {
  CODETTA_CHECK_OK(may_make(kernel, false));
  CODETTA_TRY(const HipCompiler found, compiler());
  if (found.clang) return toolchain::hip_assembly(*found.clang, job_of(kernel), context_.compile_options());
  return diag::error(diag::Code::hip_compiler_missing, "no compiler that writes assembly was found")
      .reason(found.describe() + " makes code objects only")
      .help("install clang-19 and lld-19 (or later ones), or name a Clang with --compiler");
}

}  // namespace codetta::driver
