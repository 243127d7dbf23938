// SPDX-License-Identifier: Apache-2.0
#include "driver/gpu_device.hpp"

#include <algorithm>

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

int GpuDevice::ordinal_of(uint32_t place) const {
  const ContextOptions& options = context_.options;
  if (options.devices.empty()) return options.device + static_cast<int>(place);
  return options.devices[std::min<size_t>(place, options.devices.size() - 1)];
}

Result<void> GpuDevice::check_count(uint32_t count) {
  const std::vector<int>& named = context_.options.devices;
  CODETTA_TRY(const DriverRef driver, this->driver());
  CODETTA_TRY(const int there, runtime::cuda::Device::count(*driver));
  const auto usable = named.empty() ? static_cast<uint32_t>(std::max(there - context_.options.device, 0))
                                    : static_cast<uint32_t>(named.size());
  if (usable >= count) return {};
  const std::string first = std::to_string(named.empty() ? context_.options.device : named[0]);
  std::string repeated = first;
  for (uint32_t i = 1; i < count; ++i) repeated += "," + first;
  const std::string seen = there == 1 ? "the driver sees one" : fmt::format("the driver sees {}", there);
  return diag::error(diag::Code::device_missing, fmt::format("the program runs on {} devices", count))
      .reason(!named.empty()
                  ? fmt::format("{} named, and {}",
                                named.size() == 1 ? std::string("one is") : fmt::format("{} are", named.size()), seen)
              : context_.options.device == 0 ? seen
                                             : fmt::format("{}, and the program's first is {}", seen, first))
      .help(fmt::format("name them all with ContextOptions::devices or --devices; one may be several: `--devices {}` "
                        "runs it on one GPU",
                        repeated));
}

Result<DeviceRef> GpuDevice::device(uint32_t place) {
  if (place != 0) CODETTA_CHECK_OK(check_count(place + 1));
  CODETTA_TRY(DriverRef found, driver());
  const int ordinal = ordinal_of(place);
  const std::lock_guard lock(mutex_);
  DeviceRef& device = devices_[ordinal];
  if (!device) {
    CODETTA_TRY(device, runtime::cuda::Device::open(std::move(found), ordinal));
  }
  return device;
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

Result<void> GpuDevice::check_architecture(const DeviceRef& device, const Target& target) const {
  const DeviceFacts& facts = device->facts();
  if (facts.arch == target.arch) return {};
  return diag::error(diag::Code::architecture_mismatch,
                     "the kernel is compiled for another architecture than the device's")
      .reason(fmt::format("the target is {}, and device {}, {}, is of {}", target.to_string(), facts.ordinal,
                          facts.name, facts.arch))
      .help(fmt::format("use the target '{}', which takes the device's own architecture, or choose another device",
                        backend_ == Backend::hip ? "hip" : "cuda"));
}

Result<DeviceRef> GpuDevice::device_for(const Target& target) {
  CODETTA_TRY(DeviceRef found, device());
  CODETTA_CHECK_OK(check_architecture(found, target));
  return found;
}

Result<std::vector<DeviceRef>> GpuDevice::devices_for(const Target& target, uint32_t count) {
  std::vector<DeviceRef> found(1);
  CODETTA_TRY(found[0], device_for(target));
  if (count <= 1) return found;
  CODETTA_CHECK_OK(check_count(count));
  for (uint32_t place = 1; place < count; ++place) {
    CODETTA_TRY(DeviceRef one, device(place));
    CODETTA_CHECK_OK(check_architecture(one, target));
    found.push_back(std::move(one));
  }
  return found;
}

Result<LoadedGpuKernel> GpuDevice::load(const std::string& binary, const DeviceRef& on, bool capturing,
                                        const std::function<Result<LoadedGpuKernel>()>& make) {
  const std::string digest = fmt::format("{} on {}", binary, on->facts().ordinal);
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
