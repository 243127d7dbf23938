// SPDX-License-Identifier: Apache-2.0
#include "plan/least_cut.hpp"

#include <algorithm>

namespace codetta::plan {

namespace {
constexpr uint32_t unreached = std::numeric_limits<uint32_t>::max();
}  // namespace

uint32_t LeastCut::add_vertex() {
  of_.emplace_back();
  return static_cast<uint32_t>(of_.size() - 1);
}

void LeastCut::add_edge(uint32_t from, uint32_t to, int64_t capacity) {
  if (capacity <= 0) return;
  of_[from].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({to, capacity});
  of_[to].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

bool LeastCut::find_ranks(uint32_t source, uint32_t sink) {
  rank_.assign(of_.size(), unreached);
  std::vector<uint32_t> reached{source};
  rank_[source] = 0;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const uint32_t e : of_[reached[i]]) {
      if (edges_[e].left == 0 || rank_[edges_[e].to] != unreached) continue;
      rank_[edges_[e].to] = rank_[reached[i]] + 1;
      reached.push_back(edges_[e].to);
    }
  }
  return rank_[sink] != unreached;
}

void LeastCut::find_flow(uint32_t source, uint32_t sink) {
  next_.assign(of_.size(), 0);
  std::vector<uint32_t> path;  // edges
  uint32_t at = source;
  while (true) {
    if (at == sink) {
      int64_t flow = unlimited;
      for (const uint32_t e : path) flow = std::min(flow, edges_[e].left);
      size_t kept = path.size();  // up to the first edge that is full now
      for (size_t i = path.size(); i-- > 0;) {
        edges_[path[i]].left -= flow;
        edges_[path[i] ^ 1].left += flow;
        if (edges_[path[i]].left == 0) kept = i;
      }
      path.resize(kept);
      at = path.empty() ? source : edges_[path.back()].to;
    }
    uint32_t& next = next_[at];
    const auto leads = [&](uint32_t e) { return edges_[e].left > 0 && rank_[edges_[e].to] == rank_[at] + 1; };
    while (next < of_[at].size() && !leads(of_[at][next])) ++next;
    if (next < of_[at].size()) {
      path.push_back(of_[at][next]);
      at = edges_[path.back()].to;
      continue;
    }
    if (path.empty()) return;
    rank_[at] = unreached;  // a dead end
    path.pop_back();
    at = path.empty() ? source : edges_[path.back()].to;
  }
}

std::vector<bool> LeastCut::sink_side(uint32_t source, uint32_t sink) {
  while (find_ranks(source, sink)) find_flow(source, sink);
  std::vector<bool> side(of_.size());
  std::vector<uint32_t> reached{sink};
  side[sink] = true;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const uint32_t e : of_[reached[i]]) {
      if (edges_[e ^ 1].left == 0 || side[edges_[e].to]) continue;
      side[edges_[e].to] = true;
      reached.push_back(edges_[e].to);
    }
  }
  return side;
}

}  // namespace codetta::plan
