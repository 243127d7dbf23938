// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "plan/plan.hpp"

namespace {

using namespace codetta;
using plan::Lifetime;
using plan::MemoryPlan;

TEST(Memory, PlacesWhatFitsWhereSomethingEnded) {
  const MemoryPlan plan = plan::plan_memory({{0, 1000, 0, 1, 0}, {1, 500, 1, 2, 0}, {2, 900, 2, 3, 0}});
  EXPECT_TRUE(plan::check_memory(plan));
  EXPECT_EQ(plan.lower_bound, 1024 + 512);
  EXPECT_EQ(plan.bytes, plan.lower_bound);
}

TEST(Memory, NothingNeedsNothing) {
  const MemoryPlan plan = plan::plan_memory({});
  EXPECT_EQ(plan.bytes, 0);
  EXPECT_TRUE(plan::check_memory(plan));
}

TEST(Memory, RandomLifetimesNeverOverlapAndStayNearTheBound) {
  double worst = 1;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Lifetime> lifetimes;
    for (uint32_t i = 0; i < 1 + random() % 30; ++i) {
      const size_t first = random() % 40;
      lifetimes.push_back({i, static_cast<int64_t>(random() % 5000), first, first + random() % 10, 0});
    }
    const MemoryPlan plan = plan::plan_memory(lifetimes);
    const auto checked = plan::check_memory(plan);
    ASSERT_TRUE(checked) << checked.error().render();
    ASSERT_EQ(plan.lifetimes.size(), lifetimes.size());
    ASSERT_GE(plan.bytes, plan.lower_bound);
    if (plan.lower_bound > 0)
      worst = std::max(worst, static_cast<double>(plan.bytes) / static_cast<double>(plan.lower_bound));
  }
  EXPECT_LE(worst, 1.5);
}

TEST(Memory, TheCheckerSeesEveryKindOfMistake) {
  MemoryPlan plan = plan::plan_memory({{0, 100, 0, 2, 0}, {1, 100, 2, 3, 0}});
  ASSERT_TRUE(plan::check_memory(plan));
  const auto broken = [&](auto change) {
    MemoryPlan copy = plan;
    change(copy);
    const auto checked = plan::check_memory(copy);
    return checked ? std::string("accepted") : checked.error().message();
  };
  const std::string message = "error[E0901]: the memory plan is wrong";
  EXPECT_EQ(broken([](MemoryPlan& p) { p.lifetimes[0].offset = p.lifetimes[1].offset; }), message);
  EXPECT_EQ(broken([](MemoryPlan& p) { p.bytes -= 64; }), message);
  EXPECT_EQ(broken([](MemoryPlan& p) { p.lifetimes[0].offset = -64; }), message);
  EXPECT_EQ(broken([](MemoryPlan& p) { p.lifetimes[0].offset += 8; }), message);
  EXPECT_EQ(broken([](MemoryPlan& p) { std::swap(p.lifetimes[0].first, p.lifetimes[0].last); }), message);
}

}  // namespace
