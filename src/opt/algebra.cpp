// SPDX-License-Identifier: Apache-2.0
// Identities of arithmetic, logic, conversions, and of layout ops that meet. Not here, because they aren't exact: x * 0
// (NaN, infinities, -0), x + 0.0 (-0.0 becomes +0.0), x - x, -(x - y) (zeros), ~(x < y) on floats (NaN), reassociation.
#include <array>

#include "opt/rules.hpp"
#include "types/dtype.hpp"

namespace codetta::opt {
namespace {

using C = const Candidate&;
using X = RuleContext&;

bool integral(C n) { return !types::is_float(n.type.dtype); }
// Does the type hold every value of the other exactly?
bool holds(DType wide, DType narrow) {
  if (types::is_bool(narrow)) return true;
  if (types::is_bool(wide)) return false;
  if (types::is_float(wide) && types::is_float(narrow)) {
    // fp8 infinities would come back saturated.
    if (types::is_fp8(wide) || narrow == DType::f8e5m2) return false;
    return types::mantissa_bits(wide) >= types::mantissa_bits(narrow) &&
           types::exponent_bits(wide) >= types::exponent_bits(narrow);
  }
  if (types::is_float(wide))
    return types::mantissa_bits(wide) + 1 >= types::bits(narrow) && types::max_finite(wide) > types::max_finite(narrow);
  if (types::is_float(narrow)) return false;
  if (types::is_signed(wide) == types::is_signed(narrow)) return types::bits(wide) >= types::bits(narrow);
  return types::is_signed(wide) && types::bits(wide) > types::bits(narrow);
}

Rewrite mul_one(C n, X x) {
  if (n.op != Op::mul) return {};
  if (x.is_number(n.operands[1], 1)) return x.as(n.operands[0], n.type);
  if (x.is_number(n.operands[0], 1)) return x.as(n.operands[1], n.type);
  return {};
}
Rewrite div_one(C n, X x) {
  const bool divides = n.op == Op::div || (n.op == Op::floordiv && integral(n));
  return divides && x.is_number(n.operands[1], 1) ? x.as(n.operands[0], n.type) : Rewrite{};
}
Rewrite pow_one(C n, X x) {
  return n.op == Op::pow && x.is_number(n.operands[1], 1) ? x.as(n.operands[0], n.type) : Rewrite{};
}
Rewrite sub_zero(C n, X x) {
  if (n.op != Op::sub) return {};
  const bool zero = integral(n) ? x.is_number(n.operands[1], 0) : x.is_float(n.operands[1], 0.0);
  return zero ? x.as(n.operands[0], n.type) : Rewrite{};
}
Rewrite add_zero(C n, X x) {
  if (n.op != Op::add) return {};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const bool zero = integral(n) ? x.is_number(n.operands[i], 0) : x.is_float(n.operands[i], -0.0);
    if (zero) return x.as(n.operands[1 - i], n.type);
  }
  return {};
}
// An operand that has the dtype that the node computes in, so that nothing is converted in between.
bool same_dtype(C n, X x, NodeId operand) { return x.type(operand).dtype == n.type.dtype && !x.type(operand).weak; }

Rewrite neg_neg(C n, X x) {
  const bool match = n.op == Op::neg && x.op(n.operands[0]) == Op::neg && same_dtype(n, x, n.operands[0]);
  return match ? x.as(x.operand(n.operands[0]), n.type) : Rewrite{};
}
Rewrite not_not(C n, X x) {
  return n.op == Op::logical_not && x.op(n.operands[0]) == Op::logical_not ? x.as(x.operand(n.operands[0]), n.type)
                                                                           : Rewrite{};
}
Rewrite add_neg(C n, X x) {
  if (n.op != Op::add) return {};
  const NodeId y = n.operands[1];
  if (x.op(y) != Op::neg || !same_dtype(n, x, y) || !same_dtype(n, x, x.operand(y))) return {};
  return Candidate{Op::sub, {n.operands[0], x.operand(y)}, {}, n.type};
}
Rewrite sub_neg(C n, X x) {
  if (n.op != Op::sub) return {};
  const NodeId y = n.operands[1];
  if (x.op(y) != Op::neg || !same_dtype(n, x, y) || !same_dtype(n, x, x.operand(y))) return {};
  return Candidate{Op::add, {n.operands[0], x.operand(y)}, {}, n.type};
}
Rewrite mul_neg_neg(C n, X x) {
  if (n.op != Op::mul) return {};
  for (const NodeId y : n.operands) {
    if (x.op(y) != Op::neg || !same_dtype(n, x, y) || !same_dtype(n, x, x.operand(y))) return {};
  }
  return Candidate{Op::mul, {x.operand(n.operands[0]), x.operand(n.operands[1])}, {}, n.type};
}
Rewrite abs_neg(C n, X x) {
  if (n.op != Op::abs || types::is_unsigned(n.type.dtype)) return {};  // -x of an unsigned type is another magnitude
  const NodeId y = n.operands[0];
  if (x.op(y) != Op::neg || !same_dtype(n, x, y) || !same_dtype(n, x, x.operand(y))) return {};
  return Candidate{Op::abs, {x.operand(y)}, {}, n.type};
}
Rewrite idempotent(C n, X x) {
  switch (n.op) {
    case Op::abs:
    case Op::relu:
    case Op::sign:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
      return x.op(n.operands[0]) == n.op && same_dtype(n, x, n.operands[0]) ? x.as(n.operands[0], n.type) : Rewrite{};
    default:
      return {};
  }
}
Rewrite integer_rounding(C n, X x) {
  const bool rounds = n.op == Op::floor || n.op == Op::ceil || n.op == Op::round || n.op == Op::trunc;
  return rounds && integral(n) ? x.as(n.operands[0], n.type) : Rewrite{};
}
Rewrite equal_operands(C n, X x) {
  const bool match = n.op == Op::minimum || n.op == Op::maximum || n.op == Op::logical_and || n.op == Op::logical_or;
  return match && n.operands[0] == n.operands[1] ? x.as(n.operands[0], n.type) : Rewrite{};
}
Rewrite logical_neutral(C n, X x) {
  if (n.op != Op::logical_and && n.op != Op::logical_or && n.op != Op::logical_xor) return {};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (x.is_bool(n.operands[i], n.op == Op::logical_and)) return x.as(n.operands[1 - i], n.type);
  }
  return {};
}
Rewrite where_known(C n, X x) {
  if (n.op != Op::where) return {};
  if (x.is_bool(n.operands[0], true)) return x.as(n.operands[1], n.type);
  if (x.is_bool(n.operands[0], false)) return x.as(n.operands[2], n.type);
  return {};
}
Rewrite where_same(C n, X x) {
  return n.op == Op::where && n.operands[1] == n.operands[2] ? x.as(n.operands[1], n.type) : Rewrite{};
}
Rewrite where_not(C n, X x) {
  if (n.op != Op::where || x.op(n.operands[0]) != Op::logical_not) return {};
  return Candidate{Op::where, {x.operand(n.operands[0]), n.operands[2], n.operands[1]}, {}, n.type};
}
Rewrite not_equal(C n, X x) {
  if (n.op != Op::logical_not) return {};
  const NodeId y = n.operands[0];
  if (x.op(y) != Op::eq && x.op(y) != Op::ne) return {};
  return Candidate{x.op(y) == Op::eq ? Op::ne : Op::eq, {x.operand(y, 0), x.operand(y, 1)}, {}, n.type};
}
Rewrite not_ordered(C n, X x) {
  if (n.op != Op::logical_not) return {};
  const NodeId y = n.operands[0];
  const Op op = x.op(y);
  if (op != Op::lt && op != Op::le && op != Op::gt && op != Op::ge) return {};
  for (const NodeId operand : x.operands(y)) {
    if (types::is_float(x.type(operand).dtype)) return {};
  }
  const Op opposite = op == Op::lt ? Op::ge : op == Op::le ? Op::gt : op == Op::gt ? Op::le : Op::lt;
  return Candidate{opposite, {x.operand(y, 0), x.operand(y, 1)}, {}, n.type};
}
Rewrite cast_same(C n, X x) {
  return n.op == Op::cast && x.type(n.operands[0]).dtype == n.type.dtype && !x.type(n.operands[0]).weak
             ? x.as(n.operands[0], n.type)
             : Rewrite{};
}
// Through a type that holds all values.
Rewrite cast_there_and_back(C n, X x) {
  if (n.op != Op::cast || x.op(n.operands[0]) != Op::cast) return {};
  const NodeId origin = x.operand(n.operands[0]);
  const bool match =
      x.type(origin).dtype == n.type.dtype && !x.type(origin).weak && holds(x.type(n.operands[0]).dtype, n.type.dtype);
  return match ? x.as(origin, n.type) : Rewrite{};
}

