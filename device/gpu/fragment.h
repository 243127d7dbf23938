// SPDX-License-Identifier: Apache-2.0
// TileFragment: what an emitted epilogue sees of a piece of finished accumulators (Tile). The threads of the group lie
// side by side along the columns of a row (`across` of them, `lanes` columns each), then along rows. The method names
// are those that the printer knows (device/cpu/fragment.h says what each means). With `whole`, every position has all
// lanes or none, and every unit-stride operand, and every Indexed one whose blocks are whole vectors, is aligned;
// without, elements are taken one by one, but where `asks`: then `wide` says at run time whether it is so, the same in
// all threads, and code exists once for both. Nothing outside the piece's valid extent is touched.
#pragma once

#include "device/gpu/access.h"
#include "device/gpu/convert.h"
#include "device/gpu/math.h"
#include "device/gpu/reduce.h"
#include "device/gpu/tile.h"

namespace codetta::gpu {

template <class E>
struct Ref {
  E* p;
  i64 row_stride, col_stride, batch_stride;
};

// Whether vectors of E can be used on a unit-stride operand: every row begins at a multiple of their size.
template <class E>
CODETTA_FN bool vectorable(const Operand& o) {
  constexpr u64 mask = bytes_at_most_16(lanes * (int)sizeof(E)) - 1;
  return (((u64)o.data | (u64)(o.stride[0] * (i64)sizeof(E)) | (u64)(o.stride[1] * (i64)sizeof(E))) & mask) == 0;
}

// The same of an operand by index terms, whose columns lie side by side in blocks if term `unit` has stride 1; where
// blocks are no whole vectors, none are used.
template <class E, i64 block>
CODETTA_FN bool vectorable(const Operand& o, int unit, int terms) {
  if constexpr (block % lanes != 0) return true;
  u64 places = (u64)o.data;
  for (int i = 0; i < terms; ++i) places |= i == unit ? 0 : (u64)(o.stride[i] * (i64)sizeof(E));
  return o.stride[unit] == 1 && (places & (bytes_at_most_16(lanes * (int)sizeof(E)) - 1)) == 0;
}

// Brings the tile's part of a unit-stride operand into L2, a line a thread; the tile's accumulators are not needed.
template <class E>
CODETTA_FN void prefetch_full(const Operand& o, const Tile& tile) {
  constexpr i32 line = 128;
  const i32 bytes = tile.cols * (i32)sizeof(E), lines = (bytes + line - 1) / line;
  const char* const first =
      (const char*)((const E*)o.data + (tile.batch * o.stride[0] + tile.row * o.stride[1] + tile.col));
#pragma unroll 1
  for (i32 i = tile.thread; i < tile.rows * lines; i += tile.threads) {
    const u32 r = (u32)i / (u32)lines, at = ((u32)i - r * (u32)lines) * line;
    prefetch_line(first + (r * o.stride[1] * (i64)sizeof(E) + at));
  }
}

template <bool whole, int across, class P, bool asks = false>
struct TileFragment {
  const P& params;
  const Tile& tile;
  const bool wide;
  i32 r = 0, c, n;

  CODETTA_MEMBER TileFragment(const P& p, const Tile& t, bool in_vectors = whole)
      : params(p), tile(t), wide(in_vectors) {
    at_column(t.thread % across * lanes);
  }
  CODETTA_MEMBER void at_column(i32 column) {
    c = column;
    const i32 left = tile.cols - column;
    n = left < 0 ? 0 : left < lanes ? left : lanes;
  }
  // The rows of this thread: first_row(), first_row() + row_step(), ... below end_row(). Where rows are the warps' own,
  // `across` divides 32.
  CODETTA_MEMBER bool takes_rows() const { return tile.warp_rows != 0 || tile.thread / across < tile.threads / across; }
  CODETTA_MEMBER i32 first_row() const {
    return tile.warp_rows != 0 ? tile.thread / 32 * tile.warp_rows + tile.thread % 32 / across : tile.thread / across;
  }
  CODETTA_MEMBER i32 row_step() const { return (tile.warp_rows != 0 ? 32 : tile.threads) / across; }
  CODETTA_MEMBER i32 end_row() const {
    const i32 own = tile.warp_rows != 0 ? (tile.thread / 32 + 1) * tile.warp_rows : tile.rows;
    return own < tile.rows ? own : tile.rows;
  }
  CODETTA_MEMBER bool leads_row() const { return tile.thread % across == 0; }

