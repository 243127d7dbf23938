// SPDX-License-Identifier: Apache-2.0
// Hostile folders and files: nothing is followed, nothing of others is believed; the cache is refused or misses.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache_fixture.hpp"

namespace codetta::toolchain {
namespace {

class CacheFolder : public CacheTest {
 protected:
  void expect_refused(const std::string& reason) const {
    const auto cache = open();
    EXPECT_FALSE(cache->enabled());
    EXPECT_NE(cache->warning().find(reason), std::string::npos) << cache->warning();
    EXPECT_NE(cache->warning().find(directory()), std::string::npos);
    expect_works_without(*cache);
  }
  static void expect_works_without(Cache& cache) {
    const auto made = cache.get_or_make(key_of(9), [] { return Result<CacheEntry>(entry_of(9)); });
    ASSERT_TRUE(made);
    EXPECT_TRUE(same(*made, entry_of(9)));
  }
};

TEST_F(CacheFolder, WritableByOthers) {
  const std::pair<unsigned, std::string> cases[] = {{0770U, "its group (mode 770) may write"},
                                                    {0707U, "others (mode 707) may write"},
                                                    {0777U, "its group and others (mode 777) may write"},
                                                    {01777U, "its group and others (mode 777) may write"},
                                                    {0720U, "its group (mode 720) may write"}};
  for (const auto& [mode, reason] : cases) {
    (void)base::remove_tree(directory());
    ASSERT_EQ(::mkdir(directory().c_str(), 0700), 0);
    ASSERT_EQ(::chmod(directory().c_str(), mode), 0);
    expect_refused(reason);
  }
}

TEST_F(CacheFolder, OfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::mkdir(directory().c_str(), 0700), 0);
  ASSERT_EQ(::chown(directory().c_str(), 12345, 12345), 0);
  expect_refused("belongs to another user");
  EXPECT_FALSE(open(1 << 30, true)->enabled());
}

TEST_F(CacheFolder, Links) {
  ASSERT_EQ(::mkdir(path("real").c_str(), 0700), 0);
  ASSERT_EQ(::symlink(path("real").c_str(), directory().c_str()), 0);
  expect_refused("it is a symbolic link; name the folder that it leads to");
  EXPECT_TRUE(base::list_directory(path("real"))->empty());
  CacheOptions options;
  options.directory = directory() + "/";
  EXPECT_FALSE(Cache::open(options)->enabled());
}

TEST_F(CacheFolder, NotAFolderOrNotPossible) {
  ASSERT_TRUE(base::write_file_atomically(directory(), "a file"));
  expect_refused("Not a directory");
  for (const std::string& bad : {std::string(), std::string("/proc/none/cache"), std::string("a\0b", 3)}) {
    CacheOptions options;
    options.directory = bad;
    const auto cache = Cache::open(options);
    EXPECT_FALSE(cache->enabled()) << bad;
    EXPECT_NE(cache->warning(), "");
    expect_works_without(*cache);
  }
}

class CacheFile : public CacheTest {
 protected:
  CacheFile() : cache_(open()), file_(cache_->path_of(key_of(1))) {
    cache_->store(key_of(1), entry_of(1));
    good_ = *base::read_file(file_, 1 << 20);
    EXPECT_EQ(::unlink(file_.c_str()), 0);
  }
  // What stands in the entry's place is a miss, is taken away, and the entry comes back.
  void expect_replaced() {
    EXPECT_FALSE(cache_->lookup(key_of(1)));
    ASSERT_TRUE(cache_->get_or_make(key_of(1), [] { return Result<CacheEntry>(entry_of(1)); }));
    const auto found = cache_->lookup(key_of(1));
    ASSERT_TRUE(found);
    EXPECT_TRUE(same(*found, entry_of(1)));
    EXPECT_EQ(cache_->warning(), "");
  }
  std::shared_ptr<Cache> cache_;
  std::string file_;
  std::string good_;
};

TEST_F(CacheFile, ALinkIsNotFollowed) {
  ASSERT_TRUE(base::write_file_atomically(path("elsewhere"), good_, {base::Publish::Replace, 0600, false}));
  ASSERT_EQ(::symlink(path("elsewhere").c_str(), file_.c_str()), 0);
  expect_replaced();
  EXPECT_EQ(*base::read_file(path("elsewhere"), 1 << 20), good_);
}

TEST_F(CacheFile, ASecondNameIsNotBelieved) {
  ASSERT_TRUE(base::write_file_atomically(path("elsewhere"), good_, {base::Publish::Replace, 0600, false}));
  ASSERT_EQ(::link(path("elsewhere").c_str(), file_.c_str()), 0);
  expect_replaced();
  EXPECT_EQ(*base::read_file(path("elsewhere"), 1 << 20), good_);
}

TEST_F(CacheFile, APublicationThatStoppedHalfwayIsBelieved) {
  const std::string folder = file_.substr(0, file_.rfind('/'));
  ASSERT_TRUE(base::write_file_atomically(folder + "/.tmp-left", good_, {base::Publish::Replace, 0600, false}));
  ASSERT_EQ(::link((folder + "/.tmp-left").c_str(), file_.c_str()), 0);
  const auto found = cache_->lookup(key_of(1));
  ASSERT_TRUE(found);
  EXPECT_TRUE(same(*found, entry_of(1)));
}

TEST_F(CacheFile, APipeDoesNotHang) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  expect_replaced();
}

