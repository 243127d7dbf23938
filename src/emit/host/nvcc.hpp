// SPDX-License-Identifier: Apache-2.0
// Kernels for NVIDIA GPUs as files for nvcc, beside C++ host text (cpp.hpp) that finds them through the CUDA runtime:
// the text differs from that with compiled kernels inside in the place that a kernel's handle comes from.
#pragma once

#include "emit/host/cpp.hpp"

namespace codetta::emit::host {

struct NvccUnit {
  std::string file;                // "codetta_relu_3e2c8a18.cu"
  std::string text;                // complete but for headers of device/
  std::vector<std::string> flags;  // of nvcc
};

// A file for each kernel of the programs, those that are the same once; says in the programs which function finds each.
std::vector<NvccUnit> print_nvcc_kernels(Library& library);

// How nvcc compiles host text, that is C++ alone. `lean`: without exceptions.
std::vector<std::string> nvcc_host_flags(bool lean);

// A script that compiles the units, each "FILE.cu" or "FILE.cpp" in the script's folder, and links them as `library`,
// which exports what NAME.map says.
std::string nvcc_script(const Library& library, const std::vector<NvccUnit>& units, const std::string& file_name);
// The arguments of nvcc behind the objects.
std::vector<std::string> nvcc_link_flags(const Library& library, const std::string& file_name);

}  // namespace codetta::emit::host
