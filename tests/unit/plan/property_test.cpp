// SPDX-License-Identifier: Apache-2.0
// Lowering against the graph itself: whatever is accepted computes the same, element by element, and writes each
// element once.
#include <gtest/gtest.h>

#include "plan/lower.hpp"
#include "support/random_epilogue.hpp"
#include "support/random_graph.hpp"
#include "unit/plan/random_values.hpp"

namespace {

using namespace codetta;
using test::Array;

constexpr double tolerance = 1e-6;  // ln 2 as an f32 literal is the least exact thing here

// Accepted and equal: true. Rejected: false. Anything else fails the test.
bool lowers_right(const ir::Graph& graph, const test::GraphEvaluator::Symbols& symbols, uint64_t seed) {
  const auto products = ir::matmuls(graph);
  if (products.size() != 1) return false;
  const auto lowered = plan::lower_epilogue(graph, products[0], {});
  if (!lowered) {
    const uint16_t code = lowered.error().code();
    EXPECT_TRUE(code >= 301 && code <= 310) << lowered.error().render();
    EXPECT_FALSE(lowered.error().diagnostics()[0].help.empty());
    return false;
  }
  const auto& program = lowered->program;
  const auto defect = package::find_defect(program);
  EXPECT_FALSE(defect) << *defect << "\n" << program.to_string() << ir::print(graph);
  if (defect) return true;
  const auto decoded = package::EpilogueProgram::decode(program.encode());
  EXPECT_TRUE(decoded) << decoded.error().render();
  EXPECT_TRUE(decoded && *decoded == program);

  std::mt19937_64 random(seed);
  std::vector<Array> inputs;
  for (const ir::GraphInput& input : graph.inputs())
    inputs.push_back(test::random_array(graph.type(input.node), symbols, random));
  test::GraphEvaluator expected(graph, symbols);
  expected.run(inputs);
  std::vector<Array> arguments(program.arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (lowered->argument_input[i] < inputs.size()) arguments[i] = inputs[lowered->argument_input[i]];
  }
  test::ProgramEvaluator actual(program, expected.value(products[0]), arguments, symbols);
  const std::string problem = actual.run();
  EXPECT_EQ(problem, "") << program.to_string() << ir::print(graph);
  for (size_t o = 0; o < graph.outputs().size(); ++o) {
    const Array& want = expected.value(graph.outputs()[o].node);
    const Array& have = actual.output(program.arguments.size() - graph.outputs().size() + o);
    EXPECT_EQ(want.shape, have.shape);
    for (size_t i = 0; i < want.elements.size() && i < have.elements.size(); ++i) {
      if (test::close(want.elements[i], have.elements[i], tolerance)) continue;
      ADD_FAILURE() << "output " << o << " element " << i << ": " << test::real(want.elements[i]) << " but "
                    << test::real(have.elements[i]) << " seed " << seed << "\n"
                    << program.to_string() << ir::print(graph);
      return true;
    }
  }
  return true;
}

TEST(LoweringProperty, RandomGraphsOfAllOps) {
  int accepted = 0;
  const uint64_t cases = CODETTA_TEST_FULL ? 200000 : 4000;
  for (uint64_t seed = 1; seed <= cases && !testing::Test::HasFailure(); ++seed) {
    test::RandomGraphOptions options;
    options.seed = seed;
    options.steps = 14;
    options.symbolic = seed % 3 == 0;
    const auto graph = test::RandomGraph(options).build();
    if (!graph) continue;
    accepted += lowers_right(*graph, {{"m", options.m}, {"n", options.n}, {"k", options.k}}, seed);
  }
  EXPECT_GT(accepted, static_cast<int>(cases / 10));
}

TEST(LoweringProperty, RandomEpiloguesWithLayoutOpsAndReductions) {
  int accepted = 0;
  const uint64_t cases = CODETTA_TEST_FULL ? 200000 : 4000;
  for (uint64_t seed = 1; seed <= cases && !testing::Test::HasFailure(); ++seed) {
    const auto graph = test::random_epilogue(seed);
    ASSERT_TRUE(graph) << graph.error().render();
    accepted += lowers_right(*graph, {}, seed);
  }
  EXPECT_GT(accepted, static_cast<int>(cases / 4));
}

}  // namespace
