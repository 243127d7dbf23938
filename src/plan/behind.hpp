// SPDX-License-Identifier: Apache-2.0
// What of a product's kernel could be a kernel of its own behind it: its reductions, and all that needs them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/regions.hpp"

namespace codetta::plan {

struct Behind {
  std::vector<ir::NodeId> nodes;  // in graph order
  // What these read: values that the product's kernel computes, and other tensors.
  std::vector<ir::NodeId> handed, beside;
  // Bytes for each element of the product: what its kernel would store only for these nodes, what these read of what it
  // computes and of other tensors, and what they store.
  double handed_over = 0, read = 0, stored = 0;
};
// "h bf16, with mask f32 beside it": what a kernel behind reads.
std::string read_text(const ir::Graph& graph, const Behind& behind);

// None: nothing of the region reduces. Element-wise work in front of a reduction goes along where less has to be stored
// and read then, all of it considered at once: of mean(x * x), x; of max(where(mask, cast(x, bf16) * 0.125, -inf)), the
// cast. What takes as much stays with the product.
std::optional<Behind> behind_reductions(const ir::Graph& graph, const KernelRegion& region, const SizeOf& size);

}  // namespace codetta::plan
