// SPDX-License-Identifier: Apache-2.0
// Errors of functions in units of the last place, as device/*/ulp.def counts them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace codetta::test {

// By how many spacings of T at `exact` the result is off, beyond `absolute`. Infinite where exactly one is NaN, or one
// is infinite and the other not near the largest value.
template <class T>
double error_in_ulps(T got, long double exact, double absolute) {
  constexpr int digits = std::numeric_limits<T>::digits;
  constexpr long double least = std::numeric_limits<T>::denorm_min();
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : INFINITY;
  const long double largest = std::numeric_limits<T>::max(),
                    half = std::ldexp(1.0L, std::numeric_limits<T>::max_exponent - digits - 1);
  if (std::isinf(got)) return std::fabs(exact) > largest - 8 * half && (exact > 0) == (got > 0) ? 0 : INFINITY;
  if (std::fabs(exact) >= largest + half) return std::fabs(got) >= static_cast<T>(largest - 8 * half) ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const long double spacing = std::max(least, std::ldexp(1.0L, exponent - digits));
  const long double error = std::fabs(static_cast<long double>(got) - exact) - static_cast<long double>(absolute);
  return error <= 0 ? 0 : static_cast<double>(error / spacing);
}

}  // namespace codetta::test
