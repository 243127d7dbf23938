// SPDX-License-Identifier: Apache-2.0
// Pieces of Python modules that do not depend on where they stand.
#pragma once

#include <string>
#include <string_view>

#include "package/package.hpp"

namespace codetta::emit::host {

std::string base64(std::string_view bytes);

// A string literal that reads back to these bytes as UTF-8 text.
std::string py_quoted(std::string_view text);

// One line of a comment, whatever the text holds.
std::string py_comment(std::string_view text);

// A compiled kernel for a GPU as the tables of device/host/gpu_plan.h, with its code: an item of KERNELS.
std::string gpu_kernel_row(const package::Kernel& kernel);

}  // namespace codetta::emit::host
