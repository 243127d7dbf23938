// SPDX-License-Identifier: Apache-2.0
// Where a kernel body and the emitted epilogue meet.
//
// A kernel body (kernels/*.h) is a function template
//   template <class Config, class Epilogue, class P> __device__ void gemm_<family>(const P& params);
// that the emitted entry point calls with the parameter struct of abi.h. It multiplies, brings finished accumulators
// into shared memory piece by piece, and calls, with all threads of a group (whole warps that share a named barrier),
//   Epilogue::template phase_0<P>(params, tile)
// once a piece, after a barrier that made the piece visible to those who finish it. The epilogue only reads the piece;
// when it returns in all threads and they have met again, the memory may be reused. The sm_90a and
// sm_100a bodies call
//   Epilogue::template ahead_0<P>(params, tile, held)
// before the piece is there, which loads what it can into `held` (Epilogue::Ahead), and phase_0<P>(params, tile, held).
// Config offers constexpr what package::GpuGemmConfig says: tile_m, tile_n, tile_k, stages, cluster_m, cluster_n,
// consumers, pingpong, k_split, piece_rows, piece_cols, threads, shared_bytes, ways (parts of the split), alignment,
// math, a_k_major, b_k_major, copied, stream_k, spread_a (sm_90a), and types A, B (storage), Accumulator. With `copied`
// the body is that of kernels/copies.h, and Epilogue has Copies, Rows, phase_0 over a strip and end_0 instead.
//
// Parts of a split lie in blocks in a tile: accumulator column j of a tile belongs to part j / (tile_n / ways) and to
// root column tile_n0 + j % (tile_n / ways); which column of B that is, Problem::chunk says (column_of_b below).
#pragma once

#include "device/gpu/abi.h"
#include "device/gpu/items.h"

