// SPDX-License-Identifier: Apache-2.0
// Files: bounded reads, atomic writes, private folders, sealed memory files. Interrupted calls and short writes are
// handled; every descriptor is close-on-exec. Functions with a folder descriptor take a plain name (no '/') and never
// follow a link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/expected.hpp"
#include "base/system_calls.hpp"

namespace codetta::base {

// Owns a descriptor; closes it with ::close.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Reading. More than max_bytes is EFBIG, nothing bigger is ever allocated, and what cannot be is ENOMEM; a folder is
// EISDIR. read_file follows links and takes pipes, too, until their writers close them; ETIMEDOUT for one that nobody
// opens for writing within pipe_patience_ms. read_file_at takes regular files only. Anything else is EINVAL, and for
// read_file_at a link ELOOP.
inline constexpr int pipe_patience_ms = 5000;
Expected<std::string> read_file(const std::string& path, size_t max_bytes,
                                const SystemCalls& calls = SystemCalls::real());
// The first max_bytes of it.
Expected<std::string> read_front(const std::string& path, size_t max_bytes,
                                 const SystemCalls& calls = SystemCalls::real());
Expected<std::string> read_file_at(const FileDescriptor& folder, const std::string& name, size_t max_bytes,
                                   const SystemCalls& calls = SystemCalls::real());
// Of a regular file.
Expected<std::string> read_descriptor(const FileDescriptor& file, size_t max_bytes,
                                      const SystemCalls& calls = SystemCalls::real());
// O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK (so that a FIFO can't hang it) and `flags`.
Expected<FileDescriptor> open_file_at(const FileDescriptor& folder, const std::string& name, int flags,
                                      unsigned mode = 0, const SystemCalls& calls = SystemCalls::real());

// Writing. A reader sees the old content or the whole new one: temporary file in the same folder, fsync, publish. On
// failure nothing is left behind. Temporary names begin with temporary_prefix, for those who sweep up after a crash.
inline constexpr std::string_view temporary_prefix = ".tmp-";
enum class Publish : uint8_t {
  Replace,       // rename over what is there
  KeepExisting,  // link; what is there wins (rename, if the file system has no hard links)
};
struct WriteOptions {
  Publish publish = Publish::Replace;
  unsigned mode = 0666;  // less the umask
  bool sync = true;      // fsync before publishing
};
// Returns whether the file holds these bytes now (false: KeepExisting found another). Links are resolved, and a path
// that is a device or a pipe, such as /dev/stdout, is written to directly (ETIMEDOUT after pipe_patience_ms without a
// reader). What replaces a file is for nobody who could not use that (write_file_atomically only).
Expected<bool> write_file_atomically(const std::string& path, std::string_view bytes, const WriteOptions& options = {},
                                     const SystemCalls& calls = SystemCalls::real());
Expected<bool> write_file_atomically_at(const FileDescriptor& folder, const std::string& name, std::string_view bytes,
                                        const WriteOptions& options = {},
                                        const SystemCalls& calls = SystemCalls::real());
// As write_file_atomically, all of them or none: each is written beside its place, and they are moved in this order
// once all are there, behind what devices and pipes take. What these have, or a move that fails leaves moved, stays.
struct FileBytes {
  std::string path;
  std::string_view bytes;
  unsigned mode = 0666;
};
Expected<void> write_files_atomically(std::span<const FileBytes> files, const SystemCalls& calls = SystemCalls::real());
Expected<void> write_all(const FileDescriptor& file, std::string_view bytes,
                         const SystemCalls& calls = SystemCalls::real());

// Folders.
enum class EntryKind : uint8_t { File, Folder, Link, Other };
struct DirectoryEntry {
  std::string name;
  EntryKind kind = EntryKind::Other;
  bool operator==(const DirectoryEntry&) const = default;
};
// Without "." and "..", sorted by name.
Expected<std::vector<DirectoryEntry>> list_directory(const std::string& path,
                                                     const SystemCalls& calls = SystemCalls::real());
Expected<std::vector<DirectoryEntry>> list_directory_at(const FileDescriptor& folder,
                                                        const SystemCalls& calls = SystemCalls::real());
Expected<FileDescriptor> open_directory(const std::string& path, const SystemCalls& calls = SystemCalls::real());
// Makes the folder with mode 0700, parents too, unless it is there; then refuses one that is a link (ELOOP or ENOTDIR),
// is not owned by the effective user (call "check owner"), or may be written by group or others (call "check mode";
// both EPERM).
Expected<FileDescriptor> make_private_directory(const std::string& path,
                                                const SystemCalls& calls = SystemCalls::real());
// The same below an open folder; parents are not made.
Expected<FileDescriptor> make_private_directory_at(const FileDescriptor& folder, const std::string& name,
                                                   const SystemCalls& calls = SystemCalls::real());
// Whether files may be made in the folder; `path` names it in the error (call "write to").
Expected<void> check_writable(const FileDescriptor& folder, const std::string& path,
                              const SystemCalls& calls = SystemCalls::real());
// A missing file is success.
Expected<void> remove_file(const std::string& path, const SystemCalls& calls = SystemCalls::real());
Expected<void> remove_file_at(const FileDescriptor& folder, const std::string& name,
                              const SystemCalls& calls = SystemCalls::real());
// The folder and all below it; links are removed, never followed.
Expected<void> remove_tree(const std::string& path, const SystemCalls& calls = SystemCalls::real());

// A fresh private folder below `parent`, removed with all its content when this goes.
class TemporaryDirectory {
 public:
  static Expected<TemporaryDirectory> make(const std::string& parent, const std::string& prefix = "codetta-");
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~TemporaryDirectory();
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string release() { return std::exchange(path_, {}); }  // keeps the folder

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// A file without a name that nobody can change any more (sealed against writing, growing, shrinking and further seals).
// ENOSYS where the system has none.
Expected<FileDescriptor> make_sealed_file(const std::string& debug_name, std::string_view bytes,
                                          const SystemCalls& calls = SystemCalls::real());

}  // namespace codetta::base
