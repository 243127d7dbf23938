// SPDX-License-Identifier: Apache-2.0
// The machine instructions of device/cuda/builtins.h, emulated.
#pragma once

#include "device/gpu/abi.h"
#include "emulator/formats.hpp"

#define CODETTA_FN static __device__ __forceinline__
#define CODETTA_MEMBER __device__ __forceinline__

namespace codetta::gpu {

template <class T>
CODETTA_FN void store_global(T* p, T value) {
  *p = value;
}
template <class T>
CODETTA_FN T load_global(const T* p) {
  return emulator::load<T>(p, CODETTA_SITE);
}
CODETTA_FN float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
CODETTA_FN float ex2_approx(float x) { return flushed(::exp2f(flushed(x))); }
CODETTA_FN float rcp_approx(float x) { return flushed(1.0f / flushed(x)); }
#define CODETTA_SATURATES 1
CODETTA_FN float mul_sat(float x, float y) {
  const float z = x * y;
  return z > 1.0f ? 1.0f : z > 0.0f ? z : 0.0f;
}

CODETTA_FN float max_nan(float x, float y) {
  if (x != x || y != y) return __builtin_nanf("");
  return x > y || (x == y && !__builtin_signbit(x)) ? x : y;
}
CODETTA_FN float min_nan(float x, float y) {
  if (x != x || y != y) return __builtin_nanf("");
  return x < y || (x == y && __builtin_signbit(x)) ? x : y;
}

CODETTA_FN float bits_to_float(u32 x) { return __uint_as_float(x); }
CODETTA_FN u32 float_to_bits(float x) { return __float_as_uint(x); }
CODETTA_FN double bits_to_double(u64 x) { return __longlong_as_double((i64)x); }
CODETTA_FN u64 double_to_bits(double x) { return (u64)__double_as_longlong(x); }

CODETTA_FN u32 pack_bf16(float low, float high) {
  using emulator::Brain;
  return Brain::narrowed(low, false) | Brain::narrowed(high, false) << 16;
}
CODETTA_FN u32 pack_f16(float low, float high) {
  using emulator::Half;
  return Half::narrowed(low, false) | Half::narrowed(high, false) << 16;
}
CODETTA_FN float unpack_f16(u16 x) { return (float)emulator::Half::widened(x); }

#if __CUDA_ARCH__ >= 890
#define CODETTA_HAS_FP8 1
CODETTA_FN u16 pack_f8e4m3(float low, float high) {
  using emulator::E4m3;
  return (u16)(E4m3::narrowed(low, true) | E4m3::narrowed(high, true) << 8);
}
CODETTA_FN u16 pack_f8e5m2(float low, float high) {
  using emulator::E5m2;
  return (u16)(E5m2::narrowed(low, true) | E5m2::narrowed(high, true) << 8);
}
CODETTA_FN u32 unpack_f8e4m3(u16 x) {
  using emulator::E4m3;
  return pack_f16((float)E4m3::widened(x & 0xff), (float)E4m3::widened(x >> 8));
}
CODETTA_FN u32 unpack_f8e5m2(u16 x) {
  using emulator::E5m2;
  return pack_f16((float)E5m2::widened(x & 0xff), (float)E5m2::widened(x >> 8));
}
#else
#define CODETTA_HAS_FP8 0
#endif

CODETTA_FN void prefetch_line(const void*) {}

CODETTA_FN void store_two(void* p, u32 a, u32 b) { emulator::store(p, uint2{a, b}, CODETTA_SITE); }
CODETTA_FN void store_four(void* p, u32 a, u32 b, u32 c, u32 d) { emulator::store(p, uint4{a, b, c, d}, CODETTA_SITE); }

CODETTA_FN void begin_dependent() {}

// Whoever shares a barrier may come to it by different ways: only how many they are counts.
CODETTA_FN void group_barrier(i32 id, i32 threads) { emulator::machine->barrier((u32)id, (u32)threads, CODETTA_SITE); }

CODETTA_FN void warp_barrier() { __syncwarp(~0u); }

CODETTA_FN u32 shuffle_xor(u32 mask, u32 value, int distance) { return __shfl_xor_sync(mask, value, (u32)distance); }

// One thread of the host runs all of a grid.
CODETTA_FN bool claim(u32* word) {
  emulator::machine->update(word, CODETTA_SITE);
  if (*word != 0) return false;
  *word = 1;
  return true;
}
CODETTA_FN void give_back(u32* word) { *word = 0; }
CODETTA_FN void before_arrival() {}
CODETTA_FN u32 arrive(u32* word) { return atomicAdd(word, 1u); }
CODETTA_FN u32 look_up(const u32* word) { return *word; }
CODETTA_FN void publish(u32* word, u32 value) { *word = value; }

}  // namespace codetta::gpu
