// SPDX-License-Identifier: Apache-2.0
// The HIP side of a context: the compiler, found at first need and then kept, and compiled kernels. Nothing here needs
// an AMD GPU or its runtime.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/cuda_state.hpp"
#include "package/package.hpp"
#include "toolchain/cache.hpp"
#include "toolchain/hip_clang.hpp"

namespace codetta::driver {

struct ContextState;

// Thread safe.
class HipState {
 public:
  explicit HipState(ContextState& context) : context_(context) {}

  // The target, if kernels are made for its architecture. Errors: E0402, naming those that they are made for.
  static Result<Target> resolve(const Target& target);
  // Only success is kept. Errors: E0536, E0537.
  Result<toolchain::HostCompiler> compiler();
  // Compiles the kernel to a code object, or finds it in the cache. Errors: E0503 (no_jit), E0504 to E0507, E0536,
  // E0537.
  Result<CudaBinary> binary(const package::Kernel& kernel);
  // binary(), and whether its registers let it be used (E0533); how long compiling took.
  Result<double> compile(const package::Kernel& kernel);
  // Of the kernel, if the cache holds it; never compiles.
  std::vector<toolchain::PtxasRemarks> known_remarks(const package::Kernel& kernel);
  // Errors: as binary().
  Result<std::string> assembly(const package::Kernel& kernel);
  // The device sources that emitted kernels include.
  static std::span<const toolchain::CudaHeader> headers();

 private:
  static toolchain::CacheKey binary_key(const package::Kernel& kernel, const std::string& identity);
  Result<void> may_compile(const package::Kernel& kernel) const;
  [[nodiscard]] toolchain::HipJob job_of(const package::Kernel& kernel) const;

  ContextState& context_;
  std::mutex mutex_;
  std::optional<toolchain::HostCompiler> compiler_;
};

}  // namespace codetta::driver
