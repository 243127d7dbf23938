// SPDX-License-Identifier: Apache-2.0
// Random valid graphs from a seed: one GEMM with operands of all broadcast forms, element-wise ops, reductions and
// layout ops. A recipe can be built in any topological order, which must not show in the finished graph.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ir/bind.hpp"
#include "ir/graph.hpp"

namespace codetta::test {

struct RandomGraphOptions {
  uint64_t seed = 1;
  int steps = 20;  // ops tried; those that the rules refuse are left out
  int64_t m = 6, n = 8, k = 5;
  bool symbolic = false;  // dims m, n, k as symbols; no layout ops then
  bool layout = true;
  bool reductions = true;
  bool any_dtype = true;  // else all inputs are f32
};

class RandomGraph {
 public:
  explicit RandomGraph(const RandomGraphOptions& options) : options_(options), random_(options.seed) {
    inputs();
    ir::GraphBuilder builder;
    std::vector<ir::NodeId> nodes = add_inputs(builder);
    step({ir::Op::matmul, {0, 1}, ir::MatmulAttr{accumulator_}}, builder, nodes);
    for (int i = 0; i < options_.steps; ++i) step(propose(builder, nodes), builder, nodes);
    const size_t count = 1 + pick(3);
    for (size_t i = 0; i < count; ++i)
      outputs_.push_back(nodes.size() - 1 - pick(std::min<size_t>(nodes.size() - input_types_.size(), 6)));
  }

  // The finished graph, its nodes added in the recipe's order.
  [[nodiscard]] Result<ir::Graph> build() const {
    std::vector<size_t> order;
    for (size_t i = 0; i < steps_.size(); ++i) order.push_back(i);
    return build_in(order);
  }
  // The same with another order of independent steps.
  [[nodiscard]] Result<ir::Graph> build_shuffled(uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<size_t> ready, order;
    std::vector<bool> done(steps_.size(), false);
    while (order.size() < steps_.size()) {
      ready.clear();
      for (size_t i = 0; i < steps_.size(); ++i) {
        bool free = !done[i];
        for (const size_t operand : steps_[i].operands)
          free = free && (operand < input_types_.size() || done[operand - input_types_.size()]);
        if (free) ready.push_back(i);
      }
      order.push_back(ready[random() % ready.size()]);
      done[order.back()] = true;
    }
    return build_in(order);
  }
  [[nodiscard]] size_t step_count() const { return steps_.size(); }

 private:
  struct Step {
    ir::Op op = ir::Op::input;
    std::vector<size_t> operands;  // inputs first, then earlier steps
    ir::Attr attr;
  };

  size_t pick(size_t below) { return below == 0 ? 0 : static_cast<size_t>(random_() % below); }
  ir::Dim dim(const char* name, int64_t size) const {
    return options_.symbolic ? ir::Dim::symbol(name) : ir::Dim::constant(size);
  }
  DType any_dtype() { return options_.any_dtype ? static_cast<DType>(pick(dtype_count)) : DType::f32; }

  void inputs() {
    const ir::Dim m = dim("m", options_.m), n = dim("n", options_.n), k = dim("k", options_.k),
                  one = ir::Dim::constant(1);
    DType a = DType::f32, b = DType::f32;
    std::optional<DType> accumulator;
    do {
      a = any_dtype();
      b = any_dtype();
      accumulator = ir::default_accumulator(a, b);
    } while (!accumulator);
    accumulator_ = *accumulator;
    input_types_.push_back({a, false, {m, k}});
    input_types_.push_back({b, false, {k, n}});
    const std::vector<std::vector<ir::Dim>> forms = {{m, n}, {n}, {one, n}, {m, one}, {}, {one, one}};
    const size_t count = 1 + pick(4);
    for (size_t i = 0; i < count; ++i) input_types_.push_back({any_dtype(), false, forms[pick(forms.size())]});
  }

  std::vector<ir::NodeId> add_inputs(ir::GraphBuilder& builder) const {
    std::vector<ir::NodeId> nodes;
    for (size_t i = 0; i < input_types_.size(); ++i) {
      std::string name("A");
      name[0] = static_cast<char>('A' + i);
      nodes.push_back(
          builder.add_input(std::move(name), input_types_[i], i > 1 && input_types_[i].shape.empty() && i % 2 == 0));
    }
    return nodes;
  }

  ir::LiteralAttr literal() {
    using Kind = ir::LiteralAttr::Kind;
    const double reals[] = {0.0, -0.0, 0.1, 1.0, -2.5, 1e30, 1e-300, 3.0e-45};
    switch (pick(8)) {
      case 0:
        return {Kind::Bool, static_cast<int64_t>(pick(2)), 0};
      case 1:
        return {Kind::Int, static_cast<int64_t>(random_()), 0};
      case 2:
      case 3:
        return {Kind::Int, static_cast<int64_t>(pick(600)) - 200, 0};
      default:
        return {Kind::Float, 0, reals[pick(8)]};
    }
  }

