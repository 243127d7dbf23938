// SPDX-License-Identifier: Apache-2.0
// Random epilogues that are rich in layout ops over the accumulator: splits, joins, per-head reshapes, permutes, and
// reductions of what comes out. Most of them can be fused.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace codetta::test {

class EpilogueMaker {
 public:
  explicit EpilogueMaker(uint64_t seed) : random_(seed) {}

  Result<ir::Graph> run() {
    const int64_t m = 1 + static_cast<int64_t>(pick(4)), n = 24, batch = static_cast<int64_t>(pick(3));
    std::vector<types::Dim> a{constant(m), constant(3)}, b{constant(3), constant(n)};
    if (batch > 0) {
      a.insert(a.begin(), constant(batch));
      b.insert(b.begin(), constant(batch));
    }
    const ir::NodeId factors[] = {builder_.add_input("A", {DType::f32, false, a}),
                                  builder_.add_input("B", {DType::f32, false, b})};
    const auto matmul = builder_.add(ir::Op::matmul, factors, ir::MatmulAttr{DType::f32});
    if (!matmul) return matmul.error();
    values_.push_back(*matmul);
    for (int i = 0; i < 10; ++i) grow();
    const size_t outputs = 1 + pick(3);
    builder_.add_output("D0", values_.back(), builder_.type(values_.back()).dtype);
    for (size_t i = 1; i < outputs; ++i) {
      const ir::NodeId node = some();
      builder_.add_output("D" + std::to_string(i), node, builder_.type(node).dtype);
    }
    return std::move(builder_).finish();
  }

 private:
  static types::Dim constant(int64_t value) { return types::Dim::constant(value); }
  size_t pick(size_t below) { return static_cast<size_t>(random_() % below); }
  ir::NodeId some() { return values_[values_.size() - 1 - pick(std::min<size_t>(values_.size(), 3))]; }
  void keep(const Result<ir::NodeId>& node) {
    if (node) values_.push_back(*node);
  }
  void add(ir::Op op, std::vector<ir::NodeId> operands, ir::Attr attr = {}) {
    keep(builder_.add(op, operands, std::move(attr)));
  }

  // An operand that broadcasts against `like`.
  ir::NodeId operand(ir::NodeId like) {
    std::vector<types::Dim> shape = builder_.type(like).shape;
    for (types::Dim& dim : shape) {
      if (pick(3) == 0) dim = constant(1);
    }
    while (!shape.empty() && pick(5) == 0) shape.erase(shape.begin());
    std::string name("in_");
    name += std::to_string(count_++);
    const DType dtypes[] = {DType::f32, DType::bf16, DType::i8, DType::f32};
    return builder_.add_input(std::move(name), {dtypes[pick(4)], false, std::move(shape)});
  }

  void grow() {
    const ir::NodeId x = some();
    const auto& shape = builder_.type(x).shape;
    const size_t rank = shape.size();
    switch (pick(10)) {
      case 0:
      case 1: {
        const ir::NodeId y = operand(x);
        return add(pick(2) == 0 ? ir::Op::add : ir::Op::mul, {x, y});
      }
      case 2:
        return add(pick(2) == 0 ? ir::Op::tanh : ir::Op::relu, {x});
      case 3: {  // halves or thirds of some dim, put together again in some way
        const int32_t ways = pick(3) == 0 ? 3 : 2, dim = pick(4) == 0 ? 0 : static_cast<int32_t>(rank) - 1;
        std::vector<ir::NodeId> parts;
        for (int32_t part = 0; part < ways; ++part) {
          const ir::NodeId from[] = {x};
          const auto node = builder_.add(ir::Op::split, from, ir::SplitAttr{ways, part, dim});
          if (!node) return;
          parts.push_back(*node);
        }
        if (pick(3) == 0) return add(ir::Op::mul, {parts[0], parts[1]});
        std::shuffle(parts.begin(), parts.end(), random_);
        return add(ir::Op::join, parts, ir::JoinAttr{dim, pick(2) == 0});
      }
      case 4: {  // the last dim in two
        if (rank >= 5) return;
        const auto size = shape.back().as_constant().value_or(1);
        const int64_t inner = std::vector<int64_t>{2, 3, 4, 6, 8}[pick(5)];
        if (size % inner != 0) return;
        std::vector<types::Dim> to = shape;
        to.back() = constant(size / inner);
        to.push_back(constant(inner));
        return add(ir::Op::reshape, {x}, ir::ReshapeAttr{std::move(to)});
      }
      case 5: {  // the last two dims as one
        if (rank < 3) return;
        std::vector<types::Dim> to(shape.begin(), shape.end() - 2);
        to.push_back(shape[rank - 2] * shape[rank - 1]);
        return add(ir::Op::reshape, {x}, ir::ReshapeAttr{std::move(to)});
      }
      case 6: {
        std::vector<int32_t> order;
        for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int32_t>(d));
        std::shuffle(order.begin(), order.end(), random_);
        return add(ir::Op::permute, {x}, ir::PermuteAttr{std::move(order)});
      }
      case 7: {
        const ir::Op ops[] = {ir::Op::reduce_sum,  ir::Op::reduce_max,       ir::Op::reduce_mean,
                              ir::Op::reduce_amax, ir::Op::reduce_logsumexp, ir::Op::reduce_min};
        const ir::NodeId from[] = {x};
        const auto sum = builder_.add(ops[pick(6)], from, random_reduction(rank));
        if (!sum) return;
        values_.push_back(*sum);
        return add(ir::Op::sub, {x, *sum});
      }
      case 8: {
        const ir::NodeId seed = builder_.add_literal({ir::LiteralAttr::Kind::Int, 7, 0}),
                         p = builder_.add_literal({ir::LiteralAttr::Kind::Float, 0, 0.25});
        return add(ir::Op::dropout, {x, p, seed});
      }
      default: {
        const auto y = builder_.add(ir::Op::row_index, {},
                                    ir::ReshapeAttr{{shape.size() > 1 ? shape[rank - 2] : constant(1), constant(1)}});
        if (y) add(ir::Op::add, {x, *y});
      }
    }
  }

  ir::ReduceAttr random_reduction(size_t rank) {
    const auto axis = static_cast<ir::ReduceAxis>(pick(4));
    if (axis != ir::ReduceAxis::Dims) return {axis, {}};
    return {axis, rank > 1 ? std::vector<int32_t>{-2, -1} : std::vector<int32_t>{-1}};
  }

  std::mt19937_64 random_;
  ir::GraphBuilder builder_;
  std::vector<ir::NodeId> values_;
  int count_ = 0;
};

inline Result<ir::Graph> random_epilogue(uint64_t seed) { return EpilogueMaker(seed).run(); }

}  // namespace codetta::test
