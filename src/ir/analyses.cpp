// SPDX-License-Identifier: Apache-2.0
// Analyses over finished graphs; operands have smaller numbers than their users, so one pass in either direction
// suffices.
#include "ir/analyses.hpp"

#include <algorithm>

#include "ir/infer.hpp"

namespace codetta::ir {

Uses uses(const Graph& graph) {
  Uses out;
  out.users.resize(graph.size());
  for (size_t i = 0; i < graph.size(); ++i) {
    for (const NodeId operand : graph.operands(NodeId(i))) out.users[operand.index()].push_back(NodeId(i));
  }
  return out;
}

std::vector<bool> needed_by(const Graph& graph, std::span<const NodeId> roots) {
  std::vector<bool> needed(graph.size(), false);
  for (const NodeId root : roots) needed[root.index()] = true;
  for (size_t i = graph.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const NodeId operand : graph.operands(NodeId(i))) needed[operand.index()] = true;
  }
  return needed;
}

std::vector<NodeId> topological_order(const Graph& graph, std::span<const NodeId> roots) {
  const std::vector<bool> needed = needed_by(graph, roots);
  std::vector<NodeId> order;
  for (size_t i = 0; i < graph.size(); ++i) {
    if (needed[i]) order.emplace_back(i);
  }
  return order;
}

std::vector<bool> reachable_from(const Graph& graph, NodeId source) {
  std::vector<bool> reached(graph.size(), false);
  reached[source.index()] = true;
  for (size_t i = source.index() + 1; i < graph.size(); ++i) {
    for (const NodeId operand : graph.operands(NodeId(i))) reached[i] = reached[i] || reached[operand.index()];
  }
  return reached;
}

std::vector<NodeId> matmuls(const Graph& graph) {
  std::vector<NodeId> out;
  for (size_t i = 0; i < graph.size(); ++i) {
    if (graph.node(NodeId(i)).op == Op::matmul) out.emplace_back(i);
  }
  return out;
}

DType operand_dtype(const Graph& graph, NodeId node) {
  const types::OpInfo& info = types::op_info(graph.node(node).op);
  const std::span<const NodeId> operands = graph.operands(node);
  if (operands.empty()) return graph.type(node).dtype;
  if (info.rule == types::OpRule::cast || info.rule == types::OpRule::matmul) return graph.type(operands[0]).dtype;
  if (info.rule != types::OpRule::compare) return graph.type(node).dtype;
  std::vector<OperandFacts> facts;
  for (const NodeId operand : operands)
    facts.push_back({&graph.type(operand), std::get_if<LiteralAttr>(&graph.attr(operand)), &graph.attr(operand)});
  return join_types(facts).dtype;
}

}  // namespace codetta::ir
