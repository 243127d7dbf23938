// SPDX-License-Identifier: Apache-2.0
// The sm_90a GEMM: one producer warp feeds a ring of shared-memory stages through the copy engine (TMA), one to three
// consumer warpgroups multiply them with wgmma and run the epilogue. Blocks are persistent and walk tiles in raster
// groups; blocks of a cluster share operands by multicast. Two schedules: cooperative (the consumers share a tile,
// bands of 64 rows each) and ping-pong (each consumer owns whole tiles in turn, so that the epilogue of one runs under
// the multiplication of the other). A K that is split is summed in slice order by the block that arrives last. With
// Config::stream_k the tiles that would make a last wave of few are cut along K, so that every cluster has as many
// steps of them as any other; their parts are summed in the same way.
//
// Config offers, besides what tile.h says: a_k_major, b_k_major; makes_a (the copies bring what A is made of, in its
// shape); wait_depth (wgmma groups left in flight, 0 or 1); b_run (columns of B in a row that lie side by side, of a
// part's in a tile: fewer where the chunks of a split are narrower);
// warp_rows (16: each warp finishes the rows that it has multiplied, 0: all of them together); spread_a; a_rows.
// With Config::a_rows < tile_m only so many rows of A exist, and a stage brings no more: the others of the last 64 are
// whatever lies behind them, B's columns, and nobody reads their products.
// With MathMode::Fp8TwoLevelAccumulation the products are those of two_level.h.
// wgmma.h's width must be tile_n. Tails of M, N and K are zero-filled by the copy engine; the epilogue masks stores.
//
// With Config::spread_a = f > 1 rows of A begin anywhere. The host has made a batch of f items of them, of which item i
// has rows i, i + f, ...: within an item all begin at the same place within 16 bytes, and each item has a tensor map
// (the last f - 1 of Params::map are those of items 1 and on). Boxes of the copy engine begin at multiples of 16 bytes,
// so that a row's copy begins with up to 15 bytes of the row before it: consumers zero these, and K is counted from
// there. B is read as many steps earlier, where the copy engine fills in zeros: it lies along N.
#pragma once

#include "device/cuda/kernels/sm90_schedule.h"
#include "device/cuda/ptx.h"
#include "device/cuda/strip.h"
#include "device/cuda/wgmma.h"
#include "device/gpu/tile.h"

namespace codetta::gpu {
template <class Copies, int cols>
struct CopyLayout;  // device/cuda/kernels/copies.h, which Config::copied needs; Config::makes_a: make_wgmma.h
}  // namespace codetta::gpu

