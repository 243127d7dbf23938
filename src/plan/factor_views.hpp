// SPDX-License-Identifier: Apache-2.0
// How products see their factors: what lies between a factor and the memory that it is read from.
#pragma once

#include <functional>
#include <utility>

#include "plan/regions.hpp"

namespace codetta::plan {

// What a plan knows of values that factors may be read from.
struct FactorSources {
  std::function<bool(ir::NodeId)> unknown;   // strides of what is in memory there are not the plan's choice
  std::function<bool(ir::NodeId)> as_one;    // several of its dims may be taken for one
  std::function<bool(ir::NodeId)> readable;  // it lies where an output does, as it is
  std::function<bool(ir::NodeId)> sliced;    // a slice of it may begin anywhere
  // Elements side by side are read from multiples of so many bytes on as fast as from the first: others are copied.
  int64_t offset_bytes = 1;
};

// A and B. Through dims of items that are folded and last dims that are swapped to whatever is behind them; through any
// order of dims, dims that are split, slices and items that are repeated to inputs and results of steps, which would be
// copied otherwise. Such a view has one stride for its items or two, whatever the tensor's are, and the other factor
// takes them, too (package::FactorView). Rows and columns may be several dims in their order: of these as well as of
// outputs that the program computes, and of joins that no kernel makes in the shape that the product reads. Slices of
// joins that are stored part by part are read there, too.
std::pair<Factor, Factor> factors_of_product(const ir::Graph& graph, ir::NodeId a, ir::NodeId b,
                                             const FactorSources& sources);

}  // namespace codetta::plan
