// SPDX-License-Identifier: Apache-2.0
// Small graphs and tensors for the oracle's tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "oracle/oracle.hpp"
#include "types/dtype.hpp"

namespace codetta::oracle::test {

using types::Op;

struct Data {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<unsigned char> bytes;

  Data(DType d, std::vector<int64_t> s) : dtype(d), shape(std::move(s)) {
    int64_t n = types::byte_size(d);
    for (const int64_t size : shape) n *= size;
    bytes.resize(static_cast<size_t>(n) + 8);
  }
  Data(DType d, std::vector<int64_t> s, const std::vector<double>& values) : Data(d, std::move(s)) {
    for (size_t i = 0; i < values.size(); ++i) set(i, values[i]);
  }
  [[nodiscard]] size_t count() const { return (bytes.size() - 8) / static_cast<size_t>(types::byte_size(dtype)); }
  [[nodiscard]] void* at(size_t i) { return bytes.data() + i * static_cast<size_t>(types::byte_size(dtype)); }
  void set(size_t i, double x) { types::store_f64(at(i), dtype, x); }
  [[nodiscard]] double get(size_t i) { return types::load_f64(at(i), dtype); }
  [[nodiscard]] TensorView view() { return *TensorView::make(bytes.data(), dtype, Dims(shape)); }
  void fill_normal(uint64_t seed, double scale = 1) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0, scale);
    for (size_t i = 0; i < count(); ++i) set(i, normal(random));
  }
  void fill_integers(uint64_t seed, int low, int high) {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < count(); ++i)
      set(i, low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1)));
  }
};

inline std::vector<ir::Dim> dims(const std::vector<int64_t>& sizes) {
  std::vector<ir::Dim> result;
  for (const int64_t s : sizes) result.push_back(ir::Dim::constant(s));
  return result;
}

// Builds a graph over inputs with the dtypes and shapes of `data`.
class Maker {
 public:
  explicit Maker(std::vector<Data*> data) : data_(std::move(data)) {
    for (size_t i = 0; i < data_.size(); ++i) {
      nodes_.push_back(builder_.add_input("x" + std::to_string(i), {data_[i]->dtype, false, dims(data_[i]->shape)}));
    }
  }
  ir::NodeId input(size_t i) { return nodes_[i]; }
  ir::NodeId add(Op op, std::vector<ir::NodeId> operands, ir::Attr attr = {}) {
    Result<ir::NodeId> node = builder_.add(op, operands, std::move(attr));
    if (!node) ADD_FAILURE() << node.error().render();
    return node ? *node : operands[0];
  }
  ir::NodeId number(double x) { return builder_.add_literal({ir::LiteralAttr::Kind::Float, 0, x}); }
  ir::NodeId integer(int64_t x) { return builder_.add_literal({ir::LiteralAttr::Kind::Int, x, 0}); }
  void output(ir::NodeId node, DType dtype) { builder_.add_output("y" + std::to_string(outputs_++), node, dtype); }
  ir::GraphBuilder& builder() { return builder_; }

  OracleResult evaluate(const OracleOptions& options = {}) {
    Result<ir::Graph> graph = std::move(builder_).finish();
    if (!graph) {
      ADD_FAILURE() << graph.error().render();
      return {};
    }
    std::vector<OracleInput> inputs;
    for (Data* d : data_) inputs.emplace_back(d->view());
    Result<OracleResult> result = oracle::evaluate(*graph, inputs, options);
    if (!result) ADD_FAILURE() << result.error().render();
    return result ? std::move(*result) : OracleResult{};
  }

 private:
  std::vector<Data*> data_;
  ir::GraphBuilder builder_;
  std::vector<ir::NodeId> nodes_;
  int outputs_ = 0;
};

// Elements of one op over inputs of one shape.
inline std::vector<ExpectedElement> apply(Op op, std::vector<Data*> inputs, DType store, ir::Attr attr = {}) {
  Maker maker(inputs);
  std::vector<ir::NodeId> operands;
  for (size_t i = 0; i < inputs.size(); ++i) operands.push_back(maker.input(i));
  maker.output(maker.add(op, operands, std::move(attr)), store);
  OracleResult result = maker.evaluate();
  return result.outputs.empty() ? std::vector<ExpectedElement>{} : result.outputs[0].elements;
}

inline bool holds(const ExpectedElement& e, double x) {
  if (x != x) return e.may_be_nan;
  return x >= e.low && x <= e.high;
}

}  // namespace codetta::oracle::test
