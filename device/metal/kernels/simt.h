// SPDX-License-Identifier: Apache-2.0
// The SIMT product on Metal: any dtype converted to the accumulator's on the way into threadgroup memory, any strides
// and alignment, batch, splits, K = 0, slices of K, factors that are made, several B of one A. The floor that always
// exists; the same work as device/gpu/kernels/simt.h. One threadgroup a tile (and slice), tile_m x tile_n accumulators
// over (tile_m / 4) x (tile_n / 4) threads, 4 x 4 each; what is missing to whole SIMD groups only copies.
#pragma once

#include "device/metal/make.h"
#include "device/metal/phase.h"

namespace codetta::gpu {

// Threadgroup memory: operands, in their place later the accumulators of a piece; then the scratch of reductions.
// src/plan/families_metal.cpp computes the same.
template <class Config, class Epilogue>
struct SimtShape {
  using T = typename Config::Accumulator;
  static CODETTA_CONSTANT int pad = 16 / (int)sizeof(T);
  static CODETTA_CONSTANT int operand_bytes =
      Config::tile_k * (Config::tile_m + Config::tile_n + 2 * pad) * (int)sizeof(T);
  static CODETTA_CONSTANT int piece_bytes = Config::piece_rows * (Config::tile_n + pad) * (int)sizeof(T);
  static CODETTA_CONSTANT int scratch_at = in_sixteens(larger(operand_bytes, piece_bytes));
  static CODETTA_CONSTANT int shared_bytes = scratch_at + in_sixteens(Epilogue::scratch_bytes(Config::threads));
};

// What a thread brings of one factor for a step along K. Neighbouring threads take neighbouring elements in memory,
// whichever way the factor lies. `each`: elements have strides of their own, as those of several B.
template <class Config, class S, int wide, bool each>
struct SimtFactor {
  using T = typename Config::Accumulator;
  static CODETTA_CONSTANT int tk = Config::tile_k, all = wide * tk,
                              count = (all + Config::threads - 1) / Config::threads;
  static CODETTA_CONSTANT bool ragged = all % Config::threads != 0;
  const device S* at[count];
  T held[count];
  i32 other[count], step[count];  // in the tile: row of A or column of B; k
  bool in[count];
  i64 k_stride[each ? count : 1];

  // Which element of the step is the i-th.
  CODETTA_MEMBER void place(int i, bool along_k, i32 id) {
    const int e = id + i * Config::threads;
    other[i] = along_k ? e / tk : e % wide;
    step[i] = along_k ? e % tk : e / wide;
    in[i] = !ragged || e < all;
  }
  CODETTA_MEMBER void fetch(i64 k, i64 k_begin, i64 k_end) {
    for (int i = 0; i < count; ++i)
      held[i] =
          in[i] && k + step[i] < k_end ? (T)widen(element_at(at[i] + (k - k_begin) * k_stride[each ? i : 0])) : (T)0;
  }
  // Where k has `stride` elements in front of the next.
  CODETTA_MEMBER void put(threadgroup T* to, int stride, i32 id) const {
    for (int i = 0; i < count; ++i) {
      if (!ragged || id + i * Config::threads < all) to[step[i] * stride + other[i]] = held[i];
    }
  }
};

// The two factors of a tile, in memory or made.
template <class Config, class Epilogue>
struct SimtA {
  using Maker = typename MakerOfA<Epilogue>::type;
  using E = typename Config::A;
  static CODETTA_CONSTANT bool makes = Makes<Maker>::value;
  typename Choose<makes, MadeSimtFactor<Config, Maker, E, Config::tile_m, Config::a_k_major, 1>,
                  SimtFactor<Config, E, Config::tile_m, false>>::type own;

  template <class P>
  CODETTA_MEMBER void begin(constant P& params, i64 item, i64 row0, i64 k_begin, i32 id) {
    if constexpr (!makes) {
      constant Problem& p = params.problem;
      own.k_stride[0] = p.a_k;
      for (int i = 0; i < own.count; ++i) {
        own.place(i, p.a_k == 1, id);
        const i64 row = row0 + own.other[i];
        own.in[i] = own.in[i] && row < p.m;
        own.at[i] = (const device E*)p.a + (item_of_a(p, item) + row * p.a_row + (k_begin + own.step[i]) * p.a_k);
      }
    }
  }
  template <class P>
  CODETTA_MEMBER void fetch(constant P& params, i64 item, i64 row0, i64 k, i64 k_begin, i64 k_end, i32 id) {
    constant Problem& p = params.problem;
    if constexpr (makes)
      own.fetch(params, item, Config::a_k_major ? p.m : p.k, row0, p.m, k, k_end, id);
    else
      own.fetch(k, k_begin, k_end);
  }
};
template <class Config, class Epilogue>
struct SimtB {
  using Maker = typename MakerOfB<Epilogue>::type;
  using E = typename Config::B;
  static CODETTA_CONSTANT bool makes = Makes<Maker>::value;
  static CODETTA_CONSTANT int products = ProductsOf<Epilogue>::count, width = Config::tile_n / Config::ways;
  typename Choose<makes, MadeSimtFactor<Config, Maker, E, Config::tile_n, Config::b_k_major, Config::ways>,
                  SimtFactor<Config, E, Config::tile_n, (products > 1)>>::type own;

