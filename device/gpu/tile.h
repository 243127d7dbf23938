// SPDX-License-Identifier: Apache-2.0
// Where a kernel body and the emitted epilogue meet.
//
// A kernel body (kernels/*.h) is a function template
//   template <class Config, class Epilogue, class P> __device__ void gemm_<family>(const P& params);
// that the emitted entry point calls with the parameter struct of abi.h. It multiplies, brings finished accumulators
// into shared memory piece by piece, and calls, with all threads of a group (whole warps that share a named barrier),
//   Epilogue::template phase_0<P>(params, tile)
// once a piece, after a barrier that made the piece visible to those who finish it. The epilogue only reads the piece;
// when it returns in all threads and they have met again, the memory may be reused. The sm_90a and
// sm_100a bodies call
//   Epilogue::template ahead_0<P>(params, tile, held)
// before the piece is there, which loads what it can into `held` (Epilogue::Ahead), and phase_0<P>(params, tile, held).
// Config offers constexpr what package::GpuGemmConfig says: tile_m, tile_n, tile_k, stages, cluster_m, cluster_n,
// consumers, pingpong, k_split, piece_rows, piece_cols, threads, shared_bytes, ways (parts of the split), alignment,
// math, a_k_major, b_k_major, copied, stream_k (sm_90a), and types A, B (storage), Accumulator. With `copied` the body
// is that of kernels/copies.h, and Epilogue has Copies, Rows, phase_0 over a strip and end_0 instead.
//
// Parts of a split lie in blocks in a tile: accumulator column j of a tile belongs to part j / (tile_n / ways) and to
// root column tile_n0 + j % (tile_n / ways); which column of B that is, Problem::chunk says (column_of_b below).
#pragma once

#include "device/gpu/abi.h"

namespace codetta::gpu {

// How f32 operands are multiplied, and 8-bit floats accumulated.
enum class MathMode { Strict, Tf32x3, Tf32, Fp8FastAccumulation };

// A rectangle of finished accumulators, worked on by one group of threads.
struct Tile {
  const void* acc;  // accumulator of part j at (r, c): element j * acc_part_stride + r * acc_ld + c. Shared memory in
                    // phase 0, the workspace in later phases. 16-byte aligned, and so is each row
  i64 acc_ld, acc_part_stride;
  i64 batch, row, col;   // root coordinates of the first element
  i32 rows, cols;        // valid extent: at most piece_rows x piece_cols, less at the edges
  i64 piece_m, piece_n;  // index of the piece in the grid of one batch item (see ReductionBuffers)
  i32 thread, threads;   // this thread in the group, and how many there are (a multiple of 32)
  i32 barrier;           // bar.sync id of the group
  i32 warp_rows = 0;     // not 0: each warp finishes so many rows of its own, the first warp the first ones; otherwise
                         // the rows are dealt out to all threads
  void* scratch;  // shared memory of the group for reductions: Epilogue::scratch_bytes(threads) bytes, 16-byte aligned
};

// The column of B (and of the unsplit accumulator) of part `part` at root column `col`; of several products, in its
// own.
template <int ways, int products = 1>
__device__ __forceinline__ i64 column_of_b(const Problem& p, i64 col, int part) {
  constexpr int own = ways / products;
  if constexpr (own == 1) return col;
  return (col / p.chunk) * (p.chunk * own) + part % own * p.chunk + col % p.chunk;
}

// Several products of one A: their parts follow each other. An emitted Epilogue has `products` then, more_b(product),
// which operand its B is, and more_map(product), which tensor map (sm_90a).
template <class T>
struct Exists {
  using type = void;
};
template <class Epilogue, class = void>
struct ProductsOf {
  static constexpr int count = 1;
};
template <class Epilogue>
struct ProductsOf<Epilogue, typename Exists<decltype(Epilogue::products)>::type> {
  static constexpr int count = Epilogue::products;
};
// An item's B: its first element, and strides in elements.
struct FactorB {
  const void* data;
  i64 k, col;
};
// Of a part. E: elements.
template <class Epilogue, int ways, class E, class P>
__device__ __forceinline__ FactorB factor_b(const P& params, i64 batch, int part) {
  constexpr int products = ProductsOf<Epilogue>::count;
  const Problem& p = params.problem;
  if constexpr (products > 1) {
    if (const int product = part / (ways / products); product > 0) {
      const Operand& o = params.operand[Epilogue::more_b(product)];
      return {(const E*)o.data + batch * o.stride[0], o.stride[1], o.stride[2]};
    }
  }
  return {(const E*)p.b + batch * p.b_batch, p.b_k, p.b_col};
}

}  // namespace codetta::gpu
