// SPDX-License-Identifier: Apache-2.0
// The same function, by the oracle: on data with special values, integers bit for bit, floats with meeting intervals.
#pragma once

#include "unit/oracle/support.hpp"

namespace codetta::opt::test {

using oracle::test::Data;

inline std::vector<Data> random_inputs(const ir::Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Data> inputs;
  for (const ir::GraphInput& input : graph.inputs()) {
    std::vector<int64_t> shape;
    for (const ir::Dim& dim : graph.type(input.node).shape) shape.push_back(dim.as_constant().value_or(4));
    Data& data = inputs.emplace_back(graph.type(input.node).dtype, shape);
    const double special[] = {0.0, -0.0, 1.0, INFINITY, -INFINITY, NAN, 1e30, -128, 0.5};
    const bool tame = random() % 2 == 0;
    std::normal_distribution<double> normal(0, types::is_float(data.dtype) ? 1 : 60);
    for (size_t i = 0; i < data.count(); ++i)
      data.set(i, !tame && random() % 6 == 0 ? special[random() % 9] : normal(random));
  }
  return inputs;
}

inline oracle::OracleResult evaluate(const ir::Graph& graph, std::vector<Data>& data) {
  std::vector<oracle::OracleInput> inputs;
  for (size_t i = 0; i < data.size(); ++i) inputs.emplace_back(data[i].view());
  Result<oracle::OracleResult> result = oracle::evaluate(graph, inputs);
  EXPECT_TRUE(result) << result.error().render();
  return result ? std::move(*result) : oracle::OracleResult{};
}

inline testing::AssertionResult same_meaning(const ir::Graph& a, const ir::Graph& b, uint64_t seed) {
  std::vector<Data> data = random_inputs(a, seed);
  const oracle::OracleResult x = evaluate(a, data), y = evaluate(b, data);
  if (x.outputs.size() != y.outputs.size()) return testing::AssertionFailure() << "outputs";
  for (size_t o = 0; o < x.outputs.size(); ++o) {
    const auto &e = x.outputs[o].elements, &f = y.outputs[o].elements;
    if (e.size() != f.size() || x.outputs[o].shape != y.outputs[o].shape)
      return testing::AssertionFailure() << "shape of output " << o;
    for (size_t i = 0; i < e.size(); ++i) {
      const bool nan_e = e[i].low != e[i].low, nan_f = f[i].low != f[i].low;
      bool same = e[i].low <= f[i].high && f[i].low <= e[i].high && e[i].exact_low <= f[i].exact_high &&
                  f[i].exact_low <= e[i].exact_high;
      if (x.outputs[o].dtype == DType::u64) same = e[i].low <= f[i].high && f[i].low <= e[i].high;
      if (nan_e || nan_f) same = e[i].may_be_nan && f[i].may_be_nan;
      if (!same) {
        return testing::AssertionFailure() << "output " << o << " at " << i << ": " << e[i].low << ".." << e[i].high
                                           << " and " << f[i].low << ".." << f[i].high << "\n"
                                           << ir::print(a) << ir::print(b);
      }
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace codetta::opt::test
