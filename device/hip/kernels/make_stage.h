// SPDX-License-Identifier: Apache-2.0
// Tiles of a factor that is made, in the place of Loader (stage.h): what its elements are computed from waits in
// registers while another tile is multiplied; the elements go to LDS as those of a factor in memory would have come.
#pragma once

#include "device/gpu/make.h"
#include "device/hip/kernels/stage.h"

namespace codetta::gpu {

template <class Maker, class Stage, int threads, int ways, class P>
struct MadeLoader : Units<Stage, threads, ways> {
  using U = Units<Stage, threads, ways>;
  using U::columns, U::depth, U::passes, U::place, U::row_of, U::size, U::skipped, U::width;
  static constexpr int vectors = columns / lanes;  // of a unit
  static constexpr int tile_k = Stage::row_bytes / size;
  static_assert(columns % lanes == 0, "vectors fill a unit");

  Making<Maker, P> making;
  i64 next, k0, first, end;  // of the tiles: the next and the held one along K; along the other dim the first and all
  int held_k = 0;            // rows (or columns) of K that the held one has
  i64 begins[ways > 1 ? passes : 1];  // ways > 1: the column of each unit's first row of LDS
  typename Maker::Held held[passes][depth][vectors];

  // `rows`: of the factor in an item. `others`: along M (or N) all that exist; of a split tile: of each part.
  CODETTA_MEMBER MadeLoader(int own, const P& params, i64 item, i64 rows, i64 k_begin, i64 other, i64 others)
      : U(own), making(params, item, rows), next(k_begin), k0(k_begin), first(other), end(others) {
    if constexpr (ways > 1) {
      const ColumnsOfB<ways> places(params.problem, first);
#pragma unroll
      for (int i = 0; i < passes; ++i) {
        const int at = row_of(i) % width;
        begins[i] = skipped(i) ? 0 : places.at(first + at < end ? at : 0, row_of(i) / width);
      }
    }
  }

  // Where vector `v` of row `j` of a unit begins in the factor; how many of its elements exist.
  CODETTA_MEMBER int where(int i, int j, int v, int k, i64& r, i64& c) const {
    if (skipped(i)) return 0;
    const i64 root = first + row_of(i) % width, column = ways > 1 ? begins[ways > 1 ? i : 0] : first + row_of(i);
    if constexpr (Stage::k_major) {
      const int at = place * columns + v * lanes;
      r = column, c = k0 + at;
      return root < end ? there(at, k, lanes) : 0;
    } else {
      const int at = place * depth + j;
      r = k0 + at, c = column + v * lanes;
      return at < k ? there(root + v * lanes, end, lanes) : 0;
    }
  }
  CODETTA_MEMBER void load(int k) {
#pragma unroll
    for (int i = 0; i < passes; ++i) {
#pragma unroll
      for (int j = 0; j < depth; ++j) {
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
          i64 r = 0, c = 0;
          const int n = where(i, j, v, k, r, c);
          making.load(held[i][j][v], r, c, n);
        }
      }
    }
  }
  CODETTA_MEMBER void fetch_last(int k, i64 before) {
    k0 = next + before, held_k = k;
    load(k);
  }
  CODETTA_MEMBER void fetch() {
    k0 = next, held_k = tile_k;
    next += tile_k;
    load(tile_k);
  }
  CODETTA_MEMBER void settle(char* stage) const {
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      if (skipped(i)) continue;
      u32 words[depth][4];
#pragma unroll
      for (int j = 0; j < depth; ++j) {
        typename Maker::Vector made[vectors];
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
          i64 r = 0, c = 0;
          const int n = where(i, j, v, held_k, r, c);
          made[v] = making.make(held[i][j][v], r, c, n);
        }
        memcpy(words[j], made, sizeof words[j]);
      }
      put_unit<Stage>(U::to(stage, i), words);
    }
  }
};

}  // namespace codetta::gpu
