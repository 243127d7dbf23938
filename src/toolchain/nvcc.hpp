// SPDX-License-Identifier: Apache-2.0
// nvcc and the headers of CUTLASS: found, looked at, run with an argument list.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace codetta::toolchain {

struct CutlassHeaders {
  std::string folder;   // that holds cutlass/cutlass.h
  std::string version;  // "4.2.0"
};
// `path`: a checkout or the folder of the headers itself. `least`, `most`: versions that will do, as 402 for 4.2.
// Errors: E0531 (nothing there, or another version).
Result<CutlassHeaders> find_cutlass(const std::string& path, int least, int most);

struct NvccOptions {
  std::string cuda_home{}, path{}, library_path{};
  double timeout_seconds = 600;
  const std::atomic<bool>* cancel = nullptr;
};
// A toolkit's nvcc: of cuda_home, in PATH, or in /usr/local/cuda. Errors: E0530.
Result<std::string> find_nvcc(const NvccOptions& options);

// A shared library of one source; its bytes. Errors: E0501 (nvcc has no host compiler), E0504 (messages of the
// compiler), E0505, E0506, E0507, E0510.
Result<std::string> compile_cutlass(const std::string& nvcc, const CutlassHeaders& headers, const std::string& source,
                                    const std::vector<std::string>& flags, const NvccOptions& options);

}  // namespace codetta::toolchain
