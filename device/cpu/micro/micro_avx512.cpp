// SPDX-License-Identifier: Apache-2.0
// AVX-512 kernels: f32, f64, i32, i16 pairs, and B widened in place from bf16, f16, i8, u8.
#define CODETTA_MICRO_ISA avx512
#include "device/cpu/micro/packers.inl"
#include "device/cpu/micro/policies_avx512.inl"
#include "device/cpu/micro/sets.hpp"

namespace codetta::cpu {
namespace avx512 {

struct F32 : AccF32 {
  using BVec = Vec;
  static constexpr int group = 1, b_step = 64;
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return load_c_partial(p, n); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) { return _mm512_fmadd_ps(a, b, c); }
  CODETTA_INLINE static Vec madd_onto(Vec c, AVec a, BVec b) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
  }
};
struct F64 {
  using A = double;
  using Acc = double;
  using Vec = __m512d;
  using AVec = __m512d;
  using BVec = __m512d;
  static constexpr int lanes = 8, group = 1, b_step = 64;
  CODETTA_INLINE static Vec zero() { return _mm512_setzero_pd(); }
  CODETTA_INLINE static Vec load_c(const void* p) { return _mm512_loadu_pd(p); }
  CODETTA_INLINE static Vec load_c_partial(const void* p, i64 n) { return _mm512_maskz_loadu_pd(mask8(n), p); }
  CODETTA_INLINE static void store_c(void* p, Vec v) { _mm512_storeu_pd(p, v); }
  CODETTA_INLINE static void store_c_partial(void* p, Vec v, i64 n) { _mm512_mask_storeu_pd(p, mask8(n), v); }
  CODETTA_INLINE static AVec broadcast(const void* p) { return _mm512_set1_pd(*static_cast<const double*>(p)); }
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return load_c_partial(p, n); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) { return _mm512_fmadd_pd(a, b, c); }
  CODETTA_INLINE static Vec madd_onto(Vec c, AVec a, BVec b) {
    asm("vfmadd231pd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
  }
  CODETTA_INLINE static Vec add(Vec a, Vec b) { return _mm512_add_pd(a, b); }
  CODETTA_INLINE static double add_scalar(double a, double b) { return a + b; }
};
struct I32 : AccI32 {
  using BVec = Vec;
  static constexpr int group = 1, b_step = 64;
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return load_c_partial(p, n); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) { return pin(_mm512_add_epi32(c, _mm512_mullo_epi32(a, b))); }
};
struct I64 : AccI32 {
  using A = i64;
  using Acc = i64;
  using BVec = Vec;
  static constexpr int lanes = 8, group = 1, b_step = 64;
  CODETTA_INLINE static AVec broadcast(const void* p) { return _mm512_set1_epi64(*static_cast<const i64*>(p)); }
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) { return pin(_mm512_add_epi64(c, _mm512_mullo_epi64(a, b))); }
};
struct I16 : AccI32 {
  using A = i16;
  using BVec = Vec;
  static constexpr int group = 2, b_step = 64;
  CODETTA_INLINE static AVec broadcast_tail(const void* p, i64) {
    return _mm512_set1_epi32(*static_cast<const u16*>(p));
  }
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) { return pin(_mm512_add_epi32(c, _mm512_madd_epi16(a, b))); }
  CODETTA_INLINE static Vec madd_onto(Vec c, AVec a, BVec b) {
    Vec product;
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(c), "=&v"(product) : "v"(a), "v"(b));
    return c;
  }
};
struct Bf16Source : F32 {
  static constexpr int b_step = 32;
  CODETTA_INLINE static BVec widen(__m256i v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
  }
  CODETTA_INLINE static BVec load_b(const void* p) { return widen(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) {
    return widen(_mm256_maskz_loadu_epi16(mask16(n), p));
  }
};
struct F16Source : F32 {
  static constexpr int b_step = 32;
  CODETTA_INLINE static BVec load_b(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask16(n), p));
  }
};
struct I8Source : I32 {
  static constexpr int b_step = 16;
  CODETTA_INLINE static BVec load_b(const void* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) {
    return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask16(n), p));
  }
};
struct U8Source : I32 {
  static constexpr int b_step = 16;
  CODETTA_INLINE static BVec load_b(const void* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) {
    return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask16(n), p));
  }
};

// Up to R4 rows of four vectors, R3 of three (0: no such block), ...
template <class P, int R4, int R3, int R2, int R1, bool InPlace>
constexpr KernelSet set_of() {
  KernelSet set;
  add_blocks<P, 4, R4, InPlace>(set);
  if constexpr (R3 > 0) add_blocks<P, 3, R3, InPlace>(set);
  add_blocks<P, 2, R2, InPlace>(set);
  if constexpr (R1 > 0) add_blocks<P, 1, R1, InPlace>(set);
  return set;
}
// One kind of block also in the form that fetches B: three vectors, else four.
template <class P, int R4, int R3, int R2, int R1>
constexpr KernelSet fetching_set() {
  KernelSet set = set_of<P, R4, R3, R2, R1, true>();
  if constexpr (R3 > 0) {
    add_fetching<P, 3, R3>(set);
  } else {
    add_fetching<P, 4, R4>(set);
  }
  return set;
}
constexpr KernelSet f32_set() {
  KernelSet set = fetching_set<F32, 6, 8, 14, 16>();
  add_fetching<F32, 4, 6>(set);
  shorten_blocks(set);
  return set;
}
constexpr MicroTable table =
    level_table({f32_set(), set_of<F64, 6, 8, 12, 12, true>(), set_of<I32, 4, 0, 6, 6, true>(),
                 set_of<I16, 5, 0, 8, 0, false>(), set_of<I64, 4, 0, 6, 6, false>()},
                {fetching_set<Bf16Source, 6, 0, 6, 6>(), set_of<F16Source, 6, 0, 6, 6, true>(),
                 set_of<I8Source, 4, 0, 6, 6, true>(), set_of<U8Source, 4, 0, 6, 6, true>()},
                {dot_set<F32, 4, 4>(), dot_set<F64, 4, 4>(), dot_set<I32, 2, 4>(), dot_set<Bf16Source, 2, 4>(),
                 dot_set<F16Source, 2, 4>(), dot_set<I8Source, 2, 4>(), dot_set<U8Source, 2, 4>()});

}  // namespace avx512

const MicroTable& avx512_table() { return avx512::table; }

}  // namespace codetta::cpu

CODETTA_MICRO_SETS(avx512)
