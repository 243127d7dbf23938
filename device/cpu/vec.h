// SPDX-License-Identifier: Apache-2.0
// Vectors of `lanes` elements for every element type: types, raw loads and stores with tails, gathers and scatters.
//
// This and the other device/cpu headers are header-free: compiler builtins and GNU vector extensions only (GCC >= 12,
// Clang >= 16). A line `//% names` begins a part that provides those names; emit/ copies the parts that a kernel needs,
// in the order of the files, and finds what a part needs by the names it mentions. `//% .` ends the last part.
// Memory safety: nothing outside the n valid elements is read or written, whatever n is (1 <= n <= lanes).
#pragma once

#include "device/cpu/abi.h"

#ifndef CODETTA_LANES
#if defined(__AVX512BW__)
#define CODETTA_LANES 16
#elif defined(__AVX2__)
#define CODETTA_LANES 8
#else
#define CODETTA_LANES 4
#endif
#endif

namespace codetta::cpu {

//% core
#define CODETTA_FN static inline __attribute__((always_inline, unused))
#define CODETTA_MEMBER inline __attribute__((always_inline))

constexpr int lanes = CODETTA_LANES;
using f32 = float;
using f64 = double;
typedef i8 i8v __attribute__((vector_size(lanes)));
typedef i16 i16v __attribute__((vector_size(lanes * 2)));
typedef i32 i32v __attribute__((vector_size(lanes * 4)));
typedef i64 i64v __attribute__((vector_size(lanes * 8)));
typedef u8 u8v __attribute__((vector_size(lanes)));
typedef u16 u16v __attribute__((vector_size(lanes * 2)));
typedef u32 u32v __attribute__((vector_size(lanes * 4)));
typedef u64 u64v __attribute__((vector_size(lanes * 8)));
typedef f32 f32v __attribute__((vector_size(lanes * 4)));
typedef f64 f64v __attribute__((vector_size(lanes * 8)));
using boolv = i32v;  // lanes of 0 (false) and -1 (true), whatever was compared

template <class V>
struct ElementOf {
  typedef __typeof__(V{}[0]) type;
};
template <class V>
using element = typename ElementOf<V>::type;

// s in every lane (x - 0 is x for every float, -0 and NaN included).
template <class V, class S>
CODETTA_FN V splat(S s) {
  return (element<V>)s - V{};
}

//% widen_mask
// The result of a comparison as a boolv.
template <class M>
CODETTA_FN boolv widen_mask(M m) {
  return __builtin_convertvector(m, boolv);
}

//% select
template <class V>
CODETTA_FN V select(boolv m, V x, V y) {
  return __builtin_convertvector(m, __typeof__(x == y)) ? x : y;
}

//% unsigned_of UnsignedElement
template <int bytes>
struct UnsignedBySize;
template <>
struct UnsignedBySize<1> {
  using type = u8v;
};
template <>
struct UnsignedBySize<2> {
  using type = u16v;
};
template <>
struct UnsignedBySize<4> {
  using type = u32v;
};
template <>
struct UnsignedBySize<8> {
  using type = u64v;
};
template <int bytes>
struct UnsignedElement {
  using type = element<typename UnsignedBySize<bytes>::type>;
};
template <class V>
using unsigned_of = typename UnsignedBySize<sizeof(V) / lanes>::type;

//% is_float
template <class V>
constexpr bool is_float = false;
template <>
inline constexpr bool is_float<f32v> = true;
template <>
inline constexpr bool is_float<f64v> = true;

//% When
// Keeps a template out of overload sets where the condition is false.
template <bool>
struct When {};
template <>
struct When<true> {
  using type = int;
};

//% load_all
template <class V>
CODETTA_FN V load_all(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

//% store_all
template <class V>
CODETTA_FN void store_all(void* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}

//% copy_elements
// Element by element, never beyond count. Kept out of line: it serves tails only.
template <class E>
__attribute__((noinline, unused)) static void copy_elements(E* to, i64 to_stride, const E* from, i64 from_stride,
                                                            i64 count) {
  for (i64 i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
}

//% load
// The first n elements at p; the other lanes are 0 or unspecified. (No register constraint takes 8-byte vectors in
// Clang. Where all lanes are known to be valid there is no mask.)
template <class V, class E>
CODETTA_FN V load(const E* p, i64 n) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) >= 16) {
    if (__builtin_constant_p(n == lanes) && n == lanes) return load_all<V>(p);
    const u16 k = (u16)((1u << n) - 1);
    typedef V M __attribute__((aligned(1), may_alias));
    V v;
    if constexpr (sizeof(E) == 1) asm("vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(v) : "m"(*(const M*)p), "Yk"(k));
    if constexpr (sizeof(E) == 2) asm("vmovdqu16 %1, %0%{%2%}%{z%}" : "=v"(v) : "m"(*(const M*)p), "Yk"(k));
    if constexpr (sizeof(E) == 4) asm("vmovups %1, %0%{%2%}%{z%}" : "=v"(v) : "m"(*(const M*)p), "Yk"(k));
    if constexpr (sizeof(E) == 8) asm("vmovupd %1, %0%{%2%}%{z%}" : "=v"(v) : "m"(*(const M*)p), "Yk"(k));
    return v;
  }
#endif
  if (__builtin_expect(n == lanes, 1)) return load_all<V>(p);
  E part[lanes] = {};
  copy_elements(part, 1, p, 1, n);
  return load_all<V>(part);
}

//% store
template <class E, class V>
CODETTA_FN void store(E* p, V v, i64 n) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) >= 16) {
    if (__builtin_constant_p(n == lanes) && n == lanes) return store_all(p, v);
    const u16 k = (u16)((1u << n) - 1);
    typedef V M __attribute__((aligned(1), may_alias));
    if constexpr (sizeof(E) == 1) asm("vmovdqu8 %1, %0%{%2%}" : "+m"(*(M*)p) : "v"(v), "Yk"(k));
    if constexpr (sizeof(E) == 2) asm("vmovdqu16 %1, %0%{%2%}" : "+m"(*(M*)p) : "v"(v), "Yk"(k));
    if constexpr (sizeof(E) == 4) asm("vmovups %1, %0%{%2%}" : "+m"(*(M*)p) : "v"(v), "Yk"(k));
    if constexpr (sizeof(E) == 8) asm("vmovupd %1, %0%{%2%}" : "+m"(*(M*)p) : "v"(v), "Yk"(k));
    return;
  }
#endif
  if (__builtin_expect(n == lanes, 1)) return store_all(p, v);
  E part[lanes];
  store_all(part, v);
  copy_elements(p, 1, part, 1, n);
}

//% gather
// Elements at p, p + stride, ...
template <class V, class E>
CODETTA_FN V gather(const E* p, i64 stride, i64 n) {
  E part[lanes] = {};
  copy_elements(part, 1, p, stride, n);
  return load_all<V>(part);
}

//% scatter
template <class E, class V>
CODETTA_FN void scatter(E* p, i64 stride, V v, i64 n) {
  E part[lanes];
  store_all(part, v);
  copy_elements(p, stride, part, 1, n);
}

//% iota
template <class V>
CODETTA_FN V iota() {
  static const i32 numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return __builtin_convertvector(load_all<i32v>(numbers), V);
}

//% valid_lanes
// True in the first n lanes.
CODETTA_FN boolv valid_lanes(i64 n) { return iota<i32v>() < splat<i32v>((i32)n); }

//% .
}  // namespace codetta::cpu
