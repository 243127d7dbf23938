// SPDX-License-Identifier: Apache-2.0
// Data movement of packing, compiled once per instruction set (plain loops that the vectorizer takes, and one 4 x 4 shuffle).
#pragma once

#include "device/cpu/micro/kernels.inl"

namespace codetta::cpu::CODETTA_MICRO_ISA {

// Stored forms that C++ has no type for; value() is exact in f32.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
struct E4m3 {
  u8 bits;
};
struct E5m2 {
  u8 bits;
};
struct Bool {
  u8 bits;
};

CODETTA_INLINE float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }
template <class T>
CODETTA_INLINE T value(T v) {
  return v;
}
CODETTA_INLINE int value(Bool v) { return v.bits != 0 ? 1 : 0; }
CODETTA_INLINE float value(Bfloat v) { return float_of(static_cast<u32>(v.bits) << 16); }
CODETTA_INLINE float value(Half v) {
  const u32 magnitude = static_cast<u32>(v.bits & 0x7fff) << 13;
  const u32 scaled = __builtin_bit_cast(u32, float_of(magnitude) * 0x1p112f);  // exact, subnormals included
  const u32 special = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : scaled;
  return float_of(special | static_cast<u32>(v.bits & 0x8000) << 16);
}
CODETTA_INLINE float value(E5m2 v) { return value(Half{static_cast<u16>(v.bits << 8)}); }
CODETTA_INLINE float value(E4m3 v) {
  const u32 scaled = __builtin_bit_cast(u32, float_of(static_cast<u32>(v.bits & 0x7f) << 20) * 0x1p120f);
  const u32 special = (v.bits & 0x7f) == 0x7f ? 0x7fc00000u : scaled;
  return float_of(special | static_cast<u32>(v.bits & 0x80) << 24);
}

template <class From, class To>
void convert_run(void* dst_start, const void* src_start, i64 n, i64 stride) {
  auto* __restrict dst = static_cast<To*>(dst_start);
  const auto* __restrict src = static_cast<const From*>(src_start);
  if (stride == 1) {
    for (i64 i = 0; i < n; ++i) dst[i] = static_cast<To>(value(src[i]));
  } else {
    for (i64 i = 0; i < n; ++i) dst[i] = static_cast<To>(value(src[i * stride]));
  }
}

template <class T>
void transpose_plain(void* dst_start, i64 dst_ld, const void* src_start, i64 src_ld, i64 rows, i64 cols) {
  auto* __restrict dst = static_cast<T*>(dst_start);
  const auto* __restrict src = static_cast<const T*>(src_start);
  constexpr i64 block = 16;
  for (i64 r0 = 0; r0 < rows; r0 += block) {
    const i64 r1 = r0 + block < rows ? r0 + block : rows;
    for (i64 c = 0; c < cols; ++c) {
      for (i64 r = r0; r < r1; ++r) dst[r * dst_ld + c] = src[c * src_ld + r];
    }
  }
}

inline void transpose_words(void* dst_start, i64 dst_ld, const void* src_start, i64 src_ld, i64 rows, i64 cols) {
  typedef u32 V4 __attribute__((vector_size(16)));
  auto* __restrict dst = static_cast<u32*>(dst_start);
  const auto* __restrict src = static_cast<const u32*>(src_start);
  const auto load = [](const u32* p) __attribute__((always_inline)) {
    V4 v;
    __builtin_memcpy(&v, p, 16);
    return v;
  };
  const auto store = [](u32* p, V4 v) __attribute__((always_inline)) { __builtin_memcpy(p, &v, 16); };
  const i64 rows4 = rows & ~i64{3};
  const i64 cols4 = cols & ~i64{3};
  // Sixteen rows (one cache line of each source column) at a time keep the lines of both sides in the first-level cache.
  for (i64 r0 = 0; r0 < rows4; r0 += 16) {
    const i64 r1 = r0 + 16 < rows4 ? r0 + 16 : rows4;
    for (i64 c = 0; c < cols4; c += 4) {
      for (i64 r = r0; r < r1; r += 4) {
        const u32* s = src + c * src_ld + r;
        const V4 a = load(s), b = load(s + src_ld), d = load(s + 2 * src_ld), e = load(s + 3 * src_ld);
        const V4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        const V4 de0 = __builtin_shufflevector(d, e, 0, 4, 1, 5), de1 = __builtin_shufflevector(d, e, 2, 6, 3, 7);
        u32* t = dst + r * dst_ld + c;
        store(t, __builtin_shufflevector(ab0, de0, 0, 1, 4, 5));
        store(t + dst_ld, __builtin_shufflevector(ab0, de0, 2, 3, 6, 7));
        store(t + 2 * dst_ld, __builtin_shufflevector(ab1, de1, 0, 1, 4, 5));
        store(t + 3 * dst_ld, __builtin_shufflevector(ab1, de1, 2, 3, 6, 7));
      }
    }
  }
  for (i64 c = cols4; c < cols; ++c) {
    for (i64 r = 0; r < rows4; ++r) dst[r * dst_ld + c] = src[c * src_ld + r];
  }
  for (i64 c = 0; c < cols; ++c) {
    for (i64 r = rows4; r < rows; ++r) dst[r * dst_ld + c] = src[c * src_ld + r];
  }
}

