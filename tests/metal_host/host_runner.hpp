// SPDX-License-Identifier: Apache-2.0
// Libraries for Metal on a machine without: their host text compiled by Clang over the Objective-C runtime of GCC, with
// our own framework (framework.h) in place of macOS's, their kernels by tests/metal_run.
#pragma once

#include <string>

#include "metal_host/framework.h"

namespace codetta::metal_host {

// Why nothing can be run here: no clang++, or no Objective-C runtime. Empty: it can.
const std::string& missing();
const std::string& broken();  // what went wrong where nothing is missing; a failure
const MetalControl& metal();  // both are empty

// FOLDER/NAME.mm and FOLDER/caller.c, which calls it as C does, as a shared library beside them, loaded. Null, and in
// `why` what went wrong.
void* load_library(const std::string& folder, const std::string& name, std::string& why);

}  // namespace codetta::metal_host
