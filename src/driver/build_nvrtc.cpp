// SPDX-License-Identifier: Apache-2.0
#include "driver/build_nvrtc.hpp"

#include "driver/cuda_compiler.hpp"
#include "toolchain/nvrtc.hpp"

namespace codetta::driver {

std::string nvrtc_source(const package::Kernel& kernel) {
  std::string bytes;
  for (const std::string& flag : kernel.nvrtc_flags) {
    if (!flag.starts_with("--gpu-architecture=")) bytes += flag + '\0';
  }
  return bytes + '\0' + kernel.source + '\0';
}

std::string nvrtc_headers(const emit::host::Library& library) {
  std::string all, bytes;
  for (const emit::host::Program& program : library.programs) {
    for (const package::Kernel& kernel : program.package->kernels) all += kernel.source + "\n";
  }
  for (const toolchain::CudaHeader& header : toolchain::included_headers(all, CudaCompiler::headers())) {
    bytes += std::string(header.path) + '\0';
    bytes += std::string(header.text) + '\0';
  }
  return bytes + '\0';
}

}  // namespace codetta::driver
