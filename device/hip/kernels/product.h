// SPDX-License-Identifier: Apache-2.0
// The product by AMD's matrix instructions, whichever these are: two stages of LDS that are filled through registers
// while the other is multiplied, any tails, operands K-major or not, made (make_stage.h) or in memory, several B of one
// A, slices of K. One block a tile (and slice); its waves split the tile, each multiplies a rectangle of 16 x 16
// blocks. `Matrix` (mfma.h, wmma.h) has the instructions: lanes, accumulators (of a lane and block), lane_bytes (of a
// row that a lane holds), step_bytes (of K in a step), piece_pad, multiply(d, a, b), stay(d) around all of these,
// result_row(lane, r), result_col(lane).
#pragma once

#include "device/gpu/split_k.h"
#include "device/hip/kernels/make_stage.h"
#include "device/hip/matrix.h"

namespace codetta::gpu::matrix {

template <class E>
constexpr bool is_bf16 = false;
template <>
inline constexpr bool is_bf16<bf16> = true;

// What follows from a configuration; src/plan computes the same numbers.
template <class Config, class Epilogue, class Matrix>
struct Shape {
  using T = typename Config::Accumulator;
  static constexpr int waves_m = warps_along_m(Config::tile_m, Config::tile_n, Config::consumers);
  static_assert(waves_m > 0, "the waves do not split the tile");
  static constexpr int wave_m = Config::tile_m / waves_m, wave_n = Config::tile_n / (Config::consumers / waves_m);
  static constexpr int blocks_m = wave_m / 16, blocks_n = wave_n / 16;
  static constexpr int width = Config::tile_n / Config::ways;  // root columns
  using A = Stage<typename Config::A, Config::a_k_major, Config::tile_m, Config::tile_k>;
  using B = Stage<typename Config::B, Config::b_k_major, Config::tile_n, Config::tile_k>;
  static_assert(A::size == B::size);
  static constexpr int steps = A::row_bytes / Matrix::step_bytes;
  static constexpr int stage_bytes = A::bytes + B::bytes;
  static constexpr int piece_ld = Config::piece_cols + Matrix::piece_pad;
  static constexpr int part_stride = Config::piece_rows * piece_ld;
  static constexpr int piece_bytes = part_stride * Config::ways * (int)sizeof(T);
  static constexpr int after_bytes = piece_bytes + (Epilogue::scratch_bytes(Config::threads) + 15) / 16 * 16;
  static constexpr int shared_bytes = (2 * stage_bytes > after_bytes ? 2 * stage_bytes : after_bytes) + 16;

