// SPDX-License-Identifier: Apache-2.0
// Layout ops against element-wise ones: f(permute(x), permute(y)) = permute(f(x, y)), in the direction that leaves
// fewer of them. dropout and the index functions depend on the position and stay where they are.
#include <utility>

#include "ir/reshape.hpp"
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
  if (!folds(n.type.shape)) return {};  // what has been merged so that a kernel has the axes for it
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

// Dims that other dims are made of, where no dim of them is known to have two elements, in whose steps all could be
// counted: they become one.
Rewrite reshape_mixed(const Candidate& n, RuleContext& x) {
  if (n.op != Op::reshape) return {};
  ir::TensorType type = x.type(n.operands[0]);
  const std::vector<ir::Dim> from = std::exchange(type.shape, {});
  std::vector<size_t> into(from.size());  // the dim that each becomes a part of
  for (size_t d = 0; d < from.size(); ++d) into[d] = d;
  for (const ir::ReshapeSegment& segment : ir::reshape_segments(n.type.shape, from)) {
    if (segment.to.size() < 2 || segment.from.size() < 2 || ir::step_of(segment, from)) continue;
    for (const size_t d : segment.from) into[d] = segment.from[0];
  }
  std::vector<ir::Dim> merged = from;
  for (size_t d = from.size(); d-- > 0;) {
    if (into[d] == d) {
      type.shape.insert(type.shape.begin(), merged[d]);
    } else {
      merged[into[d]] = merged[into[d]] * merged[d];
    }
  }
  if (type.shape.size() == from.size()) return {};
  const NodeId whole = x.add({Op::reshape, n.operands, ir::ReshapeAttr{type.shape}, type});
  return Candidate{Op::reshape, {whole}, n.attr, n.type};
}

constexpr Rule layout_table[] = {
    {"permute_through", "permute(f(permute(x, p), y), q) = f(permute(x, p[q]), permute(y, q))", permute_through},
    {"reshape_through", "reshape(f(reshape(x, s), y), shape of x) = f(x, reshape(y, shape of x))", reshape_through},
};

constexpr Rule mixed_dims_table[] = {
    {"reshape_mixed", "reshape(x, (n, m)) = reshape(reshape(x, (m*n,)), (n, m)), where x is (m, n)", reshape_mixed},
};

}  // namespace

std::span<const Rule> mixed_dims_rules() { return mixed_dims_table; }
std::span<const Rule> layout_rules() { return layout_table; }

}  // namespace codetta::opt
