// SPDX-License-Identifier: Apache-2.0
// Reductions of few rows that the product's own kernel combines, in the block that arrives last: a kernel behind it
// takes longer to begin and to end than there is to combine.
#pragma once

#include "device/gpu/phase.h"

namespace codetta::gpu {

// Whether this block is the last of the grid to come here. All threads of all blocks call it once, behind everything
// that they write, and what the others have written is visible to the last one then.
CODETTA_FN bool is_last_block(const Problem& p) {
  before_arrival();
  __syncthreads();
  int last = 0;
  if (threadIdx.x == 0) {
    // The words before it count the slices of tiles.
    u32* const word = p.counters + (p.k_split > 1 ? p.batches * p.tiles_m * p.tiles_n : 0);
    last = arrive(word) + 1 == gridDim.x ? 1 : 0;
    if (last != 0) *word = 0;  // as it was found
  }
  return __syncthreads_or(last) != 0;
}

// Row reductions from partials to results, as combine() of phase.h has them, by one block: neighbouring threads share a
// row, as many as there are for all rows at once. The order depends on nothing but the sizes.
template <template <class> class State, bool mean, int parts, class T, int threads, int every = 1>
CODETTA_FN void combine_rows(const Problem& p, const ReductionBuffers& buffers, const Operand* out = nullptr) {
  using W = typename Folding<State, T>::W;
  constexpr int width = State<T>::width;
  const i64 all = p.batches * p.rows, count = (p.pieces_n + every - 1) / every;
  int shift = 5;  // threads that share a row: a power of two, so that nothing divides by it
  while (shift > 0 && all << shift > threads) --shift;
  const int sharing = 1 << shift, lane = (int)threadIdx.x & (sharing - 1);
#pragma unroll 1
  for (i64 first = 0; first < all; first += threads >> shift) {
    const i64 result = first + ((int)threadIdx.x >> shift), item = quotient(result, p.rows);
    const i64 at = result - item * p.rows;
    State<W> s;
    if (result < all) {
      const T* from = (const T*)buffers.partials + ((item * p.pieces_n + lane * every) * p.rows + at) * width;
      const i64 step = (every * p.rows * width) << shift;
      const i64 own = (count - lane + sharing - 1) >> shift;  // partials of this thread
#pragma unroll 16
      for (i64 i = 0; i < own; ++i, from += step) {
        State<W> next;
#pragma unroll
        for (int j = 0; j < width; ++j) next.v[j] = (W)from[j];
        s.merge(next);
      }
    }
    merge_threads(~0u, s, 1, sharing);
    if (lane == 0 && result < all) put_result<Axis::Row, mean, parts, T>(p, buffers, out, item, at, result, s);
  }
}

}  // namespace codetta::gpu
