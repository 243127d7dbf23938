// SPDX-License-Identifier: Apache-2.0
#include "toolchain/work_folder.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/folder.hpp"

namespace codetta::toolchain {
namespace {

// Of processes that were killed: none of that number runs, and nobody holds the lock (processes of another container
// have numbers that mean nothing here).
void sweep_folders(const std::string& parent, const std::string& prefix) {
  const auto entries = base::list_directory(parent);
  if (!entries) return;
  for (const base::DirectoryEntry& entry : *entries) {
    if (entry.kind != base::EntryKind::Folder || !entry.name.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(entry.name).substr(prefix.size());
    const auto process = base::parse_int64(rest.substr(0, rest.find('-')));
    if (!process || *process <= 0 || *process > INT32_MAX || rest.find('-') == std::string_view::npos) continue;
    if (::kill(static_cast<pid_t>(*process), 0) == 0 || errno != ESRCH) continue;
    const std::string path = parent + "/" + entry.name;
    const auto folder = open_trusted_folder(path, FolderUse::Read);
    if (!folder || ::flock(folder->get(), LOCK_EX | LOCK_NB) != 0) continue;
    struct stat info {};
    if (::fstat(folder->get(), &info) == 0 && info.st_uid == ::geteuid()) (void)base::remove_tree(path);
  }
}

}  // namespace

Result<WorkFolder> make_work_folder(const WorkFolderWish& wish) {
  base::SystemError last;
  for (const std::string& parent : wish.parents) {
    auto folder = base::TemporaryDirectory::make(parent, fmt::format("{}{}-", wish.prefix, ::getpid()));
    if (!folder) {
      last = folder.error();
      continue;
    }
    WorkFolder made{{}, std::move(*folder)};
    if (auto lock = base::open_directory(made.path())) {
      (void)::flock(lock->get(), LOCK_EX | LOCK_NB);  // where locks do not work the number alone counts
      made.lock = std::move(*lock);
    }
    if (wish.sweep) sweep_folders(parent, wish.prefix);
    return made;
  }
  return folder_failed(wish.label, last, wish.parents);
}

base::Expected<bool> write_work_file(const std::string& path, std::string_view text) {
  base::WriteOptions how;
  how.mode = 0600;
  how.sync = false;
  return base::write_file_atomically(path, text, how);
}

base::Expected<bool> write_headers(const std::string& folder, const std::vector<CudaHeader>& headers) {
  for (const CudaHeader& header : headers) {
    for (size_t slash = header.path.find('/'); slash != std::string_view::npos;
         slash = header.path.find('/', slash + 1))
      (void)::mkdir((folder + "/" + std::string(header.path.substr(0, slash))).c_str(), 0700);
    if (auto written = write_work_file(folder + "/" + std::string(header.path), header.text); !written) return written;
  }
  return true;
}

}  // namespace codetta::toolchain
