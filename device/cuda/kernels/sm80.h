// SPDX-License-Identifier: Apache-2.0
// The sm_80 product, which every later GPU runs, too: stages of shared memory filled by cp.async, fragments by
// ldmatrix, mma.sync. One block a tile (and slice of K); its warps split the tile, each multiplies a rectangle of it.
// Any tails; operands K-major or not; 16, 8 or 4 bytes a copy, by alignment, and below that through registers. stage.h
// says how a stage lies in shared memory, make_stage.h how factors come there that are made.
//
// Config offers, besides what tile.h says: a_k_major, b_k_major, alignment (bytes), math (a MathMode).
#pragma once

#include "device/cuda/kernels/make_stage.h"
#include "device/cuda/mma.h"
#include "device/gpu/split_k.h"
#include "device/gpu/tile.h"

namespace codetta::gpu::sm80 {

// What follows from a configuration; src/plan computes the same numbers.
template <class Config, class Epilogue>
struct Shape {
  using T = typename Config::Accumulator;
  static constexpr int warps_m = warps_along_m(Config::tile_m, Config::tile_n, Config::consumers);
  static_assert(warps_m > 0, "the warps do not split the tile");
  static constexpr int warp_m = Config::tile_m / warps_m, warp_n = Config::tile_n / (Config::consumers / warps_m);
  static constexpr int blocks_m = warp_m / 16, blocks_n = warp_n / 16;
  static constexpr int width = Config::tile_n / Config::ways;  // root columns
  using A = Stage<typename Config::A, Config::a_k_major, Config::tile_m, Config::tile_k>;
  using B = Stage<typename Config::B, Config::b_k_major, Config::tile_n, Config::tile_k>;
  static_assert(sizeof(typename Config::A) == sizeof(typename Config::B));
  static constexpr int steps = Config::tile_k * (int)sizeof(typename Config::A) / 32;  // of 32 bytes of K
  static constexpr int stage_bytes = A::bytes + B::bytes;
  // Rows of a piece are padded so that a warp's stores meet no bank twice.
  static constexpr int piece_ld =
      Config::piece_cols + (Config::piece_cols % 32 == 0 || sizeof(T) == 8 ? 8 : 24 - Config::piece_cols % 32);
  static constexpr int part_stride = Config::piece_rows * piece_ld;
  static constexpr int piece_bytes = part_stride * Config::ways * (int)sizeof(T);
  static constexpr int after_bytes = piece_bytes + (Epilogue::scratch_bytes(Config::threads) + 15) / 16 * 16;
  static constexpr int table_at =
      Config::stages * stage_bytes > after_bytes ? Config::stages* stage_bytes : after_bytes;
  static constexpr int shared_bytes = table_at + (Config::ways > 1 ? Config::tile_n * 8 : 0) + 16;

  static_assert(Config::threads == 32 * Config::consumers && Config::stages >= 2);
  static_assert(steps % 2 == 0, "fragments alternate between two sets");
  static_assert(width % 16 == 0 && width % Config::piece_cols == 0 && Config::piece_cols % 16 == 0);
  static_assert(Config::tile_m % Config::piece_rows == 0 && Config::piece_rows % 16 == 0);
  static_assert(shared_bytes <= Config::shared_bytes);
};

// One step: every fragment of A with every fragment of B, along the columns to and fro. `before(i)` comes before row i:
// fragments of the next step take the place of those that are done.
template <class Config, class S, class T, class FA, class FB, class F>
CODETTA_FN void multiply(T (&acc)[S::blocks_m * S::blocks_n * 8], FA (&a)[S::blocks_m], FB (&b)[S::blocks_n],
                         F before) {
  using X = typename Config::A;
  using Y = typename Config::B;
  constexpr bool is_f32 = sizeof(X) == 4, three = is_f32 && Config::math == MathMode::Tf32x3;
  if constexpr (is_f32 && !three) {
#pragma unroll
    for (int i = 0; i < S::blocks_m; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) a[i].r[e] = ptx::to_tf32(a[i].r[e]);
    }
#pragma unroll
    for (int j = 0; j < S::blocks_n; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) b[j].r[e] = ptx::to_tf32(b[j].r[e]);
    }
  }
#pragma unroll
  for (int i = 0; i < S::blocks_m; ++i) {
    before(i);
    u32 rest_a[4], cross_a[4];
    if constexpr (three) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Split s(a[i].r[e]);
        rest_a[e] = s.rest, cross_a[e] = s.cross;
      }
    }
