// SPDX-License-Identifier: Apache-2.0
// Folders of sources that a command writes: reproducers, libraries for nvcc.
#pragma once

#include <map>
#include <string>

#include "base/result.hpp"

namespace codetta::driver {

// Before anything is planned or compiled: the folder can be made, or written to. `what` is to be in it. Errors: E0543.
Result<void> check_folder(const std::string& folder, const std::string& what);

// Why a folder that may be written to takes no new file all the same, as those of /proc do: errno, or 0.
int refuses_files(const std::string& folder);

// Makes the folder and those below it that the names of `files` say ("device/host/gpu.h"), and writes all files or
// none; scripts (.sh) may be run. What it made goes again where it fails. Errors: E0543.
Result<void> write_folder(const std::string& folder, const std::map<std::string, std::string>& files);

}  // namespace codetta::driver
