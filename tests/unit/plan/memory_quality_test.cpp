// SPDX-License-Identifier: Apache-2.0
// How near memory plans come to the bound, on random programs.
#include <gtest/gtest.h>

#include <cstdio>

#include "plan/memory_check.hpp"
#include "support/random_memory.hpp"

namespace {

using namespace codetta;
using plan::MemoryProblem;
using plan::MemoryRequest;

struct Quality {
  double average = 0, worst = 0, optimal = 0;
};

template <class Make>
Quality quality(size_t problems, Make make) {
  Quality result;
  for (uint64_t seed = 1; seed <= problems; ++seed) {
    const MemoryProblem problem = make(seed);
    const auto planned = plan::plan_memory(problem);
    EXPECT_TRUE(planned) << planned.error().render();
    if (!planned) return result;
    const auto checked = plan::check_memory(problem, *planned);
    EXPECT_TRUE(checked) << checked.error().render();
    const plan::MemoryReport& report = planned->report;
    EXPECT_GE(report.peak, report.lower_bound);
    EXPECT_LE(report.peak, report.unshared);
    const double ratio = static_cast<double>(report.peak) / static_cast<double>(report.lower_bound);
    result.average += ratio / static_cast<double>(problems);
    result.worst = std::max(result.worst, ratio);
    result.optimal += (report.peak == report.lower_bound ? 1.0 : 0.0) / static_cast<double>(problems);
  }
  return result;
}

void print(const char* what, const Quality& q) {
  std::printf("%s: %.4f of the bound on average, %.4f at worst, %.1f %% at the bound\n", what, q.average, q.worst,
              q.optimal * 100);
}

TEST(MemoryQuality, ProgramsWithConstantSizes) {
  const Quality q = quality(500, [](uint64_t seed) {
    test::RandomMemory random(seed);
    return random.program(10 + random.below(190));
  });
  print("random programs", q);
  EXPECT_LE(q.average, 1.02);
  EXPECT_LE(q.worst, 1.10);
}

// Sizes and lifetimes without any structure, sixty at a time: much harder than programs.
TEST(MemoryQuality, LifetimesWithoutStructure) {
  const Quality q = quality(500, [](uint64_t seed) {
    test::RandomMemory random(seed);
    MemoryProblem problem;
    for (uint32_t i = 0; i < 60; ++i) {
      MemoryRequest request;
      request.buffer = i;
      request.bytes = types::Dim::constant(static_cast<int64_t>(64 * (1 + random.below(200))));
      request.first = random.below(60);
      request.last = request.first + random.below(random.chance(20) ? 40 : 10);
      problem.requests.push_back(request);
    }
    return problem;
  });
  print("random lifetimes", q);
  EXPECT_LE(q.average, 1.02);
  EXPECT_LE(q.worst, 1.10);
}

// One batch symbol and sizes that are multiples of it, as in most networks: the plan is as good as with constants, for
// every value at once.
TEST(MemoryQuality, ProgramsWithASymbolicBatch) {
  const Quality q = quality(200, [](uint64_t seed) {
    test::RandomMemory random(seed);
    MemoryProblem problem = random.program(10 + random.below(90));
    for (MemoryRequest& r : problem.requests) {
      const int64_t each = *r.bytes.as_constant();
      r.bytes = types::Dim::symbol("batch") * types::Dim::constant(each);
      r.hint = 3 * each;
    }
    return problem;
  });
  print("programs with a symbolic batch", q);
  EXPECT_LE(q.average, 1.02);
  EXPECT_LE(q.worst, 1.10);
}

// Two symbols and sizes that cannot be compared: exact for all values, near the bound with the hints.
TEST(MemoryQuality, ProgramsWithSizesThatCannotBeCompared) {
  const Quality q = quality(200, [](uint64_t seed) {
    test::RandomMemory random(seed);
    MemoryProblem problem = random.program(10 + random.below(60));
    for (MemoryRequest& r : problem.requests) {
      const auto width = types::Dim::constant(static_cast<int64_t>(4 << random.below(8)));
      const auto batch = types::Dim::symbol("batch"), sequence = types::Dim::symbol("sequence");
      r.bytes = random.chance(30) ? batch * sequence * sequence * types::Dim::constant(4) : batch * sequence * width;
      r.hint = r.bytes.evaluate(std::vector<std::pair<std::string, int64_t>>{{"batch", 4}, {"sequence", 100}});
    }
    return problem;
  });
  print("programs with sizes that cannot be compared", q);
  EXPECT_LE(q.average, 1.02);
  EXPECT_LE(q.worst, 1.25);
}

}  // namespace
