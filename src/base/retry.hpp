// SPDX-License-Identifier: Apache-2.0
// Private to the room: interrupted calls and the error of the last call.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "base/expected.hpp"

namespace codetta::base {

// Calls again while a signal interrupts. Not for close(), whose descriptor is gone after EINTR on Linux.
template <class F>
auto retry_interrupted(F&& call) -> decltype(call()) {
  while (true) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

inline SystemError last_error(std::string call, std::string_view path) {
  return {errno, std::move(call), std::string(path)};
}

}  // namespace codetta::base
