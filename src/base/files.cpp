// SPDX-License-Identifier: Apache-2.0
// Reading and writing of files.
#include "base/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <new>

#include "base/retry.hpp"

namespace codetta::base {

namespace {

constexpr size_t read_chunk = size_t{1} << 16;
// Linux moves at most 0x7ffff000 bytes a call; macOS refuses more than INT_MAX.
constexpr size_t max_transfer = size_t{1} << 30;

Expected<FileDescriptor> open_at(int folder, const std::string& path, int flags, unsigned mode,
                                 const SystemCalls& calls) {
  // A name with a zero byte would open the file of a shorter name.
  if (path.find('\0') != std::string::npos) return SystemError{EINVAL, "open", path};
  const int fd = retry_interrupted(
      [&] { return calls.openat(folder, path.c_str(), flags | O_CLOEXEC, static_cast<mode_t>(mode)); });
  if (fd < 0) return last_error("open", path);
  return FileDescriptor(fd);
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

struct Reading {
  size_t max_bytes = 0;
  bool pipes = false;       // besides regular files
  bool only_front = false;  // what lies behind max_bytes is left, instead of EFBIG
};

// What a pipe has next; its descriptor does not block. One without a writer reads as empty: poll() tells a pipe that
// nobody has opened for writing yet from one that was closed.
ssize_t read_pipe(int fd, char* to, size_t size, bool fresh, const SystemCalls& calls) {
  struct pollfd wanted {};
  wanted.fd = fd;
  wanted.events = POLLIN;
  int ready = 1;
  if (fresh) ready = retry_interrupted([&] { return ::poll(&wanted, 1, pipe_patience_ms); });
  while (true) {
    const ssize_t got = retry_interrupted([&] { return calls.read(fd, to, size); });
    if (got == 0 && ready == 0) {
      errno = ETIMEDOUT;
      return -1;
    }
    if (got >= 0 || errno != EAGAIN) return got;
    ready = retry_interrupted([&] { return ::poll(&wanted, 1, -1); });  // a writer that thinks
  }
}

Expected<std::string> read_whole(int fd, const std::string& path, const Reading& how, const SystemCalls& calls) try {
  struct stat info {};
  if (calls.fstat(fd, &info) != 0) return last_error("fstat", path);
  if (S_ISDIR(info.st_mode)) return SystemError{EISDIR, "read", path};
  const bool regular = S_ISREG(info.st_mode);
  if (!regular && !(how.pipes && S_ISFIFO(info.st_mode)))
    return SystemError{EINVAL, how.pipes ? "check for a file or a pipe" : "check for a regular file", path};
  const size_t known = regular && info.st_size > 0 ? static_cast<size_t>(info.st_size) : 0;
  if (known > how.max_bytes && !how.only_front) return SystemError{EFBIG, "read", path};

  // One byte more than announced: a growing file, and files of /proc that claim to be empty, are seen.
  std::string bytes(std::min(known == 0 ? read_chunk : known, how.max_bytes) + 1, '\0');
  size_t used = 0;
  while (used <= how.max_bytes) {
    if (used == bytes.size()) bytes.resize(std::min(2 * used, how.max_bytes) + 1);
    char* const to = bytes.data() + used;
    const size_t size = std::min(bytes.size() - used, max_transfer);
    const ssize_t got = regular ? retry_interrupted([&] { return calls.read(fd, to, size); })
                                : read_pipe(fd, to, size, used == 0, calls);
    if (got < 0) return last_error(errno == ETIMEDOUT ? "wait for a writer of" : "read", path);
    if (got == 0) break;
    used += static_cast<size_t>(got);
  }
  if (used > how.max_bytes && !how.only_front) return SystemError{EFBIG, "read", path};
  bytes.resize(std::min(used, how.max_bytes));
  return bytes;
} catch (const std::bad_alloc&) {
  return SystemError{ENOMEM, "read", path};
}

Expected<void> write_bytes(int fd, std::string_view bytes, const std::string& path, const SystemCalls& calls) {
  while (!bytes.empty()) {
    const ssize_t put =
        retry_interrupted([&] { return calls.write(fd, bytes.data(), std::min(bytes.size(), max_transfer)); });
    if (put < 0) return last_error("write", path);
    if (put == 0) return SystemError{EIO, "write", path};
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return {};
}

// Unique among threads and processes by O_EXCL; the numbers only make a second try rare.
std::string temporary_name(const std::string& name, int attempt) {
  const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
  return fmt::format("{}{}-{:x}-{:x}-{}", temporary_prefix, name.substr(0, 64), static_cast<unsigned>(::getpid()),
                     static_cast<uint64_t>(ticks), attempt);
}

Expected<void> fill_temporary(int fd, std::string_view bytes, const std::string& name, const WriteOptions& options,
                              const SystemCalls& calls) {
  if (auto written = write_bytes(fd, bytes, name, calls); !written) return written;
  if (options.sync && retry_interrupted([&] { return calls.fsync(fd); }) != 0) return last_error("fsync", name);
  return {};
}

Expected<bool> publish(int folder, const std::string& temporary, const std::string& name, Publish how,
                       const SystemCalls& calls) {
  if (how == Publish::KeepExisting) {
    if (calls.linkat(folder, temporary.c_str(), folder, name.c_str()) == 0) {
      calls.unlinkat(folder, temporary.c_str(), 0);
      return true;
    }
    if (errno == EEXIST) {
      calls.unlinkat(folder, temporary.c_str(), 0);
      return false;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK) return last_error("link", name);
  }
  if (calls.renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) return last_error("rename", name);
  return true;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Expected<std::string> read_file(const std::string& path, size_t max_bytes, const SystemCalls& calls) {
  auto file = open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0, calls);
  if (!file) return file.error();
  return read_whole(file->get(), path, {.max_bytes = max_bytes, .pipes = true}, calls);
}

Expected<std::string> read_front(const std::string& path, size_t max_bytes, const SystemCalls& calls) {
  auto file = open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0, calls);
  if (!file) return file.error();
  return read_whole(file->get(), path, {.max_bytes = max_bytes, .pipes = true, .only_front = true}, calls);
}

Expected<std::string> read_file_at(const FileDescriptor& folder, const std::string& name, size_t max_bytes,
                                   const SystemCalls& calls) {
  auto file = open_file_at(folder, name, O_RDONLY, 0, calls);
  if (!file) return file.error();
  return read_whole(file->get(), name, {.max_bytes = max_bytes}, calls);
}

Expected<std::string> read_descriptor(const FileDescriptor& file, size_t max_bytes, const SystemCalls& calls) {
  return read_whole(file.get(), {}, {.max_bytes = max_bytes}, calls);
}

Expected<FileDescriptor> open_file_at(const FileDescriptor& folder, const std::string& name, int flags, unsigned mode,
                                      const SystemCalls& calls) {
  if (!is_plain_name(name)) return SystemError{EINVAL, "open", name};
  return open_at(folder.get(), name, flags | O_NOFOLLOW | O_NONBLOCK, mode, calls);
}

Expected<void> write_all(const FileDescriptor& file, std::string_view bytes, const SystemCalls& calls) {
  return write_bytes(file.get(), bytes, {}, calls);
}

namespace {

// The name of a new file of the folder that holds the bytes, to be moved to `name`. Nothing is left where it fails.
Expected<std::string> write_beside(const FileDescriptor& folder, const std::string& name, std::string_view bytes,
                                   const WriteOptions& options, const SystemCalls& calls) {
  if (!is_plain_name(name)) return SystemError{EINVAL, "open", name};
  std::string temporary;
  FileDescriptor file;
  for (int attempt = 0; !file.valid(); ++attempt) {
    temporary = temporary_name(name, attempt);
    auto opened = open_at(folder.get(), temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, options.mode, calls);
    if (opened) {
      file = std::move(*opened);
    } else if (opened.error().errno_value != EEXIST || attempt == 100) {
      return SystemError{opened.error().errno_value, "create a file beside", name};
    }
  }
  auto filled = fill_temporary(file.get(), bytes, name, options, calls);
  // close() is the last to report a failed write on network file systems.
  if (calls.close(file.release()) != 0 && errno != EINTR && filled) filled = last_error("close", name);
  if (!filled) {
    calls.unlinkat(folder.get(), temporary.c_str(), 0);
    return filled.error();
  }
  return temporary;
}

// Where a file goes: its folder and name behind links; without a folder, where it is a device or a pipe.
struct Target {
  FileDescriptor folder;
  std::string name;
  WriteOptions with;
};
// What a link to no file names, behind all further ones; the path itself where it is no link.
std::string behind_links(std::string path) {
  constexpr int most = 40;  // as the system follows
  std::array<char, 4096> to;
  for (int link = 0; link < most; ++link) {
    const ssize_t length = ::readlink(path.c_str(), to.data(), to.size());
    if (length <= 0 || static_cast<size_t>(length) == to.size()) break;
    const std::string_view next(to.data(), static_cast<size_t>(length));
    path = next[0] == '/' ? std::string(next) : path.substr(0, path.rfind('/') + 1) + std::string(next);
  }
  return path;
}
Expected<Target> target_of(const std::string& path, const WriteOptions& options, const SystemCalls& calls) {
  struct stat info {};
  std::string target = path;
  WriteOptions with = options;
  if (calls.fstatat(AT_FDCWD, path.c_str(), &info, 0) == 0) {
    if (S_ISDIR(info.st_mode)) return SystemError{EISDIR, "write", path};
    if (!S_ISREG(info.st_mode)) return Target{};
    if (::access(path.c_str(), W_OK) != 0) return last_error("write", path);
    with.mode &= info.st_mode | 0111;  // who could not read or write it before can't now
    // The file behind a link is replaced, not the link.
    if (char* resolved = ::realpath(path.c_str(), nullptr); resolved != nullptr) {
      target = resolved;
      ::free(resolved);
    }
  } else if (errno == ENOENT) {
    target = behind_links(path);
  } else {  // links in a circle, a name that is too long
    return last_error("write", path);
  }
  const size_t slash = target.rfind('/');
  const std::string folder_path = slash == std::string::npos ? "." : target.substr(0, std::max<size_t>(slash, 1));
  const std::string name = slash == std::string::npos ? target : target.substr(slash + 1);
  auto folder = open_directory(folder_path, calls);
  if (!folder) return folder.error();
  return Target{std::move(*folder), name, with};
}

// What is there, to be written to. A pipe that nobody reads would keep its writer waiting for ever.
Expected<FileDescriptor> open_directly(const std::string& path, const SystemCalls& calls) {
  struct stat info {};
  if (calls.fstatat(AT_FDCWD, path.c_str(), &info, 0) != 0 || !S_ISFIFO(info.st_mode))
    return open_at(AT_FDCWD, path, O_WRONLY, 0, calls);
  constexpr int step_ms = 10;
  for (int waited = 0;; waited += step_ms) {
    auto pipe = open_at(AT_FDCWD, path, O_WRONLY | O_NONBLOCK, 0, calls);
    if (pipe && ::fcntl(pipe->get(), F_SETFL, O_WRONLY) != 0) return last_error("open", path);
    if (pipe || pipe.error().errno_value != ENXIO) return pipe;
    if (waited >= pipe_patience_ms) return SystemError{ETIMEDOUT, "wait for a reader of", path};
    ::poll(nullptr, 0, step_ms);
  }
}

Expected<void> write_directly(const std::string& path, std::string_view bytes, const SystemCalls& calls) {
  auto file = open_directly(path, calls);
  if (!file) return file.error();
  return write_bytes(file->get(), bytes, path, calls);
}

SystemError at_path(const SystemError& error, const std::string& path) { return {error.errno_value, error.call, path}; }

}  // namespace

Expected<bool> write_file_atomically_at(const FileDescriptor& folder, const std::string& name, std::string_view bytes,
                                        const WriteOptions& options, const SystemCalls& calls) {
  auto temporary = write_beside(folder, name, bytes, options, calls);
  if (!temporary) return temporary.error();
  auto published = publish(folder.get(), *temporary, name, options.publish, calls);
  if (!published) calls.unlinkat(folder.get(), temporary->c_str(), 0);
  return published;
}

Expected<bool> write_file_atomically(const std::string& path, std::string_view bytes, const WriteOptions& options,
                                     const SystemCalls& calls) {
  auto target = target_of(path, options, calls);
  if (!target) return target.error();
  if (!target->folder.valid()) {
    if (auto written = write_directly(path, bytes, calls); !written) return written.error();
    return true;
  }
  auto written = write_file_atomically_at(target->folder, target->name, bytes, target->with, calls);
  if (!written) return at_path(written.error(), path);
  return written;
}

Expected<void> write_files_atomically(std::span<const FileBytes> files, const SystemCalls& calls) {
  std::vector<std::pair<Target, std::string>> made;  // and the temporary
  const auto remove_from = [&](size_t first) {
    for (size_t i = first; i < made.size(); ++i) {
      if (made[i].first.folder.valid()) calls.unlinkat(made[i].first.folder.get(), made[i].second.c_str(), 0);
    }
  };
  for (const FileBytes& file : files) {
    WriteOptions with;
    with.mode = file.mode;
    auto target = target_of(file.path, with, calls);
    if (target && !target->folder.valid()) {
      made.emplace_back();
      continue;
    }
    auto temporary = target ? write_beside(target->folder, target->name, file.bytes, target->with, calls)
                            : Expected<std::string>(target.error());
    if (!temporary) {
      remove_from(0);
      return at_path(temporary.error(), file.path);
    }
    made.emplace_back(std::move(*target), *std::move(temporary));
  }
  // Devices and pipes first: what they refuse then leaves no file that goes with it.
  for (size_t i = 0; i < files.size(); ++i) {
    if (made[i].first.folder.valid()) continue;
    if (auto written = write_directly(files[i].path, files[i].bytes, calls); !written) {
      remove_from(0);
      return at_path(written.error(), files[i].path);
    }
  }
  for (size_t i = 0; i < files.size(); ++i) {
    const Target& target = made[i].first;
    if (!target.folder.valid()) continue;
    if (auto moved = publish(target.folder.get(), made[i].second, target.name, Publish::Replace, calls); !moved) {
      remove_from(i);
      return at_path(moved.error(), files[i].path);
    }
  }
  return {};
}

Expected<FileDescriptor> make_sealed_file(const std::string& debug_name, std::string_view bytes,
                                          const SystemCalls& calls) {
#if defined(__linux__)
  FileDescriptor file(calls.memfd_create(debug_name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return last_error("memfd_create", debug_name);
  if (auto written = write_bytes(file.get(), bytes, debug_name, calls); !written) return written.error();
  if (calls.add_seals(file.get(), F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return last_error("seal", debug_name);
  }
  return file;
#else
  (void)bytes;
  (void)calls;
  return SystemError{ENOSYS, "memfd_create", debug_name};
#endif
}

}  // namespace codetta::base
