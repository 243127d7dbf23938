// SPDX-License-Identifier: Apache-2.0
#include "toolchain/folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace codetta::toolchain {

base::Expected<base::FileDescriptor> open_trusted_folder(const std::string& path, FolderUse use,
                                                         const base::SystemCalls& calls) {
  if (path.empty() || path.find('\0') != std::string::npos) return base::SystemError{EINVAL, "open", path};
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();  // "link/" would follow the link
  int fd = -1;
  do {
    fd = calls.openat(AT_FDCWD, clean.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0 && errno == ENOENT && use == FolderUse::Write) return base::make_private_directory(clean, calls);
  if (fd < 0) return base::SystemError{errno, "open", path};
  base::FileDescriptor folder(fd);

  struct stat info {};
  if (calls.fstat(fd, &info) != 0) return base::SystemError{errno, "fstat", path};
  const bool own = info.st_uid == ::geteuid() || (use == FolderUse::Read && info.st_uid == 0);
  if (!own) return base::SystemError{EPERM, "check owner", path};
  if ((info.st_mode & 022) != 0) return base::SystemError{EPERM, "check mode", path};
  return folder;
}

}  // namespace codetta::toolchain
