// SPDX-License-Identifier: Apache-2.0
// Vector policies of AVX-512 (F, BW, DQ, VL): 512-bit vectors, tails by masks. VNNI and BF16 products are in their files.
#pragma once

#include <immintrin.h>

#include "device/cpu/micro/kernels.inl"

namespace codetta::cpu::CODETTA_MICRO_ISA {

CODETTA_INLINE __mmask16 mask16(i64 n) { return static_cast<__mmask16>((1u << n) - 1u); }
CODETTA_INLINE __mmask8 mask8(i64 n) { return static_cast<__mmask8>((1u << n) - 1u); }

// Integer sums are associative, and GCC would rebuild them into trees that do not fit the registers.
CODETTA_INLINE __m512i pin(__m512i v) {
  asm("" : "+v"(v));
  return v;
}

struct AccF32 {
  using A = float;
  using Acc = float;
  using Vec = __m512;
  using AVec = __m512;
  static constexpr int lanes = 16;
  CODETTA_INLINE static Vec zero() { return _mm512_setzero_ps(); }
  CODETTA_INLINE static Vec load_c(const void* p) { return _mm512_loadu_ps(p); }
  CODETTA_INLINE static Vec load_c_partial(const void* p, i64 n) { return _mm512_maskz_loadu_ps(mask16(n), p); }
  CODETTA_INLINE static void store_c(void* p, Vec v) { _mm512_storeu_ps(p, v); }
  CODETTA_INLINE static void store_c_partial(void* p, Vec v, i64 n) { _mm512_mask_storeu_ps(p, mask16(n), v); }
  CODETTA_INLINE static AVec broadcast(const void* p) {
    float word;
    __builtin_memcpy(&word, p, 4);
    return _mm512_set1_ps(word);
  }
  CODETTA_INLINE static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  CODETTA_INLINE static float add_scalar(float a, float b) { return a + b; }
};
struct AccI32 {
  using A = i32;
  using Acc = i32;
  using Vec = __m512i;
  using AVec = __m512i;
  static constexpr int lanes = 16;
  CODETTA_INLINE static Vec zero() { return _mm512_setzero_si512(); }
  CODETTA_INLINE static Vec load_c(const void* p) { return _mm512_loadu_si512(p); }
  CODETTA_INLINE static Vec load_c_partial(const void* p, i64 n) { return _mm512_maskz_loadu_epi32(mask16(n), p); }
  CODETTA_INLINE static void store_c(void* p, Vec v) { _mm512_storeu_si512(p, v); }
  CODETTA_INLINE static void store_c_partial(void* p, Vec v, i64 n) { _mm512_mask_storeu_epi32(p, mask16(n), v); }
  CODETTA_INLINE static AVec broadcast(const void* p) {
    i32 word;
    __builtin_memcpy(&word, p, 4);
    return _mm512_set1_epi32(word);
  }
  CODETTA_INLINE static Vec add(Vec a, Vec b) { return _mm512_add_epi32(a, b); }
  CODETTA_INLINE static i32 add_scalar(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) + static_cast<u32>(b)); }
};

}  // namespace codetta::cpu::CODETTA_MICRO_ISA
