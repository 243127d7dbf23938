// SPDX-License-Identifier: Apache-2.0
// Values that are moved: permute, reshape, split, join, slice, broadcast.
#pragma once

#include "oracle/evaluator_elementwise.hpp"

namespace codetta::oracle {

// Gathers by a list of source positions.
template <class T>
void gather(const Block<T>& in, const std::vector<size_t>& from, const std::vector<size_t>& to, Block<T>& out) {
  for (size_t i = 0; i < from.size(); ++i) {
    if (in.real()) {
      out.reals[to[i]] = in.reals[from[i]];
    } else {
      out.ints[to[i]] = in.ints[from[i]];
    }
  }
}

// out[at] = in[at], where in broadcasts; along `dim` (of a slice) in[start + at * step].
template <class T>
void read_by_result(const Block<T>& in, size_t dim, int64_t start, int64_t step, Block<T>& out) {
  const Sizes space = out.axes.locals();
  Sizes strides = broadcast_strides(in.axes.locals(), space.size());
  int64_t base = 0;
  if (dim < space.size()) base = start * strides[dim], strides[dim] *= step;
  for_each_row(space, [&](int64_t position, const Sizes& at) {
    int64_t row = base;
    for (size_t d = 0; d + 1 < space.size(); ++d) row += at[d] * strides[d];
    const int64_t inner = space.empty() ? 1 : space.back();
    for (int64_t j = 0; j < inner; ++j) {
      const auto from = static_cast<size_t>(row + (space.empty() ? 0 : j * strides.back()));
      const auto to = static_cast<size_t>(position + j);
      if (out.real()) {
        out.reals[to] = in.reals[from];
      } else {
        out.ints[to] = in.ints[from];
      }
    }
  });
}

template <class T>
void Evaluator<T>::layout(ir::NodeId id, Block<T>& out) {
  const auto operands = graph_.operands(id);
  layout(
      id, [&](size_t k, Block<T>& room) -> const Block<T>& { return as(operands[k], out.dtype, room); }, out);
}

template <class T>
void Evaluator<T>::layout(ir::NodeId id, const std::function<const Block<T>&(size_t operand, Block<T>& room)>& operand,
                          Block<T>& out) const {
  const Op op = graph_.node(id).op;
  if (op == Op::slice || op == Op::broadcast) {
    Block<T> room;
    const Block<T>& in = operand(0, room);
    if (op == Op::broadcast) return read_by_result(in, out.axes.rank(), 0, 1, out);
    const auto& attr = graph_.attr_as<ir::SliceAttr>(id);
    const int64_t start = attr.start.evaluate(problem_.symbols.values).value_or(0);
    return read_by_result(in, static_cast<size_t>(attr.dim), start, attr.step, out);
  }
  const size_t operands = graph_.operands(id).size();
  const Sizes space = out.axes.locals();
  const Sizes strides = [&] {
    Sizes s(space.size());
    int64_t step = 1;
    for (size_t d = space.size(); d-- > 0; step *= space[d]) s[d] = step;
    return s;
  }();
  int64_t joined = 0;  // sizes of the parts before
  for (size_t k = 0; k < operands; ++k) {
    Block<T> room;
    const Block<T>& in = operand(k, room);
    if (op == Op::reshape) {
      out.reals = in.reals;
      out.ints = in.ints;
      out.given = in.given;
      return;
    }
    // Where each operand element goes: a base, and a stride by operand dim; an offset of elements that are not taken is
    // -1.
    const Sizes sizes = in.axes.locals();
    Sizes step(sizes.size(), 0);
    int64_t base = 0, first = 0, count = -1;
    size_t along = 0;
    if (op == Op::permute) {
      const auto& order = graph_.attr_as<ir::PermuteAttr>(id).order;
      for (size_t i = 0; i < order.size(); ++i) step[static_cast<size_t>(order[i])] = strides[i];
    } else {
      step = strides;
      if (op == Op::split) {
        const auto& attr = graph_.attr_as<ir::SplitAttr>(id);
        along = static_cast<size_t>(attr.dim);
        count = sizes[along] / attr.ways;
        first = count * attr.part;
        base = -first * strides[along];
      } else {
        const auto& attr = graph_.attr_as<ir::JoinAttr>(id);
        along = static_cast<size_t>(attr.dim);
        const auto part = static_cast<int64_t>(k), parts = static_cast<int64_t>(operands);
        base = (attr.interleave ? part : joined) * strides[along];
        joined += sizes[along];
        if (attr.interleave) step[along] *= parts;
      }
    }
    std::vector<size_t> from, to;
    int64_t i = 0;
    for_each_row(sizes, [&](int64_t, const Sizes& at) {
      int64_t row = base;
      for (size_t d = 0; d + 1 < sizes.size(); ++d) row += at[d] * step[d];
      const int64_t inner = sizes.empty() ? 1 : sizes.back();
      for (int64_t j = 0; j < inner; ++j, ++i) {
        const int64_t place = along + 1 == sizes.size() ? j : sizes.empty() ? 0 : at[along];
        if (count >= 0 && (place < first || place >= first + count)) continue;
        from.push_back(static_cast<size_t>(i));
        to.push_back(static_cast<size_t>(row + (sizes.empty() ? 0 : j * step.back())));
      }
    });
    gather(in, from, to, out);
  }
}

}  // namespace codetta::oracle
