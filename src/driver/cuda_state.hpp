// SPDX-License-Identifier: Apache-2.0
// The CUDA side of a context: driver, device, compiler and loaded kernels, each found at first need and then kept.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/single_flight.hpp"
#include "driver/cuda_compiler.hpp"
#include "driver/cuda_vendor.hpp"
#include "package/package.hpp"
#include "plan/candidates.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/nvtx.hpp"
#include "toolchain/cache.hpp"

namespace codetta::driver {

struct ContextState;

// A compiled kernel and what the assembler said about it.
struct CudaBinary {
  std::string cubin;
  std::vector<toolchain::PtxasRemarks> remarks;
  bool from_cache = false;
  double compile_seconds = 0;
};

struct LoadedCudaKernel {
  runtime::cuda::ModuleRef module;
  double compile_seconds = 0;  // spent by this call
};

// Thread safe.
class CudaState {
 public:
  explicit CudaState(ContextState& context) : context_(context) {}

  // Only success is kept: a driver or device that is missing now may come. Errors: E0640 to E0642, E0647.
  Result<runtime::cuda::DriverRef> driver();
  Result<runtime::cuda::DeviceRef> device();
  // The target with the architecture of the device where it names none. Errors: those of device(), with the way out.
  Result<Target> resolve(const Target& target);
  // Errors: those of device(); E0430 when the device is of another architecture than the target.
  Result<runtime::cuda::DeviceRef> device_for(const Target& target);
  // For the cost model: of the device if it is of this architecture, else of the architecture's usual product.
  plan::GpuFacts facts(const std::string& arch);
  CudaCompiler& compiler() { return compiler_; }
  CudaVendor& vendor() { return vendor_; }
  // The profiler that listens; null without one. Looked for once, with ContextOptions::nvtx only.
  runtime::cuda::NvtxRef ranges();

  // Compiles the kernel, or finds it in the cache. With `capturing`, compiling is E0535. Errors: E0503 (no_jit), E0504
  // to E0506, E0530 to E0532.
  Result<CudaBinary> binary(const package::Kernel& kernel, bool capturing = false);
  // Whether the assembler's remarks let it be used. Errors: E0533.
  Result<void> judge(const package::Kernel& kernel, const CudaBinary& binary);
  // Compiles what binary() would have to compile, several at a time. What fails is left to binary(), which reports it.
  void compile_ahead(const std::vector<const package::Kernel*>& kernels);
  // What the assembler said, if the cache holds the kernel; never compiles, never loads the compiler.
  std::vector<toolchain::PtxasRemarks> known_remarks(const package::Kernel& kernel);
  // Binary, judged by its remarks (E0533) and loaded on the context's device. Single flight. Errors: also those of
  // device(), E0430, E0508.
  Result<LoadedCudaKernel> load(const package::Kernel& kernel, bool capturing = false);
  // Errors: as binary().
  Result<std::string> ptx(const package::Kernel& kernel);

 private:
  [[nodiscard]] toolchain::CacheKey binary_key(const package::Kernel& kernel, const std::string& identity) const;
  Result<toolchain::CudaOutput> compile(const package::Kernel& kernel, bool want_ptx);
  Result<void> may_compile(const package::Kernel& kernel, bool capturing) const;
  Result<LoadedCudaKernel> load_now(const package::Kernel& kernel, bool capturing);

  ContextState& context_;
  CudaCompiler compiler_{context_};
  CudaVendor vendor_{context_};
  std::optional<runtime::cuda::NvtxRef> ranges_;
  std::mutex mutex_;
  runtime::cuda::DriverRef driver_;
  runtime::cuda::DeviceRef device_;
  std::map<std::string, runtime::cuda::ModuleRef> loaded_;  // by digest of the binary's key
  base::SingleFlight<std::string, Result<LoadedCudaKernel>> loading_;
};

}  // namespace codetta::driver
