// SPDX-License-Identifier: Apache-2.0
// Reading and writing by indices: take, gather, index_put, scatter. Indices are integers, as a rule single ones; where
// an index is only known within bounds, everything that it may reach is admissible.
#pragma once

#include "oracle/evaluator_reduce.hpp"
#include "oracle/program_errors.hpp"

namespace codetta::oracle {

template <class T>
void widen(Block<T>& block, size_t at, const Block<T>& other, size_t from) {
  if (block.real()) {
    block.reals[at] = hull(block.reals[at], other.reals[from], ambiguous);
  } else {
    Int& x = block.ints[at];
    const Int& y = other.ints[from];
    const bool lower = widened(y.lo, block.dtype) < widened(x.lo, block.dtype);
    const bool higher = widened(y.hi, block.dtype) > widened(x.hi, block.dtype);
    x = {lower ? y.lo : x.lo, higher ? y.hi : x.hi, static_cast<uint8_t>(x.flags | y.flags | ambiguous)};
  }
}

template <class T>
void assign(Block<T>& block, size_t at, const Block<T>& other, size_t from) {
  if (block.real()) {
    block.reals[at] = other.reals[from];
  } else {
    block.ints[at] = other.ints[from];
  }
}

inline Sizes row_major(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0; step *= sizes[d]) strides[d] = step;
  return strides;
}

// The indices that element `position` of the index operand may be; none, with a failure, when it is out of range. Where
// it is only known within bounds it is taken as one that is in range: a run tells of the others itself.
template <class T>
std::vector<int64_t> Evaluator<T>::index_range(ir::NodeId id, size_t position, int64_t size) {
  const Block<T>& indices = blocks_[graph_.operands(id)[1].index()];
  const Int& index = indices.ints[position];
  const Wide lo = widened(index.lo, indices.dtype), hi = widened(index.hi, indices.dtype);
  const auto clamped = [&](Wide x) { return static_cast<int64_t>(x < 0 ? Wide(0) : x >= size ? Wide(size) - 1 : x); };
  if (size == 0 || ((hi < 0 || lo >= size) && !problem_.options.clamp_indices)) {
    if (!failure_) {
      Sizes at(indices.axes.rank());
      auto rest = static_cast<int64_t>(position);
      for (size_t d = at.size(); d-- > 0; rest /= indices.axes.full[d]) at[d] = rest % indices.axes.full[d];
      failure_ = index_error(graph_, id, lo < 0 ? lo : hi, size, at);
    }
    return {};
  }
  std::vector<int64_t> range;
  for (int64_t i = clamped(lo); i <= clamped(hi); ++i) range.push_back(i);
  return range;
}

// The axes of the space that is walked: for take and index_put x with the dims of the indices in the place of `along`,
// for gather and scatter that of the indices. Where each of its points reads an index, and where in x it lies but for
// `along`.
struct IndexedWalk {
  Sizes space, index_strides, x_strides;
};
inline IndexedWalk indexed_walk(Op op, const Sizes& x, const Sizes& indices, size_t along) {
  IndexedWalk walk;
  const Sizes x_strides = row_major(x), index_strides = row_major(indices);
  if (op == Op::gather || op == Op::scatter) {
    walk = {indices, index_strides, x_strides};
    walk.x_strides[along] = 0;
    return walk;
  }
  const auto append = [&](int64_t size, int64_t index_stride, int64_t x_stride) {
    walk.space.push_back(size);
    walk.index_strides.push_back(index_stride);
    walk.x_strides.push_back(x_stride);
  };
  for (size_t d = 0; d < along; ++d) append(x[d], 0, x_strides[d]);
  for (size_t d = 0; d < indices.size(); ++d) append(indices[d], index_strides[d], 0);
  for (size_t d = along + 1; d < x.size(); ++d) append(x[d], 0, x_strides[d]);
  return walk;
}

