// SPDX-License-Identifier: Apache-2.0
// What of a product's kernel could be a kernel of its own behind it: its reductions, and all that needs them.
#pragma once

#include <optional>
#include <vector>

#include "plan/regions.hpp"

namespace codetta::plan {

struct Behind {
  std::vector<ir::NodeId> nodes;  // in graph order
  // Bytes for each element of the product: what its kernel would store only for these nodes, what these read of what it
  // computes and of other tensors that have rows and columns, and what they store.
  double handed_over = 0, read = 0, stored = 0;
};
// None: nothing of the region reduces. Element-wise work in front of a reduction goes along where less has to be handed
// over then: of mean(x * x), x.
std::optional<Behind> behind_reductions(const ir::Graph& graph, const KernelRegion& region);

}  // namespace codetta::plan
