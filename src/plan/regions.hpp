// SPDX-License-Identifier: Apache-2.0
// Cutting a program into regions: each node behind a product belongs to the last product that it depends on.
#pragma once

#include <optional>
#include <vector>

#include "plan/plan.hpp"

namespace codetta::plan {

// A factor of a product: where it is read, and whether its last two dims are swapped on the way.
struct Factor {
  ir::NodeId source;  // a graph input, or a value of an earlier region
  bool transposed = false;
};

struct ProgramRegions {
  std::vector<Region> regions;                     // in execution order
  std::vector<std::pair<Factor, Factor>> factors;  // by region
  std::vector<uint32_t> owner;                     // by node: its region; no_region: depends on no product
  std::vector<bool> crosses;                       // by node: another region reads it
};
inline constexpr uint32_t no_region = UINT32_MAX;

// Errors: E0311, located, for an op that no kernel or host step carries out; E0152 without a product.
Result<void> check_plannable(const ir::Graph& graph);

// Errors: E0310 outputs and factors that are computed without a product, E0220 products of more than three dims.
Result<ProgramRegions> find_regions(const ir::Graph& graph);

// A region as a graph of its own: inputs "A", "B" (as the product sees them), then region.inputs.
struct RegionGraph {
  struct Output {
    ir::NodeId node;           // in the program
    std::optional<size_t> of;  // which output of the program; none: a temporary
  };
  ir::Graph graph;
  ir::NodeId matmul;
  std::vector<Output> outputs;  // in the order of graph.outputs()
};
Result<RegionGraph> extract(const ir::Graph& graph, const ProgramRegions& regions, size_t region);

}  // namespace codetta::plan
