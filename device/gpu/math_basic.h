// SPDX-License-Identifier: Apache-2.0
// Element-wise ops that look the same in every compute type: arithmetic, comparisons, logic, bounds
// (docs/semantics.md). The op `name` of types/ops.def is ct_name on vectors and one::name on an element.
#pragma once

#include "device/gpu/vec.h"

#define CODETTA_UNARY(name)                        \
  template <class T>                               \
  CODETTA_FN Vec<T> ct_##name(Vec<T> x) {          \
    Vec<T> r;                                      \
    CODETTA_EACH_LANE(r.e[i] = one::name(x.e[i])); \
    return r;                                      \
  }
#define CODETTA_BINARY(name)                               \
  template <class T>                                       \
  CODETTA_FN Vec<T> ct_##name(Vec<T> x, Vec<T> y) {        \
    Vec<T> r;                                              \
    CODETTA_EACH_LANE(r.e[i] = one::name(x.e[i], y.e[i])); \
    return r;                                              \
  }
#define CODETTA_TERNARY(name)                                      \
  template <class T>                                               \
  CODETTA_FN Vec<T> ct_##name(Vec<T> x, Vec<T> y, Vec<T> z) {      \
    Vec<T> r;                                                      \
    CODETTA_EACH_LANE(r.e[i] = one::name(x.e[i], y.e[i], z.e[i])); \
    return r;                                                      \
  }
#define CODETTA_COMPARE(name, op)                  \
  template <class T>                               \
  CODETTA_FN boolv ct_##name(Vec<T> x, Vec<T> y) { \
    boolv r;                                       \
    CODETTA_EACH_LANE(r.e[i] = x.e[i] op y.e[i]);  \
    return r;                                      \
  }

#ifdef __CUDACC_RTC__
#pragma nv_diag_suppress 186  // comparing an unsigned element with 0
#endif

namespace codetta::gpu {
namespace one {

template <class T>
CODETTA_FN T add(T x, T y) {
  if constexpr (is_float<T>)
    return x + y;
  else
    return (T)((wrapping<T>)x + (wrapping<T>)y);
}
template <class T>
CODETTA_FN T sub(T x, T y) {
  if constexpr (is_float<T>)
    return x - y;
  else
    return (T)((wrapping<T>)x - (wrapping<T>)y);
}
template <class T>
CODETTA_FN T mul(T x, T y) {
  if constexpr (is_float<T>)
    return x * y;
  else
    return (T)((wrapping<T>)x * (wrapping<T>)y);
}
template <class T>
CODETTA_FN T multiply_add(T x, T y, T z) {
  if constexpr (is_float<T>)
    return x * y + z;
  else
    return (T)((wrapping<T>)x * (wrapping<T>)y + (wrapping<T>)z);
}
template <class T>
CODETTA_FN T neg(T x) {
  if constexpr (is_float<T>)
    return -x;
  else
    return (T)((wrapping<T>)0 - (wrapping<T>)x);
}
template <class T>
CODETTA_FN T div(T x, T y) {
  return x / y;
}

// NaN if either is NaN.
template <class T>
CODETTA_FN T minimum(T x, T y) {
  if constexpr (is_float<T>) {
    if constexpr (sizeof(T) == 4) return min_nan(x, y);
    return x != x ? x : x < y ? x : y;
  } else {
    return x < y ? x : y;
  }
}
template <class T>
CODETTA_FN T maximum(T x, T y) {
  if constexpr (is_float<T>) {
    if constexpr (sizeof(T) == 4) return max_nan(x, y);
    return x != x ? x : x > y ? x : y;
  } else {
    return x > y ? x : y;
  }
}
template <class T>
CODETTA_FN T clamp(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}
// +0 where x is -0.
template <class T>
CODETTA_FN T relu(T x) {
  if constexpr (is_float<T> && sizeof(T) == 4) return max_nan(x, 0.0f);
  if constexpr (is_float<T>) return (x < 0 ? (T)0 : x) + (T)0;
  return x < 0 ? (T)0 : x;
}
template <class T>
CODETTA_FN T drelu(T x) {
  return x > 0 ? (T)1 : (T)0;
}
template <class T>
CODETTA_FN T sign(T x) {
  const T s = x < 0 ? (T)-1 : x > 0 ? (T)1 : (T)0;
  if constexpr (is_float<T>) return x != x ? x : s;
  return s;
}
template <class T>
CODETTA_FN T abs(T x) {
  if constexpr (is_float<T>) {
    if constexpr (sizeof(T) == 4) return bits_to_float(float_to_bits(x) & 0x7fffffffu);
    if constexpr (sizeof(T) == 8) return bits_to_double(double_to_bits(x) & (~(u64)0 >> 1));
  } else {
    return x < 0 ? neg(x) : x;
  }
}

}  // namespace one

CODETTA_BINARY(add)
CODETTA_BINARY(sub)
CODETTA_BINARY(mul)
CODETTA_TERNARY(multiply_add)
CODETTA_UNARY(neg)
CODETTA_BINARY(div)
CODETTA_BINARY(minimum)
CODETTA_BINARY(maximum)
CODETTA_TERNARY(clamp)
CODETTA_UNARY(relu)
CODETTA_UNARY(drelu)
CODETTA_UNARY(sign)
CODETTA_UNARY(abs)
CODETTA_COMPARE(eq, ==)
CODETTA_COMPARE(ne, !=)
CODETTA_COMPARE(lt, <)
CODETTA_COMPARE(le, <=)
CODETTA_COMPARE(gt, >)
CODETTA_COMPARE(ge, >=)

CODETTA_FN boolv ct_logical_and(boolv x, boolv y) {
  CODETTA_EACH_LANE(x.e[i] = x.e[i] & y.e[i]);
  return x;
}
CODETTA_FN boolv ct_logical_or(boolv x, boolv y) {
  CODETTA_EACH_LANE(x.e[i] = x.e[i] | y.e[i]);
  return x;
}
CODETTA_FN boolv ct_logical_xor(boolv x, boolv y) {
  CODETTA_EACH_LANE(x.e[i] = x.e[i] != y.e[i]);
  return x;
}
CODETTA_FN boolv ct_logical_not(boolv x) {
  CODETTA_EACH_LANE(x.e[i] = !x.e[i]);
  return x;
}
template <class V>
CODETTA_FN V ct_where(boolv condition, V x, V y) {
  return select(condition, x, y);
}

}  // namespace codetta::gpu
