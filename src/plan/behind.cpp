// SPDX-License-Identifier: Apache-2.0
#include "plan/behind.hpp"

#include <algorithm>
#include <set>

#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;
using types::OpRule;

namespace {

// Of an element of the product's space, of a value there; of a row or a column next to nothing.
double bytes_of(const ir::Graph& graph, NodeId node) {
  const ir::TensorType& type = graph.type(node);
  const auto& shape = type.shape;
  const Dim one = Dim::constant(1);
  if (shape.size() < 2 || shape.back() == one || shape[shape.size() - 2] == one) return 0;
  return static_cast<double>(types::byte_size(type.dtype));
}

}  // namespace

std::optional<Behind> behind_reductions(const ir::Graph& graph, const KernelRegion& region) {
  const size_t count = graph.size();
  std::vector<bool> inside(count), dependent(count), behind(count), stored(count);
  for (const StoredValue& store : region.stores) inside[store.node.index()] = stored[store.node.index()] = true;
  std::vector<bool> leaf(count);
  for (NodeId node : region.leaves) leaf[node.index()] = true;
  const auto is_leaf = [&](NodeId node) { return leaf[node.index()] && !stored[node.index()]; };
  for (size_t i = count; i-- > 0;) {
    const NodeId node(i);
    if (!inside[i] || region.computes(node) || is_leaf(node)) continue;
    for (NodeId operand : graph.operands(node)) inside[operand.index()] = true;
  }
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    const NodeId node(i);
    if (!inside[i] || is_leaf(node)) continue;
    if (region.computes(node)) {
      dependent[i] = true;
      continue;
    }
    for (NodeId operand : graph.operands(node)) {
      dependent[i] = dependent[i] || dependent[operand.index()];
      behind[i] = behind[i] || behind[operand.index()];
    }
    if (!dependent[i] || !types::op_info(graph.node(node).op).is_reduction()) continue;
    behind[i] = any = true;
  }
  if (!any) return std::nullopt;
  // Who reads a value; what somebody else reads, too, is stored in any case.
  std::vector<std::vector<NodeId>> users(count);
  for (size_t i = 0; i < count; ++i) {
    for (NodeId operand : graph.operands(NodeId(i))) users[operand.index()].push_back(NodeId(i));
  }
  const auto needed = [&](NodeId node) {  // behind, of what is in front
    return std::any_of(users[node.index()].begin(), users[node.index()].end(),
                       [&](NodeId user) { return inside[user.index()] && behind[user.index()]; });
  };
  for (size_t i = count; i-- > 0;) {
    const NodeId node(i);
    if (!dependent[i] || behind[i] || stored[i] || region.computes(node)) continue;
    if (types::op_info(graph.node(node).op).rule == OpRule::layout) continue;
    const auto& all = users[i];
    if (!std::all_of(all.begin(), all.end(), [&](NodeId user) { return behind[user.index()]; })) continue;
    std::set<NodeId> more;
    double instead = 0;
    for (NodeId operand : graph.operands(node)) {
      if (more.insert(operand).second && !stored[operand.index()] && !needed(operand))
        instead += bytes_of(graph, operand);
    }
    if (instead < bytes_of(graph, node)) behind[i] = true;
  }
  Behind result;
  for (size_t i = 0; i < count; ++i) {
    const NodeId node(i);
    if (behind[i]) result.nodes.push_back(node);
    if (behind[i] && stored[i]) result.stored += bytes_of(graph, node);
    if (!inside[i] || behind[i] || !needed(node)) continue;
    result.read += bytes_of(graph, node);
    if (dependent[i] && !stored[i]) result.handed_over += bytes_of(graph, node);
  }
  return result;
}

}  // namespace codetta::plan
