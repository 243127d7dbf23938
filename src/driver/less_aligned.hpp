// SPDX-License-Identifier: Apache-2.0
// Which program takes over where the tensors of a run do not lie as a program's kernels rely on.
#pragma once

#include <optional>
#include <vector>

#include "driver/program_state.hpp"

namespace codetta::driver {

// What relies on less. What few need is left out where nothing asks for it, and else comes at once.
std::optional<plan::Alignment> less_than(const CompiledProgramState& state,
                                         const std::vector<NamedArgument>& arguments);

}  // namespace codetta::driver
