// SPDX-License-Identifier: Apache-2.0
// The kernels behind the product: reductions from partials to results, and later phases over the root space.
#pragma once

#include "device/gpu/fragment.h"

namespace codetta::gpu {

enum class Axis { Row, Column, All, Item };

// Where nobody has measured what code costs and gains partials are merged one by one.
#if defined CODETTA_OWN_MATH || defined __METAL_VERSION__
CODETTA_CONSTANT bool combines_in_turn = true;
#else
CODETTA_CONSTANT bool combines_in_turn = false;
#endif

// What a map does for the kernels behind it, which would wait for another entry of the stream otherwise.
template <int threads>
CODETTA_FN void clear_counters(const Problem& p) {
  const i64 block = blockIdx.x + (i64)gridDim.x * (blockIdx.y + (i64)gridDim.y * blockIdx.z);
  const i64 blocks = (i64)gridDim.x * gridDim.y * gridDim.z;
#pragma unroll 1
  for (i64 i = block * threads + threadIdx.x; i < p.clears; i += blocks * threads) p.counters[i] = 0;
}

// State of a partial (in T) folded in the type W: sums in f64 for floats, wrapping for integers.
template <template <class> class State, class T>
struct Folding {
  using W = T;
};
template <>
struct Folding<SumState, f32> {
  using W = f64;
};

template <class S>
CODETTA_FN auto ended(const S& s, i64) {
  return s.v[0];
}
template <class W>
CODETTA_FN W ended(const LogSumExpState<W>& s, i64) {
  if (s.v[1] != s.v[1]) return s.v[1];
  const bool finite = s.v[0] > lowest<W>() && s.v[0] < highest<W>();
  return finite ? s.v[0] + one::log(s.v[1]) : s.v[0];  // infinite: all are -inf, or there is a +inf
}
template <class W>
CODETTA_FN W ended(const SumExpState<W>& s, i64 reduced) {
  return s.v[0] == lowest<W>() && reduced > 0 ? s.v[0] - s.v[0] : s.v[1];  // of nothing but -inf exp(-inf + inf)
}

// The result that a state of all elements stands for; `reduced`: how many these are.
template <class T, bool mean, class S>
CODETTA_FN T finished(const S& s, i64 reduced) {
  auto value = ended(s, reduced);
  if constexpr (mean) value = value / (decltype(value))reduced;
  return (T)value;
}

// A finished state to the results, and to an output that takes them as they are, or null.
template <Axis axis, bool mean, int parts, class T, class S>
CODETTA_FN void put_result(const Problem& p, const ReductionBuffers& buffers, const Operand* out, i64 item, i64 at,
                           i64 result, const S& s) {
  const i64 reduced = axis == Axis::Row      ? p.cols
                      : axis == Axis::Column ? p.rows
                      : axis == Axis::Item   ? p.rows * p.cols
                                             : p.batches * p.rows * p.cols;
  const T value = finished<T, mean>(s, reduced * parts);
  ((T*)buffers.results)[result] = value;
  if (out == nullptr) return;
  const i64 stride = axis == Axis::Row ? out->stride[1] : axis == Axis::Column ? out->stride[2] : 0;
  if (item == 0 || out->stride[0] != 0) ((T*)out->data)[item * out->stride[0] + at * stride] = value;
}

// A block of 256 threads finishes 256 / shared_by results (Axis::All, Axis::Item: one), shared_by threads a result; the
// order is fixed. `out`: as above. `every`: of so many pieces of a row the first has the partial result of all.
template <Axis axis, template <class> class State, bool mean, int parts, class T, int every = 1, int shared_by = 8>
CODETTA_FN void combine(const Problem& p, const ReductionBuffers& buffers, const Operand* out = nullptr) {
  using W = typename Folding<State, T>::W;
  constexpr int results = axis == Axis::All || axis == Axis::Item ? 1 : 256 / shared_by, sharing = 256 / results,
                width = State<T>::width;
  __shared__ W shared[256 * width];
  const i64 extent = axis == Axis::Row ? p.rows : axis == Axis::Column ? p.cols : 1;
  const i64 count = axis == Axis::Row      ? (p.pieces_n + every - 1) / every
                    : axis == Axis::Column ? p.pieces_m
                    : axis == Axis::Item   ? p.pieces_m * p.pieces_n
                                           : p.batches * p.pieces_m * p.pieces_n;
  const i64 all = axis == Axis::All ? 1 : p.batches * extent;
  const i64 block = blockIdx.x + (i64)gridDim.x * blockIdx.z;  // what one dim of a grid does not hold lies in another
  const i64 result = block * results + threadIdx.x % results;
  if (block * results >= all) return;
  const i64 item = axis == Axis::Item ? result : axis == Axis::All ? 0 : quotient(result, extent);
  const i64 at = result - item * extent;
  State<W> s;
  if (result < all) {
    const i64 stride = (axis == Axis::Row ? p.pieces_n : count) * extent;
    const T* from = (const T*)buffers.partials + (item * stride + at) * width;
    // Nobody waits for one partial alone: of what is short, several are asked for at a time.
    constexpr int at_once = sharing == 1 || (width == 1 && !combines_in_turn) ? 8 : 1;
#pragma unroll at_once
    for (i64 i = threadIdx.x / results; i < count; i += sharing) {
      State<W> next;
#pragma unroll
      for (int j = 0; j < width; ++j) next.v[j] = (W)from[i * every * extent * width + j];
      s.merge(next);
    }
  }
  CODETTA_EACH_ROUND
  for (int half = sharing; half >= 1 && sharing > 1; half /= 2) {
    if (half != sharing && threadIdx.x < half * results) {
      State<W> next;
#pragma unroll
      for (int j = 0; j < width; ++j) next.v[j] = shared[(threadIdx.x + half * results) * width + j];
      s.merge(next);
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < width; ++j) shared[threadIdx.x * width + j] = s.v[j];
    __syncthreads();
  }
  if (threadIdx.x < results && result < all) put_result<axis, mean, parts, T>(p, buffers, out, item, at, result, s);
}

#ifndef CODETTA_REREADS  // device/hip/builtins.h says what for
template <class T>
CODETTA_FN const T& reread(const T& x) {
  return x;
}
#endif

CODETTA_FN i64 at_least_1(i64 n) { return n < 1 ? 1 : n; }

// `body(params, tile)` for each piece, by one block of Threads threads. What lies beyond the grid is walked by loops.
template <class Config, int threads, int scratch_bytes, class P, class F>
CODETTA_FN void run_phase(const P& params, F body) {
  alignas(16) __shared__ char scratch[scratch_bytes];
  const Problem& p = params.problem;
  // Over an empty root space one piece without elements is walked: what is stored once for all of them is still owed.
  const i64 batches = at_least_1(p.batches), pieces_m = at_least_1(p.pieces_m), pieces_n = at_least_1(p.pieces_n);
  for (i64 batch = blockIdx.z; batch < batches; batch += gridDim.z) {
    for (i64 m = blockIdx.y; m < pieces_m; m += gridDim.y) {
      for (i64 n = blockIdx.x; n < pieces_n; n += gridDim.x) {
        Tile t;
        t.piece_m = reread(m), t.piece_n = reread(n);
        t.batch = reread(batch), t.row = t.piece_m * Config::piece_rows, t.col = t.piece_n * Config::piece_cols;
        t.acc = (const typename Config::Accumulator*)p.accumulators +
                ((t.batch * Config::ways * p.rows + t.row) * p.cols + t.col);
        t.acc_ld = p.cols, t.acc_part_stride = p.rows * p.cols;
        t.rows = (i32)(p.rows - t.row < Config::piece_rows ? p.rows - t.row : Config::piece_rows);
        t.cols = (i32)(p.cols - t.col < Config::piece_cols ? p.cols - t.col : Config::piece_cols);
        if (p.batches == 0) t.rows = t.cols = 0;
        t.thread = threadIdx.x, t.threads = threads, t.barrier = 0, t.scratch = scratch;
        body(reread(params), t);
        __syncthreads();
      }
    }
  }
}

}  // namespace codetta::gpu
