// SPDX-License-Identifier: Apache-2.0
// Factors that lie nowhere: the kernel of a product computes their elements where it reads them, as device/gpu/make.h
// tells of other GPUs. An emitted Epilogue has a MakerA, a MakerB or both then:
//   using Vector = ...;                            `lanes` elements as a factor in memory would have them
//   static CODETTA_CONSTANT bool batch_in_rows;    rows of all items follow each other
//   aligned(params)                                whether whole vectors can be loaded
//   make<whole>(params, tile)
// A vector is neighbouring elements of one row of the factor as it is before it is transposed: along K where
// consecutive k would be adjacent in memory (Config::a_k_major, b_k_major), along the other dim elsewhere.
#pragma once

#include "device/metal/fragment.h"

namespace codetta::gpu {

struct NoMaker {};
template <class E, class = void>
struct MakerOfA {
  using type = NoMaker;
};
template <class E>
struct MakerOfA<E, typename Exists<typename E::MakerA>::type> {
  using type = typename E::MakerA;
};
template <class E, class = void>
struct MakerOfB {
  using type = NoMaker;
};
template <class E>
struct MakerOfB<E, typename Exists<typename E::MakerB>::type> {
  using type = typename E::MakerB;
};
template <class Maker>
struct Makes {
  static CODETTA_CONSTANT bool value = true;
};
template <>
struct Makes<NoMaker> {
  static CODETTA_CONSTANT bool value = false;
};

// What the text of a maker sees of its place, by TileFragment: one row, of which a single thread has all columns.
struct MakerTile {
  i64 batch, row, col;
  i32 rows, cols, id, count;
};

// An element by the bits in which vectors hold it.
template <class S>
struct OfRaw {
  static CODETTA_MEMBER S of(S x) { return x; }
};
template <>
struct OfRaw<bf16> {
  static CODETTA_MEMBER bf16 of(u16 x) { return bf16{x}; }
};
template <>
struct OfRaw<f16> {
  static CODETTA_MEMBER f16 of(u16 x) { return f16{x}; }
};
template <>
struct OfRaw<f8e4m3> {
  static CODETTA_MEMBER f8e4m3 of(u8 x) { return f8e4m3{x}; }
};
template <>
struct OfRaw<f8e5m2> {
  static CODETTA_MEMBER f8e5m2 of(u8 x) { return f8e5m2{x}; }
};

// How many of `unit` elements from `at` on lie before `end`.
CODETTA_FN int there(i64 at, i64 end, int unit) {
  const i64 left = end - at;
  return left < 0 ? 0 : left < unit ? (int)left : unit;
}

// A vector of one item's factor, of which `n` elements exist; others are 0. `rows`: of an item.
template <class Maker, class P>
CODETTA_FN typename Maker::Vector made_vector(constant P& params, i64 item, i64 rows, i64 row, i64 col, int n,
                                              bool aligned) {
  typename Maker::Vector v;
  CODETTA_EACH_LANE(v.e[i] = 0);
  if (n <= 0) return v;
  MakerTile t;
  t.batch = Maker::batch_in_rows ? 0 : item;
  t.row = (Maker::batch_in_rows ? item * rows : 0) + row, t.col = col;
  t.rows = 1, t.cols = n < lanes ? n : lanes, t.id = 0, t.count = 32;
  if (n >= lanes && aligned) return Maker::template make<true>(params, t);
  const typename Maker::Vector made = Maker::template make<false>(params, t);
  CODETTA_EACH_LANE(if (i < n) v.e[i] = made.e[i]);
  return v;
}

// What a thread makes of a factor for a step along K in the SIMT product, `wide` by tile_k, as values of the
// accumulator's type. Columns of a split tile are taken one by one where they are not neighbours.
template <class Config, class Maker, class S, int wide, bool k_major, int ways>
struct MadeSimtFactor {
  using T = typename Config::Accumulator;
  static CODETTA_CONSTANT int unit = ways > 1 && !k_major ? 1 : lanes;
  static CODETTA_CONSTANT int fast = k_major ? Config::tile_k : wide, slow = k_major ? wide : Config::tile_k;
  static CODETTA_CONSTANT int along = (fast + unit - 1) / unit, units = slow * along;
  static CODETTA_CONSTANT int count = (units + Config::threads - 1) / Config::threads, width = wide / ways;
  static CODETTA_CONSTANT bool ragged = units % Config::threads != 0;
  T held[count * unit];

  // `rows`: of the factor in an item; `first`, `end`: along the other dim, of the tile and of all.
  template <class P>
  CODETTA_MEMBER void fetch(constant P& params, i64 item, i64 rows, i64 first, i64 end, i64 k, i64 k_end, i32 id) {
    const bool aligned = Maker::aligned(params);
    for (int i = 0; i < count; ++i) {
      const int e = id + i * Config::threads, s = e / along, f = e % along * unit;
      const bool real = !ragged || e < units;
      const int place = k_major ? s : f;
      const i64 root = first + place % width;
      const i64 other = real && root < end ? column_of_b<ways>(params.problem, root, place / width) : 0;
      const i64 at = k + (k_major ? f : s);
      int n = 0;
      if (real && root < end && at < k_end)
        n = k_major ? there(at, k_end, unit) : unit == 1 ? 1 : there(root, end, unit);
      const typename Maker::Vector v =
          made_vector<Maker>(params, item, rows, k_major ? other : at, k_major ? at : other, n, aligned);
      for (int j = 0; j < unit; ++j) held[i * unit + j] = (T)widen(OfRaw<S>::of(v.e[j]));
    }
  }
  // Where k has `stride` elements in front of the next.
  CODETTA_MEMBER void put(threadgroup T* to, int stride, i32 id) const {
    for (int i = 0; i < count; ++i) {
      const int e = id + i * Config::threads, s = e / along, f = e % along * unit;
      if (ragged && e >= units) continue;
      for (int j = 0; j < unit; ++j) {
        if (fast % unit != 0 && f + j >= fast) continue;
        to[k_major ? (f + j) * stride + s : s * stride + f + j] = held[i * unit + j];
      }
    }
  }
};

}  // namespace codetta::gpu
