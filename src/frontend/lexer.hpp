// SPDX-License-Identifier: Apache-2.0
// Python tokens, one at a time and in bounded memory: the text is never copied, and no list of tokens is kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.hpp"
#include "frontend/report.hpp"

namespace codetta::frontend {

enum class TokenKind : uint8_t { End, Newline, Indent, Dedent, Name, Int, Float, String, Punct };

// Every operator and delimiter of Python that is not a word. The value is the spelling, at most three bytes.
constexpr uint32_t punct(std::string_view text) {
  uint32_t code = 0;
  for (const char c : text) code = (code << 8) | static_cast<unsigned char>(c);
  return code;
}

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Token {
  TokenKind kind = TokenKind::End;
  bool first_on_line = false;  // nothing but blanks lies between the line's begin and the token
  diag::Span span;
  uint32_t op = 0;       // Punct: punct(spelling)
  uint64_t integer = 0;  // Int: up to 2^63, which only a minus makes valid
  double real = 0;       // Float
  uint32_t string = 0;   // String: index for Lexer::string_value
  char prefix = 0;       // String: 'b' or 'f' where the literal has such a prefix
  [[nodiscard]] bool is(std::string_view text) const { return kind == TokenKind::Punct && op == punct(text); }
};

class Lexer {
 public:
  static constexpr size_t max_text = size_t{16} << 20;
  static constexpr size_t max_name = 255;
  static constexpr size_t max_indents = 100;   // as CPython
  static constexpr size_t max_brackets = 200;  // as CPython

  explicit Lexer(Report& report);

  // The next token; End forever after the end of the text or after an error that leaves nothing to go on with
  // (failed() is then true, and the error is in the report).
  Token next();
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::string_view text(diag::Span span) const { return text_.substr(span.begin, span.end - span.begin); }
  [[nodiscard]] const std::string& string_value(uint32_t index) const { return strings_[index]; }
  [[nodiscard]] size_t bracket_depth() const { return brackets_.size(); }

 private:
  [[nodiscard]] char at(size_t position) const { return position < text_.size() ? text_[position] : '\0'; }
  [[nodiscard]] diag::Span span_from(size_t begin) const {
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(position_)};
  }
  Token make(TokenKind kind, size_t begin) const;
  Token fail();
  Token end_of_text();
  bool begin_line(Token& token);
  bool skip_blanks(bool& joined);
  size_t newline_length(size_t position) const;
  Token name();
  Token number();
  Token number_of_base(size_t begin, unsigned base);
  Token malformed(size_t begin, std::string reason);
  [[nodiscard]] bool in_sizes() const;
  // `fits`: into a u64. `otherwise`: what to write instead of one that doesn't, where no size stands.
  Token checked_integer(Token token, bool fits, std::string otherwise);
  Token string(size_t begin, size_t quote, bool raw, char prefix);
  bool escape(std::string& value, size_t begin);
  Token punctuation();
  Token bad_character();

  struct Indent {
    size_t column;     // with tabs to multiples of eight
    size_t alternate;  // with tabs as one column: both must agree in every comparison
  };

  Report& report_;
  std::string_view text_;
  size_t position_ = 0;
  bool line_start_ = true;
  bool first_on_line_ = true;
  bool failed_ = false;
  bool any_token_ = false;   // on this logical line
  bool base_known_ = false;  // the first line's indentation is the base of all
  size_t pending_dedents_ = 0;
  std::vector<Indent> indents_{{0, 0}};
  std::vector<diag::Span> brackets_;
  std::vector<std::string> strings_;
};

}  // namespace codetta::frontend
