// SPDX-License-Identifier: Apache-2.0
// Several random programs together: one library built ahead of time and one run of Python serve them all, and must give
// the bits of the runs in process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "differential/program_case.hpp"
#include "differential/together.hpp"

namespace codetta::test {

// Programs `first` to `first + count - 1` of the seed. What else is drawn for a batch (target, threads, whether it is
// built as users build) is that of the batch which begins at `like`.
struct BatchOptions {
  uint64_t seed = 1;
  int64_t first = 0, count = 0, like = 0;
};

// `kernels` are this process's. `report` gets an account of each failure, with the number of its program.
void run_batch(const BatchOptions& options, SharedKernels& kernels, ProgramCounts& counts,
               const std::function<void(int64_t index, const std::string& account)>& report);

}  // namespace codetta::test
