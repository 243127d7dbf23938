// SPDX-License-Identifier: Apache-2.0
// Properties of random graphs: valid, the same in any build order, and the same after printing and parsing.
#include "support/random_graph.hpp"

#include <gtest/gtest.h>

#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

constexpr uint64_t cases = CODETTA_TEST_FULL != 0 ? 20000 : 1500;

codetta::test::RandomGraphOptions options_of(uint64_t seed) {
  codetta::test::RandomGraphOptions options;
  options.seed = seed;
  options.steps = static_cast<int>(5 + seed % 60);
  options.symbolic = seed % 3 == 0;
  return options;
}

TEST(RandomGraph, ValidAndPrintedExactly) {
  size_t steps = 0;
  for (uint64_t seed = 0; seed < cases; ++seed) {
    const codetta::test::RandomGraph recipe(options_of(seed));
    steps += recipe.step_count();
    const Result<Graph> graph = recipe.build();
    ASSERT_TRUE(graph) << seed << "\n" << graph.error().render();
    const Result<void> valid = verify(*graph);
    ASSERT_TRUE(valid) << seed << "\n" << valid.error().render() << print(*graph);
    const std::string text = print(*graph);
    const Result<Graph> parsed = parse_graph(std::make_shared<diag::SourceText>("g", text));
    ASSERT_TRUE(parsed) << seed << "\n" << parsed.error().render() << text;
    ASSERT_TRUE(*parsed == *graph) << seed << "\n" << text;
    ASSERT_EQ(print(*parsed), text) << seed;
    ASSERT_EQ(parsed->hash(), graph->hash()) << seed;
  }
  EXPECT_GT(steps, cases * 10);  // the rules don't refuse most of what is proposed
}

TEST(RandomGraph, BuildOrderDoesNotShow) {
  for (uint64_t seed = 0; seed < cases; ++seed) {
    const codetta::test::RandomGraph recipe(options_of(seed));
    const Result<Graph> graph = recipe.build(), shuffled = recipe.build_shuffled(seed + 1);
    ASSERT_TRUE(graph && shuffled) << seed;
    ASSERT_EQ(print(*graph), print(*shuffled)) << seed;
    ASSERT_TRUE(*graph == *shuffled) << seed;
  }
}

TEST(RandomGraph, DifferentGraphsDiffer) {
  const Result<Graph> first = codetta::test::RandomGraph(options_of(1)).build(),
                      second = codetta::test::RandomGraph(options_of(2)).build();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(*first == *second);
  EXPECT_NE(first->hash(), second->hash());
}

// Damaged texts are refused or give valid graphs.
TEST(RandomGraph, DamagedTexts) {
  std::mt19937_64 random(7);
  size_t accepted = 0, refused = 0;
  const std::string_view pieces = "%[]()=:,\"\\ 019-.efx\n#@\x80";
  for (uint64_t seed = 0; seed < cases; ++seed) {
    const Result<Graph> graph = codetta::test::RandomGraph(options_of(seed)).build();
    std::string text = print(*graph);
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text.erase(at, 1 + random() % 8);
          break;
        case 1:
          text.insert(at, 1, pieces[random() % pieces.size()]);
          break;
        default:
          text[at] = pieces[random() % pieces.size()];
      }
      if (text.empty()) text = "%";
    }
    const Result<Graph> parsed = parse_graph(std::make_shared<diag::SourceText>("g", text));
    if (!parsed) {
      ++refused;
      const Diagnostic& diagnostic = parsed.error().diagnostics()[0];
      ASSERT_TRUE(diagnostic.code == 160 || diagnostic.code == 161) << parsed.error().render();
      ASSERT_FALSE(diagnostic.help.empty());
    } else {
      ++accepted;
      ASSERT_TRUE(verify(*parsed)) << text;
    }
  }
  EXPECT_GT(refused, accepted);
}

}  // namespace
}  // namespace codetta::ir::test
