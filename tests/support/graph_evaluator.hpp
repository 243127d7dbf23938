// SPDX-License-Identifier: Apache-2.0
// A graph computed node by node on whole row-major arrays, as NumPy would. For small sizes.
#pragma once

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "ir/analyses.hpp"
#include "ir/graph.hpp"
#include "support/scalar_ops.hpp"

namespace codetta::test {

using Sizes = std::vector<int64_t>;
struct Array {
  Sizes shape;
  std::vector<Element> elements;
};

inline int64_t count_of(const Sizes& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Row-major position -> index in each dim, and back with broadcasting (sizes of 1 ignore the index).
inline Sizes unravel(int64_t at, const Sizes& shape) {
  Sizes index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = at % shape[d];
    at /= shape[d];
  }
  return index;
}
inline int64_t ravel(const Sizes& index, const Sizes& shape) {
  int64_t at = 0;
  const size_t skip = index.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + (shape[d] == 1 ? 0 : index[skip + d]);
  return at;
}

class GraphEvaluator {
 public:
  using Symbols = std::map<std::string, int64_t>;
  // `nudge`: every floating sum, mean and logsumexp is so much larger, of its size and 1. What then differs by more
  // hangs on how such a sum is rounded: a value beside the step of a ceil, a comparison of nearly equal values.
  GraphEvaluator(const ir::Graph& graph, Symbols symbols, double nudge = 0)
      : graph_(graph), symbols_(std::move(symbols)), nudge_(nudge), values_(graph.size()) {}

  [[nodiscard]] Sizes sizes(ir::NodeId node) const {
    Sizes result;
    for (const types::Dim& dim : graph_.type(node).shape) result.push_back(dim.evaluate(symbols_).value_or(-1));
    return result;
  }
  const Array& value(ir::NodeId node) const { return values_[node.index()]; }

  // `inputs` by graph input.
  void run(const std::vector<Array>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph_.inputs()[i].node.index()] = inputs[i];
    for (size_t i = 0; i < graph_.size(); ++i) {
      const ir::NodeId node(i);
      if (graph_.node(node).op == ir::Op::input) continue;
      Array& out = values_[i];
      out.shape = sizes(node);
      out.elements.resize(static_cast<size_t>(count_of(out.shape)));
      for (int64_t at = 0; at < count_of(out.shape); ++at)
        out.elements[static_cast<size_t>(at)] = element(node, unravel(at, out.shape));
    }
  }

 private:
  const Element& at(ir::NodeId node, const Sizes& index) const {
    const Array& array = values_[node.index()];
    return array.elements[static_cast<size_t>(ravel(index, array.shape))];
  }

  Element element(ir::NodeId node, const Sizes& index) const {
    using types::Op;
    using types::OpRule;
    const Op op = graph_.node(node).op;
    const auto operands = graph_.operands(node);
    const DType stored = graph_.type(node).dtype;
    const DType type = types::compute_dtype(stored);
    const OpRule rule = types::op_info(op).rule;
    switch (rule) {
      case OpRule::special: {
        const auto& literal = graph_.attr_as<ir::LiteralAttr>(node);
        const bool is_real = literal.kind == ir::LiteralAttr::Kind::Float;
        if (types::is_float(type)) {
          const double value = is_real ? literal.f : static_cast<double>(literal.i);
          return real_element(type == DType::f32 ? static_cast<double>(static_cast<float>(value)) : value, type);
        }
        return integer_element(literal.i, type);
      }
      case OpRule::index: {
        const size_t from_end = op == Op::col_index ? 1 : op == Op::row_index ? 2 : 3;
        return integer_element(index.size() >= from_end ? index[index.size() - from_end] : 0, DType::i64);
      }
      case OpRule::cast:
        return convert(convert(at(operands[0], index), stored), type);
      case OpRule::reduce:
        return reduce(node, index);
      case OpRule::layout:
        return layout(node, index);
      case OpRule::matmul:
        return product(node, index);
      default:
        break;
    }
    const DType compute = ir::operand_dtype(graph_, node);
    std::vector<Element> x;
    for (size_t i = 0; i < operands.size(); ++i) {
      const bool kept = rule == OpRule::logical || (rule == OpRule::select && i == 0);
      const Element& value = at(operands[i], index);
      x.push_back(kept
                      ? value
                      : test::convert(value, op == Op::dropout && i == 2 ? DType::i64 : types::compute_dtype(compute)));
    }
    if (op == Op::dropout) {
      x[1].f = static_cast<double>(static_cast<float>(x[1].f));
      x.push_back(integer_element(ravel(index, sizes(node)), DType::i64));
    }
    return apply(op, type, x);
  }