TEST_F(CacheFile, OfAnotherUserOrWritableByOthers) {
  ASSERT_TRUE(base::write_file_atomically(file_, good_, {base::Publish::Replace, 0600, false}));
  ASSERT_EQ(::chmod(file_.c_str(), 0622), 0);
  expect_replaced();
  if (::geteuid() != 0) return;  // only root can give a file away
  ASSERT_EQ(::chown(file_.c_str(), 12345, 12345), 0);
  expect_replaced();
}

TEST_F(CacheFile, AFolderInItsPlaceIsAMiss) {
  ASSERT_EQ(::mkdir(file_.c_str(), 0700), 0);
  EXPECT_FALSE(cache_->lookup(key_of(1)));
  EXPECT_TRUE(cache_->get_or_make(key_of(1), [] { return Result<CacheEntry>(entry_of(1)); }));
}

// As copies and `chmod -R a+rX` leave them.
TEST_F(CacheFile, SubfoldersMayBeReadButNotWrittenByOthers) {
  const std::string folder = file_.substr(0, file_.rfind('/'));
  for (const unsigned mode : {0755U, 0711U}) {
    ASSERT_EQ(::chmod(folder.c_str(), mode), 0);
    ASSERT_TRUE(base::remove_file(file_));
    cache_->store(key_of(1), entry_of(1));
    EXPECT_EQ(cache_->warning(), "");
    EXPECT_TRUE(cache_->lookup(key_of(1))) << mode;
  }
  ASSERT_EQ(::chmod(folder.c_str(), 0775), 0);
  cache_->store(key_of(1), entry_of(2));
  EXPECT_NE(cache_->warning().find("its group (mode 775) may write to " + folder + " (chmod 700 closes it)"),
            std::string::npos)
      << cache_->warning();
}

// What stores would meet, without one.
TEST_F(CacheFile, FoldersThatCannotBeUsedAreTold) {
  const std::string folder = file_.substr(0, file_.rfind('/'));
  EXPECT_EQ(cache_->defect(), "");
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  EXPECT_EQ(cache_->defect(), "");
  ASSERT_EQ(::chmod(folder.c_str(), 0722), 0);
  EXPECT_EQ(cache_->defect(), "its group and others (mode 722) may write to " + folder +
                                  " (chmod 700 closes it); kernels that belong there are compiled but not kept");
  ASSERT_TRUE(base::remove_tree(folder));
  ASSERT_TRUE(base::write_file_atomically(folder, "a file"));
  EXPECT_EQ(cache_->defect(), folder + " is no folder; kernels that belong there are compiled but not kept");
  EXPECT_EQ(Cache::disabled("")->defect(), "");
}

// Without locks two processes may do the same work, and no worse; but not without a word.
TEST_F(CacheFile, LocksThatOthersMayWriteAreTold) {
  const std::string locks = cache_->directory() + "/locks";
  ASSERT_EQ(::mkdir(locks.c_str(), 0700) == 0 || errno == EEXIST, true);
  ASSERT_EQ(::chmod(locks.c_str(), 0755), 0);
  EXPECT_TRUE(cache_->get_or_make(key_of(2), [] { return Result<CacheEntry>(entry_of(2)); }));
  EXPECT_EQ(cache_->warning(), "");
  EXPECT_EQ(cache_->defect(), "");
  ASSERT_EQ(::chmod(locks.c_str(), 0775), 0);
  const std::string why = "its group (mode 775) may write to " + locks +
                          " (chmod 700 closes it); processes that need the same kernel at once compile it each";
  EXPECT_EQ(cache_->defect(), why);
  EXPECT_TRUE(cache_->get_or_make(key_of(3), [] { return Result<CacheEntry>(entry_of(3)); }));
  EXPECT_EQ(cache_->warning(), "the cache in " + cache_->directory() + " has no locks: " + why);
  EXPECT_TRUE(cache_->lookup(key_of(3))) << "it is kept all the same";
}

