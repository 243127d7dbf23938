// SPDX-License-Identifier: Apache-2.0
// Vectors of a piece, spread over the lanes of a warp, which stand for a Ref in emitted text; Epilogue::Vectors has
// those that the epilogue loads, and brings them once for all strips.
#pragma once

#include "device/gpu/fragment.h"

namespace codetta::gpu {

// Along the rows: a lane holds two columns of every 64, from 2 * lane on. Columns beyond the edge are the last.
template <class E, int cols>
struct AlongRows {
  static constexpr int pairs = (cols + 63) / 64, words = (2 * (int)sizeof(E) + 3) / 4;
  u32 word[pairs][words];

  template <class F>
  CODETTA_MEMBER void bring(const F& f, int operand) {
    const Ref<E> o = f.template ref<E>(operand);
#pragma unroll
    for (int pair = 0; pair < pairs; ++pair) {
      E two[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const i32 column = pair * 64 + 2 * (f.tile.thread & 31) + i;
        two[i] = load_from<false>(o.p + (column < f.tile.cols ? column : f.tile.cols - 1) * o.col_stride);
      }
      word[pair][words - 1] = 0;
      memcpy(word[pair], two, sizeof two);
    }
  }
  // Column `column`, which is even, and the next; of all lanes in the same 64.
  template <class V>
  CODETTA_MEMBER V at(int column) const {
    u32 two[words];
#pragma unroll
    for (int w = 0; w < words; ++w) {
      u32 mine = word[0][w];
#pragma unroll
      for (int pair = 1; pair < pairs; ++pair) mine = column / 64 == pair ? word[pair][w] : mine;
      two[w] = __shfl_sync(~0u, mine, column % 64 / 2);
    }
    V v;
    memcpy(&v, two, sizeof v);
    return v;
  }
};
// Along the columns: a lane holds the elements of both of its rows. Rows beyond the edge are the last.
template <class E>
struct DownColumns {
  E of_row[2];

  template <class F>
  CODETTA_MEMBER void bring(const F& f, int operand) {
    const Ref<E> o = f.template ref<E>(operand);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i32 row = f.tile.thread / 32 * 16 + (f.tile.thread & 31) / 4 + 8 * half;
      of_row[half] = load_from<false>(o.p + (row < f.tile.rows ? row : f.tile.rows - 1) * o.row_stride);
    }
  }
};

}  // namespace codetta::gpu
