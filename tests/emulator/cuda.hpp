// SPDX-License-Identifier: Apache-2.0
// What NVRTC knows without any include, and what Clang's HIP or device/hip/builtins.h do, for a C++ compiler of the
// host: included before the source of a kernel.
#pragma once

#include "emulator/kernel.hpp"

#ifndef __HIP_PLATFORM_AMD__
#define __CUDA_ARCH__ CODETTA_EMULATED_ARCH
#endif
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ thread_local
#define __align__(bytes) __attribute__((aligned(bytes)))
// Where the standard allows no attribute, between the words of a declaration, NVRTC does.
#define alignas(bytes) __attribute__((aligned(bytes)))

#define threadIdx (::codetta::emulator::machine->current->thread)
#define blockIdx (::codetta::emulator::machine->current->block)
#define blockDim (::codetta::emulator::machine->current->block_size)
#define gridDim (::codetta::emulator::machine->current->grid_size)

#define __syncthreads() ::codetta::emulator::machine->barrier(0, 0, CODETTA_SITE)
#define __syncthreads_or(x) ::codetta::emulator::any_of_block(x, CODETTA_SITE)
#define __syncwarp(mask) ((void)::codetta::emulator::taken(mask, 0u, (unsigned)threadIdx.x % 32, 1, CODETTA_SITE))
#define __shfl_sync(mask, value, from) ::codetta::emulator::taken(mask, value, (from) % 32u, 2, CODETTA_SITE)
#define __shfl_xor_sync(mask, value, distance) \
  ::codetta::emulator::taken(mask, value, (::codetta::emulator::machine->current->lane ^ (distance)), 3, CODETTA_SITE)
#define __threadfence() ((void)0)
#define __ldg(p) ::codetta::emulator::load_constant(p, CODETTA_SITE)
#define __ldcg(p) ::codetta::emulator::load_through(p, CODETTA_SITE)

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace codetta::emulator {

template <class T>
inline T load_through(const T* p, Site site) {
  return load<T>(p, site);
}
template <class T>
inline T load_constant(const T* p, Site site) {
  const T value = load<T>(p, site);
  machine->read_constant(p, sizeof(T), site);
  return value;
}

// Threads of a block run on one of the host's.
inline int any_of_block(int x, Site site) {
  static thread_local int any;
  machine->barrier(0, 0, site);
  if (machine->current->lane == 0 && threadIdx.x == 0) any = 0;
  machine->barrier(0, 0, site);
  if (x != 0) any = 1;
  machine->barrier(0, 0, site);
  return any;
}

// Numbers to integers: NaN is 0, and what is beyond the integer's range its nearest end.
template <class I, class F>
inline I to_integer(F x) {
  constexpr bool is_signed = (I)-1 < (I)0;
  constexpr int bits = (int)sizeof(I) * 8 - (is_signed ? 1 : 0);
  F end = 1;
  for (int i = 0; i < bits; ++i) end *= 2;
  constexpr I highest = (I)(~(Bits)0 >> (64 - bits));
  if (x != x) return 0;
  if (x >= end) return highest;
  if (is_signed ? x < -end : x <= (F)-1) return is_signed ? (I)(~highest) : (I)0;
  return is_signed || x >= 0 ? (I)x : (I)0;
}

}  // namespace codetta::emulator

extern "C" {
float expf(float) noexcept;
float exp2f(float) noexcept;
float expm1f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float log1pf(float) noexcept;
float sqrtf(float) noexcept;
float tanhf(float) noexcept;
float erff(float) noexcept;
float powf(float, float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float truncf(float) noexcept;
float rintf(float) noexcept;
float fmodf(float, float) noexcept;
float fmaf(float, float, float) noexcept;
float fminf(float, float) noexcept;
float fmaxf(float, float) noexcept;
double exp(double) noexcept;
double exp2(double) noexcept;
double expm1(double) noexcept;
double log(double) noexcept;
double log2(double) noexcept;
double log1p(double) noexcept;
double sqrt(double) noexcept;
double tanh(double) noexcept;
double erf(double) noexcept;
double erfc(double) noexcept;
double pow(double, double) noexcept;
double floor(double) noexcept;
double ceil(double) noexcept;
double trunc(double) noexcept;
double rint(double) noexcept;
double fmod(double, double) noexcept;
double fma(double, double, double) noexcept;
}
inline float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
inline double rsqrt(double x) { return (double)(1.0L / __builtin_sqrtl((long double)x)); }
// CUDA states 5 ulp (of f64, in the tail, too, where the rounded argument of erfc alone costs more).
inline double normcdf(double x) {
  return static_cast<double>(0.5L *
                             __builtin_erfcl(static_cast<long double>(x) * -0.707106781186547524400844362104849039L));
}
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }

inline int __float2int_rn(float x) { return codetta::emulator::to_integer<int>(__builtin_rintf(x)); }
inline unsigned __float2uint_rn(float x) { return codetta::emulator::to_integer<unsigned>(__builtin_rintf(x)); }
inline long long __float2ll_rn(float x) { return codetta::emulator::to_integer<long long>(__builtin_rintf(x)); }
inline unsigned long long __float2ull_rn(float x) {
  return codetta::emulator::to_integer<unsigned long long>(__builtin_rintf(x));
}
inline int __double2int_rn(double x) { return codetta::emulator::to_integer<int>(__builtin_rint(x)); }
inline unsigned __double2uint_rn(double x) { return codetta::emulator::to_integer<unsigned>(__builtin_rint(x)); }
inline long long __double2ll_rn(double x) { return codetta::emulator::to_integer<long long>(__builtin_rint(x)); }
inline unsigned long long __double2ull_rn(double x) {
  return codetta::emulator::to_integer<unsigned long long>(__builtin_rint(x));
}
inline int __float2int_rz(float x) { return codetta::emulator::to_integer<int>(x); }
inline unsigned __float2uint_rz(float x) { return codetta::emulator::to_integer<unsigned>(x); }
inline long long __float2ll_rz(float x) { return codetta::emulator::to_integer<long long>(x); }
inline unsigned long long __float2ull_rz(float x) { return codetta::emulator::to_integer<unsigned long long>(x); }
inline int __double2int_rz(double x) { return codetta::emulator::to_integer<int>(x); }
inline unsigned __double2uint_rz(double x) { return codetta::emulator::to_integer<unsigned>(x); }
inline long long __double2ll_rz(double x) { return codetta::emulator::to_integer<long long>(x); }
inline unsigned long long __double2ull_rz(double x) { return codetta::emulator::to_integer<unsigned long long>(x); }

// Towards zero.
inline float __double2float_rz(double x) {
  const float y = (float)x;
  const bool beyond = x >= 0 ? (double)y > x : (double)y < x;
  return beyond ? __int_as_float(__float_as_int(y) - 1) : y;
}

// The upper half of high:low shifted to the left; the lower half shifted to the right.
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)(((unsigned __int128)x * y) >> 64);
}
// Bytes 0 to 3 are those of x, 4 to 7 those of y.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned choice) {
  const unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned byte = (unsigned)(both >> (8 * (choice >> (4 * i) & 7))) & 0xff;
    if ((choice >> (4 * i) & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

inline unsigned atomicAdd(unsigned* p, unsigned value) {
  codetta::emulator::machine->update(p, CODETTA_SITE);
  const unsigned before = *p;
  *p = before + value;
  return before;
}
