// SPDX-License-Identifier: Apache-2.0
// Finished accumulators of a warpgroup on their way to a light epilogue without shared memory. The matrix instruction
// leaves a thread two adjacent columns of every 8 (wgmma.h); neighbouring lanes exchange halves, so that each has four
// adjacent columns of every 16: the even ones of the first 8, the odd ones of the others.
#pragma once

#include "device/gpu/fragment.h"

namespace codetta::gpu {

// A TileFragment whose accumulators at the position are in registers.
template <bool whole, int parts, class T, class P, bool asks = false>
struct StripFragment : TileFragment<whole, 1, P, asks> {
  Vec<T> held[parts];
  CODETTA_MEMBER StripFragment(const P& p, const Tile& t, bool in_vectors = whole)
      : TileFragment<whole, 1, P, asks>(p, t, in_vectors) {}
  template <class V>
  CODETTA_MEMBER V accum(int part) const {
    return held[part];
  }
};

// 64 rows and 16 * steps columns of each part, as one thread has them: rows row(0) and row(1), columns column(s) and
// the three behind it.
template <int parts_, int steps_, class T>
struct Strip {
  static constexpr int parts = parts_, steps = steps_, cols = 16 * steps;
  Vec<T> value[parts][steps][2];
  i32 thread;

  CODETTA_MEMBER i32 row(int half) const { return thread / 32 * 16 + thread % 32 / 4 + 8 * half; }
  CODETTA_MEMBER i32 column(int step) const { return 16 * step + 8 * (thread & 1) + 2 * (thread & 2); }
  template <class F>
  CODETTA_MEMBER void give(F& f, int step, int half) const {
#pragma unroll
    for (int part = 0; part < parts; ++part) f.held[part] = value[part][step][half];
  }
  // The eight registers of 16 columns: two of each row and 8 columns, as the matrix instruction leaves them.
  CODETTA_MEMBER void take(int part, int step, const T (&r)[8]) {
    static_assert(lanes == 4 && sizeof(T) == 4, "the exchange gives four adjacent columns");
    const bool odd = (thread & 1) != 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const T first[2] = {r[2 * half], r[2 * half + 1]}, second[2] = {r[4 + 2 * half], r[5 + 2 * half]};
      T other[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) other[i] = exchanged(~0u, odd ? first[i] : second[i], 1);
      Vec<T>& v = value[part][step][half];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        v.e[i] = odd ? other[i] : first[i];
        v.e[2 + i] = odd ? second[i] : other[i];
      }
    }
  }
};

}  // namespace codetta::gpu
