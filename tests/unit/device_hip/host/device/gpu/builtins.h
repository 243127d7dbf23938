// SPDX-License-Identifier: Apache-2.0
// In the place of device/gpu/builtins.h: the machine's numbers on the host, for the functions of HIP kernels.
#pragma once

#include <cmath>
#include <cstring>

#include "device/gpu/abi.h"

#define CODETTA_FN static inline
#define CODETTA_MEMBER inline
#define __device__
#define CODETTA_OWN_MATH 1

namespace codetta::gpu {

CODETTA_FN float bits_to_float(u32 x) { return __builtin_bit_cast(float, x); }
CODETTA_FN u32 float_to_bits(float x) { return __builtin_bit_cast(u32, x); }
CODETTA_FN double bits_to_double(u64 x) { return __builtin_bit_cast(double, x); }
CODETTA_FN u64 double_to_bits(double x) { return __builtin_bit_cast(u64, x); }
CODETTA_FN float __int_as_float(int x) { return bits_to_float((u32)x); }
CODETTA_FN u32 __funnelshift_l(u32 low, u32 high, u32 by) {
  return (u32)((((u64)high << 32) | low) << (by & 31) >> 32);
}
CODETTA_FN u64 __umul64hi(u64 x, u64 y) { return (u64)(((unsigned __int128)x * y) >> 64); }
CODETTA_FN i64 __double2ll_rn(double x) { return std::fabs(x) < 0x1p62 ? (i64)std::rint(x) : 0; }
CODETTA_FN float fma(float x, float y, float z) { return std::fma(x, y, z); }
CODETTA_FN double fma(double x, double y, double z) { return std::fma(x, y, z); }

// The machine's approximations are off by one unit in the last place; these are, too, now one way and now the other.
CODETTA_FN float nudged(float y) {
  const u32 b = float_to_bits(y);
  if ((b & 0x7fffffffu) < 0x00800001u || (b & 0x7fffffffu) > 0x7f7ffffeu) return (b & 0x7f800000u) == 0 ? 0.0f : y;
  return bits_to_float((b >> 3 & 1) != 0 ? b + 1 : b - 1);
}
CODETTA_FN float ex2_approx(float x) { return nudged((float)std::exp2((double)x)); }
CODETTA_FN float rcp_approx(float x) { return nudged((float)(1.0 / (double)x)); }
CODETTA_FN float max_nan(float x, float y) { return std::isunordered(x, y) ? x + y : std::fmax(x, y) + 0.0f; }
CODETTA_FN float min_nan(float x, float y) { return std::isunordered(x, y) ? x + y : std::fmin(x, y); }
CODETTA_FN float clamped(float x, float low, float high) { return x > high ? high : x > low ? x : low; }
CODETTA_FN float ldexp(float x, i32 n) { return std::ldexp(x, n); }
CODETTA_FN double ldexp(double x, i32 n) { return std::ldexp(x, n); }

CODETTA_FN float rounded_sqrt(float x) { return std::sqrt(x); }
CODETTA_FN double rounded_sqrt(double x) { return std::sqrt(x); }
CODETTA_FN float down(float x) { return std::floor(x); }
CODETTA_FN double down(double x) { return std::floor(x); }
CODETTA_FN float up(float x) { return std::ceil(x); }
CODETTA_FN double up(double x) { return std::ceil(x); }
CODETTA_FN float towards_zero(float x) { return std::trunc(x); }
CODETTA_FN double towards_zero(double x) { return std::trunc(x); }
CODETTA_FN float to_even(float x) { return std::nearbyint(x); }
CODETTA_FN double to_even(double x) { return std::nearbyint(x); }

struct uint2 {
  u32 x, y;
};
struct uint4 {
  u32 x, y, z, w;
};
template <class T>
CODETTA_FN T load_global(const T* p) {
  return *p;
}
template <class T>
CODETTA_FN T __ldg(const T* p) {
  return *p;
}
CODETTA_FN void store_two(void* p, u32 a, u32 b) {
  const u32 v[2] = {a, b};
  memcpy(p, v, sizeof v);
}
CODETTA_FN void store_four(void* p, u32 a, u32 b, u32 c, u32 d) {
  const u32 v[4] = {a, b, c, d};
  memcpy(p, v, sizeof v);
}

}  // namespace codetta::gpu
