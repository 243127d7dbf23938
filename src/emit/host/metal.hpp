// SPDX-License-Identifier: Apache-2.0
// Packages for Metal as Objective-C++ host text, a C header and the texts of their kernels: what a Mac compiles to a
// library without libcodetta. Statements are those of C++ host text (steps.hpp), over GPU addresses and
// device/host/metal.h.
#pragma once

#include "emit/host/cpp.hpp"

namespace codetta::emit::host {

// Names that cannot be public, steps that this backend lacks. Errors: E0230, E0440.
Result<void> check_metal_library(const Library& library);
// NAME.h, NAME.mm, a KERNEL.metal for each kernel, and build.sh, which compiles them. check_metal_library() has passed.
std::vector<File> print_metal(const Library& library);

}  // namespace codetta::emit::host
