// SPDX-License-Identifier: Apache-2.0
// Kernels as sources in a library for CUDA, which NVRTC compiles where it runs (device/host/gpu_nvrtc.h).
#pragma once

#include <string>

#include "emit/host/cpp.hpp"

namespace codetta::driver {

// The bytes of a kernel: its flags but for the architecture, each ended by a zero; an empty one; its source.
std::string nvrtc_source(const package::Kernel& kernel);
// Those of all headers that the library's kernels include: path and text in turn, each ended by a zero; an empty path.
std::string nvrtc_headers(const emit::host::Library& library);

}  // namespace codetta::driver
