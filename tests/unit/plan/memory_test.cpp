// SPDX-License-Identifier: Apache-2.0
// Memory plans case by case; random ones are in memory_quality_test and tests/memory.
#include <gtest/gtest.h>

#include <random>

#include "plan/memory_check.hpp"
#include "plan/memory_tree.hpp"
#include "support/random_memory.hpp"

namespace {

using namespace codetta;
using plan::MemoryOptions;
using plan::MemoryPlan;
using plan::MemoryProblem;
using plan::MemoryRequest;
using plan::MemoryScope;
using plan::Placement;
using types::Dim;
using Kind = Placement::Kind;
using Storage = MemoryRequest::Storage;

MemoryRequest buffer(uint32_t id, Dim bytes, size_t first, size_t last) {
  MemoryRequest request;
  request.buffer = id;
  request.bytes = std::move(bytes);
  request.first = first;
  request.last = last;
  return request;
}
MemoryRequest buffer(uint32_t id, int64_t bytes, size_t first, size_t last) {
  return buffer(id, Dim::constant(bytes), first, last);
}

MemoryPlan planned(const MemoryProblem& problem, MemoryOptions::Mode mode = MemoryOptions::Mode::Pools) {
  auto plan = plan::plan_memory(problem, {mode, 8});
  EXPECT_TRUE(plan) << plan.error().render();
  if (!plan) return {};
  const auto checked = plan::check_memory(problem, *plan);
  EXPECT_TRUE(checked) << checked.error().render();
  return *std::move(plan);
}
MemoryPlan planned(std::vector<MemoryRequest> requests, MemoryOptions::Mode mode = MemoryOptions::Mode::Pools) {
  return planned(MemoryProblem{std::move(requests), {}, {}}, mode);
}
constexpr auto by_reuse = MemoryOptions::Mode::Reuse;

std::string refusal(const MemoryProblem& problem) {
  const auto plan = plan::plan_memory(problem);
  return plan ? "planned" : plan.error().message() + ": " + plan.error().diagnostics().front().reason;
}

TEST(Memory, PlacesWhatFitsWhereSomethingEnded) {
  const MemoryPlan plan = planned({buffer(0, 1000, 0, 1), buffer(1, 500, 1, 2), buffer(2, 900, 2, 3)});
  EXPECT_EQ(plan.report.lower_bound, 1024 + 512);
  EXPECT_EQ(plan.report.peak, plan.report.lower_bound);
  EXPECT_EQ(plan.report.unshared, 1024 + 512 + 960);
  EXPECT_EQ(plan.report.live, (std::vector<int64_t>{1024, 1536, 1472, 960}));
  ASSERT_EQ(plan.pools.size(), 1u);
  EXPECT_EQ(plan.pools[0].bytes, Dim::constant(1536));
}

TEST(Memory, NothingNeedsNothing) {
  const MemoryPlan plan = planned(std::vector<MemoryRequest>{});
  EXPECT_EQ(plan.report.peak, 0);
  EXPECT_TRUE(plan.pools.empty());
  EXPECT_EQ(planned({buffer(0, 0, 0, 5)}).report.peak, 0);
}

TEST(Memory, AnOperandIsTakenOverWhereItEnds) {
  MemoryRequest result = buffer(1, 4096, 1, 2);
  result.in_place_of = {0};
  for (const auto mode : {MemoryOptions::Mode::Pools, by_reuse}) {
    const MemoryPlan plan = planned({buffer(0, 4096, 0, 1), result}, mode);
    EXPECT_EQ(plan.placements[1].kind, Kind::InPlace);
    EXPECT_EQ(plan.placements[1].of, 0u);
    EXPECT_EQ(plan.report.peak, 4096);
    EXPECT_EQ(plan.report.lower_bound, 4096);
    EXPECT_EQ(plan.report.in_place, 1u);
    // Still read later, another size, or seen through a view that is read later.
    EXPECT_EQ(planned({buffer(0, 4096, 0, 2), result}, mode).report.in_place, 0u);
    EXPECT_EQ(planned({buffer(0, 8192, 0, 1), result}, mode).report.in_place, 0u);
    MemoryRequest view = buffer(2, 4096, 1, 1);
    view.view_of = 0;
    EXPECT_EQ(planned({buffer(0, 4096, 0, 1), result, view}, mode).report.in_place, 0u);
  }
  // Only one can have it.
  MemoryRequest twin = result;
  twin.buffer = 2;
  EXPECT_EQ(planned({buffer(0, 4096, 0, 1), result, twin}).report.in_place, 1u);
}

TEST(Memory, DonatedInputsHoldWhatFitsAfterTheirLastUse) {
  MemoryRequest input = buffer(0, 8192, 0, 1);
  input.storage = Storage::Input;
  EXPECT_EQ(planned({input, buffer(1, 4096, 2, 3)}).report.peak, 4096);
  input.storage = Storage::Donated;
  const MemoryPlan plan = planned({input, buffer(1, 4096, 2, 3), buffer(2, 4096, 4, 5)});
  EXPECT_EQ(plan.report.peak, 0);
  EXPECT_EQ(plan.placements[0].kind, Kind::Caller);
  EXPECT_EQ(plan.placements[1].kind, Kind::Reuse);
  EXPECT_EQ(plan.placements[2].of, 0u);
  EXPECT_EQ(planned({input, buffer(1, 4096, 1, 3)}).report.peak, 4096) << "still read while it is written";
  EXPECT_EQ(planned({input, buffer(1, 8200, 2, 3)}).report.peak, 8256) << "too small";
  MemoryRequest taking = buffer(1, 8192, 1, 3);
  taking.in_place_of = {0};
  EXPECT_EQ(planned({input, taking}).report.peak, 0);
  // The caller's memory is there before the step that reads it first; a temporary of that step is not.
  input.first = taking.first = 0;
  input.last = 0;
  EXPECT_EQ(planned({input, taking}).report.peak, 0);
  input.storage = Storage::Temporary;
  EXPECT_EQ(planned({input, taking}).report.in_place, 0u);
}

TEST(Memory, ViewsKeepTheirBaseAlive) {
  MemoryRequest view = buffer(1, 4096, 2, 5);
  view.view_of = 0;
  const MemoryPlan plan = planned({buffer(0, 4096, 0, 1), view, buffer(2, 4096, 3, 4)});
  EXPECT_EQ(plan.placements[1].kind, Kind::View);
  EXPECT_EQ(plan.report.peak, 8192);
}

TEST(Memory, BranchesShareAndLoopsHold) {
  MemoryProblem problem;
  problem.scopes = {
      {0, 0, 10, MemoryScope::Kind::Block}, {0, 2, 4, MemoryScope::Kind::Block}, {0, 4, 6, MemoryScope::Kind::Block}};
  problem.requests = {buffer(0, 4096, 2, 3), buffer(1, 4096, 4, 5)};
  problem.requests[0].scope = 1;
  problem.requests[1].scope = 2;
  EXPECT_EQ(planned(problem).report.peak, 4096);
  // Read in the first step of a loop, it is needed again in the next turn; the loop's own are not.
  problem.scopes[1].kind = MemoryScope::Kind::Loop;
  problem.scopes[1].end = 6;
  problem.scopes.pop_back();
  problem.requests = {buffer(0, 4096, 0, 2), buffer(1, 4096, 3, 3), buffer(2, 4096, 4, 5), buffer(3, 4096, 6, 7)};
  problem.requests[1].scope = problem.requests[2].scope = 1;
  const MemoryPlan plan = planned(problem);
  EXPECT_EQ(plan.report.peak, 8192);
  EXPECT_NE(plan.placements[0].offset, plan.placements[2].offset);
  EXPECT_EQ(plan.placements[1].offset, plan.placements[2].offset);
  EXPECT_EQ(plan.report.live, (std::vector<int64_t>{4096, 4096, 4096, 8192, 8192, 8192, 4096, 4096, 0, 0}));
}

TEST(Memory, OtherStreamsReuseOnlyWhatAnEventOrders) {
  MemoryProblem problem;
  problem.requests = {buffer(0, 4096, 0, 1), buffer(1, 4096, 4, 5)};
  problem.requests[1].stream = 1;
  EXPECT_EQ(planned(problem).report.peak, 8192);
  problem.waits = {{0, 1, 1, 4}};
  EXPECT_EQ(planned(problem).report.peak, 4096);
  EXPECT_EQ(planned(problem, by_reuse).report.reused, 1u);
  problem.waits = {{0, 1, 0, 4}};  // recorded before the last use
  EXPECT_EQ(planned(problem).report.peak, 8192);
  EXPECT_EQ(planned(problem, by_reuse).report.reused, 0u);
  problem.waits = {{0, 2, 1, 2}, {2, 1, 3, 4}};  // by way of a third stream
  EXPECT_EQ(planned(problem).report.peak, 4096);
  problem.waits = {{0, 2, 1, 3}, {2, 1, 2, 4}};  // which did not know yet
  EXPECT_EQ(planned(problem).report.peak, 8192);
  problem.waits = {{0, 1, 1, 4}};
  problem.scopes = {{0, 0, 6, MemoryScope::Kind::Block}, {0, 3, 5, MemoryScope::Kind::Block}};
  EXPECT_EQ(planned(problem).report.peak, 8192) << "the wait is in a branch that may not be taken";
  problem.requests[0].elsewhere = {{1, 3}};
  problem.scopes.clear();
  EXPECT_EQ(planned(problem).report.peak, 4096);
  problem.requests[0].elsewhere = {{2, 3}};
  EXPECT_EQ(planned(problem).report.peak, 8192);
}

TEST(Memory, DevicesNeverShare) {
  MemoryProblem problem;
  problem.requests = {buffer(0, 4096, 0, 1), buffer(1, 1024, 2, 3)};
  problem.requests[1].device = problem.requests[1].stream = 1;
  const MemoryPlan plan = planned(problem);
  EXPECT_EQ(plan.report.peak, 5120);
  EXPECT_EQ(plan.report.lower_bound, 5120);
  ASSERT_EQ(plan.pools.size(), 2u);
  EXPECT_EQ(plan.pools[1].bytes, Dim::constant(1024));
}

TEST(Memory, SymbolicSizesThatCompareShareLikeNumbers) {
  const Dim n = Dim::symbol("n");
  std::vector<MemoryRequest> requests{buffer(0, n * Dim::constant(4096), 0, 1),
                                      buffer(1, n * Dim::constant(1024), 1, 2),
                                      buffer(2, n * Dim::constant(2048), 2, 3), buffer(3, n * Dim::constant(40), 2, 4)};
  const int64_t hints[] = {409600, 102400, 204800, 4000};
  for (size_t i = 0; i < 4; ++i) requests[i].hint = hints[i];
  const MemoryPlan plan = planned(requests);
  EXPECT_EQ(plan.pools[0].bytes, n * Dim::constant(5120));
  EXPECT_TRUE(plan.report.symbolic);
  const auto proof = plan::check_memory({requests, {}, {}}, plan);
  ASSERT_TRUE(proof);
  EXPECT_GE(proof->valuations, 8u);
  requests.pop_back();
  const auto without_rounding = plan::check_memory({requests, {}, {}}, planned(requests));
  ASSERT_TRUE(without_rounding);
  EXPECT_TRUE(without_rounding->symbolic);
  EXPECT_EQ(without_rounding->unproven, 0u);
}

TEST(Memory, SymbolicSizesThatDoNotCompareTakeTheLargest) {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  std::vector<MemoryRequest> requests{buffer(0, n * Dim::constant(64), 0, 1), buffer(1, m * Dim::constant(64), 2, 3),
                                      buffer(2, 64, 0, 3)};
  requests[0].hint = 6400;
  requests[1].hint = 640;
  const MemoryPlan plan = planned(requests);
  EXPECT_EQ(plan.report.peak, 6464);
  for (const auto& [values, bytes] : {std::pair{std::map<std::string, int64_t>{{"n", 5}, {"m", 9}}, 640},
                                      std::pair{std::map<std::string, int64_t>{{"n", 9}, {"m", 5}}, 640}})
    EXPECT_EQ(plan.pools[0].bytes.evaluate(values), bytes);
}

TEST(Memory, ReuseIsRefusedWhereItWouldRaiseThePeak) {
  // Buffer 1 may have what 0 had if there is room to hold it in between.
  const auto peak = buffer(3, 8192, 6, 7);
  EXPECT_EQ(
      planned({buffer(0, 4096, 0, 0), buffer(1, 4096, 4, 5), buffer(2, 1024, 1, 3), peak}, by_reuse).report.reused, 1u);
  const MemoryPlan plan = planned({buffer(0, 4096, 0, 0), buffer(1, 4096, 4, 5), buffer(2, 8192, 1, 3)}, by_reuse);
  EXPECT_EQ(plan.report.reused, 0u);
  EXPECT_EQ(plan.report.peak, 8192);
  // Among several the one whose gap is the least full, not only the newest.
  const MemoryPlan several = planned({buffer(0, 1024, 0, 0), buffer(1, 1024, 0, 3), buffer(2, 1024, 0, 1),
                                      buffer(3, 1024, 5, 5), buffer(4, 512, 4, 4), buffer(5, 1536, 2, 2)},
                                     by_reuse);
  EXPECT_EQ(several.placements[3].of, 1u);
  EXPECT_LE(several.report.peak, several.report.lower_bound);
}

TEST(Memory, ReuseKeepsToSizeTypeScopeAndKnowledge) {
  std::vector<MemoryRequest> requests{buffer(0, 4096, 0, 1), buffer(1, 4096, 2, 3)};
  EXPECT_EQ(planned(requests, by_reuse).report.reused, 1u);
  requests[1].dtype = DType::i32;
  EXPECT_EQ(planned(requests, by_reuse).report.reused, 0u);
  requests[1].dtype = requests[0].dtype;
  requests[0].bytes = requests[1].bytes = Dim::symbol("n") * Dim::constant(4);
  requests[0].hint = requests[1].hint = 400;
  EXPECT_EQ(planned(requests, by_reuse).report.reused, 1u);
  requests[1].bytes = Dim::symbol("m") * Dim::constant(4);
  EXPECT_EQ(planned(requests, by_reuse).report.reused, 0u);
  // Without a hint nothing is known of what would be held in between.
  requests[1].bytes = requests[0].bytes;
  requests[0].hint = requests[1].hint = std::nullopt;
  EXPECT_EQ(planned(requests, by_reuse).report.reused, 1u);
  requests[1].first = requests[1].last = 5;
  EXPECT_EQ(planned(requests, by_reuse).report.reused, 0u);
}

TEST(Memory, SizesThatLeave64BitsAreErrors) {
  const std::string headline = "error[E0603]: temporaries leave 64 bits: ";
  EXPECT_EQ(refusal({{buffer(0, INT64_MAX, 0, 1)}, {}, {}}), headline + "buffer 0 exceeds 2^63 bytes");
  EXPECT_EQ(refusal({{buffer(0, INT64_MAX / 2, 0, 1), buffer(1, INT64_MAX / 2, 0, 1), buffer(2, 64, 0, 1)}, {}, {}}),
            headline + "the sum of the sizes of 3 temporaries exceeds 2^63 bytes");
  const Dim most = Dim::constant(INT64_MAX);
  EXPECT_EQ(refusal({{buffer(0, most * Dim::symbol("n") * most, 0, 1)}, {}, {}}),
            headline + "buffer 0 exceeds 2^63 bytes");
}

TEST(Memory, MalformedProblemsAreRefused) {
  const std::string headline = "error[E0901]: the memory problem is malformed: ";
  EXPECT_EQ(refusal({{buffer(7, 64, 0, 1), buffer(7, 64, 0, 1)}, {}, {}}), headline + "buffer 7 is asked for twice");
  EXPECT_EQ(refusal({{buffer(0, 64, 3, 1)}, {}, {}}),
            headline + "buffer 0 of scope 0 at positions 3 to 1, aligned to 64");
  EXPECT_EQ(refusal({{buffer(0, -1, 0, 1)}, {}, {}}), headline + "buffer 0 has -1 bytes");
  MemoryRequest odd = buffer(0, 64, 0, 1);
  odd.alignment = 48;
  EXPECT_EQ(refusal({{odd}, {}, {}}), headline + "buffer 0 of scope 0 at positions 0 to 1, aligned to 48");
  MemoryRequest view = buffer(0, 64, 0, 1);
  view.view_of = 0;
  EXPECT_EQ(refusal({{view}, {}, {}}), headline + "buffer 0 is a view of 0");
  MemoryProblem problem{
      {buffer(0, 64, 0, 5)}, {{0, 0, 9, MemoryScope::Kind::Block}, {0, 2, 4, MemoryScope::Kind::Loop}}, {}};
  problem.requests[0].scope = 1;
  EXPECT_EQ(refusal(problem), headline + "buffer 0 is used outside of its scope 1");
  problem.scopes.push_back({0, 3, 6, MemoryScope::Kind::Block});
  EXPECT_EQ(refusal(problem), headline + "scope 2 is not inside of its parent 0");
  EXPECT_EQ(refusal({{buffer(0, 64, 0, 5)}, {}, {{0, 1, 4, 4}}}), headline + "stream 1 waits at 4 for stream 0 at 4");
}

TEST(Memory, TheOrderOfTheRequestsDoesNotMatter) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    test::RandomMemory random(seed);
    const MemoryProblem problem = random.problem();
    MemoryProblem shuffled = problem;
    std::shuffle(shuffled.requests.begin(), shuffled.requests.end(), std::mt19937_64(seed));
    for (const auto mode : {MemoryOptions::Mode::Pools, by_reuse}) {
      const auto a = plan::plan_memory(problem, {mode, 8}), b = plan::plan_memory(shuffled, {mode, 8});
      ASSERT_TRUE(a && b);
      EXPECT_EQ(a->report.peak, b->report.peak);
      for (size_t i = 0; i < problem.requests.size(); ++i) {
        const auto at = std::find_if(shuffled.requests.begin(), shuffled.requests.end(),
                                     [&](const MemoryRequest& r) { return r.buffer == problem.requests[i].buffer; });
        const Placement &x = a->placements[i], &y = b->placements[static_cast<size_t>(at - shuffled.requests.begin())];
        EXPECT_TRUE(x.kind == y.kind && x.of == y.of && x.pool == y.pool && x.offset == y.offset) << "seed " << seed;
      }
    }
  }
}

