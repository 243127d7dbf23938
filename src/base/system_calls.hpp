// SPDX-License-Identifier: Apache-2.0
// The system calls behind files.hpp as a table, so that a test can make the n-th one fail.
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <functional>

namespace codetta::base {

// Each member behaves like the call of its name: -1 (nullptr) and errno on failure. Paths are relative to the folder
// descriptor, or to the working directory for AT_FDCWD.
struct SystemCalls {
  std::function<int(int folder, const char* path, int flags, mode_t mode)> openat;
  std::function<int(int fd)> close;
  std::function<ssize_t(int fd, void* data, size_t size)> read;
  std::function<ssize_t(int fd, const void* data, size_t size)> write;
  std::function<int(int fd)> fsync;
  std::function<int(int fd, struct stat* info)> fstat;
  std::function<int(int folder, const char* path, struct stat* info, int flags)> fstatat;
  std::function<int(int folder, const char* path, int mode, int flags)> faccessat;
  std::function<int(int from_folder, const char* from, int to_folder, const char* to)> linkat;
  std::function<int(int from_folder, const char* from, int to_folder, const char* to)> renameat;
  std::function<int(int folder, const char* path, int flags)> unlinkat;
  std::function<int(int folder, const char* path, mode_t mode)> mkdirat;
  std::function<int(int fd, const struct timespec* times)> futimens;
  std::function<int(int fd, int operation)> flock;
  std::function<DIR*(int fd)> fdopendir;  // owns fd on success
  std::function<struct dirent*(DIR*)> readdir;
  std::function<int(const char* name, unsigned flags)> memfd_create;  // ENOSYS where the system has none
  std::function<int(int fd, int seals)> add_seals;

  // The calls of the system itself.
  static const SystemCalls& real();
};

}  // namespace codetta::base
