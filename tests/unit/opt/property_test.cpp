// SPDX-License-Identifier: Apache-2.0
// Random graphs mean the same after each pass.
#include <gtest/gtest.h>

#include <map>

#include "compare.hpp"
#include "ir/print.hpp"
#include "opt/passes.hpp"
#include "support/random_graph.hpp"

namespace codetta::opt::test {
namespace {

TEST(Passes, RandomGraphsKeepTheirMeaning) {
  const uint64_t cases = CODETTA_TEST_FULL != 0 ? 100000 : 4000;
  std::map<std::string_view, uint64_t> fired;
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    codetta::test::RandomGraphOptions options;
    options.seed = seed;
    options.steps = static_cast<int>(10 + seed % 40);
    const Result<ir::Graph> graph = codetta::test::RandomGraph(options).build();
    ASSERT_TRUE(graph) << graph.error().render();
    const Result<Optimized> optimized = optimize(*graph);
    ASSERT_TRUE(optimized) << optimized.error().render() << ir::print(*graph);
    ir::Graph before = *graph;  // each pass against what it was given
    for (const Pass& pass : all_passes) {
      std::vector<Fired> rules;
      const Result<ir::Graph> after = pass.run(before, rules);
      ASSERT_TRUE(after) << after.error().render() << pass.name;
      for (const Fired& f : rules) fired[f.rule] += f.count;
      if (*after == before) continue;
      ASSERT_TRUE(same_meaning(before, *after, seed)) << "seed " << seed << ", pass " << pass.name;
      before = *after;
    }
    ASSERT_EQ(before, optimized->graph) << "seed " << seed;
    ASSERT_LE(optimized->graph.size(), graph->size() + 4);
    const Result<Optimized> again = optimize(optimized->graph);
    ASSERT_TRUE(again) << again.error().render() << ir::print(optimized->graph);
    ASSERT_EQ(again->graph, optimized->graph) << "seed " << seed << ": work was left\n" << ir::print(optimized->graph);
  }
  EXPECT_GT(fired.size(), 12u);  // random graphs reach many rules; passes_test reaches each
}

}  // namespace
}  // namespace codetta::opt::test
