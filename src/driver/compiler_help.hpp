// SPDX-License-Identifier: Apache-2.0
// What is to be done where there is no compiler for the host.
#pragma once

#include <string_view>

#include "codetta/error.hpp"

namespace codetta::driver {

// Why there is none (E0501, E0502), with what goes without one behind what to install; other errors as they are.
Error without_compiler(const Error& error, std::string_view instead);

}  // namespace codetta::driver