inline void interleave_pairs(void* dst_start, const void* rows, i64 row_ld, i64 cols) {
  auto* __restrict dst = static_cast<u32*>(dst_start);
  const auto* __restrict r0 = static_cast<const u16*>(rows);
  const u16* __restrict r1 = r0 + row_ld;
  for (i64 c = 0; c < cols; ++c) dst[c] = static_cast<u32>(r0[c]) | static_cast<u32>(r1[c]) << 16;
}
inline void interleave_quads(void* dst_start, const void* rows, i64 row_ld, i64 cols) {
  auto* __restrict dst = static_cast<u32*>(dst_start);
  const auto* __restrict r = static_cast<const u8*>(rows);
  for (i64 c = 0; c < cols; ++c) {
    dst[c] = static_cast<u32>(r[c]) | static_cast<u32>(r[row_ld + c]) << 8 |
             static_cast<u32>(r[2 * row_ld + c]) << 16 | static_cast<u32>(r[3 * row_ld + c]) << 24;
  }
}
template <class T>
void sum_quads(i32* __restrict sums, const void* packed, i64 cols) {
  const auto* __restrict p = static_cast<const T*>(packed);
  for (i64 c = 0; c < cols; ++c) sums[c] += p[4 * c] + p[4 * c + 1] + p[4 * c + 2] + p[4 * c + 3];
}

// In the order of codetta::DType (table.cpp asserts it): bool i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3 f8e5m2 f16 bf16 f32 f64.
#define CODETTA_CONVERSIONS(To)                                                                                       \
  &convert_run<Bool, To>, &convert_run<i8, To>, &convert_run<i16, To>, &convert_run<i32, To>, &convert_run<i64, To>, \
      &convert_run<u8, To>, &convert_run<u16, To>, &convert_run<u32, To>, &convert_run<u64, To>
constexpr Packers packers{
    {CODETTA_CONVERSIONS(float), &convert_run<E4m3, float>, &convert_run<E5m2, float>, &convert_run<Half, float>,
     &convert_run<Bfloat, float>, &convert_run<float, float>, &convert_run<double, float>},
    {CODETTA_CONVERSIONS(double), &convert_run<E4m3, double>, &convert_run<E5m2, double>, &convert_run<Half, double>,
     &convert_run<Bfloat, double>, &convert_run<float, double>, &convert_run<double, double>},
    {CODETTA_CONVERSIONS(i32), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr},
    {CODETTA_CONVERSIONS(i64), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr},
    {&convert_run<Bool, i16>, &convert_run<i8, i16>, &convert_run<i16, i16>, nullptr, nullptr, &convert_run<u8, i16>,
     nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr},
    &transpose_plain<u16>,
    &transpose_words,
    &transpose_plain<u64>,
    &transpose_plain<u8>,
    &interleave_pairs,
    &interleave_quads,
    &sum_quads<i8>,
    &sum_quads<u8>,
};
#undef CODETTA_CONVERSIONS

// The table of a level. packed: f32, f64, int32, int16, int64; the first three read B in place as well. widened: B read
// in place as bf16, f16, int8, uint8. dot: by Source.
constexpr MicroTable level_table(const KernelSet (&packed)[5], const KernelSet (&widened)[4], const DotSet (&dot)[source_count]) {
  MicroTable t;
  for (int i = 0; i < 4; ++i) t.packed[i] = packed[i];
  t.packed[static_cast<int>(Product::int64)] = packed[4];
  for (int i = 0; i < 3; ++i) t.in_place[i] = packed[i];
  for (int i = 0; i < 4; ++i) t.in_place[3 + i] = widened[i];
  for (int i = 0; i < source_count; ++i) t.dot[i] = dot[i];
  t.packers = &packers;
  return t;
}

}  // namespace codetta::cpu::CODETTA_MICRO_ISA
