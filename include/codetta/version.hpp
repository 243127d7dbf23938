// SPDX-License-Identifier: Apache-2.0
// The version of the library that is loaded.
#pragma once

namespace codetta {

// "major.minor.patch" of the loaded library; static storage. Any thread, never fails.
[[nodiscard]] __attribute__((visibility("default"))) const char* version() noexcept;

}  // namespace codetta