namespace codetta::gpu::sm90 {

template <int stages>
struct Ring;
template <class Config, class Epilogue>
struct Copier;
template <class Config, class Epilogue, class Own, class S, class P, class C>
__device__ __forceinline__ void ask_first(const P& params, const Unit& u, u32 band0, C& copier);
template <class Config, class Epilogue, class S, class P, class Release, class Issued>
__device__ __forceinline__ void multiply_made(const P& params, const Unit& u, u32 band0, u32 base, u32 full,
                                              Release release, Ring<Config::stages>& ring, Issued issued);
template <class Config, class S, class Release>
__device__ __forceinline__ void multiply_runs(u32 blocks, u32 band0, u32 base, u32 full, Release release,
                                              Ring<Config::stages>& ring);
template <class Config, class Epilogue, class Own, class S, class P, class C>
__device__ __forceinline__ void finish_copied(const P& params, const Unit& u, u32 band0, u32 thread,
                                              unsigned char* scratch, C& copier);

template <int n>
struct Number {
  static constexpr int value = n;
};
// f(Number<first>{}), ..., f(Number<last - 1>{}): what names accumulators knows their numbers.
template <int first, int last, class F>
__device__ __forceinline__ void each(const F& f) {
  if constexpr (last - first == 1) {
    f(Number<first>{});
  } else {
    each<first, (first + last) / 2>(f);
    each<(first + last) / 2, last>(f);
  }
}

// What follows from a configuration; src/plan computes the same numbers.
template <class Config, class Epilogue>
struct Shape {
  static constexpr int cluster = Config::cluster_m * Config::cluster_n;
  static constexpr int element = (int)sizeof(typename Config::A);
  static constexpr int width = Config::tile_n / Config::ways;                                     // root columns
  static constexpr int bands = Config::tile_m / 64 / (Config::pingpong ? 1 : Config::consumers);  // of a consumer
  static constexpr bool two_level = Config::math == MathMode::Fp8TwoLevelAccumulation;
  // Of accumulators: beside their own those of a stage's products, or of two stages' by turns.
  static constexpr int sets = !two_level ? 1 : 3 * bands * Config::tile_n / 2 <= 192 ? 3 : 2;
  static constexpr int sharing = Config::pingpong ? 1 : Config::consumers;  // consumers of a tile
  // A copy brings `box` rows of 128 bytes: K-major, a run of rows of the operand's tile, split over the blocks that
  // share it; MN-major, 64 wide blocks of tile_k rows.
  static constexpr int a_boxes = Config::a_k_major ? Config::cluster_n : Config::tile_m / 64;
  static constexpr int runs = width / Config::b_run * Config::ways;  // of columns of B that lie side by side
  static constexpr int b_parts = runs % Config::cluster_m == 0 ? runs : runs * Config::cluster_m;
  static constexpr int b_boxes = Config::b_k_major ? b_parts : (width + 63) / 64 * Config::ways;
  static constexpr int a_box_rows = Config::a_k_major ? Config::a_rows / a_boxes : 64;  // along M
  static constexpr int b_box_rows = Config::b_k_major ? Config::tile_n / b_boxes : 64;  // along N
  static constexpr int a_bytes = Config::a_k_major ? Config::a_rows * 128 : Config::tile_m / 64 * Config::tile_k * 128;
  static constexpr int b_bytes = Config::b_k_major ? Config::tile_n * 128 : b_boxes * Config::tile_k * 128;
  static constexpr int stage_bytes = a_bytes + b_bytes;
  // Pieces of accumulators on their way to the epilogue: rows padded so that a warp's stores meet no bank twice.
  static constexpr int piece_ld =
      Config::piece_cols + (Config::piece_cols % 32 == 0 ? 8 : 24 - Config::piece_cols % 32);
  static constexpr int bytes_of_piece() {
    if constexpr (Config::copied) {
      using Layout = CopyLayout<typename Epilogue::Copies, Config::piece_cols>;
      return 4 * Layout::begin(Layout::count);
    }
    return Config::from_registers ? 0 : 64 * piece_ld * 4 * Config::ways;
  }
  static constexpr int piece_bytes = bytes_of_piece();
  static constexpr int bytes_of_scratch() {
    if constexpr (Config::copied) return 2 * 4 * width * 4 * Epilogue::Copies::column_sums;
    return (Epilogue::scratch_bytes(128) + 127) / 128 * 128;
  }
  static constexpr int scratch_bytes = bytes_of_scratch();
  static constexpr int pieces_at = Config::stages * stage_bytes;
  static constexpr int barriers_at = pieces_at + Config::consumers * (piece_bytes + scratch_bytes);
  static constexpr int copy_barriers_at = barriers_at + 16 * Config::stages + 16;
  static constexpr int load_slots() {  // a barrier each for every warp
    if constexpr (Config::copied) return Epilogue::Copies::load_slots;
    return 0;
  }
  static constexpr int shared_bytes = copy_barriers_at + 32 * load_slots() * Config::consumers;

  static_assert(Config::tile_k * element == 128, "a stage is one swizzle span of K");
  static_assert(Config::tile_n == CODETTA_WGMMA_N, "wgmma.h was included for another width");
  static_assert(Config::tile_m % (64 * sharing) == 0, "whole bands of 64 rows");
  static_assert(Config::piece_rows == 64 && Config::piece_cols % 8 == 0);
  static_assert(Config::threads == 128 * (1 + Config::consumers) && Config::consumers <= 3);
  static_assert(!Config::pingpong || Config::consumers == 2);
  static_assert(!Config::stream_k || (Config::k_split == 1 && !Config::pingpong));
  static_assert(Config::spread_a == 1 || (Config::a_k_major && !Config::b_k_major && !Config::makes_a &&
                                          Config::k_split == 1 && !Config::stream_k));
  static_assert(Config::a_rows == Config::tile_m ||
                (Config::a_rows > Config::tile_m - 64 && Config::a_k_major && !Config::makes_a &&
                 Config::spread_a == 1 && stage_bytes >= Config::tile_m * 128));
  static_assert(!two_level || (bands == 1 && !Config::pingpong), "the other consumer multiplies while one adds");
  static_assert(sets * bands * Config::tile_n / 2 <= 192, "more accumulators a thread spill");
  static_assert(a_box_rows <= 256 && b_box_rows <= 256 && a_box_rows % 8 == 0 && b_box_rows % 8 == 0);
  static_assert(Config::b_k_major || Config::ways == 1 || width % 64 == 0, "a part begins with a 64 wide block");
  static_assert(width % Config::b_run == 0 && Config::b_run % 8 == 0, "a part's columns come in whole boxes");
  static_assert(shared_bytes <= Config::shared_bytes && Config::shared_bytes <= 232448);
};

// Place in the ring of stages; the parity of a full barrier's phase is that of the turn.
template <int stages>
struct Ring {
  u32 stage = 0, turn = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == stages) {
      stage = 0;
      turn ^= 1;
    }
  }
  __device__ __forceinline__ void skip(u32 n) {
    const u32 sum = stage + n, turns = sum / stages;
    stage = sum - turns * stages;
    turn ^= turns & 1;
  }
};

