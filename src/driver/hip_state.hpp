// SPDX-License-Identifier: Apache-2.0
// The HIP side of a context: device and compiler, each found at first need and then kept, and compiled kernels.
// Compiling needs neither an AMD GPU nor its runtime.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/gpu_device.hpp"
#include "package/package.hpp"
#include "plan/candidates.hpp"
#include "toolchain/cache.hpp"
#include "toolchain/hip_builder.hpp"
#include "toolchain/hiprtc.hpp"

namespace codetta::driver {

struct ContextState;

// What compiles HIP kernels: a Clang, or AMD's hiprtc where there is none.
struct HipCompiler {
  std::optional<toolchain::HostCompiler> clang;
  std::shared_ptr<toolchain::HipBuilder> builder;  // with it
  toolchain::HiprtcRef hiprtc;
  std::string identity;  // content digest
  // "clang 19.1.7 (/usr/bin/clang-19)"
  [[nodiscard]] std::string describe() const;
};

// Thread safe.
class HipState {
 public:
  explicit HipState(ContextState& context) : context_(context) {}

  GpuDevice& gpu() { return gpu_; }
  // The target with the architecture of the device where it names none, if kernels are made for it. Errors: E0402,
  // naming those that they are made for; those of GpuDevice::resolve.
  Result<Target> resolve(const Target& target);
  // ContextOptions::hiprtc where it is named, else a Clang, else the hiprtc that the loader finds. Only success is
  // kept. Errors: E0536, E0537.
  Result<HipCompiler> compiler();
  // Compiles the kernel to a code object, or finds it in the cache. With `capturing`, compiling is E0535. Errors:
  // E0313, E0503 (no_jit), E0504 to E0507, E0536, E0537.
  Result<GpuBinary> binary(const package::Kernel& kernel, bool capturing = false);
  // Compiles those that the cache lacks, several at once, into the cache: the seconds that each took, 0 for the others.
  // What fails, binary() tells.
  std::vector<double> compile_ahead(const std::vector<const package::Kernel*>& kernels);
  // binary(), and whether its registers let it be used (E0533); how long compiling took.
  Result<double> compile(const package::Kernel& kernel);
  // Binary, judged by its registers (E0533) and loaded on `on`, or on the context's first device. Single flight.
  // Errors: also those of GpuDevice::device, E0430, E0508.
  Result<LoadedGpuKernel> load(const package::Kernel& kernel, bool capturing = false, runtime::cuda::DeviceRef on = {});
  // Of the kernel, if the cache holds it; never compiles.
  std::vector<toolchain::PtxasRemarks> known_remarks(const package::Kernel& kernel);
  // Errors: as binary(); E0536 where only hiprtc is there, which writes none.
  Result<std::string> assembly(const package::Kernel& kernel);
  // The device sources that emitted kernels include.
  static std::span<const toolchain::CudaHeader> headers();

 private:
  Result<HipCompiler> find_compiler();
  static toolchain::CacheKey binary_key(const package::Kernel& kernel, const std::string& identity);
  Result<void> may_make(const package::Kernel& kernel, bool capturing) const;
  Result<toolchain::HipOutput> make(const package::Kernel& kernel, const HipCompiler& compiler);
  Result<LoadedGpuKernel> load_now(const package::Kernel& kernel, const runtime::cuda::DeviceRef& on, bool capturing);
  static toolchain::HipJob job_of(const package::Kernel& kernel);

  ContextState& context_;
  std::mutex mutex_;
  std::optional<HipCompiler> compiler_;
  GpuDevice gpu_{context_, Backend::hip};
};

}  // namespace codetta::driver
