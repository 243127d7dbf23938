// SPDX-License-Identifier: Apache-2.0
// Raw loads and stores of the lanes that a thread holds.
#pragma once

#include "device/gpu/vec.h"

namespace codetta::gpu {

// All lanes at p, which is a multiple of the vector's alignment. Global memory that this kernel does not write before.
template <class V>
CODETTA_FN V load_whole(const element<V>* p) {
  V v;
  if constexpr (sizeof(V) >= 16) {
    uint4 part[sizeof(V) / 16];
#pragma unroll
    for (int i = 0; i < (int)sizeof(V) / 16; ++i) part[i] = __ldg((const uint4*)p + i);
    memcpy(&v, part, sizeof v);
  } else if constexpr (sizeof(V) == 8) {
    const uint2 part = __ldg((const uint2*)p);
    memcpy(&v, &part, sizeof v);
  } else if constexpr (sizeof(V) == 4) {
    const u32 part = __ldg((const u32*)p);
    memcpy(&v, &part, sizeof v);
  } else if constexpr (sizeof(V) == 2) {
    const u16 part = __ldg((const u16*)p);
    memcpy(&v, &part, sizeof v);
  } else {
    v.e[0] = __ldg(p);
  }
  return v;
}
// Word `w` of a vector's bytes.
template <class V>
CODETTA_FN u32 word_of_lanes(const V& v, int w) {
  constexpr int size = (int)sizeof(element<V>);
  u32 bits = 0;
  if constexpr (size == 4) {
    memcpy(&bits, &v.e[w], 4);
  } else {
#pragma unroll
    for (int i = 0; i < 4 / size; ++i) {
      if constexpr (size == 1)
        bits |= (u32)(u8)v.e[w * 4 + i] << (8 * i);
      else
        bits |= (u32)(u16)v.e[w * 2 + i] << (16 * i);
    }
  }
  return bits;
}
// In as few instructions as there are, spelled out: the compiler stores a struct element by element.
template <class V>
CODETTA_FN void store_whole(element<V>* p, V v) {
  if constexpr (sizeof(element<V>) > 4 || sizeof(V) < 4) {
    *(V*)p = v;
  } else if constexpr (sizeof(V) == 4) {
    *(u32*)p = word_of_lanes(v, 0);
  } else if constexpr (sizeof(V) == 8) {
    store_two(p, word_of_lanes(v, 0), word_of_lanes(v, 1));
  } else {
#pragma unroll
    for (int i = 0; i < (int)sizeof(V) / 16; ++i) {
      store_four((u32*)p + 4 * i, word_of_lanes(v, 4 * i), word_of_lanes(v, 4 * i + 1), word_of_lanes(v, 4 * i + 2),
                 word_of_lanes(v, 4 * i + 3));
    }
  }
}

// The first n elements at p, p + stride, ...; the other lanes are 0.
template <class V>
CODETTA_FN V gather(const element<V>* p, i64 stride, int n) {
  V v;
  CODETTA_EACH_LANE v.e[i] = i < n ? __ldg(p + i * stride) : (element<V>)0;
  return v;
}
template <class V>
CODETTA_FN void scatter(element<V>* p, i64 stride, V v, int n) {
  CODETTA_EACH_LANE {
    if (i < n) p[i * stride] = v.e[i];
  }
}

}  // namespace codetta::gpu