namespace codetta::gpu {

// How f32 operands are multiplied, and 8-bit floats accumulated.
enum class MathMode { Strict, Tf32x3, Tf32, Fp8FastAccumulation, Fp8TwoLevelAccumulation };

// A rectangle of finished accumulators, worked on by one group of threads.
struct Tile {
  const void* acc;  // accumulator of part j at (r, c): element j * acc_part_stride + r * acc_ld + c. Shared memory in
                    // phase 0, the workspace in later phases. 16-byte aligned, and so is each row
  i64 acc_ld, acc_part_stride;
  i64 batch, row, col;   // root coordinates of the first element
  i32 rows, cols;        // valid extent: at most piece_rows x piece_cols, less at the edges
  i64 piece_m, piece_n;  // index of the piece in the grid of one batch item (see ReductionBuffers)
  i32 thread, threads;   // this thread in the group, and how many there are (a multiple of 32)
  i32 barrier;           // bar.sync id of the group
  i32 warp_rows = 0;     // not 0: each warp finishes so many rows of its own, the first warp the first ones; otherwise
                         // the rows are dealt out to all threads
  bool wide = false;     // vectors of accumulators are whole and aligned beyond the valid extent, too; of a tile that a
                         // maker makes: whole vectors of operands can be loaded
  i32 product = 0;       // whose columns these are, of products with root spaces of their own
  void* scratch;  // shared memory of the group for reductions: Epilogue::scratch_bytes(threads) bytes, 16-byte aligned
};

// Rows of warps (waves): the split of a tile into the squarest rectangles of 16 x 16 blocks. 0: there is none.
constexpr int warps_along_m(int tile_m, int tile_n, int warps) {
  int best = 0, least = 1 << 30;
  for (int m = 1; m <= warps; ++m) {
    if (warps % m != 0 || tile_m % (16 * m) != 0 || tile_n % (16 * (warps / m)) != 0) continue;
    const int sides = tile_m / m + tile_n / (warps / m);
    if (sides < least) best = m, least = sides;
  }
  return best;
}

// What block `block` of a grid of a block a tile and slice makes. Tiles come in groups of `group` rows of tiles, so
// that blocks that run together share rows and columns; then slices of K, then batch items.
struct BlockPlace {
  u32 batch, slice, index;  // index: of the tile in its batch item
  u32 tile_m, tile_n;
};
template <bool splits>
__device__ __forceinline__ BlockPlace place_of_block(const Problem& p, u32 block) {
  const u32 tiles_n = (u32)p.tiles_n, tiles = (u32)p.tiles_m * tiles_n, group = (u32)p.group;
  const u32 outer = block / tiles, index = block - outer * tiles;
  const u32 batch = splits ? outer / (u32)p.k_split : outer, slice = splits ? outer - batch * (u32)p.k_split : 0;
  const u32 per_group = group * tiles_n, g = index / per_group, inner = index - g * per_group;
  const u32 left = (u32)p.tiles_m - g * group, high = left < group ? left : group;
  const u32 tile_n = inner / high;
  return {batch, slice, index, g * group + (inner - tile_n * high), tile_n};
}

// n / d of numbers that are not negative.
__device__ __forceinline__ i64 quotient(i64 n, i64 d) {
  // GPUs divide nothing by an instruction, and 64 bits take compilers 150 of them. Numbers beyond 32 bits are rare.
  if (((u64)(n | d) >> 32) == 0) return (u32)n / (u32)d;
  u64 whole = 0, rest = 0;
#pragma unroll 1
  for (int bit = 63; bit >= 0; --bit) {
    rest = rest << 1 | ((u64)n >> bit & 1), whole <<= 1;
    if (rest >= (u64)d) rest -= (u64)d, whole |= 1;
  }
  return (i64)whole;
}

__device__ __forceinline__ u32 quotient(u32 n, u32 d) { return n / d; }

// The column of B (and of the unsplit accumulator) of part `part` at root column `col`; of several products, in its
// own. I: i64, or u32 where columns are known to be few.
template <int ways, int products = 1, class I>
__device__ __forceinline__ I column_of_b(const Problem& p, I col, int part) {
  constexpr int own = ways / products;
  if constexpr (own == 1) return col;
  const I size = (I)p.chunk, chunk = quotient(col, size);
  return (chunk * own + part % own) * size + (col - chunk * size);
}

#ifdef __HIP_PLATFORM_AMD__
// The same for the columns of a tile whose first root column is `first`: of part `part` at root column first + at. Only
// the first column's place takes a division by a number that may be large. That of another takes a product with 2^20 /
// chunk, rounded up, which is exact for dividends and divisors of at most `many`.
template <int ways, int products = 1>
class ColumnsOfB {
  static constexpr int own = ways / products;
  static constexpr u32 many = 1023;
  i64 base, size;
  u32 left, scale;  // columns of the first one's chunk; 2^20 / chunk

