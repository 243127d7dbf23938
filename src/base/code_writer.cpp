// SPDX-License-Identifier: Apache-2.0
// CodeWriter and the float literals.
#include "base/code_writer.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace codetta::base {

CodeWriter::CodeWriter(std::initializer_list<std::string_view> sections) {
  for (const std::string_view name : sections) parts_.push_back({std::string(name), {}});
  if (parts_.empty()) parts_.push_back({"body", {}});
  current_ = parts_.size() - 1;
}

void CodeWriter::Block::end() {
  if (writer_ != nullptr) std::exchange(writer_, nullptr)->close(close_);
}

CodeWriter::Block CodeWriter::indent() {
  ++at().depth;
  return Block(*this, {});
}

void CodeWriter::close(std::string_view text) {
  Part& part = at();
  if (part.depth != 0) --part.depth;
  if (text.empty()) return;
  part.blank = false;
  put_lines(text);
}

// The pending blank line, if anything stands before it.
void CodeWriter::separate() {
  Part& part = at();
  if (part.blank && !part.fresh) part.text += '\n';
  part.blank = false;
}

void CodeWriter::put_lines(std::string_view text) {
  separate();
  Part& part = at();
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) {
      part.text.append(size_t{2} * part.depth, ' ');
      part.text += line;
    }
    part.text += '\n';
  }
  // A blank line right behind an opening brace is dropped.
  part.fresh = text.ends_with('{');
}

void CodeWriter::raw(std::string_view text) {
  if (text.empty()) return;
  separate();
  at().text += text;
  if (text.back() != '\n') at().text += '\n';
  at().fresh = false;
}

CodeWriter::Section CodeWriter::section(std::string_view name) {
  const size_t previous = current_;
  for (current_ = 0; current_ < parts_.size(); ++current_) {
    if (parts_[current_].name == name) return Section(*this, previous);
  }
  parts_.push_back({std::string(name), {}});
  return Section(*this, previous);
}

std::string CodeWriter::str() const {
  std::string out;
  for (const Part& part : parts_) {
    if (part.text.empty()) continue;
    if (!out.empty()) out += '\n';
    out += part.text;
  }
  return out;
}

std::string hex_float(double value) {
  std::array<char, 64> buffer{};
  const double magnitude = std::fabs(value);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, std::chars_format::hex);
  return (std::signbit(value) ? "-0x" : "0x") + std::string(buffer.data(), end.ptr);
}

std::string float_literal(float value) {
  if (std::isnan(value)) return "__builtin_nanf(\"\")";
  if (std::isinf(value)) return value < 0 ? "-__builtin_inff()" : "__builtin_inff()";
  return hex_float(static_cast<double>(value)) + "f /* " + format_float(value) + " */";
}

std::string double_literal(double value) {
  if (std::isnan(value)) return "__builtin_nan(\"\")";
  if (std::isinf(value)) return value < 0 ? "-__builtin_inf()" : "__builtin_inf()";
  return hex_float(value) + " /* " + format_double(value) + " */";
}

}  // namespace codetta::base
