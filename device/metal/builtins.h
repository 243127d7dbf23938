// SPDX-License-Identifier: Apache-2.0
// What the shared headers (device/gpu) use of the machine, in the Metal Shading Language 3: C++14 with `if constexpr`,
// without lambdas, derived classes, `double` and `long long`; every pointer and reference says in which memory it
// points. Names that begin with two underscores are those that CUDA gives the same conversions.
#pragma once

#include <metal_stdlib>

#include "device/gpu/abi.h"

#define CODETTA_FN static inline __attribute__((always_inline))
#define CODETTA_MEMBER inline __attribute__((always_inline))

// The printer spells these literals as GCC and Clang do.
#define __builtin_inff() codetta::gpu::bits_to_float(0x7f800000u)
#define __builtin_nanf(text) codetta::gpu::bits_to_float(0x7fc00000u)

// A kernel's parameters; whoever compiles them with another compiler spells the attributes its own way.
#ifndef CODETTA_KERNEL
#define CODETTA_KERNEL(name, threads) \
  [[max_total_threads_per_threadgroup(threads)]] kernel void name(CODETTA_PARAMETERS)
#define CODETTA_PARAMETERS                                                                                \
  constant codetta::gpu::Parameters &params [[buffer(0)]], threadgroup char *memory [[threadgroup(0)]],   \
      metal::uint3 group [[threadgroup_position_in_grid]], metal::uint3 groups [[threadgroups_per_grid]], \
      unsigned int id [[thread_index_in_threadgroup]]
#endif

#define CODETTA_HAS_FP8 0  // 8-bit floats are converted in integer arithmetic

namespace codetta::gpu {

CODETTA_FN float bits_to_float(u32 x) { return as_type<float>(x); }
CODETTA_FN u32 float_to_bits(float x) { return as_type<u32>(x); }

// At most 4 and 1 ulp off (MSL specification, numerical compliance, without fast math); what fast:: does to infinities
// and NaN is not for us.
CODETTA_FN float ex2_approx(float x) { return metal::precise::exp2(x); }
CODETTA_FN float rcp_approx(float x) { return 1.0f / x; }

// The larger and the smaller; NaN if either is NaN; +0 is above -0. fmax and fmin leave NaN out, and which zero they
// give is open.
CODETTA_FN float max_nan(float x, float y) {
  if (x != x) return x;
  if (x == y) return bits_to_float(float_to_bits(x) & float_to_bits(y));
  return x > y ? x : y;
}
CODETTA_FN float min_nan(float x, float y) {
  if (x != x) return x;
  if (x == y) return bits_to_float(float_to_bits(x) | float_to_bits(y));
  return x < y ? x : y;
}

// 16-bit floats, to nearest even; two values to 16 bits each, the first one in the low half.
CODETTA_FN u32 bf16_bits(float x) {
  const u32 b = float_to_bits(x);
  return (b & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
}
CODETTA_FN u32 pack_bf16(float low, float high) { return bf16_bits(low) | (bf16_bits(high) << 16); }
CODETTA_FN u32 f16_bits(float x) { return as_type<u16>((half)x); }
CODETTA_FN u32 pack_f16(float low, float high) { return f16_bits(low) | (f16_bits(high) << 16); }
CODETTA_FN float unpack_f16(u16 x) { return (float)as_type<half>(x); }

// Saturating; the caller has taken NaN away.
CODETTA_FN i32 __float2int_rz(float x) { return x >= 0x1p31f ? 2147483647 : x < -0x1p31f ? -2147483647 - 1 : (i32)x; }
CODETTA_FN u32 __float2uint_rz(float x) { return x >= 0x1p32f ? ~(u32)0 : x < 0.0f ? 0 : (u32)x; }
CODETTA_FN i64 __float2ll_rz(float x) {
  return x >= 0x1p63f ? (i64)(~(u64)0 >> 1) : x < -0x1p63f ? (i64)((u64)1 << 63) : (i64)x;
}
CODETTA_FN u64 __float2ull_rz(float x) { return x >= 0x1p64f ? ~(u64)0 : x < 0.0f ? 0 : (u64)x; }
CODETTA_FN i32 __float2int_rn(float x) { return __float2int_rz(metal::rint(x)); }
CODETTA_FN u32 __float2uint_rn(float x) { return __float2uint_rz(metal::rint(x)); }
CODETTA_FN i64 __float2ll_rn(float x) { return __float2ll_rz(metal::rint(x)); }
CODETTA_FN u64 __float2ull_rn(float x) { return __float2ull_rz(metal::rint(x)); }

// All threads of the threadgroup meet; what they wrote to threadgroup memory is visible behind it, and behind
// device_barrier() what they wrote to device memory as well.
CODETTA_FN void group_barrier() { metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup); }
CODETTA_FN void device_barrier() {
  metal::threadgroup_barrier(metal::mem_flags::mem_device);
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
}

// With the thread of the SIMD group whose lane differs in the bits of `distance`; all 32 lanes call it.
CODETTA_FN u32 shuffle_xor(u32 value, u32 distance) { return metal::simd_shuffle_xor(value, (u16)distance); }

// Where a thread is: of its threadgroup, whose threads lie along x, and its threadgroup in the grid.
struct Place {
  metal::uint3 group, groups;  // index and number of threadgroups
  u32 id;                      // of the thread
};

}  // namespace codetta::gpu
