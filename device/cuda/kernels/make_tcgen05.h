// SPDX-License-Identifier: Apache-2.0
// Products of sm_100a whose A is made (make_rows.h): the copy engine brings the one matrix that A is computed from in
// the place of A, a warpgroup computes A from it where it lies, a row of the block a thread, and only then the stage is
// multiplied. It works on the stages ahead, while others are multiplied and tiles are finished. As all of this family
// it has not run on a GPU.
#pragma once

#include "device/cuda/kernels/make_rows.h"
#include "device/cuda/kernels/sm100.h"

namespace codetta::gpu::sm100 {

// A maker, the Machine of sm100_roles.h.
template <class Config, class Epilogue, class P>
struct RowsOfA : WarpOfBlock<Config, Epilogue, P> {
  using Warp = WarpOfBlock<Config, Epilogue, P>;
  using S = typename Warp::S;
  using Maker = typename Epilogue::MakerA;
  using Warp::params, Warp::thread;
  using Made = decltype(Maker::template at_row<P>(*(const P*)nullptr, Tile()));
  static_assert(Config::a_k_major && sizeof(typename Config::A) == 2);

  explicit __device__ __forceinline__ RowsOfA(const typename Warp::Base& block) : Warp(block) {}

  // What lies below the last row is stored nowhere.
  __device__ __forceinline__ i64 row_of(const Unit& u) const {
    const u32 row = u.tile_m * 128 + thread, last = (u32)params.problem.m - 1;
    return row < last ? row : last;
  }
  // A thread's row of a unit: what makes vectors of it, and where its slice of K begins.
  struct Row {
    Making<Maker, P> making;
    Made made;
    u32 k;
    __device__ __forceinline__ Row(const P& p, const Unit& u, i64 row, u32 first)
        : making(p, u.batch, p.problem.m), made(Maker::template at_row<P>(p, making.tile(row, 0, 2))), k(first) {}
  };
  __device__ __forceinline__ Row rows(const Unit& u) const {
    return Row(params, u, row_of(u), u.slice * this->tiles.blocks_slice * Config::tile_k);
  }
  // The row in a stage that has arrived: 128 bytes, whose units of 16 the swizzle exchanges.
  __device__ __forceinline__ void make(const Row& row, u32 block, u32 stage) const {
    const u32 at = this->base + stage * S::stage_bytes + thread * 128, k = row.k + block * Config::tile_k;
    if (k + Config::tile_k <= (u32)params.problem.k)
      make_row<true>(row, at, k);
    else
      make_row<false>(row, at, k);
  }
  template <bool whole>
  __device__ __forceinline__ void make_row(const Row& row, u32 at, u32 k) const {
#pragma unroll 2
    for (u32 unit = 0; unit < 8; ++unit) {
      const u32 place = at + (unit ^ thread % 8) * 16;
      u32 word[4];
      ptx::load_four(word, place);
      make_words<whole>(
          row.making, [&](int w) { return k + unit * 8 + w * 2; },
          [&](int, const typename Maker::Held& held, const auto& at_k, auto& quotients) {
            return row.made(held, at_k, quotients);
          },
          word);
      ptx::store_four(place, word);
    }
  }
};

}  // namespace codetta::gpu::sm100
