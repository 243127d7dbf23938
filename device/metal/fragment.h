// SPDX-License-Identifier: Apache-2.0
// TileFragment: what an emitted epilogue sees of a piece of finished accumulators (Tile), as device/gpu/fragment.h has
// it. The threads of the threadgroup lie side by side along the columns of a row (`across` of them, `lanes` columns
// each), then along rows. With `whole`, every position has all lanes or none, and every unit-stride operand is aligned;
// without, elements are taken one by one. All threads walk equally many rows, so that those of a SIMD group always
// exchange values together.
#pragma once

#include "device/gpu/convert.h"
#include "device/metal/access.h"
#include "device/metal/reduce.h"
#include "device/metal/tile.h"

namespace codetta::gpu {

template <class E>
struct Ref {
  device E* p;
  i64 row_stride, col_stride, batch_stride;
};

// Whether vectors of E can be used on a unit-stride operand: every row begins at a multiple of their size.
template <class E>
CODETTA_FN bool vectorable(constant Operand& o) {
  constexpr u64 mask = bytes_at_most_16(lanes * (int)sizeof(E)) - 1;
  return (((u64)o.data | (u64)(o.stride[0] * (i64)sizeof(E)) | (u64)(o.stride[1] * (i64)sizeof(E))) & mask) == 0;
}

// Where the text of a maker puts what it has made (make.h).
template <class V>
struct Made {
  V v;
};

template <bool whole, int across, class P, class T>
struct TileFragment {
  constant P& params;
  const thread T& tile;
  i32 r = 0, c, n;

