// SPDX-License-Identifier: Apache-2.0
// How products see their factors: what lies between a factor and the memory that it is read from.
#pragma once

#include <functional>
#include <utility>

#include "plan/regions.hpp"

namespace codetta::plan {

// A and B. Through dims of items that are folded and last dims that are swapped to whatever is behind them; through any
// order of dims, dims that are split and items that are repeated to inputs and results of steps, which would be copied
// otherwise. Such a view has one stride for its items or two, whatever the tensor's are, and the other factor takes
// them, too (package::FactorView). `unknown`: strides of what is in memory there are not the plan's choice.
std::pair<Factor, Factor> factors_of_product(const ir::Graph& graph, ir::NodeId a, ir::NodeId b,
                                             const std::function<bool(ir::NodeId)>& unknown);

}  // namespace codetta::plan
