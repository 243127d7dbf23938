// SPDX-License-Identifier: Apache-2.0
// Every file operation with its n-th system call failing, for every n: an error or the right result, and nothing left
// over.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/files.hpp"

namespace codetta::base {
namespace {

// Real calls, of which the n-th (from 1) fails with the given errno, once or from then on.
class Faults {
 public:
  Faults(int nth, int errno_value, bool once) : nth_(nth), errno_value_(errno_value), once_(once) {}

  SystemCalls calls() {
    SystemCalls table = SystemCalls::real();
    wrap(table.openat);
    wrap(table.read);
    wrap(table.write);
    wrap(table.fsync);
    wrap(table.fstat);
    wrap(table.fstatat);
    wrap(table.linkat);
    wrap(table.renameat);
    wrap(table.mkdirat);
    wrap(table.memfd_create);
    wrap(table.add_seals);
    return table;
  }
  [[nodiscard]] bool reached() const { return count_ >= nth_; }

 private:
  template <class R, class... A>
  void wrap(std::function<R(A...)>& call) {
    call = [this, real = call](A... arguments) -> R {
      ++count_;
      if (once_ ? count_ == nth_ : count_ >= nth_) {
        errno = errno_value_;
        return -1;
      }
      return real(arguments...);
    };
  }

  int nth_;
  int errno_value_;
  bool once_;
  int count_ = 0;
};

constexpr std::array<int, 8> failures = {ENOSPC, EIO, EACCES, EROFS, EMFILE, EDQUOT, ESTALE, ENOMEM};
const std::string content(300000, 'c');

class FileFaults : public testing::Test {
 protected:
  FileFaults() : folder_(std::move(*TemporaryDirectory::make(testing::TempDir()))) {}
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  [[nodiscard]] size_t entries() const { return list_directory(folder_.path())->size(); }

  // Runs the operation with the n-th call failing until n is past its last call.
  template <class Operation>
  void sweep(Operation operation) {
    for (const int failure : failures) {
      int n = 1;
      for (bool reached = true; reached && n < 200; ++n) {
        Faults faults(n, failure, false);
        const SystemCalls calls = faults.calls();
        operation(calls, failure, n);
        reached = faults.reached();
      }
      EXPECT_GT(n, 2);
      EXPECT_LT(n, 200);
    }
  }

