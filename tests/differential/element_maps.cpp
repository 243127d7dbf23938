// SPDX-License-Identifier: Apache-2.0
#include "differential/element_maps.hpp"

#include <algorithm>
#include <numeric>

namespace codetta::test {
namespace {

using ir::NodeId;
using types::Op;
using types::OpRule;
using Sizes = std::vector<int64_t>;

int64_t count(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, [](int64_t a, int64_t b) { return a * b; });
}
Sizes coordinates(int64_t element, const Sizes& sizes) {
  Sizes at(sizes.size());
  for (size_t d = sizes.size(); d-- > 0; element /= sizes[d]) at[d] = element % sizes[d];
  return at;
}
// `at` has the rank of `sizes` or more; dims of size 1 broadcast.
size_t element(const Sizes& at, const Sizes& sizes) {
  int64_t result = 0;
  for (size_t d = 0; d < sizes.size(); ++d)
    result = result * sizes[d] + (sizes[d] == 1 ? 0 : at[at.size() - sizes.size() + d]);
  return static_cast<size_t>(result);
}
int64_t size_of(const ir::Dim& dim) {
  return dim.as_constant().value_or(dim.evaluate([](std::string_view name) -> std::optional<int64_t> {
                                         return name == "m" ? 3 : name == "n" ? 5 : name == "k" ? 4 : 2;
                                       })
                                        .value_or(1));
}

}  // namespace

ElementMap::ElementMap(const ir::Graph& graph, NodeId source, bool reductions_end)
    : ElementMap(graph, std::vector<NodeId>{source}, reductions_end) {}

ElementMap::ElementMap(const ir::Graph& graph, const std::vector<NodeId>& sources, bool reductions_end)
    : graph_(graph), maps_(graph.size()), sizes_(graph.size()) {
  for (uint32_t n = 0; n < graph.size(); ++n) {
    const NodeId id(n);
    for (const ir::Dim& dim : graph.type(id).shape) sizes_[n].push_back(size_of(dim));
    maps_[n].assign(static_cast<size_t>(count(sizes_[n])), none);
    const OpRule rule = types::op_info(graph.node(id).op).rule;
    if (std::find(sources.begin(), sources.end(), id) != sources.end()) {
      std::iota(maps_[n].begin(), maps_[n].end(), 0);
    } else if (rule == OpRule::layout) {
      layout(id);
    } else if (rule == OpRule::reduce) {
      const std::vector<int64_t>& x = maps_[graph.operands(id)[0].index()];
      const bool reads = std::any_of(x.begin(), x.end(), [](int64_t e) { return e != none; });
      if (reads && !reductions_end) std::fill(maps_[n].begin(), maps_[n].end(), several);
    } else if (rule != OpRule::matmul) {
      element_wise(id);
    }
  }
}

void ElementMap::element_wise(NodeId id) {
  const Sizes& sizes = sizes_[id.index()];
  for (size_t e = 0; e < maps_[id.index()].size(); ++e) {
    const Sizes at = coordinates(static_cast<int64_t>(e), sizes);
    int64_t& reads = maps_[id.index()][e];
    for (const NodeId operand : graph_.operands(id)) {
      const int64_t x = maps_[operand.index()][element(at, sizes_[operand.index()])];
      if (x != none) reads = reads == none || reads == x ? x : several;
    }
  }
}

void ElementMap::layout(NodeId id) {
  const std::vector<NodeId> operands(graph_.operands(id).begin(), graph_.operands(id).end());
  const Sizes& sizes = sizes_[id.index()];
  const Op op = graph_.node(id).op;
  for (size_t e = 0; e < maps_[id.index()].size(); ++e) {
    const NodeId x = operands[0];
    int64_t& reads = maps_[id.index()][e];
    if (op == Op::reshape) {
      reads = maps_[x.index()][e];
      continue;
    }
    Sizes at = coordinates(static_cast<int64_t>(e), sizes);
    if (op == Op::permute) {
      Sizes from(at.size());
      const auto& order = graph_.attr_as<ir::PermuteAttr>(id).order;
      for (size_t d = 0; d < at.size(); ++d) from[static_cast<size_t>(order[d])] = at[d];
      reads = maps_[x.index()][element(from, sizes_[x.index()])];
    } else if (op == Op::split) {
      const auto& split = graph_.attr_as<ir::SplitAttr>(id);
      const auto d = static_cast<size_t>(split.dim);
      at[d] += split.part * sizes[d];
      reads = maps_[x.index()][element(at, sizes_[x.index()])];
    } else {  // join
      const auto& join = graph_.attr_as<ir::JoinAttr>(id);
      const auto d = static_cast<size_t>(join.dim);
      const auto ways = static_cast<int64_t>(operands.size());
      const int64_t part = join.interleave ? ways : sizes_[x.index()][d];
      const int64_t which = join.interleave ? at[d] % part : at[d] / part;
      at[d] = join.interleave ? at[d] / part : at[d] % part;
      const NodeId from = operands[static_cast<size_t>(which)];
      reads = maps_[from.index()][element(at, sizes_[from.index()])];
    }
  }
}

}  // namespace codetta::test
