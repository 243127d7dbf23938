// SPDX-License-Identifier: Apache-2.0
// The meaning of every element-wise op at one element (docs/semantics.md), for the tape interpreter. Elementary
// functions of float go through double and are rounded once; sums and products are rounded in their own type.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "types/op.hpp"

namespace codetta::runtime::cpu::tape {

using types::Op;

template <class T>
concept Real = std::is_floating_point_v<T>;

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Narrow integers compute in int after promotion; uint64_t keeps products defined, and the last conversion wraps.
template <class T>
T wrap(uint64_t x) {
  return static_cast<T>(x);
}
template <class T>
uint64_t bits_of(T x) {
  return static_cast<uint64_t>(x);  // sign-extends
}

template <class T>
T add(T x, T y) {
  if constexpr (Real<T>)
    return x + y;
  else
    return wrap<T>(bits_of(x) + bits_of(y));
}
template <class T>
T sub(T x, T y) {
  if constexpr (Real<T>)
    return x - y;
  else
    return wrap<T>(bits_of(x) - bits_of(y));
}
template <class T>
T mul(T x, T y) {
  if constexpr (Real<T>)
    return x * y;
  else
    return wrap<T>(bits_of(x) * bits_of(y));
}
template <class T>
T neg(T x) {
  if constexpr (Real<T>)
    return -x;
  else
    return wrap<T>(0 - bits_of(x));
}
template <class T>
T multiply_add(T x, T y, T z) {
  return add(mul(x, y), z);
}
template <Real T>
T div(T x, T y) {
  return x / y;
}

template <class T>
T minimum(T x, T y) {
  const T m = x < y ? x : y;  // y when unordered
  if constexpr (Real<T>)
    return x != x ? x : m;
  else
    return m;
}
template <class T>
T maximum(T x, T y) {
  const T m = x > y ? x : y;
  if constexpr (Real<T>)
    return x != x ? x : m;
  else
    return m;
}
template <class T>
T clamp(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}
template <class T>
T relu(T x) {
  const T m = x < T{0} ? T{0} : x;
  if constexpr (Real<T>)
    return m + T{0};  // -0 becomes +0
  else
    return m;
}
template <class T>
T drelu(T x) {
  return x > T{0} ? T{1} : T{0};
}
template <class T>
T abs(T x) {
  if constexpr (Real<T>)
    return std::fabs(x);
  else if constexpr (std::is_unsigned_v<T>)
    return x;
  else
    return x < 0 ? neg(x) : x;
}
template <class T>
T sign(T x) {
  if constexpr (Real<T>) {
    if (x != x) return x;
  }
  if constexpr (std::is_signed_v<T> || Real<T>) {
    if (x < T{0}) return T{-1};
  }
  return x > T{0} ? T{1} : T{0};
}

template <class T>
T floor(T x) {
  if constexpr (Real<T>)
    return std::floor(x);
  else
    return x;
}
template <class T>
T ceil(T x) {
  if constexpr (Real<T>)
    return std::ceil(x);
  else
    return x;
}
template <class T>
T trunc(T x) {
  if constexpr (Real<T>)
    return std::trunc(x);
  else
    return x;
}
// To nearest, ties to even: adding 2^23 (f32) or 2^52 pushes the fraction out.
template <class T>
T round(T x) {
  if constexpr (Real<T>) {
    constexpr T whole_from = T{1} / std::numeric_limits<T>::epsilon();
    const T a = std::fabs(x);
    const T nearest = (a + whole_from) - whole_from;
    return a < whole_from ? std::copysign(nearest, x) : x;  // NaN stays
  } else {
    return x;
  }
}

template <class T>
T floordiv(T x, T y) {
  if constexpr (Real<T>) {
    return std::floor(x / y);
  } else {
    if (y == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (y == T{-1}) return neg(x);  // the least integer would trap
      const T q = static_cast<T>(x / y);
      return static_cast<T>(q - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0));
    } else {
      return static_cast<T>(x / y);
    }
  }
}
template <class T>
T mod(T x, T y) {
  if constexpr (Real<T>) {
    const T r = std::fmod(x, y);
    if (r == T{0}) return std::copysign(T{0}, y);
    return (r < T{0}) != (y < T{0}) ? r + y : r;  // NaN passes
  } else {
    if (y == 0) return 0;
    return sub(x, mul(floordiv(x, y), y));
  }
}
template <class T>
T pow(T x, T y) {
  if constexpr (Real<T>) {
    return static_cast<T>(std::pow(static_cast<double>(x), static_cast<double>(y)));
  } else {
    uint64_t base = bits_of(x), result = 1;
    for (auto left = static_cast<Unsigned<T>>(y); left != 0; left = static_cast<Unsigned<T>>(left >> 1)) {
      if ((left & 1) != 0) result *= base;
      base *= base;
    }
    return wrap<T>(result);
  }
}

