// SPDX-License-Identifier: Apache-2.0
// The pieces of a self-contained page: escaped text, tables, charts as inline SVG. Nothing is fetched, nothing runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace codetta::driver::html {

// For element content and quoted attributes: markup characters as entities; invalid UTF-8 and the characters that a
// document may not hold as U+FFFD.
std::string escaped(std::string_view text);

struct Bar {
  std::string label, note;
  double value = 0;
};
// Horizontal bars on one scale; what is not finite or below 0 has no length. `unit` follows each number.
std::string bar_chart(const std::vector<Bar>& bars, std::string_view unit);

// A rectangle in a plane of steps (across) and bytes (upward): [first, last] x [offset, offset + bytes).
struct Span {
  std::string label;
  double first = 0, last = 0, offset = 0, bytes = 0;
};
// The line over it: live bytes of each step; its largest value is dashed.
std::string timeline(const std::vector<Span>& spans, const std::vector<int64_t>& live, double total_bytes);

// Work against bytes, both axes in logarithms: a point lies under the sloped roof of memory and the flat one of
// arithmetic (not drawn where `peak` is 0). Points without work or bytes are left out.
struct RoofPoint {
  std::string label;
  double intensity = 0, rate = 0;  // operations a byte, G operations a second
};
std::string roofline(const std::vector<RoofPoint>& points, double memory_rate, double peak);

class Page {
 public:
  explicit Page(std::string_view title);
  void section(std::string_view heading);
  void text(std::string_view paragraph);
  void code(std::string_view text);                              // as it stands
  void folded(std::string_view summary, std::string_view text);  // code behind a click
  // Two texts side by side, under their names.
  void pair(std::string_view left_name, std::string_view left, std::string_view right_name, std::string_view right);
  // Cells that are numbers are aligned right.
  void table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);
  void drawing(const std::string& svg) { body_ += svg; }  // of one of the functions above
  [[nodiscard]] std::string finish() &&;

 private:
  std::string title_, body_;
  bool open_ = false;
};

}  // namespace codetta::driver::html
