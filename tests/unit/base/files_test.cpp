// SPDX-License-Identifier: Apache-2.0
// Files and folders on the real system.
#include "base/files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace codetta::base {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryDirectory::make(testing::TempDir());
    ASSERT_TRUE(made);
    folder_ = std::make_unique<TemporaryDirectory>(std::move(*made));
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_->path() + "/" + name; }
  void put(const std::string& name, std::string_view bytes) const {
    const auto written = write_file_atomically(path(name), bytes);
    ASSERT_TRUE(written) << written.error().message();
  }
  [[nodiscard]] std::string get(const std::string& name) const {
    auto bytes = read_file(path(name), 1 << 24);
    return bytes ? *bytes : bytes.error().message();
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    const auto entries = list_directory(folder_->path());
    for (const auto& entry : *entries) out.push_back(entry.name);
    return out;
  }
  [[nodiscard]] FileDescriptor opened() const { return std::move(*open_directory(folder_->path())); }

  std::unique_ptr<TemporaryDirectory> folder_;
};

using Names = std::vector<std::string>;

TEST_F(Files, WriteThenRead) {
  for (const size_t size : {0UL, 1UL, 65535UL, 65536UL, 65537UL, 3000000UL}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 >> 3);
    put("f", bytes);
    EXPECT_EQ(get("f"), bytes) << size;
  }
  EXPECT_EQ(names(), Names{"f"});
}

TEST_F(Files, ReadIsBounded) {
  put("f", std::string(1000, 'x'));
  EXPECT_EQ(read_file(path("f"), 1000)->size(), 1000U);
  EXPECT_EQ(read_file(path("f"), 999).error(), (SystemError{EFBIG, "read", path("f")}));
  put("f", "");
  EXPECT_EQ(*read_file(path("f"), 0), "");
  EXPECT_GT(read_file("/proc/self/status", 1 << 20)->size(), 100U);  // claims a size of 0
  put("f", "front and back");
  EXPECT_EQ(*read_front(path("f"), 5), "front");
  EXPECT_EQ(*read_front(path("f"), 100), "front and back");
}

TEST_F(Files, SeveralAreWrittenOrNone) {
  put("a", "old");
  ASSERT_EQ(::mkdir(path("sub").c_str(), 0700), 0);
  const FileBytes good[] = {{path("a"), "new"}, {"/dev/null", "gone"}, {path("sub/b"), "second", 0700}};
  const auto written = write_files_atomically(good);
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(get("a"), "new");
  EXPECT_EQ(get("sub/b"), "second");
  EXPECT_EQ(::access(path("sub/b").c_str(), X_OK), 0);
  const FileBytes bad[] = {{path("a"), "newer"}, {path("c"), "third"}, {path("none/d"), "fourth"}};
  EXPECT_EQ(write_files_atomically(bad).error(), (SystemError{ENOENT, "open", path("none/d")}));
  EXPECT_EQ(get("a"), "new");
  EXPECT_EQ(names(), (Names{"a", "sub"}));
  // What a device refuses leaves none of the files in front of it.
  const FileBytes full[] = {{path("a"), "newer"}, {path("c"), "third"}, {"/dev/full", "x"}, {path("sub/b"), "other"}};
  EXPECT_EQ(write_files_atomically(full).error(), (SystemError{ENOSPC, "write", "/dev/full"}));
  EXPECT_EQ(get("a"), "new");
  EXPECT_EQ(get("sub/b"), "second");
  EXPECT_EQ(names(), (Names{"a", "sub"}));
  const FileBytes folder[] = {{path("a"), "newer"}, {path("sub"), "x"}};
  EXPECT_EQ(write_files_atomically(folder).error().errno_value, EISDIR);
  EXPECT_EQ(get("a"), "new");
  EXPECT_EQ(names(), (Names{"a", "sub"}));
}

TEST_F(Files, DevicesAreNotRead) {
  for (const char* device : {"/dev/zero", "/dev/null", "/dev/urandom"}) {
    EXPECT_EQ(read_file(device, 100).error(), (SystemError{EINVAL, "check for a file or a pipe", device}));
    EXPECT_EQ(read_front(device, 100).error().errno_value, EINVAL);
  }
  ASSERT_EQ(::symlink("/dev/zero", path("z").c_str()), 0);
  EXPECT_EQ(read_file(path("z"), 100).error().errno_value, EINVAL);
}

