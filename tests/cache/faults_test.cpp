// SPDX-License-Identifier: Apache-2.0
// The n-th system call of the cache fails, for every n and many reasons: the result is right all the same, there is at
// most one warning, and the cache works again when the calls do.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "cache_fixture.hpp"

namespace codetta::toolchain {
namespace {

constexpr std::array<int, 9> failures = {ENOSPC, EIO, EACCES, EROFS, EMFILE, EDQUOT, ESTALE, ENOLCK, EINTR};

// Real calls; the n-th fails, alone or with all that follow. An interruption happens once: it is to be repeated.
class Faults {
 public:
  Faults(int nth, int errno_value, bool once)
      : nth_(nth), errno_value_(errno_value), once_(once || errno_value == EINTR) {}

  base::SystemCalls calls() {
    base::SystemCalls table = base::SystemCalls::real();
    wrap(table.openat, -1);
    wrap(table.read, ssize_t{-1});
    wrap(table.write, ssize_t{-1});
    wrap(table.fsync, -1);
    wrap(table.fstat, -1);
    wrap(table.fstatat, -1);
    wrap(table.faccessat, -1);
    wrap(table.linkat, -1);
    wrap(table.renameat, -1);
    wrap(table.unlinkat, -1);
    wrap(table.mkdirat, -1);
    wrap(table.futimens, -1);
    wrap(table.flock, -1);
    wrap(table.fdopendir, static_cast<DIR*>(nullptr));
    wrap(table.readdir, static_cast<struct dirent*>(nullptr));
    return table;
  }
  [[nodiscard]] bool reached() const { return count_ >= nth_; }

 private:
  template <class R, class... A>
  void wrap(std::function<R(A...)>& call, R failed) {
    call = [this, failed, real = call](A... arguments) -> R {
      ++count_;
      if (once_ ? count_ == nth_ : count_ >= nth_) {
        errno = errno_value_;
        return failed;
      }
      return real(arguments...);
    };
  }

  int nth_;
  int errno_value_;
  bool once_;
  int count_ = 0;
};

class CacheFaults : public CacheTest {
 protected:
  // Operation(cache, description) with the n-th call failing, until n is beyond the last call.
  template <class Prepare, class Operation>
  void sweep(bool once, Prepare prepare, Operation operation) {
    for (const int failure : failures) {
      int n = 1;
      // Scans make hundreds of calls that are alike; CI tries some of them.
      for (bool reached = true; reached; n += n > 60 && CODETTA_TEST_FULL == 0 ? 37 : 1) {
        ASSERT_LT(n, 2000);
        (void)base::remove_tree(directory());
        prepare();
        Faults faults(n, failure, once);
        const base::SystemCalls calls = faults.calls();
        const std::string what =
            "call " + std::to_string(n) + " errno " + std::to_string(failure) + (once ? " once" : " on");
        const auto cache = open(1 << 30, false, &calls);
        operation(*cache, what);
        const std::string warning = cache->warning();
        operation(*cache, what);
        if (!warning.empty()) {
          EXPECT_EQ(cache->warning(), warning) << what;
        }
        reached = faults.reached();
        EXPECT_LE(count_files(".tmp-"), 2U) << what;
        expect_recovered(what);
      }
      EXPECT_GT(n, 5);
    }
  }

  void expect_recovered(const std::string& what) const {
    const auto cache = open();
    EXPECT_TRUE(cache->enabled()) << what;
    for (int i = 0; i < 2; ++i) {
      const auto made = cache->get_or_make(key_of(1), [] { return Result<CacheEntry>(entry_of(1)); });
      ASSERT_TRUE(made) << what;
      EXPECT_TRUE(same(*made, entry_of(1))) << what;
    }
    EXPECT_TRUE(cache->lookup(key_of(1))) << what;
    EXPECT_EQ(cache->warning(), "") << what;
  }

  static void expect_right(Cache& cache, const std::string& what) {
    const auto made = cache.get_or_make(key_of(1), [] { return Result<CacheEntry>(entry_of(1)); });
    ASSERT_TRUE(made) << what;
    EXPECT_TRUE(same(*made, entry_of(1))) << what;
  }
};

TEST_F(CacheFaults, Making) {
  for (const bool once : {true, false})
    sweep(
        once, [] {}, expect_right);
}

TEST_F(CacheFaults, Finding) {
  for (const bool once : {true, false}) {
    sweep(
        once, [&] { open()->store(key_of(1), entry_of(1)); }, expect_right);
  }
}

TEST_F(CacheFaults, Evicting) {
  sweep(
      true, [&] { open()->store(key_of(1), entry_of(1)); },
      [&](Cache& cache, const std::string& what) {
        cache.evict();
        expect_right(cache, what);
      });
}

TEST_F(CacheFaults, TheFirstFailureIsToldOnce) {
  base::SystemCalls calls = base::SystemCalls::real();
  calls.write = [](int, const void*, size_t) -> ssize_t { return errno = ENOSPC, -1; };
  std::vector<std::string> told;
  CacheOptions options;
  options.directory = directory();
  options.calls = &calls;
  options.on_warning = [&](const std::string& text) { told.push_back(text); };
  const auto cache = Cache::open(options);
  EXPECT_TRUE(told.empty());
  for (int i = 0; i < 3; ++i) cache->store(key_of(i), entry_of(i));
  EXPECT_FALSE(cache->keep_source("codetta_one.cpp", "int x;"));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("No space left"), std::string::npos) << told[0];
  EXPECT_EQ(cache->statistics().stored, 0);
}

TEST_F(CacheFaults, WithoutLocksItWorks) {
  base::SystemCalls calls = base::SystemCalls::real();
  calls.flock = [](int, int) { return errno = ENOLCK, -1; };
  const auto cache = open(1 << 30, false, &calls);
  expect_right(*cache, "making");
  expect_right(*cache, "finding");
  cache->evict();
  EXPECT_EQ(cache->statistics().stored, 1);
  EXPECT_EQ(cache->warning(), "");
  EXPECT_LE(base::list_directory(directory() + "/locks")->size(), 1U);
}

TEST_F(CacheFaults, WithoutHardLinksRenameServes) {
  base::SystemCalls calls = base::SystemCalls::real();
  calls.linkat = [](int, const char*, int, const char*) { return errno = EPERM, -1; };
  const auto cache = open(1 << 30, false, &calls);
  cache->store(key_of(1), entry_of(1));
  EXPECT_TRUE(cache->lookup(key_of(1)));
  EXPECT_EQ(cache->warning(), "");
}

TEST_F(CacheFaults, ShortReadsAndWrites) {
  base::SystemCalls calls = base::SystemCalls::real();
  calls.write = [](int fd, const void* data, size_t size) {
    return base::SystemCalls::real().write(fd, data, std::min<size_t>(size, 7));
  };
  calls.read = [](int fd, void* data, size_t size) {
    return base::SystemCalls::real().read(fd, data, std::min<size_t>(size, 5));
  };
  const auto cache = open(1 << 30, false, &calls);
  cache->store(key_of(1), entry_of(1));
  const auto found = cache->lookup(key_of(1));
  ASSERT_TRUE(found);
  EXPECT_TRUE(same(*found, entry_of(1)));
}

}  // namespace
}  // namespace codetta::toolchain
