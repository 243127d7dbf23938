// SPDX-License-Identifier: Apache-2.0
// What makes rows of an A of 16-bit elements from those of the one matrix that the copy engine brings in its place
// (make_wgmma.h, make_tcgen05.h).
//
// Of Maker, besides what make.h says:
//   source                  index of the operand that is brought, of 16-bit elements
//   Held::l0                a vector of it, of two elements, and nothing else
//   along                   whether it loads anything by the place along K but for that
//   masked                  whether elements may be left out, so that their exponentials are 0
//   at_row(params, tile)    what makes vectors of a row from Held and their place, having loaded and computed once what
//                           is the row's, and says where quotients are not right (ct_div_by) and have to be made
//                           Ordinarily
#pragma once

#include "device/gpu/make.h"

namespace codetta::gpu {

// What the text of at_row sees: the engine counts rows in 32 bits.
template <bool batch_in_rows, class P>
struct RowOfA : MakerFragment<true, P> {
  CODETTA_MEMBER RowOfA(const P& p, const Tile& t) : MakerFragment<true, P>(p, t) {}
  CODETTA_MEMBER i64v row_index() const {
    if constexpr (batch_in_rows) return MakerFragment<true, P>::row_index();
    return splat<i64v>((i64)(i32)this->tile.row);
  }
};

// What the text for vectors of a row sees: a vector's place along K, and how many of its elements exist. `whole`: all
// of them, and what is loaded by columns can be loaded as vectors.
template <bool whole>
struct PlaceInK {
  i32 c;
  int n;
  CODETTA_MEMBER i64v col_index() const {
    i64v v;
    CODETTA_EACH_LANE(v.e[i] = (i64)(c + i));
    return v;
  }
  template <class V, bool written = false, class E>
  CODETTA_MEMBER V load_row(const Ref<E>& o) const {
    if constexpr (whole) return load_whole<V, written>(o.p + c);
    return gather<V, written>(o.p + c, 1, n);
  }
  template <class V, bool written = false, class E>
  CODETTA_MEMBER V load_row_strided(const Ref<E>& o) const {
    return gather<V, written>(o.p + c * o.col_stride, o.col_stride, n);
  }
  template <class V>
  CODETTA_MEMBER void put_full(Made<V>& o, V v) const {
    o.v = v;
  }
};

template <bool is>
struct Known {
  static constexpr bool value = is;
};
template <bool masked>
struct QuotientsOf {
  using Type = Quotients;
};
template <>
struct QuotientsOf<true> {
  using Type = MaskedQuotients;
};

// Words of two elements, from what the engine has brought to those of A: word w begins at at_k(w) along K, and
// maker(w, held, place, quotients) makes it. `whole`: all elements exist; others become 0.
template <bool whole, class Maker, class P, class At, class MakerOf>
CODETTA_FN void make_words(const Making<Maker, P>& making, At at_k, MakerOf maker, u32 (&word)[4]) {
  using Vector = typename Maker::Vector;
  static_assert(lanes == 2 && sizeof(Vector) == 4 && sizeof(typename Maker::Held) == 4, "a vector is a register");
  const u32 k_end = (u32)making.params.problem.k;
  typename Maker::Held held[4];
  memcpy(held, word, sizeof held);
  const auto each = [&](auto in_vectors, auto& quotients) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const u32 at = at_k(w);
      const PlaceInK<decltype(in_vectors)::value> place{(i32)at, whole ? 2 : there(at, k_end, 2)};
      Vector v = maker(w, held[w], place, quotients);
      if constexpr (!whole) CODETTA_EACH_LANE(v.e[i] = at + i < k_end ? v.e[i] : (element<Vector>)0);
      memcpy(&word[w], &v, 4);
    }
  };
  const auto make = [&](auto in_vectors) {
    typename QuotientsOf<Maker::masked>::Type quotients;
    each(in_vectors, quotients);
    if (!quotients.right()) {
      Ordinarily any;
      each(in_vectors, any);
    }
  };
  if constexpr (whole && Maker::along) {
    if (making.aligned)
      make(Known<true>{});
    else
      make(Known<false>{});
  } else {
    make(Known<whole>{});
  }
}

}  // namespace codetta::gpu