TEST_F(Files, PipesAreReadUntilTheyClose) {
  ASSERT_EQ(::mkfifo(path("p").c_str(), 0600), 0);
  std::string sent(300000, '\0');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7 >> 4);
  const auto write_slowly = [&] {
    const FileDescriptor to(::open(path("p").c_str(), O_WRONLY | O_CLOEXEC));
    for (size_t at = 0; at < sent.size(); at += 100000) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      EXPECT_TRUE(write_all(to, std::string_view(sent).substr(at, 100000)));
    }
  };
  std::thread writer(write_slowly);
  EXPECT_EQ(*read_file(path("p"), 1 << 20), sent);
  writer.join();
  std::thread silent([&] { const FileDescriptor to(::open(path("p").c_str(), O_WRONLY | O_CLOEXEC)); });
  EXPECT_EQ(*read_file(path("p"), 100), "");
  silent.join();
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[1]);
  const FileDescriptor from(ends[0]);
  EXPECT_EQ(*read_file("/proc/self/fd/" + std::to_string(from.get()), 100), "");
  // Nobody comes.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(read_file(path("p"), 100).error(), (SystemError{ETIMEDOUT, "wait for a writer of", path("p")}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(4 * pipe_patience_ms));
}

TEST_F(Files, PipesAreWrittenOnceTheyAreRead) {
  ASSERT_EQ(::mkfifo(path("p").c_str(), 0600), 0);
  const std::string bytes(100'000, 'x');  // more than a pipe holds
  std::string got;
  std::thread reader([&] {
    ::poll(nullptr, 0, 50);
    if (auto read = read_file(path("p"), bytes.size())) got = *read;
  });
  const auto written = write_file_atomically(path("p"), bytes);
  reader.join();
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(write_file_atomically(path("p"), "x").error(), (SystemError{ETIMEDOUT, "wait for a reader of", path("p")}));
  EXPECT_EQ(names(), Names{"p"});
}

TEST_F(Files, ReadErrors) {
  EXPECT_EQ(read_file(path("none"), 10).error(), (SystemError{ENOENT, "open", path("none")}));
  EXPECT_EQ(read_file(path("none"), 10).error().message(), "open " + path("none") + ": No such file or directory");
  EXPECT_EQ(read_file(folder_->path(), 10).error().errno_value, EISDIR);
  EXPECT_EQ(read_file(std::string("a\0b", 3), 10).error().errno_value, EINVAL);
}

TEST_F(Files, ReadAtTakesPlainNamesOfRegularFilesOnly) {
  put("f", "data");
  ASSERT_EQ(::symlink("f", path("link").c_str()), 0);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(path("sub").c_str(), 0700), 0);
  const FileDescriptor folder = opened();
  EXPECT_EQ(*read_file_at(folder, "f", 10), "data");
  EXPECT_EQ(read_file_at(folder, "link", 10).error().errno_value, ELOOP);
  EXPECT_EQ(read_file_at(folder, "fifo", 10).error(), (SystemError{EINVAL, "check for a regular file", "fifo"}));
  EXPECT_EQ(read_file_at(folder, "sub", 10).error().errno_value, EISDIR);
  for (const char* name : {"", ".", "..", "sub/f", "/etc/passwd"}) {
    EXPECT_EQ(read_file_at(folder, name, 10).error().errno_value, EINVAL) << name;
  }
  EXPECT_EQ(*read_file(path("link"), 10), "data");
}

