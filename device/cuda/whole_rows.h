// SPDX-License-Identifier: Apache-2.0
// Pieces that hold whole rows (Config::whole_rows): all phases of an epilogue run over a piece, one behind the other,
// and what row reductions give stays in the group's scratch. The threads of a row lie in one warp and keep their rows
// from phase to phase, so that warps meet between phases, and wait for no other.
#pragma once

#include "device/gpu/phase.h"

namespace codetta::gpu {

// `rows` of a piece, `bytes` of a result.
template <int rows, int bytes, bool whole, int across, class P, bool asks = false>
struct RowFragment : TileFragment<whole, across, P, asks> {
  using Base = TileFragment<whole, across, P, asks>;
  CODETTA_MEMBER RowFragment(const P& p, const Tile& t, bool in_vectors = whole) : Base(p, t, in_vectors) {}

  template <class V>
  CODETTA_MEMBER element<V>& result(int k, i32 row) const {
    static_assert(sizeof(element<V>) <= bytes);
    return *(element<V>*)((char*)this->tile.scratch + (k * rows + row) * bytes);
  }
  template <class V>
  CODETTA_MEMBER V result_row(int k) const {
    return splat<V>(result<V>(k, this->r));
  }
  // The same of all rows; those of other warps may not be there yet.
  template <class V>
  CODETTA_MEMBER V result_any_row(int k) const {
    const i32 own = this->first_row();
    return splat<V>(result<V>(k, own < rows ? own : 0));
  }
  // As reduce_rows(), and ends the reduction, of `parts` values a column.
  template <bool together, class V, bool mean, int parts, class H, class S, int count>
  CODETTA_MEMBER void end_rows(int k, const H (&held)[count], S H::*q, i32 first) const {
    S s;
    const int row = this->template fold_rows<together>(held, q, s);
    if (this->tile.thread % across < count)
      result<V>(k, first + row * this->row_step()) = finished<element<V>, mean>(s, (i64)this->tile.cols * parts);
  }
};

}  // namespace codetta::gpu
