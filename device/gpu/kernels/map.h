// SPDX-License-Identifier: Apache-2.0
// Maps: phases over a root space without a product. What has only row reductions runs in one launch, in which
// `across` threads (a part of a warp, or several warps of a block) finish a row from its first phase to its last, so
// that its reductions need no memory; everything else runs as the later phases of a product do.
#pragma once

#include "device/gpu/phase.h"

namespace codetta::gpu {

constexpr int row_scratch = 128;  // bytes of shared memory for a reduction: a state from each of at most 8 warps

// A row reduction so far, in the type in which partials are folded.
template <template <class> class State, class T>
struct RowState {
  using W = typename Folding<State, T>::W;
  State<W> state;
  template <class V>
  CODETTA_MEMBER void take(const Reducer<State<T>, V>& q) {
    const State<T> part = q.folded();
    State<W> next;
#pragma unroll
    for (int j = 0; j < State<T>::width; ++j) next.v[j] = (W)part.v[j];
    state.merge(next);
  }
};

// What an emitted phase sees of a row: piece by piece, `width` columns each. The fragment's tile is that of the rows
// that a block is at; `value` holds the reductions that are finished. `columns`: of a row, where they are known when it
// is compiled, a multiple of the lanes; else 0. With `asks`, `wide` says whether rows are whole vectors.
template <bool whole, int across, int results, class P, int columns = 0, bool asks = false>
struct RowFragment : TileFragment<whole, across, P, asks> {
  using Base = TileFragment<whole, across, P, asks>;
  using Base::params;
  using Base::r;
  using Base::tile;
  static constexpr int width = across * lanes, segment = 32 * width;  // columns of a piece, and of a part of a row
  u64 value[results];

  CODETTA_MEMBER RowFragment(const P& p, const Tile& t, bool wide = whole) : Base(p, t, wide) { r = t.thread / across; }
  CODETTA_MEMBER bool has_row() const { return r < tile.rows; }
  CODETTA_MEMBER i32 pieces() const { return (tile.cols + width - 1) / width; }
  // Whether the thread has columns of the piece.
  CODETTA_MEMBER bool at_piece(i32 piece) {
    const i32 first = piece * width + tile.thread % across * lanes;
    if constexpr (columns > 0) {
      this->c = first, this->n = lanes;
      return (piece + 1) * width <= columns || first < columns;
    }
    this->at_column(first);
    return this->n > 0;
  }

  template <class V>
  CODETTA_MEMBER V result_row(int k) const {
    element<V> x;
    memcpy(&x, &value[k], sizeof x);
    return splat<V>(x);
  }
  template <class V>
  CODETTA_MEMBER V result_any_row(int k) const {
    return result_row<V>(k);
  }

  // By all threads of the block: reduction k of the row, which all threads of the row have afterwards. Each does the
  // same sums in the same order.
  template <bool mean, int parts, template <class> class State, class T>
  CODETTA_MEMBER void finish(int k, const RowState<State, T>& row) {
    using W = typename Folding<State, T>::W;
    constexpr int n = State<T>::width, warps = across / 32;
    State<T> mine;
#pragma unroll
    for (int j = 0; j < n; ++j) mine.v[j] = (T)row.state.v[j];
    CODETTA_EACH_ROUND
    for (int d = 1; d < (across < 32 ? across : 32); d *= 2) {
      const bool upper = (tile.thread & d) != 0;
      State<T> low, high;
#pragma unroll
      for (int j = 0; j < n; ++j) {
        const T other = exchanged(~0u, mine.v[j], d);
        low.v[j] = upper ? other : mine.v[j];
        high.v[j] = upper ? mine.v[j] : other;
      }
      low.merge(high);
      mine = low;
    }
    State<W> s;
    if constexpr (warps > 1) {
      T* const shared = (T*)((char*)tile.scratch + k * row_scratch) + r * warps * n;
      if (tile.thread % 32 == 0) {
#pragma unroll
        for (int j = 0; j < n; ++j) shared[tile.thread % across / 32 * n + j] = mine.v[j];
      }
      __syncthreads();
#pragma unroll
      for (int w = 0; w < warps; ++w) {
        State<W> next;
#pragma unroll
        for (int j = 0; j < n; ++j) next.v[j] = (W)shared[w * n + j];
        s.merge(next);
      }
    } else {
#pragma unroll
      for (int j = 0; j < n; ++j) s.v[j] = (W)mine.v[j];
    }
    const T x = finished<T, mean>(s, (columns > 0 ? columns : params.problem.cols) * parts);
    memcpy(&value[k], &x, sizeof x);
  }
};

// `body(params, tile)` for the rows that a block has under way at a time.
template <class Config, int threads, int scratch_bytes, class P, class F>
CODETTA_FN void run_rows(const P& params, F body) {
  alignas(16) __shared__ char scratch[scratch_bytes < 16 ? 16 : scratch_bytes];
  const Problem& p = params.problem;
  const i64 batches = at_least_1(p.batches), pieces_m = at_least_1(p.pieces_m);
  for (i64 batch = blockIdx.z; batch < batches; batch += gridDim.z) {
    for (i64 m = blockIdx.y; m < pieces_m; m += gridDim.y) {
      Tile t;
      t.acc = nullptr, t.acc_ld = 0, t.acc_part_stride = 0;
      t.batch = batch, t.row = m * Config::piece_rows, t.col = 0;
      t.rows = (i32)(p.rows - t.row < Config::piece_rows ? p.rows - t.row : Config::piece_rows);
      t.cols = 0;
      if (p.batches == 0) t.rows = 0;
      t.piece_m = m, t.piece_n = 0;
      t.thread = threadIdx.x, t.threads = threads, t.barrier = 0, t.scratch = scratch;
      body(params, t);
      if (scratch_bytes > 0) __syncthreads();
    }
  }
}

// `body()` for parts of the rows, which are the tile meanwhile; also of rows without columns.
template <int segment, class P, class F>
CODETTA_FN void each_segment(const P& params, Tile& tile, F body) {
  const i64 cols = params.problem.batches == 0 ? 0 : params.problem.cols;
  i64 from = 0;
  do {
    tile.col = from;
    tile.cols = (i32)(cols - from < segment ? cols - from : segment);
    body();
    from += segment;
  } while (from < cols);
}

}  // namespace codetta::gpu
