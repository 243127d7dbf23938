// SPDX-License-Identifier: Apache-2.0
// AVX2 + FMA + F16C kernels. Sixteen registers: 6 x 16 is the f32 block. 8-bit operands go through exact s16 pairs
// (VPMADDWD); VPMADDUBSW would saturate.
#define CODETTA_MICRO_ISA avx2
#include <immintrin.h>

#include "device/cpu/micro/packers.inl"
#include "device/cpu/micro/sets.hpp"

namespace codetta::cpu {
namespace avx2 {

CODETTA_INLINE __m256i mask32(i64 n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<i32>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
CODETTA_INLINE __m256i mask64(i64 n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
// AVX2 has no masked loads of narrow elements: up to 16 bytes, copied.
CODETTA_INLINE __m128i load_bytes(const void* p, i64 n) {
  alignas(16) u8 bytes[16] = {};
  for (i64 i = 0; i < n; ++i) bytes[i] = static_cast<const u8*>(p)[i];
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
}
// Integer sums are associative, and GCC would rebuild them into trees that do not fit the registers.
CODETTA_INLINE __m256i pin(__m256i v) {
  asm("" : "+x"(v));
  return v;
}
CODETTA_INLINE __m128i load8(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
CODETTA_INLINE __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

struct F32 {
  using A = float;
  using Acc = float;
  using Vec = __m256;
  using AVec = __m256;
  using BVec = __m256;
  static constexpr int lanes = 8, group = 1, b_step = 32;
  CODETTA_INLINE static Vec zero() { return _mm256_setzero_ps(); }
  CODETTA_INLINE static Vec load_c(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
  CODETTA_INLINE static Vec load_c_partial(const void* p, i64 n) {
    return _mm256_maskload_ps(static_cast<const float*>(p), mask32(n));
  }
  CODETTA_INLINE static void store_c(void* p, Vec v) { _mm256_storeu_ps(static_cast<float*>(p), v); }
  CODETTA_INLINE static void store_c_partial(void* p, Vec v, i64 n) {
    _mm256_maskstore_ps(static_cast<float*>(p), mask32(n), v);
  }
  CODETTA_INLINE static AVec broadcast(const void* p) { return _mm256_broadcast_ss(static_cast<const float*>(p)); }
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return load_c_partial(p, n); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) { return _mm256_fmadd_ps(a, b, c); }
  CODETTA_INLINE static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  CODETTA_INLINE static float add_scalar(float a, float b) { return a + b; }
};
struct F64 {
  using A = double;
  using Acc = double;
  using Vec = __m256d;
  using AVec = __m256d;
  using BVec = __m256d;
  static constexpr int lanes = 4, group = 1, b_step = 32;
  CODETTA_INLINE static Vec zero() { return _mm256_setzero_pd(); }
  CODETTA_INLINE static Vec load_c(const void* p) { return _mm256_loadu_pd(static_cast<const double*>(p)); }
  CODETTA_INLINE static Vec load_c_partial(const void* p, i64 n) {
    return _mm256_maskload_pd(static_cast<const double*>(p), mask64(n));
  }
  CODETTA_INLINE static void store_c(void* p, Vec v) { _mm256_storeu_pd(static_cast<double*>(p), v); }
  CODETTA_INLINE static void store_c_partial(void* p, Vec v, i64 n) {
    _mm256_maskstore_pd(static_cast<double*>(p), mask64(n), v);
  }
  CODETTA_INLINE static AVec broadcast(const void* p) { return _mm256_broadcast_sd(static_cast<const double*>(p)); }
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return load_c_partial(p, n); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) { return _mm256_fmadd_pd(a, b, c); }
  CODETTA_INLINE static Vec add(Vec a, Vec b) { return _mm256_add_pd(a, b); }
  CODETTA_INLINE static double add_scalar(double a, double b) { return a + b; }
};
struct I32 {
  using A = i32;
  using Acc = i32;
  using Vec = __m256i;
  using AVec = __m256i;
  using BVec = __m256i;
  static constexpr int lanes = 8, group = 1, b_step = 32;
  CODETTA_INLINE static Vec zero() { return _mm256_setzero_si256(); }
  CODETTA_INLINE static Vec load_c(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  CODETTA_INLINE static Vec load_c_partial(const void* p, i64 n) {
    return _mm256_maskload_epi32(static_cast<const int*>(p), mask32(n));
  }
  CODETTA_INLINE static void store_c(void* p, Vec v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  CODETTA_INLINE static void store_c_partial(void* p, Vec v, i64 n) {
    _mm256_maskstore_epi32(static_cast<int*>(p), mask32(n), v);
  }
  CODETTA_INLINE static AVec broadcast(const void* p) {
    i32 word;
    __builtin_memcpy(&word, p, 4);
    return _mm256_set1_epi32(word);
  }
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return load_c_partial(p, n); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) { return pin(_mm256_add_epi32(c, _mm256_mullo_epi32(a, b))); }
  CODETTA_INLINE static Vec add(Vec a, Vec b) { return _mm256_add_epi32(a, b); }
  CODETTA_INLINE static i32 add_scalar(i32 a, i32 b) {
    return static_cast<i32>(static_cast<u32>(a) + static_cast<u32>(b));
  }
};
// Products of 64 bits from three of 32, modulo 2^64.
struct I64 : I32 {
  using A = i64;
  using Acc = i64;
  static constexpr int lanes = 4;
  CODETTA_INLINE static AVec broadcast(const void* p) { return _mm256_set1_epi64x(*static_cast<const i64*>(p)); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) {
    const Vec crossed = _mm256_mullo_epi32(a, _mm256_shuffle_epi32(b, 0xB1));
    const Vec high = _mm256_slli_epi64(_mm256_add_epi32(crossed, _mm256_srli_epi64(crossed, 32)), 32);
    return pin(_mm256_add_epi64(c, _mm256_add_epi64(high, _mm256_mul_epu32(a, b))));
  }
};
struct I16 : I32 {
  using A = i16;
  static constexpr int group = 2;
  CODETTA_INLINE static AVec broadcast_tail(const void* p, i64) {
    return _mm256_set1_epi32(*static_cast<const u16*>(p));
  }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) { return pin(_mm256_add_epi32(c, _mm256_madd_epi16(a, b))); }
};
struct Bf16Source : F32 {
  static constexpr int b_step = 16;
  CODETTA_INLINE static BVec widen(__m128i v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
  }
  CODETTA_INLINE static BVec load_b(const void* p) { return widen(load16(p)); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return widen(load_bytes(p, 2 * n)); }
};
struct F16Source : F32 {
  static constexpr int b_step = 16;
  CODETTA_INLINE static BVec load_b(const void* p) { return _mm256_cvtph_ps(load16(p)); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return _mm256_cvtph_ps(load_bytes(p, 2 * n)); }
};
struct I8Source : I32 {
  static constexpr int b_step = 8;
  CODETTA_INLINE static BVec load_b(const void* p) { return _mm256_cvtepi8_epi32(load8(p)); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return _mm256_cvtepi8_epi32(load_bytes(p, n)); }
};
struct U8Source : I32 {
  static constexpr int b_step = 8;
  CODETTA_INLINE static BVec load_b(const void* p) { return _mm256_cvtepu8_epi32(load8(p)); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return _mm256_cvtepu8_epi32(load_bytes(p, n)); }
};

template <class P, int R2, int R1, bool InPlace>
constexpr KernelSet set_of() {
  KernelSet set;
  add_blocks<P, 2, R2, InPlace>(set);
  add_blocks<P, 1, R1, InPlace>(set);
  return set;
}
constexpr MicroTable table =
    level_table({set_of<F32, 6, 8, true>(), set_of<F64, 6, 8, true>(), set_of<I32, 4, 6, true>(),
                 set_of<I16, 5, 6, false>(), set_of<I64, 4, 6, false>()},
                {set_of<Bf16Source, 6, 6, true>(), set_of<F16Source, 6, 6, true>(), set_of<I8Source, 4, 6, true>(),
                 set_of<U8Source, 4, 6, true>()},
                {dot_set<F32, 2, 4>(), dot_set<F64, 2, 4>(), dot_set<I32, 2, 4>(), dot_set<Bf16Source, 2, 4>(),
                 dot_set<F16Source, 2, 4>(), dot_set<I8Source, 2, 4>(), dot_set<U8Source, 2, 4>()});

}  // namespace avx2

const MicroTable& avx2_table() { return avx2::table; }

}  // namespace codetta::cpu

CODETTA_MICRO_SETS(avx2)
