// SPDX-License-Identifier: Apache-2.0
// Running a GPU execution once and letting it go.
#pragma once

#include "driver/context.hpp"

namespace codetta::driver {

struct OneRun {
  runtime::cuda::DeviceRef device;
  Stream stream;
  bool capturing = false;  // the stream is being captured

  // Errors: E0430, E0640 to E0642, E0654, E0645 (stream of another context).
  static Result<OneRun> make(ContextState& context, const Target& target, Stream stream);
  // Enqueues. A workspace that goes with the execution has to outlive the work: it is waited for, which a capture
  // forbids (E0646).
  [[nodiscard]] Result<void> run(Execution& execution) const;
};

}  // namespace codetta::driver
