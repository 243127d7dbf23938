// SPDX-License-Identifier: Apache-2.0
// Values of more symbolic dims than a kernel has axes: dims that an operation treats alike, one beside the other, are
// merged in front of it and taken apart behind it, by reshapes that meet those of other operations.
#include <algorithm>
#include <optional>
#include <utility>

#include "opt/rules.hpp"

namespace codetta::opt {
namespace {

using types::Dim;
using Dims = std::vector<Dim>;

constexpr size_t kernel_axes = 3;

bool has_one_element(const Dim& dim) { return dim == Dim::constant(1); }

// How many axes tell the dims apart: of what an axis takes together all but the first are constant.
size_t axes_of(const Dims& dims) {
  size_t axes = 0;
  for (const Dim& dim : dims) axes += !has_one_element(dim) && (axes == 0 || !dim.is_constant()) ? 1 : 0;
  return axes;
}

// Runs of dims that become one each.
class Runs {
 public:
  // `alike`: by dim, whether it may be one with the dim in front of it.
  Runs(const Dims& shape, std::vector<bool> alike) : shape_(shape), alike_(std::move(alike)) {
    for (size_t d = 0; d < shape.size(); ++d) begin_.push_back(d);
  }
  // From the left, until it is enough.
  template <class Enough>
  bool merge(const Enough& enough) {
    for (size_t r = 1; !enough(*this);) {
      while (r < begin_.size() && !alike_[begin_[r]]) ++r;
      if (r >= begin_.size()) return false;
      begin_.erase(begin_.begin() + static_cast<std::ptrdiff_t>(r));
    }
    return begin_.size() < shape_.size();
  }
  [[nodiscard]] size_t count() const { return begin_.size(); }
  [[nodiscard]] size_t begin(size_t run) const { return begin_[run]; }
  [[nodiscard]] size_t run_of(size_t dim) const {
    return static_cast<size_t>(std::upper_bound(begin_.begin(), begin_.end(), dim) - begin_.begin()) - 1;
  }
  // Of the shape of an operand, aligned to the right; dims that it lacks are 1.
  [[nodiscard]] Dims merged(const Dims& shape) const {
    Dims result(begin_.size(), Dim::constant(1));
    const size_t missing = shape_.size() - shape.size();
    for (size_t d = 0; d < shape.size(); ++d) {
      Dim& to = result[run_of(missing + d)];
      to = to * shape[d];
    }
    return result;
  }

