// SPDX-License-Identifier: Apache-2.0
// AMD's matrix instructions by name: d += a b over the whole wave. Registers are given as words; which elements these
// hold, mfma_layout.h and wmma_layout.h say. Those that the architecture lacks are declared only. A test that runs a
// wave on the host puts its own file in the place of this one.
#pragma once

#include "device/gpu/builtins.h"

namespace codetta::gpu {

template <class T, int n>
using Registers = T __attribute__((ext_vector_type(n)));

template <class V, class T, int n>
CODETTA_FN V in_registers(const T (&x)[n]) {
  static_assert(sizeof(V) == sizeof(T) * n);
  return __builtin_bit_cast(V, x);
}

using Float4 = Registers<float, 4>;
using Double4 = Registers<double, 4>;
using Int4 = Registers<int, 4>;

// Of accumulators in front of the loop that adds to them, and behind it: they are in registers of their own, for which
// Clang takes accumulation registers. It joins zeros otherwise, and copies many blocks in each turn.
template <class V>
CODETTA_FN void stay_accumulators(V& d) {
#if defined(__gfx90a__) || defined(__gfx942__)
  asm volatile("" : "+a"(d));
#endif
}

#if defined(__gfx90a__) || defined(__gfx942__)
CODETTA_FN void mfma_f32_16x16x16_f16(Float4& d, const u32 (&a)[2], const u32 (&b)[2]) {
  using H = Registers<_Float16, 4>;
  d = __builtin_amdgcn_mfma_f32_16x16x16f16(in_registers<H>(a), in_registers<H>(b), d, 0, 0, 0);
}
CODETTA_FN void mfma_f32_16x16x16_bf16(Float4& d, const u32 (&a)[2], const u32 (&b)[2]) {
  using H = Registers<short, 4>;
  d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(in_registers<H>(a), in_registers<H>(b), d, 0, 0, 0);
}
CODETTA_FN void mfma_f32_16x16x4_f32(Float4& d, float a, float b) {
  d = __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, d, 0, 0, 0);
}
CODETTA_FN void mfma_f64_16x16x4_f64(Double4& d, double a, double b) {
  d = __builtin_amdgcn_mfma_f64_16x16x4f64(a, b, d, 0, 0, 0);
}
#else
__device__ void mfma_f32_16x16x16_f16(Float4& d, const u32 (&a)[2], const u32 (&b)[2]);
__device__ void mfma_f32_16x16x16_bf16(Float4& d, const u32 (&a)[2], const u32 (&b)[2]);
__device__ void mfma_f32_16x16x4_f32(Float4& d, float a, float b);
__device__ void mfma_f64_16x16x4_f64(Double4& d, double a, double b);
#endif
#if defined(__gfx90a__)
CODETTA_FN void mfma_i32_16x16x16_i8(Int4& d, u32 a, u32 b) {
  d = __builtin_amdgcn_mfma_i32_16x16x16i8((int)a, (int)b, d, 0, 0, 0);
}
#else
__device__ void mfma_i32_16x16x16_i8(Int4& d, u32 a, u32 b);
#endif
#if defined(__gfx942__)
CODETTA_FN void mfma_i32_16x16x32_i8(Int4& d, const u32 (&a)[2], const u32 (&b)[2]) {
  d = __builtin_amdgcn_mfma_i32_16x16x32_i8(in_registers<long>(a), in_registers<long>(b), d, 0, 0, 0);
}
#else
__device__ void mfma_i32_16x16x32_i8(Int4& d, const u32 (&a)[2], const u32 (&b)[2]);
#endif

using Float8 = Registers<float, 8>;
using Int8 = Registers<int, 8>;

// `words`: 8 on gfx11, 4 on gfx12.
#if defined(__gfx1100__)
CODETTA_FN void wmma_f32_16x16x16_f16(Float8& d, const u32 (&a)[8], const u32 (&b)[8]) {
  using H = Registers<_Float16, 16>;
  d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(in_registers<H>(a), in_registers<H>(b), d);
}
CODETTA_FN void wmma_f32_16x16x16_bf16(Float8& d, const u32 (&a)[8], const u32 (&b)[8]) {
  using H = Registers<short, 16>;
  d = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(in_registers<H>(a), in_registers<H>(b), d);
}
template <bool a_signed, bool b_signed>
CODETTA_FN void wmma_i32_16x16x16_iu8(Int8& d, const u32 (&a)[4], const u32 (&b)[4]) {
  d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(a_signed, in_registers<Int4>(a), b_signed, in_registers<Int4>(b), d,
                                                 false);
}
#elif defined(__gfx1201__)
CODETTA_FN void wmma_f32_16x16x16_f16(Float8& d, const u32 (&a)[4], const u32 (&b)[4]) {
  using H = Registers<_Float16, 8>;
  d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(in_registers<H>(a), in_registers<H>(b), d);
}
CODETTA_FN void wmma_f32_16x16x16_bf16(Float8& d, const u32 (&a)[4], const u32 (&b)[4]) {
  using H = Registers<short, 8>;
  d = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(in_registers<H>(a), in_registers<H>(b), d);
}
template <bool a_signed, bool b_signed>
CODETTA_FN void wmma_i32_16x16x16_iu8(Int8& d, const u32 (&a)[2], const u32 (&b)[2]) {
  using W = Registers<int, 2>;
  d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(a_signed, in_registers<W>(a), b_signed, in_registers<W>(b), d,
                                                       false);
}
#else
template <int words>
__device__ void wmma_f32_16x16x16_f16(Float8& d, const u32 (&a)[words], const u32 (&b)[words]);
template <int words>
__device__ void wmma_f32_16x16x16_bf16(Float8& d, const u32 (&a)[words], const u32 (&b)[words]);
template <bool a_signed, bool b_signed, int words>
__device__ void wmma_i32_16x16x16_iu8(Int8& d, const u32 (&a)[words], const u32 (&b)[words]);
#endif

}  // namespace codetta::gpu
