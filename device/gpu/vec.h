// SPDX-License-Identifier: Apache-2.0
// What a thread holds at a position: `lanes` adjacent columns of one row. Types and splats; access.h loads and stores.
// Header-free, as everything here; the emitted text defines CODETTA_LANES (a power of two) before the first include.
#pragma once

#include "device/gpu/abi.h"
#include "device/gpu/builtins.h"

// A statement for each lane `i`. NVVM takes a tenth less for a kernel where it finds them side by side, and not as
// loops to unroll.
#if defined __HIP_PLATFORM_AMD__ || defined __METAL_VERSION__ || CODETTA_LANES > 8
#define CODETTA_EACH_LANE(...) \
  _Pragma("unroll") for (int i = 0; i < lanes; ++i) { __VA_ARGS__; }
#else
#define CODETTA_LANE(lane, ...) \
  {                             \
    constexpr int i = lane;     \
    __VA_ARGS__;                \
  }
#define CODETTA_LANES_1(first, ...) CODETTA_LANE(first, __VA_ARGS__)
#define CODETTA_LANES_2(first, ...) CODETTA_LANES_1(first, __VA_ARGS__) CODETTA_LANES_1(first + 1, __VA_ARGS__)
#define CODETTA_LANES_4(first, ...) CODETTA_LANES_2(first, __VA_ARGS__) CODETTA_LANES_2(first + 2, __VA_ARGS__)
#define CODETTA_LANES_8(first, ...) CODETTA_LANES_4(first, __VA_ARGS__) CODETTA_LANES_4(first + 4, __VA_ARGS__)
#define CODETTA_LANES_OF(count) CODETTA_LANES_##count
#define CODETTA_LANES_NAMED(count) CODETTA_LANES_OF(count)
#define CODETTA_EACH_LANE(...) \
  { CODETTA_LANES_NAMED(CODETTA_LANES)(0, __VA_ARGS__) }
#endif

namespace codetta::gpu {

CODETTA_CONSTANT int lanes = CODETTA_LANES;
using f32 = float;
#ifndef __METAL_VERSION__
using f64 = double;
#endif

// Element types in memory that are no C++ types.
struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};
struct f8e4m3 {
  u8 bits;
};
struct f8e5m2 {
  u8 bits;
};

constexpr int bytes_at_most_16(int n) { return n < 16 ? n : 16; }

template <class T>
struct alignas(bytes_at_most_16(lanes*(int)sizeof(T))) Vec {
  using element = T;
  T e[lanes];
};
template <class V>
using element = typename V::element;

using i8v = Vec<i8>;
using i16v = Vec<i16>;
using i32v = Vec<i32>;
using i64v = Vec<i64>;
using u8v = Vec<u8>;
using u16v = Vec<u16>;
using u32v = Vec<u32>;
using u64v = Vec<u64>;
using f32v = Vec<f32>;
#ifndef __METAL_VERSION__
using f64v = Vec<f64>;
#endif
using boolv = Vec<bool>;

template <class T>
CODETTA_CONSTANT bool is_float = false;
#ifdef __METAL_VERSION__
template <>
CODETTA_CONSTANT bool is_float<f32> = true;
#else
// Inline, or each object would export them.
template <>
inline constexpr bool is_float<f32> = true;
template <>
inline constexpr bool is_float<f64> = true;
#endif
template <class T>
CODETTA_CONSTANT bool is_signed = (T)-1 < (T)0;

template <bool, class Yes, class No>
struct Choose {
  using type = Yes;
};
template <class Yes, class No>
struct Choose<false, Yes, No> {
  using type = No;
};
// In which integers are added and multiplied, so that they wrap: no narrower than u32, against promotion to int.
template <class T>
using wrapping = typename Choose<sizeof(T) == 8, u64, u32>::type;

template <class V, class S>
CODETTA_FN V splat(S s) {
  V v;
  CODETTA_EACH_LANE(v.e[i] = (element<V>)s);
  return v;
}

template <class V>
CODETTA_FN V select(boolv m, V x, V y) {
  V r;
  CODETTA_EACH_LANE(r.e[i] = m.e[i] ? x.e[i] : y.e[i]);
  return r;
}

}  // namespace codetta::gpu
