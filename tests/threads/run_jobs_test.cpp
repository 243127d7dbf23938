// SPDX-License-Identifier: Apache-2.0
// Jobs on threads of their own: each runs once, what they write is there afterwards, and they may share a pool.
#include "toolchain/run_jobs.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "codetta/threads.hpp"

namespace codetta::toolchain {
namespace {

TEST(RunJobs, EachRunsOnceAndIsDoneAfterwards) {
  for (const size_t count : {0, 1, 3, 200}) {
    std::vector<int> runs(count);  // no atomics: a job is one thread's, and the caller reads when all are done
    size_t ticks = 0;
    run_jobs(
        count, 4, [&](size_t i) { ++runs[i]; }, [&] { ++ticks; });
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(runs[i], 1) << i;
    EXPECT_GE(ticks, 1u);
  }
}

TEST(RunJobs, APoolServesAllOfThem) {
  constexpr int tasks = 64, rounds = 20;
  struct Counts {
    std::vector<int> seen = std::vector<int>(tasks);
    static void hit(void* counts, int task) { ++static_cast<Counts*>(counts)->seen[static_cast<size_t>(task)]; }
  };
  const auto pool = make_thread_pool(3);
  std::vector<Counts> counts(8);
  run_jobs(counts.size(), 4, [&](size_t job) {
    for (int round = 0; round < rounds; ++round) pool->run(tasks, &Counts::hit, &counts[job]);
  });
  for (const Counts& each : counts) {
    for (const int seen : each.seen) EXPECT_EQ(seen, rounds);
  }
}

TEST(RunJobs, WhatTheTickThrowsComesWhenAllHaveReturned) {
  std::vector<int> runs(50);
  EXPECT_THROW(run_jobs(
                   runs.size(), 3, [&](size_t i) { ++runs[i]; }, [] { throw std::runtime_error("enough"); }),
               std::runtime_error);
  for (const int each : runs) EXPECT_EQ(each, 1);
}

}  // namespace
}  // namespace codetta::toolchain
