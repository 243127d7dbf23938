// SPDX-License-Identifier: Apache-2.0
// Where a product ends and what reduces its rows begins: the least cut between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "opt/passes.hpp"
#include "plan/behind.hpp"
#include "plan/least_cut.hpp"
#include "plan/region_finder.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::plan {
namespace {

struct Edge {
  uint32_t from, to;
  int64_t capacity;
};

// By every set of vertices: the sink's sides of all least cuts have in common what the search says.
std::vector<bool> least_by_trying(uint32_t vertices, const std::vector<Edge>& edges) {
  int64_t least = LeastCut::unlimited;
  std::vector<bool> common(vertices);
  for (uint32_t side = 0; side < uint32_t{1} << vertices; ++side) {  // bits: with the sink
    const auto behind = [&](uint32_t vertex) { return ((side >> vertex) & 1) != 0; };
    if (behind(0) || !behind(1)) continue;
    int64_t cost = 0;
    for (const Edge& edge : edges) cost += !behind(edge.from) && behind(edge.to) ? edge.capacity : 0;
    if (cost > least) continue;
    for (uint32_t v = 0; v < vertices; ++v) common[v] = behind(v) && (cost < least || common[v]);
    least = cost;
  }
  return common;
}

TEST(LeastCuts, AreThoseOfAllSetsOfVertices) {
  std::mt19937 random(11);
  size_t inner = 0;
  for (int round = 0; round < 2000; ++round) {
    const uint32_t vertices = 3 + random() % 8;
    std::vector<Edge> edges;
    LeastCut cut;
    for (uint32_t v = 0; v < vertices; ++v) EXPECT_EQ(cut.add_vertex(), v);
    for (size_t e = random() % (3 * vertices); e > 0; --e) {
      Edge edge{static_cast<uint32_t>(random() % vertices), static_cast<uint32_t>(random() % vertices),
                static_cast<int64_t>(random() % 6)};
      if (random() % 8 == 0 && !(edge.from == 0 && edge.to == 1)) edge.capacity = 1000;
      edges.push_back(edge);
      cut.add_edge(edge.from, edge.to, edge.capacity);
    }
    const std::vector<bool> side = cut.sink_side(0, 1);
    ASSERT_EQ(side, least_by_trying(vertices, edges)) << round;
    inner += std::count(side.begin(), side.end(), true) > 1 ? 1 : 0;
  }
  EXPECT_GT(inner, 500U);
}

TEST(LeastCuts, OfLongPathsTakeNoStackAndFewRounds) {
  LeastCut cut;
  const uint32_t source = cut.add_vertex(), sink = cut.add_vertex();
  constexpr uint32_t length = 200000;
  uint32_t last = source;
  for (uint32_t v = 0; v < length; ++v) {
    const uint32_t next = v + 1 == length ? sink : cut.add_vertex();
    cut.add_edge(last, next, 10 + (v == length / 2 ? -1 : 0));
    last = next;
  }
  const std::vector<bool> side = cut.sink_side(source, sink);
  EXPECT_EQ(std::count(side.begin(), side.end(), true), length / 2);
}

// What reduces rows behind the one product of a program, and what it reads.
struct Found {
  Behind behind;
  std::string reads;
};
Found behind_of(const std::string& body, const std::string& returned = "y") {
  const std::string text =
      "def f(q: bf16[8, 64, 32], k: bf16[8, 64, 32], c: f32[64], gate: bool[64, 64], bias: f32[8, 64, 64], "
      "half: bf16[8, 64, 64]):\n    acc = q @ transpose(k)\n    h = cast(acc, bf16)\n" +
      body + "    used = c + 1.0\n    a1 = where(gate, bias, 0.0)\n    a2 = half + 1.0\n    return " + returned +
      ", used, a1, a2\n";
  const ir::Graph graph = opt::optimize(test::bind_program_text(text).value()).value().graph;
  std::optional<Behind> found;
  const Refusal refuses = [&](const KernelRegion& region) -> std::optional<Rejection> {
    found = behind_reductions(graph, region, [](const types::Dim& dim) { return dim.as_constant().value_or(512); });
    return std::nullopt;
  };
  EXPECT_TRUE(find_regions(graph, refuses));
  EXPECT_TRUE(found);
  const Behind behind = found.value_or(Behind{});
  return {behind, read_text(graph, behind)};
}

TEST(Behind, WhatIsHandedOverTakesLeastOfAll) {
  struct Form {
    std::string t, reads;
    double handed_over, read;
  };
  const std::string softmax = "    y = cast(softmax(t), bf16)\n";
  const std::string causal = "reshape(arange(64), (1, 64)) <= reshape(arange(64), (64, 1))";
  const Form forms[] = {
      {"h * 0.125", "h bf16", 2, 2},
      {"h + c", "h bf16, with c f32 beside it", 2, 2.0 + 1.0 / 128},
      {"h * 0.125 + c", "h bf16, with c f32 beside it", 2, 2.0 + 1.0 / 128},
      {"where(" + causal + ", h * 0.125, -inf)", "h bf16", 2, 2},
      {"where(gate, h * 0.125, -inf)", "h bf16, with gate bool beside it", 2, 2.125},
      {"where(~gate & (" + causal + "), h * 0.125 + c, -inf)", "h bf16, with c f32, gate bool beside it", 2,
       2.125 + 1.0 / 128},
      // Read once, by the product or behind it.
      {"h * 0.125 + bias", "h bf16, with bias f32 beside it", 2, 6},
      {"h * 0.125 + half", "h bf16, with half bf16 beside it", 2, 4},
      // As much as it takes without: it stays with the product.
      {"acc * 0.125", "t f32", 4, 4},
      // Through leading dims.
      {"reshape(h * 0.125, (2, 4, 64, 64)) + c", "h bf16, with c f32 beside it", 2, 2.0 + 1.0 / 128},
  };
  for (const Form& form : forms) {
    const Found found = behind_of("    t = " + form.t + "\n" + softmax);
    EXPECT_EQ(found.reads, form.reads) << form.t;
    EXPECT_DOUBLE_EQ(found.behind.handed_over, form.handed_over) << form.t;
    EXPECT_DOUBLE_EQ(found.behind.read, form.read) << form.t;
    EXPECT_DOUBLE_EQ(found.behind.stored, 2) << form.t;
  }
}

TEST(Behind, WhatIsStoredInAnyCaseIsReadAgain) {
  // Returned, so that it costs only to be read.
  Found found = behind_of("    t = h * 0.125 + c\n    y = cast(softmax(t), bf16)\n", "y, h");
  EXPECT_EQ(found.reads, "h bf16, with c f32 beside it");
  EXPECT_EQ(found.behind.handed_over, 0);
  found = behind_of("    t = h * 0.125 + bias\n    y = cast(softmax(t), bf16)\n", "y, t");
  EXPECT_EQ(found.reads, "t f32");
  EXPECT_EQ(found.behind.handed_over, 0);
  // Two that are read: x is, and so its square is made of it.
  found = behind_of("    x = acc + c\n    y = cast(x * rsqrt(mean(x * x)), bf16)\n");
  EXPECT_EQ(found.reads, "x f32");
  EXPECT_EQ(found.behind.handed_over, 4);
  // What the product reads for others is not read again where that takes more: 2 * 2 + 4 bytes, as much as of t.
  found =
      behind_of("    t = h * 0.125 + bias\n    y = cast(softmax(t), bf16)\n    z = cast(acc + bias, bf16)\n", "y, z");
  EXPECT_EQ(found.reads, "t f32");
  // Two values of 16 bits instead of one of 32.
  found = behind_of("    u = cast(acc * 2.0, bf16)\n    t = h * c + u\n    y = cast(softmax(t), bf16)\n");
  EXPECT_EQ(found.reads, "t f32");
}

TEST(KernelOrder, NeedsComeFirst) {
  EXPECT_EQ(order_of_needs({{2}, {}, {3, 1}, {}}).value(), (std::vector<size_t>{1, 3, 2, 0}));
  EXPECT_TRUE(order_of_needs({}).value().empty());
}

TEST(KernelOrder, E0901NoneWaitsForItself) {
  for (const std::vector<std::set<size_t>>& needs : std::vector<std::vector<std::set<size_t>>>{
           {{0}}, {{1}, {0}}, {{}, {2}, {3}, {0, 1}}, {{1, 3}, {2}, {}, {4}, {3}}}) {
    const auto order = order_of_needs(needs);
    ASSERT_FALSE(order);
    EXPECT_EQ(order.error().code(), 901);
    EXPECT_NE(order.error().render().find("cannot be ordered"), std::string::npos);
  }
  EXPECT_NE(order_of_needs({{1}, {0}}).error().render().find("kernel 1 needs what kernel 0 stores"), std::string::npos);
}

}  // namespace
}  // namespace codetta::plan