  static_assert(Config::threads == Matrix::lanes * Config::consumers);
  static_assert(A::row_bytes % Matrix::step_bytes == 0 && steps >= 1);
  static_assert(width % 16 == 0 && width % Config::piece_cols == 0 && Config::piece_cols % 16 == 0);
  static_assert(Config::tile_m % Config::piece_rows == 0 && Config::piece_rows % 16 == 0);
  static_assert(shared_bytes == Config::shared_bytes);
};

constexpr int common(int a, int b) { return b == 0 ? a : common(b, a % b); }  // the greatest divisor

template <int lane_bytes>
struct Fragment {
  u32 r[lane_bytes / 4];
  CODETTA_MEMBER void load(const char* from) {
#pragma unroll
    for (int i = 0; i < lane_bytes / 16; ++i) {
      const uint4 v = load_shared((const uint4*)(from + 16 * i));
      r[4 * i] = v.x, r[4 * i + 1] = v.y, r[4 * i + 2] = v.z, r[4 * i + 3] = v.w;
    }
  }
};

// What an instruction adds to, a block's part of a lane.
template <class Matrix, class T>
using Block = Registers<T, Matrix::accumulators>;

// A wave's accumulators that lie in the piece (piece_m, piece_n) of the tile, to LDS: blocks that lie in one piece
// wherever pieces end are asked for together. Places are reread, lest Clang look for what it can keep in registers
// from piece to piece, which takes time and finds nothing.
template <class Config, class S, class Matrix, class T>
CODETTA_FN void store_piece(T* piece, const Block<Matrix, T> (&acc)[S::blocks_m * S::blocks_n], int row0, int col0,
                            int piece_m, int piece_n, int lane) {
  constexpr int rows = common(S::wave_m, Config::piece_rows), cols = common(S::wave_n, Config::piece_cols);
#pragma unroll
  for (int m = 0; m < S::wave_m; m += rows) {
    const int row = row0 + m - piece_m * Config::piece_rows;
    if (row < 0 || row >= Config::piece_rows) continue;
#pragma unroll
    for (int n = 0; n < S::wave_n; n += cols) {
      const int col = col0 + n, part = col / S::width, at = col % S::width - piece_n * Config::piece_cols;
      if (at < 0 || at >= Config::piece_cols) continue;
      T* const to = piece + reread_own(part * S::part_stride + (row + Matrix::result_row(lane, 0)) * S::piece_ld + at +
                                       Matrix::result_col(lane));
#pragma unroll
      for (int i = m / 16; i < (m + rows) / 16; ++i) {
#pragma unroll
        for (int j = n / 16; j < (n + cols) / 16; ++j) {
#pragma unroll
          for (int r = 0; r < Matrix::accumulators; ++r)
            to[(i * 16 - m + Matrix::result_row(0, r)) * S::piece_ld + j * 16 - n] = acc[i * S::blocks_n + j][r];
        }
        part_stores();
      }
    }
  }
}

// The body of the kernel. Launch: a block a tile and slice, Config::threads threads, no dynamic LDS.
template <class Config, class Epilogue, class Matrix, class P>
CODETTA_FN void gemm(const P& params) {
  using S = Shape<Config, Epilogue, Matrix>;
  using T = typename Config::Accumulator;
  constexpr int held = S::blocks_m * S::blocks_n * Matrix::accumulators;
  alignas(16) __shared__ char shared[S::shared_bytes];
  const Problem& p = params.problem;
  const int thread = threadIdx.x, lane = thread % Matrix::lanes;
  const int wave = (int)uniform((u32)thread / Matrix::lanes);
  const int row_w = wave % S::waves_m * S::wave_m, col_w = wave / S::waves_m * S::wave_n;  // in the tile
  const BlockPlace place = place_of_block<(Config::k_split > 1)>(p, blockIdx.x);
  const u32 batch = place.batch, slice = place.slice;
  const TileSpace space = space_of_tile<Config, Epilogue>(params, place.tile_n);
  const i64 row0 = (i64)place.tile_m * Config::tile_m, col0 = (i64)space.tile_n * S::width;
  const i64 k_begin = slice * p.k_slice, k_end = slice + 1 == (u32)p.k_split ? p.k : k_begin + p.k_slice;
  // The last block of K comes first: it alone may be short (and where K is 0 it is empty), so that only one place asks
  // what exists along K.
  const int count = k_end > k_begin ? (int)((k_end - k_begin + Config::tile_k - 1) / Config::tile_k) : 1;
  const i64 k_last = k_begin + (i64)(count - 1) * Config::tile_k;

  constexpr int size = S::A::size, products = ProductsOf<Epilogue>::count;
  using MakerA = typename MakerOfA<Epilogue>::type;
  using MakerB = typename MakerOfB<Epilogue>::type;
  constexpr bool makes_a = Makes<MakerA>::value, makes_b = Makes<MakerB>::value;
  static_assert(products == 1 || !makes_b, "further products read their B from memory");
  using LoaderA = Loader<typename S::A, Config::alignment, Config::threads, 1>;
  using LoaderB = Loader<typename S::B, Config::alignment, Config::threads, Config::ways, products>;
  using MadeA = MadeLoader<MakerA, typename S::A, Config::threads, 1, P>;
  using MadeB = MadeLoader<MakerB, typename S::B, Config::threads, Config::ways, P>;
  typename Choose<makes_a, MadeA, LoaderA>::type a(thread, params, batch, Config::a_k_major ? p.m : p.k, k_begin, row0,
                                                   p.rows);
  typename Choose<makes_b, MadeB, LoaderB>::type b(thread, params, batch, Config::b_k_major ? p.n : p.k, k_begin, col0,
                                                   space.cols);
  if constexpr (!makes_a) {
    a.begin(p, row0, p.rows - row0, [&](int) {
      return OperandBytes{(const char*)p.a + (item_of_a(p, batch) + k_last * p.a_k) * size, p.a_row * size,
                          p.a_k * size};
    });
  }
  if constexpr (!makes_b) {
    b.begin(p, col0, space.cols - col0, [&](int part) {
      const FactorB from = factor_b<Epilogue, Config::ways, typename Config::B>(params, batch, part, space.product);
      return OperandBytes{(const char*)from.data + k_last * from.k * size, from.col * size, from.k * size};
    });
  }
  Block<Matrix, T> acc[S::blocks_m * S::blocks_n];
#pragma unroll
  for (int block = 0; block < S::blocks_m * S::blocks_n; ++block) {
    acc[block] = Block<Matrix, T>{};
    Matrix::stay(acc[block]);
  }
  // Where this lane's part of a fragment begins.
  constexpr int sharing = Matrix::step_bytes / Matrix::lane_bytes;  // groups of 16 lanes that have different k
  const int within = Matrix::factor_row(lane) * S::A::stride + lane / 16 % sharing * Matrix::lane_bytes;
  a.fetch_last((int)(k_end - k_last), k_last - k_begin);
  b.fetch_last((int)(k_end - k_last), k_last - k_begin);
  int i = 0;
#pragma unroll 1
  do {
    // Nobody reads this stage any more: all have met since it was multiplied. One place that settles, for its length.
    char* const settled = shared + i % 2 * S::stage_bytes;
    a.settle(settled);
    b.settle(settled + S::A::bytes);
    __syncthreads();
    if (i + 1 < count) {
      a.fetch();
      b.fetch();
    }
    const char* const stage = settled + within;
#pragma unroll
    for (int step = 0; step < S::steps; ++step) {
      Fragment<Matrix::lane_bytes> fa[S::blocks_m], fb[S::blocks_n];
#pragma unroll
      for (int m = 0; m < S::blocks_m; ++m)
        fa[m].load(stage + (row_w + m * 16) * S::A::stride + step * Matrix::step_bytes);
#pragma unroll
      for (int n = 0; n < S::blocks_n; ++n)
        fb[n].load(stage + S::A::bytes + (col_w + n * 16) * S::B::stride + step * Matrix::step_bytes);
#pragma unroll
      for (int m = 0; m < S::blocks_m; ++m) {
#pragma unroll
        for (int n = 0; n < S::blocks_n; ++n) Matrix::multiply(acc[m * S::blocks_n + n], fa[m].r, fb[n].r);
      }
    }
  } while (++i < count);
#pragma unroll
  for (int block = 0; block < S::blocks_m * S::blocks_n; ++block) Matrix::stay(acc[block]);
  __syncthreads();  // the stages become pieces
  if constexpr (Config::k_split > 1) {
    u32* const flag = (u32*)(shared + S::shared_bytes - 16);
    const i64 tile = (i64)batch * (p.tiles_m * p.tiles_n) + place.index;
    if (p.k_split > 1 && !sum_slices<held, Config::threads>(p, tile, slice, thread, flag, *(T(*)[held])acc)) return;
  }
  T* const piece = (T*)shared;
  Tile t;
  t.acc = piece, t.acc_ld = S::piece_ld, t.acc_part_stride = S::part_stride;
  t.batch = batch, t.thread = thread, t.threads = Config::threads, t.barrier = 0, t.wide = true;
  t.product = space.product;
  t.scratch = shared + S::piece_bytes;
#pragma unroll 1
  for (int m = 0; m < Config::tile_m / Config::piece_rows; ++m) {
#pragma unroll 1
    for (int n = 0; n < S::width / Config::piece_cols; ++n) {
      t.row = row0 + m * Config::piece_rows, t.col = col0 + n * Config::piece_cols;
      const i64 rows = p.rows - t.row, cols = space.cols - t.col;
      if (rows <= 0 || cols <= 0) continue;
      t.rows = rows < Config::piece_rows ? (i32)rows : Config::piece_rows;
      t.cols = cols < Config::piece_cols ? (i32)cols : Config::piece_cols;
      t.piece_m = t.row / Config::piece_rows, t.piece_n = t.col / Config::piece_cols;
      store_piece<Config, S, Matrix>(piece, acc, row_w, col_w, m, n, lane);
      __syncthreads();
      Epilogue::template phase_0<P>(params, t);
      __syncthreads();
    }
  }
}

}  // namespace codetta::gpu::matrix
