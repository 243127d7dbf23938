// SPDX-License-Identifier: Apache-2.0
// Private to the room: folders for the files of one compile or build.
#pragma once

#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"

namespace codetta::toolchain {

// Removed with all its content when this goes. The lock lives as long as its process, whatever ends that.
struct WorkFolder {
  base::FileDescriptor lock;
  base::TemporaryDirectory folder;
  [[nodiscard]] const std::string& path() const { return folder.path(); }
};

struct WorkFolderWish {
  std::string label;                 // of what is compiled, for messages
  std::string prefix;                // the folder is <prefix><process id>-<random>
  std::vector<std::string> parents;  // the first that takes it
  bool sweep = false;                // removes those of its prefix there that killed processes have left
};
// Errors: E0507.
Result<WorkFolder> make_work_folder(const WorkFolderWish& wish);

}  // namespace codetta::toolchain
