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
    {"mixed_items", "x @ y of [b, c, m, n] = reshape of [b*c, m, n], where c is symbolic", mixed_items},
    {"reduction_of_one", "f(x) = x over dims of size 1 for sum max min mean", reduction_of_one},
    {"reshape_of_nothing", "reshape(x) = zeros where it has no elements", reshape_of_nothing},
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

}  // namespace codetta::opt
