// SPDX-License-Identifier: Apache-2.0
// Where the warps of a streaming product leave what they have added up, for those along K to be added.
#pragma once

#include "device/cuda/builtins.h"

namespace codetta::gpu::stream {

// What a warp has of 8 rows of A, to rows of `sum_ld` in shared memory: row g (+ 8) of a block of 16 columns is a
// column, columns 2t and 2t + 1 are rows. Across K a thread's columns lie side by side; of two groups of four the
// second one comes first in every other row of threads, so that no bank is met twice.
template <class S, class T>
CODETTA_FN void leave_sums(T* to, const T (&acc)[S::blocks * S::tokens * 4], int q, int lane) {
  const int g = lane / 4, t = lane % 4;
  if constexpr (S::along_k) {
#pragma unroll
    for (int b = 0; b < S::blocks; ++b) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        to[(2 * t + e % 2) * S::sum_ld + b * 16 + e / 2 * 8 + g] = acc[(b * S::tokens + q) * 4 + e];
    }
  } else {
    constexpr int pairs = S::block / 16, fours = pairs / 2;
    struct alignas(16) Four {
      T v[4];
    };
    const int turn = fours > 1 ? g % 2 : 0;
#pragma unroll
    for (int b = 0; b < S::blocks; b += pairs) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        Four of[fours];
#pragma unroll
        for (int j = 0; j < 4 * fours; ++j)
          of[j / 4].v[j % 4] = acc[((b + j / 2) * S::tokens + q) * 4 + j % 2 * 2 + row];
        T* const first = to + (2 * t + row) * S::sum_ld + b * 16 + g * (2 * pairs);
#pragma unroll
        for (int f = 0; f < fours; ++f) {
          Four four = of[f];
          if constexpr (fours > 1) {
#pragma unroll
            for (int j = 0; j < 4; ++j) four.v[j] = turn != 0 ? of[fours - 1 - f].v[j] : four.v[j];
          }
          *(Four*)(first + (f ^ turn) * 4) = four;
        }
      }
    }
  }
}

}  // namespace codetta::gpu::stream
