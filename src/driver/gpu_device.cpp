// SPDX-License-Identifier: Apache-2.0
#include "driver/gpu_device.hpp"

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "driver/context.hpp"
#include "runtime/hip/driver.hpp"

namespace codetta::driver {

using runtime::cuda::DeviceFacts;
using runtime::cuda::DeviceRef;
using runtime::cuda::DriverRef;

void take_entry(ContextState& context, const package::Kernel& kernel, toolchain::CacheEntry entry, GpuBinary& binary) {
  binary.remarks = toolchain::decode_remarks(entry.metadata);
  binary.image = std::move(entry.payload);
  if (!context.debug.time_passes) return;
  context.log(kernel.name + (binary.from_cache ? std::string(" from cache")
                                               : fmt::format(" compiled in {:.1f} ms", binary.compile_seconds * 1e3)));
}

Result<DriverRef> GpuDevice::driver() {
  const std::lock_guard lock(mutex_);
  if (!driver_) {
    CODETTA_TRY(driver_, backend_ == Backend::hip ? runtime::hip::load(context_.options.hip_runtime)
                                                  : runtime::cuda::Driver::load(context_.options.cuda_driver));
  }
  return driver_;
}

Result<DeviceRef> GpuDevice::device() {
  CODETTA_TRY(DriverRef found, driver());
  const std::lock_guard lock(mutex_);
  if (!device_) {
    CODETTA_TRY(device_, runtime::cuda::Device::open(std::move(found), context_.options.device));
  }
  return device_;
}

Result<Target> GpuDevice::resolve(const Target& target) {
  if (!target.arch.empty()) return target;
  const auto found = device();
  if (!found) {
    const std::string example = backend_ == Backend::hip ? "hip:gfx942" : "cuda:sm_90a";
    std::vector<Diagnostic> diagnostics = found.error().diagnostics();
    std::string& help = diagnostics.front().help;
    if (help.find(example) == std::string::npos) help += "; to compile alone name an architecture, such as " + example;
    return Error(std::move(diagnostics));
  }
  Target resolved = target;
  resolved.arch = (*found)->facts().arch;
  return resolved;
}

Result<DeviceRef> GpuDevice::device_for(const Target& target) {
  CODETTA_TRY(DeviceRef found, device());
  const DeviceFacts& facts = found->facts();
  if (facts.arch == target.arch) return found;
  return diag::error(diag::Code::architecture_mismatch,
                     "the kernel is compiled for another architecture than the device's")
      .reason(fmt::format("the target is {}, and device {}, {}, is of {}", target.to_string(), facts.ordinal,
                          facts.name, facts.arch))
      .help(fmt::format("use the target '{}', which takes the device's own architecture, or choose another device",
                        backend_ == Backend::hip ? "hip" : "cuda"));
}

Result<LoadedGpuKernel> GpuDevice::load(const std::string& digest, bool capturing,
                                        const std::function<Result<LoadedGpuKernel>()>& make) {
  const auto known = [&]() -> std::optional<LoadedGpuKernel> {
    const std::lock_guard lock(mutex_);
    const auto at = loaded_.find(digest);
    if (at == loaded_.end()) return std::nullopt;
    return LoadedGpuKernel{at->second, 0};
  };
  if (auto loaded = known()) return *std::move(loaded);
  // What must not compile flies alone: its refusal is nobody else's.
  return loading_
      .run(capturing ? digest + " in a capture" : digest,
           [&]() -> Result<LoadedGpuKernel> {
             if (auto loaded = known()) return *std::move(loaded);
             CODETTA_TRY(LoadedGpuKernel made, make());
             const std::lock_guard lock(mutex_);
             made.module = loaded_.emplace(digest, made.module).first->second;
             return made;
           })
      .value;
}

Result<void> may_compile(const ContextState& context, const package::Kernel& kernel, bool capturing) {
  if (capturing) {
    return diag::error(diag::Code::compile_in_capture, "a kernel would have to be compiled while a stream is captured")
        .reason(kernel.name + " is neither loaded nor in the cache; the capture is still valid")
        .help("call prepare() before the capture begins, and run() the Execution within it");
  }
  if (context.options.no_jit) {
    return diag::error(diag::Code::jit_disabled, "compiling at run time is switched off")
        .reason(kernel.name + " is not in the cache " + context.cache->directory())
        .help("run `codetta compile` with the same cache folder beforehand, or leave out `no_jit` and CODETTA_NO_JIT");
  }
  return {};
}

}  // namespace codetta::driver