#pragma unroll
    for (int step = 0; step < S::blocks_n * 2; ++step) {
      const int column = i % 2 == 0 ? step : S::blocks_n * 2 - 1 - step, j = column / 2, h = column % 2;
      T(&d)[4] = *(T(*)[4])(acc + (i * S::blocks_n * 2 + column) * 4);
      if constexpr (sizeof(X) == 8) {
        ptx::mma_f64(d, a[i].r[0], a[i].r[1], b[j].r[h]);
      } else {
        if constexpr (three) {
          const Split low(b[j].r[h]), high(b[j].r[h + 2]);
          Mma<X, Y>::add(d, rest_a, low.cross, high.cross);
          Mma<X, Y>::add(d, cross_a, low.rest, high.rest);
        }
        Mma<X, Y>::add(d, a[i].r, b[j].r[h], b[j].r[h + 2]);
      }
    }
  }
}

// A warp's accumulators that lie in the piece (piece_m, piece_n) of the tile, to shared memory.
template <class Config, class S, class T>
CODETTA_FN void store_piece(T* piece, const T (&acc)[S::blocks_m * S::blocks_n * 8], int row0, int col0, int piece_m,
                            int piece_n, int lane) {
  struct alignas(2 * sizeof(T)) Two {
    T v[2];
  };
  struct alignas(16) Four {
    T v[4];
  };
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < S::blocks_m; ++i) {
    const int row = row0 + i * 16 - piece_m * Config::piece_rows;
    if (row < 0 || row >= Config::piece_rows) continue;
    const int r0 = row + (S::A::paired ? 2 * g : g), r1 = r0 + (S::A::paired ? 1 : 8);
#pragma unroll
    for (int j = 0; j < S::blocks_n; ++j) {
      const int col = col0 + j * 16, part = col / S::width, at = col % S::width - piece_n * Config::piece_cols;
      if (at < 0 || at >= Config::piece_cols) continue;
      const T* const lo = acc + (i * S::blocks_n + j) * 8;
      const T* const hi = lo + 4;
      T* const to = piece + part * S::part_stride + at;
      if constexpr (S::B::paired) {
        *(Four*)(to + r0 * S::piece_ld + 4 * t) = {lo[0], hi[0], lo[1], hi[1]};
        *(Four*)(to + r1 * S::piece_ld + 4 * t) = {lo[2], hi[2], lo[3], hi[3]};
      } else {
        *(Two*)(to + r0 * S::piece_ld + 2 * t) = {lo[0], lo[1]};
        *(Two*)(to + r1 * S::piece_ld + 2 * t) = {lo[2], lo[3]};
        *(Two*)(to + r0 * S::piece_ld + 2 * t + 8) = {hi[0], hi[1]};
        *(Two*)(to + r1 * S::piece_ld + 2 * t + 8) = {hi[2], hi[3]};
      }
    }
  }
}

}  // namespace codetta::gpu::sm80

