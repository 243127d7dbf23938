// SPDX-License-Identifier: Apache-2.0
// One computation a key, under many threads.
#include "base/single_flight.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace codetta::base {
namespace {

using namespace std::chrono_literals;

void wait_for(const auto& condition) {
  while (!condition()) std::this_thread::sleep_for(100us);
}

TEST(SingleFlight, WaitersGetTheValueOfTheOne) {
  constexpr size_t threads = 16;
  SingleFlight<std::string, std::string> flights;
  std::atomic<int> computations{0};
  std::atomic<int> computed_here{0};
  std::vector<std::thread> pool;
  for (size_t i = 0; i < threads; ++i) {
    pool.emplace_back([&] {
      const auto outcome = flights.run("key", [&] {
        ++computations;
        wait_for([&] { return flights.waiting("key") == threads - 1; });
        return std::string("value");
      });
      EXPECT_EQ(outcome.value, "value");
      computed_here += outcome.computed_here ? 1 : 0;
    });
  }
  for (std::thread& thread : pool) thread.join();
  EXPECT_EQ(computations, 1);
  EXPECT_EQ(computed_here, 1);
  EXPECT_EQ(flights.waiting("key"), 0U);
}

TEST(SingleFlight, KeysDoNotWaitForEachOther) {
  SingleFlight<int, int> flights;
  const auto outer = flights.run(1, [&] { return flights.run(2, [] { return 20; }).value + 1; });
  EXPECT_EQ(outer.value, 21);
}

TEST(SingleFlight, ForgetsTheKeyAfterwards) {
  SingleFlight<int, int> flights;
  int computations = 0;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(flights.run(1, [&] { return ++computations; }).computed_here);
  EXPECT_EQ(computations, 3);
}

TEST(SingleFlight, AnExceptionPassesTheTaskOn) {
  SingleFlight<int, int> flights;
  std::atomic<bool> inside{false};
  std::thread failing([&] {
    EXPECT_THROW((void)flights.run(1,
                                   [&]() -> int {
                                     inside = true;
                                     wait_for([&] { return flights.waiting(1) == 1; });
                                     throw std::runtime_error("no");
                                   }),
                 std::runtime_error);
  });
  wait_for([&] { return inside.load(); });
  const auto outcome = flights.run(1, [] { return 7; });
  EXPECT_EQ(outcome.value, 7);
  EXPECT_TRUE(outcome.computed_here);
  failing.join();
}

TEST(SingleFlight, ManyThreadsManyKeys) {
  constexpr int threads = 8;
  constexpr int rounds = 3000;
  SingleFlight<int, int> flights;
  std::array<std::atomic<int>, 7> running{};
  std::atomic<int> overlaps{0};
  std::latch start(threads);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int i = 0; i < rounds; ++i) {
        const int key = (i * 5 + t) % 7;
        const auto outcome = flights.run(key, [&] {
          if (running[static_cast<size_t>(key)]++ != 0) ++overlaps;
          if (i % 16 == 0) std::this_thread::yield();
          --running[static_cast<size_t>(key)];
          return key * 100;
        });
        if (outcome.value != key * 100) ++overlaps;
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  EXPECT_EQ(overlaps, 0);
}

}  // namespace
}  // namespace codetta::base
