// SPDX-License-Identifier: Apache-2.0
// What makes a kernel of a package consistent, whatever steps launch it, and the factors that it makes itself.
#pragma once

#include <optional>
#include <string>

#include "package/package.hpp"

namespace codetta::package {

// What is wrong with a kernel of a package for the backend, to stand behind "kernel 3".
std::optional<std::string> defect_of_kernel(const Kernel& kernel, Backend backend);

// Of a launch's product: factors that the kernel makes itself are of a GPU's families that do, from its own arguments.
std::optional<std::string> defect_of_factors(const Package& package, const LaunchKernel& launch, const Kernel& kernel);

}  // namespace codetta::package
