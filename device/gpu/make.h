// SPDX-License-Identifier: Apache-2.0
// Factors that lie nowhere: the kernel of a product computes their elements where it reads them.
//
// An emitted Epilogue has a MakerA, a MakerB or both then:
//   struct Held;                                   what a vector of the factor is computed from, on its way
//   using Vector = ...;                            `lanes` elements as a factor in memory would have them
//   static constexpr bool batch_in_rows;           rows of all items follow each other
//   aligned(params)                                whether whole vectors can be loaded
//   load<whole, Place>(params, tile, held), make<whole, Place>(params, tile, held)
// A vector is neighbouring elements of one row of the factor as it is before it is transposed: along K where
// consecutive k would be adjacent in memory (Config::a_k_major, b_k_major), along the other dim elsewhere.
#pragma once

#include "device/gpu/fragment.h"
#include "device/gpu/places.h"

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

template <int at_row, int apart, int reach, int at_vector, int vectors>
using PlaceOf = PlaceAmong<at_row, apart, reach, at_vector, vectors, lanes>;
using Alone = PlaceOf<0, 1, 0, 0, 1>;
// f(PlaceOf) for each of `rows` rows of so many vectors, in order.
template <int rows, int apart, int reach, int vectors, int i = 0, class F>
CODETTA_FN void each_place(const F& f) {
  if constexpr (i < rows * vectors) {
    f(PlaceOf<i / vectors, apart, reach, i % vectors, vectors>());
    each_place<rows, apart, reach, vectors, i + 1>(f);
  }
}
// n, which is no less than 0 and a multiple of `unit`, a power of two, so that compilers know it, too.
template <i64 unit>
CODETTA_FN i64 known_multiple(i64 n) {
  return (i64)((u64)n & (~(u64)0 >> 1) & ~(u64)(unit - 1));
}

// What is the same in runs of `run` columns, a power of two, at which vectors begin or inside of which they lie.
template <class E, int run>
struct alignas(bytes_at_most_16((run < lanes ? lanes / run : 1) * (int)sizeof(E))) Runs {
  using element = E;
  static constexpr int count = run < lanes ? lanes / run : 1;
  E e[count];
};
template <class V, class E, int run>
CODETTA_FN V spread(const Runs<E, run>& runs) {
  V v;
  CODETTA_EACH_LANE(v.e[i] = runs.e[i / run]);
  return v;
}
// A vector on its way. Elements of one or two bytes stay in the words that were loaded: they would be waited for to be
// taken apart.
template <class V, bool narrow = (sizeof(element<V>) < 4)>
struct Kept {
  using E = element<V>;
  using Bits = typename Choose<sizeof(E) == 1, u8, u16>::type;
  static constexpr int in_word = 4 / (int)sizeof(E), count = (int)(sizeof(V) / sizeof(E));
  u32 word[(count + in_word - 1) / in_word];
  Kept() = default;
  CODETTA_MEMBER Kept(const V& v) {
#pragma unroll
    for (int w = 0; w < (count + in_word - 1) / in_word; ++w) {
      word[w] = 0;
#pragma unroll
      for (int i = 0; i < in_word && w * in_word + i < count; ++i)
        word[w] |= (u32)(Bits)v.e[w * in_word + i] << (8 * (int)sizeof(E) * i);
    }
  }
  CODETTA_MEMBER operator V() const {
    V v;
#pragma unroll
    for (int i = 0; i < count; ++i) v.e[i] = (E)(Bits)(word[i / in_word] >> (8 * (int)sizeof(E) * (i % in_word)));
    return v;
  }
};
template <class V>
struct Kept<V, false> {
  V v;
  Kept() = default;
  CODETTA_MEMBER Kept(const V& vector) : v(vector) {}
  CODETTA_MEMBER operator V() const { return v; }
};

// Whether runs that follow each other are loaded as vectors: as vectorable() of fragment.h.
template <class E, int run>
CODETTA_FN bool vectorable_runs(const Operand& o, int unit, int terms) {
  if constexpr (run >= lanes) return true;
  u64 places = (u64)o.data;
  for (int i = 0; i < terms; ++i) places |= i == unit ? 0 : (u64)(o.stride[i] * (i64)sizeof(E));
  return o.stride[unit] == 1 && (places & (alignof(Runs<E, run>) - 1)) == 0;
}

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
  template <class E, int run, bool adjacent, class F>
  CODETTA_MEMBER Runs<E, run> load_runs(const E* row, F column_offset) const {
    using R = Runs<E, run>;
    const i64 col = this->tile.col + this->c;
    if constexpr (adjacent && R::count > 1 && (whole || makers_ask)) {
      if (whole || this->wide) return load_whole<R, false>(row + column_offset(col));
    }
    R runs;
#pragma unroll
    for (int i = 0; i < R::count; ++i)
      runs.e[i] = i * run < this->n ? load_from<false>(row + column_offset(col + i * run)) : (E)0;
    return runs;
  }
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
  // A vector all of which exists, of a factor that is aligned.
  template <class Place = Alone>
  CODETTA_MEMBER void load_whole(Held& held, i64 row, i64 col) const {
    Maker::template load<true, Place>(params, tile(row, col, lanes), held);
  }
  template <class Place = Alone>
  CODETTA_MEMBER Vector make_whole(const Held& held, i64 row, i64 col) const {
    return Maker::template make<true, Place>(params, tile(row, col, lanes), held);
  }
  // Any, of which `n` elements exist, if any.
  template <class Place = Alone>
  CODETTA_MEMBER void load_some(Held& held, i64 row, i64 col, int n) const {
    if (n > 0) Maker::template load<false, Place>(params, tile(row, col, n), held);
  }
  // Elements that do not exist are 0.
  template <class Place = Alone>
  CODETTA_MEMBER Vector make_some(const Held& held, i64 row, i64 col, int n) const {
    Vector v;
    CODETTA_EACH_LANE(v.e[i] = 0);
    if (n > 0) {
      const Vector made = Maker::template make<false, Place>(params, tile(row, col, n), held);
      if (makers_ask && n >= lanes) return made;
      CODETTA_EACH_LANE(v.e[i] = i < n ? made.e[i] : (element<Vector>)0);
    }
    return v;
  }
  // Whichever it is.
  template <class Place = Alone>
  CODETTA_MEMBER void load(Held& held, i64 row, i64 col, int n) const {
    if (!makers_ask && n >= lanes && aligned)
      load_whole<Place>(held, row, col);
    else
      load_some<Place>(held, row, col, n);
  }
  template <class Place = Alone>
  CODETTA_MEMBER Vector make(const Held& held, i64 row, i64 col, int n) const {
    if (!makers_ask && n >= lanes && aligned) return make_whole<Place>(held, row, col);
    return make_some<Place>(held, row, col, n);
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
