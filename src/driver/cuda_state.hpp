// SPDX-License-Identifier: Apache-2.0
// The CUDA side of a context: device and compiler, each found at first need and then kept, and compiled kernels.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "driver/cuda_compiler.hpp"
#include "driver/cuda_vendor.hpp"
#include "driver/gpu_device.hpp"
#include "package/package.hpp"
#include "plan/candidates.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/nvtx.hpp"
#include "toolchain/cache.hpp"

namespace codetta::driver {

struct ContextState;

// Thread safe.
class CudaState {
 public:
  explicit CudaState(ContextState& context) : context_(context) {}

  GpuDevice& gpu() { return gpu_; }
  // Errors: as those of GpuDevice.
  Result<runtime::cuda::DeviceRef> device() { return gpu_.device(); }
  Result<runtime::cuda::DeviceRef> device_for(const Target& target) { return gpu_.device_for(target); }
  // For the cost model: of the device if it is of this architecture, else of the architecture's usual product.
  plan::GpuFacts facts(const std::string& arch);
  CudaCompiler& compiler() { return compiler_; }
  CudaVendor& vendor() { return vendor_; }
  // The profiler that listens; null without one. Looked for once, with ContextOptions::nvtx only.
  runtime::cuda::NvtxRef ranges();

  // Compiles the kernel, or finds it in the cache. With `capturing`, compiling is E0535. Errors: E0313, E0503 (no_jit),
  // E0504 to E0506, E0530 to E0532.
  Result<GpuBinary> binary(const package::Kernel& kernel, bool capturing = false);
  // binary() that judges it, for a machine whose cache this may be; tells how long it compiled. Errors: also E0533.
  Result<double> compile(const package::Kernel& kernel);
  // Whether the assembler's remarks let it be used. Errors: E0533.
  Result<void> judge(const package::Kernel& kernel, const GpuBinary& binary);
  // Compiles what binary() would have to compile, several at a time: the seconds that each took, 0 for the others. What
  // fails is left to binary(), which reports it.
  std::vector<double> compile_ahead(const std::vector<const package::Kernel*>& kernels);
  // What the assembler said, if the cache holds the kernel; never compiles, never loads the compiler.
  std::vector<toolchain::PtxasRemarks> known_remarks(const package::Kernel& kernel);
  // Binary, judged by its remarks (E0533) and loaded on `on`, or on the context's first device. Single flight. Errors:
  // also those of device(), E0430, E0508.
  Result<LoadedGpuKernel> load(const package::Kernel& kernel, bool capturing = false, runtime::cuda::DeviceRef on = {});
  // Errors: as binary().
  Result<std::string> ptx(const package::Kernel& kernel);

 private:
  [[nodiscard]] toolchain::CacheKey binary_key(const package::Kernel& kernel, const std::string& identity) const;
  [[nodiscard]] toolchain::CudaCompileOptions compile_options() const;
  Result<toolchain::CudaOutput> run_compiler(const package::Kernel& kernel, bool want_ptx);
  Result<LoadedGpuKernel> load_now(const package::Kernel& kernel, const runtime::cuda::DeviceRef& on, bool capturing);

  ContextState& context_;
  CudaCompiler compiler_{context_};
  CudaVendor vendor_{context_};
  std::optional<runtime::cuda::NvtxRef> ranges_;
  std::mutex mutex_;
  GpuDevice gpu_{context_, Backend::cuda};
};

}  // namespace codetta::driver
