// SPDX-License-Identifier: Apache-2.0
// ValueBinder: values to nodes in definition order, open index expressions, rounding as separate kernels would.
#include "ir/bind_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/bind.hpp"
#include "types/dtype.hpp"

namespace codetta::ir {
namespace {

using types::OpRule;

uint32_t from_end_of(Op op) { return op == Op::col_index ? 1 : op == Op::row_index ? 2 : 3; }

// The shape in which an index op counts dim `from_end` of `space`: [1, n], [m, 1], [batch, 1, 1]; [n] in a space of one
// dim.
std::vector<Dim> index_shape(uint32_t from_end, const std::vector<Dim>& space) {
  std::vector<Dim> shape(std::max<size_t>(from_end, std::min<size_t>(2, space.size())), Dim::constant(1));
  if (from_end <= space.size()) shape[shape.size() - from_end] = space[space.size() - from_end];
  return shape;
}

}  // namespace

ValueBinder::ValueBinder(const Function& function, GraphBuilder& builder, BindOptions options)
    : function_(function),
      builder_(builder),
      options_(std::move(options)),
      slots_(function.values.size()),
      next_(function.parameters.size()) {}

Result<void> ValueBinder::run() {
  slots_.resize(function_.values.size());
  for (; next_ < function_.values.size(); ++next_) CODETTA_CHECK_OK(bind(ValueId(next_)));
  return {};
}

Result<NodeId> ValueBinder::node(ValueId value) {
  if (is_open(value)) return build_open(value, options_.index_space);
  return slots_[value.index()].node;
}

// The shape to which the operands that are already nodes broadcast; where they don't fit, add() says so later.
std::vector<Dim> ValueBinder::known_shape(const Value& value) const {
  std::vector<Dim> out;
  for (const ValueId operand : value.operands) {
    if (is_open(operand)) continue;
    const std::vector<Dim>& shape = builder_.type(slots_[operand.index()].node).shape;
    if (shape.size() > out.size()) out.insert(out.begin(), shape.size() - out.size(), Dim::constant(1));
    for (size_t i = 0; i < shape.size(); ++i) {
      Dim& size = out[out.size() - shape.size() + i];
      if (size == Dim::constant(1)) size = shape[i];
    }
  }
  return out;
}

Result<void> ValueBinder::bind(ValueId id) {
  const Value& value = function_[id];
  const types::OpInfo& info = types::op_info(value.op);
  Slot& slot = slots_[id.index()];
  if (info.rule == OpRule::index) {
    if (const auto* counted = std::get_if<ReshapeAttr>(&value.attr)) {  // arange
      CODETTA_TRY(slot.node, builder_.add(value.op, {}, *counted, value.span, value.name));
      return {};
    }
    if (options_.index_space.empty()) {
      return diag::error(diag::Code::index_without_gemm,
                         fmt::format("{}() is only defined in an epilogue", info.spelling))
          .at(function_.source, value.span)
          .reason("it counts the elements of the accumulator, and a program has several")
          .help("move the expression into an epilogue function");
    }
    const uint32_t from_end = from_end_of(value.op);
    if (from_end > options_.index_space.size()) {  // batch_index() of a single product
      slot.node = builder_.add_literal({LiteralAttr::Kind::Int, 0, 0}, DType::i64, value.span);
    } else {
      slot.needs = 1u << (from_end - 1);
    }
    return {};
  }
  uint32_t needs = 0;
  for (const ValueId operand : value.operands) {
    if (is_open(operand)) needs |= slots_[operand.index()].needs;
  }
  std::vector<Dim> shape = options_.index_space;
  if (needs != 0 && info.elementwise()) {
    shape = known_shape(value);
    for (size_t from_end = 1; from_end <= 3; ++from_end) {
      if ((needs >> (from_end - 1) & 1) == 0) continue;
      const bool there = from_end <= shape.size() && !(shape[shape.size() - from_end] == Dim::constant(1));
      if (!there) {
        slot.needs = needs;
        return {};
      }
    }
  }
  std::vector<NodeId> operands;
  operands.reserve(value.operands.size());
  for (const ValueId operand : value.operands) {
    NodeId node = slots_[operand.index()].node;
    if (!node.valid()) {
      CODETTA_TRY(node, build_open(operand, shape));
    }
    operands.push_back(node);
  }
  CODETTA_TRY(slot.node, add(value, operands));
  return {};
}

// A factor that lacks some of the other's leading dims, but not all of them, is repeated along those. Where that is
// read again instead of stored, the plan knows (plan/factor_views.hpp).
Result<NodeId> ValueBinder::repeated(NodeId factor, NodeId other, const Value& value) {
  const std::vector<Dim>&own = builder_.type(factor).shape, &others = builder_.type(other).shape;
  if (own.size() < 2 || others.size() < 2) return factor;
  const Dim one = Dim::constant(1);
  std::vector<Dim> shape(own.end() - 2, own.end());
  bool lacks = false, has = false;
  for (size_t from_end = 3; from_end <= std::max(own.size(), others.size()); ++from_end) {
    const Dim& mine = from_end <= own.size() ? own[own.size() - from_end] : one;
    const Dim& wanted = from_end <= others.size() ? others[others.size() - from_end] : one;
    if (!(mine == one) && !(wanted == one) && !(mine == wanted)) return factor;  // what add() says
    has = has || !(mine == one);
    lacks = lacks || (mine == one && !(wanted == one));
    shape.insert(shape.begin(), mine == one ? wanted : mine);
  }
  if (!has || !lacks) return factor;
  const NodeId from[] = {factor};
  return builder_.add(Op::broadcast, from, ReshapeAttr{std::move(shape)}, value.span, value.name);
}

Result<NodeId> ValueBinder::add(const Value& value, std::span<const NodeId> operands) {
  if (const auto* literal = std::get_if<LiteralAttr>(&value.attr)) return builder_.add_literal(*literal, value.span);
  if (value.op == Op::cond || value.op == Op::while_loop) return add_control(value, operands);
  std::vector<diag::Span> written;
  for (const ValueId operand : value.operands) written.push_back(function_[operand].span);
  Attr attr = value.attr;
  if (value.op == Op::matmul && operands.size() == 2) {
    attr = MatmulAttr{
        default_accumulator(builder_.type(operands[0]).dtype, builder_.type(operands[1]).dtype).value_or(DType::f32)};
    CODETTA_TRY(const NodeId a, repeated(operands[0], operands[1], value));
    CODETTA_TRY(const NodeId b, repeated(operands[1], operands[0], value));
    const NodeId factors[] = {a, b};
    CODETTA_TRY(const NodeId product,
                builder_.add(value.op, factors, std::move(attr), value.span, value.name, written));
    return options_.round_as_unfused ? rounded(product, value, operands) : product;
  }
  CODETTA_TRY(const NodeId result, builder_.add(value.op, operands, std::move(attr), value.span, value.name, written));
  return options_.round_as_unfused ? rounded(result, value, operands) : result;
}

// bf16 with f32 is f32; two different narrow floats are f32, too.
NodeId ValueBinder::rounded(NodeId result, const Value& value, std::span<const NodeId> operands) {
  const OpRule rule = types::op_info(value.op).rule;
  const bool computes =
      rule == OpRule::arith || rule == OpRule::real || rule == OpRule::select || rule == OpRule::reduce;
  const TensorType type = builder_.type(result);
  if (!computes || type.weak || !types::is_float(type.dtype)) return result;
  if (rule == OpRule::select) operands = operands.subspan(1);
  if (value.op == Op::dropout) operands = operands.first(1);
  std::optional<DType> promoted;
  for (const NodeId operand : operands) {
    const TensorType& operand_type = builder_.type(operand);
    if (operand_type.weak || !types::is_float(operand_type.dtype)) continue;
    if (!promoted || *promoted == operand_type.dtype) {
      promoted = operand_type.dtype;
    } else {
      promoted = types::join(*promoted, operand_type.dtype);
    }
  }
  if (!promoted || *promoted == type.dtype) return result;
  const NodeId from[] = {result};
  return builder_.add_unchecked(Op::cast, from, CastAttr{*promoted}, {*promoted, false, type.shape}, value.span,
                                value.name);
}

Result<NodeId> ValueBinder::build_open(ValueId id, const std::vector<Dim>& shape) {
  auto space = std::find_if(spaces_.begin(), spaces_.end(), [&](const Space& s) { return s.shape == shape; });
  if (space == spaces_.end()) space = spaces_.insert(spaces_.end(), Space{shape, {}});
  std::unordered_map<uint32_t, NodeId>& built = space->built;
  std::vector<ValueId> stack{id};
  while (!stack.empty()) {
    const ValueId top = stack.back();
    const Value& value = function_[top];
    if (built.contains(top.index())) {
      stack.pop_back();
      continue;
    }
    if (types::op_info(value.op).rule == OpRule::index) {
      std::vector<Dim> counted = index_shape(from_end_of(value.op), shape);
      CODETTA_TRY(built[top.index()],
                  builder_.add(value.op, {}, ReshapeAttr{std::move(counted)}, value.span, value.name));
      stack.pop_back();
      continue;
    }
    std::vector<NodeId> operands;
    for (const ValueId operand : value.operands) {
      if (!is_open(operand)) {
        operands.push_back(slots_[operand.index()].node);
      } else if (const auto found = built.find(operand.index()); found != built.end()) {
        operands.push_back(found->second);
      } else {
        stack.push_back(operand);
      }
    }
    if (operands.size() < value.operands.size()) continue;
    CODETTA_TRY(const NodeId node, add(value, operands));
    built[top.index()] = node;
    stack.pop_back();
  }
  return built[id.index()];
}

}  // namespace codetta::ir
