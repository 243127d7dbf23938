// SPDX-License-Identifier: Apache-2.0
// Operations over literals, where every kernel gives the same bits: IEEE arithmetic in the compute dtype, integers,
// comparisons, conversions. Functions such as exp stay for the run time, whose accuracy is the target's.
#include <cmath>

#include "ir/literals.hpp"
#include "opt/rules.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::opt {
namespace {

using types::Scalar;
using Kind = ir::LiteralAttr::Kind;

Scalar scalar_of(const ir::LiteralAttr& l, DType dtype) {
  const Scalar s = l.kind == Kind::Float  ? Scalar::from_f64(l.f)
                   : l.kind == Kind::Bool ? Scalar::from_bool(l.i != 0)
                                          : Scalar::from_i64(l.i);
  return types::convert(s, dtype);
}
ir::LiteralAttr literal_of(const Scalar& s) {
  if (types::is_float(s.dtype())) return {Kind::Float, 0, s.as_f64()};
  if (types::is_bool(s.dtype())) return {Kind::Bool, s.as_bool() ? 1 : 0, 0};
  return {Kind::Int, s.as_i64(), 0};
}

// A square root is rounded correctly everywhere.
template <class T>
std::optional<T> float_op(Op op, const T* v) {
  return op == Op::sqrt ? std::optional(std::sqrt(v[0])) : ir::exact_float(op, v);
}

// The type that a comparison of typed literals works in.
DType joined(const RuleContext& x, const Candidate& n) {
  return *types::join(x.type(n.operands[0]).dtype, x.type(n.operands[1]).dtype);
}

std::optional<Scalar> arithmetic(const Candidate& n, RuleContext& x) {
  const DType d = n.type.dtype;
  Scalar v[3];
  for (size_t i = 0; i < n.operands.size() && i < 3; ++i) v[i] = scalar_of(*x.literal(n.operands[i]), d);
  if (d == DType::f32) {
    const float f[] = {static_cast<float>(v[0].as_f64()), static_cast<float>(v[1].as_f64())};
    const std::optional<float> r = float_op(n.op, f);
    return r ? std::optional(Scalar::from_f64(static_cast<double>(*r), d)) : std::nullopt;
  }
  if (d == DType::f64) {
    const double f[] = {v[0].as_f64(), v[1].as_f64()};
    const std::optional<double> r = float_op(n.op, f);
    return r ? std::optional(Scalar::from_f64(*r, d)) : std::nullopt;
  }
  if (!types::is_integer(d)) return std::nullopt;
  const uint64_t bits[] = {v[0].payload(), v[1].payload(), v[2].payload()};
  const std::optional<uint64_t> r = ir::exact_integer(n.op, bits, types::is_signed(d));
  return r ? std::optional(types::convert(Scalar::from_u64(*r), d)) : std::nullopt;
}

Rewrite fold(const Candidate& n, RuleContext& x, bool (*belongs)(const types::OpInfo&),
             std::optional<Scalar> (*value)(const Candidate&, RuleContext&)) {
  if (n.operands.empty() || n.type.weak || !n.type.shape.empty() || !belongs(types::op_info(n.op))) return {};
  for (const NodeId operand : n.operands) {
    if (x.literal(operand) == nullptr || (x.type(operand).weak && n.op != Op::cast)) return {};
  }
  const std::optional<Scalar> result = value(n, x);
  if (!result) return {};
  // A literal holds 64 bits with a sign: larger numbers stay computed.
  if (n.type.dtype == DType::u64 && static_cast<int64_t>(result->payload()) < 0) return {};
  return x.literal(literal_of(*result), n.type.dtype);
}

Rewrite fold_arithmetic(const Candidate& n, RuleContext& x) {
  return fold(
      n, x, [](const types::OpInfo& i) { return i.rule == types::OpRule::arith || i.rule == types::OpRule::real; },
      arithmetic);
}
Rewrite fold_cast(const Candidate& n, RuleContext& x) {
  return fold(
      n, x, [](const types::OpInfo& i) { return i.rule == types::OpRule::cast; },
      [](const Candidate& c, RuleContext& r) -> std::optional<Scalar> {
        return types::convert(scalar_of(*r.literal(c.operands[0]), r.type(c.operands[0]).dtype), c.type.dtype);
      });
}
// Else a weak f64 would be spread, which not every target has.
Rewrite fold_spread_cast(const Candidate& n, RuleContext& x) {
  if (n.op != Op::cast || n.type.weak || x.op(n.operands[0]) != Op::broadcast) return {};
  const NodeId spread = n.operands[0], number = x.operand(spread);
  if (x.literal(number) == nullptr) return {};
  const Scalar value = types::convert(scalar_of(*x.literal(number), x.type(number).dtype), n.type.dtype);
  if (n.type.dtype == DType::u64 && static_cast<int64_t>(value.payload()) < 0) return {};
  return Candidate{
      Op::broadcast, {x.literal(literal_of(value), n.type.dtype)}, x.attr<ir::ReshapeAttr>(spread), n.type};
}
Rewrite fold_comparison(const Candidate& n, RuleContext& x) {
  return fold(
      n, x, [](const types::OpInfo& i) { return i.rule == types::OpRule::compare; },
      [](const Candidate& c, RuleContext& r) -> std::optional<Scalar> {
        const DType d = joined(r, c);
        const Scalar a = scalar_of(*r.literal(c.operands[0]), d), b = scalar_of(*r.literal(c.operands[1]), d);
        if (types::is_float(d)) return Scalar::from_bool(ir::compared(c.op, a.as_f64(), b.as_f64()));
        if (types::is_signed(d)) return Scalar::from_bool(ir::compared(c.op, a.as_i64(), b.as_i64()));
        return Scalar::from_bool(ir::compared(c.op, a.as_u64(), b.as_u64()));
      });
}
Rewrite fold_logical(const Candidate& n, RuleContext& x) {
  return fold(
      n, x, [](const types::OpInfo& i) { return i.rule == types::OpRule::logical; },
      [](const Candidate& c, RuleContext& r) -> std::optional<Scalar> {
        const bool a = r.is_bool(c.operands[0], true), b = c.operands.size() > 1 && r.is_bool(c.operands[1], true);
        return Scalar::from_bool(c.op == Op::logical_not   ? !a
                                 : c.op == Op::logical_and ? (a && b)
                                 : c.op == Op::logical_or  ? (a || b)
                                                           : a != b);
      });
}

constexpr Rule fold_table[] = {
    {"fold_arithmetic", "literals under + - * / neg abs sqrt minimum maximum floor ceil trunc relu", fold_arithmetic},
    {"fold_cast", "cast(literal, dtype)", fold_cast},
    {"fold_spread_cast", "cast(broadcast(literal), dtype) = broadcast(cast(literal, dtype))", fold_spread_cast},
    {"fold_comparison", "comparisons of literals", fold_comparison},
    {"fold_logical", "& | ^ ~ of literals", fold_logical},
};

}  // namespace

std::span<const Rule> fold_rules() { return fold_table; }

}  // namespace codetta::opt