  Element reduce(ir::NodeId node, const Sizes& index) const {
    using types::Op;
    const Op op = graph_.node(node).op;
    const ir::NodeId operand = graph_.operands(node)[0];
    const DType type = types::compute_dtype(graph_.type(node).dtype);
    const auto& dims = graph_.attr_as<ir::ReduceAttr>(node).dims;
    const Array& from = values_[operand.index()];
    Sizes extent(from.shape.size(), 1);
    for (int32_t d : dims) extent[static_cast<size_t>(d)] = from.shape[static_cast<size_t>(d)];
    const int64_t count = count_of(extent);
    Element sum = convert(integer_element(0, DType::i64), type);
    double high = -INFINITY, exponentials = 0;
    for (int64_t n = 0; n < count; ++n) {
      Sizes place = unravel(n, extent);
      for (size_t d = 0; d < place.size(); ++d) place[d] += from.shape[d] == 1 || extent[d] > 1 ? 0 : index[d];
      Element x = convert(at(operand, place), type);
      if (op == Op::reduce_amax) x = apply(Op::abs, type, {{x}});
      if (op == Op::reduce_sum_of_squares) x = apply(Op::mul, type, {{x, x}});
      const bool extreme = op == Op::reduce_max || op == Op::reduce_min || op == Op::reduce_amax;
      if (op == Op::reduce_logsumexp) {
        if (x.f > high) {
          exponentials = exponentials * std::exp(high - x.f) + 1;
          high = x.f;
        } else if (std::isnan(x.f)) {
          exponentials = x.f;
        } else {
          exponentials += std::isinf(high) ? 0 : std::exp(x.f - high);
        }
      } else if (n == 0 && extreme) {
        sum = x;
      } else {
        sum = apply(op == Op::reduce_min ? Op::minimum : extreme ? Op::maximum : Op::add, type, {{sum, x}});
      }
    }
    if (op == Op::reduce_mean) sum.f /= static_cast<double>(count);
    if (op == Op::reduce_logsumexp)
      sum.f = std::isinf(high) ? (std::isnan(exponentials) ? exponentials : high) : high + std::log(exponentials);
    const bool picked = op == Op::reduce_max || op == Op::reduce_min || op == Op::reduce_amax;
    if (types::is_float(type) && !picked && std::isfinite(sum.f)) sum.f += nudge_ * (1 + std::fabs(sum.f));
    return sum;
  }

  Element layout(ir::NodeId node, const Sizes& index) const {
    if (graph_.node(node).op == types::Op::slice) {
      const auto& slice = graph_.attr_as<ir::SliceAttr>(node);
      Sizes place = index;
      int64_t& moved = place[static_cast<size_t>(slice.dim)];
      moved = slice.start.evaluate(symbols_).value_or(0) + moved * slice.step;
      return at(graph_.operands(node)[0], place);
    }
    if (graph_.node(node).op == types::Op::broadcast) {
      const Sizes& from = values_[graph_.operands(node)[0].index()].shape;
      Sizes place(index.end() - static_cast<ptrdiff_t>(from.size()), index.end());
      for (size_t d = 0; d < place.size(); ++d) place[d] = from[d] == 1 ? 0 : place[d];
      return at(graph_.operands(node)[0], place);
    }
    using types::Op;
    const auto operands = graph_.operands(node);
    const DType type = types::compute_dtype(graph_.type(node).dtype);
    switch (graph_.node(node).op) {
      case Op::permute: {
        const auto& order = graph_.attr_as<ir::PermuteAttr>(node).order;
        Sizes from(index.size());
        for (size_t d = 0; d < order.size(); ++d) from[static_cast<size_t>(order[d])] = index[d];
        return at(operands[0], from);
      }
      case Op::reshape:
        return values_[operands[0].index()].elements[static_cast<size_t>(ravel(index, sizes(node)))];
      case Op::split: {
        const auto& split = graph_.attr_as<ir::SplitAttr>(node);
        Sizes from = index;
        from[static_cast<size_t>(split.dim)] += split.part * sizes(node)[static_cast<size_t>(split.dim)];
        return at(operands[0], from);
      }
      default: {
        const auto& join = graph_.attr_as<ir::JoinAttr>(node);
        const auto d = static_cast<size_t>(join.dim);
        Sizes from = index;
        size_t part = 0;
        if (join.interleave) {
          part = static_cast<size_t>(index[d]) % operands.size();
          from[d] = index[d] / static_cast<int64_t>(operands.size());
        } else {
          while (from[d] >= sizes(operands[part])[d]) from[d] -= sizes(operands[part++])[d];
        }
        return convert(at(operands[part], from), type);
      }
    }
  }

  Element product(ir::NodeId node, const Sizes& index) const {
    const auto operands = graph_.operands(node);
    const DType type = graph_.type(node).dtype;
    const int64_t k = sizes(operands[0]).back();
    Element sum = convert(integer_element(0, DType::i64), type);
    for (int64_t i = 0; i < k; ++i) {
      Sizes a = index, b = index;
      a.back() = i;
      b[b.size() - 2] = i;
      const Element x = convert(at(operands[0], a), type), y = convert(at(operands[1], b), type);
      sum = apply(types::Op::add, type, {{sum, apply(types::Op::mul, type, {{x, y}})}});
    }
    return sum;
  }

  const ir::Graph& graph_;
  Symbols symbols_;
  double nudge_ = 0;
  std::vector<Array> values_;
};

}  // namespace codetta::test
