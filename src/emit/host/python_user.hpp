// SPDX-License-Identifier: Apache-2.0
// Launches of kernels of the user's in Python modules for CUDA (device/host/program_cuda_user.py).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "package/package.hpp"

namespace codetta::emit::host {

// The lines that call _launch_own, those behind the first to be indented. `number`: of the kernel in the module;
// `expression`: a dim as Python.
std::vector<std::string> user_launch_lines(const package::Package& package, const package::LaunchKernel& step,
                                           size_t number,
                                           const std::function<std::string(const types::Dim&)>& expression);

}  // namespace codetta::emit::host
