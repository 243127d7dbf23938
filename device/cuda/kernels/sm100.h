// SPDX-License-Identifier: Apache-2.0
// The sm_100a GEMM: one thread copies operands into a ring of stages (TMA), one issues tcgen05 products into one of two
// sets of accumulators in tensor memory, and one or two warpgroups finish the other set, so that the epilogue of a tile
// runs under the multiplication of the next. Alone, a block multiplies 128 rows; a pair of blocks (cluster_m = 2)
// multiplies 256, and each of them holds half of A's rows and half of B's columns. Blocks are persistent: they walk
// tiles in raster groups, or, where Config::dynamic, are launched one a tile and take over tiles of blocks that have
// not begun (clusterlaunchcontrol). sm100_roles.h says who waits for what. A K that is split is summed in slice order
// by the block that arrives last.
//
// No GPU with these instructions has run this file: it is proven by compiling, by the model of its protocol, and by the
// documentation that it cites, no further.
//
// Config offers, besides what tile.h says: a_k_major, b_k_major; consumers (finishing warpgroups); dynamic; makes_a (a
// further warpgroup computes A, make_tcgen05.h); warp_rows (32: each warp finishes the rows that it has read, 0: all of
// them together). Tails of M, N and K are zero-filled by
// the copy engine; the epilogue masks stores.
#pragma once

#include "device/cuda/kernels/sm100_roles.h"
#include "device/cuda/tcgen05.h"
#include "device/gpu/raster.h"
#include "device/gpu/tile.h"
#include "device/gpu/vec.h"

namespace codetta::gpu::sm100 {

// How tcgen05.mma takes a factor (PTX ISA, "Instruction descriptor").
template <class T>
struct Factor;
template <>
struct Factor<f16> {
  static constexpr ptx::MmaKind kind = ptx::MmaKind::F16;
  static constexpr u32 format = 0;
};
template <>
struct Factor<bf16> {
  static constexpr ptx::MmaKind kind = ptx::MmaKind::F16;
  static constexpr u32 format = 1;
};
template <>
struct Factor<f32> {
  static constexpr ptx::MmaKind kind = ptx::MmaKind::Tf32;
  static constexpr u32 format = 2;
};
template <>
struct Factor<f8e4m3> {
  static constexpr ptx::MmaKind kind = ptx::MmaKind::F8;
  static constexpr u32 format = 0;
};
template <>
struct Factor<f8e5m2> {
  static constexpr ptx::MmaKind kind = ptx::MmaKind::F8;
  static constexpr u32 format = 1;
};
template <>
struct Factor<u8> {
  static constexpr ptx::MmaKind kind = ptx::MmaKind::I8;
  static constexpr u32 format = 0;
};
template <>
struct Factor<i8> {
  static constexpr ptx::MmaKind kind = ptx::MmaKind::I8;
  static constexpr u32 format = 1;
};

// What follows from a configuration; src/plan computes the same numbers.
template <class Config, class Epilogue>
struct Shape {
  static constexpr int group = Config::cluster_m;                     // blocks that work on one product
  static constexpr int span = 128 / (int)sizeof(typename Config::A);  // elements of one swizzle span
  static constexpr int width = Config::tile_n / Config::ways;         // root columns
  static constexpr int block_n = Config::tile_n / group;              // columns of B that a block holds
  // A copy brings a box of 128 bytes along the fast dim: K-major, rows of one part of the split; MN-major, tile_k steps
  // of K.
  static constexpr int parts = Config::ways == 1 ? 1 : Config::ways / group;  // that a block holds
  static constexpr int a_boxes = Config::a_k_major ? 1 : 128 / span;
  static constexpr int b_boxes = Config::b_k_major ? parts : parts * ((block_n / parts + span - 1) / span);
  static constexpr int b_box_cols = Config::b_k_major ? block_n / parts : span;
  static constexpr int a_bytes = 128 * 128;
  static constexpr int b_bytes = Config::b_k_major ? block_n * 128 : b_boxes * Config::tile_k * 128;
  static constexpr int stage_bytes = a_bytes + b_bytes;
  static constexpr u32 columns = ptx::allocated_columns(accumulator_sets * Config::tile_n);  // of tensor memory
  // Pieces of accumulators on their way to the epilogue, a row a thread: rows padded so that the stores of eight
  // neighbours meet no bank twice.
  static constexpr int piece_ld = Config::piece_cols + 4;
  static constexpr int piece_bytes = 128 * piece_ld * 4 * Config::ways;
  static constexpr int scratch_bytes = (Epilogue::scratch_bytes(128) + 127) / 128 * 128;
  static constexpr int pieces_at = Config::stages * stage_bytes;
  static constexpr int barriers_at = pieces_at + Config::consumers * (piece_bytes + scratch_bytes);
  static constexpr int bars_of_stage = Config::makes_a ? 3 : 2;
  static constexpr int bars = bars_of_stage * Config::stages + 2 * (int)(accumulator_sets + answer_slots);
  static constexpr int answers_at = barriers_at + (8 * bars + 15) / 16 * 16;
  static constexpr int words_at = answers_at + 16 * (int)answer_slots;  // address in tensor memory, flag of slices
  static constexpr int shared_bytes = words_at + 16;
  static constexpr u32 finishers = 4 * Config::consumers, makers = Config::makes_a ? 4 : 0;
  static constexpr ptx::MmaKind kind = Factor<typename Config::A>::kind;
  static constexpr u32 instruction =
      ptx::instruction_descriptor(kind, Factor<typename Config::A>::format, Factor<typename Config::B>::format,
                                  Config::a_k_major, Config::b_k_major, 128 * group, Config::tile_n);

