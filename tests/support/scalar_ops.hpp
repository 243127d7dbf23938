// SPDX-License-Identifier: Apache-2.0
// One element of every element-wise op, floats in double. Tests that compare two ways of computing the same math share
// it, so that they differ only in what the test is about.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "support/real_ops.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"
#include "types/op.hpp"

namespace codetta::test {

// A float's value is in f, everything else in i (sign- or zero-extended).
struct Element {
  DType type = DType::f32;
  double f = 0;
  int64_t i = 0;
};

inline bool is_float(const Element& x) { return types::is_float(x.type); }
inline double real(const Element& x) {
  if (is_float(x)) return x.f;
  return types::is_unsigned(x.type) ? static_cast<double>(static_cast<uint64_t>(x.i)) : static_cast<double>(x.i);
}

inline int64_t wrap(int64_t value, DType type) {
  if (types::bits(type) == 64) return value;
  const uint64_t mask = (uint64_t{1} << types::bits(type)) - 1;
  const auto low = static_cast<uint64_t>(value) & mask;
  const bool negative = types::is_signed(type) && (low >> (types::bits(type) - 1)) != 0;
  return static_cast<int64_t>(negative ? low | ~mask : low);
}

inline Element real_element(double value, DType type) { return {type, value, 0}; }
inline Element integer_element(int64_t value, DType type) {
  return {type, 0, types::is_bool(type) ? value != 0 : wrap(value, type)};
}

// As cast does. f32 and f64 keep the double; narrower floats round.
inline Element convert(const Element& x, DType type) {
  if (types::is_float(type)) {
    if (types::bits(type) >= 32) return real_element(real(x), type);
    return real_element(types::Scalar::from_f64(real(x), type).as_f64(), type);
  }
  if (is_float(x)) {
    if (types::is_bool(type)) return integer_element(x.f != 0, type);
    return integer_element(types::convert(types::Scalar::from_f64(x.f), type).as_i64(), type);
  }
  return integer_element(x.i, type);
}

inline int64_t integer_op(types::Op op, std::span<const int64_t> x, DType type) {
  using types::Op;
  const int64_t a = x[0], b = x.size() > 1 ? x[1] : 0, c = x.size() > 2 ? x[2] : 0;
  const bool is_unsigned = types::is_unsigned(type);
  const auto less = [&](int64_t v, int64_t w) {
    return is_unsigned ? static_cast<uint64_t>(v) < static_cast<uint64_t>(w) : v < w;
  };
  const auto u = [](int64_t v) { return static_cast<uint64_t>(v); };
  const auto floordiv = [&] {
    if (b == 0) return int64_t{0};
    if (is_unsigned) return static_cast<int64_t>(u(a) / u(b));
    if (b == -1) return static_cast<int64_t>(0 - u(a));
    const int64_t q = a / b;
    return q - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
  };
  switch (op) {
    case Op::add:
      return static_cast<int64_t>(u(a) + u(b));
    case Op::sub:
      return static_cast<int64_t>(u(a) - u(b));
    case Op::mul:
      return static_cast<int64_t>(u(a) * u(b));
    case Op::pow: {
      uint64_t power = 1;
      for (int64_t n = 0; n < std::min<int64_t>(b, 70); ++n) power *= u(a);
      return static_cast<int64_t>(power);
    }
    case Op::floordiv:
      return floordiv();
    case Op::mod:
      return b == 0 ? 0 : static_cast<int64_t>(u(a) - u(floordiv()) * u(b));
    case Op::neg:
      return static_cast<int64_t>(0 - u(a));
    case Op::multiply_add:
      return static_cast<int64_t>(u(a) * u(b) + u(c));
    case Op::minimum:
      return less(a, b) ? a : b;
    case Op::maximum:
      return less(a, b) ? b : a;
    case Op::clamp: {
      const int64_t low = less(a, b) ? b : a;
      return less(low, c) ? low : c;
    }
    case Op::abs:
      return !is_unsigned && a < 0 ? static_cast<int64_t>(0 - u(a)) : a;
    case Op::sign:
      return a == 0 ? 0 : !is_unsigned && a < 0 ? -1 : 1;
    case Op::relu:
      return !is_unsigned && a < 0 ? 0 : a;
    case Op::drelu:
      return a != 0 && (is_unsigned || a > 0) ? 1 : 0;
    default:
      return a;  // floor, ceil, round, trunc
  }
}

// `type` is what the op computes in and gives (bool for comparisons), operands are already of it.
inline Element apply(types::Op op, DType type, std::span<const Element> x) {
  using types::Op;
  const types::OpRule rule = types::op_info(op).rule;
  if (rule == types::OpRule::select) return x[0].i != 0 ? x[1] : x[2];
  if (rule == types::OpRule::compare) {
    const auto test = [op](auto a, auto b) {
      switch (op) {
        case Op::eq:
          return a == b;
        case Op::ne:
          return a != b;
        case Op::lt:
          return a < b;
        case Op::le:
          return a <= b;
        case Op::gt:
          return a > b;
        default:
          return a >= b;
      }
    };
    const bool wide = types::is_unsigned(x[0].type);
    return integer_element(is_float(x[0]) ? test(x[0].f, x[1].f)
                           : wide         ? test(static_cast<uint64_t>(x[0].i), static_cast<uint64_t>(x[1].i))
                                          : test(x[0].i, x[1].i),
                           DType::boolean);
  }
  if (rule == types::OpRule::logical) {
    const bool a = x[0].i != 0, b = x.size() > 1 && x[1].i != 0;
    return integer_element(op == Op::logical_and   ? a && b
                           : op == Op::logical_or  ? a || b
                           : op == Op::logical_xor ? a != b
                                                   : !a,
                           DType::boolean);
  }
  if (op == Op::dropout) {  // any function of seed and position that both sides share
    const uint64_t mixed =
        (static_cast<uint64_t>(x[2].i) ^ (static_cast<uint64_t>(x[3].i) * 0x9E3779B97F4A7C15u)) * 0xBF58476D1CE4E5B9u;
    const double uniform = static_cast<double>(mixed >> 40) * 0x1p-24;
    return real_element(uniform >= x[1].f ? x[0].f / (1 - x[1].f) : 0.0, type);
  }
  if (types::is_float(type)) {
    double values[4] = {};
    for (size_t i = 0; i < x.size(); ++i) values[i] = x[i].f;
    return real_element(real_op(op, values[0], values[1], values[2]), type);
  }
  int64_t values[4] = {};
  for (size_t i = 0; i < x.size(); ++i) values[i] = x[i].i;
  return integer_element(integer_op(op, {values, x.size()}, type), type);
}

}  // namespace codetta::test
