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

uint64_t wrapping_power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

// Rounded down; what is not defined in C++ is what semantics.md says of it.
int64_t quotient(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
  const int64_t q = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}
int64_t remainder(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  const int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

std::optional<int64_t> of_integers(Op op, const int64_t* v) {
  switch (op) {
    case Op::pow:
      if (v[1] < 0) return std::nullopt;
      return static_cast<int64_t>(wrapping_power(static_cast<uint64_t>(v[0]), static_cast<uint64_t>(v[1])));
    case Op::floordiv:
      return quotient(v[0], v[1]);
    case Op::mod:
      return remainder(v[0], v[1]);
    case Op::sign:
      return (v[0] > 0 ? 1 : 0) - (v[0] < 0 ? 1 : 0);
    case Op::drelu:
      return v[0] > 0 ? 1 : 0;
    case Op::clamp:
      return std::min(std::max(v[0], v[1]), v[2]);
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
      return v[0];
    default: {
      const uint64_t bits[] = {static_cast<uint64_t>(v[0]), static_cast<uint64_t>(v[1]), static_cast<uint64_t>(v[2])};
      const std::optional<uint64_t> exact = exact_integer(op, bits, true);
      return exact ? std::optional(static_cast<int64_t>(*exact)) : std::nullopt;
    }
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

LiteralAttr integer(int64_t value) { return {LiteralAttr::Kind::Int, value, 0}; }
LiteralAttr boolean(bool value) { return {LiteralAttr::Kind::Bool, value ? 1 : 0, 0}; }
// One NaN: its bits are no part of what a text says.
LiteralAttr real(double value) {
  return {LiteralAttr::Kind::Float, 0, value != value ? std::numeric_limits<double>::quiet_NaN() : value};
}
double as_double(const LiteralAttr& l) { return l.kind == LiteralAttr::Kind::Float ? l.f : static_cast<double>(l.i); }

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

std::optional<LiteralAttr> fold_literals(Op op, std::span<const LiteralAttr* const> operands) {
  const OpRule rule = types::op_info(op).rule;
  if (operands.empty() || operands.size() > 3) return std::nullopt;
  bool any_float = false, all_bool = true;
  int64_t i[3] = {};
  double f[3] = {};
  for (size_t n = 0; n < operands.size(); ++n) {
    const LiteralAttr& operand = *operands[n];
    if (rule != OpRule::select || n > 0) any_float = any_float || operand.kind == LiteralAttr::Kind::Float;
    if (rule != OpRule::select || n > 0) all_bool = all_bool && operand.kind == LiteralAttr::Kind::Bool;
    i[n] = operand.i;
    f[n] = as_double(operand);
  }
  if (rule == OpRule::compare) return boolean(any_float ? compared(op, f[0], f[1]) : compared(op, i[0], i[1]));
  if (rule == OpRule::logical) {
    if (!all_bool) return std::nullopt;
    return boolean(op == Op::logical_not   ? i[0] == 0
                   : op == Op::logical_and ? (i[0] & i[1]) != 0
                   : op == Op::logical_or  ? (i[0] | i[1]) != 0
                                           : i[0] != i[1]);
  }
  if (rule == OpRule::select) {
    if (operands[0]->kind != LiteralAttr::Kind::Bool) return std::nullopt;
    const size_t taken = i[0] != 0 ? 1 : 2;
    if (all_bool) return *operands[taken];
    return any_float ? real(f[taken]) : integer(i[taken]);
  }
  if (rule == OpRule::arith && !any_float) {
    if (op == Op::pow && operands[1]->kind == LiteralAttr::Kind::Bool) return std::nullopt;
    const std::optional<int64_t> value = of_integers(op, i);
    return value ? std::optional(integer(*value)) : std::nullopt;
  }
  if (rule != OpRule::arith && op != Op::div) return std::nullopt;
  const std::optional<double> value = of_floats(op, f);
  return value ? std::optional(real(*value)) : std::nullopt;
}

}  // namespace codetta::ir
