// SPDX-License-Identifier: Apache-2.0
// Conversions between element types: widen_<dtype> after a load, narrow_<dtype> before a store (one rounding), and
// ct_cast's truncating forms. They agree bit for bit with src/types/convert.hpp (NaN payloads apart).
#pragma once

#include "device/gpu/vec.h"

namespace codetta::gpu {

CODETTA_FN boolv widen_bool(u8v raw) {
  boolv r;
  CODETTA_EACH_LANE(r.e[i] = raw.e[i] != 0);
  return r;
}
CODETTA_FN u8v narrow_bool(boolv x) {
  u8v r;
  CODETTA_EACH_LANE(r.e[i] = x.e[i] ? 1 : 0);
  return r;
}
// Nonzero and NaN are true.
template <class V>
CODETTA_FN boolv to_bool(V x) {
  boolv r;
  CODETTA_EACH_LANE(r.e[i] = x.e[i] != (element<V>)0);
  return r;
}
template <class V>
CODETTA_FN V bool_to(boolv x) {
  V r;
  CODETTA_EACH_LANE(r.e[i] = x.e[i] ? (element<V>)1 : (element<V>)0);
  return r;
}
// Between integers: wraps. To floats: one rounding.
template <class V, class W>
CODETTA_FN V convert_to(W x) {
  V r;
  CODETTA_EACH_LANE(r.e[i] = (element<V>)x.e[i]);
  return r;
}

// A float with `man` fraction bits and exponent bias `bias`; codes from `special` on are inf (fraction 0) or NaN.
template <int man, int bias, u32 special>
CODETTA_FN f32 widen_small(u32 code) {
  const u32 sign = (code >> 7) << 31;
  const u32 m = code & 0x7f;
  const f32 tiny = (f32)m * (1.0f / (f32)(1u << (bias - 1)) / (f32)(1u << man));
  u32 b = m < (1u << man) ? float_to_bits(tiny) : (m << (23 - man)) + ((127u - bias) << 23);
  if (m >= special) b = (m << (23 - man)) | 0x7f800000u;
  return bits_to_float(b | sign);
}
// To nearest even, saturating at `largest`; NaN gives `nan`.
template <int man, int bias, u32 largest, u32 nan>
CODETTA_FN u32 narrow_small(f32 x) {
  const u32 b = float_to_bits(x) & 0x7fffffffu;
  const u32 sign = (float_to_bits(x) >> 31) << 7;
  const u32 normal = ((b + ((1u << (22 - man)) - 1) + ((b >> (23 - man)) & 1u)) >> (23 - man)) - ((127u - bias) << man);
  const f32 magic = (f32)(1u << 23) * (1.0f / (f32)(1u << (bias - 1)) / (f32)(1u << man));
  const u32 tiny = float_to_bits(bits_to_float(b) + magic) - float_to_bits(magic);
  u32 r = b < ((128u - bias) << 23) ? tiny : normal;
  if (r > largest) r = largest;
  if (b > 0x7f800000u) r = nan;
  return r | sign;
}

CODETTA_FN f32 widen(bf16 x) { return bits_to_float((u32)x.bits << 16); }
CODETTA_FN f32 widen(f16 x) { return unpack_f16(x.bits); }
#if CODETTA_HAS_FP8
CODETTA_FN f32 widen(f8e4m3 x) { return unpack_f16((u16)unpack_f8e4m3(x.bits)); }
CODETTA_FN f32 widen(f8e5m2 x) { return unpack_f16((u16)unpack_f8e5m2(x.bits)); }
#else
CODETTA_FN f32 widen(f8e4m3 x) { return widen_small<3, 7, 0x7f>(x.bits); }
CODETTA_FN f32 widen(f8e5m2 x) { return widen_small<2, 15, 0x7c>(x.bits); }
#endif
template <class T>
CODETTA_FN T widen(T x) {
  return x;
}

// Two lanes of a word at a time: what loads give lies in words, of which single lanes would have to be taken out first.
CODETTA_FN f32v widen_bf16(u16v raw) {
  f32v r;
#ifndef __METAL_VERSION__
  if constexpr (lanes > 1) {
    u32 words[lanes / 2 + 1];
    memcpy(words, &raw, sizeof raw);
    CODETTA_EACH_LANE(r.e[i] = bits_to_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u));
  } else
#endif
  {
    CODETTA_EACH_LANE(r.e[i] = widen(bf16{raw.e[i]}));
  }
  return r;
}
CODETTA_FN f32v widen_f16(u16v raw) {
  f32v r;
  CODETTA_EACH_LANE(r.e[i] = widen(f16{raw.e[i]}));
  return r;
}
CODETTA_FN f32v widen_f8e4m3(u8v raw) {
  f32v r;
  CODETTA_EACH_LANE(r.e[i] = widen(f8e4m3{raw.e[i]}));
  return r;
}
CODETTA_FN f32v widen_f8e5m2(u8v raw) {
  f32v r;
  CODETTA_EACH_LANE(r.e[i] = widen(f8e5m2{raw.e[i]}));
  return r;
}

