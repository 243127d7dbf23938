// SPDX-License-Identifier: Apache-2.0
#include "driver/output_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "base/files.hpp"
#include "driver/build_plan.hpp"

namespace codetta::driver {

namespace {

std::string without_end(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

}  // namespace

Result<void> check_folder(const std::string& given, const std::string& what) {
  const std::string folder = without_end(given);
  if (folder.empty()) return unwritable(what, "it names no folder");
  struct stat info {};
  const bool there = ::stat(folder.c_str(), &info) == 0;
  if (there && !S_ISDIR(info.st_mode)) return unwritable(given, "it is no folder");
  const size_t slash = folder.rfind('/');
  const std::string around = slash == std::string::npos ? "." : folder.substr(0, slash + 1);
  const std::string& changed = there ? folder : around;
  if (::access(changed.c_str(), W_OK | X_OK) != 0)
    return unwritable(given, fmt::format("{}: {}", changed, std::strerror(errno)));
  return {};
}

int refuses_files(const std::string& folder) {
  const std::string probe = fmt::format("{}/.codetta-{}-probe", folder, ::getpid());
  const int file = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return errno == EEXIST ? 0 : errno;
  ::close(file);
  ::unlink(probe.c_str());
  return 0;
}

Result<void> write_folder(const std::string& given, const std::map<std::string, std::string>& files) {
  const std::string folder = without_end(given);
  std::set<std::string> wanted{folder};  // those around others come first
  std::vector<base::FileBytes> contents;
  for (const auto& [name, bytes] : files) {
    for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1))
      wanted.insert(folder + "/" + name.substr(0, slash));
    contents.push_back({folder + "/" + name, bytes, name.ends_with(".sh") ? 0777U : 0666U});
  }
  std::vector<std::string> made;
  const auto undo = [&](const std::string& path, const std::string& why) {
    for (size_t i = made.size(); i-- > 0;) (void)::rmdir(made[i].c_str());
    return unwritable(path, why);
  };
  for (const std::string& path : wanted) {
    if (::mkdir(path.c_str(), 0777) == 0) {
      made.push_back(path);
    } else if (errno != EEXIST) {
      return undo(path, std::strerror(errno));
    }
  }
  if (const auto written = base::write_files_atomically(contents); !written)
    return undo(written.error().path, written.error().message());
  return {};
}

}  // namespace codetta::driver
