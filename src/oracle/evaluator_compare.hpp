// SPDX-License-Identifier: Apache-2.0
// Comparisons. Two sides may be one value, or one of several and the largest of these: then what is known of the value
// does not leave open how they compare, since kernels compute it alike wherever they do.
#pragma once

#include <algorithm>
#include <array>

#include "oracle/evaluator_layout.hpp"

namespace codetta::oracle {

// The largest (smallest) of the others of a group: the two best ends of it and whose the best one is.
template <class T>
struct Best {
  T first = -std::numeric_limits<T>::infinity(), second = first;
  size_t whose = SIZE_MAX;
  void take(T x, size_t place) {
    if (whose == SIZE_MAX || x > first) {
      second = first;
      first = x;
      whose = place;
    } else {
      second = std::max(second, x);
    }
  }
  [[nodiscard]] T but_for(size_t place) const { return place == whose ? second : first; }
};

// What two sides of a comparison have in common.
template <class T>
struct Evaluator<T>::Related {
  std::optional<ir::NodeId> value;    // both are views of it
  std::optional<ir::NodeId> extreme;  // or one is, and the other one of its reduction to the largest or smallest
  ir::NodeId reduced{0};              // what that reduces, a view of it, too
  size_t whole = 0;                   // the operand that is no reduction
};

template <class T>
ir::NodeId Evaluator<T>::origin(ir::NodeId id) const {
  while (types::op_info(graph_.node(id).op).rule == types::OpRule::layout && graph_.node(id).op != Op::join)
    id = graph_.operands(id)[0];
  return id;
}

template <class T>
typename Evaluator<T>::Related Evaluator<T>::related(ir::NodeId id) const {
  Related result;
  const auto operands = graph_.operands(id);
  const ir::NodeId origins[2] = {origin(operands[0]), origin(operands[1])};
  if (origins[0] == origins[1]) {
    result.value = origins[0];
    return result;
  }
  for (const size_t k : {size_t{0}, size_t{1}}) {
    const Op op = graph_.node(origins[k]).op;
    if (op != Op::reduce_max && op != Op::reduce_min) continue;
    const ir::NodeId reduced = graph_.operands(origins[k])[0];
    if (origin(reduced) != origins[1 - k] || !types::is_float(graph_.type(reduced).dtype)) continue;
    result.value = origins[1 - k];
    result.extreme = origins[k];
    result.reduced = reduced;
    result.whole = 1 - k;
    break;
  }
  return result;
}

template <class T>
std::optional<ir::NodeId> Evaluator<T>::also_read(ir::NodeId id) const {
  if (types::op_info(graph_.node(id).op).rule != types::OpRule::compare) return std::nullopt;
  const Related both = related(id);
  return both.extreme ? std::optional(both.reduced) : std::nullopt;
}

template <class T>
std::vector<int64_t> Evaluator<T>::places(ir::NodeId id, ir::NodeId from) const {
  std::vector<ir::NodeId> views;
  for (; id != from; id = graph_.operands(id)[0]) views.push_back(id);
  Block<T> at;
  at.dtype = DType::i64;
  at.axes = axes_of(problem_, from, picks_);
  at.ints.resize(static_cast<size_t>(at.axes.count()));
  for (size_t i = 0; i < at.ints.size(); ++i) at.ints[i] = Int::point(static_cast<int64_t>(i));
  for (; !views.empty(); views.pop_back()) {
    Block<T> next;
    next.dtype = DType::i64;
    next.axes = axes_of(problem_, views.back(), picks_);
    next.ints.resize(static_cast<size_t>(next.axes.count()));
    if (!next.ints.empty())
      layout(
          views.back(), [&](size_t, Block<T>&) -> const Block<T>& { return at; }, next);
    at = std::move(next);
  }
  std::vector<int64_t> result;
  result.reserve(at.ints.size());
  for (const Int& place : at.ints) result.push_back(place.lo);
  return result;
}

template <class T>
void Evaluator<T>::compare(ir::NodeId id, Block<T>& out) {
  const Op op = graph_.node(id).op;
  const DType dtype = ir::operand_dtype(graph_, id);
  const auto operands = graph_.operands(id);
  Block<T> rooms[2];
  const Block<T>& a = as(operands[0], dtype, rooms[0]);
  const Block<T>& b = as(operands[1], dtype, rooms[1]);
  const std::array<const Block<T>*, 2> sides{&a, &b};
  const Related both = related(id);
  // By element of either side: which of the value, or of the reduction's results, it is.
  std::array<std::vector<int64_t>, 2> place;
  if (both.value) {
    for (const size_t k : {size_t{0}, size_t{1}})
      place[k] = places(operands[k], both.extreme && k != both.whole ? *both.extreme : *both.value);
  }
  // By element of the value: which one of those that are reduced it is, by which the group.
  std::vector<int64_t> reduced_at, group_of;
  std::vector<Best<T>> low, high;
  const bool least = both.extreme && graph_.node(*both.extreme).op == Op::reduce_min;
  if (both.extreme) {
    Block<T> room;
    const Block<T>& reduced = as(both.reduced, dtype, room);
    const Axes groups = axes_of(problem_, *both.extreme, picks_), all = axes_of(problem_, *both.value, picks_);
    low.resize(static_cast<size_t>(groups.count()));
    high.resize(low.size());
    Sizes strides = broadcast_strides(groups.locals(), reduced.axes.rank());
    for (const int32_t dim : graph_.attr_as<ir::ReduceAttr>(*both.extreme).dims) strides[static_cast<size_t>(dim)] = 0;
    for_each_row(reduced.axes.locals(), [&](int64_t, const Sizes& at) {
      int64_t base = 0;
      for (size_t d = 0; d + 1 < at.size(); ++d) base += at[d] * strides[d];
      const int64_t inner = at.empty() ? 1 : reduced.axes.local(at.size() - 1);
      for (int64_t j = 0; j < inner; ++j) group_of.push_back(base + (at.empty() ? 0 : j * strides.back()));
    });
    for (size_t i = 0; i < group_of.size(); ++i) {
      const Real<T>& x = reduced.reals[i];
      const auto group = static_cast<size_t>(group_of[i]);
      low[group].take(least ? -x.hi : x.lo, i);
      high[group].take(least ? -x.lo : x.hi, i);
    }
    reduced_at.assign(static_cast<size_t>(all.count()), -1);
    const std::vector<int64_t> from = places(both.reduced, *both.value);
    for (size_t i = 0; i < from.size(); ++i) reduced_at[static_cast<size_t>(from[i])] = static_cast<int64_t>(i);
  }
  // What remains of the outcomes that both sides alone allow.
  const auto narrowed = [&](Outcomes outcomes, bool is_number, const std::array<size_t, 2>& at) {
    if (!both.value || !is_number) return outcomes;
    if (!both.extreme) {
      if (place[0][at[0]] != place[1][at[1]]) return outcomes;
      return Outcomes{false, true, false, outcomes.unordered};
    }
    const int64_t member = reduced_at[static_cast<size_t>(place[both.whole][at[both.whole]])];
    const int64_t group = place[1 - both.whole][at[1 - both.whole]];
    if (member < 0 || group_of[static_cast<size_t>(member)] != group) return outcomes;
    const Real<T>& x = sides[both.whole]->reals[at[both.whole]];
    const auto of = static_cast<size_t>(group), own = static_cast<size_t>(member);
    // Of the smallest, all with the other sign.
    const bool behind = high[of].but_for(own) > (least ? -x.hi : x.lo);
    const bool equal = low[of].but_for(own) <= (least ? -x.lo : x.hi);
    const bool less = (both.whole == 0) != least;
    return Outcomes{behind && less, equal, behind && !less, outcomes.unordered};
  };
  each_element<2>(out.axes.locals(), {a.axes.locals(), b.axes.locals()}, [&](size_t i, const auto& at) {
    if (types::is_float(dtype)) {
      const Real<T>&x = a.reals[at[0]], &y = b.reals[at[1]];
      out.ints[i] = compared(op, narrowed(compare_reals(x, y), !x.is_nan() && !y.is_nan(), at), x.flags | y.flags);
    } else {
      const Int &x = a.ints[at[0]], &y = b.ints[at[1]];
      out.ints[i] = compared(op, narrowed(compare_ints(x, y, dtype), true, at), x.flags | y.flags);
    }
  });
}

}  // namespace codetta::oracle
