// SPDX-License-Identifier: Apache-2.0
// Compiling and loading of CUDA kernels for a context.
#include "driver/cuda_state.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "device/gpu/abi.h"
#include "diag/diagnostic.hpp"
#include "driver/context.hpp"
#include "package/gpu_steps.hpp"

namespace codetta::driver {

using runtime::cuda::DeviceFacts;
using runtime::cuda::DeviceRef;

namespace {

// The functions of the kernel for steps on elements share a variable, and one of them takes nearly all of the time.
bool is_divisible(const package::Kernel& kernel) {
  return !package::is_user(kernel.config) && !package::is_steps_kernel(kernel);
}

}  // namespace

runtime::cuda::NvtxRef CudaState::ranges() {
  const std::lock_guard lock(mutex_);
  if (!ranges_) ranges_ = runtime::cuda::Nvtx::attach(context_.nvtx_injection);
  return *ranges_;
}

plan::GpuFacts CudaState::facts(const std::string& arch) {
  plan::GpuFacts gpu = plan::gpu_facts(arch);
  const auto found = device();
  if (!found || (*found)->facts().arch != arch) return gpu;
  const DeviceFacts& facts = (*found)->facts();
  // What the driver does not tell (the clock under load, the rate of L2) is of the usual product; the rate of L2 grows
  // with the multiprocessors. A copy reaches 0.9 of the datasheet's bandwidth (measured on H100 and H200).
  gpu.l2_rate *= static_cast<double>(facts.multiprocessors) / gpu.sms;
  gpu.sms = facts.multiprocessors;
  gpu.shared_per_block = facts.shared_per_block_optin;
  gpu.shared_per_sm = facts.shared_per_multiprocessor;
  gpu.l2 = facts.l2_bytes;
  gpu.memory_rate = 0.9e-9 * facts.memory_bandwidth;
  return gpu;
}

toolchain::CacheKey CudaState::binary_key(const package::Kernel& kernel, const std::string& identity) const {
  toolchain::CacheKey key(toolchain::EntryKind::Binary, "cuda kernel");
  key.add("source", kernel.source);
  for (const toolchain::CudaHeader& header : toolchain::included_headers(kernel.source, CudaCompiler::headers()))
    key.add("header", fmt::format("{} {}", header.path, header.digest));
  for (const std::string& flag : kernel.nvrtc_flags) key.add("flag", flag);
  key.add("abi", std::to_string(codetta::gpu::abi_version));
  key.add("compiler", identity);
  if (is_divisible(kernel)) key.add("parts", "2");  // where its text has so many
  return key;
}

toolchain::CudaCompileOptions CudaState::compile_options() const {
  return {.timeout_seconds = context_.options.compile_timeout_seconds, .keep_dir = context_.keep_dir()};
}

Result<toolchain::CudaOutput> CudaState::run_compiler(const package::Kernel& kernel, bool want_ptx) {
  return compiler_.compile(
      {kernel.source, kernel.name, kernel.nvrtc_flags, CudaCompiler::headers(), want_ptx, is_divisible(kernel)},
      compile_options());
}

Result<GpuBinary> CudaState::binary(const package::Kernel& kernel, bool capturing) {
  for (;;) {
    CODETTA_TRY(const CudaCompiler::Identity identity, compiler_.identity());
    GpuBinary result;
    bool other_compiler = false;
    const auto make = [&]() -> Result<toolchain::CacheEntry> {
      CODETTA_CHECK_OK(may_compile(context_, kernel, capturing));
      CODETTA_TRY(toolchain::CudaOutput output, run_compiler(kernel, false));
      CODETTA_TRY(const CudaCompiler::Identity used, compiler_.identity());
      if (used != identity) {  // the memo was out of date: the key is not this compiler's
        other_compiler = true;
        return diag::error(diag::Code::internal, "another compiler was found").help("try again");
      }
      result.compile_seconds = output.seconds;
      return toolchain::CacheEntry{toolchain::encode_remarks(output.remarks), std::move(output.cubin)};
    };
    auto entry = context_.cache->get_or_make(binary_key(kernel, identity.digest), make, &result.from_cache);
    if (other_compiler) continue;
    if (!entry) return std::move(entry).error();
    take_entry(context_, kernel, *std::move(entry), result);
    return result;
  }
}

std::vector<double> CudaState::compile_ahead(const std::vector<const package::Kernel*>& kernels) {
  std::vector<double> seconds(kernels.size());
  if (context_.options.no_jit) return seconds;
  const auto identity = compiler_.identity();
  if (!identity) return seconds;
  std::vector<toolchain::CudaJob> jobs;
  std::vector<toolchain::CacheKey> keys;
  std::vector<size_t> missing;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const package::Kernel* const kernel = kernels[k];
    if (package::is_vendor(kernel->config)) continue;
    toolchain::CacheKey key = binary_key(*kernel, identity->digest);
    const bool seen =
        std::any_of(keys.begin(), keys.end(), [&](const auto& other) { return other.text() == key.text(); });
    if (seen || context_.cache->lookup(key)) continue;
    jobs.push_back(
        {kernel->source, kernel->name, kernel->nvrtc_flags, CudaCompiler::headers(), false, is_divisible(*kernel)});
    keys.push_back(std::move(key));
    missing.push_back(k);
  }
  if (jobs.size() < 2 || !context_.cache->enabled()) return seconds;
  if (!compiler_.load()) return seconds;  // not before: loading it takes long, and nothing may be left to do
  const auto used = compiler_.identity();
  if (!used || used->digest != identity->digest) return seconds;  // the memo was out of date; load() tries again
  const int parallel = std::max(context_.pool->size(), context_.cpu().cores);
  auto outputs = compiler_.compile_all(jobs, compile_options(), parallel);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]) continue;
    seconds[missing[i]] = outputs[i]->seconds;
    context_.cache->store(keys[i], {toolchain::encode_remarks(outputs[i]->remarks), std::move(outputs[i]->cubin)});
  }
  return seconds;
}

