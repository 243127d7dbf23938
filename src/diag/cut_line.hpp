// SPDX-License-Identifier: Apache-2.0
// Keeps quoted source lines short enough for a terminal.
#pragma once

#include "codetta/error.hpp"

namespace codetta::diag {

inline constexpr uint32_t max_line_code_points = 160;

// Cuts where.line_text to at most max_line_code_points around the underlined part. Each cut side shows "...", which
// takes the place of three code points, so that (column - text_column) stays the index into line_text.
void cut_line(SourceLocation& where);

}  // namespace codetta::diag
