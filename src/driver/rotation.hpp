// SPDX-License-Identifier: Apache-2.0
// Copies of a problem's tensors on a GPU. Runs that take them in turn find the last-level cache as a program leaves it,
// full of other tensors; runs over the same tensors would find what the run before has read.
#pragma once

#include <vector>

#include "codetta/kernel.hpp"
#include "runtime/cuda/device.hpp"

namespace codetta::driver {

// How many sets of tensors of this many bytes are to be run in turn: so many that two caches hold all but one of them,
// at most 16; one where a set is more than eight caches, of which little is left from one run to the next.
int64_t sets_in_turn(int64_t bytes, int64_t cache_bytes);

class Rotation {
 public:
  // Copies what `arguments`, which lie on the device, are bound to, as often as sets_in_turn() asks for beside the
  // arguments themselves. Ranges of bytes that overlap are copied as one, so outputs in place stay in place, and
  // addresses are as aligned as they were. They take at most half of the free device memory: where that is short there
  // are fewer sets, which is no error; none for a packed B. Waits for the device. The device's contents are as before.
  // Errors: E0606, E0644, E0647 and its kin.
  static Result<Rotation> make(const GemmArguments& arguments, const runtime::cuda::DeviceRef& device);

  // Over the copies, as many as there is device memory for the workspaces of. Valid while this lives. Errors: those of
  // Kernel::prepare, but for E0643.
  [[nodiscard]] Result<std::vector<Execution>> prepare(const Kernel& kernel) const;
  // Without the arguments themselves. Valid while this lives.
  [[nodiscard]] const std::vector<GemmArguments>& copies() const { return copies_; }

 private:
  std::vector<runtime::cuda::DeviceBuffer> memory_;
  std::vector<GemmArguments> copies_;
};

}  // namespace codetta::driver
