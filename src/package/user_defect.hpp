// SPDX-License-Identifier: Apache-2.0
// What is wrong with what a kernel of the user's is passed on a GPU. Private to the room.
#pragma once

#include <optional>
#include <string>

#include "package/kernel_config.hpp"

namespace codetta::package {

std::optional<std::string> defect_of_passed(const KernelConfig& config, size_t arguments, size_t sizes);

}  // namespace codetta::package
