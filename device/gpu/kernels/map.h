// SPDX-License-Identifier: Apache-2.0
// Maps: phases over a root space without a product. What has only row reductions runs in one launch, in which a block
// finishes piece_rows rows, phase by phase, so that they come from L1 and L2 after the first; everything else runs as
// the later phases of a product do.
#pragma once

#include "device/gpu/phase.h"

namespace codetta::gpu {

// The rows that a block is at.
template <class Config, int threads, class P>
struct Panel {
  const P& params;
  char* scratch;
  i64 batch, piece_m;

  CODETTA_MEMBER Tile piece(i64 n) const {
    const Problem& p = params.problem;
    Tile t;
    t.acc = nullptr, t.acc_ld = 0, t.acc_part_stride = 0;
    t.batch = batch, t.row = piece_m * Config::piece_rows, t.col = n * Config::piece_cols;
    t.rows = (i32)(p.rows - t.row < Config::piece_rows ? p.rows - t.row : Config::piece_rows);
    t.cols = (i32)(p.cols - t.col < Config::piece_cols ? p.cols - t.col : Config::piece_cols);
    if (p.batches == 0) t.rows = t.cols = 0;
    t.piece_m = piece_m, t.piece_n = n;
    t.thread = threadIdx.x, t.threads = threads, t.barrier = 0, t.scratch = scratch;
    return t;
  }

  // `body(params, tile)` for each piece of these rows. Partials are visible to the block behind it.
  template <class F>
  CODETTA_MEMBER void phase(F body) const {
    const i64 pieces_n = at_least_1(params.problem.pieces_n);
    for (i64 n = 0; n < pieces_n; ++n) body(params, piece(n));
    __syncthreads();
  }

  // The same of rows that lie in memory: `ahead(params, tile)` asks for what a piece loads, some pieces early. A piece
  // alone is too little to keep memory busy.
  template <class F, class A>
  CODETTA_MEMBER void phase(F body, A ahead) const {
    constexpr i64 distance = 4;
    const i64 pieces_n = at_least_1(params.problem.pieces_n);
    for (i64 n = 1; n < distance && n < pieces_n; ++n) ahead(params, piece(n));
    for (i64 n = 0; n < pieces_n; ++n) {
      if (n + distance < pieces_n) ahead(params, piece(n + distance));
      body(params, piece(n));
    }
    __syncthreads();
  }

  // A row reduction from its partials: a warp a row, lanes in the order of the pieces, which is fixed.
  template <template <class> class State, bool mean, int parts, class T>
  CODETTA_MEMBER void finish(const ReductionBuffers& buffers) const {
    using W = typename Folding<State, T>::W;
    constexpr int width = State<T>::width;
    const Problem& p = params.problem;
    const i64 row0 = piece_m * Config::piece_rows;
    const int lane = threadIdx.x % 32;
    for (int r = threadIdx.x / 32; r < Config::piece_rows && row0 + r < p.rows && p.batches != 0; r += threads / 32) {
      const T* from = (const T*)buffers.partials + (batch * p.pieces_n * p.rows + row0 + r) * width;
      State<W> s;
      for (i64 n = lane; n < p.pieces_n; n += 32) {
        State<W> next;
#pragma unroll
        for (int j = 0; j < width; ++j) next.v[j] = (W)from[n * p.rows * width + j];
        s.merge(next);
      }
      merge_threads(~0u, s, 1, 32);
      W value = s.v[0];
      if constexpr (width == 2) {  // infinite: all are -inf, or there is a +inf
        if (s.v[1] != s.v[1])
          value = s.v[1];
        else if (value > lowest<W>() && value < highest<W>())
          value += one::log(s.v[1]);
      }
      if constexpr (mean) value = value / (W)(p.cols * parts);
      if (lane == 0) ((T*)buffers.results)[batch * p.rows + row0 + r] = (T)value;
    }
    __syncthreads();
  }
};

// `body(panel)` for each panel, by one block of `threads` threads.
template <class Config, int threads, int scratch_bytes, class P, class F>
CODETTA_FN void run_panels(const P& params, F body) {
  alignas(16) __shared__ char scratch[scratch_bytes];
  const Problem& p = params.problem;
  const i64 batches = at_least_1(p.batches), pieces_m = at_least_1(p.pieces_m);
  for (i64 batch = blockIdx.z; batch < batches; batch += gridDim.z) {
    for (i64 m = blockIdx.y; m < pieces_m; m += gridDim.y) body(Panel<Config, threads, P>{params, scratch, batch, m});
  }
}

}  // namespace codetta::gpu
