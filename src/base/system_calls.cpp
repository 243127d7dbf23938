// SPDX-License-Identifier: Apache-2.0
// The real calls.
#include "base/system_calls.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/expected.hpp"
#include "base/kept.hpp"

namespace codetta::base {

std::string SystemError::message() const {
  const std::string what = std::error_code(errno_value, std::generic_category()).message();
  return call + (path.empty() ? "" : " " + path) + ": " + what;
}

const SystemCalls& SystemCalls::real() {
  static const SystemCalls& calls = kept([] {
    SystemCalls table;
    table.openat = [](int folder, const char* path, int flags, mode_t mode) {
      return ::openat(folder, path, flags, mode);
    };
    table.close = ::close;
    table.read = ::read;
    table.write = ::write;
    table.fsync = ::fsync;
    table.fstat = [](int fd, struct stat* info) { return ::fstat(fd, info); };
    table.fstatat = [](int folder, const char* path, struct stat* info, int flags) {
      return ::fstatat(folder, path, info, flags);
    };
    table.faccessat = ::faccessat;
    table.linkat = [](int from_folder, const char* from, int to_folder, const char* to) {
      return ::linkat(from_folder, from, to_folder, to, 0);
    };
    table.renameat = ::renameat;
    table.unlinkat = ::unlinkat;
    table.mkdirat = ::mkdirat;
    table.futimens = ::futimens;
    table.flock = [](int fd, int operation) { return ::flock(fd, operation); };
    table.fdopendir = ::fdopendir;
    table.readdir = ::readdir;
#if defined(__linux__)
    table.memfd_create = ::memfd_create;
    table.add_seals = [](int fd, int seals) { return ::fcntl(fd, F_ADD_SEALS, seals); };
#else
    table.memfd_create = [](const char*, unsigned) { return errno = ENOSYS, -1; };
    table.add_seals = [](int, int) { return errno = ENOSYS, -1; };
#endif
    return table;
  }());
  return calls;
}

}  // namespace codetta::base