Rewrite permute_identity(C n, X x) {
  if (n.op != Op::permute) return {};
  const auto& order = std::get_if<ir::PermuteAttr>(&n.attr)->order;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int32_t>(i)) return {};
  }
  return x.as(n.operands[0], n.type);
}
Rewrite permute_permute(C n, X x) {
  if (n.op != Op::permute || x.op(n.operands[0]) != Op::permute) return {};
  const auto& inner = x.attr<ir::PermuteAttr>(n.operands[0]).order;
  ir::PermuteAttr both;
  for (const int32_t i : std::get_if<ir::PermuteAttr>(&n.attr)->order)
    both.order.push_back(inner[static_cast<size_t>(i)]);
  return Candidate{Op::permute, {x.operand(n.operands[0])}, std::move(both), n.type};
}
Rewrite reshape_identity(C n, X x) {
  return n.op == Op::reshape && x.type(n.operands[0]).shape == n.type.shape ? x.as(n.operands[0], n.type) : Rewrite{};
}
Rewrite reshape_reshape(C n, X x) {
  if (n.op != Op::reshape || x.op(n.operands[0]) != Op::reshape) return {};
  return Candidate{Op::reshape, {x.operand(n.operands[0])}, n.attr, n.type};
}
Rewrite split_join(C n, X x) {
  if (n.op != Op::split || x.op(n.operands[0]) != Op::join) return {};
  const auto& split = *std::get_if<ir::SplitAttr>(&n.attr);
  const auto& join = x.attr<ir::JoinAttr>(n.operands[0]);
  const std::span<const NodeId> parts = x.operands(n.operands[0]);
  if (join.interleave || join.dim != split.dim || parts.size() != static_cast<size_t>(split.ways)) return {};
  for (const NodeId part : parts) {
    if (!(x.type(part).shape == n.type.shape)) return {};
  }
  return x.as(parts[static_cast<size_t>(split.part)], n.type);
}
Rewrite join_split(C n, X x) {
  if (n.op != Op::join || x.op(n.operands[0]) != Op::split) return {};
  const auto& join = *std::get_if<ir::JoinAttr>(&n.attr);
  const NodeId origin = x.operand(n.operands[0]);
  if (join.interleave && n.operands.size() > 1) return {};
  for (size_t i = 0; i < n.operands.size(); ++i) {
    if (x.op(n.operands[i]) != Op::split || x.operand(n.operands[i]) != origin) return {};
    const auto& split = x.attr<ir::SplitAttr>(n.operands[i]);
    const bool fits = split.dim == join.dim && static_cast<size_t>(split.ways) == n.operands.size() &&
                      split.part == static_cast<int32_t>(i);
    if (!fits) return {};
  }
  return x.as(origin, n.type);
}
// A part without elements, whatever the other sizes are: nothing stores it, and no position lies in it. A part of the
// joined type has to be left.
Rewrite join_empty(C n, X x) {
  if (n.op != Op::join) return {};
  const auto d = static_cast<size_t>(std::get_if<ir::JoinAttr>(&n.attr)->dim);
  Candidate less = n;
  std::erase_if(less.operands,
                [&](NodeId part) { return x.type(part).shape[d] == ir::Dim::constant(0) && !x.type(part).weak; });
  const bool typed = std::any_of(less.operands.begin(), less.operands.end(), [&](NodeId part) {
    return x.type(part).dtype == n.type.dtype && x.type(part).weak == n.type.weak;
  });
  if (less.operands.size() == n.operands.size() || !typed) return {};
  if (less.operands.size() == 1) return x.as(less.operands[0], n.type);
  return less;
}