  static_assert(Factor<typename Config::B>::kind == kind, "both factors are of one kind");
  static_assert(Config::tile_k == span, "a stage is one swizzle span of K");
  static_assert(Config::tile_m == 128 && (group == 1 || group == 2) && Config::cluster_n == 1);
  static_assert(Config::tile_n % (16 * group) == 0 && Config::tile_n <= 256, "PTX ISA, Matrix shapes");
  static_assert(columns <= ptx::tensor_columns);
  static_assert(width % 16 == 0 && Config::tile_n % Config::ways == 0);
  static_assert(Config::ways == 1 || Config::ways % group == 0, "a block holds whole parts");
  static_assert(Config::b_k_major || Config::ways == 1 || width % span == 0, "a part begins with a box");
  static_assert(Config::b_k_major || block_n <= span || group == 1 || block_n % 16 == 0);
  static_assert(Config::piece_rows == 128 && Config::piece_cols % 8 == 0);
  static_assert(Config::threads == 128 * (1 + Config::consumers) + 32 * (int)makers && Config::consumers <= 2);
  static_assert(kind != ptx::MmaKind::Tf32 || (Config::a_k_major && Config::b_k_major), "tf32 is read along K");
  static_assert(answers_at % 16 == 0, "an answer is written, and read, as 16 bytes");
  static_assert(b_box_cols <= 256 && shared_bytes <= Config::shared_bytes && Config::shared_bytes <= 232448);
};

// Where the copies of a unit come from.
template <int boxes>
struct Copies {
  i32 row, batch_a, batch_b, k;
  int product;  // whose root space the unit is in
  i32 column[boxes];
};

// The Machine of sm100_roles.h: a thread of a block.
template <class Config, class Epilogue, class P>
struct Block {
  using S = Shape<Config, Epilogue>;
  using Tiles = Raster<Config::cluster_m, Config::tile_k, (Config::k_split > 1)>;
  static constexpr bool pair = S::group == 2;
  static constexpr int products = ProductsOf<Epilogue>::count;

  const P& params;
  unsigned char* shared;
  u32 base, rank;
  Tiles tiles;
  u32 tensor = 0;  // address of the accumulators

  __device__ __forceinline__ Block(const P& p, unsigned char* memory)
      : params(p),
        shared(memory),
        base(ptx::shared_address(memory)),
        rank(pair ? ptx::cluster_rank() : 0),
        tiles(p.problem, rank) {}

