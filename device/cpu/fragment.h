// SPDX-License-Identifier: Apache-2.0
// TileFragment: what an emitted epilogue sees of one rectangle of finished accumulators (Tile in abi.h).
//
// The Fragment concept, which every target implements. A Fragment stands at a position of the root space and holds
// `lanes` consecutive columns of one row, of which the first n are valid. Emitted code never assumes more: it is
// written in nests (uniform values once, per-row values at each row, the rest at each position), and a target whose
// threads hold several rows walks the positions it holds. A Fragment f offers
//   position      f.batch_index(), f.row_index() (uniform in the position), f.col_index() (one per lane),
//   f.valid_here() accum         f.accum<V>(part), f.accum_strided<V>(part): the accumulators here; the latter where
//   columns of one
//                 part need not be adjacent
//   refs          f.ref<E>(k): operand k (affine: terms batch, row, column); an indexed one is its data pointer;
//                 f.out<E>(k, bytes): one that is stored with put_full and may go past the caches
//   loads         of raw elements, widened by the caller: load_full, load_full_strided; load_row, load_row_strided (one
//                 value per column); load_column (one per row) and load_scalar, both in every lane; load_indexed
//                 (per-row base plus a column function); load_at (and an offset a lane, of gather_offset), load_one_at
//                 (where no column decides: in every lane)
//   results       result_row, result_column, result_item, result_all: final values of a reduction of an earlier phase;
//                 result_any_row, result_any_column: of one whose results are all the same
//   stores        put_full, put_full_strided, put_pair (CPU: two vectors of bf16 at once), put_row, put_row_strided,
//                 put_one (column and scalar class), put_indexed
//   once-only     owns_row(ref), owns_column(ref), owns_scalar(ref): whether this tile writes a row-, column- or
//                 scalar-class store
//   reductions    reduce_row(k, reducer) and reduce_all(k, reducer) write the tile's partial; reduce_column folds into
//                 the tile's own row of partials, which begins with its first row. Only valid lanes enter.
// No element outside the tile's valid extent is touched (accumulators excepted, see Tile).
#pragma once

#include "device/cpu/convert.h"
#include "device/cpu/math.h"
#include "device/cpu/reduce.h"

namespace codetta::cpu {

//% Ref
// An operand seen from the tile's first element; held in registers, so that stores cannot change it.
template <class E>
struct Ref {
  E* p;
  i64 row_stride, col_stride, batch_stride;
  bool past;  // whole vectors are stored past the caches
};

//% deinterleave
// Every second element from x[odd] of the 2 * lanes elements in x and y.
CODETTA_FN f32v deinterleave(f32v x, f32v y, i64 odd) {
#if defined(__AVX512F__)
  const i32v index = iota<i32v>() * 2 + splat<i32v>((i32)odd);
  f32v r = x;
  asm("vpermt2ps %2, %1, %0" : "+v"(r) : "v"(index), "v"(y));
  return r;
#else
  f32v r;
  for (int i = 0; i < lanes / 2; ++i) r[i] = x[2 * i + odd];
  for (int i = 0; i < lanes / 2; ++i) r[lanes / 2 + i] = y[2 * i + odd];
  return r;
#endif
}

//% fetch_ahead
// Rows of a tile are short runs far apart, which no prefetcher follows: the line that is needed eight rows later is
// fetched now, below the tile as well, where the next tile mostly begins. A prefetch of no matter what address is safe.
template <int write, class E>
CODETTA_FN void fetch_ahead(const E* p, i64 row_stride) {
  __builtin_prefetch((const void*)((u64)p + (u64)row_stride * (8 * sizeof(E))), write);
}

//% store_past
// An aligned vector of at least 32 bytes; narrower ones go through the caches, and nobody asks for them here. Who calls
// epilogues orders such stores with what tells other threads of them: a fence after each tile would wait for memory
// while the next one could be multiplied.
template <class E, class V>
CODETTA_FN void store_past(E* p, V v) {
  typedef V M __attribute__((may_alias));
#if defined(__AVX__)
  if constexpr (sizeof(V) >= 32) {
    asm volatile("vmovntdq %1, %0" : "=m"(*(M*)p) : "v"(v));
    return;
  }
#endif
  *(M*)p = v;
}

//% TileFragment +end_TileFragment
struct TileFragment {
  EpilogueArgs args;
  Tile tile;
  i64 r, c, n;  // row and first column in the tile, valid lanes

