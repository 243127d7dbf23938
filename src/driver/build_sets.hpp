// SPDX-License-Identifier: Apache-2.0
// Which micro-kernels a library for a CPU links: those of the products that its kernels have.
#pragma once

#include <string>

#include "emit/host/cpp.hpp"

namespace codetta::driver {

// The list of them as a translation unit (device/cpu/micro/sets.hpp); the same text for the same products.
std::string micro_sets_text(const emit::host::Library& library);

}  // namespace codetta::driver