// What the body of a loop hands on as it got it is what the loop began with.
Rewrite loop_invariant(const Candidate& n, RuleContext& x) {
  if (n.op != Op::result || x.op(n.operands[0]) != Op::while_loop) return {};
  const auto index = static_cast<size_t>(std::get_if<ir::ResultAttr>(&n.attr)->index);
  const ir::Graph& body = *x.attr<ir::WhileAttr>(n.operands[0]).body;
  if (body.outputs()[index].node != body.inputs()[index].node) return {};
  return x.operand(n.operands[0], index);
}

constexpr Rule algebra_table[] = {
    {"mul_one", "x * 1 = x", mul_one},
    {"div_one", "x / 1 = x; x // 1 = x on integers", div_one},
    {"pow_one", "x ** 1 = x", pow_one},
    {"sub_zero", "x - 0 = x (floats: +0.0 only)", sub_zero},
    {"add_zero", "x + 0 = x (floats: -0.0 only)", add_zero},
    {"neg_neg", "-(-x) = x", neg_neg},
    {"not_not", "~~x = x", not_not},
    {"add_neg", "x + (-y) = x - y", add_neg},
    {"sub_neg", "x - (-y) = x + y", sub_neg},
    {"mul_neg_neg", "(-x) * (-y) = x * y", mul_neg_neg},
    {"abs_neg", "abs(-x) = abs(x)", abs_neg},
    {"idempotent", "f(f(x)) = f(x) for abs relu sign floor ceil round trunc", idempotent},
    {"integer_rounding", "floor(x) = x, and ceil round trunc, on integers", integer_rounding},
    {"equal_operands", "minimum(x, x) = x, and maximum & |", equal_operands},
    {"logical_neutral", "x & True = x, x | False = x, x ^ False = x", logical_neutral},
    {"where_known", "where(True, x, y) = x, where(False, x, y) = y", where_known},
    {"where_same", "where(c, x, x) = x", where_same},
    {"where_not", "where(~c, x, y) = where(c, y, x)", where_not},
    {"not_equal", "~(x == y) = (x != y), and back", not_equal},
    {"not_ordered", "~(x < y) = (x >= y), and <= > >=, on integers", not_ordered},
    {"cast_same", "cast(x, dtype of x) = x", cast_same},
    {"cast_there_and_back", "cast(cast(x, wider), dtype of x) = x", cast_there_and_back},
    {"permute_identity", "permute(x, (0, 1, ...)) = x", permute_identity},
    {"permute_permute", "permute(permute(x, p), q) = permute(x, p[q])", permute_permute},
    {"reshape_identity", "reshape(x, shape of x) = x", reshape_identity},
    {"reshape_reshape", "reshape(reshape(x, s), t) = reshape(x, t)", reshape_reshape},
    {"split_join", "split(join(x, y), 2)[i] = (x, y)[i]", split_join},
    {"join_split", "join(*split(x, n)) = x", join_split},
    {"join_empty", "join(x, part of size 0, y) = join(x, y)", join_empty},
    {"loop_invariant", "a result of while_loop that its body returns as it is = the operand", loop_invariant},
};

}  // namespace

std::span<const Rule> algebra_rules() { return algebra_table; }

}  // namespace codetta::opt
