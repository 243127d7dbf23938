// SPDX-License-Identifier: Apache-2.0
// Values that kernels and phases which compute them again have to compute alike.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace codetta::plan {

// By node: is it an inexact operation that both sides of a comparison are made of, as x is in x >= max(x)? Products and
// what steps make are computed once, so that nothing in front of them counts. Linear in the graph: of two comparisons
// in whose left and whose right side a value is, it counts as well.
std::vector<bool> compared_with_itself(const ir::Graph& graph);

}  // namespace codetta::plan
