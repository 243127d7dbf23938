// SPDX-License-Identifier: Apache-2.0
// Choosing the window of a long line.
#include "diag/cut_line.hpp"

#include <algorithm>
#include <string_view>

#include "base/text.hpp"

namespace codetta::diag {

namespace {

// The byte offset of the code point with the given index, of so many.
size_t offset_of(std::string_view text, uint32_t total, uint32_t index) {
  if (total == text.size()) return index;
  size_t at = 0;
  for (; index != 0 && at < text.size(); --index) at += base::utf8_step(text, at).length;
  return at;
}

}  // namespace

void cut_line(SourceLocation& where) {
  if (where.line_text.size() <= max_line_code_points) return;
  const auto total = static_cast<uint32_t>(base::count_code_points(where.line_text));
  if (total <= max_line_code_points) return;

  // Center the underlined part; one longer than the window keeps its beginning in view.
  const uint32_t begin = where.column > where.text_column ? where.column - where.text_column : 0;
  const uint32_t shown = std::min(where.length, max_line_code_points - 16);
  const uint32_t margin = (max_line_code_points - shown) / 2;
  const uint32_t start = std::min(begin > margin ? begin - margin : 0, total - max_line_code_points);
  const uint32_t end = start + max_line_code_points;

  const std::string_view line = where.line_text;
  const bool front = start != 0;
  const bool back = end != total;
  const size_t first = offset_of(line, total, front ? start + 3 : start);
  const size_t last = offset_of(line, total, back ? end - 3 : end);
  std::string cut = front ? "..." : "";
  cut += line.substr(first, last - first);
  if (back) cut += "...";
  where.line_text = std::move(cut);
  where.text_column += start;
}

}  // namespace codetta::diag
