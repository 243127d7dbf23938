// SPDX-License-Identifier: Apache-2.0
// The folders whose content this room believes: owned by the user, closed to everybody else's writing, not a link.
#pragma once

#include <string>

#include "base/files.hpp"

namespace codetta::toolchain {

enum class FolderUse : uint8_t {
  Write,  // made with mode 0700 when absent; its owner must be the effective user
  Read,   // never made; root may own it too
};
// Refusals carry EPERM and the call "check owner" or "check mode" (group or others may write).
base::Expected<base::FileDescriptor> open_trusted_folder(const std::string& path, FolderUse use,
                                                         const base::SystemCalls& calls = base::SystemCalls::real());

}  // namespace codetta::toolchain