std::vector<toolchain::PtxasRemarks> CudaState::known_remarks(const package::Kernel& kernel) {
  if (package::is_vendor(kernel.config)) return {};
  const auto identity = compiler_.identity();
  if (!identity) return {};
  const auto entry = context_.cache->lookup(binary_key(kernel, identity->digest));
  return entry ? toolchain::decode_remarks(entry->metadata) : std::vector<toolchain::PtxasRemarks>();
}

Result<void> CudaState::judge(const package::Kernel& kernel, const GpuBinary& binary) {
  auto judged = toolchain::check_remarks(binary.remarks, kernel.name);
  // The family that always exists is right, whatever it costs, and so is a map of which threads keep nothing: behind
  // any other stands a candidate that needs less, and it would only be chosen for its speed.
  const auto* gemm = std::get_if<package::GpuGemmConfig>(&kernel.config);
  const auto* map = std::get_if<package::GpuMapConfig>(&kernel.config);
  const bool has_others = gemm != nullptr  ? gemm->family != package::GpuFamily::Simt
                          : map != nullptr ? map->panels && map->kept_cols > 0
                                           : false;
  if (judged || has_others) return judged;
  if (package::is_steps_kernel(kernel)) return {};  // nobody can choose another, and few runs launch it
  context_.log_once(kernel.name, kernel.name + " may be slow: " + judged.error().diagnostics().front().reason);
  return {};
}

Result<double> CudaState::compile(const package::Kernel& kernel) {
  if (package::is_vendor(kernel.config)) return 0.0;
  CODETTA_TRY(const GpuBinary made, binary(kernel));
  CODETTA_CHECK_OK(judge(kernel, made));
  return made.compile_seconds;
}

Result<LoadedGpuKernel> CudaState::load_now(const package::Kernel& kernel, const DeviceRef& on, bool capturing) {
  CODETTA_TRY(GpuBinary made, binary(kernel, capturing));
  CODETTA_CHECK_OK(judge(kernel, made));
  auto module = runtime::cuda::Module::load(on, made.image, kernel.name);
  if (!module && made.from_cache && module.error().code() == static_cast<uint16_t>(diag::Code::module_load)) {
    // A healthy entry that does not load here: make our own.
    CODETTA_CHECK_OK(may_compile(context_, kernel, capturing));
    CODETTA_TRY(const toolchain::CudaOutput again, run_compiler(kernel, false));
    CODETTA_TRY(const CudaCompiler::Identity identity, compiler_.identity());
    made.compile_seconds = again.seconds;
    module = runtime::cuda::Module::load(on, again.cubin, kernel.name);
    if (module)
      context_.cache->replace(binary_key(kernel, identity.digest),
                              {toolchain::encode_remarks(again.remarks), again.cubin});
  }
  if (!module) return std::move(module).error();
  return LoadedGpuKernel{*std::move(module), made.compile_seconds};
}

Result<LoadedGpuKernel> CudaState::load(const package::Kernel& kernel, bool capturing, DeviceRef on) {
  if (on == nullptr) {
    CODETTA_TRY(on, device());
  }
  CODETTA_TRY(const CudaCompiler::Identity identity, compiler_.identity());
  return gpu_.load(binary_key(kernel, identity.digest).digest_hex(), on, capturing,
                   [&] { return load_now(kernel, on, capturing); });
}

Result<std::string> CudaState::ptx(const package::Kernel& kernel) {
  CODETTA_CHECK_OK(may_compile(context_, kernel, false));
  CODETTA_TRY(toolchain::CudaOutput output, run_compiler(kernel, true));
  return std::move(output.ptx);
}

}  // namespace codetta::driver
