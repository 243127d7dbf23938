// SPDX-License-Identifier: Apache-2.0
// Text helpers that never depend on the locale: UTF-8 stepping, escaping, numbers, joining and splitting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace codetta::base {

// One code point of a text. An invalid byte (overlong, surrogate, truncated, above U+10FFFF) is a step of its own
// of length 1 whose code_point is the byte.
struct Utf8Step {
  uint32_t code_point = 0;
  uint32_t length = 1;
  bool valid = false;
};
Utf8Step utf8_step(std::string_view text, size_t at);  // at < text.size()
bool is_valid_utf8(std::string_view text);
size_t count_code_points(std::string_view text);  // invalid bytes count one each
void append_utf8(std::string& out, uint32_t code_point);

std::string join(const std::vector<std::string>& parts, std::string_view separator);
// "" splits into one empty part, "a," into "a" and "". The parts point into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);  // blanks, tabs and line ends of both sides

// The inside of a C or C++ string literal: every byte outside printable ASCII as a three-digit octal escape (a hex
// escape would swallow digits that follow), '?' escaped so that no trigraph arises.
std::string escape_c(std::string_view text);
// The inside of a JSON string; valid JSON for any bytes: invalid UTF-8 becomes U+FFFD.
std::string escape_json(std::string_view text);

// [A-Za-z_][A-Za-z0-9_]*; keywords of no language are looked at.
bool is_identifier(std::string_view text);

// Shortest text that reads back to the same value: "3", "0.1", "1e+100", "-0", "inf", "nan".
std::string format_double(double value);
std::string format_float(float value);
// The same, but always recognizable as a floating point number: "3.0".
std::string format_real(double value);

// The whole text must be the number (no blanks, no '+', no hex); nullopt when it isn't or doesn't fit. parse_double
// takes "inf" and "nan" and fails on overflow.
std::optional<double> parse_double(std::string_view text);
std::optional<int64_t> parse_int64(std::string_view text);

}  // namespace codetta::base
