// SPDX-License-Identifier: Apache-2.0
// The order of steps against every possible order, and on graphs too large for that.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "plan/order.hpp"

namespace {

using namespace codetta;
using plan::OrderBuffer;
using plan::OrderStep;

struct Graph {
  std::vector<OrderStep> steps;
  std::vector<OrderBuffer> buffers;

  uint32_t input(int64_t bytes) {
    buffers.push_back({bytes, false});
    return static_cast<uint32_t>(buffers.size() - 1);
  }
  uint32_t step(std::vector<uint32_t> reads, int64_t bytes, bool kept = false) {
    buffers.push_back({bytes, kept});
    const auto made = static_cast<uint32_t>(buffers.size() - 1);
    steps.push_back({std::move(reads), {made}, {}, 0});
    return made;
  }
};

bool is_possible(const Graph& graph, const std::vector<uint32_t>& order) {
  std::vector<bool> there(graph.buffers.size(), true), done(graph.steps.size(), false);
  for (const OrderStep& step : graph.steps) {
    for (const uint32_t b : step.makes) there[b] = false;
  }
  for (const uint32_t s : order) {
    if (s >= graph.steps.size() || done[s]) return false;
    for (const uint32_t b : graph.steps[s].reads) {
      if (!there[b]) return false;
    }
    for (const uint32_t other : graph.steps[s].behind) {
      if (!done[other]) return false;
    }
    done[s] = true;
    for (const uint32_t b : graph.steps[s].makes) there[b] = true;
  }
  return order.size() == graph.steps.size();
}

// What is live at each step, counted buffer by buffer.
int64_t naive_peak(const Graph& graph, const std::vector<uint32_t>& order) {
  int64_t peak = 0;
  for (size_t at = 0; at < order.size(); ++at) {
    int64_t live = graph.steps[order[at]].scratch;
    for (uint32_t b = 0; b < graph.buffers.size(); ++b) {
      size_t made = 0, last = SIZE_MAX;
      for (size_t p = 0; p < order.size(); ++p) {
        const OrderStep& step = graph.steps[order[p]];
        if (std::count(step.makes.begin(), step.makes.end(), b) != 0) made = last = p;
        if (std::count(step.reads.begin(), step.reads.end(), b) != 0) last = p;
      }
      if (graph.buffers[b].is_kept) last = order.size();
      if (last != SIZE_MAX && made <= at && at <= last) live += graph.buffers[b].bytes;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

Graph random_graph(uint64_t seed, size_t steps) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Graph graph;
  for (size_t i = 1 + below(2); i > 0; --i) graph.input(static_cast<int64_t>(below(50)));
  for (size_t s = 0; s < steps; ++s) {
    std::vector<uint32_t> reads;
    for (size_t i = 1 + below(3); i > 0; --i) {
      const size_t reach = std::min<size_t>(graph.buffers.size(), below(4) == 0 ? 40 : 6);
      reads.push_back(static_cast<uint32_t>(graph.buffers.size() - 1 - below(reach)));
    }
    graph.step(std::move(reads), static_cast<int64_t>(below(100)), below(8) == 0);
    if (below(5) == 0) graph.steps.back().scratch = static_cast<int64_t>(below(100));
    if (below(6) == 0) {
      graph.buffers.push_back({static_cast<int64_t>(below(100)), false});
      graph.steps.back().makes.push_back(static_cast<uint32_t>(graph.buffers.size() - 1));
    }
    if (s > 0 && below(10) == 0) graph.steps.back().behind.push_back(static_cast<uint32_t>(below(s)));
  }
  return graph;
}

TEST(Order, ConsumesWhatIsLargeBeforeItMakesMore) {
  // Two large values, each reduced to a small one: made one after the other, never together.
  Graph graph;
  const uint32_t x = graph.input(1);
  const uint32_t a = graph.step({x}, 1000), b = graph.step({x}, 1000);
  const uint32_t c = graph.step({a}, 1), d = graph.step({b}, 1);
  graph.step({c, d}, 1, true);
  const auto order = plan::order_for_memory(graph.steps, graph.buffers);
  ASSERT_TRUE(order) << order.error().render();
  EXPECT_EQ(order->as_written, 2001);
  EXPECT_LE(order->peak, 1003);
  EXPECT_NE(order->by, "as written");
}

TEST(Order, OneStepAndNone) {
  Graph graph;
  EXPECT_TRUE(plan::order_for_memory({}, {})->steps.empty());
  graph.step({}, 7, true);
  EXPECT_EQ(plan::order_for_memory(graph.steps, graph.buffers)->peak, 7);
}

TEST(Order, NeverWorseThanWrittenAndNearTheBestOfAll) {
  double sum = 0;
  constexpr int graphs = 300;
  for (uint64_t seed = 1; seed <= graphs; ++seed) {
    const Graph graph = random_graph(seed, 1 + seed % 7);
    const auto found = plan::order_for_memory(graph.steps, graph.buffers);
    ASSERT_TRUE(found) << found.error().render();
    ASSERT_TRUE(is_possible(graph, found->steps)) << seed;
    EXPECT_EQ(found->peak, naive_peak(graph, found->steps)) << seed;
    std::vector<uint32_t> order(graph.steps.size());
    std::iota(order.begin(), order.end(), 0U);
    EXPECT_EQ(found->as_written, naive_peak(graph, order)) << seed;
    EXPECT_LE(found->peak, found->as_written);
    int64_t best = INT64_MAX;
    do {
      if (is_possible(graph, order)) best = std::min(best, plan::peak_of(graph.steps, graph.buffers, order));
    } while (std::next_permutation(order.begin(), order.end()));
    ASSERT_GE(found->peak, best);
    sum += best > 0 ? static_cast<double>(found->peak) / static_cast<double>(best) : 1;
  }
  std::printf("small graphs: %.4f of the best order on average\n", sum / graphs);
  EXPECT_LE(sum / graphs, 1.03);
}

TEST(Order, TheSameEveryTime) {
  const Graph graph = random_graph(5, 400);
  const auto a = plan::order_for_memory(graph.steps, graph.buffers),
             b = plan::order_for_memory(graph.steps, graph.buffers);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->steps, b->steps);
  EXPECT_TRUE(is_possible(graph, a->steps));
  EXPECT_LE(a->peak, a->as_written);
}

TEST(Order, DeepAndWideGraphs) {
  Graph chain;
  uint32_t value = chain.input(8);
  for (int i = 0; i < 50000; ++i) value = chain.step({value}, 8);
  const auto deep = plan::order_for_memory(chain.steps, chain.buffers);
  ASSERT_TRUE(deep);
  EXPECT_EQ(deep->peak, 16);
  Graph fan;
  const uint32_t x = fan.input(8);
  std::vector<uint32_t> all;
  for (int i = 0; i < 20000; ++i) all.push_back(fan.step({x}, 8));
  fan.step(all, 8, true);
  const auto wide = plan::order_for_memory(fan.steps, fan.buffers);
  ASSERT_TRUE(wide);
  EXPECT_TRUE(is_possible(fan, wide->steps));
}

TEST(Order, ImpossibleGraphsAreRefused) {
  const auto reason = [](const Graph& graph) {
    const auto order = plan::order_for_memory(graph.steps, graph.buffers);
    return order ? std::string("ordered") : order.error().diagnostics().front().reason;
  };
  Graph graph;
  const uint32_t a = graph.step({1}, 8);
  graph.step({a}, 8);
  EXPECT_EQ(reason(graph), "they need one another in a circle");
  graph.steps[0].reads = {9};
  EXPECT_EQ(reason(graph), "step 0 reads buffer 9");
  graph.steps[0].reads = {0};
  EXPECT_EQ(reason(graph), "step 0 reads buffer 0");
  graph.steps[0].reads = {};
  graph.steps[0].behind = {5};
  EXPECT_EQ(reason(graph), "step 0 is behind step 5");
  graph.steps[0].behind = {};
  graph.steps[1].makes = {0};
  EXPECT_EQ(reason(graph), "step 1 makes buffer 0");
}

}  // namespace
