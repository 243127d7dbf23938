// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "toolchain/cache_state.hpp"

namespace codetta::toolchain {

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// Longer than any compile takes; after that both do the work.
constexpr std::chrono::seconds lock_patience{60};
constexpr Milliseconds longest_nap{10};

// 0, or why there is no lock.
int take(const base::FileDescriptor& file, const base::SystemCalls& calls) {
  const Clock::time_point until = Clock::now() + lock_patience;
  for (Milliseconds nap{1};; nap = std::min(2 * nap, longest_nap)) {
    if (calls.flock(file.get(), LOCK_EX | LOCK_NB) == 0) return 0;
    if ((errno != EWOULDBLOCK && errno != EINTR) || Clock::now() >= until) return errno;
    std::this_thread::sleep_for(nap);
  }
}

// Whether somebody has to mend a folder: others may write to it or own it, or it is a file or a link.
bool is_to_be_mended(const base::SystemError& error) {
  return error.call == "check owner" || error.call == "check mode" || error.errno_value == ENOTDIR ||
         error.errno_value == ELOOP;
}

}  // namespace

KeyLock::KeyLock(const base::FileDescriptor& root, const std::string& name, const base::SystemCalls& calls)
    : calls_(calls), name_(name) {
  auto folder = base::make_private_directory_at(root, lock_folder, calls);
  if (!folder && is_to_be_mended(folder.error())) refused_ = folder.error();
  if (!folder) return;
  folder_ = std::move(*folder);
  // Whoever had the lock removes its file; a lock on a removed file guards nothing.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    auto file = base::open_file_at(folder_, name_, O_RDWR | O_CREAT, 0600, calls_);
    if (!file) return;
    if (const int failed = take(*file, calls_); failed != 0) {
      if (failed != EWOULDBLOCK) (void)base::remove_file_at(folder_, name_, calls_);
      return;
    }
    struct stat mine {};
    struct stat named {};
    if (calls_.fstat(file->get(), &mine) != 0) return;
    if (calls_.fstatat(folder_.get(), name_.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == mine.st_ino &&
        named.st_dev == mine.st_dev) {
      file_ = std::move(*file);
      return;
    }
  }
}

KeyLock::~KeyLock() {
  if (file_.valid()) (void)base::remove_file_at(folder_, name_, calls_);
}

}  // namespace codetta::toolchain
