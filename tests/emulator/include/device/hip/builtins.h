// SPDX-License-Identifier: Apache-2.0
// The machine of device/hip/builtins.h, emulated: waves of CODETTA_EMULATED_LANES lanes. The functions and conversions
// of the language's headers are the host's; those of device/hip/math_*.h are what a GPU runs.
#pragma once

#include "device/gpu/abi.h"
#include "emulator/formats.hpp"

#define CODETTA_FN static __device__ __forceinline__
#define CODETTA_MEMBER __device__ __forceinline__
#define CODETTA_OWN_MATH 1
#define CODETTA_HAS_FP8 0

namespace codetta::gpu {

// The first lane's, which must be everybody's.
CODETTA_FN u32 uniform(u32 x) {
  const u32 first = emulator::taken(~0ull, x, 0, 32, CODETTA_SITE);
  if (first != x) emulator::machine->fail("a value that is not the same in a wave:", x, CODETTA_SITE);
  return first;
}

CODETTA_FN void store_two(void* p, u32 a, u32 b) { emulator::store(p, uint2{a, b}, CODETTA_SITE); }
CODETTA_FN void store_four(void* p, u32 a, u32 b, u32 c, u32 d) { emulator::store(p, uint4{a, b, c, d}, CODETTA_SITE); }
template <class T>
CODETTA_FN void store_global(T* p, T value) {
  *p = value;
}
template <class T>
CODETTA_FN T load_global(const T* p) {
  return emulator::load<T>(p, CODETTA_SITE);
}
CODETTA_FN uint4 load_shared(const uint4* p) { return *p; }
CODETTA_FN uint4 load_unaligned(const char* p) {
  u8 bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = emulator::load<u8>(p + i, CODETTA_SITE);
  uint4 value;
  __builtin_memcpy(&value, bytes, sizeof value);
  return value;
}
CODETTA_FN void prefetch_line(const void*) {}

CODETTA_FN void group_barrier(i32 id, i32 threads) { emulator::machine->barrier((u32)id, (u32)threads, CODETTA_SITE); }
CODETTA_FN void begin_dependent() {}

// Groups of 32 lanes: the upper ones of a wave of 64 have a mask of their own.
CODETTA_FN u32 shuffle_xor(u32 mask, u32 value, int distance) {
  const u32 lane = emulator::machine->current->lane;
  return emulator::taken((u64)mask << (lane & 32), value, lane ^ (u32)distance, 33, CODETTA_SITE);
}

CODETTA_FN u32 chosen_bytes(u32 low, u32 high, u32 which) {
  const u64 bytes = (u64)high << 32 | low;
  u32 result = 0;
  for (int i = 0; i < 32; i += 8) {
    const u32 number = which >> i & 0xff;
    if (number > 7) emulator::machine->fail("a byte that is none of eight:", number, CODETTA_SITE);
    result |= (u32)(bytes >> (8 * number) & 0xff) << i;
  }
  return result;
}

CODETTA_FN float bits_to_float(u32 x) { return __builtin_bit_cast(float, x); }
CODETTA_FN u32 float_to_bits(float x) { return __builtin_bit_cast(u32, x); }
CODETTA_FN double bits_to_double(u64 x) { return __builtin_bit_cast(double, x); }
CODETTA_FN u64 double_to_bits(double x) { return __builtin_bit_cast(u64, x); }

CODETTA_FN float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
CODETTA_FN float ex2_approx(float x) { return flushed(::exp2f(flushed(x))); }
CODETTA_FN float rcp_approx(float x) { return flushed(1.0f / flushed(x)); }

CODETTA_FN float max_nan(float x, float y) {
  if (x != x || y != y) return __builtin_nanf("");
  return x > y || (x == y && !__builtin_signbit(x)) ? x : y;
}
CODETTA_FN float min_nan(float x, float y) {
  if (x != x || y != y) return __builtin_nanf("");
  return x < y || (x == y && __builtin_signbit(x)) ? x : y;
}

CODETTA_FN i32 reread_own(i32 x) { return x; }
CODETTA_FN void part_stores() {}

template <class V, int n>
class RegisterArray {
  static_assert(sizeof(V) % 4 == 0 && n * sizeof(V) <= 128, "what has an index");
  V all[n];

 public:
  CODETTA_MEMBER V get(i32 at) const { return all[at]; }
  CODETTA_MEMBER void put(i32 at, const V& v) { all[at] = v; }
};

CODETTA_FN float clamped(float x, float low, float high) { return x > high ? high : x > low ? x : low; }
CODETTA_FN float ldexp(float x, i32 n) { return __builtin_ldexpf(x, n); }
CODETTA_FN double ldexp(double x, i32 n) { return __builtin_ldexp(x, n); }

CODETTA_FN u32 to_bf16(float x) { return emulator::Brain::narrowed(x, false); }
CODETTA_FN u32 to_f16(float x) { return emulator::Half::narrowed(x, false); }
CODETTA_FN u32 pack_bf16(float low, float high) { return to_bf16(low) | to_bf16(high) << 16; }
CODETTA_FN u32 pack_f16(float low, float high) { return to_f16(low) | to_f16(high) << 16; }
CODETTA_FN float unpack_f16(u16 x) { return (float)emulator::Half::widened(x); }

CODETTA_FN float rounded_sqrt(float x) { return __builtin_sqrtf(x); }
CODETTA_FN double rounded_sqrt(double x) { return __builtin_sqrt(x); }
CODETTA_FN float down(float x) { return __builtin_floorf(x); }
CODETTA_FN double down(double x) { return __builtin_floor(x); }
CODETTA_FN float up(float x) { return __builtin_ceilf(x); }
CODETTA_FN double up(double x) { return __builtin_ceil(x); }
CODETTA_FN float towards_zero(float x) { return __builtin_truncf(x); }
CODETTA_FN double towards_zero(double x) { return __builtin_trunc(x); }
CODETTA_FN float to_even(float x) { return __builtin_rintf(x); }
CODETTA_FN double to_even(double x) { return __builtin_rint(x); }

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
