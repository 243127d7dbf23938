// SPDX-License-Identifier: Apache-2.0
// Which argument belongs to which parameter and output of an epilogue.
#pragma once

#include <optional>
#include <vector>

#include "ir/bind.hpp"

namespace codetta::ir {

// The argument of that name; null if there is none.
const BoundArgument* find_argument(const std::vector<BoundArgument>& arguments, const std::string& name);

struct MatchedArguments {
  std::vector<const BoundArgument*> parameters;  // by parameter; null for accum
  std::vector<BoundArgument> outputs;            // by output; D may come from GemmFacts::out
};
// Errors: E0208 to E0211, all names that are missing or unknown at once.
Result<MatchedArguments> match_arguments(const EpilogueFunction& function, const std::vector<BoundArgument>& arguments,
                                         const GemmFacts& facts);
// Operands only: outputs may be among the arguments, and none is in the result.
Result<MatchedArguments> match_operands(const EpilogueFunction& function, const std::vector<BoundArgument>& arguments);

// Errors: E0133 an operand that no output needs, E0134 an output that no operand reaches.
Result<void> check_dependences(const EpilogueFunction& function);

// Does a bound shape fit a value's? Sizes of the value under the facts; leading dims that are always 1 may be absent.
Result<void> check_output(const EpilogueFunction& function, const Output& output, const BoundArgument& bound,
                          const TensorType& type, const GemmFacts& facts);

// Shape with the symbols batch, m, n, k replaced by their sizes.
std::vector<int64_t> sizes_of(const std::vector<Dim>& shape, const GemmFacts& facts);
std::string describe(const BoundArgument& argument);  // "f32[64]", "f32 scalar"

}  // namespace codetta::ir
