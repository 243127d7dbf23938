// SPDX-License-Identifier: Apache-2.0
#include "ir/literals.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "types/dtype.hpp"

namespace codetta::ir {
namespace {

using types::Op;
using types::OpRule;

using Wide = __int128;

constexpr Wide wide_limit = Wide{1} << 125;  // of magnitudes: sums of two and signs never overflow

// Nullopt beyond wide_limit.
std::optional<Wide> product(Wide x, Wide y) {
  Wide result;
  if (__builtin_mul_overflow(x, y, &result) || result > wide_limit || result < -wide_limit) return std::nullopt;
  return result;
}
std::optional<Wide> total(std::optional<Wide> x, Wide y) {
  if (!x || *x + y > wide_limit || *x + y < -wide_limit) return std::nullopt;
  return *x + y;
}
std::optional<Wide> power(Wide base, Wide exponent) {
  if (exponent > 126) {
    if (base < -1 || base > 1) return std::nullopt;
    exponent = 2 - exponent % 2;
  }
  std::optional<Wide> result = 1;
  for (; result && exponent != 0; --exponent) result = product(*result, base);
  return result;
}

// Rounded down; what Python does not define is what semantics.md says of it.
Wide quotient(Wide x, Wide y) {
  if (y == 0) return 0;
  const Wide q = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}
Wide remainder(Wide x, Wide y) {
  if (y == 0) return 0;
  const Wide r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

ExactLiteral integer(std::optional<Wide> value) {
  return {LiteralAttr::Kind::Int, value.value_or(0), 0, !value.has_value()};
}

std::optional<ExactLiteral> of_integers(Op op, const Wide* v) {
  switch (op) {
    case Op::add:
      return integer(total(v[0], v[1]));
    case Op::sub:
      return integer(total(v[0], -v[1]));
    case Op::mul:
      return integer(product(v[0], v[1]));
    case Op::multiply_add:
      return integer(total(product(v[0], v[1]), v[2]));
    case Op::neg:
      return integer(-v[0]);
    case Op::abs:
      return integer(v[0] < 0 ? -v[0] : v[0]);
    case Op::pow:
      if (v[1] < 0) return std::nullopt;
      return integer(power(v[0], v[1]));
    case Op::floordiv:
      return integer(quotient(v[0], v[1]));
    case Op::mod:
      return integer(remainder(v[0], v[1]));
    case Op::minimum:
      return integer(std::min(v[0], v[1]));
    case Op::maximum:
      return integer(std::max(v[0], v[1]));
    case Op::relu:
      return integer(std::max(v[0], Wide{0}));
    case Op::sign:
      return integer((v[0] > 0 ? 1 : 0) - (v[0] < 0 ? 1 : 0));
    case Op::drelu:
      return integer(v[0] > 0 ? 1 : 0);
    case Op::clamp:
      return integer(std::min(std::max(v[0], v[1]), v[2]));
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
      return integer(v[0]);
    default:
      return std::nullopt;
  }
}

template <class T>
T lesser(T x, T y) {
  return x != x ? x : y != y ? y : x < y ? x : y;
}
template <class T>
T greater(T x, T y) {
  return x != x ? x : y != y ? y : x > y ? x : y;
}

std::optional<double> of_floats(Op op, const double* v) {
  switch (op) {
    case Op::multiply_add:
      return v[0] * v[1] + v[2];
    case Op::pow:
      return std::pow(v[0], v[1]);
    case Op::floordiv:
      return std::floor(v[0] / v[1]);
    case Op::mod: {
      const double r = std::fmod(v[0], v[1]);
      return r != 0 && (r < 0) != (v[1] < 0) ? r + v[1] : r;
    }
    case Op::sign:
      return v[0] > 0 ? 1.0 : v[0] < 0 ? -1.0 : v[0] == 0 ? 0.0 : v[0];
    case Op::drelu:
      return v[0] > 0 ? 1.0 : 0.0;
    case Op::clamp:
      return lesser(greater(v[0], v[1]), v[2]);
    case Op::round:
      return std::nearbyint(v[0]);
    default:
      return exact_float(op, v);
  }
}

ExactLiteral boolean(bool value) { return {LiteralAttr::Kind::Bool, value ? 1 : 0, 0, false}; }
// One NaN: its bits are no part of what a text says.
ExactLiteral real(double value) {
  return {LiteralAttr::Kind::Float, 0, value != value ? std::numeric_limits<double>::quiet_NaN() : value, false};
}
double as_double(const ExactLiteral& l) { return l.kind == LiteralAttr::Kind::Float ? l.f : static_cast<double>(l.i); }

}  // namespace

bool holds(DType integer, int64_t value) {
  return value < 0 ? value >= types::min_int(integer) : static_cast<uint64_t>(value) <= types::max_int(integer);
}

std::optional<uint64_t> exact_integer(Op op, const uint64_t* v, bool is_signed) {
  const auto less = [&](uint64_t a, uint64_t b) {
    return is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  };
  switch (op) {
    case Op::add:
      return v[0] + v[1];
    case Op::sub:
      return v[0] - v[1];
    case Op::mul:
      return v[0] * v[1];
    case Op::neg:
      return 0 - v[0];
    case Op::multiply_add:
      return v[0] * v[1] + v[2];
    case Op::minimum:
      return less(v[0], v[1]) ? v[0] : v[1];
    case Op::maximum:
      return less(v[1], v[0]) ? v[0] : v[1];
    case Op::abs:
      return less(v[0], 0) ? 0 - v[0] : v[0];
    case Op::relu:
      return less(v[0], 0) ? 0 : v[0];
    default:
      return std::nullopt;
  }
}

template <class T>
std::optional<T> exact_float(Op op, const T* v) {
  switch (op) {
    case Op::add:
      return v[0] + v[1];
    case Op::sub:
      return v[0] - v[1];
    case Op::mul:
      return v[0] * v[1];
    case Op::div:
      return v[0] / v[1];
    case Op::neg:
      return -v[0];
    case Op::abs:
      return std::abs(v[0]);
    case Op::minimum:
      return lesser(v[0], v[1]);
    case Op::maximum:
      return greater(v[0], v[1]);
    case Op::floor:
      return std::floor(v[0]);
    case Op::ceil:
      return std::ceil(v[0]);
    case Op::trunc:
      return std::trunc(v[0]);
    case Op::relu:
      return v[0] != v[0] || v[0] > 0 ? v[0] : T(0);
    default:
      return std::nullopt;
  }
}
template std::optional<float> exact_float(Op op, const float* v);
template std::optional<double> exact_float(Op op, const double* v);

std::optional<LiteralAttr> ExactLiteral::narrow() const {
  if (beyond || i > INT64_MAX || i < INT64_MIN) return std::nullopt;
  return LiteralAttr{kind, static_cast<int64_t>(i), f};
}

std::optional<ExactLiteral> fold_exact(Op op, std::span<const ExactLiteral> operands) {
  const OpRule rule = types::op_info(op).rule;
  if (operands.empty() || operands.size() > 3) return std::nullopt;
  bool any_float = false, all_bool = true, any_beyond = false;
  Wide i[3] = {};
  double f[3] = {};
  for (size_t n = 0; n < operands.size(); ++n) {
    const ExactLiteral& operand = operands[n];
    if (rule != OpRule::select || n > 0) any_float = any_float || operand.kind == LiteralAttr::Kind::Float;
    if (rule != OpRule::select || n > 0) all_bool = all_bool && operand.kind == LiteralAttr::Kind::Bool;
    any_beyond = any_beyond || operand.beyond;
    i[n] = operand.i;
    f[n] = as_double(operand);
  }
  if (rule == OpRule::select) {
    if (operands[0].kind != LiteralAttr::Kind::Bool) return std::nullopt;
    const size_t taken = i[0] != 0 ? 1 : 2;
    if (all_bool || operands[taken].beyond) return operands[taken];
    return any_float ? real(f[taken]) : integer(i[taken]);
  }
  if (rule == OpRule::logical) {
    if (!all_bool) return std::nullopt;
    return boolean(op == Op::logical_not   ? i[0] == 0
                   : op == Op::logical_and ? (i[0] & i[1]) != 0
                   : op == Op::logical_or  ? (i[0] | i[1]) != 0
                                           : i[0] != i[1]);
  }
  if (rule != OpRule::compare && rule != OpRule::arith && op != Op::div) return std::nullopt;
  if (any_beyond) return integer(std::nullopt);
  if (rule == OpRule::compare) return boolean(any_float ? compared(op, f[0], f[1]) : compared(op, i[0], i[1]));
  if (rule == OpRule::arith && !any_float) {
    if (op == Op::pow && operands[1].kind == LiteralAttr::Kind::Bool) return std::nullopt;
    return of_integers(op, i);
  }
  const std::optional<double> value = of_floats(op, f);
  return value ? std::optional(real(*value)) : std::nullopt;
}

std::optional<LiteralAttr> fold_literals(Op op, std::span<const LiteralAttr* const> operands) {
  ExactLiteral exact[3];
  if (operands.size() > 3) return std::nullopt;
  for (size_t n = 0; n < operands.size(); ++n) exact[n] = ExactLiteral::of(*operands[n]);
  const std::optional<ExactLiteral> value = fold_exact(op, std::span(exact).first(operands.size()));
  return value ? value->narrow() : std::nullopt;
}

}  // namespace codetta::ir
