// SPDX-License-Identifier: Apache-2.0
// A small epilogue for every operation of the language.
#pragma once

#include <string>
#include <vector>

#include "case.hpp"

namespace codetta::evt_tests {

// By the operation's name in ops.def, in its order. Their texts live as long as the program.
const std::vector<Case>& operation_cases();

}  // namespace codetta::evt_tests
