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

// Of each failure: the number of its program, whether it is_unfinished(), and an account.
using Report = std::function<void(int64_t index, bool unfinished, const std::string& account)>;

// `kernels` are this process's.
void run_batch(const BatchOptions& options, SharedKernels& kernels, ProgramCounts& counts, const Report& report);

}  // namespace codetta::test
