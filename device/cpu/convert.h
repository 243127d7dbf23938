// SPDX-License-Identifier: Apache-2.0
// Conversions between element types: widen_<dtype> after a load, narrow_<dtype> before a store (one rounding), and
// ct_cast's truncating forms. They agree bit for bit with src/types/convert.hpp (NaN payloads apart).
#pragma once

#include "device/cpu/vec.h"

namespace codetta::cpu {

//% extend
// 8- or 16-bit integers to 32 bits in one instruction where compilers take several.
template <class To, class V>
CODETTA_FN To extend(V x) {
#if defined(__AVX2__)
  if constexpr (sizeof(V) >= 16) {
    constexpr bool is_signed = (element<V>)-1 < (element<V>)0;
    To r;
    if constexpr (sizeof(V) == 2 * lanes && !is_signed) asm("vpmovzxwd %1, %0" : "=v"(r) : "v"(x));
    if constexpr (sizeof(V) == 2 * lanes && is_signed) asm("vpmovsxwd %1, %0" : "=v"(r) : "v"(x));
    if constexpr (sizeof(V) == lanes && !is_signed) asm("vpmovzxbd %1, %0" : "=v"(r) : "v"(x));
    if constexpr (sizeof(V) == lanes && is_signed) asm("vpmovsxbd %1, %0" : "=v"(r) : "v"(x));
    return r;
  }
#endif
  return __builtin_convertvector(x, To);
}

//% convert_to
// Between integers: wraps. To floats: one rounding. Four bytes to one go by two, which compilers do well.
template <class To, class V>
CODETTA_FN To convert_to(V x) {
  if constexpr (sizeof(To) == lanes && sizeof(V) == 4 * lanes && !is_float<V>) {
    return __builtin_convertvector(__builtin_convertvector(x, u16v), To);
  } else if constexpr (sizeof(V) < 4 * lanes && sizeof(To) == 4 * lanes) {
    return __builtin_convertvector(extend<i32v>(x), To);
  } else {
    return __builtin_convertvector(x, To);
  }
}

//% widen_bool
CODETTA_FN boolv widen_bool(u8v raw) { return widen_mask(raw != u8v{}); }

//% narrow_bool
CODETTA_FN u8v narrow_bool(boolv x) { return convert_to<u8v>(x & 1); }

//% to_bool
// Nonzero and NaN are true.
template <class V>
CODETTA_FN boolv to_bool(V x) {
  return widen_mask(x != V{});
}

//% bool_to
template <class V>
CODETTA_FN V bool_to(boolv x) {
  return __builtin_convertvector(x & 1, V);
}

//% widen_bf16
CODETTA_FN f32v widen_bf16(u16v raw) { return (f32v)(extend<u32v>(raw) << 16); }

//% narrow_bf16_bits
// To nearest even on the bits; a NaN keeps its sign and becomes quiet.
CODETTA_FN u16v narrow_bf16_bits(f32v x) {
  const u32v b = (u32v)x;
  const u32v r = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  return __builtin_convertvector(x == x ? r : ((b >> 16) | 0x40u), u16v);
}

//% narrow_bf16
CODETTA_FN u16v narrow_bf16(f32v x) {
#if defined(__AVX512BF16__) && CODETTA_LANES >= 8
  // The instruction does the same but takes subnormal numbers as 0: vectors with one among them go the long way.
  unsigned short subnormal;
  asm("vfpclassps $0x20, %1, %0" : "=Yk"(subnormal) : "v"(x));
  if (__builtin_expect(subnormal == 0, 1)) {
    u16v r;
    asm("vcvtneps2bf16 %1, %0" : "=v"(r) : "v"(x));
    return r;
  }
#endif
  return narrow_bf16_bits(x);
}

//% widen_small
// A float with `man` fraction bits and exponent bias `bias`; codes from `special` on are inf (fraction 0) or NaN.
template <int man, int bias, u32 special, int width>
CODETTA_FN f32v widen_small(u32v code) {
  const u32v sign = (code >> (width - 1)) << 31;
  const u32v m = code & ((1u << (width - 1)) - 1);
  const f32v tiny = __builtin_convertvector((i32v)m, f32v) * (1.0f / (f32)(1u << (bias - 1)) / (f32)(1u << man));
  const u32v normal = (m << (23 - man)) + ((127u - bias) << 23);
  u32v b = m < (1u << man) ? (u32v)tiny : normal;
  b = m >= special ? (m << (23 - man)) | 0x7f800000u : b;
  return (f32v)(b | sign);
}

//% narrow_small
// To nearest even. Magnitudes that round beyond `largest` give `overflow`; NaN gives `nan`.
template <int man, int bias, u32 largest, u32 overflow, u32 nan, int width>
CODETTA_FN u32v narrow_small(f32v x) {
  const u32v b = (u32v)x & 0x7fffffffu;
  const u32v sign = ((u32v)x >> 31) << (width - 1);
  const u32v normal =
      ((b + ((1u << (22 - man)) - 1) + ((b >> (23 - man)) & 1u)) >> (23 - man)) - ((127u - bias) << man);
  const f32 magic = (f32)(1u << 23) * (1.0f / (f32)(1u << (bias - 1)) / (f32)(1u << man));
  const u32v tiny = (u32v)((f32v)b + magic) - (u32v)splat<f32v>(magic);
  u32v r = b < ((128u - bias) << 23) ? tiny : normal;
  r = r > largest ? splat<u32v>(overflow) : r;
  r = b > 0x7f800000u ? splat<u32v>(nan) : r;
  return r | sign;
}

//% widen_f16
CODETTA_FN f32v widen_f16(u16v raw) {
#if defined(__F16C__) && CODETTA_LANES >= 8
  f32v x;
  asm("vcvtph2ps %1, %0" : "=v"(x) : "v"(raw));
  return x;
#else
  return widen_small<10, 15, 0x7c00, 16>(extend<u32v>(raw));
#endif
}

//% narrow_f16
CODETTA_FN u16v narrow_f16(f32v x) {
#if defined(__F16C__) && CODETTA_LANES >= 8
  u16v r;
  asm("vcvtps2ph $0, %1, %0" : "=v"(r) : "v"(x));
  return r;
#else
  return __builtin_convertvector((narrow_small<10, 15, 0x7bff, 0x7c00, 0x7e00, 16>(x)), u16v);
#endif
}

//% widen_f8e4m3
CODETTA_FN f32v widen_f8e4m3(u8v raw) { return widen_small<3, 7, 0x7f, 8>(extend<u32v>(raw)); }

//% narrow_f8e4m3
CODETTA_FN u8v narrow_f8e4m3(f32v x) { return convert_to<u8v>(narrow_small<3, 7, 0x7e, 0x7e, 0x7f, 8>(x)); }

//% widen_f8e5m2
CODETTA_FN f32v widen_f8e5m2(u8v raw) { return widen_small<2, 15, 0x7c, 8>(extend<u32v>(raw)); }

//% narrow_f8e5m2
CODETTA_FN u8v narrow_f8e5m2(f32v x) { return convert_to<u8v>(narrow_small<2, 15, 0x7b, 0x7b, 0x7e, 8>(x)); }

//% to_odd
// f64 to f32 rounded to odd: a further rounding to a format of at most 22 bits is then the only one.
CODETTA_FN f32v to_odd(f64v x) {
  const f32v near = __builtin_convertvector(x, f32v);
  const f64v back = __builtin_convertvector(near, f64v);
  const f64v ax = (f64v)((u64v)x & (~u64v{} >> 1)), ab = (f64v)((u64v)back & (~u64v{} >> 1));
  const u32v b = (u32v)near;
  const boolv inexact = widen_mask(ax != ab) & ~widen_mask(x != x);
  const boolv up = widen_mask(ab > ax);
  const u32v down = b - (u32v)(up & 1);  // towards zero; from inf to the largest finite
  return (f32v)(inexact ? (down | 1u) : b);
}

//% exact_or_odd
// Integers of 32 (To = f32) or 64 bits (To = f64) as floats such that one rounding to at most 22 bits may follow: the
// bits that the float cannot hold go into the last one that it can.
template <class To, class V>
CODETTA_FN To exact_or_odd(V x) {
  constexpr int dropped = sizeof(element<V>) == 4 ? 8 : 11;
  constexpr element<V> mask = ((element<V>)1 << dropped) - 1;
  const V lost = (V)((x & mask) != V{}) & (mask + 1);
  const V top = x >> (sizeof(element<V>) * 8 - 1 - dropped);  // 0 or -1: it fits
  const auto small = (top == V{}) | (top == ~V{});
  return __builtin_convertvector(small ? x : ((x & ~mask) | lost), To);
}

//% nearest_even
// Rounds to integral values; |x| >= 2^23 (f32), 2^52 (f64), inf and NaN are returned as they are.
CODETTA_FN f32v nearest_even(f32v x) {
  const u32v sign = (u32v)x & 0x80000000u;
  const f32v a = (f32v)((u32v)x & 0x7fffffffu);
  const f32v r = (a + 0x1p23f) - 0x1p23f;
  return (f32v)((u32v)(a < splat<f32v>(0x1p23f) ? r : a) | sign);
}
CODETTA_FN f64v nearest_even(f64v x) {
  const u64v sign = (u64v)x & ~(~u64v{} >> 1);
  const f64v a = (f64v)((u64v)x & (~u64v{} >> 1));
  const f64v r = (a + 0x1p52) - 0x1p52;
  return (f64v)((u64v)(a < splat<f64v>(0x1p52) ? r : a) | sign);
}

//% clamped_to
// x clamped to the values of an 8- or 16-bit integer; NaN gives 0.
template <class To, class V>
CODETTA_FN V clamped_to(V x) {
  constexpr bool is_signed = (element<To>)-1 < (element<To>)0;
  constexpr int top = (1 << (sizeof(element<To>) * 8 - (is_signed ? 1 : 0))) - 1;
  const V high = splat<V>(top), low = splat<V>(is_signed ? -top - 1 : 0);
  V y = high < x ? high : x;
  y = low > y ? low : y;
  return x == x ? y : V{};
}

//% truncate_to
// Float to integer: towards zero, saturating, NaN gives 0. The bounds are exact in both float types.
template <class To, class V>
CODETTA_FN To truncate_to(V x) {
  using E = element<To>;
  if constexpr (sizeof(E) < 4) {
    return convert_to<To>(__builtin_convertvector(clamped_to<To>(x), i32v));
  } else {
    constexpr bool is_signed = (E)-1 < (E)0;
    constexpr int bits = (int)sizeof(E) * 8 - (is_signed ? 1 : 0);
    constexpr element<V> above = (element<V>)((u64)1 << (bits - 1)) * 2;  // the first value that is too large
    constexpr element<V> below = is_signed ? -above : 0;
    constexpr E top = (E)(((((u64)1 << (bits - 1)) - 1) << 1) + 1);
    const boolv high = widen_mask(x >= splat<V>(above));
    const boolv in = widen_mask(x > splat<V>(below)) & ~high;
    const boolv low = widen_mask(x <= splat<V>(below));
    To r = __builtin_convertvector(select(in, x, V{}), To);
    r = select(high, splat<To>(top), r);
    if constexpr (is_signed) r = select(low, splat<To>((E)(-top - 1)), r);
    return r;
  }
}

//% round_and_pack
// f32 to an 8- or 16-bit integer. What is too low, and NaN, converts to the least i32 and saturates from there.
#if defined(__AVX512BW__) && CODETTA_LANES == 16
template <class To>
CODETTA_FN To round_and_pack(f32v x) {
  constexpr bool is_signed = (element<To>)-1 < (element<To>)0, is_byte = sizeof(element<To>) == 1;
  const f32v top = splat<f32v>((1 << (sizeof(element<To>) * 8 - (is_signed ? 1 : 0))) - 1);
  f32v y = x;
  if constexpr (!is_signed) asm("vmaxps %1, %2, %0" : "=v"(y) : "v"(f32v{}), "v"(x));  // the second where x is NaN
  asm("vminps %1, %2, %0" : "=v"(y) : "v"(y), "v"(top));
  i32v n;
  To r;
  if constexpr (is_signed) {
    unsigned short numbers;
    asm("vcmpordps %1, %1, %0" : "=Yk"(numbers) : "v"(x));
    asm("vcvtps2dq %1, %0%{%2%}%{z%}" : "=v"(n) : "v"(y), "Yk"(numbers));
  } else {
    asm("vcvtps2dq %1, %0" : "=v"(n) : "v"(y));
  }
  if constexpr (is_signed) {
    if constexpr (is_byte) {
      asm("vpmovsdb %1, %0" : "=v"(r) : "v"(n));
    } else {
      asm("vpmovsdw %1, %0" : "=v"(r) : "v"(n));
    }
  } else if constexpr (is_byte) {
    asm("vpmovusdb %1, %0" : "=v"(r) : "v"(n));
  } else {
    asm("vpmovusdw %1, %0" : "=v"(r) : "v"(n));
  }
  return r;
}
#endif

//% round_to
// Float to integer as an implicit store does it: to nearest even, saturating, NaN gives 0.
template <class To, class V>
CODETTA_FN To round_to(V x) {
#if defined(__AVX512BW__) && CODETTA_LANES == 16
  if constexpr (sizeof(element<To>) < 4 && sizeof(element<V>) == 4) return round_and_pack<To>(x);
#endif
  if constexpr (sizeof(element<To>) < 4 && sizeof(element<V>) == 4) {
    const V magic = splat<V>(0x1.8p23f);
    return convert_to<To>((i32v)(clamped_to<To>(x) + magic) - (i32v)magic);
  } else {
    return truncate_to<To>(nearest_even(x));
  }
}

//% .
}  // namespace codetta::cpu
