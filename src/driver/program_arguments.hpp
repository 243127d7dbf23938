// SPDX-License-Identifier: Apache-2.0
// Numbers and names that a caller passes to a program.
#pragma once

#include <vector>

#include "codetta/gemm.hpp"
#include "device/cpu/abi.h"
#include "package/package.hpp"

namespace codetta::driver {

// A bound number in the type that the program declares for it: rounded to a float, exact in an integer. `value` holds
// no tensor. Errors: E0221 (a truth value for a number or the reverse, a fraction for an integer, out of range).
Result<codetta::cpu::ScalarValue> declared_number(const package::Buffer& buffer, const ArgumentValue& value);

// Errors: E0209, names that are neither a parameter nor an output.
Result<void> check_known(const package::Package& package, const std::vector<NamedArgument>& arguments);

}  // namespace codetta::driver
