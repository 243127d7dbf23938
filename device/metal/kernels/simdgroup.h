// SPDX-License-Identifier: Apache-2.0
// The product by matrices of a SIMD group (8 x 8, f32 accumulators): f32, f16, bf16, and 8-bit floats as f16, which
// holds them exactly. Factors may lie either way in memory, or are made; several B of one A; tails along M, N and K,
// batch, splits of columns, slices of K. A step of tile_k goes through registers into one of two stages of threadgroup
// memory while the other is multiplied.
//
// Two facts are function constants, because whether they hold decides how every element is fetched, and comes out only
// with the sizes of a call: the host makes a pipeline for each combination that occurs, in which the compiler drops the
// branches. Sizes themselves stay arguments, so that one library serves every shape.
#pragma once

#include <metal_simdgroup_matrix>

#include "device/metal/make.h"
#include "device/metal/phase.h"

constant bool codetta_whole [[function_constant(0)]];    // M, N and K are multiples of the tile's and slices are whole
constant bool codetta_aligned [[function_constant(1)]];  // rows of A and B begin at multiples of 16 bytes

namespace codetta::gpu {

// How a stored element is held in threadgroup memory, and what a matrix takes it for.
template <class S>
struct Multiplied {
  using Raw = u16;
  using Held = u16;
  using Element = half;
  static CODETTA_MEMBER Held held(Raw x) { return x; }
};
template <>
struct Multiplied<bf16> {
  using Raw = u16;
  using Held = u16;
  using Element = bfloat;
  static CODETTA_MEMBER Held held(Raw x) { return x; }
};
template <>
struct Multiplied<f32> {
  using Raw = f32;
  using Held = f32;
  using Element = float;
  static CODETTA_MEMBER Held held(Raw x) { return x; }
};
template <>
struct Multiplied<f8e4m3> {
  using Raw = u8;
  using Held = u16;
  using Element = half;
  static CODETTA_MEMBER Held held(Raw x) { return (u16)f16_bits(widen(f8e4m3{x})); }
};
template <>
struct Multiplied<f8e5m2> {
  using Raw = u8;
  using Held = u16;
  using Element = half;
  static CODETTA_MEMBER Held held(Raw x) { return (u16)((u32)x << 8); }
};

// One factor's part of a tile: `wide` rows of A or columns of B, by tile_k. Side by side in memory, and in threadgroup
// memory, lie `fast` of K (k_major) or of the other dim.
template <class Config, class S, int wide, bool k_major>
struct SimdgroupFactor {
  using M = Multiplied<S>;
  using Raw = typename M::Raw;
  using Held = typename M::Held;
  static CODETTA_CONSTANT int fast = k_major ? Config::tile_k : wide, slow = k_major ? wide : Config::tile_k,
                              stride = fast + 16 / (int)sizeof(Held), stage = slow * stride,
                              stage_bytes = stage * (int)sizeof(Held), vec = sizeof(Raw) == 4 ? 4 : 8,
                              chunks = slow * (fast / vec), count = (chunks + Config::threads - 1) / Config::threads;
  static CODETTA_CONSTANT bool ragged = chunks % Config::threads != 0;
  static_assert(fast % vec == 0, "whole vectors");

  Held held[count][vec];