 public:
  CODETTA_MEMBER ColumnsOfB(const Problem& p, i64 first) : base(first), size(p.chunk) {
    if constexpr (own == 1) return;
    const i64 chunk = quotient(first, size);
    const u64 rest = (u64)((chunk + 1) * size - first);
    base = first + chunk * (own - 1) * size;
    left = rest < many ? (u32)rest : many;
    const u32 period = (u64)size < many ? (u32)size : many;
    scale = ((1u << 20) + period - 1) / period;
  }
  CODETTA_MEMBER i64 at(int at, int part) const {
    if constexpr (own == 1) return base + at;
    const u32 chunks = (u32)at < left ? 0 : (((u32)at - left) * scale >> 20) + 1;
    return base + at + (i64)(chunks * (own - 1) + (u32)part % own) * size;
  }
};
#endif

// Where an item of a factor begins, in elements.
CODETTA_FN i64 item_of_a(const Problem& p, i64 item) { return item_place(item, p.a_batch, p.a_skip, p.inner); }
CODETTA_FN i64 item_of_b(const Problem& p, i64 item) { return item_place(item, p.b_batch, p.b_skip, p.inner); }

// Several products of one A: their parts follow each other. An emitted Epilogue has `products` then, more_b(product),
// which operand its B is, and more_map(product), which tensor map (sm_90a).
template <class T>
struct Exists {
  using type = void;
};
template <class Epilogue, class = void>
struct ProductsOf {
  static constexpr int count = 1;
};
template <class Epilogue>
struct ProductsOf<Epilogue, typename Exists<decltype(Epilogue::products)>::type> {
  static constexpr int count = Epilogue::products;
};
// Products of one A that have root spaces of their own: a tile is one product's. An emitted Epilogue has `spaces` then,
// columns(params, product), the columns of one's root space, and more_b(product). For the copy engine's families it has
// of_product(product, f), too, which calls f(Product0()), ...: what is emitted of phase 0 is in these, one a product,
// each with its number, `product`.
template <class Epilogue, class = void>
struct SpacesOf {
  static constexpr int count = 1;
};
template <class Epilogue>
struct SpacesOf<Epilogue, typename Exists<decltype(Epilogue::spaces)>::type> {
  static constexpr int count = Epilogue::spaces;
};
// Of a tile of the grid: whose it is, which of that product's, and the columns of its root space.
struct TileSpace {
  int product;
  u32 tile_n;
  i64 cols;
};
template <class Config, class Epilogue, class P>
__device__ __forceinline__ TileSpace space_of_tile(const P& params, u32 tile_n) {
  constexpr int count = SpacesOf<Epilogue>::count;
  if constexpr (count == 1) {
    return {0, tile_n, params.problem.cols};
  } else {
    constexpr int width = Config::tile_n / Config::ways;
    // Behind the last tile, where a cluster is filled up, it is the last product with columns, which alone has maps.
    TileSpace space{0, tile_n, Epilogue::columns(params, 0)};
    u32 left = tile_n;
    i64 cols = space.cols;
    bool behind = true;
#pragma unroll
    for (int i = 1; i < count; ++i) {
      const u32 tiles = (u32)((cols + width - 1) / width);  // of the product that it is not in front of
      behind = behind && left >= tiles;
      if (!behind) continue;
      left -= tiles;
      cols = Epilogue::columns(params, i);
      if (cols > 0) space = {i, left, cols};
    }
    return space;
  }
}

// Calls f with an object of the type that has phase 0: the Epilogue, or what it has for one of several root spaces.
template <class Epilogue, class F>
__device__ __forceinline__ void of_product(int product, const F& f) {
  if constexpr (SpacesOf<Epilogue>::count == 1) {
    f(Epilogue());
  } else {
    Epilogue::of_product(product, f);
  }
}
// Columns of the root space whose phase 0 `Own` has.
template <class Epilogue, class Own, class P>
__device__ __forceinline__ i64 columns_of(const P& params) {
  if constexpr (SpacesOf<Epilogue>::count == 1) {
    return params.problem.cols;
  } else {
    return Epilogue::columns(params, Own::product);
  }
}

// An item's B: its first element, and strides in elements.
struct FactorB {
  const void* data;
  i64 k, col;
};
// Of a part; `of`: of the product whose root space it is in. E: elements.
template <class Epilogue, int ways, class E, class P>
__device__ __forceinline__ FactorB factor_b(const P& params, i64 batch, int part, int of = 0) {
  constexpr int products = ProductsOf<Epilogue>::count, spaces = SpacesOf<Epilogue>::count;
  const Problem& p = params.problem;
  if constexpr (spaces > 1) {
    FactorB found{(const E*)p.b + item_of_b(p, batch), p.b_k, p.b_col};
#pragma unroll
    for (int i = 1; i < spaces; ++i) {  // at places among the parameters that are constants, as Clang needs it for HIP
      const Operand& o = params.operand[Epilogue::more_b(i)];
      if (of == i) found = {(const E*)o.data + batch * o.stride[0], o.stride[1], o.stride[2]};
    }
    return found;
  } else {
    if constexpr (products > 1) {
      if (const int product = part / (ways / products); product > 0) {
        const Operand& o = params.operand[Epilogue::more_b(product)];
        return {(const E*)o.data + batch * o.stride[0], o.stride[1], o.stride[2]};
      }
    }
    return {(const E*)p.b + item_of_b(p, batch), p.b_k, p.b_col};
  }
}

}  // namespace codetta::gpu