TEST_F(Files, WritesGoToWhatALinkNamesAlthoughItIsNotThere) {
  ASSERT_EQ(::mkdir(path("sub").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("sub/next", path("link").c_str()), 0);
  ASSERT_EQ(::symlink("../made", path("sub/next").c_str()), 0);
  ASSERT_TRUE(write_file_atomically(path("link"), "data"));
  EXPECT_EQ(*read_file(path("made"), 10), "data");
  struct stat info {};
  for (const char* link : {"link", "sub/next"}) {
    ASSERT_EQ(::lstat(path(link).c_str(), &info), 0);
    EXPECT_TRUE(S_ISLNK(info.st_mode)) << link;
  }
  ASSERT_EQ(::symlink("circle", path("circle").c_str()), 0);
  EXPECT_EQ(write_file_atomically(path("circle"), "data").error(), (SystemError{ELOOP, "write", path("circle")}));
  ASSERT_EQ(::lstat(path("circle").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  const std::string long_name = path(std::string(300, 'x'));
  EXPECT_EQ(write_file_atomically(long_name, "data").error(), (SystemError{ENAMETOOLONG, "write", long_name}));
}

TEST_F(Files, DescriptorsAreCloseOnExec) {
  put("f", "data");
  const FileDescriptor folder = opened();
  const FileDescriptor file = std::move(*open_file_at(folder, "f", O_RDONLY));
  EXPECT_EQ(::fcntl(folder.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(Files, ReplaceAndKeepExisting) {
  const FileDescriptor folder = opened();
  WriteOptions keep;
  keep.publish = Publish::KeepExisting;
  keep.mode = 0600;
  EXPECT_TRUE(*write_file_atomically_at(folder, "f", "one", keep));
  EXPECT_FALSE(*write_file_atomically_at(folder, "f", "two", keep));
  EXPECT_EQ(get("f"), "one");
  struct stat info {};
  ASSERT_EQ(::stat(path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_EQ(info.st_nlink, 1U);
  EXPECT_TRUE(*write_file_atomically_at(folder, "f", "three"));
  EXPECT_EQ(get("f"), "three");
  EXPECT_EQ(write_file_atomically_at(folder, "../f", "x").error().errno_value, EINVAL);
  EXPECT_EQ(names(), Names{"f"});
}

TEST_F(Files, WhatIsReplacedIsReadByNobodyElse) {
  const auto mode = [&] {
    struct stat info {};
    EXPECT_EQ(::stat(path("f").c_str(), &info), 0);
    return info.st_mode & 07777;
  };
  put("f", "secret");
  ASSERT_EQ(::chmod(path("f").c_str(), 0600), 0);
  EXPECT_TRUE(*write_file_atomically(path("f"), "new"));
  EXPECT_EQ(get("f"), "new");
  EXPECT_EQ(mode(), 0600U);
  EXPECT_TRUE(*write_file_atomically(path("f"), "library", {.mode = 0755}));
  EXPECT_EQ(mode() & 0066, 0U);
  EXPECT_EQ(mode() & 0100, 0100U);
}

TEST_F(Files, LongestNameCanBeWritten) {
  const std::string name(255, 'n');
  put(name, "data");
  EXPECT_EQ(get(name), "data");
}

TEST_F(Files, WriteToBadPlaces) {
  EXPECT_EQ(write_file_atomically(path("no/f"), "x").error().errno_value, ENOENT);
  EXPECT_EQ(write_file_atomically(folder_->path(), "x").error().errno_value, EISDIR);
  put("f", "x");
  EXPECT_EQ(write_file_atomically(path("f/g"), "x").error().errno_value, ENOTDIR);
  EXPECT_EQ(write_file_atomically("/dev/full", "x").error(), (SystemError{ENOSPC, "write", "/dev/full"}));
  struct stat info {};
  ASSERT_EQ(::stat("/dev/full", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));  // written to, never replaced
  EXPECT_TRUE(*write_file_atomically("/dev/null", "x"));
}

TEST_F(Files, WritesThroughLinks) {
  put("target", "old");
  ASSERT_EQ(::symlink("target", path("link").c_str()), 0);
  put("link", "new");
  EXPECT_EQ(get("target"), "new");
  EXPECT_EQ(names(), (Names{"link", "target"}));
}

TEST_F(Files, ReadersNeverSeeHalfAFile) {
  const std::array<std::string, 2> contents{std::string(200000, 'a'), std::string(100000, 'b')};
  put("f", contents[0]);
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (const std::string& content : contents) {
    writers.emplace_back([&] {
      WriteOptions fast;
      fast.sync = false;
      while (!stop) EXPECT_TRUE(write_file_atomically(path("f"), content, fast));
    });
  }
  for (int i = 0; i < 300; ++i) {
    const std::string seen = get("f");
    ASSERT_TRUE(seen == contents[0] || seen == contents[1]) << seen.size();
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(names(), Names{"f"});
}

TEST_F(Files, OnePublisherWins) {
  std::atomic<int> won{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const FileDescriptor folder = opened();
      WriteOptions keep;
      keep.publish = Publish::KeepExisting;
      for (int i = 0; i < 50; ++i) {
        auto done = write_file_atomically_at(folder, "k" + std::to_string(i), std::to_string(t), keep);
        ASSERT_TRUE(done);
        won += *done ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 50);
  EXPECT_EQ(names().size(), 50U);
}

TEST_F(Files, ListIsSortedWithKinds) {
  put("b", "");
  ASSERT_EQ(::mkdir(path("a").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("nowhere", path("c").c_str()), 0);
  ASSERT_EQ(::mkfifo(path("d").c_str(), 0600), 0);
  const std::vector<DirectoryEntry> expected = {
      {"a", EntryKind::Folder}, {"b", EntryKind::File}, {"c", EntryKind::Link}, {"d", EntryKind::Other}};
  EXPECT_EQ(*list_directory(folder_->path()), expected);
  const FileDescriptor folder = opened();
  EXPECT_EQ(*list_directory_at(folder), expected);
  EXPECT_EQ(*list_directory_at(folder), expected);  // a second time as well
  EXPECT_EQ(list_directory(path("none")).error().errno_value, ENOENT);
  EXPECT_EQ(list_directory(path("b")).error().errno_value, ENOTDIR);
}

TEST_F(Files, PrivateDirectory) {
  const auto made = make_private_directory(path("x/y/z/"));
  ASSERT_TRUE(made) << made.error().message();
  for (const char* name : {"x", "x/y", "x/y/z"}) {
    struct stat info {};
    ASSERT_EQ(::stat(path(name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700U) << name;
  }
  EXPECT_TRUE(make_private_directory(path("x/y/z")));  // again
  EXPECT_TRUE(make_private_directory_at(*made, "sub"));
  EXPECT_EQ(make_private_directory_at(*made, "a/b").error().errno_value, EINVAL);
}

TEST_F(Files, PrivateDirectoryRefusesWhatOthersMayWrite) {
  ASSERT_EQ(::mkdir(path("open").c_str(), 0700), 0);
  for (const unsigned mode : {0755U, 0701U, 0710U, 0744U}) {
    ASSERT_EQ(::chmod(path("open").c_str(), static_cast<mode_t>(mode)), 0);
    EXPECT_TRUE(make_private_directory(path("open"))) << mode;
  }
  for (const unsigned mode : {0702U, 0720U, 0770U, 0777U}) {
    ASSERT_EQ(::chmod(path("open").c_str(), static_cast<mode_t>(mode)), 0);
    EXPECT_EQ(make_private_directory(path("open")).error(), (SystemError{EPERM, "check mode", path("open")})) << mode;
  }
  ASSERT_EQ(::mkdir(path("mine").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("mine", path("link").c_str()), 0);
  EXPECT_FALSE(make_private_directory(path("link")));
  EXPECT_FALSE(make_private_directory(path("link/")));  // a trailing slash would follow it
  put("file", "");
  EXPECT_EQ(make_private_directory(path("file")).error().errno_value, ENOTDIR);
  EXPECT_EQ(make_private_directory("").error().errno_value, ENOENT);
}

TEST_F(Files, PrivateDirectoryRefusesAForeignOwner) {
  SystemCalls calls = SystemCalls::real();
  calls.fstat = [](int fd, struct stat* info) {
    const int result = ::fstat(fd, info);
    info->st_uid += 1;
    return result;
  };
  EXPECT_EQ(make_private_directory(path("p"), calls).error(), (SystemError{EPERM, "check owner", path("p")}));
}

TEST_F(Files, RemoveTreeFollowsNoLink) {
  put("keep", "data");
  ASSERT_TRUE(make_private_directory(path("tree/a/b")));
  ASSERT_EQ(::symlink(folder_->path().c_str(), path("tree/a/up").c_str()), 0);
  put("tree/a/b/f", "x");
  EXPECT_TRUE(remove_tree(path("tree")));
  EXPECT_EQ(names(), Names{"keep"});
  EXPECT_TRUE(remove_tree(path("tree")));  // nothing there
  ASSERT_EQ(::symlink(folder_->path().c_str(), path("link").c_str()), 0);
  EXPECT_FALSE(remove_tree(path("link")));
  EXPECT_EQ(get("keep"), "data");
}

TEST_F(Files, RemoveFile) {
  put("f", "x");
  EXPECT_TRUE(remove_file(path("f")));
  EXPECT_TRUE(remove_file(path("f")));
  EXPECT_FALSE(remove_file(folder_->path()));
  put("g", "x");
  const FileDescriptor folder = opened();
  EXPECT_TRUE(remove_file_at(folder, "g"));
  EXPECT_EQ(remove_file_at(folder, "../g").error().errno_value, EINVAL);
  EXPECT_EQ(names(), Names{});
}

TEST_F(Files, TemporaryDirectoryGoesWithItsOwner) {
  std::string where;
  {
    const auto temporary = TemporaryDirectory::make(folder_->path(), "t-");
    ASSERT_TRUE(temporary);
    where = temporary->path();
    ASSERT_TRUE(write_file_atomically(where + "/f", "x"));
    EXPECT_EQ(::access(where.c_str(), F_OK), 0);
  }
  EXPECT_NE(::access(where.c_str(), F_OK), 0);
  EXPECT_FALSE(TemporaryDirectory::make(path("none")));
}

TEST(SealedFile, CannotBeChanged) {
  const std::string bytes(100000, 's');
  const auto file = make_sealed_file("test", bytes);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(::pwrite(file->get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(file->get(), 0), -1);
  EXPECT_EQ(::ftruncate(file->get(), 200000), -1);
  EXPECT_EQ(*read_file("/proc/self/fd/" + std::to_string(file->get()), 1 << 20), bytes);
}

}  // namespace
}  // namespace codetta::base
