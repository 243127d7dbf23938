// SPDX-License-Identifier: Apache-2.0
// From byte spans to lines and columns.
#include <algorithm>

#include "base/text.hpp"
#include "diag/cut_line.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::diag {

// Lines end at "\n", "\r\n" or a lone "\r", as in Python.
SourceText::SourceText(std::string name, std::string text, std::vector<Origin> origins)
    : name_(std::move(name)), text_(std::move(text)), origins_(std::move(origins)) {
  std::stable_sort(origins_.begin(), origins_.end(), [](const Origin& a, const Origin& b) {
    return a.span.begin != b.span.begin ? a.span.begin < b.span.begin : a.span.end > b.span.end;
  });
  line_starts_.push_back(0);
  for (size_t at = 0; at < text_.size(); ++at) {
    const bool lone_return = text_[at] == '\r' && (at + 1 == text_.size() || text_[at + 1] != '\n');
    if (text_[at] == '\n' || lone_return) line_starts_.push_back(static_cast<uint32_t>(at + 1));
  }
}

SourceLocation SourceText::locate(Span span) const {
  SourceLocation where;
  where.file = name_;
  if (!span.known()) return where;
  const size_t begin = std::min<size_t>(span.begin, text_.size());
  const auto next_line = std::upper_bound(line_starts_.begin(), line_starts_.end(), begin);
  const size_t line_begin = *(next_line - 1);
  const size_t next_begin = next_line == line_starts_.end() ? text_.size() : *next_line;
  std::string_view line = std::string_view(text_).substr(line_begin, next_begin - line_begin);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);

  // A span that begins in the line's end (or behind the text) points at the place behind the last character.
  const size_t first = std::min(begin - line_begin, line.size());
  const size_t last = std::clamp<size_t>(std::max<size_t>(span.end, begin) - line_begin, first, line.size());
  where.line = static_cast<uint32_t>(next_line - line_starts_.begin());
  where.column = static_cast<uint32_t>(base::count_code_points(line.substr(0, first)) + 1);
  where.length = std::max(1U, static_cast<uint32_t>(base::count_code_points(line.substr(first, last - first))));
  where.line_text = line;
  cut_line(where);
  return where;
}

const SourceLocation* SourceText::origin(Span span) const {
  const Origin* smallest = nullptr;
  for (const Origin& part : origins_) {
    if (!span.known() || part.span.begin > span.begin) break;
    if (part.span.end < span.end || part.span.end <= span.begin) continue;
    if (smallest == nullptr || part.span.end - part.span.begin <= smallest->span.end - smallest->span.begin)
      smallest = &part;
  }
  return smallest == nullptr ? nullptr : &smallest->where;
}

}  // namespace codetta::diag
