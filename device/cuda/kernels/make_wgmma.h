// SPDX-License-Identifier: Apache-2.0
// Products of sm_90a whose A is made (device/gpu/make.h): the copy engine brings the one matrix that A is computed from
// in the place of A; the warps that multiply take it to registers as the tensor cores want A there, and compute it. A
// consumer makes 16 of K while what it has made before is multiplied, and the other consumer's products go on
// meanwhile.
#pragma once

#include "device/cuda/kernels/make_rows.h"
#include "device/cuda/kernels/sm90.h"
#include "device/cuda/mma.h"

namespace codetta::gpu::sm90 {

// What makes vectors of rows 8 * i below the first one.
template <class Maker, class P, int rows>
struct MakersOfRows : MakersOfRows<Maker, P, rows - 1> {
  decltype(Maker::template at_row<P>(*(const P*)nullptr, Tile())) maker;
  template <class PlaceOf>
  __device__ __forceinline__ MakersOfRows(const P& params, const PlaceOf& tile_of)
      : MakersOfRows<Maker, P, rows - 1>(params, tile_of),
        maker(Maker::template at_row<P>(params, tile_of(rows - 1))) {}
  template <class Place, class Quotients>
  __device__ __forceinline__ typename Maker::Vector operator()(int i, const typename Maker::Held& held,
                                                               const Place& place, Quotients& quotients) const {
    if (i == rows - 1) return maker(held, place, quotients);
    return MakersOfRows<Maker, P, rows - 1>::operator()(i, held, place, quotients);
  }
};
template <class Maker, class P>
struct MakersOfRows<Maker, P, 0> {
  template <class PlaceOf>
  __device__ __forceinline__ MakersOfRows(const P&, const PlaceOf&) {}
  template <class Place, class Quotients>
  __device__ __forceinline__ typename Maker::Vector operator()(int, const typename Maker::Held&, const Place&,
                                                               Quotients&) const {
    return {};
  }
};

// A's rows of one consumer: word i of lane l holds of the warp's 16 x 16 elements those of row l / 4 + 8 * (i % 2),
// columns 2 * (l % 4) + 8 * (i / 2) and the next.
template <class Config, class Epilogue, class P, int bands>
struct RowsOfA {
  using Maker = typename Epilogue::MakerA;
  static_assert(Config::a_k_major && sizeof(typename Config::A) == 2);
  const Making<Maker, P> making;
  u32 first, last;      // this thread's first row, and the last one that exists
  i32 column;           // its first element in 16 of K
  u32 row_at, swizzle;  // of the row that it gives the address of, in the stage

  __device__ __forceinline__ RowsOfA(const P& params, const Unit& u, u32 band0)
      : making(params, u.batch, params.problem.m), last((u32)params.problem.m - 1), column((i32)(threadIdx.x % 4 * 2)) {
    const u32 thread = threadIdx.x % 128, lane = thread % 32, from = thread / 32 * 16 + lane % 16;
    row_at = from * 128;  // lane l: row l % 16, from column 8 * (l / 16) on
    swizzle = (lane / 16 ^ from % 8) * 16;
    first = u.tile_m * Config::tile_m + band0 * 64 + thread / 32 * 16 + lane / 4;
  }
  // Row 8 * (i % 2) of band i / 2; what lies below the last row is stored nowhere.
  __device__ __forceinline__ i32 row(int i) const {
    const u32 r = first + i / 2 * 64 + i % 2 * 8;
    return (i32)(r < last ? r : last);
  }
  // The 16 columns of A from k on, of a band whose rows begin at `stage`. `whole`: all of them exist.
  template <bool whole, class Makers>
  __device__ __forceinline__ void make(const Makers& makers, u32 stage, int band, u32 k, u32 (&word)[4]) const {
    ptx::load_matrices<false>(word, stage);
    make_words<whole>(
        making, [&](int w) { return k + w / 2 * 8 + column; },
        [&](int w, const typename Maker::Held& held, const auto& place, auto& quotients) {
          return makers(band * 2 + w % 2, held, place, quotients);
        },
        word);
  }
  // Of 16 columns, the `step`th in the stage.
  __device__ __forceinline__ u32 address(u32 stage, int step) const { return stage + row_at + (swizzle ^ step * 32); }
};

// As multiply().
template <class Config, class Epilogue, class S, class P, class Release, class Issued>
__device__ __forceinline__ void multiply_made(const P& params, const Unit& u, u32 band0, u32 base, u32 full,
                                              Release release, Ring<Config::stages>& ring, Issued issued) {
  using Maker = typename Epilogue::MakerA;
  constexpr u32 b_step = Config::b_k_major ? 2 : 2048 >> 4;
  const u64 b0 = ptx::descriptor_128b(0, Config::tile_k * 128, 1024);
  const RowsOfA<Config, Epilogue, P, S::bands> rows(params, u, band0);
  const MakersOfRows<Maker, P, 2 * S::bands> makers(params, [&](int i) { return rows.making.tile(rows.row(i), 0, 2); });
  each<0, S::bands>([](auto m) { ptx::clear<decltype(m)::value>(); });
  const auto multiply = [&](u32 at, u32 k, auto whole) {
    const u64 b = b0 | ((at & 0x3ffff) + S::a_bytes) >> 4;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      u32 word[S::bands][4];
#pragma unroll
      for (int m = 0; m < S::bands; ++m) {
        const u32 from = rows.address(at + (band0 + m) * 8192, step);
        rows.template make<decltype(whole)::value>(makers, from, m, k + step * 16, word[m]);
      }
      ptx::wgmma_fence();
      each<0, S::bands>([&](auto band) {
        constexpr int m = decltype(band)::value;
        ptx::wgmma_made<m>(word[m], b + (u64)(step * b_step));
      });
      ptx::wgmma_commit();
    }
  };
  u32 k = u.begin * Config::tile_k;
#pragma unroll 1
  for (u32 block = 0; block < u.blocks; ++block, k += Config::tile_k) {
    ptx::barrier_wait(full + 8 * ring.stage, ring.turn);
    const u32 at = base + ring.stage * S::stage_bytes;
    if (k + Config::tile_k <= (u32)params.problem.k)
      multiply(at, k, Known<true>{});
    else
      multiply(at, k, Known<false>{});
    ptx::wgmma_wait<0>();
    release(ring.stage);
    ring.advance();
  }
  issued();
}

}  // namespace codetta::gpu::sm90
