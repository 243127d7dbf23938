// SPDX-License-Identifier: Apache-2.0
// Several random programs together: one library built ahead of time and one run of Python serve them all, and must give
// the bits of the runs in process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "differential/program_case.hpp"

namespace codetta::test {

// Programs `first` to `first + count - 1` of the seed. `report` gets an account of each failure, with the number of its
// program.
void run_batch(uint64_t seed, int64_t first, int64_t count, ProgramCounts& counts,
               const std::function<void(int64_t index, const std::string& account)>& report);

}  // namespace codetta::test
