// SPDX-License-Identifier: Apache-2.0
// Text helpers; number conversion is std::to_chars / std::from_chars, which never look at the locale.
#include "base/text.hpp"

#include <array>
#include <charconv>
#include <system_error>

namespace codetta::base {

namespace {

uint32_t byte_at(std::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

template <class T>
std::string shortest(T value) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end.ptr);
  return text == "-nan" ? "nan" : text;
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

// The well-formed sequences of table 3-7 of the Unicode standard: the range of the second byte depends on the first.
Utf8Step utf8_step(std::string_view text, size_t at) {
  const uint32_t lead = byte_at(text, at);
  if (lead < 0x80) return {lead, 1, true};
  const Utf8Step invalid{lead, 1, false};
  uint32_t length = 0;
  uint32_t low = 0x80;
  uint32_t high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;   // no overlong forms
    if (lead == 0xED) high = 0x9F;  // no surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return invalid;
  }
  if (text.size() - at < length) return invalid;
  uint32_t code_point = lead & (0x7FU >> length);
  for (uint32_t i = 1; i < length; ++i) {
    const uint32_t byte = byte_at(text, at + i);
    if (byte < low || byte > high) return invalid;
    low = 0x80;
    high = 0xBF;
    code_point = (code_point << 6) | (byte & 0x3F);
  }
  return {code_point, length, true};
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    if (!step.valid) return false;
    at += step.length;
  }
  return true;
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count)
    at += static_cast<unsigned char>(text[at]) < 0x80 ? 1 : utf8_step(text, at).length;  // texts are ASCII, and long
  return count;
}

void append_utf8(std::string& out, uint32_t code_point) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | ((code_point >> 18) & 0x07));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i != 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::string escape_c(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '?':
        out += "\\?";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte >= 0x20 && byte < 0x7F) {
          out += c;
        } else {
          out += '\\';
          out += static_cast<char>('0' + (byte >> 6));
          out += static_cast<char>('0' + ((byte >> 3) & 7));
          out += static_cast<char>('0' + (byte & 7));
        }
    }
  }
  return out;
}

std::string escape_json(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    if (!step.valid) {
      append_utf8(out, 0xFFFD);
    } else if (step.code_point == '"' || step.code_point == '\\') {
      out += '\\';
      out += text[at];
    } else if (step.code_point == '\n') {
      out += "\\n";
    } else if (step.code_point == '\t') {
      out += "\\t";
    } else if (step.code_point < 0x20 || step.code_point == 0x7F) {
      out += "\\u00";
      out += digits[step.code_point >> 4];
      out += digits[step.code_point & 15];
    } else {
      out += text.substr(at, step.length);
    }
    at += step.length;
  }
  return out;
}

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (text.empty() || !letter(text[0])) return false;
  for (const char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9')) return false;
  }
  return true;
}

std::string format_double(double value) { return shortest(value); }
std::string format_float(float value) { return shortest(value); }

std::string format_real(double value) {
  std::string text = shortest(value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::optional<double> parse_double(std::string_view text) { return parse_whole<double>(text); }
std::optional<int64_t> parse_int64(std::string_view text) { return parse_whole<int64_t>(text); }

}  // namespace codetta::base