  TemporaryDirectory folder_;
};

TEST_F(FileFaults, ReplacingWrite) {
  ASSERT_TRUE(write_file_atomically(path("f"), "old"));
  sweep([&](const SystemCalls& calls, int failure, int n) {
    ASSERT_TRUE(write_file_atomically(path("f"), "old"));
    const auto written = write_file_atomically(path("f"), content, {}, calls);
    const std::string now = *read_file(path("f"), 1 << 20);
    if (written) {
      EXPECT_EQ(now.size(), content.size()) << n;
    } else {
      EXPECT_EQ(now, "old") << n;
      EXPECT_EQ(written.error().errno_value, failure) << n;
    }
    EXPECT_EQ(entries(), 1U) << "call " << n << " left a temporary file";
  });
}

TEST_F(FileFaults, SeveralWrites) {
  sweep([&](const SystemCalls& calls, int failure, int n) {
    for (const char* name : {"f", "g"}) ASSERT_TRUE(write_file_atomically(path(name), "old"));
    const FileBytes files[] = {{path("f"), content}, {path("g"), "new"}};
    const auto written = write_files_atomically(files, calls);
    const bool f_is_old = *read_file(path("f"), 1 << 20) == "old", g_is_old = *read_file(path("g"), 1 << 20) == "old";
    if (written) {
      EXPECT_FALSE(f_is_old || g_is_old) << n;
    } else {
      EXPECT_EQ(written.error().errno_value, failure) << n;
      EXPECT_TRUE(g_is_old) << n;
      EXPECT_TRUE(f_is_old || written.error().call == "rename") << n << " " << written.error().message();
    }
    EXPECT_EQ(entries(), 2U) << "call " << n << " left a temporary file";
  });
}

TEST_F(FileFaults, KeepingWrite) {
  const auto folder = open_directory(folder_.path());
  ASSERT_TRUE(folder);
  WriteOptions keep;
  keep.publish = Publish::KeepExisting;
  sweep([&](const SystemCalls& calls, int, int n) {
    ASSERT_TRUE(remove_file(path("f")));
    const auto written = write_file_atomically_at(*folder, "f", content, keep, calls);
    EXPECT_EQ(entries(), written ? 1U : 0U) << n;
    if (written) {
      EXPECT_EQ(read_file(path("f"), 1 << 20)->size(), content.size());
    }
  });
}

TEST_F(FileFaults, WithoutHardLinksRenameServes) {
  const auto folder = open_directory(folder_.path());
  ASSERT_TRUE(folder);
  WriteOptions keep;
  keep.publish = Publish::KeepExisting;
  for (const int unsupported : {EPERM, EOPNOTSUPP, ENOSYS, EMLINK}) {
    SystemCalls calls = SystemCalls::real();
    calls.linkat = [unsupported](int, const char*, int, const char*) {
      errno = unsupported;
      return -1;
    };
    ASSERT_TRUE(remove_file(path("f")));
    EXPECT_TRUE(*write_file_atomically_at(*folder, "f", "x", keep, calls));
    EXPECT_EQ(*read_file(path("f"), 10), "x");
    EXPECT_EQ(entries(), 1U);
  }
}

TEST_F(FileFaults, Read) {
  ASSERT_TRUE(write_file_atomically(path("f"), content));
  sweep([&](const SystemCalls& calls, int failure, int) {
    const auto bytes = read_file(path("f"), 1 << 20, calls);
    if (bytes) {
      EXPECT_EQ(*bytes, content);
    } else {
      EXPECT_EQ(bytes.error().errno_value, failure);
    }
  });
}

TEST_F(FileFaults, PrivateDirectoryAndList) {
  sweep([&](const SystemCalls& calls, int failure, int) {
    ASSERT_TRUE(remove_tree(path("a")));
    const auto made = make_private_directory(path("a/b"), calls);
    if (!made) {
      EXPECT_EQ(made.error().errno_value, failure);
    }
    const auto listed = list_directory(folder_.path(), calls);
    if (!listed) {
      EXPECT_EQ(listed.error().errno_value, failure);
    }
  });
}

TEST_F(FileFaults, SealedFile) {
  sweep([&](const SystemCalls& calls, int failure, int) {
    const auto file = make_sealed_file("x", content, calls);
    if (!file) {
      EXPECT_EQ(file.error().errno_value, failure);
    }
  });
}

TEST_F(FileFaults, InterruptedCallsAreRepeated) {
  for (int n = 1; n < 30; ++n) {
    Faults faults(n, EINTR, true);
    SystemCalls calls = faults.calls();
    // These are not specified to be interruptible.
    const SystemCalls real = SystemCalls::real();
    calls.fstat = real.fstat;
    calls.fstatat = real.fstatat;
    calls.linkat = real.linkat;
    calls.renameat = real.renameat;
    const auto written = write_file_atomically(path("f"), content, {}, calls);
    ASSERT_TRUE(written) << n << ": " << written.error().message();
    ASSERT_EQ(*read_file(path("f"), 1 << 20, calls), content);
  }
}

TEST_F(FileFaults, ShortReadsAndWrites) {
  SystemCalls calls = SystemCalls::real();
  int count = 0;
  calls.write = [&](int fd, const void* data, size_t size) {
    return ::write(fd, data, std::min<size_t>(size, 1 + static_cast<size_t>(++count) % 5000));
  };
  calls.read = [&](int fd, void* data, size_t size) {
    return ::read(fd, data, std::min<size_t>(size, 1 + static_cast<size_t>(++count) % 5000));
  };
  ASSERT_TRUE(write_file_atomically(path("f"), content, {}, calls));
  EXPECT_EQ(*read_file(path("f"), 1 << 20, calls), content);
  calls.write = [](int, const void*, size_t) -> ssize_t { return 0; };  // must not spin
  EXPECT_EQ(write_file_atomically(path("f"), content, {}, calls).error().errno_value, EIO);
}

TEST_F(FileFaults, FailingCloseIsAFailedWrite) {
  SystemCalls calls = SystemCalls::real();
  calls.close = [](int fd) {
    ::close(fd);
    errno = EDQUOT;
    return -1;
  };
  EXPECT_EQ(write_file_atomically(path("f"), content, {}, calls).error().errno_value, EDQUOT);
  EXPECT_EQ(entries(), 0U);
}

}  // namespace
}  // namespace codetta::base
