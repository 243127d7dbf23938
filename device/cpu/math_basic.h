// SPDX-License-Identifier: Apache-2.0
// Element-wise ops that look the same in every compute type: arithmetic, comparisons, logic, bounds
// (docs/semantics.md). Op::name of types/ops.def is ct_name here; V is one of the vectors of vec.h, booleans are boolv.
#pragma once

#include "device/cpu/vec.h"

namespace codetta::cpu {

//% ct_add
// Integers wrap: signed arithmetic is done on the unsigned type.
template <class V>
CODETTA_FN V ct_add(V x, V y) {
  if constexpr (is_float<V>)
    return x + y;
  else
    return (V)((unsigned_of<V>)x + (unsigned_of<V>)y);
}

//% ct_sub
template <class V>
CODETTA_FN V ct_sub(V x, V y) {
  if constexpr (is_float<V>)
    return x - y;
  else
    return (V)((unsigned_of<V>)x - (unsigned_of<V>)y);
}

//% ct_mul
template <class V>
CODETTA_FN V ct_mul(V x, V y) {
  if constexpr (is_float<V>)
    return x * y;
  else
    return (V)((unsigned_of<V>)x * (unsigned_of<V>)y);
}

//% ct_multiply_add
template <class V>
CODETTA_FN V ct_multiply_add(V x, V y, V z) {
  if constexpr (is_float<V>)
    return x * y + z;
  else
    return (V)((unsigned_of<V>)x * (unsigned_of<V>)y + (unsigned_of<V>)z);
}

//% ct_neg
template <class V>
CODETTA_FN V ct_neg(V x) {
  if constexpr (is_float<V>)
    return -x;
  else
    return (V)(-(unsigned_of<V>)x);
}

//% ct_div
template <class V>
CODETTA_FN V ct_div(V x, V y) {
  return x / y;
}

//% ct_eq
template <class V>
CODETTA_FN boolv ct_eq(V x, V y) {
  return widen_mask(x == y);
}

//% ct_ne
template <class V>
CODETTA_FN boolv ct_ne(V x, V y) {
  return widen_mask(x != y);
}

//% ct_lt
template <class V>
CODETTA_FN boolv ct_lt(V x, V y) {
  return widen_mask(x < y);
}

//% ct_le
template <class V>
CODETTA_FN boolv ct_le(V x, V y) {
  return widen_mask(x <= y);
}

//% ct_gt
template <class V>
CODETTA_FN boolv ct_gt(V x, V y) {
  return widen_mask(x > y);
}

//% ct_ge
template <class V>
CODETTA_FN boolv ct_ge(V x, V y) {
  return widen_mask(x >= y);
}

//% ct_logical_and
CODETTA_FN boolv ct_logical_and(boolv x, boolv y) { return x & y; }

//% ct_logical_or
CODETTA_FN boolv ct_logical_or(boolv x, boolv y) { return x | y; }

//% ct_logical_xor
CODETTA_FN boolv ct_logical_xor(boolv x, boolv y) { return x ^ y; }

//% ct_logical_not
CODETTA_FN boolv ct_logical_not(boolv x) { return ~x; }

//% ct_where
template <class V>
CODETTA_FN V ct_where(boolv condition, V x, V y) {
  return select(condition, x, y);
}

//% lesser greater
// y when unordered. GCC makes a comparison and a blend of the plain form for f32.
template <class V>
CODETTA_FN V lesser(V x, V y) {
  return x < y ? x : y;
}
template <class V>
CODETTA_FN V greater(V x, V y) {
  return x > y ? x : y;
}
#if defined(__AVX2__)
CODETTA_FN f32v lesser(f32v x, f32v y) {
  asm("vminps %1, %0, %0" : "+v"(x) : "v"(y));
  return x;
}
CODETTA_FN f32v greater(f32v x, f32v y) {
  asm("vmaxps %1, %0, %0" : "+v"(x) : "v"(y));
  return x;
}
#endif

//% is_number
// Known to the compiler to be a number in every lane (a literal: all lanes are the same).
template <class V>
CODETTA_FN bool is_number(V x) {
  return __builtin_constant_p(x[0] == x[0]) && x[0] == x[0];
}

//% ct_minimum
// NaN if either is NaN; of -0 and +0 either may come, as IEEE 754 allows.
template <class V>
CODETTA_FN V ct_minimum(V x, V y) {
  if constexpr (is_float<V>) {
    if (is_number(y)) return lesser(y, x);
    const V m = lesser(x, y);
    return x != x ? x : m;
  } else {
    return lesser(x, y);
  }
}

//% ct_maximum
template <class V>
CODETTA_FN V ct_maximum(V x, V y) {
  if constexpr (is_float<V>) {
    if (is_number(y)) return greater(y, x);
    const V m = greater(x, y);
    return x != x ? x : m;
  } else {
    return greater(x, y);
  }
}

//% ct_clamp
template <class V>
CODETTA_FN V ct_clamp(V x, V low, V high) {
  return ct_minimum(ct_maximum(x, low), high);
}

//% ct_relu
// NaN stays; -0 + 0 is +0.
template <class V>
CODETTA_FN V ct_relu(V x) {
  const V m = greater(V{}, x);
  if constexpr (is_float<V>)
    return m + V{};
  else
    return m;
}

//% ct_drelu
template <class V>
CODETTA_FN V ct_drelu(V x) {
  return x > V{} ? splat<V>(1) : V{};
}

//% ct_sign
template <class V>
CODETTA_FN V ct_sign(V x) {
  const V one = splat<V>(1);
  const V up = x > V{} ? one : V{};
  const V s = x < V{} ? ct_neg(one) : up;
  if constexpr (is_float<V>)
    return x != x ? x : s;
  else
    return s;
}

//% ct_abs
template <class V>
CODETTA_FN V ct_abs(V x) {
  if constexpr (is_float<V>)
    return (V)((unsigned_of<V>)x & (~unsigned_of<V>{} >> 1));
  else
    return x < V{} ? ct_neg(x) : x;
}

//% .
}  // namespace codetta::cpu
