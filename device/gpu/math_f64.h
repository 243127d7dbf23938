// SPDX-License-Identifier: Apache-2.0
// Functions of f64: the CUDA library's, and activations made of them so that nothing overflows or cancels on the way.
#pragma once

#include "device/gpu/math_basic.h"
#ifdef CODETTA_OWN_MATH  // there is no library
#include "device/hip/math_f64.h"
#endif

namespace codetta::gpu {
namespace one {

#ifndef CODETTA_OWN_MATH
CODETTA_FN f64 exp(f64 x) { return ::exp(x); }
CODETTA_FN f64 exp2(f64 x) { return ::exp2(x); }
CODETTA_FN f64 expm1(f64 x) { return ::expm1(x); }
CODETTA_FN f64 log(f64 x) { return ::log(x); }
CODETTA_FN f64 log2(f64 x) { return ::log2(x); }
CODETTA_FN f64 log1p(f64 x) { return ::log1p(x); }
CODETTA_FN f64 sqrt(f64 x) { return ::sqrt(x); }
CODETTA_FN f64 rsqrt(f64 x) { return ::rsqrt(x); }
CODETTA_FN f64 tanh(f64 x) { return ::tanh(x); }
CODETTA_FN f64 erf(f64 x) { return ::erf(x); }
CODETTA_FN f64 pow(f64 x, f64 y) { return ::pow(x, y); }
CODETTA_FN f64 floor(f64 x) { return ::floor(x); }
CODETTA_FN f64 ceil(f64 x) { return ::ceil(x); }
CODETTA_FN f64 trunc(f64 x) { return ::trunc(x); }
CODETTA_FN f64 round(f64 x) { return ::rint(x); }
CODETTA_FN f64 remainder_of(f64 x, f64 y) { return ::fmod(x, y); }
CODETTA_FN f64 normcdf(f64 x) { return ::normcdf(x); }
CODETTA_FN f64 fma(f64 x, f64 y, f64 z) { return ::fma(x, y, z); }
#endif
CODETTA_FN f64 divided(f64 x, f64 y) { return x / y; }
CODETTA_FN f64 sixth(f64 x) { return x / 6.0; }

CODETTA_FN f64 sigmoid(f64 x) {
  const f64 e = exp(-abs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}
CODETTA_FN f64 silu(f64 x) {
  const f64 e = exp(-abs(x));
  return (x < 0 ? x * e : x) / (1.0 + e);
}
CODETTA_FN f64 gelu_tanh(f64 x) {
  const f64 u = 0x1.9884533d43651p-1 * (x + 0.044715 * (x * x * x));
  return x / (1.0 + exp(-2.0 * u));
}
CODETTA_FN f64 gelu_erf(f64 x) { return x * normcdf(x); }
CODETTA_FN f64 dgelu_erf(f64 x) { return normcdf(x) + x * (exp(-0.5 * x * x) * 0x1.9884533d43651p-2); }
CODETTA_FN f64 dgelu_tanh(f64 x) {
  const f64 c = minimum(maximum(x, -40.0), 40.0);
  const f64 c2 = c * c;
  const f64 e = exp(-2.0 * 0x1.9884533d43651p-1 * c * (1.0 + 0.044715 * c2));
  const f64 s = 1.0 / (1.0 + e);
  const f64 rest = e > 0x1p500 ? 0.0 : e * s * s;
  return s + c * rest * (2.0 * 0x1.9884533d43651p-1 * (1.0 + 3 * 0.044715 * c2)) + (x - x);  // NaN at infinity
}

// 2 / pi behind 64 zero bits, for Payne and Hanek's reduction of arguments from 2^20 on.
static __device__ const u64 two_over_pi_f64[21] = {0ull,
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
struct TurnedF64 {
  f64 r;
  i64 n;
};
CODETTA_FN TurnedF64 turned(f64 x) {
  const f64 n = round(x * 0x1.45f306dc9c883p-1);
  TurnedF64 t{fma(n, -0x1.3198a2e037073p-69, fma(n, -0x1.0b4611a600000p-34, fma(n, -0x1.921fb54400000p+0, x))),
              __double2ll_rn(n)};
  const u64 b = double_to_bits(abs(x));
  if (b >= 0x4130000000000000ull && b < 0x7ff0000000000000ull) {
    const int first = (int)(b >> 52) - 1075 - 2 + 64;  // bit of the table: those before it only add multiples of 4
    const int word = first >> 6, shift = first & 63;
    const u64 m = (b & ((1ull << 52) - 1)) | (1ull << 52);
    u64 w[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const u64 above = two_over_pi_f64[word + i];
      w[i] = shift == 0 ? above : (above << shift) | (two_over_pi_f64[word + i + 1] >> (64 - shift));
    }
    const u64 carried = __umul64hi(m, w[2]);
    const u64 low = m * w[1] + carried;
    const u64 high = m * w[0] + __umul64hi(m, w[1]) + (low < carried ? 1 : 0);  // two bits of quadrant, then the rest
    i64 quadrant = (i64)(high >> 62);
    u64 f1 = (high << 2) | (low >> 62), f0 = low << 2;
    f64 sign = 1;
    if (f1 >> 63) {  // at least one half: the next quadrant, from above
      quadrant += 1;
      f0 = ~f0;
      f1 = ~f1;
      sign = -1;
    }
    const f64 r = sign * ((f64)f1 * 0x1p-64 + (f64)f0 * 0x1p-128) * 0x1.921fb54442d18p+0;
    t.r = x < 0 ? -r : r;
    t.n = x < 0 ? -quadrant : quadrant;
  }
  return t;
}
CODETTA_FN f64 wave(f64 r, i64 n) {
  const f64 z = r * r;
  f64 s = -0x1.ab16f5bc68a29p-41 * z + 0x1.61217d923a998p-33;
  s = s * z - 0x1.ae645410e9193p-26;
  s = s * z + 0x1.71de3a545f835p-19;
  s = s * z - 0x1.a01a01a01992fp-13;
  s = s * z + 0x1.1111111111110p-7;
  s = s * z - 0x1.5555555555555p-3;
  f64 c = 0x1.ab77954421f46p-45 * z - 0x1.9394b8bd3b322p-37;
  c = c * z + 0x1.1eed8deac3d25p-29;
  c = c * z - 0x1.27e4fb77125c5p-22;
  c = c * z + 0x1.a01a01a019d06p-16;
  c = c * z - 0x1.6c16c16c16c16p-10;
  c = c * z + 0x1.5555555555555p-5;
  const f64 y = (n & 1) != 0 ? 1.0 - (0.5 * z - z * z * c) : r + r * (z * s);
  return (n & 2) != 0 ? -y : y;
}
CODETTA_FN f64 sin(f64 x) {
  const TurnedF64 t = turned(x);
  return x == 0 ? x : wave(double_to_bits(abs(x)) < 0x7ff0000000000000ull ? t.r : x - x, t.n);
}
CODETTA_FN f64 cos(f64 x) {
  const TurnedF64 t = turned(x);
  return wave(double_to_bits(abs(x)) < 0x7ff0000000000000ull ? t.r : x - x, t.n + 1);
}

}  // namespace one
}  // namespace codetta::gpu
