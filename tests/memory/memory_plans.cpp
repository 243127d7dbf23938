// SPDX-License-Identifier: Apache-2.0
// Random memory plans through the checker, and the same plans with planted mistakes, which it must refuse.
// Usage: memory_plans [--seed N | --slice TEXT] [--count N]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "plan/memory_check.hpp"
#include "support/random_memory.hpp"

namespace {

using namespace codetta;
using test::RandomMemory;

struct Counts {
  size_t plans = 0, planted = 0, missed = 0, failed = 0, proven = 0, unproven = 0;
  size_t by_mistake[test::memory_mistakes] = {};
};

void run_case(uint64_t seed, Counts& counts) {
  RandomMemory random(seed);
  const plan::MemoryProblem problem = random.problem();
  const auto fail = [&](const std::string& what) {
    ++counts.failed;
    std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
  };
  // The bound without what is donated: memory that may be there is none that has to be used.
  plan::MemoryProblem kept = problem;
  for (plan::MemoryRequest& request : kept.requests) {
    if (request.storage == plan::MemoryRequest::Storage::Donated) request.storage = plan::MemoryRequest::Storage::Input;
  }
  const auto without = plan::plan_memory(kept);
  if (!without) return fail(without.error().render());
  const int64_t live_at_most = without->report.lower_bound;
  for (const auto mode : {plan::MemoryOptions::Mode::Pools, plan::MemoryOptions::Mode::Reuse}) {
    const auto planned = plan::plan_memory(problem, {mode, 8});
    ++counts.plans;
    if (!planned) return fail(planned.error().render());
    const auto checked = plan::check_memory(problem, *planned, {{{"n", 100}, {"m", 30}}});
    if (!checked) return fail(checked.error().render());
    (checked->symbolic && checked->unproven == 0 ? counts.proven : counts.unproven) += 1;
    const plan::MemoryReport& report = planned->report;
    if (report.peak > report.unshared) return fail("more memory than without sharing");
    if (!report.symbolic && report.peak < report.lower_bound) return fail("less memory than the bound says");
    if (mode == plan::MemoryOptions::Mode::Reuse && report.peak > live_at_most)
      return fail("reuse has raised the peak");
    for (size_t mistake = 0; mistake < test::memory_mistakes; ++mistake) {
      const auto broken = test::with_mistake(problem, *planned, mistake, random);
      if (!broken) continue;
      ++counts.planted;
      ++counts.by_mistake[mistake];
      if (!plan::check_memory(problem, *broken)) continue;
      ++counts.missed;
      fail("mistake " + std::to_string(mistake) + " was not seen");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 1, count = 10000;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seed") {
      seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (option == "--count") {
      count = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (option == "--slice") {
      seed = 1469598103934665603u;  // FNV-1a of the text
      for (const char* c = argv[i + 1]; *c != '\0'; ++c)
        seed = (seed ^ static_cast<unsigned char>(*c)) * 1099511628211u;
    } else {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
  }
  Counts counts;
  for (uint64_t i = 0; i < count && counts.failed < 20; ++i) run_case(seed + i, counts);
  std::printf(
      "%zu plans of %llu problems, %zu proven for all sizes, %zu for the sizes tried; %zu planted mistakes, %zu "
      "missed; %zu failures\n",
      counts.plans, static_cast<unsigned long long>(count), counts.proven, counts.unproven, counts.planted,
      counts.missed, counts.failed);
  std::printf("planted by kind:");
  bool all = true;
  for (const size_t number : counts.by_mistake) {
    std::printf(" %zu", number);
    all = all && number > 0;
  }
  std::printf("\n");
  if (count >= 500 && !all) std::fprintf(stderr, "a kind of mistake was never planted\n");
  return counts.failed == 0 && (count < 500 || all) ? 0 : 1;
}