// Two lanes an instruction; a single lane is paired with itself.
constexpr int pair_of(int i) { return i + 1 < lanes ? i + 1 : i; }
CODETTA_FN u32 pack_as(bf16, f32 low, f32 high) { return pack_bf16(low, high); }
CODETTA_FN u32 pack_as(f16, f32 low, f32 high) { return pack_f16(low, high); }
template <class T>
CODETTA_FN u16v narrow_pairs(f32v x) {
  u16v r;
#ifdef __METAL_VERSION__
#pragma unroll
  for (int i = 0; i < lanes; i += 2) {
    const u32 two = pack_as(T{}, x.e[i], x.e[pair_of(i)]);
    r.e[pair_of(i)] = (u16)(two >> 16);
    r.e[i] = (u16)two;
  }
#else
  u32 words[(lanes + 1) / 2];
  CODETTA_EACH_LANE(if (i % 2 == 0) words[i / 2] = pack_as(T{}, x.e[i], x.e[pair_of(i)]));
  memcpy(&r, words, sizeof r);
#endif
  return r;
}
CODETTA_FN u16v narrow_bf16(f32v x) { return narrow_pairs<bf16>(x); }
CODETTA_FN u16v narrow_f16(f32v x) { return narrow_pairs<f16>(x); }
CODETTA_FN u8v narrow_f8e4m3(f32v x) {
  u8v r;
#if CODETTA_HAS_FP8
#pragma unroll
  for (int i = 0; i < lanes; i += 2) {
    const u16 two = pack_f8e4m3(x.e[i], x.e[pair_of(i)]);
    r.e[pair_of(i)] = (u8)(two >> 8);
    r.e[i] = (u8)two;
  }
#else
  CODETTA_EACH_LANE(r.e[i] = (u8)narrow_small<3, 7, 0x7e, 0x7f>(x.e[i]));
#endif
  return r;
}
CODETTA_FN u8v narrow_f8e5m2(f32v x) {
  u8v r;
#if CODETTA_HAS_FP8
#pragma unroll
  for (int i = 0; i < lanes; i += 2) {
    const u16 two = pack_f8e5m2(x.e[i], x.e[pair_of(i)]);
    r.e[pair_of(i)] = (u8)(two >> 8);
    r.e[i] = (u8)two;
  }
#else
  CODETTA_EACH_LANE(r.e[i] = (u8)narrow_small<2, 15, 0x7b, 0x7e>(x.e[i]));
#endif
  return r;
}

#ifndef __METAL_VERSION__
// f64 to f32 rounded to odd: a further rounding to a format of at most 22 bits is then the only one.
CODETTA_FN f32v to_odd(f64v x) {
  f32v r;
  CODETTA_EACH_LANE({
    const f32 cut = __double2float_rz(x.e[i]);
    const bool inexact = (f64)cut != x.e[i] && x.e[i] == x.e[i];
    r.e[i] = bits_to_float(float_to_bits(cut) | (inexact ? 1u : 0u));
  });
  return r;
}
#endif

