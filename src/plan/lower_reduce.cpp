// SPDX-License-Identifier: Apache-2.0
// Reductions: which root axes they cover, and composite ones in terms of sum, max, min and logsumexp.
#include <algorithm>

#include <fmt/format.h>

#include "plan/lowering.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::Axis;
using package::ReduceAxis;
using package::ReduceKind;
using types::Op;

namespace {

struct AxesUsed {
  bool batch = false, row = false, col = false;
  void add(const Index& index) {
    batch |= index.uses(Axis::Batch);
    row |= index.uses(Axis::Row);
    col |= index.uses(Axis::Col);
  }
};

ReduceKind kind_of(Op op) {
  switch (op) {
    case Op::reduce_max:
    case Op::reduce_amax:
      return ReduceKind::Max;
    case Op::reduce_min:
      return ReduceKind::Min;
    case Op::reduce_logsumexp:
      return ReduceKind::LogSumExp;
    default:
      return ReduceKind::Sum;
  }
}

}  // namespace

// Does a value of one element, which this node is, become one with no more than a dim? That has no index of the row or
// column to keep. A program may have thousands of such reductions in a chain, so what is known is kept: a node takes
// the answer of the users that it reaches, all of which come behind it.
bool Lowering::loses_index(NodeId node) const {
  std::vector<bool>& loses = scope_.loses_index != nullptr ? *scope_.loses_index : loses_index_;
  if (loses.empty()) {
    const ir::Uses uses = ir::uses(graph_);
    loses.resize(uses.users.size());
    for (size_t at = loses.size(); at-- > 0;) {
      const auto& shape = graph_.type(NodeId(static_cast<uint32_t>(at))).shape;
      if (std::any_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim != Dim::constant(1); })) continue;
      const auto& users = uses.users[at];
      loses[at] = shape.size() <= 1 ||
                  std::any_of(users.begin(), users.end(), [&](NodeId user) { return loses[user.index()]; });
    }
  }
  return loses[node.index()];
}

// Which axes a reduction covers, of an operand whose elements lie at these places.
struct Lowering::Reduced {
  std::optional<ReduceAxis> axis;
  AxesUsed reduced;
  bool nothing = false;    // dims of size 1 only
  bool some_cols = false;  // columns are reduced, and others kept
};

Lowering::Reduced Lowering::reduced_axes(NodeId node, const std::vector<Location>& places) const {
  const auto& dims = graph_.attr_as<ir::ReduceAttr>(node).dims;
  Reduced result;
  AxesUsed kept;
  AxesUsed& reduced = result.reduced;
  for (const Location& at : places) {
    for (size_t d = 0; d < at.size(); ++d) {
      const bool is_reduced = std::find(dims.begin(), dims.end(), static_cast<int32_t>(d)) != dims.end();
      (is_reduced ? reduced : kept).add(at[d]);
    }
  }
  const bool one_batch = batches_ == 1;
  auto& axis = result.axis;
  if (reduced.row && reduced.col && !kept.row && !kept.col && (reduced.batch || one_batch)) axis = ReduceAxis::All;
  // Over the items of a batch of single rows or columns: an index of one value leaves no trace.
  const bool rows = !kept.row && (reduced.row || rows_ == 1), cols = !kept.col && (reduced.col || cols_ == 1);
  if (reduced.batch && !kept.batch && rows && cols) axis = ReduceAxis::All;
  if (reduced.row && reduced.col && !kept.row && !kept.col && !reduced.batch && !one_batch) axis = ReduceAxis::Item;
  if (reduced.col && !reduced.row && !kept.col && !reduced.batch) axis = ReduceAxis::Row;
  if (reduced.row && !reduced.col && !kept.row && !reduced.batch) axis = ReduceAxis::Column;
  // Of the one row or column that there is, it is the reduction of everything.
  const bool of_one = (axis == ReduceAxis::Row && rows_ == 1) || (axis == ReduceAxis::Column && cols_ == 1);
  if (one_batch && of_one && loses_index(node)) axis = ReduceAxis::All;
  result.nothing = !reduced.row && !reduced.col && !reduced.batch;
  // Of no elements several results: each needs a place of its own, which a reshape may not have kept.
  const auto& from = graph_.type(graph_.operands(node)[0]).shape;
  const auto& to = graph_.type(node).shape;
  const auto is_empty = [](const std::vector<Dim>& shape) {
    return std::find(shape.begin(), shape.end(), Dim::constant(0)) != shape.end();
  };
  for (size_t d = 0; d < from.size() && is_empty(from) && !is_empty(to); ++d) {
    const bool kept_dim = std::find(dims.begin(), dims.end(), static_cast<int32_t>(d)) == dims.end();
    if (!kept_dim || from[d] == Dim::constant(1) || !places[0][d].terms.empty()) continue;
    axis.reset();
    result.nothing = false;
  }
  result.some_cols = reduced.col && kept.col;
  return result;
}