TEST(Memory, ReportsSayTheSame) {
  MemoryRequest result = buffer(1, 4096, 1, 2);
  result.in_place_of = {0};
  const MemoryProblem problem{{buffer(0, 4096, 0, 1), result, buffer(2, 64, 2, 3)}, {}, {}};
  const MemoryPlan plan = planned(problem);
  EXPECT_EQ(
      plan::to_string(problem, plan, {"x", "y", "z"}),
      "temporaries: 4160 bytes (lower bound 4160, 1.000 of it; 8256 without sharing)\n"
      "in place: 1, reused: 0\n"
      "pool 0: device 0, 4160 bytes, aligned to 64\n"
      "  buffer  bytes  steps   place\n"
      "  x        4096  0 to 1  pool 0 at 0\n"
      "  y        4096  1 to 2  in place of x\n"
      "  z          64  2 to 3  pool 0 at 4096\n"
      "live bytes (#) and bytes in between (+)\n"
      "  4160 |###+\n       |###+\n       |###+\n       |###+\n       |###+\n       |###+\n       |###+\n       |###+\n"
      "       +----\n        steps 0 to 3\n");
  const std::string json = plan::to_json(problem, plan, {"x", "y", "z"});
  for (const char* part : {"\"bytes\": 4160,", "\"lower_bound\": 4160,", "\"place\": \"in_place\"", "\"of\": \"x\"",
                           "\"offset\": \"4096\""})
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
}

TEST(MemoryTree, AgreesWithALoop) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<int64_t> naive(1 + random() % 40);
    for (int64_t& value : naive) value = static_cast<int64_t>(random() % 2000) - 1000;
    plan::RangeMaxTree tree(naive);
    for (int step = 0; step < 40; ++step) {
      const size_t begin = random() % naive.size(), end = random() % (naive.size() + 1);
      if (random() % 2 == 0) {
        const auto value = static_cast<int64_t>(random() % 2000) - 1000;
        tree.add(begin, end, value);
        for (size_t i = begin; i < end; ++i) naive[i] += value;
      } else if (begin < end) {
        const auto first = naive.begin() + static_cast<std::ptrdiff_t>(begin);
        ASSERT_EQ(tree.max(begin, end), *std::max_element(first, naive.begin() + static_cast<std::ptrdiff_t>(end)));
      } else {
        ASSERT_FALSE(tree.max(begin, end));
      }
    }
    ASSERT_FALSE(tree.max(0, naive.size() + 1));
  }
}

}  // namespace