  // --- units ---
  __device__ __forceinline__ u32 first() const { return blockIdx.x / (u32)S::group; }
  __device__ __forceinline__ u32 step() const { return gridDim.x / (u32)S::group; }
  __device__ __forceinline__ u32 count() const { return tiles.count; }
  __device__ __forceinline__ Unit unit(u32 index) const { return tiles.unit(index); }
  __device__ __forceinline__ bool leads() const { return rank == 0; }

  // --- barriers ---
  __device__ __forceinline__ u32 barrier(Bar bar, u32 index) const {
    constexpr u32 stages = Config::stages;
    const u32 at = bar == Bar::Full      ? 0
                   : bar == Bar::Empty   ? stages
                   : bar == Bar::Ready   ? 2 * stages
                   : bar == Bar::Drained ? 2 * stages + accumulator_sets
                   : bar == Bar::Answer  ? 2 * stages + 2 * accumulator_sets
                   : bar == Bar::Heard   ? 2 * stages + 2 * accumulator_sets + answer_slots
                                         : 2 * stages + 2 * accumulator_sets + 2 * answer_slots;
    return base + (u32)S::barriers_at + 8 * (at + index);
  }
  __device__ __forceinline__ void make_barriers() const {
    const auto make = [&](Bar bar, u32 count) {
      for (u32 i = 0; i < count; ++i)
        ptx::barrier_init(barrier(bar, i), arrivals(bar, (u32)S::group, S::finishers, S::makers));
    };
    make(Bar::Full, Config::stages);
    make(Bar::Empty, Config::stages);
    make(Bar::Ready, accumulator_sets);
    make(Bar::Drained, accumulator_sets);
    make(Bar::Answer, answer_slots);
    make(Bar::Heard, answer_slots);
    if constexpr (Config::makes_a) make(Bar::Made, Config::stages);
    ptx::barrier_init_fence();
  }
  // Waits and arrivals have the scope of a block, in pairs too: what passes between the blocks is stages, tensor memory
  // and answers, which the copy engine's byte counts, tcgen05's fences and the proxy fence order. The scope of the
  // cluster would cost a memory barrier each arrival and the first-level cache each wait. A that makers of both blocks
  // have written with ordinary stores is waited for with it.
  __device__ __forceinline__ void wait(Bar bar, u32 index, u32 parity) const {
    if (pair && bar == Bar::Made) {
      ptx::barrier_wait_acquiring(barrier(bar, index), parity);
    } else {
      ptx::barrier_wait(barrier(bar, index), parity);
    }
  }
  // One arrival at the leader's barrier, of a thread or, for finishers, of a warp.
  __device__ __forceinline__ void arrive_once(Bar bar, u32 index) const {
    if constexpr (!pair) {
      ptx::barrier_arrive(barrier(bar, index));
    } else if (bar == Bar::Made) {
      ptx::barrier_arrive_releasing(barrier(bar, index), 0);
    } else {
      ptx::barrier_arrive_at(barrier(bar, index), 0);
    }
  }
  __device__ __forceinline__ void arrive(Bar bar, u32 index) const { arrive_once(bar, index); }
  __device__ __forceinline__ void after_sync() const { ptx::tensor_after_sync(); }
  __device__ __forceinline__ void commit(Bar bar, u32 index) const {
    ptx::tensor_commit<S::group>(barrier(bar, index));
  }

  // --- scheduler ---
  __device__ __forceinline__ u32 answer_at(u32 slot) const { return base + (u32)S::answers_at + 16 * slot; }
  __device__ __forceinline__ void announce(u32 slot) const { ptx::barrier_expect(barrier(Bar::Answer, slot), 16); }
  __device__ __forceinline__ void request(u32 slot) const {
    ptx::cluster_request<S::group>(answer_at(slot), barrier(Bar::Answer, slot));
  }
  __device__ __forceinline__ bool answer(u32 slot, u32& index) const {
    u32 block;
    const bool yes = ptx::cluster_answer(answer_at(slot), block);
    ptx::async_fence();  // read before the next answer is written there
    index = block / (u32)S::group;
    return yes;
  }