diag::ErrorBuilder Lowering::no_axis(NodeId node, const Reduced& found) const {
  return reject(diag::Code::reduction_axes, node, "this reduction is over neither rows, columns nor everything")
      .reason(fmt::format("it reduces {}{}{} of the {}", found.reduced.batch ? "batch items, " : "",
                          found.reduced.row ? "rows, " : "", found.reduced.col ? "some columns" : "no columns",
                          matmul_ ? "accumulator" : "kernel's space"))
      .help(found.some_cols
                ? "reduce over all columns of a row; for parts of them, such as heads, make the parts a batch of "
                  "products "
                  "(B as [heads, K, columns of a head]) and reduce each one's rows"
                : "reduce over dim -1 (each row), dim -2 (each column), dims (-2, -1) (each item) or all dims");
}

Result<void> Lowering::check_reduced(NodeId node, const Location& from) const {
  const Reduced found = reduced_axes(node, {from});
  if (found.nothing || (found.axis && covers(node, from))) return {};
  return no_axis(node, found);
}

// The element-wise part of composite reductions.
ValueRef Lowering::prepared(NodeId node, ValueRef value) {
  const Op op = graph_.node(node).op;
  const DType type = register_type(node);
  value = recorder_.convert(value, type);
  if (op == Op::reduce_amax) return recorder_.op(Op::abs, type, {value}, type);
  if (op == Op::reduce_sum_of_squares) return recorder_.op(Op::mul, type, {value, value}, type);
  return value;
}

// 0 over nothing, and for a magnitude that wraps.
ValueRef Lowering::at_least_zero(ValueRef value, DType type) {
  return recorder_.op(Op::maximum, type, {value, recorder_.literal(type, 0)}, type);
}

// Of an operand that lies at `from`; the result lies there without the reduced dims.
Result<ValueRef> Lowering::reduce_here(NodeId node, const Location& from, ValueRef value) {
  const Op op = graph_.node(node).op;
  const DType type = register_type(node);
  const Reduced found = reduced_axes(node, {from});
  value = prepared(node, value);
  if (found.nothing) {
    const bool may_wrap = op == Op::reduce_amax && types::is_integer(type) && types::is_signed(type);
    return may_wrap ? at_least_zero(value, type) : value;
  }
  if (!found.axis) return no_axis(node, found);
  package::Reduction reduction;
  reduction.kind = kind_of(op);
  reduction.axis = *found.axis;
  reduction.mean = op == Op::reduce_mean;
  reduction.type = type;
  value = recorder_.reduce(reduction, value);
  return op == Op::reduce_amax ? at_least_zero(value, type) : value;
}

// Of sum(exp(x - max(x))) over the same dims, all of one type: x.
std::optional<NodeId> Lowering::exponents_of(NodeId sum) const {
  const auto operand = [&](NodeId node, Op op, size_t which = 0) -> std::optional<NodeId> {
    if (graph_.node(node).op != op) return std::nullopt;
    return graph_.operands(node)[which];
  };
  const auto e = operand(sum, Op::reduce_sum);
  const auto shifted = e ? operand(*e, Op::exp) : std::nullopt;
  const auto x = shifted ? operand(*shifted, Op::sub) : std::nullopt;
  const auto largest = shifted ? operand(*shifted, Op::sub, 1) : std::nullopt;
  if (!x || !largest || operand(*largest, Op::reduce_max) != x) return std::nullopt;
  const auto& over = graph_.attr_as<ir::ReduceAttr>(sum);
  const auto& by = graph_.attr_as<ir::ReduceAttr>(*largest);
  const DType type = register_type(sum);
  const bool alike = over.dims == by.dims && graph_.type(*x).shape == graph_.type(*e).shape;
  const bool floats = types::is_float(type) && register_type(*x) == type && register_type(*e) == type &&
                      register_type(*shifted) == type && register_type(*largest) == type;
  return alike && floats ? x : std::nullopt;
}