  CODETTA_MEMBER i64v batch_index() const { return splat<i64v>(tile.batch); }
  CODETTA_MEMBER i64v row_index() const { return splat<i64v>(tile.row + r); }
  CODETTA_MEMBER i64v col_index() const {
    i64v v;
    CODETTA_EACH_LANE(v.e[i] = tile.col + c + i);
    return v;
  }
  CODETTA_MEMBER boolv valid_here() const {
    boolv v;
    CODETTA_EACH_LANE(v.e[i] = whole || i < n);
    return v;
  }
  template <class V>
  CODETTA_MEMBER V accum(int part) const {
    const element<V>* p = (const element<V>*)tile.acc + (part * tile.acc_part_stride + r * tile.acc_ld + c);
    if constexpr (whole) {
      return *(const V*)p;
    } else {  // else nvcc warns of a loop that is not reached
      if (wide || tile.wide) return *(const V*)p;
      V v;
      CODETTA_EACH_LANE(v.e[i] = i < n ? p[i] : (element<V>)0);
      return v;
    }
  }
  // The accumulators here, kept for later phases.
  template <class V>
  CODETTA_MEMBER void keep(int part, int ways, V v) const {
    const Problem& q = params.problem;
    element<V>* p =
        (element<V>*)q.accumulators + (((tile.batch * ways + part) * q.rows + tile.row + r) * q.cols + tile.col + c);
    scatter(p, 1, v, n);
  }
  template <class E>
  CODETTA_MEMBER Ref<E> ref(int k) const {
    const Operand& o = params.operand[k];
    return {(E*)o.data + (tile.batch * o.stride[0] + tile.row * o.stride[1] + tile.col * o.stride[2]), o.stride[1],
            o.stride[2], o.stride[0]};
  }
  template <class V, bool written = false, class E>
  CODETTA_MEMBER V load_full(const Ref<E>& o) const {
    const E* p = o.p + (r * o.row_stride + c);
    if constexpr (whole || asks) {
      if (whole || wide) return load_whole<V, written>(p);
    }
    return gather<V, written>(p, 1, n);
  }
  template <class V, bool written = false, class E>
  CODETTA_MEMBER V load_full_strided(const Ref<E>& o) const {
    return gather<V, written>(o.p + (r * o.row_stride + c * o.col_stride), o.col_stride, n);
  }
  template <class V, bool written = false, class E>
  CODETTA_MEMBER V load_row(const Ref<E>& o) const {
    if constexpr (whole || asks) {
      if ((whole || wide) && n != 0) return load_whole<V, written>(o.p + c);  // also threads without columns come here
      if (whole) return splat<V>(0);
    }
    return gather<V, written>(o.p + c, 1, n);
  }
  template <class V, bool written = false, class E>
  CODETTA_MEMBER V load_row_strided(const Ref<E>& o) const {
    return gather<V, written>(o.p + c * o.col_stride, o.col_stride, n);
  }
  template <class V, bool written = false, class E>
  CODETTA_MEMBER V load_column(const Ref<E>& o) const {
    return splat<V>(load_from<written>(o.p + r * o.row_stride));
  }
  template <class V, bool written = false, class E>
  CODETTA_MEMBER V load_scalar(const Ref<E>& o) const {
    return splat<V>(load_from<written>(o.p));
  }
  // Blocks of `block` columns are whole vectors, where that is a multiple of the lanes; theirs lie `unit` apart.
  template <class V, i64 block, bool written = false, class E, class F>
  CODETTA_MEMBER V load_indexed(const E* row, i64 unit, F column_offset) const {
    if constexpr (block % lanes == 0) {
      if ((whole || (asks && wide)) && n != 0) return load_whole<V, written>(row + column_offset(tile.col + c));
      return whole ? splat<V>(0) : gather<V, written>(row + column_offset(tile.col + c), unit, n);
    } else {
      V v;
      CODETTA_EACH_LANE(v.e[i] = i < n ? load_from<written>(row + column_offset(tile.col + c + i)) : (E)0);
      return v;
    }
  }
  // Of an index into a dim of `size` elements: the nearest that is there.
  CODETTA_MEMBER i64v gather_offset(i64v index, i64 stride, i64 size) const {
    CODETTA_EACH_LANE({
      const i64 at = index.e[i] < size ? index.e[i] : size - 1;
      index.e[i] = (at < 0 ? 0 : at) * stride;
    });
    return index;
  }
  template <class V, bool written = false, class E, class F>
  CODETTA_MEMBER V load_at(const E* row, F column_offset, i64v offset) const {
    V v;
    CODETTA_EACH_LANE(v.e[i] = i < n ? load_from<written>(row + column_offset(tile.col + c + i) + offset.e[i]) : (E)0);
    return v;
  }
  // The same element in all lanes, whichever columns stand here: neither the pointer nor the offset depends on one.
  template <class V, bool written = false, class E>
  CODETTA_MEMBER V load_one_at(const E* row, i64v offset) const {
    return splat<V>(load_from<written>(row + offset.e[0]));
  }
  template <class V>
  CODETTA_MEMBER V result_row(int k) const {
    return splat<V>(((const element<V>*)params.reduction[k].results)[tile.batch * params.problem.rows + tile.row + r]);
  }
  template <class V>
  CODETTA_MEMBER V result_column(int k) const {
    const element<V>* p =
        (const element<V>*)params.reduction[k].results + (tile.batch * params.problem.cols + tile.col + c);
    return gather<V>(p, 1, n);
  }
  template <class V>
  CODETTA_MEMBER V result_any_row(int k) const {
    return splat<V>(((const element<V>*)params.reduction[k].results)[tile.batch * params.problem.rows]);
  }
  template <class V>
  CODETTA_MEMBER V result_any_column(int k) const {
    return splat<V>(((const element<V>*)params.reduction[k].results)[tile.batch * params.problem.cols]);
  }
  template <class V>
  CODETTA_MEMBER V result_all(int k) const {
    return splat<V>(*(const element<V>*)params.reduction[k].results);
  }
  template <class V>
  CODETTA_MEMBER V result_item(int k) const {
    return splat<V>(((const element<V>*)params.reduction[k].results)[tile.batch]);
  }
  template <class V, class E>
  CODETTA_MEMBER void put_full(const Ref<E>& o, V v) const {
    E* p = o.p + (r * o.row_stride + c);
    if constexpr (whole || asks) {
      if (whole || wide) return store_whole(p, v);
    }
    scatter(p, 1, v, n);
  }
  template <class V, class E>
  CODETTA_MEMBER void put_full_strided(const Ref<E>& o, V v) const {
    scatter(o.p + (r * o.row_stride + c * o.col_stride), o.col_stride, v, n);
  }
  template <class V, class E>
  CODETTA_MEMBER void put_row(const Ref<E>& o, V v) const {
    scatter(o.p + c, 1, v, n);
  }
  template <class V, class E>
  CODETTA_MEMBER void put_row_strided(const Ref<E>& o, V v) const {
    scatter(o.p + c * o.col_stride, o.col_stride, v, n);
  }
  template <class V, class E>
  CODETTA_MEMBER void put_one(const Ref<E>& o, V v) const {
    store_global(o.p + r * o.row_stride, v.e[0]);
  }
  template <class V, i64 block, class E, class F>
  CODETTA_MEMBER void put_indexed(E* row, i64 unit, F column_offset, V v) const {
    if constexpr (block % lanes == 0) {
      if (!whole && !(asks && wide)) return scatter(row + column_offset(tile.col + c), unit, v, n);
      if (n != 0) store_whole(row + column_offset(tile.col + c), v);
    } else {
      CODETTA_EACH_LANE(if (i < n) store_global(row + column_offset(tile.col + c + i), v.e[i]));
    }
  }
  template <class E>
  CODETTA_MEMBER bool owns_row(const Ref<E>& o) const {
    return tile.row == 0 && tile.thread < across && (tile.batch == 0 || o.batch_stride != 0);
  }
  template <class E>
  CODETTA_MEMBER bool owns_column(const Ref<E>& o) const {
    return tile.col == 0 && leads_row() && (tile.batch == 0 || o.batch_stride != 0);
  }
  // Of an output an item of none there is no element, and no address.
  template <class E>
  CODETTA_MEMBER bool owns_scalar(const Ref<E>& o) const {
    return tile.row == 0 && tile.col == 0 && tile.thread == 0 && (tile.batch == 0 || o.batch_stride != 0) &&
           o.p != nullptr;
  }