  // The elements at p, p + 1, ... of which `n` are there.
  CODETTA_MEMBER void take(int i, const device Raw* p, int n) {
    if (codetta_aligned && n >= vec) {
      constexpr int words = vec * (int)sizeof(Raw) / 4;
      u32 w[4];
      if constexpr (words == 4) {
        const metal::uint4 four = *(const device metal::uint4*)p;
        w[0] = four.x, w[1] = four.y, w[2] = four.z, w[3] = four.w;
      } else {
        const metal::uint2 two = *(const device metal::uint2*)p;
        w[0] = two.x, w[1] = two.y;
      }
      for (int j = 0; j < vec; ++j) {
        if constexpr (sizeof(Raw) == 4)
          held[i][j] = M::held(of_words<Raw>(w[j], 0));
        else if constexpr (sizeof(Raw) == 2)
          held[i][j] = M::held((Raw)(w[j / 2] >> (16 * (j % 2))));
        else
          held[i][j] = M::held((Raw)(w[j / 4] >> (8 * (j % 4))));
      }
    } else {
      for (int j = 0; j < vec; ++j) held[i][j] = j < n ? M::held(p[j]) : (Held)0;
    }
  }
  CODETTA_MEMBER void put(threadgroup Held* to, i32 id) const {
    for (int i = 0; i < count; ++i) {
      const int e = id + i * Config::threads;
      if (ragged && e >= chunks) continue;
      threadgroup Held* const at = to + (e / (fast / vec) * stride + e % (fast / vec) * vec);
      for (int j = 0; j < vec; ++j) at[j] = held[i][j];
    }
  }
  static CODETTA_MEMBER int there(i64 left) {
    if (codetta_whole) return vec;
    return left < 0 ? 0 : left < vec ? (int)left : vec;
  }
  // The i-th vector of this thread: its places along the slow and the fast dim; whether it is one of the tile's.
  static CODETTA_MEMBER bool place(int i, i32 id, thread int& s, thread int& f) {
    const int e = id + i * Config::threads;
    s = e / (fast / vec), f = e % (fast / vec) * vec;
    return !ragged || e < chunks;
  }
  CODETTA_MEMBER void fetch_a(constant Problem& p, i64 batch, i64 row0, i64 k, i64 k_end, i32 id) {
    const device Raw* const first = (const device Raw*)p.a + item_of_a(p, batch);
    for (int i = 0; i < count; ++i) {
      int s, f;
      if (!place(i, id, s, f)) continue;
      const i64 row = row0 + (k_major ? s : f), at = k + (k_major ? f : s);
      const int n = k_major ? (codetta_whole || row < p.m ? there(k_end - at) : 0)
                            : (codetta_whole || at < k_end ? there(p.m - row) : 0);
      take(i, n > 0 ? first + (row * p.a_row + at * p.a_k) : first, n);
    }
  }
  template <class Epilogue, class P>
  CODETTA_MEMBER void fetch_b(constant P& params, i64 batch, i64 col0, i64 k, i64 k_end, i32 id) {
    constexpr int width = wide / Config::ways, products = ProductsOf<Epilogue>::count;
    constant Problem& p = params.problem;
    for (int i = 0; i < count; ++i) {
      int s, f;
      if (!place(i, id, s, f)) continue;
      const int at_n = k_major ? s : f, part = at_n / width;
      const i64 root = col0 + at_n % width, at = k + (k_major ? f : s);
      const ItemOfB<Raw> from = factor_b<Epilogue, Config::ways, Raw>(params, batch, part);
      const int n = k_major ? (codetta_whole || root < p.cols ? there(k_end - at) : 0)
                            : (codetta_whole || at < k_end ? there(p.cols - root) : 0);
      if (k_major || Config::ways == products || p.chunk % vec == 0) {
        const i64 column = n > 0 ? column_of_b<Config::ways, products>(p, root, part) : 0;
        take(i, n > 0 ? from.first + (at * from.k + column * from.col) : from.first, n);
      } else {  // neighbours are not side by side
        for (int j = 0; j < vec; ++j) {
          const i64 column = j < n ? column_of_b<Config::ways, products>(p, root + j, part) : 0;
          held[i][j] = j < n ? M::held(from.first[at * from.k + column * from.col]) : (Held)0;
        }
      }
    }
  }
  // The same of a factor that is made. `rows`: of it in an item; `ways`: parts of its columns; `first`, `end`: along
  // the other dim than K, of the tile and of all.
  template <class Maker, int ways, class P>
  CODETTA_MEMBER void make(constant P& params, i64 item, i64 rows, i64 first, i64 end, i64 k, i64 k_end, i32 id) {
    static_assert(vec % lanes == 0, "vectors of what makes it are whole ones of the factor");
    constexpr int width = wide / ways;
    constant Problem& p = params.problem;
    const bool aligned = Maker::aligned(params);
    for (int i = 0; i < count; ++i) {
      int s, f;
      if (!place(i, id, s, f)) continue;
      for (int v = 0; v < vec; v += lanes) {
        const int other = k_major ? s : f + v, part = other / width;
        const i64 root = first + other % width, at = k + (k_major ? f + v : s);
        int n = root < end && at < k_end ? codetta::gpu::there(k_major ? at : root, k_major ? k_end : end, lanes) : 0;
        typename Maker::Vector made;
        if (k_major || ways == 1 || p.chunk % vec == 0) {
          const i64 column = n > 0 ? column_of_b<ways>(p, root, part) : 0;
          made = made_vector<Maker>(params, item, rows, k_major ? column : at, k_major ? at : column, n, aligned);
        } else {  // neighbours are not side by side
          CODETTA_EACH_LANE({
            const i64 column = i < n ? column_of_b<ways>(p, root + i, part) : 0;
            made.e[i] = made_vector<Maker>(params, item, rows, at, column, i < n ? 1 : 0, aligned).e[0];
          });
        }
        for (int j = 0; j < lanes; ++j) held[i][v + j] = M::held((Raw)made.e[j]);
      }
    }
  }
};

// Threadgroup memory: two stages of both factors, in their place later the accumulators of a piece; then the scratch of
// reductions. src/plan/families_metal.cpp computes the same.
template <class Config, class Epilogue>
struct SimdgroupShape {
  using FactorA = SimdgroupFactor<Config, typename Config::A, Config::tile_m, Config::a_k_major>;
  using FactorB = SimdgroupFactor<Config, typename Config::B, Config::tile_n, Config::b_k_major>;
  static CODETTA_CONSTANT int stage_bytes = FactorA::stage_bytes + FactorB::stage_bytes;
  static CODETTA_CONSTANT int piece_stride = Config::tile_n + 4;
  static CODETTA_CONSTANT int piece_bytes = Config::piece_rows * piece_stride * 4;
  static CODETTA_CONSTANT int scratch_at = in_sixteens(larger(Config::stages * stage_bytes, piece_bytes));
  static CODETTA_CONSTANT int shared_bytes = scratch_at + in_sixteens(Epilogue::scratch_bytes(Config::threads));
};

// What a thread brings of a step from k on.
template <class Config, class Epilogue, class P, class FactorA, class FactorB>
CODETTA_FN void fetch_step(constant P& params, thread FactorA& a, thread FactorB& b, Unit unit, i64 row0, i64 col0,
                           i64 k, i64 k_end, i32 id) {
  using MakerA = typename MakerOfA<Epilogue>::type;
  using MakerB = typename MakerOfB<Epilogue>::type;
  constant Problem& p = params.problem;
  if constexpr (Makes<MakerA>::value)
    a.template make<MakerA, 1>(params, unit.batch, Config::a_k_major ? p.m : p.k, row0, p.m, k, k_end, id);
  else
    a.fetch_a(p, unit.batch, row0, k, k_end, id);
  if constexpr (Makes<MakerB>::value)
    b.template make<MakerB, Config::ways>(params, unit.batch, Config::b_k_major ? p.n : p.k, col0, p.cols, k, k_end,
                                          id);
  else
    b.template fetch_b<Epilogue>(params, unit.batch, col0, k, k_end, id);
}

template <class Config, class Epilogue, class P>
CODETTA_FN void gemm_simdgroup(constant P& params, threadgroup char* memory, Place where) {
  using Shape = SimdgroupShape<Config, Epilogue>;
  using FactorA = typename Shape::FactorA;
  using FactorB = typename Shape::FactorB;
  using ElementA = typename Multiplied<typename Config::A>::Element;
  using ElementB = typename Multiplied<typename Config::B>::Element;
  constexpr int tm = Config::tile_m, tn = Config::tile_n, tk = Config::tile_k, width = tn / Config::ways;
  constexpr int groups_m = Config::groups_m, groups_n = Config::consumers / groups_m;
  constexpr int rows_own = tm / groups_m, cols_own = tn / groups_n, high = rows_own / 8, broad = cols_own / 8;
  constexpr int rows = Config::piece_rows;
  static_assert(Config::threads == 32 * Config::consumers && Config::stages == 2, "two stages");
  static_assert(tm % (8 * groups_m) == 0 && tn % (8 * groups_n) == 0 && tk % 8 == 0 && width % 8 == 0,
                "8 x 8 matrices");
  static_assert(tm % rows == 0 && rows % 8 == 0, "whole pieces");

  constant Problem& p = params.problem;
  const i32 id = (i32)where.id, own = id / 32;
  const int row_own = own / groups_n * rows_own, col_own = own % groups_n * cols_own;
  const Unit unit(p, where.group.x);
  const i64 row0 = unit.tile_m * tm, col0 = unit.tile_n * width;
  const i64 k_begin = unit.slice * p.k_slice, k_end = unit.slice + 1 == p.k_split ? p.k : k_begin + p.k_slice;

  metal::simdgroup_matrix<float, 8, 8> acc[high][broad];
  for (int i = 0; i < high; ++i) {
    for (int j = 0; j < broad; ++j) acc[i][j] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  FactorA a;
  FactorB b;
  int stage = 0;
  if (k_begin < k_end) {
    fetch_step<Config, Epilogue>(params, a, b, unit, row0, col0, k_begin, k_end, id);
    a.put((threadgroup typename FactorA::Held*)memory, id);
    b.put((threadgroup typename FactorB::Held*)(memory + FactorA::stage_bytes), id);
  }
  group_barrier();
  const metal::ulong2 origin = {0, 0};
  for (i64 k = k_begin; k < k_end; k += tk) {
    const bool more = k + tk < k_end;
    if (more) {
      fetch_step<Config, Epilogue>(params, a, b, unit, row0, col0, k + tk, k_end, id);
    }
    const threadgroup ElementA* const as = (const threadgroup ElementA*)(memory + stage * Shape::stage_bytes);
    const threadgroup ElementB* const bs =
        (const threadgroup ElementB*)(memory + stage * Shape::stage_bytes + FactorA::stage_bytes);
    for (int kk = 0; kk < tk; kk += 8) {
      metal::simdgroup_matrix<ElementA, 8, 8> x[high];
      metal::simdgroup_matrix<ElementB, 8, 8> y[broad];
      for (int i = 0; i < high; ++i) {
        const int row = row_own + i * 8;
        if constexpr (Config::a_k_major)
          metal::simdgroup_load(x[i], as + (row * FactorA::stride + kk), FactorA::stride, origin, false);
        else
          metal::simdgroup_load(x[i], as + (kk * FactorA::stride + row), FactorA::stride, origin, true);
      }
      for (int j = 0; j < broad; ++j) {
        const int col = col_own + j * 8;
        if constexpr (Config::b_k_major)
          metal::simdgroup_load(y[j], bs + (col * FactorB::stride + kk), FactorB::stride, origin, true);
        else
          metal::simdgroup_load(y[j], bs + (kk * FactorB::stride + col), FactorB::stride, origin, false);
      }
      for (int i = 0; i < high; ++i) {
        for (int j = 0; j < broad; ++j) metal::simdgroup_multiply_accumulate(acc[i][j], x[i], y[j], acc[i][j]);
      }
    }
    stage = 1 - stage;
    if (more) {
      threadgroup char* const to = memory + stage * Shape::stage_bytes;
      a.put((threadgroup typename FactorA::Held*)to, id);
      b.put((threadgroup typename FactorB::Held*)(to + FactorA::stage_bytes), id);
    }
    group_barrier();
  }
  threadgroup float* const piece = (threadgroup float*)memory;
  for (int first = 0; first < tm && row0 + first < p.rows; first += rows) {
    for (int i = 0; i < high; ++i) {
      const int row = row_own + i * 8 - first;
      if (row < 0 || row >= rows) continue;
      for (int j = 0; j < broad; ++j) {
        metal::simdgroup_store(acc[i][j], piece + (row * Shape::piece_stride + col_own + j * 8), Shape::piece_stride,
                               origin, false);
      }
    }
    group_barrier();
    Tile<const threadgroup float*> t;
    t.acc = piece, t.acc_ld = Shape::piece_stride, t.acc_part_stride = width;
    t.batch = unit.batch, t.row = row0 + first, t.col = col0;
    t.rows = (i32)(p.rows - t.row < rows ? p.rows - t.row : rows);
    t.cols = (i32)(p.cols - col0 < width ? p.cols - col0 : width);
    t.piece_m = t.row / rows, t.piece_n = unit.tile_n;
    t.id = id, t.count = Config::threads, t.scratch = memory + Shape::scratch_at;
    if constexpr (Config::k_split > 1)
      store_slice<Config>(p, t, unit.slice);
    else
      Epilogue::phase_0(params, t);
    group_barrier();
  }
}

}  // namespace codetta::gpu
