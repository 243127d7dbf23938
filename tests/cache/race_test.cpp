// SPDX-License-Identifier: Apache-2.0
// Processes and threads that want the same entries at once, with and without working locks, and while entries are
// evicted.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "cache_fixture.hpp"

namespace codetta::toolchain {
namespace {

constexpr int processes = 16;
constexpr int threads = 4;
constexpr int rounds = CODETTA_TEST_FULL ? 100 : 3;

struct Race {
  CacheOptions options;
  int keys = 1;
  std::string log;     // one byte (the key's number) for each time an entry was made
  bool evict = false;  // some of the threads empty the cache meanwhile
};

bool take_part(const Race& race, Cache& cache, int log, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < race.keys; ++i) {
    const int number = static_cast<int>((static_cast<unsigned>(i) + seed * 7) % static_cast<unsigned>(race.keys));
    const auto got = cache.get_or_make(key_of(number), [&]() -> Result<CacheEntry> {
      std::this_thread::sleep_for(std::chrono::milliseconds(race.keys == 1 ? 5 : 0));
      const auto byte = static_cast<unsigned char>(number);
      if (::write(log, &byte, 1) != 1) return entry_of(-1);
      return entry_of(number, 2000);
    });
    if (!got || !same(*got, entry_of(number, 2000))) return false;
    if (race.evict && random() % 4 == 0) cache.evict();
  }
  return true;
}

// Exit status 0: every thread saw only right entries.
[[noreturn]] void process_main(const Race& race, unsigned seed) {
  const int log = ::open(race.log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const auto cache = Cache::open(race.options);
  std::atomic<bool> right = cache->enabled() && cache->warning().empty();
  std::vector<std::thread> running;
  for (unsigned i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      if (!take_part(race, *cache, log, seed * threads + i)) right = false;
    });
  }
  for (std::thread& thread : running) thread.join();
  if (!right) ADD_FAILURE() << "a wrong entry was seen";
  EXPECT_EQ(cache->warning(), "");
  EXPECT_EQ(cache->statistics().damaged, 0);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

class CacheRace : public CacheTest {
 protected:
  CacheRace() { race_.options.directory = directory(); }

  // How often each key was made.
  std::vector<int> run() {
    race_.log = path("log");
    EXPECT_TRUE(base::remove_file(race_.log));
    std::vector<pid_t> children;
    for (unsigned i = 0; i < processes; ++i) {
      const pid_t child = ::fork();
      if (child == 0) process_main(race_, i);
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 0;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0) << "a process failed or saw a wrong entry";
    }
    std::vector<int> made(static_cast<size_t>(race_.keys));
    const auto log = base::read_file(race_.log, 1 << 20);
    if (!log) return made;  // nobody made anything
    for (const char byte : *log) ++made[static_cast<unsigned char>(byte)];
    return made;
  }
  Race race_;
};

TEST_F(CacheRace, OneMakesForAll) {
  for (int round = 0; round < rounds; ++round) {
    (void)base::remove_tree(directory());
    EXPECT_EQ(run(), std::vector<int>{1});
    EXPECT_EQ(run(), std::vector<int>{0});
  }
}

TEST_F(CacheRace, ManyKeysAreMadeOnceEach) {
  race_.keys = 50;
  for (int round = 0; round < rounds; ++round) {
    (void)base::remove_tree(directory());
    EXPECT_EQ(run(), std::vector<int>(50, 1));
    EXPECT_EQ(count_files(".tmp-"), 0U);
    EXPECT_EQ(base::list_directory(directory() + "/locks")->size(), 1U);
  }
}

TEST_F(CacheRace, WithoutLocksAllIsRightOnlySlower) {
  base::SystemCalls calls = base::SystemCalls::real();
  calls.flock = [](int, int) { return errno = ENOLCK, -1; };
  race_.options.calls = &calls;
  race_.keys = 20;
  for (int round = 0; round < rounds; ++round) {
    (void)base::remove_tree(directory());
    for (const int made : run()) {
      EXPECT_GE(made, 1);
      EXPECT_LE(made, processes);  // threads of one process still share
    }
  }
}

TEST_F(CacheRace, WhileEvicting) {
  race_.keys = 30;
  race_.evict = true;
  race_.options.capacity_bytes = 20'000;
  for (int round = 0; round < rounds; ++round) {
    for (const int made : run()) EXPECT_LE(made, processes * threads);
    EXPECT_LE(open(20'000)->statistics().bytes, 22'000 + int64_t{processes} * 2500);
  }
  const auto cache = open(20'000);
  cache->evict();
  EXPECT_LE(cache->statistics().bytes, 22'000);
}

}  // namespace
}  // namespace codetta::toolchain
