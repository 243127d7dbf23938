// SPDX-License-Identifier: Apache-2.0
// Functions made of others, for f32 and f64; where math_f32.h has a faster form for f32, that one is taken.
#pragma once

#include "device/cpu/math_basic.h"
#include "device/cpu/math_f32.h"
#include "device/cpu/math_f64.h"
#include "device/cpu/math_int.h"

namespace codetta::cpu {

//% ct_reciprocal
template <class V>
CODETTA_FN V ct_reciprocal(V x) {
  return splat<V>(1) / x;
}

//% ct_rsqrt
template <class V>
CODETTA_FN V ct_rsqrt(V x) {
  return splat<V>(1) / ct_sqrt(x);
}

//% ct_softplus
// log1p(exp(b)) = max(b, 0) + log1p(exp(-|b|)), which does not overflow.
template <class V>
CODETTA_FN V ct_softplus(V x, V beta, V threshold) {
  const V b = beta * x;
  return b > threshold ? x : (at_least(b, 0) + ct_log1p(ct_exp(-magnitude(b)))) / beta;
}

//% ct_elu
template <class V>
CODETTA_FN V ct_elu(V x, V alpha) {
  return x > V{} ? x : alpha * ct_expm1(x);
}

//% ct_leaky_relu
template <class V>
CODETTA_FN V ct_leaky_relu(V x, V slope) {
  return x > V{} ? x : slope * x;
}

//% hard_step
// clamp(x + 3, 0, 6); NaN stays.
template <class V>
CODETTA_FN V hard_step(V x) {
  return at_most(at_least(x + splat<V>(3), 0), 6);
}

//% ct_hardswish
template <class V>
CODETTA_FN V ct_hardswish(V x) {
  return x * (hard_step(x) / splat<V>(6));
}

//% ct_hardsigmoid
template <class V>
CODETTA_FN V ct_hardsigmoid(V x) {
  return hard_step(x) / splat<V>(6);
}

//% ct_mish
// tanh(log1p(e)) = e (e + 2) / (e (e + 2) + 2), which is 1 long before e overflows.
template <class V>
CODETTA_FN V ct_mish(V x) {
  const V e = ct_exp(at_most(x, 40));
  const V w = e * (e + splat<V>(2));
  return x * (w / (w + splat<V>(2)));
}

//% ct_dsigmoid
// e / (1 + e)^2 with e = exp(-|x|): no difference of near values.
template <class V>
CODETTA_FN V ct_dsigmoid(V x) {
  const V e = ct_exp(-magnitude(x)), d = splat<V>(1) + e;
  return e / (d * d);
}

//% ct_dtanh
// 4 e / (1 + e)^2 with e = exp(-2 |x|).
template <class V>
CODETTA_FN V ct_dtanh(V x) {
  const V e = ct_exp(splat<V>(-2) * magnitude(x)), d = splat<V>(1) + e;
  return splat<V>(4) * e / (d * d);
}

//% ct_dsilu
template <class V>
CODETTA_FN V ct_dsilu(V x) {
  const V s = ct_sigmoid(x);
  return s + x * ct_dsigmoid(x);
}

//% ct_dropout
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): counter (low, high word of
// index / 4, 0, 0), key (seed low, seed high), output word index % 4. Kept where (word >> 8) 2^-24 >= p.
CODETTA_FN u64v philox_word(u64v seed, u64v index) {
  const u64v low = splat<u64v>(0xffffffffull);
  u64v c0 = (index >> 2) & low, c1 = index >> 34, c2 = {}, c3 = {}, k0 = seed & low, k1 = seed >> 32;
  for (int round = 0; round < 10; ++round) {
    const u64v a = c0 * 0xd2511f53ull, b = c2 * 0xcd9e8d57ull;
    c0 = (b >> 32) ^ c1 ^ k0;
    c1 = b & low;
    c2 = (a >> 32) ^ c3 ^ k1;
    c3 = a & low;
    k0 = (k0 + 0x9e3779b9ull) & low;
    k1 = (k1 + 0xbb67ae85ull) & low;
  }
  const u64v odd = -(index & 1), high = -((index >> 1) & 1);
  return (((c0 & ~odd) | (c1 & odd)) & ~high) | (((c2 & ~odd) | (c3 & odd)) & high);
}
template <class V>
CODETTA_FN V ct_dropout(V x, f32v p, u64v seed, u64v index) {
  const u64v word = philox_word(seed, index);
  const f32v u = __builtin_convertvector(__builtin_convertvector(word >> 8, i32v), f32v) * 0x1p-24f;
  const V keep = x / __builtin_convertvector(1.0f - p, V);
  return select(widen_mask(u >= p), keep, V{});
}

//% round_magnitude signed_like
// |x| rounded to an integral value, ties to even; large values are integral already.
CODETTA_FN f32v round_magnitude(f32v x) {
  const f32v a = (f32v)((u32v)x & 0x7fffffffu);
  return a < splat<f32v>(0x1p23f) ? (a + 0x1p23f) - 0x1p23f : a;
}
CODETTA_FN f64v round_magnitude(f64v x) {
  const f64v a = (f64v)((u64v)x & (~u64v{} >> 1));
  return a < splat<f64v>(0x1p52) ? (a + 0x1p52) - 0x1p52 : a;
}
// with x's sign, which keeps -0.
template <class V>
CODETTA_FN V signed_like(V magnitude_of, V x) {
  using U = unsigned_of<V>;
  const U m = ~U{} >> 1;
  return (V)(((U)magnitude_of & m) | ((U)x & ~m));
}

//% ct_round
template <class V, typename When<is_float<V>>::type = 0>
CODETTA_FN V ct_round(V x) {
  return signed_like(round_magnitude(x), x);
}

//% ct_trunc
template <class V, typename When<is_float<V>>::type = 0>
CODETTA_FN V ct_trunc(V x) {
  const V a = (V)((unsigned_of<V>)x & (~unsigned_of<V>{} >> 1));
  const V r = round_magnitude(x);
  return signed_like(r > a ? r - splat<V>(1) : r, x);
}

//% ct_floor
template <class V, typename When<is_float<V>>::type = 0>
CODETTA_FN V ct_floor(V x) {
  const V r = ct_round(x);
  return r > x ? r - splat<V>(1) : r;
}

//% ct_ceil
template <class V, typename When<is_float<V>>::type = 0>
CODETTA_FN V ct_ceil(V x) {
  const V r = ct_round(x);
  return r < x ? signed_like(r + splat<V>(1), x) : r;
}

//% ct_floordiv
template <class V, typename When<is_float<V>>::type = 0>
CODETTA_FN V ct_floordiv(V x, V y) {
  return ct_floor(x / y);
}

//% exact_remainder
// fmod(x, y) by long division of the significands: exact for every pair.
__attribute__((noinline, unused)) static f64 exact_remainder(f64 x, f64 y) {
  u64 bx, by;
  __builtin_memcpy(&bx, &x, sizeof bx);
  __builtin_memcpy(&by, &y, sizeof by);
  const u64 sign = bx & (1ull << 63), low = (1ull << 52) - 1;
  bx &= ~(1ull << 63);
  by &= ~(1ull << 63);
  if (by == 0 || bx >= 0x7ff0000000000000ull || by > 0x7ff0000000000000ull) return __builtin_nan("");
  if (bx < by) return x;
  int ex = (int)(bx >> 52), ey = (int)(by >> 52);
  u64 mx = ex != 0 ? (bx & low) | (1ull << 52) : bx, my = ey != 0 ? (by & low) | (1ull << 52) : by;
  if (ex == 0) ex = 1;
  if (ey == 0) ey = 1;
  for (; mx < (1ull << 52); --ex) mx <<= 1;
  for (; my < (1ull << 52); --ey) my <<= 1;
  for (; ex > ey; --ex) {
    if (mx >= my) mx -= my;
    mx <<= 1;
  }
  if (mx >= my) mx -= my;
  for (; mx != 0 && mx < (1ull << 52); --ey) mx <<= 1;
  // A subnormal result is a multiple of y's last bit, so that nothing is lost.
  bx = sign | (mx == 0 ? 0 : ey < 1 ? mx >> (1 - ey) : (mx & low) | ((u64)ey << 52));
  __builtin_memcpy(&x, &bx, sizeof x);
  return x;
}

//% ct_mod
// Python's: fmod, moved by y where the signs differ; a zero has the sign of y.
template <class V, typename When<is_float<V>>::type = 0>
CODETTA_FN V ct_mod(V x, V y) {
  V r;
  for (int i = 0; i < lanes; ++i) r[i] = (element<V>)exact_remainder(x[i], y[i]);
  const V moved = (r < V{}) != (y < V{}) ? r + y : r;
  return r == V{} ? signed_like(V{}, y) : moved;
}

//% .
}  // namespace codetta::cpu
