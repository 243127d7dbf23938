// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's, as --kernel names them.
#pragma once

#include <string>
#include <vector>

#include "codetta/codetta.hpp"

namespace codetta::cli {

// NAME=FILE: the source of a kernel with what it includes, its language by the file's suffix. Errors: E0701, those of
// reading the file.
Result<UserKernel> read_kernel(const std::string& item);
// The program with those that these name. Errors likewise, and those of Program::with_kernels.
Result<Program> with_sources(const Program& program, const std::vector<std::string>& items);

// The files that are read for these.
std::vector<std::string> kernel_files(const std::vector<std::string>& items);
// The files that these name.
std::vector<std::string> files_of(const std::vector<std::string>& items);

}  // namespace codetta::cli
