// SPDX-License-Identifier: Apache-2.0
// Functions of f32. Accuracy: ulp.def, measured on the device. The CUDA library's
// functions where they are good, our own where an instruction of approximation does (activations), and where the
// library's would keep an array in local memory (sin, cos). Polynomials: interval and order are named beside them.
#pragma once

#include "device/gpu/math_basic.h"
#ifdef CODETTA_OWN_MATH  // there is no library
#include "device/hip/math_f32.h"
#endif

namespace codetta::gpu {
namespace one {

#ifndef CODETTA_OWN_MATH
CODETTA_FN f32 exp(f32 x) { return ::expf(x); }
CODETTA_FN f32 exp2(f32 x) { return ::exp2f(x); }
CODETTA_FN f32 expm1(f32 x) { return ::expm1f(x); }
CODETTA_FN f32 log(f32 x) { return ::logf(x); }
CODETTA_FN f32 log2(f32 x) { return ::log2f(x); }
CODETTA_FN f32 log1p(f32 x) { return ::log1pf(x); }
CODETTA_FN f32 sqrt(f32 x) { return ::sqrtf(x); }
CODETTA_FN f32 rsqrt(f32 x) { return ::rsqrtf(x); }
CODETTA_FN f32 tanh(f32 x) { return ::tanhf(x); }
CODETTA_FN f32 erf(f32 x) { return ::erff(x); }
CODETTA_FN f32 pow(f32 x, f32 y) { return ::powf(x, y); }
CODETTA_FN f32 floor(f32 x) { return ::floorf(x); }
CODETTA_FN f32 ceil(f32 x) { return ::ceilf(x); }
CODETTA_FN f32 trunc(f32 x) { return ::truncf(x); }
CODETTA_FN f32 round(f32 x) { return ::rintf(x); }
CODETTA_FN f32 remainder_of(f32 x, f32 y) { return ::fmodf(x, y); }
CODETTA_FN f32 fma(f32 x, f32 y, f32 z) { return ::fmaf(x, y, z); }
#endif

constexpr f32 log2_e = 0x1.715476p+0f;

// x rounded to a value that adds to 1 without loss is not needed here: 1 + 2^t is inf from t = 128 on, its reciprocal
// 0, which is what a sigmoid there is within its absolute bound.
CODETTA_FN f32 sigmoid(f32 x) { return rcp_approx(1.0f + ex2_approx(x * -log2_e)); }
CODETTA_FN f32 silu(f32 x) { return x * sigmoid(x); }

// x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3); -2 u log2(e) = x (c0 + c1 x^2).
CODETTA_FN f32 gelu_tanh(f32 x) {
  const f32 t = x * (-0x1.26aec2p+1f + -0x1.a5a7dp-4f * (x * x));
  return x * rcp_approx(1.0f + ex2_approx(t));
}

// x (1 - Q(x)) above 0, x Q(-x) below, Q(a) = erfc(a / sqrt 2) / 2. log2 Q(a) on [0, 6], order 8, weighted by what it
// does to the result; it falls for all a >= 0, to -inf.
CODETTA_FN f32 gelu_erf(f32 x) {
  const f32 a = abs(x);
  f32 t = -0x1.7d1556p-20f * a + 0x1.696a7p-16f;
  t = t * a - 0x1.9302a4p-14f;
  t = t * a - 0x1.85be9cp-12f;
  t = t * a + 0x1.e510fcp-8f;
  t = t * a - 0x1.b03daep-5f;
  t = t * a - 0x1.d61e32p-2f;
  t = t * a - 0x1.26b016p+0f;
  t = t * a - 0x1.ffffep-1f;
  const f32 q = ex2_approx(t);
  return x * (x < 0.0f ? q : 1.0f - q);
}

// Phi(x) + x phi(x). Q e^(a^2/2) (a + 3) in (a - 3) / (a + 3) on [0, 14], order 8; phi(x) = exp(-x^2 / 2) / sqrt(2 pi).
CODETTA_FN f32 dgelu_erf(f32 x) {
  const f32 a = abs(x);
  const f32 d = rcp_approx(a + 3.0f);
  const f32 u = 1.0f - 6.0f * d;
  f32 p = -0x1.33f752p-12f * u - 0x1.eb393p-11f;
  p = p * u + 0x1.1eb2aep-10f;
  p = p * u + 0x1.c78f6ep-8f;
  p = p * u - 0x1.5784e6p-7f;
  p = p * u - 0x1.832cd4p-5f;
  p = p * u + 0x1.d71486p-3f;
  p = p * u - 0x1.04c726p-1f;
  p = p * u + 0x1.754a74p-1f;
  const f32 e = ex2_approx(a * a * -0x1.715476p-1f);
  const f32 q = e * (p * d);
  return (x > 0.0f ? 1.0f - q : q) + x * (e * 0x1.988454p-2f);
}

// s + x s (1 - s) 2 u', s = sigmoid(2 u) = 1 / (1 + e), s (1 - s) = e s^2; beyond |x| = 10 nothing is left of it.
CODETTA_FN f32 dgelu_tanh(f32 x) {
  const f32 c = minimum(maximum(x, -10.0f), 10.0f);
  const f32 c2 = c * c;
  const f32 e = ex2_approx(c * (-0x1.26aec2p+1f + -0x1.a5a7dp-4f * c2));
  const f32 s = rcp_approx(1.0f + e);
  return s + c * (e * s * s) * (0x1.988454p+0f + 0x1.b6676cp-3f * c2) + (x - x);  // NaN at infinity
}

CODETTA_FN f32 divided(f32 x, f32 y) { return x * rcp_approx(y); }  // 1 <= y < 2^126
CODETTA_FN f32 sixth(f32 x) { return x * 0x1.555556p-3f; }

// 2 / pi to 192 bits, in 32-bit words behind one word of zeros.
static __device__ const u32 two_over_pi[8] = {0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                              0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};

// Quadrant and remainder of x in multiples of pi / 2: three parts of pi / 2 below 2^15, Payne and Hanek's method with
// the 96 bits of 2 / pi that matter above.
struct Turned {
  f32 r;
  i32 n;
};
CODETTA_FN Turned turned(f32 x) {
  const f32 n = round(x * 0x1.45f306p-1f);
  f32 r = fma(n, -0x1.921fb4p+0f, x);
  r = fma(n, -0x1.4442d0p-24f, r);
  r = fma(n, -0x1.84698ap-48f, r);
  Turned t{r, (i32)n};
  const u32 b = float_to_bits(x) & 0x7fffffffu;
  if (b >= 0x47000000u && b < 0x7f800000u) {
    const int first = (int)(b >> 23) - 150 - 2 + 32;  // bit of the table: those before it only add multiples of 4
    const int word = first >> 5, shift = first & 31;
    const u32 m = (b & 0x7fffffu) | 0x800000u;
    u32 w[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) w[i] = __funnelshift_l(two_over_pi[word + i + 1], two_over_pi[word + i], shift);
    u64 p = (u64)m * w[2];
    const u64 q = (u64)m * w[1] + (p >> 32);
    u64 f = ((u64)(m * w[0]) << 32) + q;  // two bits of quadrant, then the fraction
    i32 quadrant = (i32)(f >> 62);
    f <<= 2;
    if (f >> 63) ++quadrant;  // at least one half: the next quadrant, from above
    const f64 turn = (f64)(i64)f * 0x1.921fb54442d18p-64;
    const bool negative = x < 0.0f;
    t.r = (f32)(negative ? -turn : turn);
    t.n = negative ? -quadrant : quadrant;
  }
  return t;
}
// sin of the remainder turned by n quadrants: sin(r) / r - 1 and cos(r) - 1 + r^2 / 2 in r^2 on [-pi/4, pi/4].
CODETTA_FN f32 wave(f32 r, i32 n) {
  const f32 z = r * r;
  const f32 s = r + r * (z * ((0x1.5d8716p-19f * z * 1.0f - 0x1.a00f9ep-13f) * z * 1.0f + 0x1.11110ep-7f) * z -
                         z * 0x1.555556p-3f);
  const f32 c = 1.0f - 0.5f * z + z * z * (0x1.555554p-5f + z * (-0x1.6c0c1ep-10f + z * 0x1.99342ep-16f));
  const f32 y = (n & 1) != 0 ? c : s;
  return (n & 2) != 0 ? -y : y;
}
CODETTA_FN f32 sin(f32 x) {
  const Turned t = turned(x);
  return x == 0.0f ? x : wave(abs(x) < __int_as_float(0x7f800000) ? t.r : x - x, t.n);
}
CODETTA_FN f32 cos(f32 x) {
  const Turned t = turned(x);
  return wave(abs(x) < __int_as_float(0x7f800000) ? t.r : x - x, t.n + 1);
}

}  // namespace one
}  // namespace codetta::gpu
