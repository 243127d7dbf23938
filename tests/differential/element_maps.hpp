// SPDX-License-Identifier: Apache-2.0
// Which elements of one node each element of the others comes from, element by element.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.hpp"

namespace codetta::test {

// By node and row-major element: the element of `source` that it reads, none, or several. Where `reductions` end it, a
// reduction's result reads none: what it has read lies before it.
class ElementMap {
 public:
  static constexpr int64_t none = -1, several = -2;
  // Symbolic sizes are taken as small and different ones.
  ElementMap(const ir::Graph& graph, ir::NodeId source, bool reductions_end);
  // Of several sources of one shape, whose elements in one place count as the same.
  ElementMap(const ir::Graph& graph, const std::vector<ir::NodeId>& sources, bool reductions_end);
  [[nodiscard]] const std::vector<int64_t>& operator[](ir::NodeId id) const { return maps_[id.index()]; }
  [[nodiscard]] const std::vector<int64_t>& sizes(ir::NodeId id) const { return sizes_[id.index()]; }

 private:
  void element_wise(ir::NodeId id);
  void layout(ir::NodeId id);

  const ir::Graph& graph_;
  std::vector<std::vector<int64_t>> maps_, sizes_;
};

}  // namespace codetta::test