  CODETTA_MEMBER TileFragment(constant P& p, const thread T& t) : params(p), tile(t) {
    c = t.id % across * lanes;
    const i32 left = t.cols - c;
    // Threads that make no whole row have none.
    n = left < 0 || t.id / across >= t.count / across ? 0 : left < lanes ? left : lanes;
  }
  // Walks over the rows: as many for all threads, of which some have none in the last.
  CODETTA_MEMBER i32 passes() const {
    const i32 step = tile.count / across;
    return (tile.rows + step - 1) / step;
  }
  CODETTA_MEMBER void to_row(i32 pass) {
    const i32 step = tile.count / across, first = tile.id / across;
    r = first < step ? first + pass * step : tile.rows;
  }
  CODETTA_MEMBER bool has_row() const { return r < tile.rows; }
  CODETTA_MEMBER bool leads_row() const { return tile.id % across == 0; }

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
    const i64 at = part * tile.acc_part_stride + r * tile.acc_ld + c;
    V v;
    CODETTA_EACH_LANE(v.e[i] = whole || i < n ? (element<V>)tile.acc[at + i] : (element<V>)0);
    return v;
  }
  // The accumulators here, kept for later phases.
  template <class V>
  CODETTA_MEMBER void keep(int part, int ways, V v) const {
    constant Problem& q = params.problem;
    device element<V>* p = (device element<V>*)q.accumulators +
                           (((tile.batch * ways + part) * q.rows + tile.row + r) * q.cols + tile.col + c);
    scatter(p, 1, v, n);
  }
  template <class E>
  CODETTA_MEMBER Ref<E> ref(int k) const {
    constant Operand& o = params.operand[k];
    return {(device E*)o.data + (tile.batch * o.stride[0] + tile.row * o.stride[1] + tile.col * o.stride[2]),
            o.stride[1], o.stride[2], o.stride[0]};
  }
  template <class V, class E>
  CODETTA_MEMBER V load_full(Ref<E> o) const {
    const device E* p = o.p + (r * o.row_stride + c);
    if constexpr (whole) return load_whole<V>(p);
    return gather<V>(p, 1, n);
  }
  template <class V, class E>
  CODETTA_MEMBER V load_full_strided(Ref<E> o) const {
    return gather<V>(o.p + (r * o.row_stride + c * o.col_stride), o.col_stride, n);
  }
  template <class V, class E>
  CODETTA_MEMBER V load_row(Ref<E> o) const {
    if constexpr (whole) {
      if (n > 0) return load_whole<V>(o.p + c);
    }
    return gather<V>(o.p + c, 1, n);
  }
  template <class V, class E>
  CODETTA_MEMBER V load_row_strided(Ref<E> o) const {
    return gather<V>(o.p + c * o.col_stride, o.col_stride, n);
  }
  template <class V, class E>
  CODETTA_MEMBER V load_column(Ref<E> o) const {
    return splat<V>(o.p[r * o.row_stride]);
  }
  template <class V, class E>
  CODETTA_MEMBER V load_scalar(Ref<E> o) const {
    return splat<V>(*o.p);
  }
  template <class V, i64 block, class E, class F>
  CODETTA_MEMBER V load_indexed(const device E* row, i64, F column_offset) const {
    V v;
    CODETTA_EACH_LANE(v.e[i] = i < n ? row[column_offset(tile.col + c + i)] : (E)0);
    return v;
  }
  // Of an index into a dim of `size` elements: the nearest that is there.
  CODETTA_MEMBER i64v gather_offset(i64v index, i64 stride, i64 size) const {
    CODETTA_EACH_LANE({
      const i64 at = index.e[i] < size ? index.e[i] : size - 1;
      index.e[i] = (at < 0 ? 0 : at) * stride;
    });
    return index;
  }
  template <class V, class E, class F>
  CODETTA_MEMBER V load_at(const device E* row, F column_offset, i64v offset) const {
    V v;
    CODETTA_EACH_LANE(v.e[i] = i < n ? row[column_offset(tile.col + c + i) + offset.e[i]] : (E)0);
    return v;
  }
  // The same element in all lanes, whichever columns stand here: neither the pointer nor the offset depends on one.
  template <class V, class E>
  CODETTA_MEMBER V load_one_at(const device E* row, i64v offset) const {
    return splat<V>(row[offset.e[0]]);
  }
  template <class V>
  CODETTA_MEMBER const device element<V>* results(int k) const {
    return (const device element<V>*)params.reduction[k].results;
  }
  template <class V>
  CODETTA_MEMBER V result_row(int k) const {
    return splat<V>(results<V>(k)[tile.batch * params.problem.rows + tile.row + r]);
  }
  template <class V>
  CODETTA_MEMBER V result_column(int k) const {
    return gather<V>(results<V>(k) + (tile.batch * params.problem.cols + tile.col + c), 1, n);
  }
  template <class V>
  CODETTA_MEMBER V result_any_row(int k) const {
    return splat<V>(results<V>(k)[tile.batch * params.problem.rows]);
  }
  template <class V>
  CODETTA_MEMBER V result_any_column(int k) const {
    return splat<V>(results<V>(k)[tile.batch * params.problem.cols]);
  }
  template <class V>
  CODETTA_MEMBER V result_all(int k) const {
    return splat<V>(*results<V>(k));
  }
  template <class V>
  CODETTA_MEMBER V result_item(int k) const {
    return splat<V>(results<V>(k)[tile.batch]);
  }
  template <class V>
  CODETTA_MEMBER void put_full(thread Made<V>& o, V v) const {
    o.v = v;
  }
  template <class V, class E>
  CODETTA_MEMBER void put_full(Ref<E> o, V v) const {
    device E* p = o.p + (r * o.row_stride + c);
    if constexpr (whole)
      store_whole(p, v);
    else
      scatter(p, 1, v, n);
  }
  template <class V, class E>
  CODETTA_MEMBER void put_full_strided(Ref<E> o, V v) const {
    scatter(o.p + (r * o.row_stride + c * o.col_stride), o.col_stride, v, n);
  }
  template <class V, class E>
  CODETTA_MEMBER void put_row(Ref<E> o, V v) const {
    scatter(o.p + c, 1, v, n);
  }
  template <class V, class E>
  CODETTA_MEMBER void put_row_strided(Ref<E> o, V v) const {
    scatter(o.p + c * o.col_stride, o.col_stride, v, n);
  }
  template <class V, class E>
  CODETTA_MEMBER void put_one(Ref<E> o, V v) const {
    o.p[r * o.row_stride] = v.e[0];
  }
  template <class V, i64 block, class E, class F>
  CODETTA_MEMBER void put_indexed(device E* row, i64, F column_offset, V v) const {
    CODETTA_EACH_LANE(if (i < n) row[column_offset(tile.col + c + i)] = v.e[i]);
  }
  template <class E>
  CODETTA_MEMBER bool owns_row(Ref<E> o) const {
    return tile.row == 0 && tile.id < across && (tile.batch == 0 || o.batch_stride != 0);
  }
  template <class E>
  CODETTA_MEMBER bool owns_column(Ref<E> o) const {
    return tile.col == 0 && leads_row() && (tile.batch == 0 || o.batch_stride != 0);
  }
  // Of an output an item of none there is no element.
  template <class E>
  CODETTA_MEMBER bool owns_scalar(Ref<E> o) const {
    return tile.row == 0 && tile.col == 0 && tile.id == 0 && (tile.batch == 0 || o.batch_stride != 0) &&
           (o.batch_stride == 0 || params.problem.batches != 0);
  }

