// SPDX-License-Identifier: Apache-2.0
// Functions of f32 that the compiler's library has, and our own where the library's would keep an array in local memory
// (sin, cos).
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
// The one that is a number, where the other is NaN.
CODETTA_FN f32 smaller(f32 x, f32 y) { return ::fminf(x, y); }
CODETTA_FN f32 larger(f32 x, f32 y) { return ::fmaxf(x, y); }
#endif

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
