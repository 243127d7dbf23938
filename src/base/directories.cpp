// SPDX-License-Identifier: Apache-2.0
// Folders: listing, private ones, removal.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/files.hpp"
#include "base/retry.hpp"

namespace codetta::base {

namespace {

constexpr int open_folder_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

Expected<FileDescriptor> open_folder(int folder, const std::string& path, int flags, const SystemCalls& calls) {
  if (path.find('\0') != std::string::npos) return SystemError{EINVAL, "open", path};
  const int fd = retry_interrupted([&] { return calls.openat(folder, path.c_str(), open_folder_flags | flags, 0); });
  if (fd < 0) return last_error("open", path);
  return FileDescriptor(fd);
}

EntryKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return EntryKind::File;
  if (S_ISDIR(mode)) return EntryKind::Folder;
  return S_ISLNK(mode) ? EntryKind::Link : EntryKind::Other;
}

Expected<FileDescriptor> open_private(int folder, const std::string& path, const SystemCalls& calls) {
  auto opened = open_folder(folder, path, O_NOFOLLOW, calls);
  if (!opened) return opened;
  struct stat info {};
  if (calls.fstat(opened->get(), &info) != 0) return last_error("fstat", path);
  if (info.st_uid != ::geteuid()) return SystemError{EPERM, "check owner", path};
  if ((info.st_mode & 022) != 0) return SystemError{EPERM, "check mode", path};
  return opened;
}

Expected<void> make_folder(int folder, const std::string& path, const SystemCalls& calls) {
  if (path.find('\0') != std::string::npos) return SystemError{EINVAL, "mkdir", path};
  if (calls.mkdirat(folder, path.c_str(), 0700) != 0 && errno != EEXIST) return last_error("mkdir", path);
  return {};
}

// Removes what is below an open folder. Depth is bounded by what the file system itself allows in a path.
Expected<void> remove_content(const FileDescriptor& folder, const std::string& path, const SystemCalls& calls) {
  auto entries = list_directory_at(folder, calls);
  if (!entries) return SystemError{entries.error().errno_value, entries.error().call, path};
  for (const DirectoryEntry& entry : *entries) {
    const std::string inner = path + "/" + entry.name;
    if (entry.kind == EntryKind::Folder) {
      auto opened = open_folder(folder.get(), entry.name, O_NOFOLLOW, calls);
      if (!opened) return SystemError{opened.error().errno_value, "open", inner};
      if (auto removed = remove_content(*opened, inner, calls); !removed) return removed;
    }
    const int flags = entry.kind == EntryKind::Folder ? AT_REMOVEDIR : 0;
    if (calls.unlinkat(folder.get(), entry.name.c_str(), flags) != 0 && errno != ENOENT) {
      return last_error("unlink", inner);
    }
  }
  return {};
}

}  // namespace

Expected<FileDescriptor> open_directory(const std::string& path, const SystemCalls& calls) {
  return open_folder(AT_FDCWD, path, 0, calls);
}

Expected<std::vector<DirectoryEntry>> list_directory(const std::string& path, const SystemCalls& calls) {
  auto folder = open_directory(path, calls);
  if (!folder) return folder.error();
  auto entries = list_directory_at(*folder, calls);
  if (!entries) return SystemError{entries.error().errno_value, entries.error().call, path};
  return entries;
}

Expected<std::vector<DirectoryEntry>> list_directory_at(const FileDescriptor& folder, const SystemCalls& calls) {
  // A stream of its own: sharing the caller's file position would make a second listing empty.
  auto own = open_folder(folder.get(), ".", 0, calls);
  if (!own) return own.error();
  DIR* stream = calls.fdopendir(own->get());
  if (stream == nullptr) return last_error("opendir", {});
  (void)own->release();
  const std::unique_ptr<DIR, int (*)(DIR*)> guard(stream, ::closedir);

  std::vector<DirectoryEntry> entries;
  while (true) {
    errno = 0;
    const struct dirent* found = calls.readdir(stream);
    if (found == nullptr && errno != 0) return last_error("readdir", {});
    if (found == nullptr) break;
    const std::string name = static_cast<const char*>(found->d_name);
    if (name == "." || name == "..") continue;
    struct stat info {};
    if (calls.fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed meanwhile
      return last_error("stat", name);
    }
    entries.push_back({name, kind_of(info.st_mode)});
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

Expected<FileDescriptor> make_private_directory(const std::string& path, const SystemCalls& calls) {
  if (path.empty()) return SystemError{ENOENT, "mkdir", path};
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();  // "link/" would follow the link
  for (size_t at = clean.find('/', 1); at != std::string::npos; at = clean.find('/', at + 1)) {
    const std::string parent = clean.substr(0, at);
    struct stat info {};
    if (calls.fstatat(AT_FDCWD, parent.c_str(), &info, 0) == 0) continue;
    if (auto made = make_folder(AT_FDCWD, parent, calls); !made) return made.error();
  }
  if (auto made = make_folder(AT_FDCWD, clean, calls); !made) return made.error();
  return open_private(AT_FDCWD, clean, calls);
}

Expected<FileDescriptor> make_private_directory_at(const FileDescriptor& folder, const std::string& name,
                                                   const SystemCalls& calls) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    return SystemError{EINVAL, "mkdir", name};
  }
  if (auto made = make_folder(folder.get(), name, calls); !made) return made.error();
  return open_private(folder.get(), name, calls);
}

Expected<void> check_writable(const FileDescriptor& folder, const std::string& path, const SystemCalls& calls) {
  if (calls.faccessat(folder.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) return last_error("write to", path);
  return {};
}

Expected<void> remove_file(const std::string& path, const SystemCalls& calls) {
  if (calls.unlinkat(AT_FDCWD, path.c_str(), 0) != 0 && errno != ENOENT) return last_error("unlink", path);
  return {};
}

Expected<void> remove_file_at(const FileDescriptor& folder, const std::string& name, const SystemCalls& calls) {
  if (name.find('/') != std::string::npos) return SystemError{EINVAL, "unlink", name};
  if (calls.unlinkat(folder.get(), name.c_str(), 0) != 0 && errno != ENOENT) return last_error("unlink", name);
  return {};
}

Expected<void> remove_tree(const std::string& path, const SystemCalls& calls) {
  auto folder = open_folder(AT_FDCWD, path, O_NOFOLLOW, calls);
  if (!folder && folder.error().errno_value == ENOENT) return {};
  if (!folder) return folder.error();
  if (auto removed = remove_content(*folder, path, calls); !removed) return removed;
  if (calls.unlinkat(AT_FDCWD, path.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) return last_error("rmdir", path);
  return {};
}

Expected<TemporaryDirectory> TemporaryDirectory::make(const std::string& parent, const std::string& prefix) {
  std::string path = parent + "/" + prefix + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return last_error("mkdtemp", parent);
  return TemporaryDirectory(std::move(path));
}

TemporaryDirectory::~TemporaryDirectory() {
  if (!path_.empty()) (void)remove_tree(path_);
}

}  // namespace codetta::base
