// SPDX-License-Identifier: Apache-2.0
// Which refusals a random epilogue may meet, proven from its typed graph and nothing of the planner.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/graph.hpp"

namespace codetta::test {

// Operand and output that share one view.
using Shared = std::vector<std::pair<std::string, std::string>>;

// Whether an error of this code is right for the graph: E0301, E0302 and E0304 to E0307 need an operation that the code
// speaks of, E0610 a reduction of something without all dims of the product (which the caller knows to be empty), E0613
// an element of the operand that is read where or when it may be overwritten already. Other codes never are.
bool is_refusal_right(const ir::Graph& graph, uint16_t code, const Shared& shared);

}  // namespace codetta::test