namespace codetta::gpu {

// The body of the kernel. Launch: a block a tile and slice, Config::threads threads, Config::shared_bytes of dynamic
// shared memory; may be a programmatic dependent of the kernel before it.
template <class Config, class Epilogue, class P>
CODETTA_FN void gemm_sm80(const P& params) {
  using S = sm80::Shape<Config, Epilogue>;
  using T = typename Config::Accumulator;
  extern __shared__ __align__(128) unsigned char shared[];
  const Problem& p = params.problem;
  const int thread = threadIdx.x, lane = thread % 32;
  const int warp = (int)ptx::uniform(thread / 32);
  const int row_w = warp % S::warps_m * S::warp_m, col_w = warp / S::warps_m * S::warp_n;  // in the tile
  const BlockPlace place = place_of_block<(Config::k_split > 1)>(p, blockIdx.x);
  const u32 batch = place.batch, slice = place.slice;
  const TileSpace space = space_of_tile<Config, Epilogue>(params, place.tile_n);
  const i64 row0 = (i64)place.tile_m * Config::tile_m, col0 = (i64)space.tile_n * S::width;
  const i64 k_begin = slice * p.k_slice, k_end = slice + 1 == (u32)p.k_split ? p.k : k_begin + p.k_slice;
  const int count = (int)((k_end - k_begin + Config::tile_k - 1) / Config::tile_k);

  using MakerA = typename MakerOfA<Epilogue>::type;
  using MakerB = typename MakerOfB<Epilogue>::type;
  constexpr bool makes_a = Makes<MakerA>::value, makes_b = Makes<MakerB>::value;
  constexpr int products = ProductsOf<Epilogue>::count;
  constexpr bool spaces = SpacesOf<Epilogue>::count > 1;
  static_assert(!spaces || !makes_b, "products with root spaces read their B from memory");
  static_assert(products == 1 || Config::alignment >= 4, "bounds are those of one B");
  // Few rows wait for B from their first stage on: it is asked for before the kernel in front has ended, and the kernel
  // behind comes near the end of K, since what that asks for would have left L2 again if it came now.
  constexpr bool early = !makes_b && Config::alignment >= 16 && Config::tile_m <= 32;
  if constexpr (!early) begin_dependent();
  // Where the columns of B of a split tile lie: byte offsets from the operand's first element (made: their numbers). A
  // dim of one element has any stride (check_factor of device/host/gpu_plan.h), and copies of what is not there have
  // aligned addresses all the same: they are made without it, here and below.
  i64* const table = (i64*)(shared + S::table_at);
  const i64 size_b = (i64)sizeof(typename Config::B);
  if constexpr (Config::ways > 1) {
    const FactorB b0 = factor_b<Epilogue, Config::ways, typename Config::B>(params, batch, 0, space.product);
    const char* const first = (const char*)b0.data;
#pragma unroll 1
    for (int c = thread; c < Config::tile_n; c += Config::threads) {
      const i64 column = column_of_b<Config::ways, products>(p, p.cols > 1 ? col0 + c % S::width : 0, c / S::width);
      const FactorB from =
          factor_b<Epilogue, Config::ways, typename Config::B>(params, batch, c / S::width, space.product);
      table[c] = makes_b ? column : (const char*)from.data - first + column * from.col * size_b;
    }
    __syncthreads();
  }
  using MadeA = MadeLoader<MakerA, typename S::A, Config::threads, 1, P>;
  using MadeB = MadeLoader<MakerB, typename S::B, Config::threads, Config::ways, P>;
  using LoaderA = Loader<typename S::A, Config::alignment, Config::threads, 1>;
  using LoaderB = Loader<typename S::B, Config::alignment, Config::threads, Config::ways>;
  typename Choose<makes_a, MadeA, LoaderA>::type a(params, batch, Config::a_k_major ? p.m : p.k, k_begin, row0, p.rows,
                                                   table, thread);
  typename Choose<makes_b, MadeB, LoaderB>::type b(params, batch, Config::b_k_major ? p.n : p.k, k_begin, col0,
                                                   space.cols, table, thread);
  if constexpr (!makes_a) {
    constexpr int size_a = (int)sizeof(typename Config::A);
    const i64 fast_a = Config::a_k_major ? k_begin : row0, slow_a = Config::a_k_major ? row0 : k_begin;
    const i64 ld_a = (Config::a_k_major ? (p.m > 1 ? p.a_row : 0) : (p.k > 1 ? p.a_k : 0)) * size_a;
    const char* const item_a = (const char*)p.a + item_of_a(p, batch) * size_a;
    a.begin(item_a + fast_a * size_a + slow_a * ld_a, ld_a, p.rows - row0, thread, nullptr);
    a.bounds(item_a, (p.m - 1) * p.a_row * size_a, (p.k - 1) * p.a_k * size_a);
  }
  if constexpr (!makes_b) {
    const FactorB b0 = factor_b<Epilogue, Config::ways, typename Config::B>(params, batch, 0, space.product);
    i64 ld_b = (Config::b_k_major ? b0.col : b0.k) * size_b;
    if constexpr (products > 1 && !Config::b_k_major) {  // a thread brings columns of one product
      const int column = thread % LoaderB::along * LoaderB::unit / (int)size_b;
      ld_b = factor_b<Epilogue, Config::ways, typename Config::B>(params, batch, column / S::width).k * size_b;
    }
    const i64 columns = spaces ? space.cols * Config::ways : p.n;  // of B
    if ((Config::b_k_major ? columns : p.k) <= 1) ld_b = 0;
    const i64 column = Config::ways > 1 ? 0 : col0;
    const i64 fast_b = Config::b_k_major ? k_begin : column, slow_b = Config::b_k_major ? column : k_begin;
    const char* const item_b = (const char*)b0.data;
    b.begin(item_b + fast_b * size_b + slow_b * ld_b, ld_b, space.cols - col0, thread, table);
    b.bounds(item_b, (columns - 1) * b0.col * size_b, (p.k - 1) * b0.k * size_b);
  }
  if constexpr (early) {
#if __CUDA_ARCH__ >= 900
    // Toward L2, where it does not matter who may still write B. Nothing else of what lies in memory was read so far.
#pragma unroll 1
    for (int s = 0; s < Config::stages - 1 && s < count; ++s)
      b.prefetch(s, (int)(k_end - k_begin < (i64)(s + 1) * Config::tile_k ? k_end - k_begin - (i64)s * Config::tile_k
                                                                          : Config::tile_k));
    ptx::dependency_wait();
#endif
  }
  const u32 base = ptx::shared_address(shared);
  const int last = (int)(k_end - k_begin - (i64)(count - 1) * Config::tile_k);  // of K in the last block
  int ahead = 0;                                                                // the block to bring next
  u32 filled = base, read = base;
  const auto next = [&](u32 stage) {
    return stage == base + (Config::stages - 1) * S::stage_bytes ? base : stage + S::stage_bytes;
  };
  const auto fetch = [&] {
    if (ahead < count) {
      const int k = ahead + 1 < count ? Config::tile_k : last;
      a.fetch(filled, k);
      b.fetch(filled + S::A::bytes, k);
    }
    ptx::copy_commit();
  };
  const auto settle = [&] {  // what went through registers
    if (ahead < count) {
      const int k = ahead + 1 < count ? Config::tile_k : last;
      a.settle(filled, k);
      b.settle(filled + S::A::bytes, k);
    }
    ++ahead;
    filled = next(filled);
  };
#pragma unroll 1
  for (int s = 0; s < Config::stages - 1; ++s) {
    fetch();
    settle();
  }
  T acc[S::blocks_m * S::blocks_n * 8];
#pragma unroll
  for (int i = 0; i < S::blocks_m * S::blocks_n * 8; ++i) acc[i] = (T)0;
  typename S::A::Fragment fa[2][S::blocks_m];
  typename S::B::Fragment fb[2][S::blocks_n];
  const auto load = [&](int set, int step, int i) {  // row i of A, and as large a part of B
    fa[set][i].load(read, row_w + i * 16, step, lane);
#pragma unroll
    for (int j = i * S::blocks_n / S::blocks_m; j < (i + 1) * S::blocks_n / S::blocks_m; ++j)
      fb[set][j].load(read + S::A::bytes, col_w + j * 16, step, lane);
  };
  ptx::copy_wait<Config::stages - 2>();
  __syncthreads();
#pragma unroll
  for (int i = 0; i < S::blocks_m; ++i) load(0, 0, i);
#pragma unroll 1
  for (int block = 0; block < count; ++block) {
#if __CUDA_ARCH__ >= 900
    if (early && block == count - 1 - count / 16) ptx::dependents_launch();
#endif
#pragma unroll
    for (int step = 0; step < S::steps; ++step) {
      if (step == S::steps - 1) {
        settle();
        ptx::copy_wait<Config::stages - 2>();
        __syncthreads();
        read = next(read);  // behind the last block: what is loaded from there is not used
      }
      if (step == 0) fetch();
      sm80::multiply<Config, S>(acc, fa[step % 2], fb[step % 2],
                                [&](int i) { load((step + 1) % 2, (step + 1) % S::steps, i); });
    }
  }
  __syncthreads();  // the stages become pieces
  if constexpr (Config::k_split > 1) {
    u32* const flag = (u32*)(shared + S::shared_bytes - 16);
    constexpr int held = S::blocks_m * S::blocks_n * 8;
    const i64 tile = (i64)batch * (p.tiles_m * p.tiles_n) + place.index;
    if (p.k_split > 1 && !sum_slices<held, Config::threads>(p, tile, slice, thread, flag, acc)) return;
  }
  T* const piece = (T*)shared;
  Tile t;
  t.acc = piece, t.acc_ld = S::piece_ld, t.acc_part_stride = S::part_stride;
  t.batch = batch, t.thread = thread, t.threads = Config::threads, t.barrier = 0, t.product = space.product;
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
      sm80::store_piece<Config, S>(piece, acc, row_w, col_w, m, n, lane);
      __syncthreads();
      Epilogue::template phase_0<P>(params, t);
      __syncthreads();
    }
  }
}

}  // namespace codetta::gpu