  // --- producer ---
  __device__ __forceinline__ Copies<S::b_boxes> copies(const Unit& u) const {
    const Problem& p = params.problem;
    Copies<S::b_boxes> c;
    c.row = (i32)(u.tile_m * 128);
    c.batch_a = p.a_batch != 0 ? (i32)u.batch : 0;
    c.batch_b = p.b_batch != 0 ? (i32)u.batch : 0;
    if constexpr (Config::makes_a) {
      using Maker = typename Epilogue::MakerA;
      c.batch_a = params.operand[Maker::source].stride[0] != 0 ? (i32)u.batch : 0;
      if constexpr (Maker::batch_in_rows) c.row += (i32)(u.batch * p.m);
    }
    c.k = (i32)(u.slice * tiles.blocks_slice * Config::tile_k);
    const TileSpace space = space_of_tile<Config, Epilogue>(params, u.tile_n);
    c.product = space.product;
#pragma unroll
    for (int i = 0; i < S::b_boxes; ++i) {
      const u32 at = column_of_box(i), part = Config::ways == 1 ? 0 : at / (u32)S::width;
      const i64 root = (i64)space.tile_n * S::width + (at - part * S::width);
      c.column[i] = (i32)column_of_b<Config::ways, products>(p, root, (int)part);
    }
    return c;
  }
  // Of this block's i-th box of B: its first column of the tile, and its tensor map. Further products have one each.
  __device__ __forceinline__ u32 column_of_box(int i) const { return rank * S::block_n + (u32)(i * S::b_box_cols); }
  __device__ __forceinline__ int map_of_box(int i, int of) const {
    if constexpr (SpacesOf<Epilogue>::count > 1) return of == 0 ? 1 : Epilogue::more_map(of);
    if constexpr (products > 1) {
      const int product = (int)(column_of_box(i) / (u32)S::width) / (Config::ways / products);
      if (product > 0) return Epilogue::more_map(product);
    }
    return 1;
  }
  __device__ __forceinline__ void load(u32 to, int map, u32 bar, i32 fast, i32 slow, i32 batch) const {
    if constexpr (pair && !Config::makes_a) {
      ptx::tma_load_pair(to, &params.map[map], bar, fast, slow, batch, ptx::evict_normal);
    } else {
      ptx::tma_load(to, &params.map[map], bar, fast, slow, batch, ptx::evict_normal);
    }
  }
  __device__ __forceinline__ void copy(const Copies<S::b_boxes>& c, u32 block, u32 stage) const {
    u32 full = barrier(Bar::Full, stage);
    if constexpr (Config::makes_a) {
      ptx::barrier_expect(full, S::stage_bytes);
    } else {
      if (leads()) ptx::barrier_expect(full, S::group * S::stage_bytes);
      if constexpr (pair) full = ptx::address_at(full, 0);
    }
    const u32 a = base + stage * S::stage_bytes, b = a + S::a_bytes;
    const i32 k = c.k + (i32)block * Config::tile_k;
#pragma unroll
    for (int i = 0; i < S::a_boxes; ++i) {
      const i32 m = c.row + i * S::span;
      load(a + i * (Config::tile_k * 128), 0, full, Config::a_k_major ? k : m, Config::a_k_major ? m : k, c.batch_a);
    }
#pragma unroll
    for (int i = 0; i < S::b_boxes; ++i) {
      constexpr u32 bytes = Config::b_k_major ? S::b_box_cols * 128 : Config::tile_k * 128;
      load(b + i * bytes, map_of_box(i, c.product), full, Config::b_k_major ? k : c.column[i],
           Config::b_k_major ? c.column[i] : k, c.batch_b);
    }
  }

  // --- multiplier ---
  __device__ __forceinline__ u32 accumulators(u32 set) const { return tensor + set * Config::tile_n; }
  __device__ __forceinline__ void multiply(const Unit&, u32 block, u32 stage, u32 set) const {
    // 32 bytes of K: along a row, or so many rows of an MN-major box.
    constexpr u32 rows = 32 / sizeof(typename Config::A);
    constexpr u64 a_step = (Config::a_k_major ? 32 : rows * 128) >> 4,
                  b_step = (Config::b_k_major ? 32 : rows * 128) >> 4;
    const u64 a = ptx::matrix_descriptor(base + stage * S::stage_bytes, Config::tile_k * 128);
    const u64 b = ptx::matrix_descriptor(base + stage * S::stage_bytes + S::a_bytes, Config::tile_k * 128);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      ptx::tensor_mma<S::group, S::kind>(accumulators(set), a + k * a_step, b + k * b_step, S::instruction,
                                         k != 0 || block != 0 ? 1u : 0u);
    }
  }
};

