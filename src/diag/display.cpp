// SPDX-License-Identifier: Apache-2.0
// Escaping and width of text for a terminal. Ranges are blocks of the Unicode character database (EastAsianWidth W and
// F, general categories Mn, Cc and Cf), coarse on purpose: a wrong width only shifts a caret.
#include "diag/display.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace codetta::diag {

namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

template <size_t n>
bool contains(const std::array<Range, n>& ranges, uint32_t c) {
  return std::any_of(ranges.begin(), ranges.end(), [c](Range r) { return c >= r.first && c <= r.last; });
}

constexpr std::array<Range, 11> hidden = {{{0x00, 0x1F},
                                           {0x7F, 0x9F},
                                           {0xAD, 0xAD},
                                           {0x61C, 0x61C},
                                           {0x200B, 0x200F},
                                           {0x2028, 0x202E},
                                           {0x2060, 0x206F},
                                           {0xFEFF, 0xFEFF},
                                           {0xFFF9, 0xFFFB},
                                           {0xE000, 0xF8FF},
                                           {0xE0000, 0x10FFFF}}};

constexpr std::array<Range, 6> zero_width = {
    {{0x300, 0x36F}, {0x483, 0x489}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};

constexpr std::array<Range, 12> wide = {{{0x1100, 0x115F},
                                         {0x2E80, 0x303E},
                                         {0x3041, 0xA4CF},
                                         {0xA960, 0xA97F},
                                         {0xAC00, 0xD7A3},
                                         {0xF900, 0xFAFF},
                                         {0xFE30, 0xFE6F},
                                         {0xFF00, 0xFF60},
                                         {0xFFE0, 0xFFE6},
                                         {0x1F300, 0x1F64F},
                                         {0x1F680, 0x1F9FF},
                                         {0x20000, 0x3FFFD}}};

}  // namespace

std::string displayable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Step step = base::utf8_step(text, at);
    const uint32_t c = step.code_point;
    if (!step.valid) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c == '\t') {
      out += ' ';
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (contains(hidden, c)) {
      out += c < 0x100 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
    } else {
      out += text.substr(at, step.length);
    }
    at += step.length;
  }
  return out;
}

uint32_t display_width(std::string_view text) {
  const std::string shown = displayable(text);
  uint32_t width = 0;
  for (size_t at = 0; at < shown.size();) {
    const base::Utf8Step step = base::utf8_step(shown, at);
    at += step.length;
    if (contains(zero_width, step.code_point)) continue;
    width += contains(wide, step.code_point) ? 2 : 1;
  }
  return width;
}

}  // namespace codetta::diag
