// SPDX-License-Identifier: Apache-2.0
#include "opt/rewrite.hpp"

#include <bit>
#include <utility>

#include "types/dtype.hpp"

namespace codetta::opt {

using Kind = ir::LiteralAttr::Kind;

bool RuleContext::is_float(NodeId id, double value) const {
  const ir::LiteralAttr* l = literal(id);
  if (l == nullptr || !types::is_float(type(id).dtype)) return false;
  const double x = l->kind == Kind::Float ? l->f : static_cast<double>(l->i);
  return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(value);
}

bool RuleContext::is_number(NodeId id, int64_t value) const {
  const ir::LiteralAttr* l = literal(id);
  if (l == nullptr) return false;
  return l->kind == Kind::Float ? l->f == static_cast<double>(value) : l->i == value;
}

bool RuleContext::is_bool(NodeId id, bool value) const {
  const ir::LiteralAttr* l = literal(id);
  return l != nullptr && types::is_bool(type(id).dtype) && l->kind == Kind::Bool && (l->i != 0) == value;
}

Rewrite RuleContext::as(NodeId node, const ir::TensorType& wanted) {
  const ir::TensorType& have = type(node);
  if (have.shape != wanted.shape || have.weak != wanted.weak) return {};
  if (have.dtype == wanted.dtype) return node;
  if (wanted.weak) return {};
  return Candidate{Op::cast, {node}, ir::CastAttr{wanted.dtype}, wanted};
}

NodeId RuleContext::reshaped(NodeId node, std::vector<types::Dim> shape) {
  if (op(node) == Op::reshape) node = operand(node);
  ir::TensorType wanted = type(node);
  if (wanted.shape == shape) return node;
  wanted.shape = std::move(shape);
  return add({Op::reshape, {node}, ir::ReshapeAttr{wanted.shape}, wanted});
}

Result<ir::Graph> rewrite(const ir::Graph& graph, std::span<const Rule> rules, std::vector<uint32_t>& fired) {
  fired.resize(rules.size(), 0);
  ir::GraphBuilder builder(graph.source());
  RuleContext context(builder);
  std::vector<NodeId> now(graph.size());
  for (const ir::GraphInput& input : graph.inputs()) {
    now[input.node.index()] = builder.add_input(graph, input);
  }
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const NodeId id(i);
    if (graph.node(id).op == Op::input) continue;
    context.at(graph.span(id));
    Candidate candidate{graph.node(id).op, {}, graph.attr(id), graph.type(id)};
    for (const NodeId operand : graph.operands(id)) candidate.operands.push_back(now[operand.index()]);
    // Rules shrink or order what they match, so this ends; the limit turns a mistake into a missed rewrite.
    for (int step = 0; step < 100 && !now[i].valid(); ++step) {
      bool changed = false;
      for (size_t r = 0; r < rules.size() && !changed; ++r) {
        Rewrite result = rules[r].apply(candidate, context);
        if (std::holds_alternative<std::monostate>(result)) continue;
        changed = true;
        ++fired[r];
        if (const NodeId* node = std::get_if<NodeId>(&result)) {
          now[i] = *node;
        } else {
          candidate = std::move(*std::get_if<Candidate>(&result));
        }
      }
      if (!changed) break;
    }
    if (!now[i].valid()) {
      // An index that folding has made is refused as one that is written: E0218.
      if (types::op_info(candidate.op).rule == types::OpRule::indexed && context.literal(candidate.operands[1])) {
        std::vector<diag::Span> written;
        for (const NodeId operand : graph.operands(id)) written.push_back(graph.span(operand));
        CODETTA_CHECK_OK(builder.add(candidate.op, candidate.operands, candidate.attr, graph.span(id), {}, written));
      }
      now[i] = builder.add_unchecked(candidate.op, candidate.operands, candidate.attr, candidate.type, graph.span(id),
                                     graph.name_hint(id));
    }
  }
  for (const ir::GraphOutput& output : graph.outputs())
    builder.add_output(output.name, now[output.node.index()], output.dtype);
  return std::move(builder).finish();
}

}  // namespace codetta::opt
