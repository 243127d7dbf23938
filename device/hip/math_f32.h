// SPDX-License-Identifier: Apache-2.0
// Functions of f32 that CUDA has a library for: the methods and coefficients of device/cpu/math_f32.h, an element at a
// time. Accuracy: device/hip/ulp.def.
#pragma once

#include "device/gpu/math_basic.h"
#include "device/hip/math_f64.h"

namespace codetta::gpu {
namespace one {

CODETTA_FN f32 sqrt(f32 x) { return rounded_sqrt(x); }
CODETTA_FN f32 rsqrt(f32 x) { return 1.0f / rounded_sqrt(x); }
CODETTA_FN f32 floor(f32 x) { return down(x); }
CODETTA_FN f32 ceil(f32 x) { return up(x); }
CODETTA_FN f32 trunc(f32 x) { return towards_zero(x); }
CODETTA_FN f32 round(f32 x) { return to_even(x); }

// The one that is a number, where the other is NaN.
CODETTA_FN f32 smaller(f32 x, f32 y) { return __builtin_fminf(x, y); }
CODETTA_FN f32 larger(f32 x, f32 y) { return __builtin_fmaxf(x, y); }

CODETTA_FN f32 with_sign(f32 x, f32 s) {
  return bits_to_float((float_to_bits(x) & 0x7fffffffu) | (float_to_bits(s) & 0x80000000u));
}
// (2^r - 1) / r on [-0.5, 0.5], order 5.
CODETTA_FN f32 exp2(f32 x) {
  const f32 t = clamped(x, -152.0f, 129.0f), n = to_even(t), r = t - n;
  f32 p = 0x1.441412p-13f * r + 0x1.5f0956p-10f;
  p = p * r + 0x1.3b2a52p-7f;
  p = p * r + 0x1.c6af6cp-5f;
  p = p * r + 0x1.ebfbep-3f;
  p = p * r + 0x1.62e43p-1f;
  p = p * r + 1.0f;
  return x == x ? ldexp(p, (i32)n) : x;
}
// x = n ln 2 + r (ln 2 in two parts, so that n times the first is exact); e^r - 1 - r = r^2 q, order 4.
struct ExpReduced {
  i32 n;
  f32 r, r2q;
};
CODETTA_FN ExpReduced exp_reduced(f32 x) {  // a number
  const f32 n = to_even(x * 0x1.715476p+0f);
  f32 r = x - n * 0x1.63p-1f;
  r = r - n * -0x1.bd0106p-13f;
  f32 q = 0x1.6d117cp-10f * r + 0x1.120be2p-7f;
  q = q * r + 0x1.555518p-5f;
  q = q * r + 0x1.5554dcp-3f;
  q = q * r + 0.5f;
  return {(i32)n, r, r * r * q};
}
CODETTA_FN f32 exp(f32 x) {
  const ExpReduced e = exp_reduced(clamped(x, -104.0f, 89.0f));
  return x == x ? ldexp(1.0f + (e.r + e.r2q), e.n) : x;
}
// 2^n (e^r - 1) + (2^n - 1), halved until the end so that 2^n does not overflow before the result does.
CODETTA_FN f32 expm1(f32 x) {
  const ExpReduced e = exp_reduced(clamped(x, -18.0f, 89.0f));
  const f32 half = ldexp(0.5f, e.n);
  const f32 y = (half * (e.r + e.r2q) + (half - 0.5f)) * 2.0f;
  return abs(x) >= 0x1p-25f ? y : x;  // NaN, too
}
// x = 2^n (1 + f): (log(1 + f) - f + f^2 / 2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1], order 8.
CODETTA_FN f32 log(f32 x) {
  const bool small = x < 0x1p-126f;
  const u32 b = float_to_bits(small ? x * 0x1p23f : x);
  const i32 k = (i32)(b - 0x3f3504f3u) >> 23;
  const f32 n = (f32)k - (small ? 23.0f : 0.0f);
  const f32 f = bits_to_float(b - ((u32)k << 23)) - 1.0f;
  f32 p = 0x1.1d8ea6p-4f * f - 0x1.d635bcp-4f;
  p = p * f + 0x1.dea282p-4f;
  p = p * f - 0x1.fcf4c6p-4f;
  p = p * f + 0x1.23d21ap-3f;
  p = p * f - 0x1.555b4ap-3f;
  p = p * f + 0x1.999d5ap-3f;
  p = p * f - 0x1.fffffcp-3f;
  p = p * f + 0x1.555554p-2f;
  const f32 tail = f * f * (f * p - 0.5f);
  const f32 y = n * 0x1.63p-1f + (f + (tail + n * -0x1.bd0106p-13f));
  return logarithm_of(x, y);
}
// -e / (2 + e) with e = expm1(-2 |x|).
CODETTA_FN f32 tanh(f32 x) {
  const f32 e = expm1(-2.0f * abs(x));
  return with_sign(e / (2.0f + e), x);
}
// Below 1: erf(x) / x in x^2 on [0, 1], order 6. Above: 1 - 2^p, p = log2(erfc) on [0.95, 4], order 8.
CODETTA_FN f32 erf(f32 x) {
  const f32 m = abs(x), a = m > 4.0f ? 4.0f : m, s = x * x;
  f32 p = 0x1.4a569p-14f * s - 0x1.a45088p-11f;
  p = p * s + 0x1.541272p-8f;
  p = p * s - 0x1.b7fabap-6f;
  p = p * s + 0x1.ce2d1p-4f;
  p = p * s - 0x1.81273ep-2f;
  p = p * s + 0x1.20dd74p+0f;
  f32 q = 0x1.3e14ap-19f * a - 0x1.17590ap-14f;
  q = q * a + 0x1.c41364p-11f;
  q = q * a - 0x1.c261ecp-8f;
  q = q * a + 0x1.38624p-5f;
  q = q * a - 0x1.454c34p-3f;
  q = q * a - 0x1.d2b13ep-1f;
  q = q * a - 0x1.a16ea2p+0f;
  q = q * a + 0x1.e6e94ep-12f;
  return a < 1.0f ? x * p : with_sign(1.0f - exp2(q), x);
}
// Evaluated in f64, and rounded once.
CODETTA_FN f32 log2(f32 x) { return (f32)log2((f64)x); }
CODETTA_FN f32 log1p(f32 x) { return (f32)log1p((f64)x); }
CODETTA_FN f32 pow(f32 x, f32 y) { return (f32)pow((f64)x, (f64)y); }
CODETTA_FN f32 remainder_of(f32 x, f32 y) { return (f32)remainder_of((f64)x, (f64)y); }

}  // namespace one
}  // namespace codetta::gpu