  // Reductions: `across` is a power of two of at most 32 then. reduce_rows: by the threads of the rows, all of them.
  // reduce_column and reduce_all: by all threads of the group; both end with the scratch free again.
  template <class S, class T>
  static CODETTA_MEMBER void write(const S& s, T* p, i64 at) {
    CODETTA_EACH_VALUE(S, p[at * S::width + i] = s.v[i]);
  }
  template <class S, class T>
  static CODETTA_MEMBER S read(const T* p, i64 at) {
    S s;
    CODETTA_EACH_VALUE(S, s.v[i] = p[at * S::width + i]);
    return s;
  }
  // The states held[0].*q, held[1].*q, ... of several rows, each of all threads of the row: the lanes of a row that are
  // less than `count` have one in `folded`, of row at(). With `together` all threads of a warp call this; several rows
  // then are folded at once: lanes exchange halves of them, until each has one.
  template <bool together, class H, class S, int count>
  CODETTA_MEMBER int fold_rows(const H (&held)[count], S H::*q, S& folded) const {
    static_assert(count == 1 || (together && count <= across));
    const int lane = tile.thread % 32;
    const u32 mask = together || across == 32 ? ~0u : ((1u << (across % 32)) - 1) << (lane / across * across);
    S s[count];
#pragma unroll
    for (int i = 0; i < count; ++i) s[i] = held[i].*q;
    int row = 0;
#pragma unroll
    for (int n = count / 2; n >= 1; n /= 2) {
      const int distance = count / 2 / n;
      const bool upper = (lane & distance) != 0;
      row += upper ? n : 0;
#pragma unroll
      for (int i = 0; i < n; ++i) {
        S other;
        S &mine = s[i], &its = s[i + n];
        CODETTA_EACH_VALUE(S, {
          // Both are read first: Clang would choose between places, and states would lie in memory.
          const auto low = mine.v[i], high = its.v[i];
          mine.v[i] = upper ? high : low;
          other.v[i] = exchanged(mask, upper ? low : high, distance);
        });
        mine.merge(other);
      }
    }
    merge_threads(mask, s[0], count, across);
    folded = s[0];
    return row;
  }
  // The rows `first`, first + row_step(), ... `largest`: reductions of the largest of the same values, with which
  // states begin.
  template <bool together, class V, class H, class S, int count, class... Largest>
  CODETTA_MEMBER void reduce_rows(int k, const H (&held)[count], S H::*q, i32 first, Largest... largest) const {
    S s;
    const int row = fold_rows<together>(held, q, s);
    if (tile.thread % across < count) {
      const i64 at = (tile.batch * params.problem.pieces_n + tile.piece_n) * params.problem.rows + tile.row + first +
                     row * row_step();
      write(s, (element<V>*)params.reduction[k].partials, at);
      ((((element<V>*)params.reduction[largest].partials)[at] = s.v[0]), ...);
    }
  }
  template <template <class> class R, class V>
  CODETTA_MEMBER void reduce_all(int k, const R<V>& q) const {
    auto s = q.folded();
    using S = decltype(s);
    merge_threads(~0u, s, 1, 32);
    auto* const shared = (element<V>*)tile.scratch;
    if (tile.thread % 32 == 0) write(s, shared, tile.thread / 32);
    group_barrier(tile.barrier, tile.threads);
    if (tile.thread == 0) {
      CODETTA_EACH_WARP
      for (int w = 1; w < tile.threads / 32; ++w) s.merge(read<S>(shared, w));
      write(s, (element<V>*)params.reduction[k].partials,
            (tile.batch * params.problem.pieces_m + tile.piece_m) * params.problem.pieces_n + tile.piece_n);
    }
    group_barrier(tile.barrier, tile.threads);
  }
  template <template <class> class R, class V>
  CODETTA_MEMBER void reduce_column(int k, R<V>& q) const {
    using S = typename R<V>::State;
    auto* const shared = (element<V>*)tile.scratch;
    CODETTA_EACH_LANE({
      merge_threads(~0u, q.lane[i], across, 32);
      if (tile.thread % 32 < across) write(q.lane[i], shared, tile.thread / 32 * (across * lanes) + c + i);
    });
    group_barrier(tile.barrier, tile.threads);
#pragma unroll 1  // there is one round where columns are no more than threads
    for (i32 col = tile.thread; col < tile.cols; col += tile.threads) {
      S s = read<S>(shared, col);
      CODETTA_EACH_WARP
      for (int w = 1; w < tile.threads / 32; ++w) s.merge(read<S>(shared, w * (across * lanes) + col));
      write(s, (element<V>*)params.reduction[k].partials,
            (tile.batch * params.problem.pieces_m + tile.piece_m) * params.problem.cols + tile.col + col);
    }
    group_barrier(tile.barrier, tile.threads);
  }
};

}  // namespace codetta::gpu
