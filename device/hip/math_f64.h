// SPDX-License-Identifier: Apache-2.0
// Functions of f64 that CUDA has a library for: the methods and coefficients of device/cpu/math_f64.h, an element at a
// time. Accuracy: device/hip/ulp.def.
#pragma once

#include "device/gpu/math_basic.h"

namespace codetta::gpu {
namespace one {

CODETTA_FN f64 sqrt(f64 x) { return rounded_sqrt(x); }
CODETTA_FN f64 rsqrt(f64 x) { return 1.0 / rounded_sqrt(x); }
CODETTA_FN f64 floor(f64 x) { return down(x); }
CODETTA_FN f64 ceil(f64 x) { return up(x); }
CODETTA_FN f64 trunc(f64 x) { return towards_zero(x); }
CODETTA_FN f64 round(f64 x) { return to_even(x); }

CODETTA_FN f64 with_sign(f64 x, f64 s) {
  return bits_to_double((double_to_bits(x) & (~0ull >> 1)) | (double_to_bits(s) & (1ull << 63)));
}
// NaN stays.
CODETTA_FN f64 bounded(f64 x, f64 low, f64 high) { return x < low ? low : x > high ? high : x; }
// y, the logarithm of positive finite x, corrected for the rest: 0, inf, negative, NaN.
template <class T>
CODETTA_FN T logarithm_of(T x, T y) {
  const T inf = (T)bits_to_float(0x7f800000u);
  y = x < inf ? y : x + x;
  y = x == 0 ? -inf : y;
  return x < 0 ? (T)bits_to_float(0x7fc00000u) : y;
}

// n (also as an integer) and r with x = n ln 2 + r; e^r = 1 + r + r^2 q, (e^r - 1 - r) / r^2 of order 10.
struct ExpReducedF64 {
  i32 k;
  f64 r, r2q;
};
CODETTA_FN ExpReducedF64 exp_reduced(f64 x, f64 low) {
  const f64 n = to_even(x * 0x1.71547652b82fep+0);
  f64 r = fma(n, -0x1.62e42fee00000p-1, x);
  r = fma(n, -0x1.a39ef35793c76p-33, r) + low;
  f64 q = 0x1.1f731ea5352cap-29 * r + 0x1.af4e196027428p-26;
  q = q * r + 0x1.27e4db57442fbp-22;
  q = q * r + 0x1.71de021a90822p-19;
  q = q * r + 0x1.a01a01a6dcaffp-16;
  q = q * r + 0x1.a01a01abef415p-13;
  q = q * r + 0x1.6c16c16c162ccp-10;
  q = q * r + 0x1.11111111100cep-7;
  q = q * r + 0x1.5555555555556p-5;
  q = q * r + 0x1.5555555555557p-3;
  q = q * r + 0x1p-1;
  return {n == n ? (i32)n : 0, r, r * r * q};
}
CODETTA_FN f64 exp(f64 x) {
  const ExpReducedF64 e = exp_reduced(bounded(x, -746.0, 710.0), 0);
  return ldexp(1.0 + (e.r + e.r2q), e.k);
}
CODETTA_FN f64 exp2(f64 x) {
  const f64 t = bounded(x, -1076.0, 1025.0), n = to_even(t);
  const ExpReducedF64 e = exp_reduced((t - n) * 0x1.62e42fefa39efp-1, 0);
  return ldexp(1.0 + (e.r + e.r2q), e.k + (n == n ? (i32)n : 0));
}
CODETTA_FN f64 expm1(f64 x) {
  const ExpReducedF64 e = exp_reduced(bounded(x, -40.0, 710.0), 0);
  const f64 half = ldexp(0.5, e.k);
  const f64 y = (half * (e.r + e.r2q) + (half - 0.5)) * 2.0;
  return abs(x) < 0x1p-54 ? x : y;
}
// x = 2^n (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1]; log(1 + f) = 2 s + s z p, s = f / (2 + f), z = s^2: order 8.
// tail = log(1 + f) - f, without the cancellation of computing it so.
struct LogReducedF64 {
  f64 n, f, s, szp, tail;
};
CODETTA_FN LogReducedF64 log_reduced(f64 x) {
  const bool small = x < 0x1p-1022;
  const u64 b = double_to_bits(small ? x * 0x1p54 : x);
  const i32 k = (i32)((((b - 0x3fe6a09e667f3bcdull) + (1023ull << 52)) >> 52) & 2047) - 1023;
  const f64 n = (f64)k - (small ? 54.0 : 0.0);
  const f64 f = bits_to_double(b - ((u64)(i64)k << 52)) - 1.0;
  const f64 s = f / (2.0 + f), z = s * s;
  f64 p = 0x1.e6ce4e57aaee2p-4 * z + 0x1.debb7c9d90ac1p-4;
  p = p * z + 0x1.111d3a850cbadp-3;
  p = p * z + 0x1.3b137ac246adep-3;
  p = p * z + 0x1.745d17d4c7b78p-3;
  p = p * z + 0x1.c71c71c649fd9p-3;
  p = p * z + 0x1.249249249296bp-2;
  p = p * z + 0x1.9999999999998p-2;
  p = p * z + 0x1.5555555555555p-1;
  const f64 zp = z * p, hf2 = 0.5 * f * f;
  return {n, f, s, s * zp, s * (hf2 + zp) - hf2};
}
CODETTA_FN f64 log(f64 x) {
  const LogReducedF64 l = log_reduced(x);
  return logarithm_of(x, l.n * 0x1.62e42fee00000p-1 + (l.f + (l.tail + l.n * 0x1.a39ef35793c76p-33)));
}
CODETTA_FN f64 log2(f64 x) {
  const LogReducedF64 l = log_reduced(x);
  // f as hi + lo so that hi times the rounded-down log2(e) is exact.
  const f64 hi = bits_to_double(double_to_bits(l.f) & ~0xffffffffull), lo = (l.f - hi) + l.tail;
  return logarithm_of(x, l.n + (hi * 0x1.715476p+0 + (lo * 0x1.71547652b82fep+0 + hi * 0x1.4ae0bf85ddf44p-26)));
}
// log(u) with u = 1 + x rounded, corrected for the rounding (Kahan).
CODETTA_FN f64 log1p(f64 x) {
  const f64 u = 1.0 + x, l = log(u);
  const f64 y = l - ((u - 1.0) - x) / u;
  return x == 0 ? x : u == 0 || abs(u) > 0x1.fffffffffffffp+1023 ? l : y;
}
// -e / (2 + e) with e = expm1(-2 |x|).
CODETTA_FN f64 tanh(f64 x) {
  const f64 e = expm1(-2.0 * abs(x));
  return with_sign(e / (2.0 + e), x);
}
// erfc(a) and exp(-a^2) for a >= 0. The square is split so that its rounding does not reach the exponential;
// erfc(a) e^(a^2) (a + 4) in u = (a - 4) / (a + 4) on [0, 27.5], order 23.
struct ErfcTail {
  f64 erfc, e;
};
CODETTA_FN ErfcTail erfc_tail(f64 x) {
  const f64 a = x > 28.0 ? 28.0 : x;
  const f64 hi = bits_to_double(double_to_bits(a) & ~0x7ffffffull), lo = (a - hi) * (a + hi);
  const f64 e0 = exp(-(hi * hi));
  const f64 e = e0 - e0 * (lo * (1.0 - lo * (0.5 - lo * 0x1.5555555555555p-3)));
  const f64 d = 1.0 / (a + 4.0), u = (a - 4.0) * d;
  f64 p = 0x1.0bf28d85c5629p-31 * u + 0x1.3af4a5d218c11p-29;
  p = p * u - 0x1.f2856502956bfp-31;
  p = p * u - 0x1.4903052a59a52p-26;
  p = p * u + 0x1.c47241416c764p-30;
  p = p * u + 0x1.1469b0b9be5b9p-23;
  p = p * u - 0x1.44c34a91e4ee9p-24;
  p = p * u - 0x1.c8091ac435184p-21;
  p = p * u + 0x1.7e3d6e9750b22p-20;
  p = p * u + 0x1.3b223f76a6d23p-18;
  p = p * u - 0x1.3c6e209702fedp-16;
  p = p * u - 0x1.e7f5f7a936a48p-19;
  p = p * u + 0x1.72cda04bcf7fcp-13;
  p = p * u - 0x1.dd2840ec18f2ep-12;
  p = p * u - 0x1.269b516821245p-12;
  p = p * u + 0x1.908f471d06b40p-8;
  p = p * u - 0x1.b00c052c8b7a5p-6;
  p = p * u + 0x1.38dbd2c8e9859p-4;
  p = p * u - 0x1.645fd8a4bb69dp-3;
  p = p * u + 0x1.52cac23710058p-2;
  p = p * u - 0x1.14eacb1ad034ep-1;
  p = p * u + 0x1.8be202d26c707p-1;
  p = p * u - 0x1.f3fe31ecb49bfp-1;
  p = p * u + 0x1.18932bf08e154p+0;
  return {e * (p * d), e};
}
// Below 1: erf(x) / x in x^2 on [0, 1], order 12.
CODETTA_FN f64 erf(f64 x) {
  const f64 s = x * x, a = abs(x);
  f64 p = 0x1.05ffd737fb32ep-34 * s - 0x1.389d4f2641625p-30;
  p = p * s + 0x1.f7b4bf3b13964p-27;
  p = p * s - 0x1.5f1ecb6f0764cp-23;
  p = p * s + 0x1.b9df224ca4b97p-20;
  p = p * s - 0x1.f4d1e3183f7aep-17;
  p = p * s + 0x1.f9a321d5b8e1ep-14;
  p = p * s - 0x1.c02db3dac435fp-11;
  p = p * s + 0x1.565bcd0dbaa38p-8;
  p = p * s - 0x1.b82ce31284e00p-6;
  p = p * s + 0x1.ce2f21a042b30p-4;
  p = p * s - 0x1.812746b0379e6p-2;
  p = p * s + 0x1.20dd750429b6dp+0;
  return a < 1.0 ? x * p : with_sign(1.0 - erfc_tail(a).erfc, x);
}
// The normal distribution.
CODETTA_FN f64 normcdf(f64 x) {
  const f64 q = 0.5 * erfc_tail(abs(x) * 0x1.6a09e667f3bcdp-1).erfc;
  return x > 0 ? 1.0 - q : q;
}
CODETTA_FN bool is_whole(f64 x) { return to_even(x) == x; }
// exp(y log|x|) with the logarithm and the product in two doubles; the cases of IEEE 754 pow afterwards.
CODETTA_FN f64 pow(f64 x, f64 y) {
  const f64 inf = (f64)bits_to_float(0x7f800000u), ax = abs(x), ay = abs(y);
  const LogReducedF64 l = log_reduced(ax);
  // s as two doubles: what f / (2 + f) lost.
  const f64 den = 2.0 + l.f, den_low = l.f - (den - 2.0);
  const f64 s_low = (fma(-l.s, den, l.f) - l.s * den_low) / den;
  const f64 big = l.n * 0x1.62e42fee00000p-1, part = 2.0 * l.s;
  const f64 sum = big + part, apart = sum - big;
  f64 low = (big - (sum - apart)) + (part - apart);
  low = low + ((l.szp + 2.0 * s_low) + l.n * 0x1.a39ef35793c76p-33);
  const f64 hi = sum + low;
  low = low - (hi - sum);
  const f64 p = y * hi;
  const f64 rest = abs(p) < 2000.0 ? fma(y, hi, -p) + y * low : 0.0;
  const ExpReducedF64 e = exp_reduced(bounded(p, -800.0, 800.0), rest);
  f64 r = ldexp(1.0 + (e.r + e.r2q), e.k);
  // Zero and infinite bases.
  if (ax == 0) r = y > 0 ? 0.0 : inf;
  if (ax == inf) r = y > 0 ? inf : 0.0;
  if (ax == 1) r = 1;
  // Negative bases: the parity of y.
  const bool whole = is_whole(ay), odd = whole && !is_whole(0.5 * ay);
  if (x < 0 && ax < inf && !whole) r = (f64)bits_to_float(0x7fc00000u);
  if (odd && (double_to_bits(x) >> 63) != 0) r = -r;
  if (x != x || y != y) r = x + y;
  return y == 0 || x == 1 ? 1.0 : r;
}
// fmod(x, y) by long division of the significands: exact for every pair.
CODETTA_FN f64 remainder_of(f64 x, f64 y) {
  const u64 sign = double_to_bits(x) & (1ull << 63), low = (1ull << 52) - 1;
  const u64 bx = double_to_bits(x) & ~(1ull << 63), by = double_to_bits(y) & ~(1ull << 63);
  if (by == 0 || bx >= 0x7ff0000000000000ull || by > 0x7ff0000000000000ull) return (f64)bits_to_float(0x7fc00000u);
  if (bx < by) return x;
  i32 ex = (i32)(bx >> 52), ey = (i32)(by >> 52);
  u64 mx = ex != 0 ? (bx & low) | (1ull << 52) : bx, my = ey != 0 ? (by & low) | (1ull << 52) : by;
  if (ex == 0) ex = 1;
  if (ey == 0) ey = 1;
#pragma unroll 1
  for (; my < (1ull << 52); --ey) my <<= 1;
#pragma unroll 1
  for (; mx < (1ull << 52); --ex) mx <<= 1;
#pragma unroll 1
  for (; ex > ey; --ex) {
    if (mx >= my) mx -= my;
    mx <<= 1;
  }
  if (mx >= my) mx -= my;
  if (mx == 0) return bits_to_double(sign);
#pragma unroll 1
  for (; mx < (1ull << 52); --ey) mx <<= 1;
  // Subnormal: a multiple of y's last bit, so that nothing is lost.
  return bits_to_double(sign | (ey < 1 ? mx >> (1 - ey) : (mx & low) | ((u64)ey << 52)));
}

}  // namespace one
}  // namespace codetta::gpu