// The unit as the product has it whose root space its tile is in: tile_n counts that product's tiles.
template <class Config, class Epilogue, class P>
__device__ __forceinline__ Unit in_space(const P& params, Unit u, int& product) {
  const TileSpace space = space_of_tile<Config, Epilogue>(params, u.tile_n);
  u.tile_n = space.tile_n;
  product = space.product;
  return u;
}
// The first column of B in this block's i-th box of a unit of its product: the copy engine counts in 32 bits.
template <class Config, class S, class Epilogue>
__device__ __forceinline__ i32 column_of_box(const Problem& p, const Unit& u, u32 rank_m, int i) {
  const int at = (int)(rank_m + i * Config::cluster_m) * S::b_box_rows;
  constexpr int padded = Config::b_k_major ? S::width : (S::width + 63) / 64 * 64;
  const u32 root = u.tile_n * S::width + (u32)(at % padded);
  return (i32)column_of_b<Config::ways, ProductsOf<Epilogue>::count>(p, root, at / padded);
}
// The tensor map of A's rows.
template <class Config, class P>
__device__ __forceinline__ const TensorMap* map_of_a(const P& params, u32 item) {
  constexpr u32 maps = sizeof params.map / sizeof(TensorMap);
  if (Config::spread_a > 1 && item > 0) return &params.map[maps - Config::spread_a + item];
  return &params.map[0];
}
// The tensor map that the box comes by: B has one, and so have those of further products. `of`: the product whose root
// space the tile is in.
template <class Config, class S, class Epilogue, class P>
__device__ __forceinline__ const TensorMap* map_of_box(const P& params, u32 rank_m, int i, int of) {
  constexpr int products = ProductsOf<Epilogue>::count;
  if constexpr (SpacesOf<Epilogue>::count > 1) return &params.map[of == 0 ? 1 : Epilogue::more_map(of)];
  if constexpr (products > 1) {
    constexpr int padded = Config::b_k_major ? S::width : (S::width + 63) / 64 * 64;
    const int part = (int)(rank_m + i * Config::cluster_m) * S::b_box_rows / padded;
    const int product = part / (Config::ways / products);
    if (product > 0) return &params.map[Epilogue::more_map(product)];
  }
  return &params.map[1];
}

// Few rows wait for B: one thread brings the first two stages of it towards L2 while the kernel before this one ends,
// where it does not matter who may still write it. Each box of 64 rows costs 150 ns where the block itself began late,
// so that all stages cost more than they saved (an H200, bench/NOTES.md).
template <class Config, class S, class Epilogue, class P>
__device__ __forceinline__ void approach(const P& params, const Schedule<Config>& schedule) {
  if (!schedule.has(0)) return;
  int product;
  const Unit u = in_space<Config, Epilogue>(params, schedule.nth(params.problem, 0), product);
  i32 k = (i32)(u.begin * Config::tile_k) - (i32)in_front<Config>(params.problem, u.batch);
#pragma unroll 1
  for (u32 block = 0; block < u.blocks && block < 2; ++block, k += Config::tile_k) {
#pragma unroll
    for (int i = 0; i < S::b_boxes; ++i) {
      const i32 column = column_of_box<Config, S, Epilogue>(params.problem, u, 0, i);
      ptx::tma_prefetch(map_of_box<Config, S, Epilogue>(params, 0, i, product), Config::b_k_major ? k : column,
                        Config::b_k_major ? column : k, params.problem.b_batch ? (i32)u.batch : 0);
    }
  }
}

