// SPDX-License-Identifier: Apache-2.0
// One LaunchKernel step of a kernel of the user's, resolved to one driver launch. What may be launched is said in
// device/host/user_launch.h, which emitted host text uses as well.
#pragma once

#include <string>
#include <vector>

#include "device/host/user_launch.h"
#include "runtime/cuda/device.hpp"
#include "runtime/execution.hpp"
#include "runtime/operands.hpp"

namespace codetta::runtime::cuda {

class UserLaunch {
 public:
  // Looks the function up, evaluates grid, block, shared memory and sizes, and checks them. A launch whose results all
  // have no elements is none. Errors: E0610 (a bound tensor, a size without a value), E0650, E0509.
  static Result<UserLaunch> make(const package::Package& package, const package::LaunchKernel& step,
                                 const Bindings& bindings, ModuleRef module, const Symbols& symbols);
  // Takes the addresses that the parameters hold. Errors: E0649 a tensor map, E0647.
  Result<void> resolve(const Bindings& bindings);
  // Enqueues; allocates nothing. The device's context is current.
  [[nodiscard]] Status run(StreamHandle stream) const;
  [[nodiscard]] const std::string& name() const { return kernel_->name; }
  // "grid 4 x 1 x 1, block 256 x 1 x 1, 0 bytes of dynamic shared memory", for messages.
  [[nodiscard]] std::string describe() const;

 private:
  UserLaunch() = default;
  Result<void> plan(const Symbols& symbols);
  Result<void> encode_maps(const Bindings& bindings);

  const package::Package* package_ = nullptr;
  const package::LaunchKernel* step_ = nullptr;
  const package::Kernel* kernel_ = nullptr;
  ModuleRef module_;
  Function function_;
  gpu::host::UserShape shape_;
  gpu::host::UserLimits limits_{};
  gpu::host::UserWindow window_;
  bool skipped_ = false;
  std::vector<gpu::u64> values_;   // of arguments, then of sizes: low bytes first
  std::vector<gpu::u64> block_;    // of the hook
  std::vector<TensorMap> maps_;    // of options.maps, which stand for their arguments
  std::vector<void*> parameters_;  // where each of them lies
  LaunchConfig config_{};
  std::vector<LaunchAttribute> attributes_;
};

}  // namespace codetta::runtime::cuda
