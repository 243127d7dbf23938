// SPDX-License-Identifier: Apache-2.0
// What is said where there may be no memory left to say it with.
#pragma once

#include <cstddef>

namespace codetta::cli {

// `text` as it stands inside of a JSON string, ended by 0, cut short where `bytes` (at least 1) do not hold it. Bytes
// beyond ASCII become question marks. Allocates nothing.
void escape_json(const char* text, char* out, size_t bytes) noexcept;

}  // namespace codetta::cli
