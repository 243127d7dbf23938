// SPDX-License-Identifier: Apache-2.0
// Functions of f64 vectors. f64h is the f64 vector that fills a register: f64v itself in programs that compute in 64
// bits, half of an f32v's lanes elsewhere (math_f32.h evaluates sin, cos, pow and others in it). Accuracy: ulp.def.
// Coefficients are Chebyshev fits with 40 digits or more of the quotients named, rounded to f64.
#pragma once

#include "device/cpu/convert.h"
#include "device/cpu/math_basic.h"

namespace codetta::cpu {

//% f64h
#if defined(__AVX512BW__)
constexpr int wide_lanes = 8;
#elif defined(__AVX2__)
constexpr int wide_lanes = 4;
#else
constexpr int wide_lanes = 2;
#endif
typedef f64 f64h __attribute__((vector_size(wide_lanes * 8)));
typedef i64 i64h __attribute__((vector_size(wide_lanes * 8)));
typedef u64 u64h __attribute__((vector_size(wide_lanes * 8)));
CODETTA_FN f64h all(f64 x) { return x - f64h{}; }

//% magnitude
CODETTA_FN f64h magnitude(f64h x) { return (f64h)((u64h)x & ~(1ull << 63)); }

//% with_sign
CODETTA_FN f64h with_sign(f64h x, f64h s) { return (f64h)(((u64h)x & ~(1ull << 63)) | ((u64h)s & (1ull << 63))); }

//% at_most
CODETTA_FN f64h at_most(f64h x, f64 bound) {
  const f64h b = all(bound);
  return b < x ? b : x;
}

//% at_least
CODETTA_FN f64h at_least(f64h x, f64 bound) {
  const f64h b = all(bound);
  return b > x ? b : x;
}

//% product_error
// a * b - p, exactly, where p is a * b rounded.
CODETTA_FN f64h product_error(f64h a, f64h b, f64h p) {
#if defined(__FMA__)
  asm("vfmsub213pd %2, %1, %0" : "+v"(a) : "v"(b), "v"(p));
  return a;
#elif defined(__aarch64__)
  f64h r = -p;
  asm("fmla %0.2d, %1.2d, %2.2d" : "+w"(r) : "w"(a), "w"(b));
  return r;
#else  // Dekker's splitting; there is no instruction that could contract it
  const f64h ca = a * 0x1.0000002p27, cb = b * 0x1.0000002p27;
  const f64h ah = ca - (ca - a), bh = cb - (cb - b), al = a - ah, bl = b - bh;
  return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
}

//% exp_reduced
// n (as float and integer) and r with x = n ln 2 + r; e^r = 1 + r + r^2 q, (e^r - 1 - r) / r^2 of order 10.
struct ExpReducedF64 {
  f64h n;
  i64h k;
  f64h r, r2q;
};
CODETTA_FN ExpReducedF64 exp_reduced(f64h x, f64h low = f64h{}) {
  const f64h t = x * 0x1.71547652b82fep+0 + 0x1.8p52;
  const f64h n = t - 0x1.8p52;
  f64h r = x - n * 0x1.62e42fee00000p-1;
  r = (r - n * 0x1.a39ef35793c76p-33) + low;
  f64h q = 0x1.1f731ea5352cap-29 * r + 0x1.af4e196027428p-26;
  q = q * r + 0x1.27e4db57442fbp-22;
  q = q * r + 0x1.71de021a90822p-19;
  q = q * r + 0x1.a01a01a6dcaffp-16;
  q = q * r + 0x1.a01a01abef415p-13;
  q = q * r + 0x1.6c16c16c162ccp-10;
  q = q * r + 0x1.11111111100cep-7;
  q = q * r + 0x1.5555555555556p-5;
  q = q * r + 0x1.5555555555557p-3;
  q = q * r + 0x1p-1;
  return {n, (i64h)t - (i64h)all(0x1.8p52), r, r * r * q};
}

//% times_power_of_two
// p * 2^k; one rounding where the result is subnormal.
CODETTA_FN f64h times_power_of_two(f64h p, i64h k) {
  const i64h half = k >> 1;
  return p * (f64h)((half + 1023) << 52) * (f64h)((k - half + 1023) << 52);
}

//% ct_exp
CODETTA_FN f64h ct_exp(f64h x) {
  const ExpReducedF64 e = exp_reduced(at_least(at_most(x, 710.0), -746.0));
  return times_power_of_two(1.0 + (e.r + e.r2q), e.k);
}

//% ct_exp2
CODETTA_FN f64h ct_exp2(f64h x) {
  x = at_least(at_most(x, 1025.0), -1076.0);
  const f64h t = x + 0x1.8p52;
  const f64h r0 = x - (t - 0x1.8p52);
  const ExpReducedF64 e = exp_reduced(r0 * 0x1.62e42fefa39efp-1);
  return times_power_of_two(1.0 + (e.r + e.r2q), e.k + ((i64h)t - (i64h)all(0x1.8p52)));
}

//% ct_expm1
CODETTA_FN f64h ct_expm1(f64h x) {
  const ExpReducedF64 e = exp_reduced(at_least(at_most(x, 710.0), -40.0));
  const f64h half = (f64h)((e.k + 1022) << 52);
  const f64h y = (half * (e.r + e.r2q) + (half - 0.5)) * 2.0;
  return magnitude(x) < all(0x1p-54) ? x : y;
}

//% log_reduced
// x = 2^n (1 + f) for positive finite x, f in [sqrt(1/2) - 1, sqrt(2) - 1]; log(1 + f) = 2 s + s z p, s = f / (2 + f),
// z = s^2: (2 atanh(s) / s - 2) / z of order 8. tail = log(1 + f) - f, without the cancellation of computing it so.
struct LogReducedF64 {
  f64h n, f, s, szp, tail;
};
CODETTA_FN LogReducedF64 log_reduced(f64h x) {
  const i64h small = x < all(0x1p-1022);
  const u64h b = (u64h)(small ? x * 0x1p54 : x);
  const i64h biased = (i64h)((b - 0x3fe6a09e667f3bcdull) + (1023ull << 52)) >> 52 & 2047;
  const i64h k = biased - 1023;
  const f64h n = ((f64h)(k + (i64h)all(0x1.8p52)) - 0x1.8p52) - (small ? all(54.0) : f64h{});
  const f64h f = (f64h)(b - ((u64h)k << 52)) - 1.0;
  const f64h s = f / (2.0 + f);
  const f64h z = s * s;
  f64h p = 0x1.e6ce4e57aaee2p-4 * z + 0x1.debb7c9d90ac1p-4;
  p = p * z + 0x1.111d3a850cbadp-3;
  p = p * z + 0x1.3b137ac246adep-3;
  p = p * z + 0x1.745d17d4c7b78p-3;
  p = p * z + 0x1.c71c71c649fd9p-3;
  p = p * z + 0x1.249249249296bp-2;
  p = p * z + 0x1.9999999999998p-2;
  p = p * z + 0x1.5555555555555p-1;
  const f64h zp = z * p;
  const f64h hf2 = 0.5 * f * f;
  return {n, f, s, s * zp, s * (hf2 + zp) - hf2};
}

//% log_special
CODETTA_FN f64h log_special(f64h x, f64h y) {
  const f64h inf = all(__builtin_inf());
  y = x < inf ? y : x + x;
  y = x == f64h{} ? -inf : y;
  return x < f64h{} ? all(__builtin_nan("")) : y;
}

//% ct_log
CODETTA_FN f64h ct_log(f64h x) {
  const LogReducedF64 l = log_reduced(x);
  return log_special(x, l.n * 0x1.62e42fee00000p-1 + (l.f + (l.tail + l.n * 0x1.a39ef35793c76p-33)));
}

//% ct_log2
CODETTA_FN f64h ct_log2(f64h x) {
  const LogReducedF64 l = log_reduced(x);
  // f as hi + lo so that hi times the rounded-down log2(e) is exact.
  const f64h hi = (f64h)((u64h)l.f & ~0xffffffffull), lo = (l.f - hi) + l.tail;
  return log_special(x, l.n + (hi * 0x1.715476p+0 + (lo * 0x1.71547652b82fep+0 + hi * 0x1.4ae0bf85ddf44p-26)));
}

//% ct_log1p
// log(u) with u = 1 + x rounded, corrected for the rounding (Kahan).
CODETTA_FN f64h ct_log1p(f64h x) {
  const f64h u = 1.0 + x;
  const f64h y = ct_log(u) - ((u - 1.0) - x) / u;
  const i64h edge = (u == f64h{}) | (u == all(__builtin_inf()));
  return x == f64h{} ? x : (edge ? ct_log(u) : y);
}

//% ct_sqrt
CODETTA_FN f64h ct_sqrt(f64h x) {
#if defined(__AVX__)
  asm("vsqrtpd %1, %0" : "=v"(x) : "v"(x));
#elif defined(__SSE2__)
  asm("sqrtpd %1, %0" : "=x"(x) : "x"(x));
#elif defined(__aarch64__)
  asm("fsqrt %0.2d, %1.2d" : "=w"(x) : "w"(x));
#else
  for (int i = 0; i < wide_lanes; ++i) x[i] = __builtin_sqrt(x[i]);
#endif
  return x;
}

//% ct_tanh
CODETTA_FN f64h ct_tanh(f64h x) {
  const f64h e = ct_expm1(-2.0 * magnitude(x));
  return with_sign(e / (2.0 + e), x);
}

//% erfc_tail
// erfc(a) and exp(-a^2) for a >= 0. The square is split so that its rounding does not reach the exponential;
// erfc(a) e^(a^2) (a + 4) in u = (a - 4) / (a + 4) on [0, 27.5], order 23.
struct ErfcTail {
  f64h erfc, e;
};
CODETTA_FN ErfcTail erfc_tail(f64h a) {
  a = at_most(a, 28.0);
  const f64h hi = (f64h)((u64h)a & ~0x7ffffffull);
  const f64h lo = (a - hi) * (a + hi);
  const f64h e0 = ct_exp(-(hi * hi));
  const f64h e = e0 - e0 * (lo * (1.0 - lo * (0.5 - lo * 0x1.5555555555555p-3)));
  const f64h d = 1.0 / (a + 4.0);
  const f64h u = (a - 4.0) * d;
  f64h p = 0x1.0bf28d85c5629p-31 * u + 0x1.3af4a5d218c11p-29;
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

//% ct_erf
// Below 1: erf(x) / x in x^2 on [0, 1], order 12.
CODETTA_FN f64h ct_erf(f64h x) {
  const f64h s = x * x;
  f64h p = 0x1.05ffd737fb32ep-34 * s - 0x1.389d4f2641625p-30;
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
  const f64h a = magnitude(x);
  return a < all(1.0) ? x * p : with_sign(1.0 - erfc_tail(a).erfc, x);
}

//% ct_sigmoid
// By exp(-|x|), so that nothing overflows where the result is small.
CODETTA_FN f64h ct_sigmoid(f64h x) {
  const f64h e = ct_exp(-magnitude(x));
  return (x < f64h{} ? e : all(1.0)) / (1.0 + e);
}

//% ct_silu
CODETTA_FN f64h ct_silu(f64h x) {
  const f64h e = ct_exp(-magnitude(x));
  return (x < f64h{} ? x * e : x) / (1.0 + e);
}

//% ct_gelu_tanh
CODETTA_FN f64h ct_gelu_tanh(f64h x) {
  const f64h u = 0x1.9884533d43651p-1 * (x + 0.044715 * (x * x * x));
  return x / (1.0 + ct_exp(-2.0 * u));
}

//% ct_gelu_erf
CODETTA_FN f64h ct_gelu_erf(f64h x) {
  const f64h q = 0.5 * erfc_tail(magnitude(x) * 0x1.6a09e667f3bcdp-1).erfc;
  return x * (x > f64h{} ? 1.0 - q : q);
}

//% ct_dgelu_erf
CODETTA_FN f64h ct_dgelu_erf(f64h x) {
  const ErfcTail t = erfc_tail(magnitude(x) * 0x1.6a09e667f3bcdp-1);
  const f64h q = 0.5 * t.erfc;
  return (x > f64h{} ? 1.0 - q : q) + x * (t.e * 0x1.9884533d43651p-2);
}

//% ct_dgelu_tanh
CODETTA_FN f64h ct_dgelu_tanh(f64h x) {
  const f64h c = at_least(at_most(x, 40.0), -40.0);
  const f64h c2 = c * c;
  const f64h e = ct_exp(-2.0 * 0x1.9884533d43651p-1 * c * (1.0 + 0.044715 * c2));
  const f64h s = 1.0 / (1.0 + e);
  const f64h rest = e > all(0x1p500) ? f64h{} : e * s * s;
  return s + c * rest * (2.0 * 0x1.9884533d43651p-1 * (1.0 + 3 * 0.044715 * c2)) + (x - x);  // NaN at infinity
}

//% trig_reduced
// Quadrant n and remainder r of x in multiples of pi / 2. Three parts of pi / 2 (33, 33 and 53 bits) while n is exact
// in 20 bits; beyond, Payne and Hanek's method with the bits of 2 / pi that matter.
__attribute__((noinline, unused)) static f64 reduce_huge(f64 x, i64* quadrant) {
  // 64 zero bits, then 2 / pi.
  static const u64 table[21] = {0ull,
                                0xa2f9836e4e441529ull,
                                0xfc2757d1f534ddc0ull,
                                0xdb6295993c439041ull,
                                0xfe5163abdebbc561ull,
                                0xb7246e3a424dd2e0ull,
                                0x06492eea09d1921cull,
                                0xfe1deb1cb129a73eull,
                                0xe88235f52ebb4484ull,
                                0xe99c7026b45f7e41ull,
                                0x3991d639835339f4ull,
                                0x9c845f8bbdf9283bull,
                                0x1ff897ffde05980full,
                                0xef2f118b5a0a6d1full,
                                0x6d367ecf27cb09b7ull,
                                0x4f463f669e5fea2dull,
                                0x7527bac7ebe5f17bull,
                                0x3d0739f78a5292eaull,
                                0x6bfb5fb11f8d5d08ull,
                                0x56033046fc7b6babull,
                                0xf0cfbc209af4361dull};
  u64 b;
  __builtin_memcpy(&b, &x, sizeof b);
  const int e = (int)(b >> 52 & 2047) - 1075;
  const u64 m = (b & ((1ull << 52) - 1)) | (1ull << 52);
  const int first = e - 2 + 64;  // bit number in the table: those before it only add multiples of 4
  const int word = first >> 6, shift = first & 63;
  u64 w[3];
  for (int i = 0; i < 3; ++i) {
    w[i] = shift == 0 ? table[word + i] : (table[word + i] << shift) | (table[word + i + 1] >> (64 - shift));
  }
  unsigned __int128 p = (unsigned __int128)m * w[2];
  p = (p >> 64) + (unsigned __int128)m * w[1];
  const u64 low = (u64)p;
  p = (p >> 64) + (unsigned __int128)m * w[0];
  const u64 high = (u64)p;  // two bits of quadrant, then the fraction
  i64 n = (i64)(high >> 62);
  u64 f1 = (high << 2) | (low >> 62), f0 = low << 2;
  f64 sign = 1;
  if (f1 >> 63) {  // at least one half: the next quadrant, from above
    n += 1;
    f0 = ~f0;
    f1 = ~f1;
    sign = -1;
  }
  const f64 r = sign * ((f64)f1 * 0x1p-64 + (f64)f0 * 0x1p-128) * 0x1.921fb54442d18p+0;
  const bool negative = (b >> 63) != 0;
  *quadrant = negative ? -n : n;
  return negative ? -r : r;
}
struct TrigReduced {
  f64h r;
  i64h n;
};
CODETTA_FN TrigReduced trig_reduced(f64h x) {
  const f64h t = x * 0x1.45f306dc9c883p-1 + 0x1.8p52;
  const f64h n = t - 0x1.8p52;
  TrigReduced out = {((x - n * 0x1.921fb54400000p+0) - n * 0x1.0b4611a600000p-34) - n * 0x1.3198a2e037073p-69,
                     (i64h)t - (i64h)all(0x1.8p52)};
  for (int i = 0; i < wide_lanes; ++i) {
    const f64 a = x[i] < 0 ? -x[i] : x[i];
    if (__builtin_expect(a >= 0x1p20 && a < __builtin_inf(), 0)) {
      i64 quadrant;
      out.r[i] = reduce_huge(x[i], &quadrant);
      out.n[i] = quadrant;
    }
  }
  return out;
}

//% trig_value
// sin of the remainder turned by n quadrants: sin(r) / r - 1 and cos(r) - 1 + r^2 / 2 as polynomials in r^2.
CODETTA_FN f64h trig_value(f64h r, i64h n) {
  const f64h z = r * r;
  f64h s = -0x1.ab16f5bc68a29p-41 * z + 0x1.61217d923a998p-33;
  s = s * z - 0x1.ae645410e9193p-26;
  s = s * z + 0x1.71de3a545f835p-19;
  s = s * z - 0x1.a01a01a01992fp-13;
  s = s * z + 0x1.1111111111110p-7;
  s = s * z - 0x1.5555555555555p-3;
  f64h c = 0x1.ab77954421f46p-45 * z - 0x1.9394b8bd3b322p-37;
  c = c * z + 0x1.1eed8deac3d25p-29;
  c = c * z - 0x1.27e4fb77125c5p-22;
  c = c * z + 0x1.a01a01a019d06p-16;
  c = c * z - 0x1.6c16c16c16c16p-10;
  c = c * z + 0x1.5555555555555p-5;
  const f64h sine = r + r * (z * s);
  const f64h cosine = 1.0 - (0.5 * z - z * z * c);
  const f64h y = (n & 1) != i64h{} ? cosine : sine;
  return (f64h)((u64h)y ^ (u64h)((n & 2) << 62));
}

//% ct_sin
CODETTA_FN f64h ct_sin(f64h x) {
  const TrigReduced t = trig_reduced(x);
  return x == f64h{} ? x : trig_value(magnitude(x) < all(__builtin_inf()) ? t.r : x - x, t.n);
}

//% ct_cos
CODETTA_FN f64h ct_cos(f64h x) {
  const TrigReduced t = trig_reduced(x);
  return trig_value(magnitude(x) < all(__builtin_inf()) ? t.r : x - x, t.n + 1);
}

//% ct_pow
// exp(y log|x|) with the logarithm and the product in two doubles; the cases of IEEE 754 pow afterwards.
CODETTA_FN f64h ct_pow(f64h x, f64h y) {
  const f64h inf = all(__builtin_inf()), one = all(1.0);
  const f64h ax = magnitude(x);
  const LogReducedF64 l = log_reduced(ax);
  // s as two doubles: what f / (2 + f) lost.
  const f64h den = 2.0 + l.f, den_low = l.f - (den - 2.0);
  const f64h back = l.s * den;
  const f64h s_low = (((l.f - back) - product_error(l.s, den, back)) - l.s * den_low) / den;
  const f64h big = l.n * 0x1.62e42fee00000p-1, part = 2.0 * l.s;
  const f64h sum = big + part, apart = sum - big;
  f64h low = (big - (sum - apart)) + (part - apart);
  low = low + ((l.szp + 2.0 * s_low) + l.n * 0x1.a39ef35793c76p-33);
  const f64h hi = sum + low;
  low = low - (hi - sum);
  f64h p = y * hi;
  f64h rest = product_error(y, hi, p) + y * low;
  rest = magnitude(p) < all(2000.0) ? rest : f64h{};
  p = at_least(at_most(p, 800.0), -800.0);
  const ExpReducedF64 e = exp_reduced(p, rest);
  f64h r = times_power_of_two(1.0 + (e.r + e.r2q), e.k);
  // Zero and infinite bases.
  const i64h up = y > f64h{};
  r = ax == f64h{} ? (up ? f64h{} : inf) : r;
  r = ax == inf ? (up ? inf : f64h{}) : r;
  r = ax == one ? one : r;
  // Negative bases: the parity of y.
  const f64h ay = magnitude(y);
  const i64h whole = (((ay + 0x1p52) - 0x1p52) == ay) | (ay >= all(0x1p52));
  const f64h hy = 0.5 * ay;
  const i64h even = (((hy + 0x1p52) - 0x1p52) == hy) | (ay >= all(0x1p53));
  const i64h odd = whole & ~even;
  const i64h invalid = (x < f64h{}) & (ax < inf) & ~whole;
  r = invalid ? all(__builtin_nan("")) : r;
  r = (f64h)((u64h)r ^ ((u64h)odd & (u64h)x & (1ull << 63)));
  const i64h nan = (x != x) | (y != y), unit = (y == f64h{}) | (x == one);
  r = nan ? x + y : r;
  return unit ? one : r;
}

//% .
}  // namespace codetta::cpu
