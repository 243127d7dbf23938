// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "toolchain/nvrtc.hpp"

namespace codetta::driver {

// The device sources of gpu/ and of one more folder ("cuda/", "hip/"), as compilers at run time take them. Texts are
// those of the library, paths those of the object.
struct GpuHeaders {
  explicit GpuHeaders(std::string_view folder);
  GpuHeaders(GpuHeaders&&) = default;
  GpuHeaders& operator=(GpuHeaders&&) = default;
  std::vector<std::string> paths;
  std::vector<toolchain::CudaHeader> headers;
};

}  // namespace codetta::driver
