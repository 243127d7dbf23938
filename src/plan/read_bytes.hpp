// SPDX-License-Identifier: Apache-2.0
// How much one turn of a graph reads: what goes through the shared caches between two readings of a product's B.
#pragma once

#include <unordered_map>

#include "plan/regions.hpp"

namespace codetta::plan {

struct ReadBytes {
  // Of inputs, of factors that are computed, and of what steps are given; with what branches and loops read inside.
  double all = 0;
  // By node, of these: as much of it as is read, once. Of a tensor that rows are taken from, these rows; of one that is
  // sliced, the slices; never more than there is.
  std::unordered_map<size_t, double> of{};
  [[nodiscard]] double of_node(ir::NodeId node) const {
    const auto known = of.find(node.index());
    return known == of.end() ? 0 : known->second;
  }
};

// Of a branch's results the larger one counts, of a loop one turn. On CPUs, where an A that is computed is stored, and
// a B if it needs a product or a step.
ReadBytes read_bytes(const ir::Graph& graph, const SizeOf& size);

}  // namespace codetta::plan