// One thread's work: copy every stage of every unit as soon as it is free.
template <class Config, class S, class Epilogue, class P>
__device__ __forceinline__ void produce(const P& params, const Schedule<Config>& schedule, u32 base, u32 full,
                                        u32 empty) {
  constexpr int my_a = (S::a_boxes + Config::cluster_n - 1) / Config::cluster_n;
  constexpr int my_b = (S::b_boxes + Config::cluster_m - 1) / Config::cluster_m;
  const Problem& p = params.problem;
  const u32 rank_m = schedule.rank_m, rank_n = schedule.rank_n;
  u32 mask_a = 0, mask_b = 0;  // who shares my A (my row of the cluster), my B (my column)
#pragma unroll
  for (int i = 0; i < Config::cluster_n; ++i) mask_a |= 1u << (rank_m + i * Config::cluster_m);
#pragma unroll
  for (int i = 0; i < Config::cluster_m; ++i) mask_b |= 1u << (rank_n * Config::cluster_m + i);
  Ring<Config::stages> ring;
  for (u32 index = 0; schedule.has(index); ++index) {
    int product;
    const Unit u = in_space<Config, Epilogue>(params, schedule.nth(p, index), product);
    i32 batch_a = p.a_batch ? (i32)u.batch : 0, row = (i32)(u.tile_m * Config::tile_m);
    if constexpr (Config::makes_a) {
      using Maker = typename Epilogue::MakerA;
      batch_a = params.operand[Maker::source].stride[0] != 0 ? (i32)u.batch : 0;
      if constexpr (Maker::batch_in_rows) row += (i32)(u.batch * p.m);
    }
    if constexpr (Config::spread_a > 1) batch_a = 0;
    const TensorMap* const map_a = map_of_a<Config>(params, u.batch);
    // B passes once where there is one row of tiles.
    const u64 policy_b = p.tiles_m == 1 ? ptx::evict_first : ptx::evict_normal;
    const i32 batch_b = p.b_batch ? (i32)u.batch : 0, front = (i32)in_front<Config>(p, u.batch);
    i32 k = (i32)(u.begin * Config::tile_k);
    i32 column[my_b];
#pragma unroll
    for (int i = 0; i < my_b; ++i) column[i] = column_of_box<Config, S, Epilogue>(p, u, rank_m, i);
#pragma unroll 1
    for (u32 block = 0; block < u.blocks; ++block, k += Config::tile_k) {
      const u32 bar = full + 8 * ring.stage, a = base + ring.stage * S::stage_bytes, b = a + S::a_bytes;
      ptx::barrier_wait(empty + 8 * ring.stage, ring.turn ^ 1);
      ptx::barrier_expect(bar, S::stage_bytes);
#pragma unroll
      for (int i = 0; i < my_a; ++i) {
        const u32 box = rank_n + i * Config::cluster_n;
        if (S::a_boxes % Config::cluster_n != 0 && box >= S::a_boxes) continue;
        const u32 dst = a + box * (Config::a_k_major ? S::a_box_rows * 128 : Config::tile_k * 128);
        const i32 m = row + (i32)box * S::a_box_rows;
        const i32 fast = Config::a_k_major ? k : m, slow = Config::a_k_major ? m : k;
        if constexpr (Config::cluster_n > 1) {
          ptx::tma_load_multicast(dst, map_a, bar, fast, slow, batch_a, (u16)mask_a, ptx::evict_normal);
        } else {
          ptx::tma_load(dst, map_a, bar, fast, slow, batch_a, ptx::evict_normal);
        }
      }
#pragma unroll
      for (int i = 0; i < my_b; ++i) {
        const u32 box = rank_m + i * Config::cluster_m;
        if (S::b_boxes % Config::cluster_m != 0 && box >= S::b_boxes) continue;
        const u32 dst = b + box * (Config::b_k_major ? S::b_box_rows * 128 : Config::tile_k * 128);
        const i32 fast = Config::b_k_major ? k : column[i], slow = Config::b_k_major ? column[i] : k - front;
        const TensorMap* const map = map_of_box<Config, S, Epilogue>(params, rank_m, i, product);
        if constexpr (Config::cluster_m > 1) {
          ptx::tma_load_multicast(dst, map, bar, fast, slow, batch_b, (u16)mask_b, policy_b);
        } else {
          ptx::tma_load(dst, map, bar, fast, slow, batch_b, policy_b);
        }
      }
      ring.advance();
    }
  }
}

// Zeroes the first bytes of the rows that a consumer multiplies, in a stage that has arrived: at most 15, which lie in
// the 16 that the swizzle puts at a multiple of the row's number.
template <class S>
__device__ __forceinline__ void clear_front(u32 rows_at, u32 bytes, u32 consumer, u32 thread) {
#pragma unroll
  for (u32 row = thread; row < 64 * S::bands; row += 128) {
    const u32 at = rows_at + row * 128 + (row & 7) * 16;
    u32 word[4];
    ptx::load_four(word, at);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) word[i] = behind_front(word[i], i, bytes);
    ptx::store_four(at, word);
  }
  ptx::async_fence();
  ptx::named_sync(1 + consumer, 128);
}

