// SPDX-License-Identifier: Apache-2.0
#include "driver/planned_graph.hpp"

#include "opt/slices.hpp"

namespace codetta::driver {

Result<ir::Graph> graph_for(const ir::Graph& graph, const Target& target) {
  if (target.backend != Backend::cpu && target.backend != Backend::hip) return graph;
  std::vector<opt::Fired> fired;
  return opt::items_of_slices(graph, fired);
}

}  // namespace codetta::driver
