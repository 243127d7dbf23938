// SPDX-License-Identifier: Apache-2.0
// The GPUs of one vendor that a context runs kernels on: their driver, the devices and loaded kernels, each found at
// first need and then kept.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/single_flight.hpp"
#include "package/package.hpp"
#include "runtime/cuda/device.hpp"
#include "toolchain/cache.hpp"
#include "toolchain/ptxas_remarks.hpp"

namespace codetta::driver {

struct ContextState;

// A compiled kernel and what the compiler said about it.
struct GpuBinary {
  std::string image;  // cubin or code object
  std::vector<toolchain::PtxasRemarks> remarks;
  bool from_cache = false;
  double compile_seconds = 0;
};

// What an entry of the cache holds, found or just made, into `binary`, whose other members are set; the log is told of
// it where passes are timed.
void take_entry(ContextState& context, const package::Kernel& kernel, toolchain::CacheEntry entry, GpuBinary& binary);

struct LoadedGpuKernel {
  runtime::cuda::ModuleRef module;
  double compile_seconds = 0;  // spent by this call
};

// Whether kernels of the target run on a GPU, in device memory.
constexpr bool runs_on_gpu(const Target& target) {
  return target.backend == Backend::cuda || target.backend == Backend::hip;
}

// Thread safe.
class GpuDevice {
 public:
  // `backend`: cuda or hip.
  GpuDevice(ContextState& context, Backend backend) : context_(context), backend_(backend) {}

  // Only success is kept: a driver or device that is missing now may come. Errors: E0640, E0641 (cuda), E0654 (hip),
  // E0642, E0647.
  Result<runtime::cuda::DriverRef> driver();
  Result<runtime::cuda::DeviceRef> device() { return device(0); }
  // The one that a program over several has in this place (ContextOptions::devices).
  Result<runtime::cuda::DeviceRef> device(uint32_t place);
  // Those of a program over so many, all of the target's architecture. One GPU that stands in several places is one
  // object. Errors: those of device_for(); E0642 where there are fewer, with the ways out.
  Result<std::vector<runtime::cuda::DeviceRef>> devices_for(const Target& target, uint32_t count);
  // The target with the architecture of the device where it names none. Errors: those of device(), with the way out.
  Result<Target> resolve(const Target& target);
  // Errors: those of device(); E0430 when the device is of another architecture than the target.
  Result<runtime::cuda::DeviceRef> device_for(const Target& target);
  // The kernel whose binary has this key on that device, as `make` loads it where it is not loaded. Single flight.
  Result<LoadedGpuKernel> load(const std::string& digest, const runtime::cuda::DeviceRef& on, bool capturing,
                               const std::function<Result<LoadedGpuKernel>()>& make);

 private:
  [[nodiscard]] int ordinal_of(uint32_t place) const;
  Result<void> check_count(uint32_t count);  // E0642
  Result<void> check_architecture(const runtime::cuda::DeviceRef& device, const Target& target) const;

  ContextState& context_;
  Backend backend_;
  std::mutex mutex_;
  runtime::cuda::DriverRef driver_;
  std::map<int, runtime::cuda::DeviceRef> devices_;         // by ordinal
  std::map<std::string, runtime::cuda::ModuleRef> loaded_;  // by digest of the binary's key, and device
  base::SingleFlight<std::string, Result<LoadedGpuKernel>> loading_;
};

// What may not be compiled now: while a stream is captured (E0535), or where compiling is switched off (E0503).
Result<void> may_compile(const ContextState& context, const package::Kernel& kernel, bool capturing);

}  // namespace codetta::driver
