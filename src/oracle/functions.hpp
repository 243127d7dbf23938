// SPDX-License-Identifier: Apache-2.0
// The functions of docs/semantics.md in T, written so that nothing cancels: errors are a few units of T, far below any
// bound.
#pragma once

#include <algorithm>
#include <cmath>

#include "types/op.hpp"

namespace codetta::oracle {

using types::Op;

template <class T>
inline constexpr T pi = T(3.14159265358979323846264338327950288L);
template <class T>
inline constexpr T sqrt_half = T(0.707106781186547524400844362104849039L);

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
// log(1 + exp(x)), without overflow.
template <class T>
T softplus1(T x) {
  return std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x)));
}
template <class T>
T normal_density(T x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * pi<T>);
}
template <class T>
T gelu_tanh_argument(T x) {
  return std::sqrt(2 / pi<T>) * (x + T(0.044715L) * x * x * x);
}
// (1 + tanh(u)) / 2 is sigmoid(2 u); its derivative by u is 2 s (1 - s).
template <class T>
T dgelu_tanh(T x) {
  const T u2 = 2 * gelu_tanh_argument(x), s = sigmoid(u2), rest = sigmoid(-u2);
  return s + x * 2 * s * rest * std::sqrt(2 / pi<T>) * (1 + 3 * T(0.044715L) * x * x);
}
template <class T>
T relu6_of(T x) {
  return std::min(std::max(x, T(0)), T(6));
}

// Functions of one operand; NaN for ops that aren't.
template <class T>
T real_function(Op op, T x) {
  switch (op) {
    case Op::exp:
      return std::exp(x);
    case Op::exp2:
      return std::exp2(x);
    case Op::expm1:
      return std::expm1(x);
    case Op::log:
      return std::log(x);
    case Op::log2:
      return std::log2(x);
    case Op::log1p:
      return std::log1p(x);
    case Op::sqrt:
      return std::sqrt(x);
    case Op::rsqrt:
      return 1 / std::sqrt(x);
    case Op::reciprocal:
      return 1 / x;
    case Op::sin:
      return std::sin(x);
    case Op::cos:
      return std::cos(x);
    case Op::tanh:
      return std::tanh(x);
    case Op::erf:
      return std::erf(x);
    case Op::sigmoid:
      return sigmoid(x);
    case Op::silu:
      return x * sigmoid(x);
    case Op::gelu_erf:
      return x * (std::erfc(-x * sqrt_half<T>) / 2);
    case Op::gelu_tanh:
      return x * sigmoid(2 * gelu_tanh_argument(x));
    case Op::hardswish:
      return x * relu6_of(x + 3) / 6;
    case Op::hardsigmoid:
      return relu6_of(x + 3) / 6;
    case Op::mish:
      return x * std::tanh(softplus1(x));
    case Op::dsigmoid:
      return sigmoid(x) * sigmoid(-x);
    case Op::dtanh:
      return 4 * sigmoid(2 * x) * sigmoid(-2 * x);
    case Op::dsilu:
      return sigmoid(x) * (1 + x * sigmoid(-x));
    case Op::dgelu_erf:
      return std::erfc(-x * sqrt_half<T>) / 2 + x * normal_density(x);
    case Op::dgelu_tanh:
      return dgelu_tanh(x);
    default:
      return std::numeric_limits<T>::quiet_NaN();
  }
}

// Where a function of one operand turns from falling to rising or back; between such points it is monotone.
struct Turns {
  int count = 0;
  long double at[2] = {};
};
inline Turns turning_points(Op op) {
  switch (op) {
    case Op::silu:
      return {1, {-1.278464542761073795109358739022980155L}};
    case Op::gelu_erf:
      return {1, {-0.751791524693564457457904946779524040L}};
    case Op::gelu_tanh:
      return {1, {-0.752461422071016258487954443288906091L}};
    case Op::mish:
      return {1, {-1.192431214515495212137588340420739406L}};
    case Op::hardswish:
      return {1, {-1.5L}};
    case Op::dsigmoid:
    case Op::dtanh:
      return {1, {0.0L}};
    case Op::dsilu:
      return {2, {-2.399357280515467667832739697282283889L, 2.399357280515467667832739697282283889L}};
    case Op::dgelu_erf:
      return {2, {-1.414213562373095048801688724209698079L, 1.414213562373095048801688724209698079L}};
    case Op::dgelu_tanh:
      return {2, {-1.418504008790828355548033545599642698L, 1.418504008790828355548033545599642698L}};
    default:
      return {};
  }
}

}  // namespace codetta::oracle
