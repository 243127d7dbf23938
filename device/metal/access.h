// SPDX-License-Identifier: Apache-2.0
// Raw loads and stores of the lanes that a thread holds, in device memory.
#pragma once

#include "device/gpu/vec.h"

namespace codetta::gpu {

// Element types that are no types of the language are read by their bits.
template <class T>
CODETTA_FN T element_at(const device T* p) {
  return *p;
}
CODETTA_FN bf16 element_at(const device bf16* p) { return bf16{*(const device u16*)p}; }
CODETTA_FN f16 element_at(const device f16* p) { return f16{*(const device u16*)p}; }
CODETTA_FN f8e4m3 element_at(const device f8e4m3* p) { return f8e4m3{*(const device u8*)p}; }
CODETTA_FN f8e5m2 element_at(const device f8e5m2* p) { return f8e5m2{*(const device u8*)p}; }

// An element of type T from word `i` and those behind it, and back.
template <class T>
CODETTA_FN T of_words(u32 low, u32 high) {
  if constexpr (sizeof(T) == 8) return (T)((u64)low | ((u64)high << 32));
  if constexpr (sizeof(T) == 4) return as_type<T>(low);
  return (T)low;
}

// All lanes at p, which is a multiple of the vector's alignment.
template <class V>
CODETTA_FN V load_whole(const device element<V>* p) {
  using T = element<V>;
  constexpr int bytes = lanes * (int)sizeof(T), words = bytes < 4 ? 1 : bytes / 4;
  u32 w[words + 1];
  if constexpr (bytes >= 16) {
    for (int i = 0; i < bytes / 16; ++i) {
      const metal::uint4 four = ((const device metal::uint4*)p)[i];
      w[4 * i] = four.x, w[4 * i + 1] = four.y, w[4 * i + 2] = four.z, w[4 * i + 3] = four.w;
    }
  } else if constexpr (bytes == 8) {
    const metal::uint2 two = *(const device metal::uint2*)p;
    w[0] = two.x, w[1] = two.y;
  } else if constexpr (bytes == 4) {
    w[0] = *(const device u32*)p;
  } else if constexpr (bytes == 2) {
    w[0] = *(const device u16*)p;
  } else {
    w[0] = *(const device u8*)p;
  }
  V v;
  CODETTA_EACH_LANE({
    if constexpr (sizeof(T) == 8)
      v.e[i] = of_words<T>(w[2 * i], w[2 * i + 1]);
    else if constexpr (sizeof(T) == 4)
      v.e[i] = of_words<T>(w[i], 0);
    else if constexpr (sizeof(T) == 2)
      v.e[i] = of_words<T>(w[i / 2] >> (16 * (i % 2)), 0);
    else
      v.e[i] = of_words<T>(w[i / 4] >> (8 * (i % 4)), 0);
  });
  return v;
}
// Word `w` of a vector's bytes.
template <class V>
CODETTA_FN u32 word_of_lanes(V v, int w) {
  using T = element<V>;
  if constexpr (sizeof(T) == 8) {
    return (u32)((u64)v.e[w / 2] >> (32 * (w % 2)));
  } else if constexpr (sizeof(T) == 4) {
    return as_type<u32>(v.e[w]);
  } else {
    constexpr int count = 4 / (int)sizeof(T), width = 8 * (int)sizeof(T);
    u32 bits = 0;
    for (int i = 0; i < count && w * count + i < lanes; ++i)
      bits |= ((u32)v.e[w * count + i] & ((1u << width) - 1)) << (width * i);
    return bits;
  }
}
template <class V>
CODETTA_FN void store_whole(device element<V>* p, V v) {
  constexpr int bytes = lanes * (int)sizeof(element<V>);
  if constexpr (bytes >= 16) {
    for (int i = 0; i < bytes / 16; ++i) {
      metal::uint4 four;
      four.x = word_of_lanes(v, 4 * i), four.y = word_of_lanes(v, 4 * i + 1);
      four.z = word_of_lanes(v, 4 * i + 2), four.w = word_of_lanes(v, 4 * i + 3);
      ((device metal::uint4*)p)[i] = four;
    }
  } else if constexpr (bytes == 8) {
    metal::uint2 two;
    two.x = word_of_lanes(v, 0), two.y = word_of_lanes(v, 1);
    *(device metal::uint2*)p = two;
  } else if constexpr (bytes == 4) {
    *(device u32*)p = word_of_lanes(v, 0);
  } else {
    CODETTA_EACH_LANE(p[i] = v.e[i]);
  }
}

// The first n elements at p, p + stride, ...; the other lanes are 0.
template <class V>
CODETTA_FN V gather(const device element<V>* p, i64 stride, int n) {
  V v;
  CODETTA_EACH_LANE(v.e[i] = i < n ? p[i * stride] : (element<V>)0);
  return v;
}
template <class V>
CODETTA_FN void scatter(device element<V>* p, i64 stride, V v, int n) {
  CODETTA_EACH_LANE(if (i < n) p[i * stride] = v.e[i]);
}

}  // namespace codetta::gpu