// A Block whose functions are called by all threads of a warp.
template <class Config, class Epilogue, class P>
struct WarpOfBlock : Block<Config, Epilogue, P> {
  using Base = Block<Config, Epilogue, P>;
  u32 thread;  // of its warpgroup

  explicit __device__ __forceinline__ WarpOfBlock(const Base& block) : Base(block), thread(threadIdx.x % 128) {}
  __device__ __forceinline__ void arrive(Bar bar, u32 index) const {
    if (bar == Bar::Drained) ptx::tensor_before_sync();
    if (bar == Bar::Made) ptx::async_fence();
    __syncwarp();
    if (thread % 32 == 0) Base::arrive_once(bar, index);
  }
};

// make_tcgen05.h has one where A is made.
template <class Config, class Epilogue, class P>
struct RowsOfA;

template <class Config, class Epilogue, class P>
struct Finisher : WarpOfBlock<Config, Epilogue, P> {
  using Warp = WarpOfBlock<Config, Epilogue, P>;
  using S = typename Warp::S;
  using T = typename Config::Accumulator;
  using Warp::arrive, Warp::thread;
  u32 group;  // warpgroup
  unsigned char* piece;

  __device__ __forceinline__ Finisher(const typename Warp::Base& block, u32 warpgroup)
      : Warp(block),
        group(warpgroup),
        piece(block.shared + S::pieces_at + warpgroup * (S::piece_bytes + S::scratch_bytes)) {}

  // `tile_n`: among those of the product that the unit is of, whose phase 0 Own has.
  template <class Own>
  __device__ __forceinline__ Tile tile_of(const Unit& u, u32 tile_n) const {
    const Problem& p = this->params.problem;
    Tile tile;
    tile.acc = piece;
    tile.acc_ld = S::piece_ld;
    tile.acc_part_stride = 128 * S::piece_ld;
    tile.batch = u.batch;
    tile.row = (i64)u.tile_m * 128;
    tile.col = (i64)tile_n * S::width;
    const i64 rows = p.rows - tile.row, cols = columns_of<Epilogue, Own>(this->params) - tile.col;
    tile.rows = rows < 128 ? (i32)rows : 128;
    tile.cols = cols < S::width ? (i32)cols : S::width;
    tile.piece_m = u.tile_m;
    tile.thread = (i32)thread;
    tile.threads = 128;
    tile.barrier = (i32)(1 + group);
    tile.warp_rows = Config::warp_rows;
    tile.scratch = piece + S::piece_bytes;
    return tile;
  }
  // While the unit is multiplied: the first warpgroup asks for what the epilogue loads.
  __device__ __forceinline__ void prepare(const Unit& u) const {
    if (u.slice != 0 || group != 0) return;
    const TileSpace space = space_of_tile<Config, Epilogue>(this->params, u.tile_n);
    of_product<Epilogue>(space.product, [&](auto type) {
      using Own = decltype(type);
      const Tile tile = tile_of<Own>(u, space.tile_n);
      if (tile.rows > 0 && tile.cols > 0) Own::template prefetch<P>(this->params, tile);
    });
  }

  // Warps that finish the rows that they have read wait for nobody else.
  __device__ __forceinline__ void meet() const {
    if constexpr (Config::warp_rows != 0) {
      __syncwarp();
    } else {
      ptx::named_sync(1 + group, 128);
    }
  }
  // Tensor memory of this warp's rows from `column` of the tile on.
  template <int count>
  __device__ __forceinline__ void read(const Unit& u, u32 set, int column, T (&v)[count]) const {
    if (u.blocks == 0) {
#pragma unroll
      for (int i = 0; i < count; ++i) v[i] = (T)0;
    } else {
      ptx::tensor_load(v, this->accumulators(set) + ((thread / 32 * 32) << 16) + (u32)column);
    }
  }

