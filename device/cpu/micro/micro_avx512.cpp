// SPDX-License-Identifier: Apache-2.0
// AVX-512 kernels: f32, f64, i32, i16 pairs, and B widened in place from bf16, f16, i8, u8.
#define CODETTA_MICRO_ISA avx512
#include "device/cpu/micro/packers.inl"
#include "device/cpu/micro/policies_avx512.inl"

namespace codetta::cpu {
namespace avx512 {

struct F32 : AccF32 {
  using BVec = Vec;
  static constexpr int group = 1, b_step = 64;
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return load_c_partial(p, n); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) { return _mm512_fmadd_ps(a, b, c); }
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

template <class P, int Rows, bool InPlace = true>
constexpr KernelSet widened_set() {
  KernelSet set;
  add_blocks<P, 4, Rows, InPlace>(set);
  add_blocks<P, 2, 6, InPlace>(set);
  add_blocks<P, 1, 6, InPlace>(set);
  return set;
}
constexpr MicroTable make_table() {
  MicroTable t;
  KernelSet f32;
  add_blocks<F32, 4, 6, true>(f32);
  add_blocks<F32, 3, 8, true>(f32);
  add_blocks<F32, 2, 14, true>(f32);
  add_blocks<F32, 1, 16, true>(f32);
  KernelSet f64;
  add_blocks<F64, 4, 6, true>(f64);
  add_blocks<F64, 3, 8, true>(f64);
  add_blocks<F64, 2, 12, true>(f64);
  add_blocks<F64, 1, 12, true>(f64);
  KernelSet int32_set = widened_set<I32, 4>();
  KernelSet int16_set;
  add_blocks<I16, 4, 5, false>(int16_set);
  add_blocks<I16, 2, 8, false>(int16_set);
  t.packed[static_cast<int>(Product::f32)] = f32;
  t.packed[static_cast<int>(Product::f64)] = f64;
  t.packed[static_cast<int>(Product::int32)] = int32_set;
  t.packed[static_cast<int>(Product::int16)] = int16_set;
  t.packed[static_cast<int>(Product::int64)] = widened_set<I64, 4, false>();
  t.in_place[static_cast<int>(Source::f32)] = f32;
  t.in_place[static_cast<int>(Source::f64)] = f64;
  t.in_place[static_cast<int>(Source::int32)] = int32_set;
  t.in_place[static_cast<int>(Source::bf16)] = widened_set<Bf16Source, 6>();
  t.in_place[static_cast<int>(Source::f16)] = widened_set<F16Source, 6>();
  t.in_place[static_cast<int>(Source::int8)] = widened_set<I8Source, 4>();
  t.in_place[static_cast<int>(Source::uint8)] = widened_set<U8Source, 4>();
  t.dot[static_cast<int>(Source::f32)] = dot_set<F32, 4, 4>();
  t.dot[static_cast<int>(Source::f64)] = dot_set<F64, 4, 4>();
  t.dot[static_cast<int>(Source::int32)] = dot_set<I32, 2, 4>();
  t.dot[static_cast<int>(Source::bf16)] = dot_set<Bf16Source, 2, 4>();
  t.dot[static_cast<int>(Source::f16)] = dot_set<F16Source, 2, 4>();
  t.dot[static_cast<int>(Source::int8)] = dot_set<I8Source, 2, 4>();
  t.dot[static_cast<int>(Source::uint8)] = dot_set<U8Source, 2, 4>();
  t.packers = &packers;
  return t;
}
constexpr MicroTable table = make_table();

}  // namespace avx512

const MicroTable& avx512_table() { return avx512::table; }

}  // namespace codetta::cpu
