// SPDX-License-Identifier: Apache-2.0
// Where a kernel body and the emitted epilogue meet on Metal; device/gpu/tile.h tells the same of other GPUs. There are
// no lambdas and no named barriers: a group of threads is the whole threadgroup, and phases are struct types with a
// static function `run(params, tile)`.
#pragma once

#include "device/gpu/abi.h"
#include "device/gpu/items.h"

namespace codetta::gpu {

// A rectangle of finished accumulators, worked on by all threads of a threadgroup. Acc: a pointer to constant
// accumulators, into threadgroup memory in phase 0 and into device memory later.
template <class Acc>
struct Tile {
  Acc acc;  // accumulator of part j at (r, c): element j * acc_part_stride + r * acc_ld + c
  i64 acc_ld, acc_part_stride;
  i64 batch, row, col;        // root coordinates of the first element
  i32 rows, cols;             // valid extent: at most piece_rows x piece_cols, less at the edges
  i64 piece_m, piece_n;       // index of the piece in the grid of one batch item (see ReductionBuffers)
  i32 id, count;              // this thread, and how many there are (a multiple of 32)
  threadgroup char* scratch;  // for reductions: Epilogue::scratch_bytes(count) bytes
};

// The column of B (and of the unsplit accumulator) of part `part` at root column `col`; of several products, in its
// own.
template <int ways, int products = 1>
CODETTA_FN i64 column_of_b(constant Problem& p, i64 col, int part) {
  constexpr int own = ways / products;
  if constexpr (own == 1) return col;
  return (col / p.chunk) * (p.chunk * own) + part % own * p.chunk + col % p.chunk;
}

// Where an item of a factor begins, in elements.
CODETTA_FN i64 item_of_a(constant Problem& p, i64 item) { return item_place(item, p.a_batch, p.a_skip, p.inner); }
CODETTA_FN i64 item_of_b(constant Problem& p, i64 item) { return item_place(item, p.b_batch, p.b_skip, p.inner); }

// Several products of one A: their parts follow each other. An emitted Epilogue has `products` then, and
// more_b(product), which operand its B is.
template <class T>
struct Exists {
  using type = void;
};
template <class Epilogue, class = void>
struct ProductsOf {
  static CODETTA_CONSTANT int count = 1;
};
template <class Epilogue>
struct ProductsOf<Epilogue, typename Exists<decltype(Epilogue::products)>::type> {
  static CODETTA_CONSTANT int count = Epilogue::products;
};
// An item's B: its first element, and strides in elements.
template <class E>
struct ItemOfB {
  const device E* first;
  i64 k, col;
};
// Of a part. E: elements.
template <class Epilogue, int ways, class E, class P>
CODETTA_FN ItemOfB<E> factor_b(constant P& params, i64 item, int part) {
  constexpr int products = ProductsOf<Epilogue>::count;
  constant Problem& p = params.problem;
  if constexpr (products > 1) {
    const int product = part / (ways / products);
    if (product > 0) {
      constant Operand& o = params.operand[Epilogue::more_b(product)];
      return {(const device E*)o.data + item * o.stride[0], o.stride[1], o.stride[2]};
    }
  }
  return {(const device E*)p.b + item_of_b(p, item), p.b_k, p.b_col};
}

CODETTA_FN i64 at_least_1(i64 n) { return n < 1 ? 1 : n; }

// Bytes as threadgroup memory is handed out.
constexpr int in_sixteens(int bytes) { return (bytes + 15) / 16 * 16; }
constexpr int larger(int a, int b) { return a > b ? a : b; }

// Which tile, slice of K and batch item a threadgroup of the product's grid has. Groups of `group` tiles along M, so
// that threadgroups that run together share columns of B.
struct Unit {
  i64 tile_m, tile_n, slice, batch;
  CODETTA_MEMBER Unit(constant Problem& p, u32 index) {
    const i64 tiles = p.tiles_m * p.tiles_n, all = (i64)index;
    const i64 at = all % tiles;
    slice = all / tiles % p.k_split, batch = all / tiles / p.k_split;
    const i64 group = (i64)p.group * p.tiles_n, base = at / group * (i64)p.group;
    const i64 high = p.tiles_m - base < (i64)p.group ? p.tiles_m - base : (i64)p.group;
    tile_m = base + at % group % high, tile_n = at % group / high;
  }
};

}  // namespace codetta::gpu
