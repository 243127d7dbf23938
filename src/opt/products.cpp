// SPDX-License-Identifier: Apache-2.0
// Products with a dim of size 1, and reductions over such dims: what a program of one token is full of. As rows of one
// product, or as work on elements and rows, they need no kernel of their own. And what has no elements.
#include <algorithm>

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
  const NodeId of_rows = x.add({Op::matmul, {rows, n.operands[1]}, n.attr, product});
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
    {"reduction_of_one", "f(x) = x over dims of size 1 for sum max min mean", reduction_of_one},
    {"reshape_of_nothing", "reshape(x) = zeros where it has no elements", reshape_of_nothing},
};

}  // namespace

std::span<const Rule> product_rules() { return product_table; }

}  // namespace codetta::opt
