// SPDX-License-Identifier: Apache-2.0
// Regions against the graph itself: the kernels of a program, one after the other over memory, give what the graph
// says, whatever is fused and wherever regions are cut.
#include <gtest/gtest.h>

#include <map>

#include "plan/regions.hpp"
#include "support/random_graph.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/random_values.hpp"

namespace {

using namespace codetta;
using test::Array;
using Symbols = test::GraphEvaluator::Symbols;

struct Outcome {
  bool planned = false;
  size_t products = 0, maps = 0;
};

Outcome runs_right(const ir::Graph& graph, const Symbols& symbols, uint64_t seed, const plan::Refusal& refuses) {
  Outcome outcome;
  const auto regions = plan::find_regions(graph, refuses);
  if (!regions) {
    const uint16_t code = regions.error().code();
    EXPECT_TRUE(code >= 301 && code <= 311) << regions.error().render() << ir::print(graph);
    return outcome;
  }
  outcome.planned = true;
  std::mt19937_64 random(seed);
  std::vector<Array> inputs;
  std::map<ir::NodeId, Array> memory;
  for (const ir::GraphInput& input : graph.inputs()) {
    inputs.push_back(test::random_array(graph.type(input.node), symbols, random));
    memory[input.node] = inputs.back();
  }
  test::GraphEvaluator expected(graph, symbols);
  expected.run(inputs);
  std::map<size_t, Array> outputs;
  std::map<size_t, int> parts_written;
  for (const plan::KernelRegion& kernel : regions->kernels) {
    (kernel.matmul ? outcome.products : outcome.maps) += 1;
    const auto& program = kernel.lowered.program;
    const auto defect = package::find_defect(program);
    EXPECT_FALSE(defect) << *defect << "\n" << program.to_string() << ir::print(graph);
    if (defect) return outcome;
    std::vector<Array> arguments(program.arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      const uint32_t from = kernel.lowered.argument_input[i];
      if (from >= kernel.leaves.size()) continue;
      EXPECT_TRUE(memory.contains(kernel.leaves[from])) << "a value is read before it is stored\n" << ir::print(graph);
      arguments[i] = memory[kernel.leaves[from]];
    }
    Array accumulator;
    for (const types::Dim& dim : {kernel.batch, kernel.rows, kernel.cols})
      accumulator.shape.push_back(dim.evaluate(symbols).value_or(-1));
    if (kernel.matmul) {
      for (ir::NodeId factor : {kernel.a.source, kernel.b.source})
        EXPECT_TRUE(memory.contains(factor)) << "a factor is read before it is stored\n" << ir::print(graph);
      accumulator.elements = expected.value(*kernel.matmul).elements;
    } else {
      accumulator.elements.resize(static_cast<size_t>(test::count_of(accumulator.shape)));
    }
    test::ProgramEvaluator actual(program, accumulator, arguments, symbols);
    const std::string problem = actual.run();
    const bool parts = std::any_of(kernel.stores.begin(), kernel.stores.end(),
                                   [](const plan::StoredValue& store) { return store.node != store.target; });
    EXPECT_TRUE(problem.empty() || (parts && problem.find("0 times") != std::string::npos))
        << problem << "\n"
        << program.to_string() << ir::print(graph);
    for (size_t s = 0; s < kernel.stores.size(); ++s) {
      const plan::StoredValue& store = kernel.stores[s];
      const size_t argument = program.arguments.size() - kernel.stores.size() + s;
      Array& to = store.output ? outputs[*store.output] : memory[store.target];
      const Array& have = actual.output(argument);
      if (to.elements.empty()) to = have;
      for (size_t e = 0; e < have.elements.size(); ++e) {
        if (actual.times_written(argument)[e] != 0) to.elements[e] = have.elements[e];
      }
      const bool typed = store.output && graph.outputs()[*store.output].dtype == graph.type(store.target).dtype;
      if (typed && graph.node(store.target).op != ir::Op::input) memory[store.target] = to;
    }
  }
  for (size_t o = 0; o < graph.outputs().size(); ++o) {
    const Array& want = expected.value(graph.outputs()[o].node);
    const Array& have = outputs[o];
    EXPECT_EQ(want.shape, have.shape) << ir::print(graph);
    for (size_t i = 0; i < want.elements.size() && i < have.elements.size(); ++i) {
      if (test::close(want.elements[i], have.elements[i], 1e-5)) continue;
      std::string programs;
      for (const plan::KernelRegion& kernel : regions->kernels) programs += kernel.lowered.program.to_string() + "\n";
      ADD_FAILURE() << "output " << o << " element " << i << ": " << test::real(want.elements[i]) << " but "
                    << test::real(have.elements[i]) << " seed " << seed << "\n"
                    << programs << ir::print(graph);
      return outcome;
    }
  }
  return outcome;
}

TEST(RegionsProperty, RandomGraphsFusedAndCut) {
  int planned = 0, tried = 0;
  size_t maps = 0;
  const uint64_t cases = CODETTA_TEST_FULL ? 100000 : 3000;
  for (uint64_t seed = 1; seed <= cases && !testing::Test::HasFailure(); ++seed) {
    test::RandomGraphOptions options;
    options.seed = seed;
    options.steps = 14;
    options.symbolic = seed % 3 == 0;
    const auto graph = test::RandomGraph(options).build();
    if (!graph) continue;
    // Some targets take nothing behind a product, some no reductions.
    const plan::Refusal refuses = [&](const plan::KernelRegion& region) -> std::optional<plan::Rejection> {
      const bool refused = seed % 4 == 1 ? region.lowered.program.phases.size() > 1
                                         : seed % 4 == 2 && region.lowered.program.phases[0].insts.size() > 1;
      if (!refused || region.lowered.program.phases[0].insts.empty()) return std::nullopt;
      return plan::Rejection{static_cast<uint16_t>(diag::Code::family_reductions), {}, "as the test wants", {}};
    };
    const Outcome outcome = runs_right(*graph, {{"m", options.m}, {"n", options.n}, {"k", options.k}}, seed, refuses);
    ++tried;
    planned += outcome.planned;
    maps += outcome.maps;
  }
  EXPECT_GT(planned, tried * 9 / 10) << planned << " of " << tried;
  EXPECT_GT(maps, static_cast<size_t>(tried / 4));
}

// Text and what it is cut into; values checked as well.
Outcome of_text(const std::string& text, const Symbols& symbols = {}) {
  const auto graph = test::bind_program_text(text);
  EXPECT_TRUE(graph) << graph.error().render();
  if (!graph) return {};
  Outcome outcome = runs_right(*graph, symbols, 7, [](const plan::KernelRegion&) { return std::nullopt; });
  EXPECT_TRUE(outcome.planned) << text;
  return outcome;
}

TEST(RegionsProperty, WhatOtherCompilersGetWrong) {
  // An offset slice, a single column, a row bias, a permuted store, an operand that is an output, another user, a
  // dtype.
  for (const char* body : {
           "y = x @ w + c[:, 8:16]",
           "y = x @ w + c[:, 0:1]",
           "y = x @ w + c[0:1, 0:8]",
           "y = permute(x @ w, [1, 0])",
           "h = x @ w\n    z = h + 1.0\n    y = z * 2.0 + h",
           "h = cast(x @ w, bf16)\n    y = h + h @ w",
           "h = x @ w\n    y = h[:, 1:5] @ w[0:4, :]",
           "h = x @ w\n    y = join(h, h * 2.0, dim=-1)",
           "y = relu(join(x, c, dim=-1)) @ join(w, c[:, 8:16], w * 2.0, dim=0)",
           "h = softmax(x @ w)\n    y = h @ x",
           "y = sum(x, dim=0) + max(x @ w)",
       }) {
    const std::string text = "def f(x: f32[8, 8], w: f32[8, 8], c: f32[8, 16]):\n    " + std::string(body) +
                             "\n    u = x * w + c[:, 0:8]\n    return y, u\n";
    EXPECT_TRUE(of_text(text).planned);
    if (testing::Test::HasFailure()) FAIL() << body;
  }
}

Outcome of_example(const std::string& name, const Symbols& symbols) {
  std::ifstream file(std::string(CODETTA_SOURCE_DIR) + "/examples/programs/" + name + ".py");
  return of_text({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, symbols);
}

// No element-wise work stands next to a product: only a norm of what no product has computed is a kernel of its own.
TEST(RegionsProperty, Examples) {
  const struct {
    const char* name;
    Symbols symbols;
    size_t products, maps;
  } examples[] = {{"llama_block", {{"b", 2}, {"s", 3}}, 9, 1},
                  {"attention", {{"heads", 2}, {"s", 3}, {"t", 5}}, 2, 0},
                  {"norm_mlp", {{"m", 3}}, 2, 1},
                  {"swiglu", {{"m", 3}}, 3, 1}};
  for (const auto& example : examples) {
    const Outcome outcome = of_example(example.name, example.symbols);
    EXPECT_EQ(outcome.products, example.products) << example.name;
    EXPECT_EQ(outcome.maps, example.maps) << example.name;
  }
}

}  // namespace
