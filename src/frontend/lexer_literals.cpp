// SPDX-License-Identifier: Apache-2.0
// Numbers and strings as Python writes them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/text.hpp"
#include "frontend/lexer.hpp"

namespace codetta::frontend {

using diag::Code;
using diag::Span;

namespace {

constexpr uint64_t size_limit = uint64_t{1} << 63;  // with a minus in front it is an i64
constexpr int64_t int_limit_exponent = int64_t{1} << 62;

bool is_digit_or_letter(char c) { return is_digit(c) || c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); }

unsigned digit_value(char c) {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? static_cast<unsigned>(lower - 'a') + 10 : 99;
}

// Appends the digits of text[at...] with single underscores between them; false for a misplaced underscore.
bool take_digits(std::string_view text, size_t& at, unsigned base, std::string& digits) {
  bool after_digit = false;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '_') {
      if (!after_digit || at + 1 >= text.size() || digit_value(text[at + 1]) >= base) return false;
      after_digit = false;
    } else if (digit_value(c) < base) {
      digits += c;
      after_digit = true;
    } else {
      break;
    }
    ++at;
  }
  return true;
}

// About log10 of a nonzero number in the form 12.5e-3.
int64_t decimal_exponent(std::string_view digits) {
  const size_t e = std::min(digits.find('e'), digits.size());
  const size_t point = std::min(digits.find('.'), e);
  const size_t first = digits.find_first_of("123456789");
  int64_t exponent = 0;
  if (e < digits.size()) {
    const auto end = std::from_chars(digits.data() + e + 1, digits.data() + digits.size(), exponent);
    // Beyond any limit already: the sum below must not wrap.
    if (end.ec != std::errc() || exponent > int_limit_exponent || exponent < -int_limit_exponent)
      exponent = digits[e + 1] == '-' ? -int_limit_exponent : int_limit_exponent;
  }
  return exponent + static_cast<int64_t>(point) - static_cast<int64_t>(first);
}

// What to write instead of an integer that does not fit.
std::string as_float(const std::string& digits) {
  double value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    return "write a smaller number, or inf for infinity";
  const std::string shown =
      digits.size() <= 40 ? digits + ".0" : fmt::format("{}.{}e{}", digits[0], digits.substr(1, 16), digits.size() - 1);
  return "write it as a float, with a point: " + shown;
}

}  // namespace

Token Lexer::malformed(size_t begin, std::string reason) {
  while (is_digit_or_letter(at(position_))) ++position_;
  report_
      .error(Code::number_malformed, span_from(begin),
             position_ - begin > 40 ? std::string("number is malformed")
                                    : fmt::format("'{}' is not a number", text(span_from(begin))))
      .reason(std::move(reason))
      .help("write it as 10, 1_000, 0x1f, 2.5 or 1e-3");
  return fail();
}

// Square brackets hold sizes, which are neither floats nor u64.
bool Lexer::in_sizes() const { return !brackets_.empty() && text(brackets_.back()) == "["; }

Token Lexer::checked_integer(Token token, bool fits, std::string otherwise) {
  const bool size = in_sizes();
  if (fits && (!size || token.integer <= size_limit)) return token;
  report_.error(Code::number_overflow, token.span, "integer does not fit")
      .reason(fmt::format("integers have 64 bits: -9223372036854775808 to {}",
                          size ? "9223372036854775807" : "18446744073709551615"))
      .help(size ? "write a smaller size, or a name in quotes for one that is known when the program runs"
                 : std::move(otherwise));
  return fail();
}

Token Lexer::number_of_base(size_t begin, unsigned base) {
  position_ += 2;
  std::string digits;
  if (at(position_) == '_') ++position_;  // 0x_ff
  if (!take_digits(text_, position_, base, digits)) return malformed(begin, "an underscore stands between two digits");
  if (digits.empty()) return malformed(begin, "digits are missing");
  if (is_digit_or_letter(at(position_))) return malformed(begin, fmt::format("a digit is not one of base {}", base));
  Token token = make(TokenKind::Int, begin);
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, static_cast<int>(base));
  return checked_integer(token, end.ec == std::errc(), "write a float");
}

