// SPDX-License-Identifier: Apache-2.0
// Element-wise ops of integer vectors that differ from those of floats.
#pragma once

#include "device/cpu/math_basic.h"

namespace codetta::cpu {

//% ct_floordiv
// The quotient rounded down; 0 where y is 0. The divisor is made safe first: -1 (where the least integer would trap) is
// answered by negation. No instruction set divides integer vectors, so the lanes are taken one by one.
template <class V, class = decltype(V{} & V{})>
CODETTA_FN V ct_floordiv(V x, V y) {
  V q = {};
  for (int i = 0; i < lanes; ++i) {
    const element<V> a = x[i], b = y[i];
    if (b == 0) continue;
    if ((element<V>)-1 < (element<V>)0 && b == (element<V>)-1) {
      q[i] = (element<V>)(0 - (u64)a);
      continue;
    }
    const element<V> t = (element<V>)(a / b);
    q[i] = (element<V>)(t - (((a % b != 0) && ((a < 0) != (b < 0))) ? 1 : 0));
  }
  return q;
}

//% ct_mod
// x - floor(x / y) y, with the sign of y; 0 where y is 0.
template <class V, class = decltype(V{} & V{})>
CODETTA_FN V ct_mod(V x, V y) {
  return select(widen_mask(y == V{}), V{}, ct_sub(x, ct_mul(ct_floordiv(x, y), y)));
}

//% ct_pow
// x to the power of a non-negative y, by squaring; wraps.
template <class V, class = decltype(V{} & V{})>
CODETTA_FN V ct_pow(V x, V y) {
  using U = unsigned_of<V>;
  U base = (U)x, result = splat<U>(1);
  U left = (U)y;
  for (int bit = 0; bit < (int)sizeof(element<V>) * 8; ++bit) {
    result = (left & 1) != U{} ? result * base : result;
    base = base * base;
    left = left >> 1;
    element<U> any = 0;
    for (int i = 0; i < lanes; ++i) any |= left[i];
    if (any == 0) break;
  }
  return (V)result;
}

//% ct_floor
template <class V, class = decltype(V{} & V{})>
CODETTA_FN V ct_floor(V x) {
  return x;
}

//% ct_ceil
template <class V, class = decltype(V{} & V{})>
CODETTA_FN V ct_ceil(V x) {
  return x;
}

//% ct_round
template <class V, class = decltype(V{} & V{})>
CODETTA_FN V ct_round(V x) {
  return x;
}

//% ct_trunc
template <class V, class = decltype(V{} & V{})>
CODETTA_FN V ct_trunc(V x) {
  return x;
}

//% .
}  // namespace codetta::cpu