Result<void> Lowering::lower_reduction(NodeId node) {
  const Op op = graph_.node(node).op;
  if (const auto x = scope_.sums_exponents ? exponents_of(node) : std::nullopt) {
    const std::vector<Instance>& all = instances_[*x];
    if (all.size() == 1 && reduced_axes(node, {all[0].at}).axis == ReduceAxis::Row) {
      package::Reduction reduction;
      reduction.kind = ReduceKind::SumExp;
      reduction.axis = ReduceAxis::Row;
      reduction.type = register_type(node);
      Location at = all[0].at;
      for (const int32_t d : graph_.attr_as<ir::ReduceAttr>(node).dims) at[static_cast<size_t>(d)] = Index{};
      instances_[node].push_back(
          {std::move(at), recorder_.reduce(reduction, recorder_.convert(all[0].value, reduction.type))});
      return {};
    }
  }
  const NodeId operand = graph_.operands(node)[0];
  const auto& dims = graph_.attr_as<ir::ReduceAttr>(node).dims;
  const DType type = register_type(node);
  const auto is_reduced = [&](size_t d) {
    return std::find(dims.begin(), dims.end(), static_cast<int32_t>(d)) != dims.end();
  };

  std::vector<Instance> instances = instances_[operand];
  std::vector<Location> places;
  for (Instance& instance : instances) {
    instance.value = prepared(node, instance.value);
    places.push_back(instance.at);
  }
  const Reduced found = reduced_axes(node, places);
  const std::optional<ReduceAxis>& axis = found.axis;
  const auto place = [&](const Instance& instance) {
    Location at = instance.at;
    for (size_t d = 0; d < at.size(); ++d) {
      if (is_reduced(d)) at[d] = Index{};
    }
    return at;
  };
  // Over dims of size 1, and no two parts of a split in one result.
  bool nothing = found.nothing;
  for (size_t i = 0; i < instances.size(); ++i) {
    for (size_t j = 0; j < i; ++j) nothing = nothing && place(instances[i]) != place(instances[j]);
  }
  if (!axis && !nothing) return no_axis(node, found);
  if (nothing) {  // the values themselves (their magnitudes, their squares)
    const bool may_wrap = op == Op::reduce_amax && types::is_integer(type) && types::is_signed(type);
    for (const Instance& instance : instances) {
      instances_[node].push_back({place(instance), may_wrap ? at_least_zero(instance.value, type) : instance.value});
    }
    return {};
  }

  package::Reduction reduction;
  reduction.kind = kind_of(op);
  reduction.axis = *axis;
  // A part that is the same all along the axis, as a column joined to a matrix is along its rows, is there once and
  // would count as often as the axis is long; the largest and least do not mind.
  const bool counts = reduction.kind != ReduceKind::Max && reduction.kind != ReduceKind::Min;
  for (const Location& at : places) {
    if (!counts || places.size() == 1 || reduced_axes(node, {at}).axis == axis) continue;
    return reject(diag::Code::reduction_axes, node, "a joined part does not lie along the axis that this reduces")
        .reason("its values are the same all along it, and would be counted as often as it is long")
        .help("reduce the parts by themselves and add what they give, or bind the joined tensor as one operand");
  }
  reduction.mean = op == Op::reduce_mean;
  reduction.type = type;
  // Parts of a split that fall in one result are combined before they are reduced.
  std::vector<Instance> groups;
  std::vector<int32_t> parts;
  for (const Instance& instance : instances) {
    Location at = place(instance);
    size_t g = 0;
    while (g < groups.size() && groups[g].at != at) ++g;
    if (g == groups.size()) {
      groups.push_back({std::move(at), instance.value});
      parts.push_back(1);
      continue;
    }
    ++parts[g];
    ValueRef& sum = groups[g].value;
    switch (reduction.kind) {
      case ReduceKind::Sum:
        sum = recorder_.op(Op::add, type, {sum, instance.value}, type);
        break;
      case ReduceKind::Max:
        sum = recorder_.op(Op::maximum, type, {sum, instance.value}, type);
        break;
      case ReduceKind::Min:
        sum = recorder_.op(Op::minimum, type, {sum, instance.value}, type);
        break;
      case ReduceKind::SumExp:  // of one part only
        break;
      case ReduceKind::LogSumExp: {  // max + log(1 + exp(min - max)); equal infinities stay
        const ValueRef high = recorder_.op(Op::maximum, type, {sum, instance.value}, type);
        const ValueRef low = recorder_.op(Op::minimum, type, {sum, instance.value}, type);
        const ValueRef gap = recorder_.op(Op::sub, type, {low, high}, type);
        const ValueRef more = recorder_.op(Op::log1p, type, {recorder_.op(Op::exp, type, {gap}, type)}, type);
        const ValueRef both = recorder_.op(Op::add, type, {high, more}, type);
        const ValueRef equal = recorder_.op(Op::eq, DType::boolean, {low, high}, type);
        const bool wide = type == DType::f64;
        const ValueRef ln2 = recorder_.literal(type, wide ? 0x3FE62E42FEFA39EFull : 0x3F317218ull);
        const ValueRef twice = recorder_.op(Op::add, type, {high, ln2}, type);
        sum = recorder_.op(Op::where, type, {equal, twice, both}, type);
        break;
      }
    }
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    reduction.parts = parts[g];
    ValueRef value = recorder_.reduce(reduction, groups[g].value);
    if (op == Op::reduce_amax) value = at_least_zero(value, type);
    instances_[node].push_back({groups[g].at, value});
  }
  return {};
}

}  // namespace codetta::plan