 private:
  Dims shape_;
  std::vector<bool> alike_;
  std::vector<size_t> begin_;
};

bool fold_to_axes(const Runs& runs, const Dims& shape) { return axes_of(runs.merged(shape)) <= kernel_axes; }

Candidate taken_apart(const Candidate& merged, const ir::TensorType& type, RuleContext& x) {
  return {Op::reshape, {x.add(merged)}, ir::ReshapeAttr{type.shape}, type};
}

// Dims that each operand has both of, or none.
Rewrite elements(const Candidate& n, RuleContext& x) {
  const types::OpInfo& info = types::op_info(n.op);
  const bool freely = (info.elementwise() && info.arity > 0 && n.op != Op::dropout) || n.op == Op::broadcast;
  const Dims& shape = n.type.shape;
  if (!freely || axes_of(shape) <= kernel_axes) return {};
  const auto has = [&](NodeId operand, size_t d) {
    const Dims& own = x.type(operand).shape;
    const size_t missing = shape.size() - own.size();
    return d >= missing && !has_one_element(own[d - missing]);
  };
  std::vector<bool> alike(shape.size());
  std::optional<size_t> before;  // the last dim of more than one element
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto same = [&](NodeId operand) { return !before || has(operand, d) == has(operand, *before); };
    alike[d] = has_one_element(shape[d]) || std::all_of(n.operands.begin(), n.operands.end(), same);
    if (!has_one_element(shape[d])) before = d;
  }
  Runs runs(shape, alike);
  if (!runs.merge([&](const Runs& now) { return fold_to_axes(now, shape); })) return {};
  Candidate merged = n;
  merged.type.shape = runs.merged(shape);
  if (n.op == Op::broadcast) merged.attr = ir::ReshapeAttr{merged.type.shape};
  for (NodeId& operand : merged.operands) {
    if (!x.type(operand).shape.empty()) operand = x.reshaped(operand, runs.merged(x.type(operand).shape));
  }
  return taken_apart(merged, n.type, x);
}

// Dims that are reduced, or are not: a kernel reduces one axis and keeps two, or the other way round where the last dim
// is reduced.
Rewrite reduction(const Candidate& n, RuleContext& x) {
  if (!types::op_info(n.op).is_reduction()) return {};
  const Dims shape = x.type(n.operands[0]).shape;
  const auto& dims = std::get_if<ir::ReduceAttr>(&n.attr)->dims;
  const auto is_reduced = [&](size_t d) {
    return std::find(dims.begin(), dims.end(), static_cast<int32_t>(d)) != dims.end();
  };
  std::vector<bool> alike(shape.size());
  for (size_t d = 1; d < shape.size(); ++d) alike[d] = is_reduced(d) == is_reduced(d - 1);
  Runs runs(shape, alike);
  size_t last = shape.size();
  while (last > 0 && has_one_element(shape[last - 1])) --last;
  const bool last_reduced = last == 0 || is_reduced(last - 1);
  const auto enough = [&](const Runs& now) {
    Dims reduced, kept;
    const Dims merged = now.merged(shape);
    for (size_t r = 0; r < merged.size(); ++r) (is_reduced(now.begin(r)) ? reduced : kept).push_back(merged[r]);
    const bool two = axes_of(kept) <= 1 && last_reduced;
    return axes_of(reduced) + axes_of(kept) <= kernel_axes && (axes_of(reduced) <= 1 || two);
  };
  if (!runs.merge(enough)) return {};
  Candidate merged = n;
  merged.operands[0] = x.reshaped(n.operands[0], runs.merged(shape));
  merged.type.shape = runs.merged(shape);
  ir::ReduceAttr attr{ir::ReduceAxis::Dims, {}};
  for (size_t r = 0; r < runs.count(); ++r) {
    if (!is_reduced(runs.begin(r))) continue;
    attr.dims.push_back(static_cast<int32_t>(r));
    merged.type.shape[r] = Dim::constant(1);
  }
  merged.attr = std::move(attr);
  return taken_apart(merged, n.type, x);
}

// Dims that stay beside each other.
Rewrite permutation(const Candidate& n, RuleContext& x) {
  if (n.op != Op::permute || axes_of(n.type.shape) <= kernel_axes) return {};
  const auto& order = std::get_if<ir::PermuteAttr>(&n.attr)->order;
  const Dims from = x.type(n.operands[0]).shape;
  std::vector<bool> alike(order.size());
  for (size_t d = 1; d < order.size(); ++d) alike[d] = order[d] == order[d - 1] + 1;
  Runs runs(n.type.shape, alike);
  if (!runs.merge([&](const Runs& now) { return fold_to_axes(now, n.type.shape); })) return {};
  Dims merged;
  std::vector<int32_t> place(from.size(), -1);  // by dim of the operand: the merged one that it begins
  for (size_t r = 0; r < runs.count(); ++r) place[static_cast<size_t>(order[runs.begin(r)])] = static_cast<int32_t>(r);
  ir::PermuteAttr attr{std::vector<int32_t>(runs.count())};
  for (size_t d = 0; d < from.size(); ++d) {
    if (place[d] >= 0) {
      attr.order[static_cast<size_t>(place[d])] = static_cast<int32_t>(merged.size());
      merged.push_back(from[d]);
    } else {
      merged.back() = merged.back() * from[d];
    }
  }
  Candidate permute = n;
  permute.operands[0] = x.reshaped(n.operands[0], std::move(merged));
  permute.attr = std::move(attr);
  permute.type.shape = runs.merged(n.type.shape);
  return taken_apart(permute, n.type, x);
}

// Dims on one side of the dim of which parts are taken, or along which parts are put together.
Rewrite parts(const Candidate& n, RuleContext& x) {
  int32_t* dim = nullptr;
  Candidate merged = n;
  if (auto* slice = std::get_if<ir::SliceAttr>(&merged.attr)) dim = &slice->dim;
  if (auto* split = std::get_if<ir::SplitAttr>(&merged.attr)) dim = &split->dim;
  if (auto* join = std::get_if<ir::JoinAttr>(&merged.attr)) dim = &join->dim;
  if (dim == nullptr || axes_of(n.type.shape) <= kernel_axes) return {};
  const auto along = static_cast<size_t>(*dim);
  std::vector<bool> alike(n.type.shape.size());
  for (size_t d = 1; d < alike.size(); ++d) alike[d] = d != along && d != along + 1;
  Runs runs(n.type.shape, alike);
  if (!runs.merge([&](const Runs& now) { return fold_to_axes(now, n.type.shape); })) return {};
  for (NodeId& operand : merged.operands) operand = x.reshaped(operand, runs.merged(x.type(operand).shape));
  merged.type.shape = runs.merged(n.type.shape);
  *dim = static_cast<int32_t>(runs.run_of(along));
  return taken_apart(merged, n.type, x);
}

constexpr Rule dims_table[] = {
    {"merged_elements", "f(x, y) of [a, b, c, d] = reshape of f over [a*b, c, d]", elements},
    {"merged_reduction", "sum of [a, b, c, d] over d = reshape of the sum of [a*b, c, d]", reduction},
    {"merged_permutation", "permute(x) of [a, b, c, d] = reshape of [a, b, c*d], where these stay together",
     permutation},
    {"merged_parts", "x[..., i:j] of [a, b, c, d] = reshape of [a*b, c, d]", parts},
};

}  // namespace

bool folds(const std::vector<Dim>& shape) { return axes_of(shape) <= kernel_axes; }

std::span<const Rule> dims_rules() { return dims_table; }

}  // namespace codetta::opt
