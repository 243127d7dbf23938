// SPDX-License-Identifier: Apache-2.0
// Tiles of a factor that is made, in the place of Loader (stage.h): what its elements are computed from waits in
// registers while another block is multiplied; the elements go to shared memory as copies would have brought them.
#pragma once

#include "device/cuda/kernels/stage.h"
#include "device/gpu/make.h"

namespace codetta::gpu {

template <class Maker, class Stage, int threads, int ways, class P>
struct MadeLoader {
  static constexpr int elements = 16 / Stage::size, vectors = elements / lanes;
  static constexpr int along = Stage::row_bytes / 16, units = Stage::bytes / 16;
  static constexpr int passes = (units + threads - 1) / threads, pass_rows = threads / along;
  static constexpr int width = Stage::rows / ways;
  static_assert(threads % along == 0, "a thread keeps its place in the row");
  static_assert(elements % lanes == 0, "vectors fill a run of 16 bytes");
  static_assert(ways == 1 || Stage::k_major, "columns of a split tile are rows of what is made");
  static constexpr int multiple = Stage::rows & -Stage::rows;  // where rows of a block begin
  static constexpr int reach = ways == 1 ? multiple : 0;       // columns of a split tile lie anywhere

  Making<Maker, P> making;
  i64 k0, first, end;  // of the next block; along the other dim: of the tile, and of all
  const i64* table;    // ways > 1: the column of each row
  int row, column;     // of the first unit in the block, in elements
  typename Maker::Held held[passes][vectors];

  CODETTA_MEMBER MadeLoader(const P& params, i64 item, i64 rows, i64 k_begin, i64 other, i64 others, const i64* columns,
                            int thread)
      : making(params, item, rows),
        k0(k_begin),
        first(other),
        end(others),
        table(columns),
        row(thread / along),
        column(thread % along * elements) {}

  // Where a vector of a pass begins in the factor; how many of its elements exist.
  template <class Place>
  CODETTA_MEMBER int place(int k, i64& r, i64& c) const {
    const int at = row + Place::row * pass_rows, beside = column + Place::vector * lanes;
    if (units % threads != 0 && at >= Stage::rows) return 0;
    if constexpr (Stage::k_major) {
      r = ways > 1 ? table[at] : first + at;
      c = k0 + beside;
      return first + at % width < end ? there(beside, k, lanes) : 0;
    } else {
      r = known_multiple<multiple>(k0) + at, c = first + beside;
      return at < k ? there(c, end, lanes) : 0;
    }
  }
  CODETTA_MEMBER void fetch(u32, int k) {
    each_place<passes, pass_rows, reach, vectors>([&](auto at) {
      using Place = decltype(at);
      i64 r = 0, c = 0;
      const int n = place<Place>(k, r, c);
      making.template load<Place>(held[Place::row][Place::vector], r, c, n);
    });
  }
  CODETTA_MEMBER void settle(u32 stage, int k) {
    typename Maker::Vector made[vectors];
    each_place<passes, pass_rows, reach, vectors>([&](auto at) {
      using Place = decltype(at);
      if (units % threads != 0 && row + Place::row * pass_rows >= Stage::rows) return;
      i64 r = 0, c = 0;
      const int n = place<Place>(k, r, c);
      made[Place::vector] = making.template make<Place>(held[Place::row][Place::vector], r, c, n);
      if constexpr (Place::vector + 1 == vectors) {
        uint4 words;
        memcpy(&words, made, sizeof words);
        ptx::store_shared_four(stage + Stage::at(row + Place::row * pass_rows, column * Stage::size), words);
      }
    });
    k0 += k;
  }
};

}  // namespace codetta::gpu