// Multiplies one unit; calls issued() once the tensor cores have all of its work, release() for each stage
// that has been read, and, where rows are spread, arrived() with the place of the consumer's rows in the first stage.
template <class Config, class S, class Arrived, class Release, class Issued>
__device__ __forceinline__ void multiply(u32 blocks, u32 band0, u32 base, u32 full, Arrived arrived, Release release,
                                         Ring<Config::stages>& ring, Issued issued) {
  constexpr u32 a_band = Config::a_k_major ? 64 * 128 : Config::tile_k * 128;
  // 32 bytes of K: two 16-byte units along a K-major row, sixteen (64) rows of an MN-major block.
  constexpr u32 a_step = Config::a_k_major ? 2 : 2048 >> 4, b_step = Config::b_k_major ? 2 : 2048 >> 4;
  const u64 a0 = ptx::descriptor_128b(0, Config::tile_k * 128, 1024);
  each<0, S::bands>([](auto m) { ptx::clear<decltype(m)::value>(); });
  u32 previous = 0;
#pragma unroll 1
  for (u32 block = 0; block < blocks; ++block) {
    ptx::barrier_wait(full + 8 * ring.stage, ring.turn);
    const u32 at = (base & 0x3ffff) + ring.stage * S::stage_bytes;  // above are bits that name the block of a cluster
    const u64 a = a0 | (at + band0 * a_band) >> 4, b = a0 | (at + S::a_bytes) >> 4;
    if constexpr (Config::spread_a > 1) {
      if (block == 0) arrived(base + ring.stage * S::stage_bytes + band0 * a_band);
    }
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      each<0, S::bands>([&](auto band) {
        constexpr int m = decltype(band)::value;
        ptx::wgmma<m>(a + (u64)(m * (a_band >> 4) + k * a_step), b + (u64)(k * b_step));
      });
    }
    ptx::wgmma_commit();
    if constexpr (Config::wait_depth == 0) {
      ptx::wgmma_wait<0>();
      release(ring.stage);
    } else {
      ptx::wgmma_wait<1>();
      if (block > 0) release(previous);
      previous = ring.stage;
    }
    ring.advance();
  }
  issued();
  if constexpr (Config::wait_depth > 0) {
    ptx::wgmma_wait<0>();
    if (blocks > 0) release(previous);
  }
}

// Adds the slices of a split K: every block leaves its part in the workspace; the one that comes last adds all parts in
// slice order, so that the result does not depend on who that is. Returns whether this block is that one.
template <class Config, class S>
__device__ __forceinline__ bool finish_slices(const Problem& p, const Unit& u, u32 consumer, u32 thread, u32* flag) {
  using T = typename Config::Accumulator;
  constexpr u32 threads = 128 * S::sharing, id = Config::pingpong ? 0 : 6;
  const u32 barrier = id ? id : 1 + consumer;
  const bool inside = u.tile_m < (u32)p.tiles_m && u.tile_n < (u32)p.tiles_n;  // else a filler of the cluster
  if (!inside) return false;
  const u64 tile = u.shared;
  constexpr u64 size = (u64)Config::tile_m * Config::tile_n;
  const u32 lane = Config::pingpong ? thread : consumer * 128 + thread;
  constexpr int fours = Config::tile_n / 8;  // of accumulators, in a band
  T* const mine = (T*)p.slices + (tile * p.k_split + u.slice) * size + lane * 4;
  each<0, S::bands * fours>([mine](auto four) {
    constexpr int i = decltype(four)::value;
    ptx::store_four<i / fours, i % fours * 4>(mine + i * threads * 4);
  });
  __threadfence();
  ptx::named_sync(barrier, threads);
  if (lane == 0) {
    const u32 before = atomicAdd((u32*)p.counters + tile, 1u);
    *flag = before + 1 == u.slices;
    if (*flag) p.counters[tile] = 0;
    __threadfence();
  }
  ptx::named_sync(barrier, threads);
  const bool last = *(volatile u32*)flag != 0;
  ptx::named_sync(barrier, threads);  // the flag may be written again
  if (!last) return false;
  __threadfence();
  each<0, S::bands>([](auto m) { ptx::clear<decltype(m)::value>(); });
#pragma unroll 1
  for (u32 s = 0; s < u.slices; ++s) {
    const T* const part = (const T*)p.slices + (tile * p.k_split + s) * size + lane * 4;
    each<0, S::bands * fours>([part](auto four) {
      constexpr int i = decltype(four)::value;
      ptx::add_four<i / fours, i % fours * 4>(part + i * threads * 4);
    });
  }
  return true;
}

