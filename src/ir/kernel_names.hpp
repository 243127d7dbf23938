// SPDX-License-Identifier: Apache-2.0
// Names that mean something else in the source of a user's kernel.
#pragma once

#include <string_view>

namespace codetta::ir {

// Why a kernel, or a parameter of its function, cannot have this name: it is declared in front of every such source
// (device/cpu/user.h, device/gpu/user.h and what they include), or belongs to C++ or to Codetta. "" where it can.
std::string_view taken_in_kernels(std::string_view name);

}  // namespace codetta::ir