  CODETTA_MEMBER TileFragment(const EpilogueArgs& a, const Tile& t) : args(a), tile(t), r(0), c(0), n(lanes) {}
  CODETTA_MEMBER void at_column(i64 column) {
    c = column;
    n = tile.cols - column < lanes ? tile.cols - column : lanes;
  }
  //% batch_index
  CODETTA_MEMBER i64v batch_index() const { return splat<i64v>(tile.batch); }
  //% row_index
  CODETTA_MEMBER i64v row_index() const { return splat<i64v>(tile.row + r); }
  //% col_index
  CODETTA_MEMBER i64v col_index() const { return iota<i64v>() + (tile.col + c); }
  //% valid_here
  CODETTA_MEMBER boolv valid_here() const { return valid_lanes(n); }
  //% accum
  template <class V>
  CODETTA_MEMBER V accum(i64 part) const {
    return load_all<V>((const element<V>*)tile.acc + (r * tile.acc_ld + c + part * tile.acc_part_stride));
  }
  //% accum_strided
  template <class V>
  CODETTA_MEMBER V accum_strided(i64 part) const {
    const i64 step = tile.acc_col_stride;
    const element<V>* row = (const element<V>*)tile.acc + r * tile.acc_ld;
    const element<V>* p = row + c * step + part * tile.acc_part_stride;
    if (step == 1) return load_all<V>(p);
    if constexpr (sizeof(V) == sizeof(f32v)) {
      if (step == 2 && tile.acc_part_stride == 1 && n == lanes) {
        const f32v x = load_all<f32v>(row + 2 * c), y = load_all<f32v>(row + 2 * c + lanes);
        return (V)deinterleave(x, y, part);
      }
    }
    return gather<V>(p, step, n);
  }
  //% ref
  template <class E>
  CODETTA_MEMBER Ref<E> ref(int k) const {
    const Operand& o = args.operands[k];
    E* p = (E*)o.data + (tile.batch * o.stride[0] + tile.row * o.stride[1] + tile.col * o.stride[2]);
    return {p, o.stride[1], o.stride[2], o.stride[0], false};
  }
  //% out
  // A store of class full with unit stride; `bytes`: what all such stores of the phase write for an element.
  template <class E>
  CODETTA_MEMBER Ref<E> out(int k, i64 bytes) const {
    constexpr u64 vector = lanes * sizeof(E);
    Ref<E> o = ref<E>(k);
    o.past = vector >= 32 && args.batches * args.rows * args.cols >= past_caches / bytes &&
             ((u64)o.p | (u64)o.row_stride * sizeof(E)) % vector == 0;
    return o;
  }
  //% load_full
  template <class V, class E>
  CODETTA_MEMBER V load_full(const Ref<E>& o) const {
    const E* p = o.p + (r * o.row_stride + c);
    fetch_ahead<0>(p, o.row_stride);
    return load<V>(p, n);
  }
  //% load_full_strided
  template <class V, class E>
  CODETTA_MEMBER V load_full_strided(const Ref<E>& o) const {
    return gather<V>(o.p + (r * o.row_stride + c * o.col_stride), o.col_stride, n);
  }
  //% load_row
  template <class V, class E>
  CODETTA_MEMBER V load_row(const Ref<E>& o) const {
    return load<V>(o.p + c, n);
  }
  //% load_row_strided
  template <class V, class E>
  CODETTA_MEMBER V load_row_strided(const Ref<E>& o) const {
    return gather<V>(o.p + c * o.col_stride, o.col_stride, n);
  }
  //% load_column
  template <class V, class E>
  CODETTA_MEMBER V load_column(const Ref<E>& o) const {
    return splat<V>(o.p[r * o.row_stride]);
  }
  //% load_scalar
  template <class V, class E>
  CODETTA_MEMBER V load_scalar(const Ref<E>& o) const {
    return splat<V>(*o.p);
  }
  //% load_indexed
  // `row` already includes the batch and row terms; column_offset(col) is linear with step `unit` inside blocks of
  // `block` columns.
  template <class V, i64 block, class E, class F>
  CODETTA_MEMBER V load_indexed(const E* row, i64 unit, F column_offset) const {
    const i64 col = tile.col + c;
    if (col % block + n <= block) {
      const E* p = row + column_offset(col);
      return unit == 1 ? load<V>(p, n) : gather<V>(p, unit, n);
    }
    E part[lanes] = {};
    for (i64 i = 0; i < n; ++i) part[i] = row[column_offset(col + i)];
    return load_all<V>(part);
  }
  //% gather_offset
  // Of an index into a dim of `size` elements: the nearest that is there.
  CODETTA_MEMBER i64v gather_offset(i64v index, i64 stride, i64 size) const {
    const i64v last = splat<i64v>(size - 1);
    index = index > last ? last : index;
    return (index < 0 ? i64v{} : index) * stride;
  }
  //% load_at
  template <class V, class E, class F>
  CODETTA_MEMBER V load_at(const E* row, F column_offset, i64v offset) const {
    const i64 col = tile.col + c;
    E part[lanes] = {};
    for (i64 i = 0; i < n; ++i) part[i] = row[column_offset(col + i) + offset[i]];
    return load_all<V>(part);
  }
  //% load_one_at
  // The same element in all lanes, whichever columns stand here: neither the pointer nor the offset depends on one.
  template <class V, class E>
  CODETTA_MEMBER V load_one_at(const E* row, i64v offset) const {
    return splat<V>(row[offset[0]]);
  }
  //% result_row
  template <class V>
  CODETTA_MEMBER V result_row(int k) const {
    return splat<V>(((const element<V>*)args.results[k])[tile.batch * args.rows + tile.row + r]);
  }
  //% result_column
  template <class V>
  CODETTA_MEMBER V result_column(int k) const {
    return load<V>((const element<V>*)args.results[k] + (tile.batch * args.cols + tile.col + c), n);
  }
  //% result_any_row
  template <class V>
  CODETTA_MEMBER V result_any_row(int k) const {
    return splat<V>(((const element<V>*)args.results[k])[tile.batch * args.rows + tile.row]);
  }
  //% result_any_column
  template <class V>
  CODETTA_MEMBER V result_any_column(int k) const {
    return splat<V>(((const element<V>*)args.results[k])[tile.batch * args.cols + tile.col]);
  }
  //% result_all
  template <class V>
  CODETTA_MEMBER V result_all(int k) const {
    return splat<V>(*(const element<V>*)args.results[k]);
  }
  //% result_item
  template <class V>
  CODETTA_MEMBER V result_item(int k) const {
    return splat<V>(((const element<V>*)args.results[k])[tile.batch]);
  }
  //% put_full
  template <class V, class E>
  CODETTA_MEMBER void put_full(const Ref<E>& o, V v) const {
    E* p = o.p + (r * o.row_stride + c);
    if (o.past && n == lanes) return store_past(p, v);
    fetch_ahead<1>(p, o.row_stride);
    store(p, v, n);
  }
  //% put_pair
  // put_full of bf16 for two vectors side by side: `first` holds the left one until the fragment stands at the right
  // one. One test for subnormal numbers (narrow_bf16), one conversion and one store of a whole line do for both.
  CODETTA_MEMBER void put_pair(const Ref<u16>& o, f32v v, f32v& first, bool right) const {
    if (!right) {
      first = v;
      return;
    }
    u16* p = o.p + (r * o.row_stride + c - lanes);
#if defined(__AVX512BF16__) && CODETTA_LANES == 16
    unsigned short left_subnormal, subnormal;
    asm("vfpclassps $0x20, %1, %0" : "=Yk"(left_subnormal) : "v"(first));
    asm("vfpclassps $0x20, %1, %0" : "=Yk"(subnormal) : "v"(v));
    if (__builtin_expect((unsigned short)(left_subnormal | subnormal) == 0, 1)) {
      i32v both;
      asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(first), "v"(v));
      if (o.past && (u64)p % sizeof both == 0) return store_past(p, both);
      fetch_ahead<1>(p, o.row_stride);
      return store_all(p, both);
    }
#endif
    store_all(p, narrow_bf16_bits(first));
    store_all(p + lanes, narrow_bf16_bits(v));
  }
  //% put_full_strided
  template <class V, class E>
  CODETTA_MEMBER void put_full_strided(const Ref<E>& o, V v) const {
    scatter(o.p + (r * o.row_stride + c * o.col_stride), o.col_stride, v, n);
  }
  //% put_row
  template <class V, class E>
  CODETTA_MEMBER void put_row(const Ref<E>& o, V v) const {
    store(o.p + c, v, n);
  }
  //% put_row_strided
  template <class V, class E>
  CODETTA_MEMBER void put_row_strided(const Ref<E>& o, V v) const {
    scatter(o.p + c * o.col_stride, o.col_stride, v, n);
  }
  //% put_one
  template <class V, class E>
  CODETTA_MEMBER void put_one(const Ref<E>& o, V v) const {
    o.p[r * o.row_stride] = v[0];
  }
  //% put_indexed
  template <class V, i64 block, class E, class F>
  CODETTA_MEMBER void put_indexed(E* row, i64 unit, F column_offset, V v) const {
    const i64 col = tile.col + c;
    if (col % block + n <= block) {
      E* p = row + column_offset(col);
      return unit == 1 ? store(p, v, n) : scatter(p, unit, v, n);
    }
    for (i64 i = 0; i < n; ++i) row[column_offset(col + i)] = v[i];
  }
  //% owns_row
  template <class E>
  CODETTA_MEMBER bool owns_row(const Ref<E>& o) const {
    return tile.tile_row == 0 && (tile.batch == 0 || o.batch_stride != 0);
  }
  //% owns_column
  template <class E>
  CODETTA_MEMBER bool owns_column(const Ref<E>& o) const {
    return tile.tile_col == 0 && (tile.batch == 0 || o.batch_stride != 0);
  }
  //% owns_scalar
  template <class E>
  CODETTA_MEMBER bool owns_scalar(const Ref<E>& o) const {
    return tile.tile_row == 0 && tile.tile_col == 0 && (tile.batch == 0 || o.batch_stride != 0);
  }
  //% reduce_row
  template <template <class> class R, class V>
  CODETTA_MEMBER void reduce_row(int k, const R<V>& q) const {
    q.put((element<V>*)args.partials[k] +
          R<V>::width * ((tile.batch * args.tile_cols + tile.tile_col) * args.rows + tile.row + r));
  }
  //% reduce_all
  template <template <class> class R, class V>
  CODETTA_MEMBER void reduce_all(int k, const R<V>& q) const {
    q.put((element<V>*)args.partials[k] +
          R<V>::width * ((tile.batch * args.tile_rows + tile.tile_row) * args.tile_cols + tile.tile_col));
  }
  //% column_partials
  template <class V, int width>
  CODETTA_MEMBER element<V>* column_partials(int k) const {
    return (element<V>*)args.partials[k] +
           width * ((tile.batch * args.tile_rows + tile.tile_row) * args.cols + tile.col);
  }
  //% reduce_column
  template <class R, class V>
  CODETTA_MEMBER void reduce_column(element<V>* partials, V v, boolv valid) const {
    R q;
    if (r != 0) q.take(partials + R::width * c, n);
    q.add(v, valid);
    q.give(partials + R::width * c, n);
  }
  //% end_TileFragment
};

//% .
}  // namespace codetta::cpu