// Hands the accumulators of one consumer to the epilogue, 64 rows and piece_cols root columns at a time. Own: what has
// phase 0 of the product in whose root space the unit is (tile.h), of which Epilogue may have several.
template <class Config, class Epilogue, class Own, class S, class P>
__device__ __forceinline__ void finish(const P& params, const Unit& u, u32 band0, u32 consumer, u32 thread,
                                       unsigned char* piece) {
  const Problem& p = params.problem;
  constexpr int pieces = (S::width + Config::piece_cols - 1) / Config::piece_cols;
  constexpr int part_stride = 64 * S::piece_ld;
  const u32 warp = thread / 32, lane = thread % 32;
  const u32 to = ptx::shared_address(piece) + 4 * ((warp * 16 + lane / 4) * S::piece_ld + 2 * (lane % 4));
  Tile tile;
  tile.acc = piece;
  tile.acc_ld = S::piece_ld;
  tile.acc_part_stride = part_stride;
  tile.batch = u.batch;
  tile.thread = (i32)thread;
  tile.threads = 128;
  tile.barrier = (i32)(1 + consumer);
  tile.warp_rows = Config::warp_rows;
  tile.scratch = piece + S::piece_bytes;
  const i64 col0 = (i64)u.tile_n * S::width;
#pragma unroll 1
  for (int step = 0; step < S::bands * pieces; ++step) {
    const int band = step / pieces, column = step % pieces * Config::piece_cols;
    tile.row = (i64)u.tile_m * Config::tile_m + (band0 + band) * 64;
    tile.col = col0 + column;
    const i64 rows = p.rows - tile.row, cols = columns_of<Epilogue, Own>(params) - tile.col;
    if (rows <= 0 || cols <= 0) continue;  // the same in the whole group
    const int widest = S::width - column < Config::piece_cols ? S::width - column : Config::piece_cols;
    tile.rows = rows < 64 ? (i32)rows : 64;
    tile.cols = cols < widest ? (i32)cols : widest;
    tile.piece_m = tile.row / 64;
    tile.piece_n = tile.col / Config::piece_cols;
    typename Own::Ahead ahead;
    Own::template ahead_0<P>(params, tile, ahead);
    // Warps that finish the rows that they have multiplied wait for nobody else.
    const auto meet = [consumer] {
      if constexpr (Config::warp_rows != 0) {
        __syncwarp();
      } else {
        ptx::named_sync(1 + consumer, 128);
      }
    };
    meet();
    each<0, S::bands * pieces>([&](auto n) {
      constexpr int which = decltype(n)::value, first = which % pieces * Config::piece_cols;
      constexpr int eights = (S::width - first < Config::piece_cols ? S::width - first : Config::piece_cols) / 8;
      if (step != which) return;  // registers have no run-time index
      each<0, Config::ways * eights>([&](auto i) {
        constexpr int part = decltype(i)::value / eights, j = decltype(i)::value % eights;
        const u32 at = to + 4 * (part * part_stride + j * 8);
        ptx::store_pairs<which / pieces, 4 * ((part * S::width + first) / 8 + j)>(at, at + 32 * S::piece_ld);
      });
    });
    meet();
    Own::template phase_0<P>(params, tile, ahead);
  }
}

// The same straight from registers, 64 rows and 16 * Epilogue::strip_steps root columns at a time: no barrier, no copy.
template <class Config, class Epilogue, class Own, class S, class P>
__device__ __forceinline__ void finish_strips(const P& params, const Unit& u, u32 band0, u32 thread) {
  using T = typename Config::Accumulator;
  const Problem& p = params.problem;
  using Columns =
      Strip<Config::ways, (Epilogue::strip_steps < S::width / 16 ? Epilogue::strip_steps : S::width / 16), T>;
  using Strips = ptx::Strips<S::width, Config::ways, Columns::steps>;
  constexpr int strips = Strips::across;
  static_assert(S::width % 16 == 0, "neighbouring lanes share 16 columns");
  Columns columns;
  columns.thread = (i32)thread;
  Tile tile;
  tile.batch = u.batch;
  tile.thread = (i32)thread;
  tile.threads = 128;
#pragma unroll 1
  for (int step = 0; step < S::bands * strips; ++step) {
    const int band = step / strips, column = step % strips * Columns::cols;
    tile.row = (i64)u.tile_m * Config::tile_m + (band0 + band) * 64;
    tile.col = (i64)u.tile_n * S::width + column;
    const i64 rows = p.rows - tile.row, cols = columns_of<Epilogue, Own>(params) - tile.col;
    if (rows <= 0 || cols <= 0) continue;
    const int widest = S::width - column < Columns::cols ? S::width - column : Columns::cols;
    tile.rows = rows < 64 ? (i32)rows : 64;
    tile.cols = cols < widest ? (i32)cols : widest;
    Strips::template hold<0, S::bands * strips>(step);
    each<0, Config::ways * Columns::steps>([&](auto i) {
      T raw[8];
      ptx::read_eight<decltype(i)::value * 8>(raw);
      columns.take(decltype(i)::value / Columns::steps, decltype(i)::value % Columns::steps, raw);
    });
    Own::template phase_0<P>(params, tile, columns);
  }
}