Token Lexer::number() {
  const size_t begin = position_;
  if (at(begin) == '0') {
    const char letter = static_cast<char>(at(begin + 1) | 0x20);
    if (letter == 'x') return number_of_base(begin, 16);
    if (letter == 'o') return number_of_base(begin, 8);
    if (letter == 'b') return number_of_base(begin, 2);
  }
  std::string digits;
  const char* const underscore = "an underscore stands between two digits";
  if (!take_digits(text_, position_, 10, digits)) return malformed(begin, underscore);
  bool real = false;
  if (at(position_) == '.') {
    real = true;
    digits += '.';
    ++position_;
    if (at(position_) == '_' || !take_digits(text_, position_, 10, digits)) return malformed(begin, underscore);
  }
  if ((at(position_) | 0x20) == 'e') {
    real = true;
    digits += 'e';
    ++position_;
    if (at(position_) == '+' || at(position_) == '-') {
      if (at(position_) == '-') digits += '-';
      ++position_;
    }
    const size_t before = digits.size();
    if (at(position_) == '_' || !take_digits(text_, position_, 10, digits)) return malformed(begin, underscore);
    if (digits.size() == before) return malformed(begin, "the exponent has no digits");
  }
  if ((at(position_) | 0x20) == 'j') return malformed(begin, "complex numbers are not part of the language");
  if (is_digit_or_letter(at(position_))) return malformed(begin, "a letter follows the digits");

  if (!real) {
    if (digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) {
      return malformed(begin, "a decimal integer has no leading zeros; octal is written 0o17");
    }
    Token token = make(TokenKind::Int, begin);
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), token.integer);
    return checked_integer(token, end.ec == std::errc(), as_float(digits));
  }
  Token token = make(TokenKind::Float, begin);
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), token.real);
  if (end.ec == std::errc::result_out_of_range) {
    // Too small is 0, as in Python.
    if (decimal_exponent(digits) > 0) {
      report_.error(Code::number_overflow, token.span, "float does not fit")
          .reason("the largest float is 1.7976931348623157e308")
          .help("write inf for infinity");
      return fail();
    }
    token.real = 0;
  }
  return token;
}

// One escape sequence behind its backslash. False after an error.
bool Lexer::escape(std::string& value, size_t begin) {
  const char c = at(position_);
  if (const size_t length = newline_length(position_); length != 0) {
    position_ += length;
    return true;
  }
  ++position_;
  static constexpr std::string_view names = "\\'\"abfnrtv";
  static constexpr std::string_view values = "\\'\"\a\b\f\n\r\t\v";
  if (const size_t index = names.find(c); index != std::string_view::npos) {
    value += values[index];
    return true;
  }
  if (c >= '0' && c <= '7') {
    unsigned code = static_cast<unsigned>(c - '0');
    for (int i = 0; i < 2 && at(position_) >= '0' && at(position_) <= '7'; ++i) {
      code = code * 8 + static_cast<unsigned>(at(position_++) - '0');
    }
    base::append_utf8(value, code);
    return true;
  }
  const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits == 0) {  // unknown escapes keep their backslash
    value += '\\';
    value += c;
    return true;
  }
  uint32_t code = 0;
  for (size_t i = 0; i < digits; ++i) {
    const unsigned digit = digit_value(at(position_));
    if (digit >= 16) {
      report_.error(Code::syntax, span_from(begin), fmt::format("escape \\{} is cut short", c))
          .reason(fmt::format("{} hexadecimal digits follow \\{}", digits, c))
          .help("write all digits, or a raw string r\"...\"");
      fail();
      return false;
    }
    code = code * 16 + digit;
    ++position_;
  }
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
    report_.error(Code::syntax, span_from(begin), "escape is not a character")
        .reason(fmt::format("U+{:X} is no Unicode character", code))
        .help("write the character itself");
    fail();
    return false;
  }
  base::append_utf8(value, code);
  return true;
}

Token Lexer::string(size_t begin, size_t quote, bool raw, char prefix) {
  const char mark = text_[quote];
  const bool triple = at(quote + 1) == mark && at(quote + 2) == mark;
  position_ = quote + (triple ? 3 : 1);
  const Span opening = span_from(begin);
  std::string value;
  for (;;) {
    if (position_ >= text_.size() || (!triple && newline_length(position_) != 0)) {
      report_.error(Code::string_unterminated, opening, "string is not closed")
          .reason(triple ? "the text ends first" : "the line ends first")
          .help(fmt::format("add the closing {}", triple ? std::string(3, mark) : std::string(1, mark)));
      return fail();
    }
    const char c = text_[position_];
    if (c == mark && (!triple || (at(position_ + 1) == mark && at(position_ + 2) == mark))) break;
    if (c != '\\' || position_ + 1 >= text_.size()) {
      value += c;
      ++position_;
    } else if (raw) {
      const size_t length = std::max(newline_length(position_ + 1), size_t{1});
      value += text_.substr(position_, 1 + length);
      position_ += 1 + length;
    } else {
      const size_t escape_begin = position_++;
      if (!escape(value, escape_begin)) return make(TokenKind::End, position_);
    }
  }
  position_ += triple ? 3 : 1;
  Token token = make(TokenKind::String, begin);
  token.string = static_cast<uint32_t>(strings_.size());
  token.prefix = prefix;
  strings_.push_back(std::move(value));
  return token;
}

}  // namespace codetta::frontend
