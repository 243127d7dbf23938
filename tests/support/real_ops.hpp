// SPDX-License-Identifier: Apache-2.0
// Element-wise ops on real numbers in a floating type T wide enough to be the truth. Written apart from
// oracle/functions.hpp, and to stay so: tests hold the oracle, too, against this, from the definitions alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "types/op.hpp"

namespace codetta::test {

using types::Op;

template <class T>
inline constexpr T pi = static_cast<T>(3.14159265358979323846264338327950288L);
template <class T>
T normal_cdf(T x) {
  return T(0.5) * std::erfc(-x / std::sqrt(T(2)));
}
template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
template <class T>
T python_mod(T x, T y) {
  T r = std::fmod(x, y);
  if (r != 0 && (r < 0) != (y < 0)) r += y;
  return r == 0 ? std::copysign(T(0), y) : r;
}
template <class T>
T clamp(T x, T low, T high) {
  const T m = std::isnan(x) || std::isnan(low) ? std::numeric_limits<T>::quiet_NaN() : std::max(x, low);
  return std::isnan(m) || std::isnan(high) ? std::numeric_limits<T>::quiet_NaN() : std::min(m, high);
}

template <class T>
T real_op(Op op, T x, T y, T z) {
  const T u = std::sqrt(2 / pi<T>) * (x + T(0.044715L) * x * x * x),
          du = std::sqrt(2 / pi<T>) * (1 + 3 * T(0.044715L) * x * x);
  switch (op) {
    case Op::add:
      return x + y;
    case Op::sub:
      return x - y;
    case Op::mul:
      return x * y;
    case Op::div:
      return x / y;
    case Op::pow:
      return std::pow(x, y);
    case Op::floordiv:
      return std::floor(x / y);
    case Op::mod:
      return python_mod(x, y);
    case Op::neg:
      return -x;
    case Op::multiply_add:
      return x * y + z;
    case Op::minimum:
      return std::isnan(x) || std::isnan(y) ? std::numeric_limits<T>::quiet_NaN() : std::min(x, y);
    case Op::maximum:
      return std::isnan(x) || std::isnan(y) ? std::numeric_limits<T>::quiet_NaN() : std::max(x, y);
    case Op::clamp:
      return clamp(x, y, z);
    case Op::abs:
      return std::fabs(x);
    case Op::sign:
      return std::isnan(x) ? x : (x > 0) - (x < 0);
    case Op::floor:
      return std::floor(x);
    case Op::ceil:
      return std::ceil(x);
    case Op::round:
      return std::nearbyint(x);
    case Op::trunc:
      return std::trunc(x);
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
    case Op::relu:
      return std::isnan(x) ? x : x > 0 ? x : T(0);
    case Op::sigmoid:
      return sigmoid(x);
    case Op::silu:
      return x * sigmoid(x);
    case Op::gelu_erf:
      return x * normal_cdf(x);
    case Op::gelu_tanh:
      return x * sigmoid(2 * u);  // is 0.5 x (1 + tanh(u)), without cancellation
    case Op::softplus:
      return y * x > z ? x : std::log1p(std::exp(y * x)) / y;
    case Op::elu:
      return x > 0 ? x : y * std::expm1(x);
    case Op::leaky_relu:
      return x > 0 ? x : y * x;
    case Op::hardswish:
      return x * clamp<T>(x + 3, 0, 6) / 6;
    case Op::hardsigmoid:
      return clamp<T>(x + 3, 0, 6) / 6;
    case Op::mish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case Op::drelu:
      return x > 0 ? 1 : 0;
    case Op::dsigmoid:
      return sigmoid(x) * sigmoid(-x);
    case Op::dtanh:
      return 1 / (std::cosh(x) * std::cosh(x));
    case Op::dsilu:
      return sigmoid(x) * (1 + x * sigmoid(-x));
    case Op::dgelu_erf:
      return normal_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * pi<T>);
    case Op::dgelu_tanh:
      return sigmoid(2 * u) + x * sigmoid(2 * u) * sigmoid(-2 * u) * 2 * du;
    default:
      return std::numeric_limits<T>::quiet_NaN();
  }
}

}  // namespace codetta::test