// A consumer warpgroup's work.
template <class Config, class Epilogue, class S, class P, class C>
__device__ __forceinline__ void consume(const P& params, const Schedule<Config>& schedule, u32 consumer, u32 base,
                                        u32 full, u32 empty, unsigned char* piece, u32* flag, C& copier) {
  const Problem& p = params.problem;
  const u32 thread = threadIdx.x % 128, lane = thread % 32;
  // A stage is free for a block once every consumer of the blocks that get its copies has read it: lane i of each warp
  // tells block i of those that send here, my row of the cluster first, then my column without myself.
  u32 target = 0;
  if (lane < Config::cluster_n) {
    target = schedule.rank_m + lane * Config::cluster_m;
  } else {
    const u32 i = lane - Config::cluster_n;
    target = schedule.rank_n * Config::cluster_m + (i < schedule.rank_m ? i : i + 1);
  }
  const bool releases = lane < Config::cluster_m + Config::cluster_n - 1;
  const auto release = [&](u32 stage) {
    if (!releases) return;
    if constexpr (S::cluster > 1) {
      ptx::barrier_arrive_at(empty + 8 * stage, target);
    } else {
      ptx::barrier_arrive(empty + 8 * stage);
    }
  };
  const u32 band0 = Config::pingpong ? 0 : consumer * S::bands;
  Ring<Config::stages> ring;
  u32 turn = 0;
#pragma unroll 1
  for (u32 index = 0; schedule.has(index); ++index, turn ^= 1) {
    const Unit u = schedule.nth(p, index);
    if constexpr (Config::pingpong) {
      if (turn != consumer) {
        ring.skip(u.blocks);
        continue;
      }
      if (index != 0) ptx::named_sync(4 + consumer, 256);  // the other one has issued its tile
    }
    int product;
    const Unit own = in_space<Config, Epilogue>(params, u, product);
    const auto ask = [&] {
      if constexpr (Config::copied) {
        of_product<Epilogue>(
            product, [&](auto type) { ask_first<Config, Epilogue, decltype(type), S>(params, own, band0, copier); });
      }
    };
    if constexpr (Config::copied) {
      if (u.slices == 1) ask();
    } else if (u.slice == 0) {
      of_product<Epilogue>(product, [&](auto type) {
        using Own = decltype(type);
        Tile tile;  // what this consumer will finish
        tile.batch = own.batch;
        tile.row = (i64)own.tile_m * Config::tile_m + band0 * 64;
        tile.col = (i64)own.tile_n * S::width;
        const i64 rows = p.rows - tile.row, cols = columns_of<Epilogue, Own>(params) - tile.col;
        tile.rows = rows < S::bands * 64 ? (i32)rows : S::bands * 64;
        tile.cols = cols < S::width ? (i32)cols : S::width;
        tile.thread = (i32)thread;
        tile.threads = 128;
        Own::template prefetch<P>(params, tile);
      });
    }
    const auto issued = [&] {
      if constexpr (Config::pingpong) {
        if (schedule.has(index + 1)) ptx::named_arrive(4 + (consumer ^ 1), 256);
      }
    };
    if constexpr (Config::makes_a) {
      multiply_made<Config, Epilogue, S>(params, u, band0, base, full, release, ring, issued);
    } else if constexpr (S::two_level) {
      multiply_runs<Config, S>(u.blocks, band0, base, full, release, ring);
    } else {
      const auto arrived = [&](u32 rows_at) {
        const u32 front = in_front<Config>(p, u.batch) * (u32)sizeof(typename Config::A);
        if (front != 0) clear_front<S>(rows_at, front, consumer, thread);
      };
      multiply<Config, S>(u.blocks, band0, base, full, arrived, release, ring, issued);
    }
    if constexpr (Config::k_split > 1 || Config::stream_k) {
      if (u.slices > 1) {
        if (!finish_slices<Config, S>(p, u, consumer, thread, flag)) continue;
        if constexpr (Config::copied) ask();
      }
    }
    of_product<Epilogue>(product, [&](auto type) {
      using Own = decltype(type);
      if constexpr (Config::copied) {
        finish_copied<Config, Epilogue, Own, S>(params, own, band0, thread, piece + S::piece_bytes, copier);
      } else if constexpr (Config::from_registers) {
        finish_strips<Config, Epilogue, Own, S>(params, own, band0, thread);
      } else {
        finish<Config, Epilogue, Own, S>(params, own, band0, consumer, thread, piece);
      }
    });
  }
}

}  // namespace codetta::gpu::sm90

