// SPDX-License-Identifier: Apache-2.0
#include "plan/behind.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "plan/least_cut.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Op;
using types::OpRule;

namespace {

class Split {
 public:
  Split(const ir::Graph& graph, const KernelRegion& region, const SizeOf& size);
  [[nodiscard]] bool reduces() const { return reduces_; }
  void find_least();
  [[nodiscard]] Behind result() const;

 private:
  [[nodiscard]] double elements(NodeId node) const;
  // For each element of the product. What does not depend on it and has more elements is read in parts, as by indices.
  [[nodiscard]] double bytes_of(NodeId node) const;
  [[nodiscard]] bool is_read(NodeId node) const { return leaf_[node.index()] || graph_.node(node).op == Op::input; }
  // Whether it stays in front whatever that takes.
  [[nodiscard]] bool stays(NodeId node) const {
    const OpRule rule = types::op_info(graph_.node(node).op).rule;
    return region_.computes(node) || stored_[node.index()] ||
           (rule == OpRule::layout && graph_.node(node).op != Op::reshape);
  }

  const ir::Graph& graph_;
  const KernelRegion& region_;
  const SizeOf& size_;
  std::vector<NodeId> nodes_;             // of the region with what it reads, in graph order
  std::vector<bool> leaf_, stored_;       // by node; in any case
  std::vector<bool> dependent_, behind_;  // by node: on a product
  bool reduces_ = false;
};

Split::Split(const ir::Graph& graph, const KernelRegion& region, const SizeOf& size)
    : graph_(graph),
      region_(region),
      size_(size),
      leaf_(graph.size()),
      stored_(graph.size()),
      dependent_(graph.size()),
      behind_(graph.size()) {
  std::vector<bool> inside(graph.size());
  for (const StoredValue& store : region.stores) inside[store.node.index()] = stored_[store.node.index()] = true;
  for (NodeId node : region.leaves) leaf_[node.index()] = !stored_[node.index()];
  for (size_t i = graph.size(); i-- > 0;) {
    const NodeId node(i);
    if (!inside[i]) continue;
    nodes_.push_back(node);
    if (region.computes(node) || leaf_[i]) continue;
    for (NodeId operand : graph.operands(node)) inside[operand.index()] = true;
  }
  std::reverse(nodes_.begin(), nodes_.end());
  for (NodeId node : nodes_) {
    const size_t i = node.index();
    if (leaf_[i]) continue;
    if (region.computes(node)) {
      dependent_[i] = true;
      continue;
    }
    for (NodeId operand : graph.operands(node)) {
      if (dependent_[operand.index()]) dependent_[i] = true;
      if (behind_[operand.index()]) behind_[i] = true;
    }
    if (dependent_[i] && types::op_info(graph.node(node).op).is_reduction()) behind_[i] = reduces_ = true;
  }
}

double Split::elements(NodeId node) const {
  double count = 1;
  for (const types::Dim& dim : graph_.type(node).shape) count *= static_cast<double>(size_(dim));
  return count;
}

double Split::bytes_of(NodeId node) const {
  const double share = elements(node) / std::max(elements(*region_.matmul), 1.0);
  const auto bytes = static_cast<double>(types::byte_size(graph_.type(node).dtype));
  return bytes * (dependent_[node.index()] ? share : std::min(share, 1.0));
}

// What stays in front is on the side of the source. A value there that is read behind takes its bytes twice, stored and
// read, or once where it is stored in any case; what neither computes takes its bytes once more where both read it.
void Split::find_least() {
  constexpr double parts = 1024;  // of a byte, in which capacities are counted
  LeastCut cut;
  const uint32_t source = cut.add_vertex(), sink = cut.add_vertex();
  // Of what depends on a product: itself, and that it is not read behind. Of others: not read in front; read behind.
  struct Vertices {
    uint32_t first = 0, second = 0;
  };
  std::vector<Vertices> vertices(graph_.size());
  for (NodeId node : nodes_) {
    const size_t i = node.index();
    const auto capacity = static_cast<int64_t>(std::llround(bytes_of(node) * parts));
    const Vertices own = vertices[i] = {cut.add_vertex(), cut.add_vertex()};
    if (is_read(node)) cut.add_edge(own.first, own.second, capacity);
    if (dependent_[i]) cut.add_edge(own.first, own.second, stored_[i] ? capacity : 2 * capacity);
    if (behind_[i]) cut.add_edge(own.first, sink, LeastCut::unlimited);
    if (dependent_[i] && !behind_[i] && stays(node)) cut.add_edge(source, own.first, LeastCut::unlimited);
    if (is_read(node) || region_.computes(node)) continue;
    for (NodeId operand : graph_.operands(node)) {
      const Vertices& read = vertices[operand.index()];
      // In front, so are its operands; behind, they are read there. Of what both may compute, each side for itself.
      cut.add_edge(own.first, read.first, LeastCut::unlimited);
      cut.add_edge(read.second, dependent_[i] ? own.first : own.second, LeastCut::unlimited);
    }
  }
  const std::vector<bool> side = cut.sink_side(source, sink);
  for (NodeId node : nodes_) behind_[node.index()] = dependent_[node.index()] && side[vertices[node.index()].first];
}

Behind Split::result() const {
  Behind result;
  std::vector<bool> needed(graph_.size());
  for (size_t n = nodes_.size(); n-- > 0;) {
    const size_t i = nodes_[n].index();
    const bool computed_again = needed[i] && !dependent_[i] && !is_read(nodes_[n]);
    if (!behind_[i] && !computed_again) continue;
    for (NodeId operand : graph_.operands(nodes_[n])) needed[operand.index()] = true;
  }
  for (NodeId node : nodes_) {
    const size_t i = node.index();
    const double bytes = bytes_of(node);
    if (behind_[i]) {
      result.nodes.push_back(node);
      if (stored_[i]) result.stored += bytes;
    } else if (needed[i] && dependent_[i]) {
      result.handed.push_back(node);
      result.read += bytes;
      if (!stored_[i]) result.handed_over += bytes;
    } else if (needed[i] && is_read(node)) {
      result.beside.push_back(node);
      result.read += bytes;
    }
  }
  return result;
}

std::string names_of(const ir::Graph& graph, const std::vector<NodeId>& nodes) {
  std::string text;
  for (NodeId node : nodes) {
    std::string name = graph.name_hint(node);
    for (const ir::GraphInput& input : graph.inputs()) {
      if (input.node == node) name = input.name;
    }
    if (name.empty()) name = fmt::format("%{}", node.index());
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, types::dtype_traits(graph.type(node).dtype).name);
  }
  return text;
}

}  // namespace

std::string read_text(const ir::Graph& graph, const Behind& behind) {
  const std::string handed = names_of(graph, behind.handed);
  if (behind.beside.empty()) return handed;
  return fmt::format("{}, with {} beside it", handed, names_of(graph, behind.beside));
}

std::optional<Behind> behind_reductions(const ir::Graph& graph, const KernelRegion& region, const SizeOf& size) {
  Split split(graph, region, size);
  if (!split.reduces()) return std::nullopt;
  split.find_least();
  return split.result();
}

}  // namespace codetta::plan
