// SPDX-License-Identifier: Apache-2.0
// AMD's HIP runtime, loaded when first needed, as the table of functions that runtime/cuda runs packages over.
#pragma once

#include <string>

#include "runtime/cuda/driver.hpp"

namespace codetta::runtime::hip {

// The runtime that the process has loaded already, else the newest libamdhip64 by the loader's search path (or exactly
// `library`, a file). A process has one: another file after the first is refused. Thread safe. Errors: E0654 none found
// (says what was tried), too old (names what it lacks, or its version), or not to be started; E0642 it finds no device.
Result<cuda::DriverRef> load(const std::string& library = {});

}  // namespace codetta::runtime::hip