// ---- real functions of double ----
// x sigmoid(x) and sigmoid(x) by exp(-|x|): exp(-x) overflows where the result is subnormal.
inline double sigmoid_of(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
inline double silu_of(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0.0 ? x * e : x) / (1.0 + e);
}
inline double normal_cdf(double x) {
  return 0.5 * std::erfc(-x * 0.70710678118654752440);
}  // no cancellation in the tail
inline constexpr double sqrt_2_over_pi = 0.79788456080286535588, inv_sqrt_2_pi = 0.39894228040143267794;
inline constexpr double gelu_cubic = 0.044715;  // Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016
// s (1 - s) of s = sigmoid(x), without the difference of near values.
inline double sigmoid_slope(double x) {
  const double e = std::exp(-std::fabs(x));
  return e / ((1.0 + e) * (1.0 + e));
}
inline double dgelu_tanh_of(double x) {
  const double slope = sigmoid_slope(2.0 * sqrt_2_over_pi * (x + gelu_cubic * x * x * x));
  const double s = sigmoid_of(2.0 * sqrt_2_over_pi * (x + gelu_cubic * x * x * x));
  // The slope vanishes before x * x overflows; at the infinities the formula is inf * 0.
  if (slope == 0.0 && std::isfinite(x)) return s;
  return s + x * slope * 2.0 * sqrt_2_over_pi * (1.0 + 3.0 * gelu_cubic * x * x);
}

#define CODETTA_REAL1(name, expression)             \
  template <Real T>                                 \
  T name(T argument) {                              \
    const double x = static_cast<double>(argument); \
    return static_cast<T>(expression);              \
  }
CODETTA_REAL1(exp, std::exp(x))
CODETTA_REAL1(exp2, std::exp2(x))
CODETTA_REAL1(expm1, std::expm1(x))
CODETTA_REAL1(log, std::log(x))
CODETTA_REAL1(log2, std::log2(x))
CODETTA_REAL1(log1p, std::log1p(x))
CODETTA_REAL1(rsqrt, 1.0 / std::sqrt(x))
CODETTA_REAL1(sin, std::sin(x))
CODETTA_REAL1(cos, std::cos(x))
CODETTA_REAL1(tanh, std::tanh(x))
CODETTA_REAL1(erf, std::erf(x))
CODETTA_REAL1(sigmoid, sigmoid_of(x))
CODETTA_REAL1(silu, silu_of(x))
CODETTA_REAL1(gelu_erf, x* normal_cdf(x))
CODETTA_REAL1(gelu_tanh, x* sigmoid_of(2.0 * sqrt_2_over_pi * (x + gelu_cubic * x * x * x)))
CODETTA_REAL1(mish, x* std::tanh(std::log1p(std::exp(x))))
CODETTA_REAL1(dsigmoid, sigmoid_slope(x))
CODETTA_REAL1(dtanh, 4.0 * sigmoid_slope(2.0 * x))
CODETTA_REAL1(dsilu, sigmoid_of(x) + x * sigmoid_slope(x))
CODETTA_REAL1(dgelu_erf, normal_cdf(x) + x * (inv_sqrt_2_pi * std::exp(-0.5 * x * x)))
CODETTA_REAL1(dgelu_tanh, dgelu_tanh_of(x))
#undef CODETTA_REAL1

template <Real T>
T sqrt(T x) {
  return std::sqrt(x);
}
template <Real T>
T reciprocal(T x) {
  return T{1} / x;
}
template <Real T>
T softplus(T x, T beta, T threshold) {
  const double b = static_cast<double>(beta) * static_cast<double>(x);
  // log1p(exp(b)) without overflow.
  const double soft = (b > 0.0 ? b : 0.0) + std::log1p(std::exp(-std::fabs(b)));
  return b > static_cast<double>(threshold) ? x : static_cast<T>(soft / static_cast<double>(beta));
}
template <Real T>
T elu(T x, T alpha) {
  return x > T{0} ? x : static_cast<T>(static_cast<double>(alpha) * std::expm1(static_cast<double>(x)));
}
template <Real T>
T leaky_relu(T x, T slope) {
  return x > T{0} ? x : slope * x;
}
template <Real T>
T hardsigmoid(T x) {
  return clamp(x + T{3}, T{0}, T{6}) / T{6};
}
template <Real T>
T hardswish(T x) {
  return x * (clamp(x + T{3}, T{0}, T{6}) / T{6});  // 6 x may overflow
}

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), output word index
// % 4 for the counter (low, high, 0, 0) of index / 4 and the key (low, high) of `seed`.
inline uint32_t philox_word(uint64_t seed, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index >> 2), c1 = static_cast<uint32_t>(index >> 34), c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round_number = 0; round_number < 10; ++round_number) {
    const uint64_t a = uint64_t{0xD2511F53} * c0, b = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(b);
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  const uint32_t words[4] = {c0, c1, c2, c3};
  return words[index & 3];
}
template <Real T>
T dropout(T x, T p, int64_t seed, int64_t index) {
  const float drop = static_cast<float>(p);
  const float u =
      static_cast<float>(philox_word(static_cast<uint64_t>(seed), static_cast<uint64_t>(index)) >> 8) * 0x1p-24f;
  return u >= drop ? x / static_cast<T>(1.0f - drop) : T{0};
}

}  // namespace codetta::runtime::cpu::tape
