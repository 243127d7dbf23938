// SPDX-License-Identifier: Apache-2.0
// Least cuts of directed graphs.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace codetta::plan {

// Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970: phases of
// shortest paths; without recursion, so that paths may be long.
class LeastCut {
 public:
  static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max() / 4;

  uint32_t add_vertex();
  // Cut where `from` is on the side of the source and `to` on that of the sink. A capacity of 0 is no edge.
  void add_edge(uint32_t from, uint32_t to, int64_t capacity);
  // By vertex: whether it is on the sink's side of the cut that has least there, which is the same whatever paths have
  // been found. Some edge that is not unlimited is on every path. Once.
  std::vector<bool> sink_side(uint32_t source, uint32_t sink);

 private:
  struct Edge {
    uint32_t to;
    int64_t left;  // of its capacity; the edge back is the next one, or the one before, by pairs
  };
  bool find_ranks(uint32_t source, uint32_t sink);
  void find_flow(uint32_t source, uint32_t sink);

  std::vector<Edge> edges_;
  std::vector<std::vector<uint32_t>> of_;  // by vertex: edges that begin there
  std::vector<uint32_t> rank_, next_;      // by vertex: edges from the source; the first edge that may lead on
};

}  // namespace codetta::plan
