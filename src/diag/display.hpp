// SPDX-License-Identifier: Apache-2.0
// Text as it may go to a terminal: nothing that moves the cursor, changes colors or reorders what is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace codetta::diag {

// A tab becomes one blank; control characters, invalid bytes, and invisible or bidirectional marks become "\n", "\x1b",
// "\u202e". The rest is kept.
std::string displayable(std::string_view text);

// How many terminal cells displayable(text) takes: 2 for wide East Asian characters, 0 for combining marks.
uint32_t display_width(std::string_view text);

}  // namespace codetta::diag
