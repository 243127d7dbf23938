// SPDX-License-Identifier: Apache-2.0
#include "plan/compared.hpp"

#include <cstdint>

#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Op;
using types::OpRule;

namespace {

// Whether its value is one of its operands', or a whole number.
bool is_exact(Op op) {
  switch (op) {
    case Op::neg:
    case Op::minimum:
    case Op::maximum:
    case Op::clamp:
    case Op::abs:
    case Op::sign:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
    case Op::relu:
    case Op::drelu:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_amax:
      return true;
    default:
      return false;
  }
}

bool rounds(const ir::Graph& graph, NodeId node) {
  const OpRule rule = types::op_info(graph.node(node).op).rule;
  if (rule != OpRule::arith && rule != OpRule::real && rule != OpRule::reduce) return false;
  return types::is_float(graph.type(node).dtype) && !is_exact(graph.node(node).op);
}

// Whether a kernel that computes the node may compute its operands as well.
bool is_inside(OpRule rule) {
  return rule != OpRule::matmul && rule != OpRule::control && rule != OpRule::external && rule != OpRule::special;
}

}  // namespace

std::vector<bool> compared_with_itself(const ir::Graph& graph) {
  constexpr uint8_t left = 1, right = 2;
  std::vector<bool> rounded(graph.size(), false), result(graph.size(), false);
  const auto at = [](size_t index) { return NodeId(static_cast<uint32_t>(index)); };
  for (size_t i = 0; i < graph.size(); ++i) {
    const OpRule rule = types::op_info(graph.node(at(i)).op).rule;
    rounded[i] = rounds(graph, at(i));
    if (!is_inside(rule)) continue;
    for (const NodeId operand : graph.operands(at(i))) rounded[i] = rounded[i] || rounded[operand.index()];
  }
  std::vector<uint8_t> sides(graph.size(), 0);
  for (size_t i = graph.size(); i-- > 0;) {
    const OpRule rule = types::op_info(graph.node(at(i)).op).rule;
    result[i] = sides[i] == (left | right) && rounds(graph, at(i));
    if (!is_inside(rule)) continue;
    const auto operands = graph.operands(at(i));
    for (const NodeId operand : operands) sides[operand.index()] |= sides[i];
    // A side that nothing rounds, as a limit, has nothing in common with the other one that could come out otherwise.
    // Whole numbers may be made of what rounds.
    if (rule != OpRule::compare) continue;
    if (!rounded[operands[0].index()] || !rounded[operands[1].index()]) continue;
    sides[operands[0].index()] |= left;
    sides[operands[1].index()] |= right;
  }
  return result;
}

}  // namespace codetta::plan
