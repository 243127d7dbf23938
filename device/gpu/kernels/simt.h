// SPDX-License-Identifier: Apache-2.0
// The SIMT product: any dtype converted to the accumulator's on the way into shared memory, any strides and alignment,
// batch, splits, K = 0, slices of K, factors that are made. The floor that always exists. One block a tile (and slice),
// tile_m x tile_n accumulators over (tile_m / 4) x (tile_n / 4) threads, 4 x 4 each; what is missing to whole warps
// only copies.
#pragma once

#include "device/gpu/convert.h"
#include "device/gpu/make.h"
#include "device/gpu/split_k.h"
#include "device/gpu/tile.h"

namespace codetta::gpu {

template <class Config, class Epilogue, class P>
CODETTA_FN void gemm_simt(const P& params) {
  using T = typename Config::Accumulator;
  using A = typename Config::A;
  using B = typename Config::B;
  constexpr int tm = Config::tile_m, tn = Config::tile_n, tk = Config::tile_k, threads = Config::threads;
  constexpr int width = tn / Config::ways;  // root columns
  constexpr int side = tn / 4, pad = 16 / (int)sizeof(T), multiplying = tm / 4 * side;
  constexpr int rows = Config::piece_rows;
  static_assert(tm % 4 == 0 && tn % 4 == 0 && (multiplying + 31) / 32 * 32 == threads, "4 x 4 a thread");
  static_assert(Config::k_split == 1 || multiplying == threads, "slices are whole tiles");
  static_assert(tm % rows == 0 && rows % 4 == 0);
  constexpr int operand_bytes = tk * (tm + tn + 2 * pad) * (int)sizeof(T);
  constexpr int piece_bytes = rows * (tn + pad) * (int)sizeof(T);
  alignas(16) __shared__ char shared[operand_bytes > piece_bytes ? operand_bytes : piece_bytes];
  alignas(16) __shared__ char scratch[Epilogue::scratch_bytes(threads)];
  __shared__ u32 flag;
  T(&as)[tk][tm + pad] = *(T(*)[tk][tm + pad]) shared;
  T(&bs)[tk][tn + pad] = *(T(*)[tk][tn + pad])(shared + tk * (tm + pad) * (int)sizeof(T));

  const Problem& p = params.problem;
  const int thread = threadIdx.x;
  const bool multiplies = multiplying == threads || thread < multiplying;
  const int ty = multiplies ? thread / side : 0, tx = thread % side;
  const BlockPlace place = place_of_block<(Config::k_split > 1)>(p, blockIdx.x);
  const i64 batch = place.batch, slice = place.slice;
  const TileSpace space = space_of_tile<Config, Epilogue>(params, place.tile_n);
  const i64 row0 = (i64)place.tile_m * tm, col0 = (i64)space.tile_n * width;
  const i64 k_begin = slice * p.k_slice, k_end = slice + 1 == p.k_split ? p.k : k_begin + p.k_slice;

  using MakerA = typename MakerOfA<Epilogue>::type;
  using MakerB = typename MakerOfB<Epilogue>::type;
  constexpr bool makes_a = Makes<MakerA>::value, makes_b = Makes<MakerB>::value;
  using MadeA =
      typename Choose<makes_a, MadeTile<MakerA, A, T, Config::a_k_major, tm, tk, threads, 1, P>, Nothing>::type;
  using MadeB = typename Choose<makes_b, MadeTile<MakerB, B, T, Config::b_k_major, tn, tk, threads, Config::ways, P>,
                                Nothing>::type;
  MadeA made_a(params, batch, row0, p.m);
  MadeB made_b(params, batch, col0, space.cols);
  // Neighbouring threads take neighbouring elements in memory, whichever way the operand lies. In the place of rows of
  // M and N that do not exist, and of what a thread has beyond the tile, it takes others that do.
  constexpr int na = (tm * tk + threads - 1) / threads, nb = (tn * tk + threads - 1) / threads;
  constexpr int products = ProductsOf<Epilogue>::count;
  constexpr bool several = products > 1 || SpacesOf<Epilogue>::count > 1;  // each with a B of its own
  constexpr bool ragged_a = tm * tk % threads != 0, ragged_b = tn * tk % threads != 0;
#ifdef __HIP_PLATFORM_AMD__
  constexpr bool a_along_k = Config::a_k_major, b_along_k = Config::b_k_major;  // as planned: half of the code
  const ColumnsOfB<Config::ways, products> columns(p, col0);
  constexpr bool one_row = !a_along_k && threads % tm == 0, one_column = !b_along_k && threads % tn == 0;
#else
  // As planned, too, but of a split tile, which got 8 % slower by it.
  constexpr bool planned = Config::ways == 1;
  const bool a_along_k = planned ? Config::a_k_major : p.a_k == 1;
  const bool b_along_k = planned ? Config::b_k_major : p.b_k == 1;
  constexpr bool one_row = false, one_column = false;
#endif
  const i64 rows_here = p.m - row0;
  const A* const a0 = (const A*)p.a + (item_of_a(p, batch) + row0 * p.a_row + k_begin * p.a_k);
  const A* a[na];
  const B* b[nb];
  int a_row[na], a_at[na], b_col[nb], b_at[nb];
  i64 b_k[nb];  // of several products
#pragma unroll
  for (int i = 0; i < na && !makes_a; ++i) {
    const int own = thread + i * threads, e = !ragged_a || own < tm * tk ? own : 0;
    a_row[i] = a_along_k ? e / tk : one_row ? thread % tm : e % tm;
    a_at[i] = a_along_k ? e % tk : e / tm;
    a[i] = a0 + ((a_row[i] < rows_here ? a_row[i] : 0) * p.a_row + a_at[i] * p.a_k);
  }
#pragma unroll
  for (int i = 0; i < nb && !makes_b; ++i) {
    const int own = thread + i * threads, e = !ragged_b || own < tn * tk ? own : 0;
    b_col[i] = b_along_k ? e / tk : one_column ? thread % tn : e % tn;
    b_at[i] = b_along_k ? e % tk : e / tn;
#ifdef __HIP_PLATFORM_AMD__
    if (one_column && i > 0) {
      b_k[i] = b_k[0], b[i] = b[0] + (b_at[i] - b_at[0]) * b_k[0];
      continue;
    }
    const int at = b_col[i] % width;
    const i64 column = columns.at(col0 + at < space.cols ? at : 0, b_col[i] / width);
#else
    const i64 root = col0 + b_col[i] % width < space.cols ? col0 + b_col[i] % width : col0;
    const i64 column = column_of_b<Config::ways, products>(p, root, b_col[i] / width);
#endif
    const FactorB from = factor_b<Epilogue, Config::ways, B>(params, batch, b_col[i] / width, space.product);
    b[i] = (const B*)from.data + ((k_begin + b_at[i]) * from.k + column * from.col);
    if (several || one_column) b_k[i] = from.k;
  }
  T acc[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) acc[i] = (T)0;
  T held_a[na], held_b[nb];
  // The last step of K comes first: it alone may be short.
  const i64 k_last = k_begin + (k_end - k_begin - 1) / tk * tk;
  const auto fetch = [&](i64 k, bool whole) {
    if constexpr (makes_a) made_a.fetch(k, k_end, thread);
    if constexpr (makes_b) made_b.fetch(k, k_end, thread);
#pragma unroll
    for (int i = 0; i < na && !makes_a; ++i)
      held_a[i] = whole || k + a_at[i] < k_end ? (T)widen(a[i][(k - k_begin) * p.a_k]) : (T)0;
#pragma unroll
    for (int i = 0; i < nb && !makes_b; ++i)
      held_b[i] = whole || k + b_at[i] < k_end ? (T)widen(b[i][(k - k_begin) * (several ? b_k[i] : p.b_k)]) : (T)0;
  };
  if (k_begin < k_end) fetch(k_last, false);
  for (i64 k = k_begin; k < k_end; k += tk) {  // what is brought next
    if constexpr (makes_a) made_a.store(as, thread);
    if constexpr (makes_b) made_b.store(bs, thread);
#pragma unroll
    for (int i = 0; i < na && !makes_a; ++i) {
      if (!ragged_a || thread + i * threads < tm * tk) as[a_at[i]][a_row[i]] = held_a[i];
    }
#pragma unroll
    for (int i = 0; i < nb && !makes_b; ++i) {
      if (!ragged_b || thread + i * threads < tn * tk) bs[b_at[i]][b_col[i]] = held_b[i];
    }
    __syncthreads();
    if (k < k_last) fetch(k, true);
#pragma unroll 4
    for (int kk = 0; kk < tk; ++kk) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const T x = as[kk][ty * 4 + i], y = bs[kk][tx * 4 + j], z = acc[i * 4 + j];
          if constexpr (is_float<T>)
            acc[i * 4 + j] = fma(x, y, z);
          else  // wraps
            acc[i * 4 + j] = (T)((wrapping<T>)x * (wrapping<T>)y + (wrapping<T>)z);
        }
      }
    }
    __syncthreads();
  }
  if constexpr (Config::k_split > 1) {
    if (p.k_split > 1 &&
        !sum_slices<16, threads>(p, batch * (p.tiles_m * p.tiles_n) + place.index, slice, thread, &flag, acc))
      return;
  }
  T* const piece = (T*)shared;
#pragma unroll 1
  for (int first = 0; first < tm && row0 + first < p.rows; first += rows) {
    if (multiplies && ty * 4 >= first && ty * 4 < first + rows) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) piece[(ty * 4 + i - first) * (tn + pad) + tx * 4 + j] = acc[i * 4 + j];
      }
    }
    __syncthreads();
    Tile t;
    t.acc = piece, t.acc_ld = tn + pad, t.acc_part_stride = width;
#ifdef __HIP_PLATFORM_AMD__
    t.wide = width % lanes == 0;
#endif
    t.batch = batch, t.row = row0 + first, t.col = col0;
    t.rows = (i32)(p.rows - t.row < rows ? p.rows - t.row : rows);
    t.cols = (i32)(space.cols - col0 < width ? space.cols - col0 : width);
    t.piece_m = t.row / rows, t.piece_n = space.tile_n, t.product = space.product;
    t.thread = thread, t.threads = threads, t.barrier = 0, t.scratch = scratch;
    Epilogue::template phase_0<P>(params, t);
    __syncthreads();
  }
}

}  // namespace codetta::gpu