  // Leaves this warpgroup's columns in the workspace; true in the block that comes last of a tile's slices. A column of
  // 128 rows is contiguous there.
  __device__ __forceinline__ T* slice_of(const Unit& u, u32 slice) const {
    const Problem& p = this->params.problem;
    const u64 tile = ((u64)u.batch * (u64)p.tiles_m + u.tile_m) * (u64)p.tiles_n + u.tile_n;
    return (T*)p.slices + (tile * (u64)p.k_split + slice) * (128ull * Config::tile_n) + thread;
  }
  __device__ __forceinline__ bool leave_slice(const Unit& u, u32 set) const {
    const Problem& p = this->params.problem;
    T* const mine = slice_of(u, u.slice);
#pragma unroll 1
    for (int column = 16 * (int)group; column < Config::tile_n; column += 16 * Config::consumers) {
      T v[16];
      read(u, set, column, v);
#pragma unroll
      for (int i = 0; i < 16; ++i) mine[(column + i) * 128] = v[i];
    }
    arrive(Bar::Drained, set);
    constexpr u32 all = 128 * Config::consumers, id = 3;
    u32* const flag = (u32*)(this->shared + S::words_at) + 1;
    __threadfence();
    ptx::named_sync(id, all);
    if (thread == 0 && group == 0) {
      const u64 tile = ((u64)u.batch * (u64)p.tiles_m + u.tile_m) * (u64)p.tiles_n + u.tile_n;
      const u32 before = atomicAdd(p.counters + tile, 1u);
      *flag = before + 1 == (u32)p.k_split ? 1u : 0u;
      if (*flag != 0) p.counters[tile] = 0;  // as it was found
      __threadfence();
    }
    ptx::named_sync(id, all);
    const bool last = *(volatile u32*)flag != 0;
    ptx::named_sync(id, all);  // the flag may be written again
    __threadfence();
    return last;
  }

  // The accumulators of 16 or 32 columns: from tensor memory, or the sum of all slices.
  template <bool summed, int count>
  __device__ __forceinline__ void take(const Unit& u, u32 set, int column, T (&v)[count]) const {
    if constexpr (summed) {
#pragma unroll
      for (int i = 0; i < count; ++i) v[i] = (T)0;
#pragma unroll 1
      for (u32 s = 0; s < (u32)this->params.problem.k_split; ++s) {
        const T* const part = slice_of(u, s) + column * 128;
#pragma unroll
        for (int i = 0; i < count; ++i) v[i] += __ldcg(part + i * 128);
      }
    } else {
      read(u, set, column, v);
    }
  }

