// SPDX-License-Identifier: Apache-2.0
// When a sum rounds nowhere, in whatever order: all terms are multiples of one power of two, and the sum of their
// magnitudes stays below 2^precision of it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "oracle/cell.hpp"

namespace codetta::oracle {

// The exponent of the lowest set bit of x != 0, finite.
template <class T>
int lowest_bit(T x) {
  int exponent = 0;
  T m = std::frexp(std::abs(x), &exponent);  // in [1/2, 1)
  int bits = 0;
  for (int step = 32; step > 0; step /= 2) {  // the least b with m * 2^b integral, for b < 64
    const T scaled = std::ldexp(m, bits + step - 1);
    if (scaled != std::trunc(scaled)) bits += step;
  }
  const T scaled = std::ldexp(m, bits);
  if (scaled != std::trunc(scaled)) return exponent - 128;  // more than 64 bits: exact for nobody
  return exponent - bits;
}

// The same, of each element of weights: from the bits.
inline int lowest_bit(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return std::max(exponent, 1) - 1075 + std::countr_zero(exponent == 0 ? fraction : fraction | uint64_t{1} << 52);
}

// Of a sum: magnitudes, and the lowest bit of any term.
struct Quantum {
  int lowest = 100000;
  template <class T>
  void take(T x) {
    if (x != 0 && std::isfinite(x)) lowest = std::min(lowest, lowest_bit(x));
  }
};

inline int precision(DType d) { return types::mantissa_bits(d) + 1; }

template <class T>
bool exact_sum(T magnitudes, int lowest, DType d) {
  if (magnitudes == 0) return true;
  if (!std::isfinite(magnitudes) || lowest > 5000) return false;
  const int least = d == DType::f32 ? -149 : -1074;
  return lowest >= least && magnitudes <= std::ldexp(T(1), lowest + precision(d)) &&
         magnitudes <= T(types::max_finite(d));
}

// The relative error of n roundings: n u / (1 - n u) (Higham, "Accuracy and Stability of Numerical Algorithms", 3.1),
// which says little where n u is near 1 and nothing beyond; there (1 + u)^n - 1, as it is, from above.
template <class T>
T gamma(T roundings, T unit) {
  const T x = roundings * unit;
  return x < T(0.5) ? x / (1 - x) : std::expm1(x) * (1 + 16 * unit_of<T>);
}

}  // namespace codetta::oracle
