// SPDX-License-Identifier: Apache-2.0
#include "plan/behind.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

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
  [[nodiscard]] bool is_read(NodeId node) const { return of(node).leaf || graph_.node(node).op == Op::input; }
  // Whether it stays in front whatever that takes.
  [[nodiscard]] bool stays(NodeId node) const {
    const OpRule rule = types::op_info(graph_.node(node).op).rule;
    return region_.computes(node) || of(node).stored || (rule == OpRule::layout && graph_.node(node).op != Op::reshape);
  }

  const ir::Graph& graph_;
  const KernelRegion& region_;
  struct Facts {
    bool leaf = false, stored = false;       // in any case
    bool dependent = false, behind = false;  // on a product
  };
  [[nodiscard]] const Facts& of(NodeId node) const { return facts_.find(node.index())->second; }

  const SizeOf& size_;
  std::vector<NodeId> nodes_;                // of the region with what it reads, in graph order
  std::unordered_map<size_t, Facts> facts_;  // of these: the program may have thousands of others
  bool reduces_ = false;
};

Split::Split(const ir::Graph& graph, const KernelRegion& region, const SizeOf& size)
    : graph_(graph), region_(region), size_(size) {
  const std::set<NodeId> leaves(region.leaves.begin(), region.leaves.end());
  const auto add = [&](NodeId node) -> Facts& {
    const auto [fact, is_new] = facts_.try_emplace(node.index());
    if (is_new) nodes_.push_back(node);
    return fact->second;
  };
  for (const StoredValue& store : region.stores) add(store.node).stored = true;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const NodeId node = nodes_[n];
    Facts& facts = facts_[node.index()];
    facts.leaf = !facts.stored && leaves.count(node) != 0;
    if (region.computes(node) || facts.leaf) continue;
    for (NodeId operand : graph.operands(node)) add(operand);
  }
  std::sort(nodes_.begin(), nodes_.end());
  for (NodeId node : nodes_) {
    Facts& facts = facts_[node.index()];
    if (facts.leaf) continue;
    if (region.computes(node)) {
      facts.dependent = true;
      continue;
    }
    for (NodeId operand : graph.operands(node)) {
      if (of(operand).dependent) facts.dependent = true;
      if (of(operand).behind) facts.behind = true;
    }
    if (facts.dependent && types::op_info(graph.node(node).op).is_reduction()) facts.behind = reduces_ = true;
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
  return bytes * (of(node).dependent ? share : std::min(share, 1.0));
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
  std::unordered_map<size_t, Vertices> vertices;
  for (NodeId node : nodes_) {
    const Facts& facts = of(node);
    const auto capacity = static_cast<int64_t>(std::llround(bytes_of(node) * parts));
    const Vertices own = vertices[node.index()] = {cut.add_vertex(), cut.add_vertex()};
    if (is_read(node)) cut.add_edge(own.first, own.second, capacity);
    if (facts.dependent) cut.add_edge(own.first, own.second, facts.stored ? capacity : 2 * capacity);
    if (facts.behind) cut.add_edge(own.first, sink, LeastCut::unlimited);
    if (facts.dependent && !facts.behind && stays(node)) cut.add_edge(source, own.first, LeastCut::unlimited);
    if (is_read(node) || region_.computes(node)) continue;
    for (NodeId operand : graph_.operands(node)) {
      const Vertices& read = vertices[operand.index()];
      // In front, so are its operands; behind, they are read there. Of what both may compute, each side for itself.
      cut.add_edge(own.first, read.first, LeastCut::unlimited);
      cut.add_edge(read.second, facts.dependent ? own.first : own.second, LeastCut::unlimited);
    }
  }
  const std::vector<bool> side = cut.sink_side(source, sink);
  for (NodeId node : nodes_) {
    Facts& facts = facts_[node.index()];
    facts.behind = facts.dependent && side[vertices[node.index()].first];
  }
}

Behind Split::result() const {
  Behind result;
  std::set<NodeId> needed;
  for (size_t n = nodes_.size(); n-- > 0;) {
    const NodeId node = nodes_[n];
    const bool computed_again = !of(node).dependent && !is_read(node) && needed.count(node) != 0;
    if (!of(node).behind && !computed_again) continue;
    for (NodeId operand : graph_.operands(node)) needed.insert(operand);
  }
  for (NodeId node : nodes_) {
    const Facts& facts = of(node);
    const double bytes = bytes_of(node);
    if (facts.behind) {
      result.nodes.push_back(node);
      if (facts.stored) result.stored += bytes;
    } else if (needed.count(node) == 0) {
      continue;
    } else if (facts.dependent) {
      result.handed.push_back(node);
      result.read += bytes;
      if (!facts.stored) result.handed_over += bytes;
    } else if (is_read(node)) {
      result.beside.push_back(node);
      result.read += bytes;
    }
  }
  return result;
}

std::string names_of(const ir::Graph& graph, const std::vector<NodeId>& nodes) {
  std::string text;
  for (NodeId node : nodes) {
    const bool input = graph.node(node).op == Op::input;  // these are the first nodes
    std::string name = input ? graph.inputs()[node.index()].name : graph.name_hint(node);
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
