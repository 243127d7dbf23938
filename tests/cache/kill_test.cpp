// SPDX-License-Identifier: Apache-2.0
// A process that makes, stores, evicts and clears is killed at random instants. Whatever it leaves, no partial entry is
// ever accepted, every committed one loads, and the leftovers are gone after one run.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

#include "cache_fixture.hpp"
#include "toolchain/entry_format.hpp"

namespace codetta::toolchain {
namespace {

constexpr int kills = CODETTA_TEST_FULL ? 1000 : 60;
constexpr int keys = 40;
constexpr int64_t capacity = 150'000;

[[noreturn]] void work(const CacheOptions& options, unsigned seed) {
  std::mt19937 random(seed);
  const auto cache = Cache::open(options);
  while (true) {
    const int number = static_cast<int>(random() % keys);
    const auto got = cache->get_or_make(key_of(number), [&] { return Result<CacheEntry>(entry_of(number, 8000)); });
    if (!got || !same(*got, entry_of(number, 8000))) ::_exit(1);
    if (random() % 50 == 0) cache->evict();
    if (random() % 20 == 0) (void)base::remove_file(cache->path_of(key_of(number)));
  }
}

// Temporaries are named .tmp-<name>-<process id in hex>-<ticks>-<attempt>.
size_t count_temporaries(const std::string& folder, pid_t process) {
  std::ostringstream number;
  number << '-' << std::hex << process << '-';
  size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".tmp-") && name.find(number.str()) != std::string::npos) ++count;
  }
  return count;
}

TEST_F(CacheTest, KilledAtAnyInstant) {
  CacheOptions options;
  options.directory = directory();
  options.capacity_bytes = capacity;
  std::mt19937 random(20261121);
  for (int i = 0; i < kills; ++i) {
    const auto seed = static_cast<unsigned>(random());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) work(options, seed);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a wrong result was seen, seed " << seed;

    // Committed entries are whole.
    const auto cache = Cache::open(options);
    for (int number = 0; number < keys; ++number) {
      const auto bytes = base::read_file(cache->path_of(key_of(number)), 1 << 20);
      if (bytes) {
        ASSERT_TRUE(decode_entry(*bytes)) << "kill " << i;
        const auto found = cache->lookup(key_of(number));
        ASSERT_TRUE(found);
        ASSERT_TRUE(same(*found, entry_of(number, 8000)));
      }
    }
    EXPECT_EQ(cache->statistics().damaged, 0);
    cache->evict();
    // Of this writer nothing is left. (One killed earlier may have left a file whose process number runs again by now:
    // that goes by age.)
    EXPECT_EQ(count_temporaries(directory(), child), 0U) << "kill " << i;
    EXPECT_LE(base::list_directory(directory() + "/locks")->size(), 1U) << "kill " << i;
    EXPECT_LE(cache->statistics().bytes, capacity + capacity / 10);
  }
}

}  // namespace
}  // namespace codetta::toolchain