  Step propose(const ir::GraphBuilder& builder, const std::vector<ir::NodeId>& nodes) {
    const auto ops = types::all_ops();
    const types::OpInfo& info = ops[pick(ops.size())];
    if (info.rule == types::OpRule::special || pick(6) == 0) return {ir::Op::literal, {}, literal()};
    Step step{info.op, {}, {}};
    // Mostly what was made lately, and never A or B themselves: their shapes fit nothing else.
    const auto operand = [&] {
      return pick(2) == 0 ? 2 + pick(nodes.size() - 2) : nodes.size() - 1 - pick(std::min<size_t>(nodes.size() - 2, 4));
    };
    const size_t arity = info.arity < 0 ? 1 + pick(3) : static_cast<size_t>(info.arity);
    for (size_t i = 0; i < arity; ++i) step.operands.push_back(operand());
    const size_t rank = step.operands.empty() ? 0 : builder.type(nodes[step.operands[0]]).shape.size();
    const auto some_dim = [&] {
      return static_cast<int32_t>(pick(rank)) - (pick(2) == 0 ? static_cast<int32_t>(rank) : 0);
    };
    switch (info.rule) {
      case types::OpRule::index: {
        const ir::Dim one = ir::Dim::constant(1);
        if (info.op == ir::Op::row_index) step.attr = ir::ReshapeAttr{{dim("m", options_.m), one}};
        if (info.op == ir::Op::col_index) step.attr = ir::ReshapeAttr{{one, dim("n", options_.n)}};
        if (info.op == ir::Op::batch_index) step.attr = ir::ReshapeAttr{{one, one, one}};
        break;
      }
      case types::OpRule::cast:
        step.attr = ir::CastAttr{any_dtype()};
        break;
      case types::OpRule::reduce:
        if (options_.reductions) step.attr = ir::ReduceAttr{static_cast<ir::ReduceAxis>(pick(3)), {}};
        break;
      case types::OpRule::layout:
        if (!options_.layout || options_.symbolic || rank == 0) break;
        if (info.op == ir::Op::split) step.attr = ir::SplitAttr{2, static_cast<int32_t>(pick(2)), some_dim()};
        if (info.op == ir::Op::join) {
          step.attr = ir::JoinAttr{some_dim(), pick(2) == 0};
          step.operands.assign(step.operands.size(), step.operands[0]);
        }
        if (info.op == ir::Op::permute) {
          std::vector<int32_t> order(rank);
          for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int32_t>(i);
          std::shuffle(order.begin(), order.end(), random_);
          step.attr = ir::PermuteAttr{std::move(order)};
        }
        if (info.op == ir::Op::reshape) {
          step.attr = ir::ReshapeAttr{{ir::Dim::constant(-1), ir::Dim::constant(static_cast<int64_t>(1 + pick(4)))}};
        }
        break;
      default:
        break;
    }
    return step;
  }

  static Result<ir::NodeId> add(ir::GraphBuilder& builder, const Step& step, const std::vector<ir::NodeId>& nodes) {
    if (step.op == ir::Op::literal) return builder.add_literal(*std::get_if<ir::LiteralAttr>(&step.attr));
    std::vector<ir::NodeId> operands;
    for (const size_t operand : step.operands) operands.push_back(nodes[operand]);
    return builder.add(step.op, operands, step.attr);
  }

  void step(Step step, ir::GraphBuilder& builder, std::vector<ir::NodeId>& nodes) {
    const Result<ir::NodeId> node = add(builder, step, nodes);
    if (!node) return;
    nodes.push_back(*node);
    steps_.push_back(std::move(step));
  }

  [[nodiscard]] Result<ir::Graph> build_in(const std::vector<size_t>& order) const {
    ir::GraphBuilder builder;
    std::vector<ir::NodeId> nodes = add_inputs(builder);
    nodes.resize(input_types_.size() + steps_.size());
    for (const size_t i : order) {
      const Result<ir::NodeId> node = add(builder, steps_[i], nodes);
      if (!node) return node.error();
      nodes[input_types_.size() + i] = *node;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const DType dtype = builder.type(nodes[outputs_[i]]).dtype;
      builder.add_output("Y" + std::to_string(i), nodes[outputs_[i]], dtype);
    }
    return std::move(builder).finish();
  }

  RandomGraphOptions options_;
  std::mt19937_64 random_;
  DType accumulator_ = DType::f32;
  std::vector<ir::TensorType> input_types_;
  std::vector<Step> steps_;
  std::vector<size_t> outputs_;
};

}  // namespace codetta::test
