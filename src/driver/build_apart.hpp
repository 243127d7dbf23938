// SPDX-License-Identifier: Apache-2.0
// What a library for a CPU has beside the kernels of a program: those that take their place in a call with tensors
// whose elements lie apart.
#pragma once

#include <vector>

#include "driver/build_plan.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

// Fills program.apart; its package is that of `plan`. Constants lie as the library has them, so kernels that read and
// write nothing else of the caller's get no other form. Errors: those of emission.
Result<void> add_apart(emit::host::Program& program, const plan::Plan& plan, const ConstantValues& values,
                       std::vector<KernelUnit>& units);

}  // namespace codetta::driver
