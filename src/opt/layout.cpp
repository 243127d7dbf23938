// SPDX-License-Identifier: Apache-2.0
// Layout ops against element-wise ones: f(permute(x), permute(y)) = permute(f(x, y)), in the direction that leaves
// fewer of them. dropout and the index functions depend on the position and stay where they are.
#include "opt/rules.hpp"
#include "types/dtype.hpp"

namespace codetta::opt {
namespace {

bool moves_freely(Op op) {
  const types::OpInfo& info = types::op_info(op);
  return info.elementwise() && info.arity > 0 && op != Op::dropout;
}
bool is_scalar(RuleContext& x, NodeId id) { return x.type(id).shape.empty(); }

// permute(f(permute(x, p), ...), q): if moving q inwards meets permutes in at least half of the operands, it costs
// nothing, and what it meets composes.
Rewrite permute_through(const Candidate& n, RuleContext& x) {
  if (n.op != Op::permute || !moves_freely(x.op(n.operands[0]))) return {};
  const NodeId f = n.operands[0];
  const auto& order = std::get_if<ir::PermuteAttr>(&n.attr)->order;
  int meets = 0, others = 0;
  for (const NodeId operand : x.operands(f)) {
    if (is_scalar(x, operand)) continue;
    if (x.type(operand).shape.size() != order.size()) return {};
    ++(x.op(operand) == Op::permute ? meets : others);
  }
  if (meets == 0 || meets < others) return {};
  Candidate result{x.op(f), {}, {}, n.type};
  const std::vector<NodeId> operands(x.operands(f).begin(), x.operands(f).end());
  if (result.op == Op::cast) result.attr = ir::CastAttr{n.type.dtype};
  for (const NodeId operand : operands) {
    if (is_scalar(x, operand)) {
      result.operands.push_back(operand);
      continue;
    }
    ir::PermuteAttr attr{order};
    NodeId from = operand;
    ir::TensorType type = x.type(operand);
    if (x.op(operand) == Op::permute) {
      from = x.operand(operand);
      const auto& inner = x.attr<ir::PermuteAttr>(operand).order;
      for (int32_t& i : attr.order) i = inner[static_cast<size_t>(i)];
    }
    const std::vector<ir::Dim> shape = x.type(from).shape;
    bool identity = true;
    for (size_t i = 0; i < attr.order.size(); ++i) {
      type.shape[i] = shape[static_cast<size_t>(attr.order[i])];
      identity = identity && attr.order[i] == static_cast<int32_t>(i);
    }
    result.operands.push_back(identity ? from : x.add({Op::permute, {from}, std::move(attr), std::move(type)}));
  }
  return result;
}

// reshape(f(reshape(x), ...)) back to the shape of x: operands of one shape go back together.
Rewrite reshape_through(const Candidate& n, RuleContext& x) {
  if (n.op != Op::reshape || !moves_freely(x.op(n.operands[0]))) return {};
  const NodeId f = n.operands[0];
  int meets = 0, others = 0;
  for (const NodeId operand : x.operands(f)) {
    if (is_scalar(x, operand)) continue;
    if (!(x.type(operand).shape == x.type(f).shape)) return {};
    const bool back = x.op(operand) == Op::reshape && x.type(x.operand(operand)).shape == n.type.shape;
    ++(back ? meets : others);
  }
  if (meets == 0 || meets < others) return {};
  Candidate result{x.op(f), {}, {}, n.type};
  if (result.op == Op::cast) result.attr = ir::CastAttr{n.type.dtype};
  const std::vector<NodeId> operands(x.operands(f).begin(), x.operands(f).end());
  for (const NodeId operand : operands) {
    if (is_scalar(x, operand)) {
      result.operands.push_back(operand);
    } else if (x.op(operand) == Op::reshape && x.type(x.operand(operand)).shape == n.type.shape) {
      result.operands.push_back(x.operand(operand));
    } else {
      ir::TensorType type = x.type(operand);
      type.shape = n.type.shape;
      result.operands.push_back(x.add({Op::reshape, {operand}, n.attr, std::move(type)}));
    }
  }
  return result;
}

constexpr Rule layout_table[] = {
    {"permute_through", "permute(f(permute(x, p), y), q) = f(permute(x, p[q]), permute(y, q))", permute_through},
    {"reshape_through", "reshape(f(reshape(x, s), y), shape of x) = f(x, reshape(y, shape of x))", reshape_through},
};

}  // namespace

std::span<const Rule> layout_rules() { return layout_table; }

}  // namespace codetta::opt
