// SPDX-License-Identifier: Apache-2.0
// An execution as bytes, and one like it made of them: for a run in a process of its own, on the same device.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/execution.hpp"

namespace codetta::runtime::cuda {

// The package, its binaries and what is bound; of tensors how they lie to each other, and `contents` says whether also
// what they hold, for which it waits. Nothing where a run takes what bytes cannot carry: functions or weights of the
// caller's, the vendor's library. Errors: E0643 and its kin.
Result<std::optional<std::string>> to_bytes(const Execution& execution, bool contents);

// With memory of its own; tensors whose contents are not told hold zeros.
struct DetachedExecution {
  std::vector<DeviceBuffer> memory;
  std::optional<Execution> execution;
  // Errors: E0520 for what to_bytes() has not made, those of Module::load and Execution::make.
  static Result<DetachedExecution> make(const DeviceRef& device, std::string_view bytes);
};

}  // namespace codetta::runtime::cuda
