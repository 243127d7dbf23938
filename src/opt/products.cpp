// SPDX-License-Identifier: Apache-2.0
// Products with a dim of size 1, and reductions over such dims: what a program of one token is full of. As rows of one
// product, or as work on elements and rows, they need no kernel of their own. And what has no elements.
#include <algorithm>
#include <optional>
#include <utility>

#include "opt/rules.hpp"
#include "types/dtype.hpp"

namespace codetta::opt {
namespace {

using types::Dim;

constexpr int64_t most_multiplied = 1024;  // elements of a row that a map adds up; longer ones are sliced as products

bool is_one(const Dim& dim) { return dim == Dim::constant(1); }

std::vector<Dim> broadcast(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  std::vector<Dim> shape(std::max(a.size(), b.size()), Dim::constant(1));
  for (const auto* from : {&a, &b}) {
    for (size_t d = 0; d < from->size(); ++d) {
      Dim& to = shape[shape.size() - from->size() + d];
      if (is_one(to)) to = (*from)[d];
    }
  }
  return shape;
}

// Factors as numbers of the accumulator, multiplied element by element.
Candidate multiplied(NodeId a, NodeId b, DType accumulator, RuleContext& x) {
  const auto widened = [&](NodeId node) {
    ir::TensorType type = x.type(node);
    if (type.dtype == accumulator) return node;
    type.dtype = accumulator;
    return x.add({Op::cast, {node}, ir::CastAttr{accumulator}, type});
  };
  const ir::TensorType type{accumulator, false, broadcast(x.type(a).shape, x.type(b).shape)};
  return {Op::mul, {widened(a), widened(b)}, {}, type};
}

Dim product_of(std::vector<Dim>::const_iterator first, std::vector<Dim>::const_iterator last) {
  Dim product = Dim::constant(1);
  for (; first != last; ++first) product = product * *first;
  return product;
}

NodeId repeated(NodeId node, std::vector<Dim> shape, RuleContext& x) {
  ir::TensorType type = x.type(node);
  type.shape = std::move(shape);
  return x.add({Op::broadcast, {node}, ir::ReshapeAttr{type.shape}, type});
}

// A factor with one matrix for each item of `leading`, which become one dim; or with one for all of them.
NodeId with_one_batch_dim(NodeId factor, const std::vector<Dim>& leading, RuleContext& x) {
  const std::vector<Dim> own = x.type(factor).shape;
  const std::vector<Dim> matrix(own.end() - 2, own.end());
  if (std::all_of(own.begin(), own.end() - 2, is_one)) return x.reshaped(factor, matrix);
  std::vector<Dim> whole = leading;
  whole.insert(whole.end(), matrix.begin(), matrix.end());
  if (own != whole && folds(whole)) {
    factor = repeated(factor, whole, x);
  } else if (own != whole) {  // dims that are repeated together, or not, are one
    std::vector<Dim> from, to;
    std::optional<bool> repeats;
    for (size_t d = 0; d < whole.size(); ++d) {
      const size_t missing = whole.size() - own.size();
      const Dim dim = d < missing ? Dim::constant(1) : own[d - missing];
      if (is_one(whole[d])) continue;
      if (std::exchange(repeats, is_one(dim)) != is_one(dim)) {
        from.push_back(Dim::constant(1));
        to.push_back(Dim::constant(1));
      }
      from.back() = from.back() * dim;
      to.back() = to.back() * whole[d];
    }
    factor = repeated(x.reshaped(factor, from), to, x);
  }
  return x.reshaped(factor, {product_of(leading.begin(), leading.end()), matrix[0], matrix[1]});
}

// Items that a launch cannot tell apart are those of one dim.
Candidate with_one_batch_dim(const Candidate& n, RuleContext& x) {
  const std::vector<Dim> leading(n.type.shape.begin(), n.type.shape.end() - 2);
  Candidate product = n;
  for (NodeId& factor : product.operands) factor = with_one_batch_dim(factor, leading, x);
  product.type.shape.erase(product.type.shape.begin(), product.type.shape.end() - 2);
  product.type.shape.insert(product.type.shape.begin(), product_of(leading.begin(), leading.end()));
  return {Op::reshape, {x.add(product)}, ir::ReshapeAttr{n.type.shape}, n.type};
}

Rewrite mixed_items(const Candidate& n, RuleContext& x) {
  if (n.op != Op::matmul || !has_mixed_items(n.type.shape)) return {};
  return with_one_batch_dim(n, x);
}

// A factor in front of its being repeated for items, and its leading dims there, as many as the product has.
struct Shared {
  NodeId factor;
  std::vector<Dim> leading;
  Dim last[2];
};
Shared in_front_of_items(NodeId factor, size_t leading, RuleContext& x) {
  const auto matrix_of = [&](NodeId node) {
    const auto& shape = x.type(node).shape;
    return shape.size() < 2 ? std::vector<Dim>() : std::vector<Dim>(shape.end() - 2, shape.end());
  };
  if (x.op(factor) == Op::broadcast && matrix_of(x.operand(factor)) == matrix_of(factor)) factor = x.operand(factor);
  const std::vector<Dim>& own = x.type(factor).shape;
  Shared shared{factor, std::vector<Dim>(leading, Dim::constant(1)), {own[own.size() - 2], own.back()}};
  for (size_t d = 0; d + 2 < own.size(); ++d) shared.leading[leading - (own.size() - 2) + d] = own[d];
  return shared;
}

// The first of the last leading dims that the factor is the same along; all of them have constant sizes in the product.
std::optional<size_t> shared_from(const Shared& factor, const std::vector<Dim>& whole) {
  size_t first = factor.leading.size();
  while (first > 0 && is_one(factor.leading[first - 1])) --first;
  if (std::all_of(whole.begin() + static_cast<std::ptrdiff_t>(first), whole.end(), is_one)) return std::nullopt;
  const bool known = std::all_of(whole.begin() + static_cast<std::ptrdiff_t>(first), whole.end(),
                                 [](const Dim& dim) { return dim.is_constant(); });
  return known ? std::optional(first) : std::nullopt;
}

NodeId permuted(NodeId node, std::vector<int32_t> order, RuleContext& x) {
  const ir::TensorType from = x.type(node);
  ir::TensorType type = from;
  for (size_t d = 0; d < order.size(); ++d) type.shape[d] = from.shape[static_cast<size_t>(order[d])];
  return x.add({Op::permute, {node}, ir::PermuteAttr{std::move(order)}, type});
}

// 0, 1, ... with `moved` in front of the dims from `to` on.
std::vector<int32_t> with_moved(size_t rank, size_t moved, size_t to) {
  std::vector<int32_t> order;
  for (size_t d = 0; d < rank; ++d) {
    if (d == to) order.push_back(static_cast<int32_t>(moved));
    if (d != moved) order.push_back(static_cast<int32_t>(d));
  }
  return order;
}

// [l, n, r, j] in the order of the items [l, r, n, j].
Candidate rows_to_items(const Candidate& product, size_t first, const Candidate& n, RuleContext& x) {
  const size_t rank = n.type.shape.size();
  ir::TensorType apart = n.type;
  std::vector<int32_t> order;
  for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int32_t>(d));
  const Dim rows = apart.shape[rank - 2];
  apart.shape.erase(apart.shape.end() - 2);
  apart.shape.insert(apart.shape.begin() + static_cast<std::ptrdiff_t>(first), rows);
  for (size_t d = first; d + 2 < rank; ++d) order[d] = static_cast<int32_t>(d + 1);
  order[rank - 2] = static_cast<int32_t>(first);
  const NodeId whole = x.add(has_mixed_items(product.type.shape) ? with_one_batch_dim(product, x) : product);
  const NodeId split = x.add({Op::reshape, {whole}, ir::ReshapeAttr{apart.shape}, apart});
  return {Op::permute, {split}, ir::PermuteAttr{std::move(order)}, n.type};
}

// Items that share a B beside each other are rows: a B that is the same for heads of a group is not repeated for them.
// They go behind the rows, where heads come from.
Rewrite rows_of_shared_b(const Candidate& n, RuleContext& x) {
  if (n.op != Op::matmul || n.type.shape.size() < 4) return {};
  const size_t rank = n.type.shape.size(), leading = rank - 2;
  const std::vector<Dim> whole(n.type.shape.begin(), n.type.shape.end() - 2);
  const NodeId a = n.operands[0];
  const ir::TensorType type = x.type(a);
  const Shared b = in_front_of_items(n.operands[1], leading, x);
  const auto first = shared_from(b, whole);
  if (!first || *first == 0 || type.shape.size() != rank || x.op(a) == Op::broadcast) return {};
  for (size_t d = *first; d < leading; ++d) {
    if (type.shape[d] != whole[d]) return {};
  }
  // What the caller gives in the order of the items would be copied.
  NodeId base = a;
  while (x.op(base) == Op::reshape) base = x.operand(base);
  if (x.op(base) == Op::input) return {};
  const auto front = [&](const std::vector<Dim>& shape) {
    return std::vector<Dim>(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(*first));
  };
  std::vector<Dim> rows = front(type.shape), factor = front(b.leading), product = front(whole);
  const Dim count = product_of(whole.begin() + static_cast<std::ptrdiff_t>(*first), whole.end()) * type.shape[rank - 2];
  rows.insert(rows.end(), {count, type.shape.back()});
  factor.insert(factor.end(), {b.last[0], b.last[1]});
  product.insert(product.end(), {count, n.type.shape.back()});
  ir::TensorType made = n.type;
  made.shape = std::move(product);
  const NodeId turned = permuted(a, with_moved(rank, rank - 2, *first), x);
  NodeId shared = x.reshaped(b.factor, std::move(factor));
  const std::vector<Dim> items = front(whole);
  const bool repeats = front(b.leading) != items;
  if (repeats) {
    std::vector<Dim> all = items;
    all.insert(all.end(), {b.last[0], b.last[1]});
    shared = repeated(shared, std::move(all), x);
  }
  const ir::TensorType of_rows{type.dtype, false, rows};
  const NodeId together = x.add({Op::reshape, {turned}, ir::ReshapeAttr{rows}, of_rows});
  return rows_to_items({Op::matmul, {together, shared}, n.attr, made}, *first, n, x);
}

// Items that share an A, and a B for each that serves the items in front of them: columns of one B.
Rewrite columns_of_shared_a(const Candidate& n, RuleContext& x) {
  if (n.op != Op::matmul || n.type.shape.size() < 4 || !n.type.shape.back().is_constant()) return {};
  const size_t rank = n.type.shape.size(), leading = rank - 2;
  const std::vector<Dim> whole(n.type.shape.begin(), n.type.shape.end() - 2);
  const Shared a = in_front_of_items(n.operands[0], leading, x), b = in_front_of_items(n.operands[1], leading, x);
  const auto first = shared_from(a, whole);
  if (!first || *first == 0) return {};
  const auto at = static_cast<std::ptrdiff_t>(*first);
  if (!std::equal(whole.begin(), whole.begin() + at, a.leading.begin()) ||
      !std::all_of(b.leading.begin(), b.leading.begin() + at, is_one) ||
      !std::equal(whole.begin() + at, whole.end(), b.leading.begin() + at))
    return {};
  std::vector<Dim> own(whole.begin() + at, whole.end()), rows(whole.begin(), whole.begin() + at), product = rows;
  const size_t items = own.size();
  const Dim columns = product_of(own.begin(), own.end()) * n.type.shape.back();
  own.insert(own.end(), {b.last[0], b.last[1]});
  rows.insert(rows.end(), {a.last[0], a.last[1]});
  product.insert(product.end(), {a.last[0], columns});
  ir::TensorType made = n.type;
  made.shape = std::move(product);
  const NodeId turned = permuted(x.reshaped(b.factor, std::move(own)), with_moved(items + 2, items, 0), x);
  const ir::TensorType matrix{x.type(b.factor).dtype, false, {b.last[0], columns}};
  const NodeId wide = x.add({Op::reshape, {turned}, ir::ReshapeAttr{matrix.shape}, matrix});
  return rows_to_items({Op::matmul, {x.reshaped(a.factor, std::move(rows)), wide}, n.attr, made}, *first, n, x);
}

// Items of one row each that share a B are rows.
Rewrite rows_of_items(const Candidate& n, RuleContext& x) {
  if (n.op != Op::matmul) return {};
  ir::TensorType a = x.type(n.operands[0]), product = n.type;
  if (x.type(n.operands[1]).shape.size() != 2) return {};
  while (a.shape.size() > 2 && is_one(*(a.shape.end() - 2))) {
    a.shape.erase(a.shape.end() - 2);
    product.shape.erase(product.shape.end() - 2);
  }
  if (product.shape.size() == n.type.shape.size()) return {};
  const NodeId rows = x.add({Op::reshape, {n.operands[0]}, ir::ReshapeAttr{a.shape}, a});
  const Candidate plain{Op::matmul, {rows, n.operands[1]}, n.attr, product};
  const NodeId of_rows = x.add(has_mixed_items(product.shape) ? with_one_batch_dim(plain, x) : plain);
  return Candidate{Op::reshape, {of_rows}, ir::ReshapeAttr{n.type.shape}, n.type};
}

// A row by a column of each item is a sum over what lies in rows.
Rewrite product_of_vectors(const Candidate& n, RuleContext& x) {
  if (n.op != Op::matmul) return {};
  const auto& a = x.type(n.operands[0]).shape;
  ir::TensorType b = x.type(n.operands[1]);
  const size_t rank = b.shape.size();
  if (rank < 3 || !is_one(a[a.size() - 2]) || !is_one(b.shape[rank - 1])) return {};
  const auto k = a.back().as_constant();
  if (!k || *k < 2 || *k > most_multiplied) return {};
  ir::PermuteAttr swap;
  for (size_t d = 0; d < rank; ++d) swap.order.push_back(static_cast<int32_t>(d));
  std::swap(swap.order[rank - 2], swap.order[rank - 1]);
  std::swap(b.shape[rank - 2], b.shape[rank - 1]);
  const NodeId row = x.add({Op::permute, {n.operands[1]}, swap, b});
  const Candidate product = multiplied(n.operands[0], row, n.type.dtype, x);
  const auto last = static_cast<int32_t>(product.type.shape.size()) - 1;
  return Candidate{Op::reduce_sum, {x.add(product)}, ir::ReduceAttr{ir::ReduceAxis::Dims, {last}}, n.type};
}

// Without anything to add up, rows of one are multiplied by a number each.
Rewrite product_of_one(const Candidate& n, RuleContext& x) {
  if (n.op != Op::matmul) return {};
  const auto& a = x.type(n.operands[0]).shape;
  if (!is_one(a.back()) || !is_one(a[a.size() - 2]) || x.type(n.operands[1]).shape.size() < 3) return {};
  return multiplied(n.operands[0], n.operands[1], n.type.dtype, x);
}

Rewrite reduction_of_one(const Candidate& n, RuleContext& x) {
  if (n.op != Op::reduce_sum && n.op != Op::reduce_max && n.op != Op::reduce_min && n.op != Op::reduce_mean) return {};
  const auto& shape = x.type(n.operands[0]).shape;
  const auto& dims = std::get_if<ir::ReduceAttr>(&n.attr)->dims;
  const bool ones =
      std::all_of(dims.begin(), dims.end(), [&](int32_t d) { return is_one(shape[static_cast<size_t>(d)]); });
  return ones ? x.as(n.operands[0], n.type) : Rewrite{};
}

// Whether it is made element by element of a product of this shape, or of such an input.
bool is_made_of_items(NodeId node, const std::vector<Dim>& shape, bool inputs_count, RuleContext& x) {
  constexpr size_t most_looked_at = 64;
  std::vector<NodeId> left{node}, seen;
  while (!left.empty() && seen.size() < most_looked_at) {
    const NodeId at = left.back();
    left.pop_back();
    if (x.type(at).shape != shape || std::find(seen.begin(), seen.end(), at) != seen.end()) continue;
    if (x.op(at) == Op::matmul || (inputs_count && x.op(at) == Op::input)) return true;
    seen.push_back(at);
    if (!types::op_info(x.op(at)).elementwise()) continue;
    left.insert(left.end(), x.operands(at).begin(), x.operands(at).end());
  }
  return false;
}

// The gradient of a bias, the mean of a channel: the kernel of a product of items reduces the rows of each, and a small
// one the items. So it is for inputs where rows are symbolic: items and rows as one dim would be those of a copy.
Rewrite reduction_of_items(const Candidate& n, RuleContext& x) {
  const bool mean = n.op == Op::reduce_mean && types::is_float(x.type(n.operands[0]).dtype);
  if (n.op != Op::reduce_sum && n.op != Op::reduce_max && n.op != Op::reduce_min && !mean) return {};
  const std::vector<Dim> shape = x.type(n.operands[0]).shape;
  const std::vector<int32_t> dims = std::get_if<ir::ReduceAttr>(&n.attr)->dims;
  const auto last = static_cast<int32_t>(shape.size()) - 1;
  const auto items = std::count_if(shape.begin(), shape.end() - std::min<std::ptrdiff_t>(2, last + 1),
                                   [](const Dim& dim) { return !is_one(dim); });
  if (last < 2 || dims.size() != static_cast<size_t>(last) || items == 0) return {};
  for (int32_t d = 0; d < last; ++d) {  // sorted: all but the last one
    if (dims[static_cast<size_t>(d)] != d) return {};
  }
  const Dim& rows_dim = shape[shape.size() - 2];
  if (is_one(rows_dim) || !is_made_of_items(n.operands[0], shape, !rows_dim.is_constant(), x)) return {};
  ir::TensorType rows{n.type.dtype, n.type.weak, shape};
  rows.shape[shape.size() - 2] = Dim::constant(1);
  std::vector<int32_t> outer(dims.begin(), dims.end() - 1);
  const NodeId of_rows = x.add({n.op, n.operands, ir::ReduceAttr{ir::ReduceAxis::Dims, {last - 1}}, rows});
  return Candidate{n.op, {of_rows}, ir::ReduceAttr{ir::ReduceAxis::Dims, std::move(outer)}, n.type};
}

// Of what has no elements none is looked for: dims that no division tells apart matter to nobody.
Rewrite reshape_of_nothing(const Candidate& n, RuleContext& x) {
  const auto& shape = n.type.shape;
  if (n.op != Op::reshape || n.type.weak || std::find(shape.begin(), shape.end(), Dim::constant(0)) == shape.end())
    return {};
  using ir::LiteralAttr;
  const DType dtype = n.type.dtype;
  const auto kind = types::is_float(dtype)  ? LiteralAttr::Kind::Float
                    : types::is_bool(dtype) ? LiteralAttr::Kind::Bool
                                            : LiteralAttr::Kind::Int;
  return Candidate{Op::broadcast, {x.literal({kind, 0, 0}, dtype)}, ir::ReshapeAttr{shape}, n.type};
}

constexpr Rule product_table[] = {
    {"rows_of_items", "items of one row @ B = rows @ B", rows_of_items},
    {"product_of_vectors", "row @ column = sum(row * column), of items", product_of_vectors},
    {"product_of_one", "x @ y = x * y where x is a number, of items", product_of_one},
    {"rows_of_shared_b", "x @ y = x of [b, m*c, k] @ y where y of [b, 1, k, n] serves c items", rows_of_shared_b},
    {"columns_of_shared_a", "x @ y = x @ y of [k, c*n] where x of [b, 1, m, k] serves c items", columns_of_shared_a},
    {"mixed_items", "x @ y of [b, c, m, n] = reshape of [b*c, m, n], where c is symbolic", mixed_items},
    {"reduction_of_one", "f(x) = x over dims of size 1 for sum max min mean", reduction_of_one},
    {"reshape_of_nothing", "reshape(x) = zeros where it has no elements", reshape_of_nothing},
};

constexpr Rule behind_product_table[] = {
    {"reduction_of_items", "f(x) over items and rows = f(f(x) over rows) over items for sum max min mean",
     reduction_of_items},
};

}  // namespace

bool has_mixed_items(const std::vector<Dim>& shape) {
  size_t leading = 0;
  for (size_t d = 0; d + 2 < shape.size(); ++d) {
    if (is_one(shape[d])) continue;
    if (leading++ > 0 && !shape[d].is_constant()) return true;
  }
  return false;
}

std::span<const Rule> product_rules() { return product_table; }
std::span<const Rule> behind_product_rules() { return behind_product_table; }

}  // namespace codetta::opt
