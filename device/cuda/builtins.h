// SPDX-License-Identifier: Apache-2.0
// The machine instructions that the epilogue's headers use, by name. A test that runs a group of threads on the host
// puts its own file in the place of this one.
#pragma once

#include "device/gpu/abi.h"

#define CODETTA_FN static __device__ __forceinline__
#define CODETTA_MEMBER __device__ __forceinline__

// The printer spells these literals as GCC and Clang do; NVRTC does not know them.
#ifdef __CUDACC_RTC__
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)
#endif

namespace codetta::gpu {

template <class T>
CODETTA_FN void store_global(T* p, T value) {
  *p = value;
}
// Global memory that this thread may write later. Compilers take neither the stores below nor those of another type for
// stores to it, so that these loads say themselves that nothing moves across them. __ldg: memory that no thread writes
// while the kernel runs.
template <class T>
CODETTA_FN T load_global(const T* p) {
  static_assert(sizeof(T) == 8 || sizeof(T) == 4 || sizeof(T) == 2 || sizeof(T) == 1);
  T value;
  if constexpr (sizeof(T) == 8) {
    u64 x;
    asm volatile("ld.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
    memcpy(&value, &x, sizeof value);
  } else if constexpr (sizeof(T) == 4) {
    u32 x;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    memcpy(&value, &x, sizeof value);
  } else {
    u16 x;
    if constexpr (sizeof(T) == 2)
      asm volatile("ld.global.u16 %0, [%1];" : "=h"(x) : "l"(p) : "memory");
    else
      asm volatile("ld.global.u8 %0, [%1];" : "=h"(x) : "l"(p) : "memory");
    memcpy(&value, &x, sizeof value);
  }
  return value;
}
CODETTA_FN uint2 load_global(const uint2* p) {
  uint2 value;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "l"(p) : "memory");
  return value;
}
CODETTA_FN uint4 load_global(const uint4* p) {
  uint4 value;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(p)
               : "memory");
  return value;
}

// 2^x and 1 / x, at most 2 and 1 ulp off; subnormal operands and results are 0.
CODETTA_FN float ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
CODETTA_FN float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// x * y, at least 0 and at most 1; 0 if it is NaN. Takes no instruction beside the multiplication's own.
#define CODETTA_SATURATES 1
CODETTA_FN float mul_sat(float x, float y) {
  float z;
  asm("mul.sat.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}

// The larger and the smaller; NaN if either is NaN; +0 is above -0.
CODETTA_FN float max_nan(float x, float y) {
  float z;
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
#else
  asm("max.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  if (x != x || y != y) z = __uint_as_float(0x7fffffffu);
#endif
  return z;
}
CODETTA_FN float min_nan(float x, float y) {
  float z;
#if __CUDA_ARCH__ >= 800
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
#else
  asm("min.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  if (x != x || y != y) z = __uint_as_float(0x7fffffffu);
#endif
  return z;
}

CODETTA_FN float bits_to_float(u32 x) { return __uint_as_float(x); }
CODETTA_FN u32 float_to_bits(float x) { return __float_as_uint(x); }
CODETTA_FN double bits_to_double(u64 x) { return __longlong_as_double((i64)x); }
CODETTA_FN u64 double_to_bits(double x) { return (u64)__double_as_longlong(x); }

// Two values to 16 bits each, to nearest even; the first one in the low half.
#if __CUDA_ARCH__ >= 800
CODETTA_FN u32 pack_bf16(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
CODETTA_FN u32 pack_f16(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
#else
CODETTA_FN u32 rounded_bf16(float x) {
  const u32 bits = __float_as_uint(x);
  return x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}
CODETTA_FN u32 pack_bf16(float low, float high) { return rounded_bf16(low) | rounded_bf16(high) << 16; }
CODETTA_FN u32 pack_f16(float low, float high) {
  u16 a, b;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(a) : "f"(low));
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(high));
  return a | (u32)b << 16;
}
#endif
CODETTA_FN float unpack_f16(u16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}

// 8-bit floats, two at a time, saturating; from sm_89 on.
#if __CUDA_ARCH__ >= 890
#define CODETTA_HAS_FP8 1
CODETTA_FN u16 pack_f8e4m3(float low, float high) {
  u16 r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
  return r;
}
CODETTA_FN u16 pack_f8e5m2(float low, float high) {
  u16 r;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
  return r;
}
CODETTA_FN u32 unpack_f8e4m3(u16 x) {
  u32 r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(x));
  return r;
}
CODETTA_FN u32 unpack_f8e5m2(u16 x) {
  u32 r;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(x));
  return r;
}
#else
#define CODETTA_HAS_FP8 0
#endif

// Brings the line at p into L2.
CODETTA_FN void prefetch_line(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// To global memory that nothing in the same kernel reads back.
CODETTA_FN void store_two(void* p, u32 a, u32 b) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(a), "r"(b));
}
CODETTA_FN void store_four(void* p, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(a), "r"(b), "r"(c), "r"(d));
}

// A kernel that may be launched before its predecessor ends (programmatic dependent launch) waits for that here, and
// lets its own successor come: that one waits in turn until all of this kernel has ended.
CODETTA_FN void begin_dependent() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// All threads of the group meet. Memory operations before it are visible to the group after it.
CODETTA_FN void group_barrier(i32 id, i32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// The same of the threads of a warp.
CODETTA_FN void warp_barrier() { __syncwarp(~0u); }

CODETTA_FN u32 shuffle_xor(u32 mask, u32 value, int distance) { return __shfl_xor_sync(mask, value, distance); }

// A word of the device's own memory. It was 0 and is 1 now: of all callers one is told so, until that one gives it
// back.
CODETTA_FN bool claim(u32* word) {
  u32 old;
  asm volatile("atom.acquire.gpu.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(word) : "memory");
  return old == 0;
}
CODETTA_FN void give_back(u32* word) { asm volatile("st.release.gpu.u32 [%0], 0;" ::"l"(word) : "memory"); }
// How blocks hand over what they have written: each thread is at before_arrival(), the block meets, and one thread
// counts it at a word of the device's own memory, which gives how many had been there. What these have written is
// visible to this block once it has met again.
CODETTA_FN void before_arrival() {}  // the one thread's release is also of what it has met the others after
CODETTA_FN u32 arrive(u32* word) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(word) : "memory");
  return before;
}
// Words that the host sees, too: as one is now, and one written behind everything that this thread has written.
CODETTA_FN u32 look_up(const u32* word) {
  u32 value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
CODETTA_FN void publish(u32* word, u32 value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

}  // namespace codetta::gpu
