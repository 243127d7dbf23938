// SPDX-License-Identifier: Apache-2.0
// Factors that lie nowhere: the kernel of a product computes their elements where it reads them.
//
// An emitted Epilogue has a MakerA, a MakerB or both then:
//   struct Held;                                   what a vector of the factor is computed from, on its way
//   using Vector = ...;                            `lanes` elements as a factor in memory would have them
//   static constexpr bool batch_in_rows;           rows of all items follow each other
//   aligned(params)                                whether whole vectors can be loaded
//   load<whole>(params, tile, held), make<whole>(params, tile, held)
// A vector is neighbouring elements of one row of the factor as it is before it is transposed: along K where
// consecutive k would be adjacent in memory (Config::a_k_major, b_k_major), along the other dim elsewhere.
#pragma once

#include "device/gpu/fragment.h"

namespace codetta::gpu {

struct NoMaker {};
struct Nothing {  // in the place of what is not needed
  template <class... T>
  CODETTA_MEMBER Nothing(const T&...) {}
};
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
  static constexpr bool value = true;
};
template <>
struct Makes<NoMaker> {
  static constexpr bool value = false;
};

// What the text of a maker sees: row and column are the tile's first.
template <class V>
struct Made {
  V v;
};
// makers_ask: whether whole vectors can be loaded is asked where one is, so that code exists once for both.
#ifdef __HIP_PLATFORM_AMD__
enum : bool { makers_ask = true };
#else
enum : bool { makers_ask = false };
#endif
template <bool whole, class P>
using ForMaker = TileFragment<whole, 1, P, (makers_ask && !whole)>;
template <bool whole, class P>
struct MakerFragment : ForMaker<whole, P> {
  CODETTA_MEMBER MakerFragment(const P& p, const Tile& t) : ForMaker<whole, P>(p, t, whole || t.wide) {}
  template <class V>
  CODETTA_MEMBER void put_full(Made<V>& o, V v) const {
    o.v = v;
  }
};

// Vectors of one item's factor. `rows`: of an item.
template <class Maker, class P>
struct Making {
  using Held = typename Maker::Held;
  using Vector = typename Maker::Vector;
  const P& params;
  i64 batch, first_row;
  bool aligned;

  CODETTA_MEMBER Making(const P& p, i64 item, i64 rows)
      : params(p),
        batch(Maker::batch_in_rows ? 0 : item),
        first_row(Maker::batch_in_rows ? item * rows : 0),
        aligned(Maker::aligned(p)) {}

  CODETTA_MEMBER Tile tile(i64 row, i64 col, int n) const {
    Tile t;
    t.batch = batch, t.row = first_row + row, t.col = col;
    t.rows = 1, t.cols = n;
    t.thread = 0, t.threads = 32;
    t.wide = n >= lanes && aligned;
    return t;
  }
  // `n` elements of the vector exist, if any.
  CODETTA_MEMBER void load(Held& held, i64 row, i64 col, int n) const {
    if (!makers_ask && n >= lanes && aligned)
      Maker::template load<true>(params, tile(row, col, lanes), held);
    else if (n > 0)
      Maker::template load<false>(params, tile(row, col, n), held);
  }
  // Elements that do not exist are 0.
  CODETTA_MEMBER Vector make(const Held& held, i64 row, i64 col, int n) const {
    if (!makers_ask && n >= lanes && aligned) return Maker::template make<true>(params, tile(row, col, lanes), held);
    Vector v;
    CODETTA_EACH_LANE v.e[i] = 0;
    if (n > 0) {
      const Vector made = Maker::template make<false>(params, tile(row, col, n), held);
      if (makers_ask && n >= lanes) return made;
      CODETTA_EACH_LANE v.e[i] = i < n ? made.e[i] : (element<Vector>)0;
    }
    return v;
  }
};

// How many of `unit` elements from `at` on lie before `end`.
CODETTA_FN int there(i64 at, i64 end, int unit) {
  const i64 left = end - at;
  return left < 0 ? 0 : left < unit ? (int)left : unit;
}

// A tile of a factor, `extent` by tile_k, by all threads of a block, as values of the accumulator's type. Columns of a
// split tile are taken one by one where they are not neighbours.
template <class Maker, class E, class T, bool k_major, int extent, int tile_k, int threads, int ways, class P>
struct MadeTile {
  static constexpr int unit = ways > 1 && !k_major ? 1 : lanes;
  static constexpr int fast = k_major ? tile_k : extent, slow = k_major ? extent : tile_k;
  static constexpr int along = (fast + unit - 1) / unit, units = slow * along;
  static constexpr int passes = (units + threads - 1) / threads, width = extent / ways;
  Making<Maker, P> making;
  i64 first, end;  // along the other dim: of the tile, and of all
  T held[passes * unit];

  CODETTA_MEMBER MadeTile(const P& params, i64 item, i64 other, i64 others)
      : making(params, item, k_major ? others * ways : params.problem.k), first(other), end(others) {}

  // Column (row) `at` of the tile; beyond the end: one that does not exist.
  CODETTA_MEMBER i64 place(int at) const {
    const i64 root = first + at % width;
    return root < end ? column_of_b<ways>(making.params.problem, root, at / width) : -1;
  }
  CODETTA_MEMBER void fetch(i64 k, i64 k_end, int thread) {
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      const int e = thread + i * threads, s = e / along, f = e % along * unit;
      const bool real = units % threads == 0 || e < units;
      i64 row, col;
      int n;
      if constexpr (k_major) {
        row = real ? place(s) : -1, col = k + f;
        n = row < 0 ? 0 : there(col, k_end, unit);
      } else {
        row = k + s, col = place(f);
        n = !real || row >= k_end || col < 0 ? 0 : unit == 1 ? 1 : there(first + f, end, unit);
      }
      typename Making<Maker, P>::Held h;
      making.load(h, row, col, n);
      const auto v = making.make(h, row, col, n);
#pragma unroll
      for (int j = 0; j < unit; ++j) {
        E x;
        memcpy(&x, &v.e[j], sizeof x);
        held[i * unit + j] = (T)widen(x);
      }
    }
  }
  template <int pitch>
  CODETTA_MEMBER void store(T (&to)[tile_k][pitch], int thread) const {
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      const int e = thread + i * threads, s = e / along, f = e % along * unit;
      if (units % threads != 0 && e >= units) continue;
#pragma unroll
      for (int j = 0; j < unit; ++j) {
        if (fast % unit != 0 && f + j >= fast) continue;
        to[k_major ? f + j : s][k_major ? s : f + j] = held[i * unit + j];
      }
    }
  }
};

}  // namespace codetta::gpu