  // Hands the accumulators to the epilogue, 128 rows and piece_cols root columns at a time; warpgroups take turns.
  template <bool summed>
  __device__ __forceinline__ void finish_pieces(const Unit& u, u32 set) const {
    const TileSpace space = space_of_tile<Config, Epilogue>(this->params, u.tile_n);
    of_product<Epilogue>(space.product,
                         [&](auto type) { finish_pieces_of<summed, decltype(type)>(u, space.tile_n, set); });
  }
  template <bool summed, class Own>
  __device__ __forceinline__ void finish_pieces_of(const Unit& u, u32 tile_n, u32 set) const {
    constexpr int pieces = (S::width + Config::piece_cols - 1) / Config::piece_cols;
    constexpr int at_once = Config::piece_cols % 32 == 0 && S::width % 32 == 0 ? 32 : 16;
    Tile tile = tile_of<Own>(u, tile_n);
    const i64 col0 = tile.col;
    const i32 valid = tile.cols;
    bool holds = !summed;
#pragma unroll 1
    for (int step = (int)group; step < pieces; step += Config::consumers) {
      const int column = step * Config::piece_cols;
      if (tile.rows <= 0 || column >= valid) break;  // the same in the whole group
      tile.col = col0 + column;
      tile.cols = valid - column < Config::piece_cols ? valid - column : Config::piece_cols;
      tile.piece_n = tile.col / Config::piece_cols;
      typename Own::Ahead ahead;
      Own::template ahead_0<P>(this->params, tile, ahead);
      meet();  // nobody reads the piece before this one any more
#pragma unroll
      for (int part = 0; part < Config::ways; ++part) {
        T* const row = (T*)piece + (part * 128 + (int)thread) * S::piece_ld;
#pragma unroll
        for (int j = 0; j < Config::piece_cols; j += at_once) {
          if (S::width % Config::piece_cols != 0 && column + j >= S::width) continue;
          T v[at_once];
          take<summed>(u, set, part * S::width + column + j, v);
          struct alignas(16) Four {
            T e[4];
          };
#pragma unroll
          for (int i = 0; i < at_once; i += 4) *(Four*)(row + j + i) = {{v[i], v[i + 1], v[i + 2], v[i + 3]}};
        }
      }
      if (holds && column + Config::consumers * Config::piece_cols >= valid) {  // that was this warp's last piece
        arrive(Bar::Drained, set);
        holds = false;
      }
      meet();
      Own::template phase_0<P>(this->params, tile, ahead);
    }
    if (holds) arrive(Bar::Drained, set);
  }
  __device__ __forceinline__ void finish(const Unit& u, u32 set) const {
    if constexpr (Config::k_split > 1) {
      const Problem& p = this->params.problem;
      if (p.k_split > 1) {
        if (u.tile_m >= (u32)p.tiles_m) {  // a filler of the pair
          arrive(Bar::Drained, set);
        } else if (leave_slice(u, set)) {
          finish_pieces<true>(u, set);
        }
        return;
      }
    }
    finish_pieces<false>(u, set);
  }
};

}  // namespace codetta::gpu::sm100

namespace codetta::gpu {

// The body of the kernel. Launch: whole groups of blocks, Config::dynamic: one for each unit, otherwise as many as are
// resident at once or fewer; Config::threads threads, Config::shared_bytes of dynamic shared memory. params.map: A, B.
template <class Config, class Epilogue, class P>
__device__ __forceinline__ void gemm_sm100(const P& params) {
  using S = sm100::Shape<Config, Epilogue>;
  extern __shared__ __align__(1024) unsigned char shared[];
  sm100::Block<Config, Epilogue, P> block(params, shared);
  const u32 warp = ptx::uniform(threadIdx.x / 32);
  const u32 slot = block.base + S::words_at;
  if (threadIdx.x == 0) {
    ptx::map_prefetch(&params.map[0]);
    ptx::map_prefetch(&params.map[1]);
    block.make_barriers();
  }
  // A pair allocates together: both blocks have begun behind this.
  if constexpr (S::group == 2) ptx::cluster_sync();
  if (warp == 2) ptx::tensor_allocate<S::group>(slot, S::columns);
  ptx::tensor_before_sync();
  __syncthreads();
  ptx::tensor_after_sync();
  block.tensor = *(volatile u32*)(shared + S::words_at);
  ptx::dependency_wait();  // everything before this line may overlap the kernel before this one
  if (Config::makes_a && warp >= 4 + S::finishers) {
    if constexpr (Config::makes_a) {
      sm100::RowsOfA<Config, Epilogue, P> maker(block);
      sm100::make<Config>(maker);
    }
  } else if (warp >= 4) {
    sm100::Finisher<Config, Epilogue, P> finisher(block, warp / 4 - 1);
    sm100::finish<Config>(finisher);
  } else if (warp == 0) {
    if (ptx::elect()) sm100::produce<Config>(block);
    __syncwarp();
    ptx::dependents_launch();
  } else if (warp == 1) {
    if (block.leads() && ptx::elect()) sm100::multiply<Config>(block);
    __syncwarp();
  } else if (warp == 3 && Config::dynamic) {
    if (ptx::elect()) sm100::schedule<Config>(block);
    __syncwarp();
  }
  // Nobody of the group reads accumulators or signals another block any more.
  ptx::tensor_before_sync();
  if constexpr (S::group == 2) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
  ptx::tensor_after_sync();
  if (warp == 2) ptx::tensor_free<S::group>(block.tensor, S::columns);
}

}  // namespace codetta::gpu
