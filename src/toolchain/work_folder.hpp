// SPDX-License-Identifier: Apache-2.0
// Private to the room: folders for the files of one compile or build.
#pragma once

#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"
#include "toolchain/nvrtc.hpp"

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

// A file of it, which nobody else reads and no power failure matters to.
base::Expected<bool> write_work_file(const std::string& path, std::string_view text);
// Headers as files, so that the compiler's messages name them and each is read once.
base::Expected<bool> write_headers(const std::string& folder, const std::vector<CudaHeader>& headers);

}  // namespace codetta::toolchain
