// SPDX-License-Identifier: Apache-2.0
// Capacity, order of eviction, leftovers of writers that died.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "cache_fixture.hpp"
#include "toolchain/cache_state.hpp"

namespace codetta::toolchain {
namespace {

void set_age(const std::string& file, int64_t seconds) {
  const struct timespec times[2] = {{::time(nullptr) - seconds, 0}, {::time(nullptr) - seconds, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0) << file;
}

// The number of a process that has ended.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return child;
}

TEST_F(CacheTest, CapacityIsHonoured) {
  constexpr int64_t capacity = 200'000;
  auto cache = open(capacity);
  for (int i = 0; i < 150; ++i) {
    cache->store(key_of(i), entry_of(i, 5000));
    if (i % 50 == 49) cache = open(capacity);  // another process would know as little
    EXPECT_LE(cache->statistics().bytes, capacity + capacity / 10) << i;
  }
  EXPECT_GE(cache->statistics().bytes, capacity / 2);
  EXPECT_TRUE(cache->lookup(key_of(149)));
}

TEST_F(CacheTest, SourcesAndMemosCountAndGo) {
  const auto cache = open(100'000);
  for (int i = 0; i < 40; ++i) {
    const std::string text(10'000, static_cast<char>('a' + i % 26));
    const std::string name = "codetta_kernel_" + std::to_string(i) + ".cpp";
    const auto kept = cache->keep_source(name, text);
    ASSERT_TRUE(kept);
    EXPECT_EQ(*kept, directory() + "/" + name);
    EXPECT_EQ(*base::read_file(*kept, 20'000), text);
    struct stat info {};
    ASSERT_EQ(::stat(kept->c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    EXPECT_LE(cache->statistics().bytes, 110'000) << i;
  }
  EXPECT_FALSE(cache->keep_source("README.cpp", "x"));      // no name that would be counted
  EXPECT_FALSE(cache->keep_source("codetta_/a.cpp", "x"));  // no path
  base::WriteOptions options;
  options.mode = 0600;
  for (const char* name : {"kernel-ab.cpp", "kernel-ab.cu", "compiler-ab.memo"})
    ASSERT_TRUE(base::write_file_atomically(directory() + "/" + name, "x", options));
  ASSERT_TRUE(base::write_file_atomically(directory() + "/notes.txt", "mine", options));
  cache->clear();
  EXPECT_EQ(cache->statistics().entries, 0);
  EXPECT_EQ(count_files("codetta_") + count_files("kernel-") + count_files("compiler-"), 0u);
  EXPECT_EQ(count_files("notes.txt"), 1u);
}

TEST_F(CacheTest, ReadOnlyKeepsNoSource) {
  const auto kept = open()->keep_source("codetta_one.cpp", "int x;");
  ASSERT_TRUE(kept);
  const auto cache = open(1 << 30, true);
  EXPECT_EQ(cache->keep_source("codetta_one.cpp", "int x;"), kept);  // it is there
  EXPECT_FALSE(cache->keep_source("codetta_one.cpp", "int y;"));
  EXPECT_FALSE(cache->keep_source("codetta_two.cpp", "int x;"));
  EXPECT_EQ(count_files("codetta_"), 1u);
}

TEST_F(CacheTest, ALowerCapacityIsReachedByEvict) {
  const auto big = open();
  for (int i = 0; i < 40; ++i) big->store(key_of(i), entry_of(i, 5000));
  const auto small = open(50'000);
  small->evict();
  EXPECT_LE(small->statistics().bytes, 50'000);
  EXPECT_GT(small->statistics().evicted, 20);
}

TEST_F(CacheTest, LeastRecentlyUsedGoesFirst) {
  const auto cache = open();
  for (int i = 0; i < 20; ++i) {
    cache->store(key_of(i), entry_of(i, 5000));
    set_age(cache->path_of(key_of(i)), 100'000 - i);
  }
  ASSERT_TRUE(cache->lookup(key_of(0)));  // the oldest becomes the youngest
  const auto small = open(60'000);
  small->evict();
  EXPECT_TRUE(small->lookup(key_of(0)));
  EXPECT_FALSE(small->lookup(key_of(1)));
  EXPECT_FALSE(small->lookup(key_of(2)));
  EXPECT_TRUE(small->lookup(key_of(19)));
}

TEST_F(CacheTest, AnEntryAboveTheCapacityIsNotKept) {
  const auto cache = open(10'000);
  cache->store(key_of(1), entry_of(1, 3000));
  cache->store(key_of(2), entry_of(2, 20'000));
  EXPECT_TRUE(cache->lookup(key_of(1)));
  EXPECT_FALSE(cache->lookup(key_of(2)));
}

TEST_F(CacheTest, EvictionDoesNotDisturbAReader) {
  const auto cache = open();
  cache->store(key_of(1), entry_of(1, 5000));
  const auto folder = base::open_directory(cache->path_of(key_of(1)).substr(0, directory().size() + 3));
  ASSERT_TRUE(folder);
  const auto reader = base::open_file_at(*folder, key_of(1).digest_hex() + ".bin", O_RDONLY);
  ASSERT_TRUE(reader);
  const auto small = open(1);
  small->evict();
  EXPECT_FALSE(cache->lookup(key_of(1)));
  EXPECT_GT(base::read_descriptor(*reader, 1 << 20)->size(), 5000U);
}

TEST_F(CacheTest, LeftoversOfTheDeadAreSwept) {
  const auto cache = open();
  cache->store(key_of(1), entry_of(1));
  const std::string folder = cache->path_of(key_of(1)).substr(0, directory().size() + 4);
  const auto name = [](pid_t process) {
    char text[64];
    std::snprintf(text, sizeof text, ".tmp-entry-%x-abc-0", static_cast<unsigned>(process));
    return std::string(text);
  };
  const std::string dead = folder + name(dead_process());
  const std::string alive = folder + name(::getpid());
  const std::string old = folder + name(::getppid());
  for (const std::string& file : {dead, alive, old}) ASSERT_TRUE(base::write_file_atomically(file, "half an ent"));
  set_age(old, 4000);
  const std::string lock = directory() + "/locks/left";
  ASSERT_TRUE(base::write_file_atomically(directory() + "/locks/left", ""));
  const int held = ::open((directory() + "/locks/held").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);

  open()->evict();
  EXPECT_FALSE(base::read_file(dead, 100));
  EXPECT_FALSE(base::read_file(old, 100));
  EXPECT_TRUE(base::read_file(alive, 100));
  EXPECT_FALSE(base::read_file(lock, 100));
  EXPECT_TRUE(base::read_file(directory() + "/locks/held", 100));
  EXPECT_TRUE(cache->lookup(key_of(1)));
  ::close(held);

  // The first store into a folder sweeps it without a scan.
  ASSERT_TRUE(base::write_file_atomically(dead, "half an ent"));
  ASSERT_TRUE(base::remove_file(cache->path_of(key_of(1))));
  open()->store(key_of(1), entry_of(1));
  EXPECT_FALSE(base::read_file(dead, 100));
}

TEST_F(CacheTest, OrphanNames) {
  EXPECT_FALSE(is_orphan(".tmp-", 0));
  EXPECT_FALSE(is_orphan(".tmp-x-zz-1-0", 0));
  EXPECT_FALSE(is_orphan(".tmp-x-fffffffffffff-1-0", 0));
  EXPECT_FALSE(is_orphan(".tmp-x-0-1-0", 0));
  EXPECT_TRUE(is_orphan(".tmp-", 4000));
}

TEST_F(CacheTest, ADamagedUsageLogIsMadeAnew) {
  constexpr int64_t capacity = 50'000;
  const auto cache = open(capacity);
  for (int i = 0; i < 60; ++i) {
    const std::string damage[] = {"", "odd", std::string(16, '\xff'), std::string(100'000, '\0')};
    ASSERT_TRUE(base::write_file_atomically(directory() + "/usage.log", damage[i % 4]));
    cache->store(key_of(i), entry_of(i, 5000));
    EXPECT_LE(cache->statistics().bytes, capacity + capacity / 10) << i;
  }
  EXPECT_EQ(cache->warning(), "");
}

TEST_F(CacheTest, ManyEntries) {
  const auto cache = open();
  constexpr int count = CODETTA_TEST_FULL ? 100'000 : 2'000;
  for (int i = 0; i < count; ++i) cache->store(key_of(i), entry_of(i, 10));
  EXPECT_EQ(cache->statistics().entries, count);
  double worst_of_best = 0;
  for (int i = 0; i < count; i += count / 100) {
    double best = 1e9;
    for (int j = 0; j < 5; ++j) {
      const auto begin = std::chrono::steady_clock::now();
      ASSERT_TRUE(cache->lookup(key_of(i)));
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    worst_of_best = std::max(worst_of_best, best);
  }
  EXPECT_LT(worst_of_best, 1e-3);
}

}  // namespace
}  // namespace codetta::toolchain
