// SPDX-License-Identifier: Apache-2.0
// The kernels behind the product: reductions from partials to results, and phases over the root space. They lie in
// dispatches of their own, in order, which is what makes memory that other threadgroups wrote visible: Metal's atomics
// are relaxed, so no threadgroup waits for another within a dispatch.
#pragma once

#include "device/metal/fragment.h"

namespace codetta::gpu {

enum class Axis { Row, Column, All, Item };

constexpr int combine_threads = 256;
CODETTA_FN i64 reduced_elements(constant Problem& p, Axis axis) {
  return axis == Axis::Row      ? p.cols
         : axis == Axis::Column ? p.rows
         : axis == Axis::Item   ? p.rows * p.cols
                                : p.batches * p.rows * p.cols;
}

// A threadgroup of 256 threads finishes 32 results (Axis::All, Axis::Item: one), several threads a result; the order is
// fixed. `out`: the operand that takes the results as they are, or -1. `shared`: 256 x width words of 64 bits.
template <Axis axis, template <class> class State, bool mean, int parts, class T, int out, class P>
CODETTA_FN void combine(constant P& params, int k, threadgroup char* memory, Place place) {
  constexpr int results = axis == Axis::All || axis == Axis::Item ? 1 : 32, sharing = combine_threads / results,
                width = State<T>::width;
  constant Problem& p = params.problem;
  threadgroup u64* const shared = (threadgroup u64*)memory;
  const i64 extent = axis == Axis::Row ? p.rows : axis == Axis::Column ? p.cols : 1;
  const i64 count = axis == Axis::Row      ? p.pieces_n
                    : axis == Axis::Column ? p.pieces_m
                    : axis == Axis::Item   ? p.pieces_m * p.pieces_n
                                           : p.batches * p.pieces_m * p.pieces_n;
  const i64 all = axis == Axis::All ? 1 : p.batches * extent;
  const i32 id = (i32)place.id;
  const i64 group = place.group.x + (i64)place.groups.x * place.group.z;  // what one dim does not hold lies in another
  const i64 result = group * results + id % results;
  if (group * results >= all) return;
  Folding<State, T> s;
  if (result < all) {
    const device T* from =
        (const device T*)params.reduction[k].partials + (result / extent * count * extent + result % extent) * width;
    for (i64 i = id / results; i < count; i += sharing) s.take(from, i * extent);
  }
  for (int half_of = sharing; half_of >= 1; half_of /= 2) {
    if (half_of != sharing && id < half_of * results) {
      Folding<State, T> next;
      next.get(shared + (id + half_of * results) * width);
      s.merge(next);
    }
    group_barrier();
    s.put(shared + id * width);
    group_barrier();
  }
  if (id >= results || result >= all) return;
  const T value = s.template result<mean>(reduced_elements(p, axis) * parts);
  ((device T*)params.reduction[k].results)[result] = value;
  if constexpr (out >= 0) {
    constant Operand& o = params.operand[out];
    const i64 item = axis == Axis::Item ? result : result / extent, at = axis == Axis::Item ? 0 : result % extent;
    const i64 stride = axis == Axis::Row ? o.stride[1] : axis == Axis::Column ? o.stride[2] : 0;
    if (item == 0 || o.stride[0] != 0) ((device T*)o.data)[item * o.stride[0] + at * stride] = value;
  }
}

// Where the accumulators of later phases lie: kept ones, or the slices of K, which are laid out alike, one behind the
// other.
template <class Config, bool slices, class T>
CODETTA_FN void to_accumulators(constant Problem& p, thread T& t) {
  using A = typename Config::Accumulator;
  t.acc = (const device A*)(slices ? p.slices : p.accumulators) +
          ((t.batch * Config::ways * p.rows + t.row) * p.cols + t.col);
  t.acc_ld = p.cols, t.acc_part_stride = p.rows * p.cols;
}

// The slices of K of a piece, summed in slice order into the first.
template <class Config, class T>
CODETTA_FN void sum_slices(constant Problem& p, const thread T& t) {
  using A = typename Config::Accumulator;
  const i64 slice = p.batches * Config::ways * p.rows * p.cols;
  device A* const first = (device A*)p.slices + ((t.batch * Config::ways * p.rows + t.row) * p.cols + t.col);
  for (i32 i = t.id; i < t.rows * t.cols; i += t.count) {
    for (int part = 0; part < Config::ways; ++part) {
      device A* const at = first + (part * t.acc_part_stride + i / t.cols * t.acc_ld + i % t.cols);
      A sum = *at;
      for (i64 s = 1; s < p.k_split; ++s) sum = one::add(sum, at[s * slice]);
      *at = sum;
    }
  }
  device_barrier();
}

// A finished piece of one slice of K, left in the workspace.
template <class Config, class T>
CODETTA_FN void store_slice(constant Problem& p, const thread T& t, i64 slice) {
  using A = typename Config::Accumulator;
  device A* const first =
      (device A*)p.slices + (((slice * p.batches + t.batch) * Config::ways * p.rows + t.row) * p.cols + t.col);
  for (i32 i = t.id; i < t.rows * t.cols; i += t.count) {
    const i32 r = i / t.cols, c = i % t.cols;
    for (int part = 0; part < Config::ways; ++part)
      first[(part * p.rows + r) * p.cols + c] = t.acc[part * t.acc_part_stride + r * t.acc_ld + c];
  }
}

// `Body::run(params, tile)` for each piece. What lies beyond the grid is walked by loops. `slices`: the phase of a
// product whose K is split, which has left its slices in the workspace.
template <class Config, class Body, bool slices, class P>
CODETTA_FN void run_phase(constant P& params, threadgroup char* scratch, Place place, int threads) {
  constant Problem& p = params.problem;
  // Over an empty root space one piece without elements is walked: what is stored once for all of them is still owed.
  const i64 batches = at_least_1(p.batches), pieces_m = at_least_1(p.pieces_m), pieces_n = at_least_1(p.pieces_n);
  for (i64 batch = place.group.z; batch < batches; batch += place.groups.z) {
    for (i64 m = place.group.y; m < pieces_m; m += place.groups.y) {
      for (i64 n = place.group.x; n < pieces_n; n += place.groups.x) {
        Tile<const device typename Config::Accumulator*> t;
        t.batch = batch, t.row = m * Config::piece_rows, t.col = n * Config::piece_cols;
        t.rows = (i32)(p.rows - t.row < Config::piece_rows ? p.rows - t.row : Config::piece_rows);
        t.cols = (i32)(p.cols - t.col < Config::piece_cols ? p.cols - t.col : Config::piece_cols);
        if (p.batches == 0) t.rows = t.cols = 0;
        t.piece_m = m, t.piece_n = n;
        t.id = (i32)place.id, t.count = threads, t.scratch = scratch;
        to_accumulators<Config, slices>(p, t);
        if constexpr (slices) sum_slices<Config>(p, t);
        Body::run(params, t);
        group_barrier();
      }
    }
  }
}

}  // namespace codetta::gpu
