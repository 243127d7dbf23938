// SPDX-License-Identifier: Apache-2.0
// Functions of f32 that shared math (device/gpu/math_f32.h) takes from the library: Metal's precise ones, and our own
// where Metal has none (expm1, log1p, erf) or none that is exact (fmod). Accuracy: ulp.def.
#pragma once

#include "device/gpu/math_basic.h"

namespace codetta::gpu {
namespace one {

CODETTA_FN f32 exp(f32 x) { return metal::precise::exp(x); }
CODETTA_FN f32 exp2(f32 x) { return metal::precise::exp2(x); }
CODETTA_FN f32 log(f32 x) { return metal::precise::log(x); }
CODETTA_FN f32 log2(f32 x) { return metal::precise::log2(x); }
CODETTA_FN f32 sqrt(f32 x) { return metal::precise::sqrt(x); }
CODETTA_FN f32 rsqrt(f32 x) { return metal::precise::rsqrt(x); }
CODETTA_FN f32 tanh(f32 x) { return metal::precise::tanh(x); }
CODETTA_FN f32 pow(f32 x, f32 y) { return metal::precise::pow(x, y); }
CODETTA_FN f32 sin(f32 x) { return metal::precise::sin(x); }
CODETTA_FN f32 cos(f32 x) { return metal::precise::cos(x); }
CODETTA_FN f32 floor(f32 x) { return metal::floor(x); }
CODETTA_FN f32 ceil(f32 x) { return metal::ceil(x); }
CODETTA_FN f32 trunc(f32 x) { return metal::trunc(x); }
CODETTA_FN f32 round(f32 x) { return metal::rint(x); }

// 2^n p + (2^n - 1) with x = n ln 2 + r and p = e^r - 1: the series to r^8 on [-0.347, 0.347].
CODETTA_FN f32 expm1(f32 x) {
  if (x != x) return x;
  if (x > 88.8f) return bits_to_float(0x7f800000u);
  if (x < -17.4f) return -1.0f;
  const f32 n = metal::rint(x * 0x1.715476p+0f);
  const f32 r = metal::fma(n, 0x1.05c610p-29f, metal::fma(n, -0x1.62e430p-1f, x));
  f32 p = 0x1.a01a02p-16f * r + 0x1.a01a02p-13f;
  p = p * r + 0x1.6c16c2p-10f;
  p = p * r + 0x1.111112p-7f;
  p = p * r + 0x1.555556p-5f;
  p = p * r + 0x1.555556p-3f;
  p = p * r + 0.5f;
  p = r + r * r * p;
  const bool top = n > 127.0f;  // 2^128 is no float
  const f32 s = bits_to_float((u32)((i32)(top ? n - 1.0f : n) + 127) << 23);
  const f32 y = s * p + (top ? s : s - 1.0f);
  return n == 0.0f ? p : top ? y * 2.0f : y;
}
// log(u) with u = 1 + x as rounded, and what the rounding took.
CODETTA_FN f32 log1p(f32 x) {
  const f32 u = 1.0f + x;
  if (u == 1.0f) return x;
  if (!(u > 0.0f) || u - u != 0.0f) return log(u);
  return log(u) + (x - (u - 1.0f)) / u;
}
// Below 1: erf(x) / x in x^2 on [0, 1], order 6. Above: 1 - 2^p, p = log2(erfc) on [0.95, 4], order 8.
CODETTA_FN f32 erf(f32 x) {
  f32 a = abs(x);
  a = a > 4.0f ? 4.0f : a;
  const f32 s = x * x;
  if (a < 1.0f) {
    f32 p = 0x1.4a569p-14f * s - 0x1.a45088p-11f;
    p = p * s + 0x1.541272p-8f;
    p = p * s - 0x1.b7fabap-6f;
    p = p * s + 0x1.ce2d1p-4f;
    p = p * s - 0x1.81273ep-2f;
    p = p * s + 0x1.20dd74p+0f;
    return x * p;
  }
  f32 q = 0x1.3e14ap-19f * a - 0x1.17590ap-14f;
  q = q * a + 0x1.c41364p-11f;
  q = q * a - 0x1.c261ecp-8f;
  q = q * a + 0x1.38624p-5f;
  q = q * a - 0x1.454c34p-3f;
  q = q * a - 0x1.d2b13ep-1f;
  q = q * a - 0x1.a16ea2p+0f;
  q = q * a + 0x1.e6e94ep-12f;
  const f32 y = 1.0f - exp2(q);
  return x < 0.0f ? -y : y;
}
// Exact, as C has it: the remainder of |x| by |y| bit by bit, with the sign of x.
CODETTA_FN f32 remainder_of(f32 x, f32 y) {
  const u32 sign = float_to_bits(x) & 0x80000000u;
  u32 a = float_to_bits(x) & 0x7fffffffu;
  const u32 b = float_to_bits(y) & 0x7fffffffu;
  if (a >= 0x7f800000u || b > 0x7f800000u || b == 0) return x * y - x * y + bits_to_float(0x7fc00000u);
  if (a < b) return x;
  i32 ea = (i32)(a >> 23), eb = (i32)(b >> 23);
  u32 ma = ea == 0 ? a : (a & 0x7fffffu) | 0x800000u, mb = eb == 0 ? b : (b & 0x7fffffu) | 0x800000u;
  if (ea == 0) ea = 1;
  if (eb == 0) eb = 1;
  for (; ea > eb; --ea) ma = (ma >= mb ? ma - mb : ma) << 1;
  if (ma >= mb) ma -= mb;
  if (ma == 0) return bits_to_float(sign);
  while (ma < 0x800000u && ea > 1) ma <<= 1, --ea;
  a = ma < 0x800000u ? ma : (ma & 0x7fffffu) | ((u32)ea << 23);
  return bits_to_float(a | sign);
}

}  // namespace one
}  // namespace codetta::gpu
