// SPDX-License-Identifier: Apache-2.0
// Functions of f32 vectors that are evaluated in f32. Accuracy: ulp.def. Coefficients are Chebyshev fits of the stated
// quotient, computed with 60 digits and rounded to f32; interval and order are named beside them.
// Denormals are kept; NaN passes through every clamp because the comparison is written to keep its second operand.
#pragma once

#include "device/cpu/math_basic.h"
#include "device/cpu/math_f64.h"

namespace codetta::cpu {

//% magnitude
CODETTA_FN f32v magnitude(f32v x) { return (f32v)((u32v)x & 0x7fffffffu); }

//% with_sign
// |x| with the sign of s.
CODETTA_FN f32v with_sign(f32v x, f32v s) { return (f32v)(((u32v)x & 0x7fffffffu) | ((u32v)s & 0x80000000u)); }

//% at_most
CODETTA_FN f32v at_most(f32v x, f32 bound) { return lesser(splat<f32v>(bound), x); }

//% at_least
CODETTA_FN f32v at_least(f32v x, f32 bound) { return greater(splat<f32v>(bound), x); }

//% times_power_of_two
// p * 2^n for p in [0.5, 4), n integral in [-152, 129]; one rounding where the result is denormal.
CODETTA_FN f32v times_power_of_two(f32v p, f32v n) {
#if defined(__AVX512VL__)
  asm("vscalefps %2, %1, %0" : "=v"(p) : "v"(p), "v"(n));
  return p;
#else
  const i32v k = __builtin_convertvector(n, i32v);
  const i32v half = k >> 1;
  return p * (f32v)((half + 127) << 23) * (f32v)((k - half + 127) << 23);
#endif
}

//% power_of_fraction
// 2^(i/32 + r) for the i in the last five bits of `index` and |r| <= 1/64: a table in two registers, and
// (2^r - 1) / r, order 1.
#if defined(__AVX512BW__) && CODETTA_LANES == 16
CODETTA_FN f32v power_of_fraction(f32v index, f32v r) {
  alignas(64) static const f32 powers[32] = {
      0x1p+0f,        0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f, 0x1.1d4874p+0f, 0x1.2387a6p+0f,
      0x1.29e9ep+0f,  0x1.306fep+0f,  0x1.371a74p+0f, 0x1.3dea64p+0f, 0x1.44e086p+0f, 0x1.4bfdaep+0f, 0x1.5342b6p+0f,
      0x1.5ab07ep+0f, 0x1.6247ecp+0f, 0x1.6a09e6p+0f, 0x1.71f75ep+0f, 0x1.7a1148p+0f, 0x1.82589ap+0f, 0x1.8ace54p+0f,
      0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f, 0x1.ae89fap+0f, 0x1.b7f77p+0f,  0x1.c199bep+0f, 0x1.cb720ep+0f,
      0x1.d5818ep+0f, 0x1.dfc974p+0f, 0x1.ea4afap+0f, 0x1.f50766p+0f,
  };
  asm("vpermi2ps %2, %1, %0" : "+v"(index) : "v"(load_all<f32v>(powers)), "v"(load_all<f32v>(powers + 16)));
  return index + index * (r * (0x1.ebfbe4p-3f * r + 0x1.62e584p-1f));
}
#endif

//% exp2_of
// 2^t, relative error 2e-7 plus that of t. t may be anything; results beyond the range become 0, inf or NaN.
CODETTA_FN f32v exp2_of(f32v t) {
#if defined(__AVX512BW__) && CODETTA_LANES == 16
  // r = t - n with n the nearest multiple of 1/32, 0 for infinities; scalef takes floor(n).
  f32v r;
  asm("vreduceps $0x50, %1, %0" : "=v"(r) : "v"(t));
  const f32v shifted = t + 0x1.8p18f;
  f32v p = power_of_fraction(shifted, r);
  asm("vscalefps %2, %1, %0" : "=v"(p) : "v"(p), "v"(shifted - 0x1.8p18f));
  return p;
#else
  // To nearest by adding 1.5 * 2^23. (2^r - 1) / r on [-0.5, 0.5], order 5.
  t = at_least(at_most(t, 129.0f), -152.0f);
  const f32v n = (t + 0x1.8p23f) - 0x1.8p23f;
  const f32v r = t - n;
  f32v p = 0x1.441412p-13f * r + 0x1.5f0956p-10f;
  p = p * r + 0x1.3b2a52p-7f;
  p = p * r + 0x1.c6af6cp-5f;
  p = p * r + 0x1.ebfbep-3f;
  p = p * r + 0x1.62e43p-1f;
  p = p * r + 1.0f;
  return times_power_of_two(p, n);
#endif
}

//% exp2_product
// 2^(x w) for x w in [-127.4, 128.4], where contraction leaves the product unrounded. Below 2^-126 it may be 0, from
// 2^127.5 on infinity: for what is added to 1, or is as good as 0 there. NaN stays.
CODETTA_FN f32v exp2_product(f32v x, f32v w) {
#if defined(__AVX512BW__) && CODETTA_LANES == 16
  const f32v shifted = x * w + 0x1.8p18f;
  const f32v n = shifted - 0x1.8p18f;
  f32v p = power_of_fraction(shifted, x * w - n);
  asm("vscalefps %2, %1, %0" : "=v"(p) : "v"(p), "v"(n));
  return p;
#else
  // The low bits of `shifted` are n + 127, an exponent field. (2^r - 1) / r on [-0.5, 0.5], order 4.
  const f32v shifted = x * w + 0x1.8000fep23f;
  const f32v n = shifted - 0x1.8000fep23f;
  const f32v r = x * w - n;
  f32v p = 0x1.5bba14p-10f * r + 0x1.3cea88p-7f;
  p = p * r + 0x1.c6b752p-5f;
  p = p * r + 0x1.ebf9bcp-3f;
  p = p * r + 0x1.62e42ap-1f;
  p = p * r + 1.0f;
  return p * (f32v)((u32v)shifted << 23);
#endif
}

//% ct_exp2
CODETTA_FN f32v ct_exp2(f32v x) { return exp2_of(x); }

//% exp_reduced
// n and r with x = n ln 2 + r, |r| <= ln 2 / 2 (ln 2 in two parts, the first of 9 bits, so n times it is exact), and
// e^r - 1 - r = r^2 q: (e^r - 1 - r) / r^2 on that interval, order 4.
struct ExpReduced {
  f32v n, r, r2q;
};
CODETTA_FN ExpReduced exp_reduced(f32v x) {
  const f32v n = (x * 0x1.715476p+0f + 0x1.8p23f) - 0x1.8p23f;
  f32v r = x - n * 0x1.63p-1f;
  r = r - n * -0x1.bd0106p-13f;
  f32v q = 0x1.6d117cp-10f * r + 0x1.120be2p-7f;
  q = q * r + 0x1.555518p-5f;
  q = q * r + 0x1.5554dcp-3f;
  q = q * r + 0.5f;
  return {n, r, r * r * q};
}

//% ct_exp
CODETTA_FN f32v ct_exp(f32v x) {
  const ExpReduced e = exp_reduced(at_least(at_most(x, 89.0f), -104.0f));
  return times_power_of_two(1.0f + (e.r + e.r2q), e.n);
}

//% ct_expm1
// 2^n (e^r - 1) + (2^n - 1), halved until the end so that 2^n does not overflow before the result does.
CODETTA_FN f32v ct_expm1(f32v x) {
  const ExpReduced e = exp_reduced(at_least(at_most(x, 89.0f), -18.0f));
  const f32v half = (f32v)((__builtin_convertvector(e.n, i32v) + 126) << 23);
  const f32v y = (half * (e.r + e.r2q) + (half - 0.5f)) * 2.0f;
  return magnitude(x) < splat<f32v>(0x1p-25f) ? x : y;
}

//% log_reduced
// x = 2^n (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1], for positive finite x; log(1 + f) = f + tail:
// (log(1 + f) - f + f^2 / 2) / f^3 on that interval, order 8.
struct LogReduced {
  f32v n, f, tail;
};
CODETTA_FN LogReduced log_reduced(f32v x) {
  const auto small = x < splat<f32v>(0x1p-126f);
  const u32v b = (u32v)(small ? x * 0x1p23f : x);
  const i32v k = (i32v)(b - 0x3f3504f3u) >> 23;
  const f32v n = __builtin_convertvector(k, f32v) - (small ? splat<f32v>(23.0f) : f32v{});
  const f32v f = (f32v)(b - ((u32v)k << 23)) - 1.0f;
  f32v p = 0x1.1d8ea6p-4f * f - 0x1.d635bcp-4f;
  p = p * f + 0x1.dea282p-4f;
  p = p * f - 0x1.fcf4c6p-4f;
  p = p * f + 0x1.23d21ap-3f;
  p = p * f - 0x1.555b4ap-3f;
  p = p * f + 0x1.999d5ap-3f;
  p = p * f - 0x1.fffffcp-3f;
  p = p * f + 0x1.555554p-2f;
  const f32v f2 = f * f;
  return {n, f, f2 * (f * p - 0.5f)};
}

//% log_special
// y, the logarithm of positive finite x, corrected for the rest: 0, inf, negative, NaN.
CODETTA_FN f32v log_special(f32v x, f32v y) {
  const f32v inf = splat<f32v>(__builtin_inff());
  y = x < inf ? y : x + x;
  y = x == f32v{} ? -inf : y;
  return x < f32v{} ? splat<f32v>(__builtin_nanf("")) : y;
}

//% ct_log
CODETTA_FN f32v ct_log(f32v x) {
  const LogReduced l = log_reduced(x);
  return log_special(x, l.n * 0x1.63p-1f + (l.f + (l.tail + l.n * -0x1.bd0106p-13f)));
}

//% ct_sqrt
CODETTA_FN f32v ct_sqrt(f32v x) {
#if defined(__AVX512VL__) || defined(__AVX__)
  asm("vsqrtps %1, %0" : "=v"(x) : "v"(x));
#elif defined(__SSE2__) && CODETTA_LANES == 4
  asm("sqrtps %1, %0" : "=x"(x) : "x"(x));
#elif defined(__aarch64__) && CODETTA_LANES == 4
  asm("fsqrt %0.4s, %1.4s" : "=w"(x) : "w"(x));
#else
  for (int i = 0; i < lanes; ++i) x[i] = __builtin_sqrtf(x[i]);
#endif
  return x;
}

//% ct_tanh
// -e / (2 + e) with e = expm1(-2 |x|).
CODETTA_FN f32v ct_tanh(f32v x) {
  const f32v e = ct_expm1(-2.0f * magnitude(x));
  return with_sign(e / (2.0f + e), x);
}

//% ct_erf
// Below 1: erf(x) / x in x^2 on [0, 1], order 6. Above: 1 - 2^p, p = log2(erfc) on [0.95, 4], order 8.
CODETTA_FN f32v ct_erf(f32v x) {
  const f32v a = at_most(magnitude(x), 4.0f);
  const f32v s = x * x;
  f32v p = 0x1.4a569p-14f * s - 0x1.a45088p-11f;
  p = p * s + 0x1.541272p-8f;
  p = p * s - 0x1.b7fabap-6f;
  p = p * s + 0x1.ce2d1p-4f;
  p = p * s - 0x1.81273ep-2f;
  p = p * s + 0x1.20dd74p+0f;
  f32v q = 0x1.3e14ap-19f * a - 0x1.17590ap-14f;
  q = q * a + 0x1.c41364p-11f;
  q = q * a - 0x1.c261ecp-8f;
  q = q * a + 0x1.38624p-5f;
  q = q * a - 0x1.454c34p-3f;
  q = q * a - 0x1.d2b13ep-1f;
  q = q * a - 0x1.a16ea2p+0f;
  q = q * a + 0x1.e6e94ep-12f;
  return a < splat<f32v>(1.0f) ? x * p : with_sign(1.0f - exp2_of(q), x);
}

//% exp_of_negative
// exp(-x), 0 or infinity where 1 + exp(-x) does not care.
CODETTA_FN f32v exp_of_negative(f32v x) {
  return exp2_product(at_least(at_most(x, 88.0f), -88.9f), splat<f32v>(-0x1.715476p+0f));
}

//% ct_sigmoid
CODETTA_FN f32v ct_sigmoid(f32v x) { return 1.0f / (1.0f + exp_of_negative(x)); }

//% ct_silu
CODETTA_FN f32v ct_silu(f32v x) { return x / (1.0f + exp_of_negative(x)); }

//% ct_gelu_tanh
// x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3); -2 u log2(e) = x (c0 + c1 x^2), bounded to [-127.2, 128.3].
CODETTA_FN f32v ct_gelu_tanh(f32v x) {
  const f32v c = at_least(at_most(x, 10.04f), -10.07f);
  return x / (1.0f + exp2_product(c, -0x1.26aec2p+1f + -0x1.a5a7dp-4f * (c * c)));
}

//% normal_tail
// Q(a) = erfc(a / sqrt 2) / 2 for a >= 0, and e = exp(-a^2 / 2). Q e^(a^2/2) (a + 3) in (a - 3) / (a + 3) on [0, 14],
// order 8.
struct NormalTail {
  f32v q, e;
};
CODETTA_FN NormalTail normal_tail(f32v a) {
  const f32v d = 1.0f / (a + 3.0f);
  const f32v u = 1.0f - 6.0f * d;
  f32v p = -0x1.33f752p-12f * u - 0x1.eb393p-11f;
  p = p * u + 0x1.1eb2aep-10f;
  p = p * u + 0x1.c78f6ep-8f;
  p = p * u - 0x1.5784e6p-7f;
  p = p * u - 0x1.832cd4p-5f;
  p = p * u + 0x1.d71486p-3f;
  p = p * u - 0x1.04c726p-1f;
  p = p * u + 0x1.754a74p-1f;
  const f32v e = exp2_of(a * a * -0x1.715476p-1f);
  return {e * (p * d), e};
}

//% ct_gelu_erf
// x (1 - Q(x)) above 0, x Q(-x) below: no cancellation on either side. log2 Q(a) on [0, 6], order 8, weighted by what
// it does to the result; it falls for all a >= 0, to -inf.
CODETTA_FN f32v ct_gelu_erf(f32v x) {
  const f32v a = magnitude(x);
  f32v t = -0x1.7d1556p-20f * a + 0x1.696a7p-16f;
  t = t * a - 0x1.9302a4p-14f;
  t = t * a - 0x1.85be9cp-12f;
  t = t * a + 0x1.e510fcp-8f;
  t = t * a - 0x1.b03daep-5f;
  t = t * a - 0x1.d61e32p-2f;
  t = t * a - 0x1.26b016p+0f;
  t = t * a - 0x1.ffffep-1f;
#if defined(__AVX512BW__) && CODETTA_LANES == 16
  const f32v q = exp2_of(t);
#else
  const f32v q = exp2_product(at_least(t, -127.4f), splat<f32v>(1.0f));
#endif
  return x * ((i32v)x < 0 ? q : 1.0f - q);
}

//% ct_dgelu_erf
// Phi(x) + x phi(x), phi(x) = exp(-x^2 / 2) / sqrt(2 pi).
CODETTA_FN f32v ct_dgelu_erf(f32v x) {
  const NormalTail t = normal_tail(magnitude(x));
  return (x > f32v{} ? 1.0f - t.q : t.q) + x * (t.e * 0x1.988454p-2f);
}

//% ct_dgelu_tanh
// s + x s (1 - s) 2 u', s = sigmoid(2 u) = 1 / (1 + e), s (1 - s) = e s^2; beyond |x| = 10 nothing is left of it.
CODETTA_FN f32v ct_dgelu_tanh(f32v x) {
  const f32v c = at_least(at_most(x, 10.0f), -10.0f);
  const f32v c2 = c * c;
  const f32v e = exp2_product(c, -0x1.26aec2p+1f + -0x1.a5a7dp-4f * c2);
  const f32v s = 1.0f / (1.0f + e);
  return s + c * (e * s * s) * (0x1.988454p+0f + 0x1.b6676cp-3f * c2) + (x - x);  // NaN at infinity
}

//% by_f64
// f of f64 vectors at the elements of x and y, rounded once: within 0.51 ulp where f is good to a few ulp of f64.
template <class F>
CODETTA_FN f32v by_f64(f32v x, f32v y, F f) {
  typedef f32 Part __attribute__((vector_size(wide_lanes * 4)));
  f32 in[2][lanes], out[lanes];
  __builtin_memcpy(in[0], &x, sizeof x);
  __builtin_memcpy(in[1], &y, sizeof y);
  for (int i = 0; i < lanes; i += wide_lanes) {
    Part a, b;
    __builtin_memcpy(&a, in[0] + i, sizeof a);
    __builtin_memcpy(&b, in[1] + i, sizeof b);
    a = __builtin_convertvector(f(__builtin_convertvector(a, f64h), __builtin_convertvector(b, f64h)), Part);
    __builtin_memcpy(out + i, &a, sizeof a);
  }
  __builtin_memcpy(&x, out, sizeof x);
  return x;
}

//% ct_log2 +f64:ct_log2
CODETTA_FN f32v ct_log2(f32v x) {
  return by_f64(x, x, [](f64h a, f64h) { return ct_log2(a); });
}

//% ct_log1p +f64:ct_log1p
CODETTA_FN f32v ct_log1p(f32v x) {
  return by_f64(x, x, [](f64h a, f64h) { return ct_log1p(a); });
}

//% ct_sin +f64:ct_sin
CODETTA_FN f32v ct_sin(f32v x) {
  return by_f64(x, x, [](f64h a, f64h) { return ct_sin(a); });
}

//% ct_cos +f64:ct_cos
CODETTA_FN f32v ct_cos(f32v x) {
  return by_f64(x, x, [](f64h a, f64h) { return ct_cos(a); });
}

//% ct_pow +f64:ct_pow
CODETTA_FN f32v ct_pow(f32v x, f32v y) {
  return by_f64(x, y, [](f64h a, f64h b) { return ct_pow(a, b); });
}

//% .
}  // namespace codetta::cpu
