// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "driver/kernel_state.hpp"
#include "driver/problem.hpp"

namespace codetta::driver {

// The arguments must lead to the same program as those that found the kernel; sizes and pointers may differ. Arguments
// with equal facts do; else the programs are compared as they are lowered: bound by itself, or with the sizes that the
// kernel was found with, since what is full beside many rows is so beside one. Binds `problem` where that is needed.
// Errors: E0414 and those of binding.
Result<void> check_same_program(const FoundState& found, Problem& problem);

}  // namespace codetta::driver
