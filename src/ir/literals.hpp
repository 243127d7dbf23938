// SPDX-License-Identifier: Apache-2.0
// Operations between literals, done before anything has a type: what decides which integer type holds a number is the
// number itself.
#pragma once

#include <optional>
#include <span>

#include "ir/attr.hpp"
#include "types/op.hpp"

namespace codetta::ir {

// What the op gives: numbers in i64, which wraps, or in f64 where one of them is a float; comparisons and logic a bool.
// Nullopt for what is no arithmetic, or has no such value: functions whose accuracy is the target's (exp, sqrt, ...),
// layout, a negative or a boolean exponent of an integer, a condition or a logical operand that is a number.
std::optional<LiteralAttr> fold_literals(types::Op op, std::span<const LiteralAttr* const> operands);

}  // namespace codetta::ir
