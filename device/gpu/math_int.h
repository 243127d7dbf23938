// SPDX-License-Identifier: Apache-2.0
// Element-wise ops of integers that differ from those of floats.
#pragma once

#include "device/gpu/math_basic.h"

namespace codetta::gpu {
namespace one {

// The quotient rounded down; 0 where y is 0. The least integer by -1 is answered by negation.
template <class T, typename Choose<is_float<T>, void, int>::type = 0>
CODETTA_FN T floordiv(T x, T y) {
  if (y == 0) return 0;
  if (is_signed<T> && y == (T)-1) return neg(x);
  const T q = (T)(x / y);
  return (T)(q - ((x % y != 0 && ((x < 0) != (y < 0))) ? 1 : 0));
}
// x - floor(x / y) y, with the sign of y; 0 where y is 0.
template <class T, typename Choose<is_float<T>, void, int>::type = 0>
CODETTA_FN T mod(T x, T y) {
  return y == 0 ? (T)0 : sub(x, mul(floordiv(x, y), y));
}
// x to the power of a non-negative y, by squaring; wraps.
template <class T, typename Choose<is_float<T>, void, int>::type = 0>
CODETTA_FN T pow(T x, T y) {
  wrapping<T> base = (wrapping<T>)x, result = 1;
  for (wrapping<T> left = (wrapping<T>)y; left != 0; left >>= 1) {
    if (left & 1) result *= base;
    base *= base;
  }
  return (T)result;
}
template <class T, typename Choose<is_float<T>, void, int>::type = 0>
CODETTA_FN T floor(T x) {
  return x;
}
template <class T, typename Choose<is_float<T>, void, int>::type = 0>
CODETTA_FN T ceil(T x) {
  return x;
}
template <class T, typename Choose<is_float<T>, void, int>::type = 0>
CODETTA_FN T round(T x) {
  return x;
}
template <class T, typename Choose<is_float<T>, void, int>::type = 0>
CODETTA_FN T trunc(T x) {
  return x;
}

}  // namespace one
}  // namespace codetta::gpu
