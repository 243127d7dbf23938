// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "codetta/threads.hpp"

namespace codetta {
namespace {

struct Counter {
  std::vector<std::atomic<int>> seen;
  explicit Counter(size_t n) : seen(n) {}
  static void hit(void* context, int task) { ++static_cast<Counter*>(context)->seen[static_cast<size_t>(task)]; }
  void expect(int times) {
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i].load(), times) << i;
  }
};

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 3, 8}) {
    const auto pool = make_thread_pool(threads);
    EXPECT_EQ(pool->size(), threads);
    for (int tasks : {0, 1, 2, 7, 1000}) {
      Counter counter(static_cast<size_t>(tasks));
      pool->run(tasks, &Counter::hit, &counter);
      counter.expect(1);
    }
  }
}

TEST(ThreadPool, ManyShortRuns) {
  const auto pool = make_thread_pool(3);
  Counter counter(5);
  for (int i = 0; i < 20000; ++i) pool->run(5, &Counter::hit, &counter);
  counter.expect(20000);
}

TEST(ThreadPool, SleepsAndWakes) {
  const auto pool = make_thread_pool(2);
  Counter counter(4);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool->run(4, &Counter::hit, &counter);
  }
  counter.expect(5);
}

TEST(ThreadPool, NestedAndConcurrentCalls) {
  const auto pool = make_thread_pool(3);
  struct Nested {
    ThreadPool* pool;
    Counter counter{6};
  } nested{pool.get()};
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        pool->run(
            4,
            [](void* n, int) {
              static_cast<Nested*>(n)->pool->run(6, &Counter::hit, &static_cast<Nested*>(n)->counter);
            },
            &nested);
      }
    });
  }
  for (std::thread& t : callers) t.join();
  nested.counter.expect(3 * 50 * 4);
}

TEST(ThreadPool, WorksInAForkedChild) {
  const auto pool = make_thread_pool(3);
  Counter before(3);
  pool->run(3, &Counter::hit, &before);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Counter counter(9);
    pool->run(9, &Counter::hit, &counter);
    for (const auto& s : counter.seen) {
      if (s.load() != 1) _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ThreadPool, ZeroMeansOnePerProcessor) { EXPECT_GE(make_thread_pool(0)->size(), 1); }

}  // namespace
}  // namespace codetta