  // Reductions: `across` is a power of two of at most 32 then, and all threads of the group call them. reduce_column
  // and reduce_all end with the scratch free again.
  template <class S, class Q>
  static CODETTA_MEMBER void write(S s, Q p, i64 at) {
    for (int i = 0; i < S::width; ++i) p[at * S::width + i] = s.v[i];
  }
  template <class S, class Q>
  static CODETTA_MEMBER S read(Q p, i64 at) {
    S s;
    for (int i = 0; i < S::width; ++i) s.v[i] = p[at * S::width + i];
    return s;
  }
  template <class V>
  CODETTA_MEMBER device element<V>* partials(int k) const {
    return (device element<V>*)params.reduction[k].partials;
  }
  // Of the row that this thread is at; threads without one take part.
  template <class R>
  CODETTA_MEMBER void reduce_row(int k, R q) const {
    using V = typename R::Vector;
    const typename R::State s = merged_threads(q.folded(), 1, across);
    if (leads_row() && has_row()) {
      write(s, partials<V>(k),
            (tile.batch * params.problem.pieces_n + tile.piece_n) * params.problem.rows + tile.row + r);
    }
  }
  template <class R>
  CODETTA_MEMBER void reduce_all(int k, R q) const {
    using V = typename R::Vector;
    using S = typename R::State;
    S s = merged_threads(q.folded(), 1, 32);
    threadgroup element<V>* const shared = (threadgroup element<V>*)tile.scratch;
    if (tile.id % 32 == 0) write(s, shared, tile.id / 32);
    group_barrier();
    if (tile.id == 0) {
      for (int w = 1; w < tile.count / 32; ++w) s.merge(read<S>(shared, w));
      write(s, partials<V>(k),
            (tile.batch * params.problem.pieces_m + tile.piece_m) * params.problem.pieces_n + tile.piece_n);
    }
    group_barrier();
  }
  template <class R>
  CODETTA_MEMBER void reduce_column(int k, R q) const {
    using V = typename R::Vector;
    using S = typename R::State;
    threadgroup element<V>* const shared = (threadgroup element<V>*)tile.scratch;
    CODETTA_EACH_LANE({
      const S s = merged_threads(q.lane[i], across, 32);
      if (tile.id % 32 < across) write(s, shared, tile.id / 32 * (across * lanes) + c + i);
    });
    group_barrier();
    for (i32 col = tile.id; col < tile.cols; col += tile.count) {
      S s = read<S>(shared, col);
      for (int w = 1; w < tile.count / 32; ++w) s.merge(read<S>(shared, w * (across * lanes) + col));
      write(s, partials<V>(k),
            (tile.batch * params.problem.pieces_m + tile.piece_m) * params.problem.cols + tile.col + col);
    }
    group_barrier();
  }
};

}  // namespace codetta::gpu