  template <class P>
  CODETTA_MEMBER void begin(constant P& params, i64 item, i64 col0, i64 k_begin, i32 id) {
    if constexpr (!makes) {
      constant Problem& p = params.problem;
      for (int i = 0; i < own.count; ++i) {
        own.place(i, p.b_k == 1, id);
        const i64 root = col0 + own.other[i] % width;
        const int part = own.other[i] / width;
        own.in[i] = own.in[i] && root < p.cols;
        const ItemOfB<E> from = factor_b<Epilogue, Config::ways, E>(params, item, part);
        own.k_stride[products > 1 ? i : 0] = from.k;
        own.at[i] = from.first +
                    ((k_begin + own.step[i]) * from.k + column_of_b<Config::ways, products>(p, root, part) * from.col);
      }
    }
  }
  template <class P>
  CODETTA_MEMBER void fetch(constant P& params, i64 item, i64 col0, i64 k, i64 k_begin, i64 k_end, i32 id) {
    constant Problem& p = params.problem;
    if constexpr (makes)
      own.fetch(params, item, Config::b_k_major ? p.n : p.k, col0, p.cols, k, k_end, id);
    else
      own.fetch(k, k_begin, k_end);
  }
};

template <class Config, class Epilogue, class P>
CODETTA_FN void gemm_simt(constant P& params, threadgroup char* memory, Place where) {
  using Shape = SimtShape<Config, Epilogue>;
  using T = typename Config::Accumulator;
  constexpr int tm = Config::tile_m, tn = Config::tile_n, tk = Config::tile_k, threads = Config::threads;
  constexpr int width = tn / Config::ways;  // root columns
  constexpr int side = tn / 4, multiplying = tm / 4 * side, rows = Config::piece_rows;
  constexpr int a_stride = tm + Shape::pad, b_stride = tn + Shape::pad;
  static_assert(tm % 4 == 0 && tn % 4 == 0 && (multiplying + 31) / 32 * 32 == threads, "4 x 4 a thread");
  static_assert(tm % rows == 0 && rows % 4 == 0, "whole pieces");
  threadgroup T* const as = (threadgroup T*)memory;
  threadgroup T* const bs = as + tk * a_stride;

  constant Problem& p = params.problem;
  const i32 id = (i32)where.id;
  const bool multiplies = multiplying == threads || id < multiplying;
  const int ty = multiplies ? id / side : 0, tx = id % side;
  const Unit unit(p, where.group.x);
  const i64 row0 = unit.tile_m * tm, col0 = unit.tile_n * width;
  const i64 k_begin = unit.slice * p.k_slice, k_end = unit.slice + 1 == p.k_split ? p.k : k_begin + p.k_slice;

  SimtA<Config, Epilogue> a;
  SimtB<Config, Epilogue> b;
  a.begin(params, unit.batch, row0, k_begin, id);
  b.begin(params, unit.batch, col0, k_begin, id);
  T acc[16];
  for (int i = 0; i < 16; ++i) acc[i] = (T)0;
  if (k_begin < k_end) {
    a.fetch(params, unit.batch, row0, k_begin, k_begin, k_end, id);
    b.fetch(params, unit.batch, col0, k_begin, k_begin, k_end, id);
  }
  for (i64 k = k_begin; k < k_end; k += tk) {
    a.own.put(as, a_stride, id), b.own.put(bs, b_stride, id);
    group_barrier();
    if (k + tk < k_end) {
      a.fetch(params, unit.batch, row0, k + tk, k_begin, k_end, id);
      b.fetch(params, unit.batch, col0, k + tk, k_begin, k_end, id);
    }
    for (int kk = 0; kk < tk; ++kk) {
      T x[4], y[4];
      for (int i = 0; i < 4; ++i) x[i] = as[kk * a_stride + ty * 4 + i], y[i] = bs[kk * b_stride + tx * 4 + i];
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
          if constexpr (is_float<T>)
            acc[i * 4 + j] = metal::fma(x[i], y[j], acc[i * 4 + j]);
          else
            acc[i * 4 + j] = one::multiply_add(x[i], y[j], acc[i * 4 + j]);  // wraps
        }
      }
    }
    group_barrier();
  }
  threadgroup T* const piece = (threadgroup T*)memory;
  for (int first = 0; first < tm && row0 + first < p.rows; first += rows) {
    if (multiplies && ty * 4 >= first && ty * 4 < first + rows) {
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) piece[(ty * 4 + i - first) * b_stride + tx * 4 + j] = acc[i * 4 + j];
      }
    }
    group_barrier();
    Tile<const threadgroup T*> t;
    t.acc = piece, t.acc_ld = b_stride, t.acc_part_stride = width;
    t.batch = unit.batch, t.row = row0 + first, t.col = col0;
    t.rows = (i32)(p.rows - t.row < rows ? p.rows - t.row : rows);
    t.cols = (i32)(p.cols - col0 < width ? p.cols - col0 : width);
    t.piece_m = t.row / rows, t.piece_n = unit.tile_n;
    t.id = id, t.count = threads, t.scratch = memory + Shape::scratch_at;
    if constexpr (Config::k_split > 1)
      store_slice<Config>(p, t, unit.slice);
    else
      Epilogue::phase_0(params, t);
    group_barrier();
  }
}

}  // namespace codetta::gpu