// Integers of 32 (V = f32v) or 64 bits (V = f64v, or f32v where there is no f64) as floats such that one rounding to at
// most 22 bits may follow: the bits that the float cannot hold go into the last one that it can.
template <class V, class W>
CODETTA_FN V exact_or_odd(W x) {
  using T = element<W>;
  V r;
  if constexpr (sizeof(T) == 8 && sizeof(element<V>) == 4) {
    CODETTA_EACH_LANE({
      const bool negative = is_signed<T> && x.e[i] < 0;
      u64 n = negative ? (u64)0 - (u64)x.e[i] : (u64)x.e[i];
      u32 dropped = 0;
      while (n >> dropped >= ((u64)1 << 24)) dropped += 8;
      const u64 rest = n & (((u64)1 << dropped) - 1);
      n = (n >> dropped) | (rest != 0 ? 1 : 0);
      const element<V> f = (element<V>)n * (element<V>)((u64)1 << dropped);
      r.e[i] = negative ? -f : f;
    });
  } else {
    constexpr int dropped = sizeof(T) == 4 ? 8 : 11;
    constexpr T mask = ((T)1 << dropped) - 1;
    CODETTA_EACH_LANE({
      const T n = x.e[i];
      const T top = n >> (sizeof(T) * 8 - 1 - dropped);  // 0 or -1: it fits
      const bool small = top == 0 || top == (T) ~(T)0;
      r.e[i] = (element<V>)(small ? n : (T)((n & ~mask) | ((n & mask) != 0 ? mask + 1 : 0)));
    });
  }
  return r;
}

CODETTA_FN i32 rounded(f32 x, i32) { return __float2int_rn(x); }
CODETTA_FN u32 rounded(f32 x, u32) { return __float2uint_rn(x); }
CODETTA_FN i64 rounded(f32 x, i64) { return __float2ll_rn(x); }
CODETTA_FN u64 rounded(f32 x, u64) { return __float2ull_rn(x); }
#ifndef __METAL_VERSION__
CODETTA_FN i32 rounded(f64 x, i32) { return __double2int_rn(x); }
CODETTA_FN u32 rounded(f64 x, u32) { return __double2uint_rn(x); }
CODETTA_FN i64 rounded(f64 x, i64) { return __double2ll_rn(x); }
CODETTA_FN u64 rounded(f64 x, u64) { return __double2ull_rn(x); }
#endif
CODETTA_FN i32 truncated(f32 x, i32) { return __float2int_rz(x); }
CODETTA_FN u32 truncated(f32 x, u32) { return __float2uint_rz(x); }
CODETTA_FN i64 truncated(f32 x, i64) { return __float2ll_rz(x); }
CODETTA_FN u64 truncated(f32 x, u64) { return __float2ull_rz(x); }
#ifndef __METAL_VERSION__
CODETTA_FN i32 truncated(f64 x, i32) { return __double2int_rz(x); }
CODETTA_FN u32 truncated(f64 x, u32) { return __double2uint_rz(x); }
CODETTA_FN i64 truncated(f64 x, i64) { return __double2ll_rz(x); }
CODETTA_FN u64 truncated(f64 x, u64) { return __double2ull_rz(x); }
#endif

// An i32 to the values of an 8- or 16-bit integer.
template <class T>
CODETTA_FN T saturated(i32 n) {
  constexpr i32 top = (1 << (sizeof(T) * 8 - (is_signed<T> ? 1 : 0))) - 1, low = is_signed<T> ? -top - 1 : 0;
  return (T)(n > top ? top : n < low ? low : n);
}

// Float to integer: towards zero, saturating (so does the instruction); NaN gives 0.
template <class V, class W>
CODETTA_FN V truncate_to(W x) {
  using T = element<V>;
  V r;
  CODETTA_EACH_LANE({
    const element<W> y = x.e[i] == x.e[i] ? x.e[i] : (element<W>)0;
    if constexpr (sizeof(T) < 4)
      r.e[i] = saturated<T>(truncated(y, i32{}));
    else
      r.e[i] = truncated(y, T{});
  });
  return r;
}
// As an implicit store does it: to nearest even.
template <class V, class W>
CODETTA_FN V round_to(W x) {
  using T = element<V>;
  V r;
  CODETTA_EACH_LANE({
    const element<W> y = x.e[i] == x.e[i] ? x.e[i] : (element<W>)0;
    if constexpr (sizeof(T) < 4)
      r.e[i] = saturated<T>(rounded(y, i32{}));
    else
      r.e[i] = rounded(y, T{});
  });
  return r;
}

}  // namespace codetta::gpu