TEST_F(CacheFile, LocksThatAreNoFolderAreTold) {
  const std::string locks = cache_->directory() + "/locks";
  const std::string why = locks + " is no folder; processes that need the same kernel at once compile it each";
  const auto told = [&] {
    EXPECT_EQ(cache_->defect(), why);
    const auto other = Cache::open({.directory = cache_->directory()});
    EXPECT_TRUE(other->get_or_make(key_of(4), [] { return Result<CacheEntry>(entry_of(4)); }));
    EXPECT_EQ(other->warning(), "the cache in " + cache_->directory() + " has no locks: " + why);
    EXPECT_TRUE(other->lookup(key_of(4))) << "it is kept all the same";
    cache_->clear();
  };
  (void)base::remove_tree(locks);  // where there are any
  ASSERT_TRUE(base::write_file_atomically(locks, "a file"));
  told();
  ASSERT_TRUE(base::remove_file(locks));
  ASSERT_EQ(::mkdir(path("planted").c_str(), 0700), 0);
  ASSERT_EQ(::symlink(path("planted").c_str(), locks.c_str()), 0);
  told();
  EXPECT_TRUE(base::list_directory(path("planted"))->empty());
}

// A disk that is mounted to be read, a folder that its owner has closed: found without a write.
TEST_F(CacheFile, FoldersThatMayNotBeWrittenAreTold) {
  const std::string locks = cache_->directory() + "/locks";
  ASSERT_EQ(::mkdir(locks.c_str(), 0700) == 0 || errno == EEXIST, true);
  const std::string kept = ": Read-only file system; kernels that belong there are compiled but not kept";
  const std::string told[] = {
      "write to " + cache_->directory() + ": Read-only file system; kernels are compiled but not kept",
      "write to " + file_.substr(0, file_.rfind('/')) + kept,
      "write to " + locks + ": Read-only file system; processes that need the same kernel at once compile it each", ""};
  for (int nth = 0; nth < 4; ++nth) {
    base::SystemCalls calls = base::SystemCalls::real();
    int asked = 0;
    calls.faccessat = [&](int folder, const char* path, int mode, int flags) {
      if (asked++ != nth) return ::faccessat(folder, path, mode, flags);
      return errno = EROFS, -1;
    };
    EXPECT_EQ(Cache::open({.directory = cache_->directory(), .calls = &calls})->defect(), told[nth]);
    EXPECT_EQ(asked, nth == 0 ? 1 : nth == 1 ? 2 : 3);
    asked = 0;
    EXPECT_EQ(Cache::open({.directory = cache_->directory(), .read_only = true, .calls = &calls})->defect(), "");
    EXPECT_EQ(asked, 0);
  }
}

TEST_F(CacheFile, ASubfolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  const std::string folder = file_.substr(0, file_.rfind('/'));
  ASSERT_EQ(::chown(folder.c_str(), 12345, 12345), 0);
  cache_->store(key_of(1), entry_of(2));
  EXPECT_NE(cache_->warning().find(folder + " belongs to another user"), std::string::npos) << cache_->warning();
}

TEST_F(CacheFile, ALinkedSubfolderIsNotEntered) {
  const std::string folder = file_.substr(0, file_.rfind('/'));
  ASSERT_TRUE(base::remove_tree(folder));
  ASSERT_EQ(::mkdir(path("planted").c_str(), 0700), 0);
  ASSERT_TRUE(base::write_file_atomically(path("planted/" + file_.substr(file_.rfind('/') + 1)), good_,
                                          {base::Publish::Replace, 0600, false}));
  ASSERT_EQ(::symlink(path("planted").c_str(), folder.c_str()), 0);
  EXPECT_FALSE(cache_->lookup(key_of(1)));
  cache_->store(key_of(1), entry_of(2));
  cache_->clear();
  EXPECT_EQ(base::list_directory(path("planted"))->size(), 1U);
  EXPECT_NE(cache_->warning(), "");
}

}  // namespace
}  // namespace codetta::toolchain
