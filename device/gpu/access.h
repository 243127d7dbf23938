// SPDX-License-Identifier: Apache-2.0
// Raw loads and stores of the lanes that a thread holds.
#pragma once

#include "device/gpu/vec.h"

namespace codetta::gpu {

// Of global memory. `written`: an output may take the place of the operand, so that the same thread may write there
// afterwards. Otherwise no thread of the kernel does, and the path for such memory is taken: compilers move stores
// across its loads.
template <bool written, class T>
CODETTA_FN T load_from(const T* p) {
  if constexpr (written)
    return load_global(p);
  else
    return __ldg(p);
}

// All lanes at p, which is a multiple of the vector's alignment.
template <class V, bool written>
CODETTA_FN V load_whole(const element<V>* p) {
  V v;
  if constexpr (sizeof(V) == 16) {
    const uint4 part = load_from<written>((const uint4*)p);
    memcpy(&v, &part, sizeof v);
  } else if constexpr (sizeof(V) > 16) {
    uint4 part[sizeof(V) / 16];
#pragma unroll
    for (int i = 0; i < (int)sizeof(V) / 16; ++i) part[i] = load_from<written>((const uint4*)p + i);
    memcpy(&v, part, sizeof v);
  } else if constexpr (sizeof(V) == 8) {
    const uint2 part = load_from<written>((const uint2*)p);
    memcpy(&v, &part, sizeof v);
  } else if constexpr (sizeof(V) == 4) {
    const u32 part = load_from<written>((const u32*)p);
    memcpy(&v, &part, sizeof v);
  } else if constexpr (sizeof(V) == 2) {
    const u16 part = load_from<written>((const u16*)p);
    memcpy(&v, &part, sizeof v);
  } else {
    v.e[0] = load_from<written>(p);
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
    if constexpr (size == 1)
      bits = (u32)(u8)v.e[w * 4] | (u32)(u8)v.e[w * 4 + 1] << 8 | (u32)(u8)v.e[w * 4 + 2] << 16 |
             (u32)(u8)v.e[w * 4 + 3] << 24;
    else
      bits = (u32)(u16)v.e[w * 2] | (u32)(u16)v.e[w * 2 + 1] << 16;
  }
  return bits;
}
// In as few instructions as there are, spelled out: the compiler stores a struct element by element.
template <class V>
CODETTA_FN void store_whole(element<V>* p, V v) {
  if constexpr (sizeof(element<V>) > 4 || sizeof(V) < 4) {
    *(V*)p = v;
  } else if constexpr (sizeof(V) == 4) {
    store_global((u32*)p, word_of_lanes(v, 0));
  } else if constexpr (sizeof(V) == 8) {
    store_two(p, word_of_lanes(v, 0), word_of_lanes(v, 1));
  } else if constexpr (sizeof(V) == 16) {
    store_four(p, word_of_lanes(v, 0), word_of_lanes(v, 1), word_of_lanes(v, 2), word_of_lanes(v, 3));
  } else {
#pragma unroll
    for (int i = 0; i < (int)sizeof(V) / 16; ++i) {
      store_four((u32*)p + 4 * i, word_of_lanes(v, 4 * i), word_of_lanes(v, 4 * i + 1), word_of_lanes(v, 4 * i + 2),
                 word_of_lanes(v, 4 * i + 3));
    }
  }
}

// The first n elements at p, p + stride, ...; the other lanes are 0.
template <class V, bool written = false>
CODETTA_FN V gather(const element<V>* p, i64 stride, int n) {
  V v;
  CODETTA_EACH_LANE(v.e[i] = i < n ? load_from<written>(p + i * stride) : (element<V>)0);
  return v;
}
template <class V>
CODETTA_FN void scatter(element<V>* p, i64 stride, V v, int n) {
  CODETTA_EACH_LANE(if (i < n) store_global(p + i * stride, v.e[i]));
}

}  // namespace codetta::gpu