namespace codetta::gpu {

// The body of the kernel. Launch: a grid of whole clusters (as many as are resident at once, or fewer), Config::threads
// threads, Config::shared_bytes of dynamic shared memory. params.map: A, then B.
template <class Config, class Epilogue, class P>
__device__ __forceinline__ void gemm_sm90(const P& params) {
  using S = sm90::Shape<Config, Epilogue>;
  sm90::each<0, S::sets * S::bands>(
      [](auto m) { ptx::declare_accumulators<typename Config::Accumulator, decltype(m)::value>(); });
  if constexpr (Config::copied || Config::from_registers)
    ptx::declare_held<typename Config::Accumulator, Config::ways * 8 * Epilogue::strip_steps>();
  extern __shared__ __align__(1024) unsigned char shared[];
  const u32 base = ptx::shared_address(shared), full = base + S::barriers_at, empty = full + 8 * Config::stages;
  const u32 group = ptx::uniform(threadIdx.x / 128), rank = S::cluster > 1 ? ptx::cluster_rank() : 0;
  const sm90::Schedule<Config> schedule(params.problem, rank);  // while one thread makes the barriers
  if (threadIdx.x == 0) {
    for (const TensorMap& map : params.map) ptx::map_prefetch(&map);
    constexpr u32 senders = Config::cluster_m + Config::cluster_n - 1;
    for (int i = 0; i < Config::stages; ++i) {
      ptx::barrier_init(full + 8 * i, 1);
      ptx::barrier_init(empty + 8 * i, 4 * S::sharing * senders);
    }
    if constexpr (Config::copied) {
      for (int i = 0; i < 4 * S::load_slots() * Config::consumers; ++i)
        ptx::barrier_init(base + S::copy_barriers_at + 8 * i, 1);
    }
    ptx::barrier_init_fence();
  }
  if constexpr (S::cluster > 1) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
  if constexpr (Config::consumers == 1 && S::cluster == 1) {
    if (threadIdx.x < 32 && ptx::elect()) sm90::approach<Config, S, Epilogue>(params, schedule);
    __syncwarp();
  }
  ptx::dependency_wait();  // everything before this line may overlap the kernel before this one
  if (group == 0) {
    if constexpr (Config::consumers == 2) ptx::register_decrease<40>();
    if constexpr (Config::consumers == 3) ptx::register_decrease<32>();
    if (threadIdx.x < 32 && ptx::elect()) sm90::produce<Config, S, Epilogue>(params, schedule, base, full, empty);
    __syncwarp();
    ptx::dependents_launch();
  } else {
    if constexpr (Config::consumers == 2) ptx::register_increase<232>();
    if constexpr (Config::consumers == 3) ptx::register_increase<160>();
    const u32 consumer = group - 1;
    unsigned char* const piece = shared + S::pieces_at + consumer * (S::piece_bytes + S::scratch_bytes);
    u32* const flag = (u32*)(shared + S::barriers_at + 16 * Config::stages) + (Config::pingpong ? consumer : 0);
    if constexpr (Config::copied) {
      const u32 warp = ptx::uniform(threadIdx.x % 128 / 32);
      sm90::Copier<Config, Epilogue> copier{
          base + S::pieces_at + consumer * (S::piece_bytes + S::scratch_bytes) + warp * (S::piece_bytes / 4),
          base + S::copy_barriers_at + 8 * S::load_slots() * (4 * consumer + warp)};
      sm90::consume<Config, Epilogue, S>(params, schedule, consumer, base, full, empty, piece, flag, copier);
      copier.leave();
    } else {
      int none = 0;
      sm90::consume<Config, Epilogue, S>(params, schedule, consumer, base, full, empty, piece, flag, none);
    }
  }
  if constexpr (S::cluster > 1) ptx::cluster_sync();  // no block leaves while others still signal it
}

}  // namespace codetta::gpu