template <class T>
void Evaluator<T>::indexed(ir::NodeId id, Block<T>& out) {
  const Op op = graph_.node(id).op;
  const std::span<const ir::NodeId> operands = graph_.operands(id);
  const bool takes = op == Op::take || op == Op::gather;
  const ir::Attr& attr = graph_.attr(id);
  const auto* put = std::get_if<ir::IndexPutAttr>(&attr);
  const auto* scatter = std::get_if<ir::ScatterAttr>(&attr);
  const auto along = static_cast<size_t>(takes            ? graph_.attr_as<ir::TakeAttr>(id).dim
                                         : put != nullptr ? put->dim
                                                          : scatter->dim);
  Block<T> room, value_room;
  const Block<T>& x = as(operands[0], out.dtype, room);
  const Sizes sizes = x.axes.locals();
  const IndexedWalk walk = indexed_walk(op, sizes, blocks_[operands[1].index()].axes.locals(), along);
  const int64_t stride = row_major(sizes)[along];
  const Block<T>* values = nullptr;
  auto reduce = ir::ScatterReduce::None;
  std::vector<Sum<T>> sums;
  if (!takes) {
    values = &as(operands[2], out.dtype, value_room);
    out.reals = x.reals;
    out.ints = x.ints;
    reduce = scatter != nullptr ? scatter->reduce : put->accumulate ? ir::ScatterReduce::Sum : reduce;
    if (reduce == ir::ScatterReduce::Sum && out.real()) {
      sums.resize(out.reals.size());
      for (size_t i = 0; i < sums.size(); ++i) sums[i].take(out.reals[i]);
    }
  }
  const auto combine = [&](size_t place, size_t from) {  // a value that certainly goes there
    if (reduce == ir::ScatterReduce::None) return assign(out, place, *values, from);
    if (!sums.empty()) return sums[place].take(values->reals[from]);
    if (out.real()) {
      Real<T>& r = out.reals[place];
      r = reduce == ir::ScatterReduce::Max ? maximum(r, values->reals[from]) : minimum(r, values->reals[from]);
      return;
    }
    const Op arithmetic = reduce == ir::ScatterReduce::Sum   ? Op::add
                          : reduce == ir::ScatterReduce::Max ? Op::maximum
                                                             : Op::minimum;
    const Int both[] = {out.ints[place], values->ints[from]};
    out.ints[place] = int_arithmetic(arithmetic, both, out.dtype);
  };
  const auto perhaps = [&](size_t place, size_t from) {  // a value that may go there
    if (!sums.empty()) {
      const Real<T>& v = values->reals[from];
      sums[place].take(hull(Real<T>::point(0), v, ambiguous));
      return;
    }
    Block<T> before;
    before.dtype = out.dtype;
    if (out.real()) before.reals = {out.reals[place]};
    if (!out.real()) before.ints = {out.ints[place]};
    combine(place, from);
    widen(out, place, before, 0);
  };
  const size_t rank = walk.space.size();
  for_each_row(walk.space, [&](int64_t position, const Sizes& at) {
    int64_t index_base = 0, x_base = 0;
    for (size_t d = 0; d + 1 < rank; ++d)
      index_base += at[d] * walk.index_strides[d], x_base += at[d] * walk.x_strides[d];
    const int64_t inner = rank == 0 ? 1 : walk.space.back();
    for (int64_t j = 0; j < inner && !failure_; ++j) {
      const auto i = static_cast<size_t>(position + j);
      const int64_t index_at = index_base + (rank == 0 ? 0 : j * walk.index_strides.back());
      const int64_t x_at = x_base + (rank == 0 ? 0 : j * walk.x_strides.back());
      const std::vector<int64_t> range = index_range(id, static_cast<size_t>(index_at), sizes[along]);
      for (size_t r = 0; r < range.size(); ++r) {
        const auto place = static_cast<size_t>(x_at + range[r] * stride);
        if (!takes) {
          if (range.size() == 1) combine(place, i);
          if (range.size() != 1) perhaps(place, i);
        } else if (r == 0) {
          assign(out, i, x, place);
        } else {
          widen(out, i, x, place);
        }
      }
    }
  });
  for (size_t i = 0; i < sums.size(); ++i) {  // in f32 or f64, in any order, and rounded once
    if (sums[i].terms == 1) continue;
    const Real<T> sum = sums[i].result(types::compute_dtype(out.dtype), 1);
    out.reals[i] = sum.is_nan() ? sum : Real<T>{stored(sum.lo, out.dtype), stored(sum.hi, out.dtype), sum.flags};
  }
}

}  // namespace codetta::oracle
