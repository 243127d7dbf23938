// SPDX-License-Identifier: Apache-2.0
// Lines, indentation, names and punctuation; numbers and strings are in lexer_literals.cpp.
#include "frontend/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace codetta::frontend {

using diag::Code;
using diag::Span;

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\f'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

char closing_of(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

size_t first_invalid_byte(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (is_ascii(text[at])) {
      ++at;
      continue;
    }
    const base::Utf8Step step = base::utf8_step(text, at);
    if (!step.valid) return at;
    at += step.length;
  }
  return std::string_view::npos;
}

}  // namespace

Lexer::Lexer(Report& report) : report_(report), text_(report.source()->text()) {
  if (text_.size() > max_text) {
    report_.error(Code::text_too_large, Span{}, fmt::format("the text has {} bytes", text_.size()))
        .reason(fmt::format("at most {} bytes are read", max_text))
        .help("split the text");
    fail();
    return;
  }
  if (const size_t bad = first_invalid_byte(text_); bad != std::string_view::npos) {
    const auto begin = static_cast<uint32_t>(bad);
    report_.error(Code::text_encoding, Span{begin, begin + 1}, fmt::format("byte {} is not valid UTF-8", bad))
        .reason(fmt::format("the byte is 0x{:02x}", static_cast<unsigned char>(text_[bad])))
        .help("save the text as UTF-8");
    fail();
    return;
  }
  if (text_.starts_with("\xef\xbb\xbf")) position_ = 3;  // a byte order mark, as editors on Windows write it
}

Token Lexer::make(TokenKind kind, size_t begin) const {
  Token token;
  token.kind = kind;
  token.span = span_from(begin);
  return token;
}

Token Lexer::fail() {
  failed_ = true;
  position_ = text_.size();
  return make(TokenKind::End, position_);
}

size_t Lexer::newline_length(size_t position) const {
  if (at(position) == '\r') return position + 1 < text_.size() && text_[position + 1] == '\n' ? 2 : 1;
  return at(position) == '\n' ? 1 : 0;
}

// Blanks, comments and joined lines between tokens. False after an error.
bool Lexer::skip_blanks(bool& joined) {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (is_blank(c)) {
      ++position_;
    } else if (c == '#') {
      while (position_ < text_.size() && newline_length(position_) == 0) ++position_;
    } else if (c == '\\') {
      const size_t begin = position_++;
      const size_t length = newline_length(position_);
      if (length == 0 || position_ + length == text_.size()) {
        report_.error(Code::syntax, span_from(begin), "a backslash joins lines only at the end of a line")
            .reason(length == 0 ? "something follows it on the line" : "no line follows")
            .help("remove the backslash");
        fail();
        return false;
      }
      position_ += length;
      first_on_line_ = true;
      joined = true;
    } else if (newline_length(position_) != 0 && !brackets_.empty()) {
      position_ += newline_length(position_);
      first_on_line_ = true;
    } else {
      break;
    }
  }
  return true;
}

// At the begin of a physical line outside brackets: measures the indentation and passes empty lines. True when `token`
// is an Indent or Dedent (or the End after an error) to hand out now.
bool Lexer::begin_line(Token& token) {
  size_t column = 0;
  size_t alternate = 0;
  for (;;) {
    column = alternate = 0;
    for (; position_ < text_.size() && is_blank(text_[position_]); ++position_) {
      const char c = text_[position_];
      column = c == '\t' ? (column / 8 + 1) * 8 : c == '\f' ? 0 : column + 1;
      alternate = c == '\f' ? 0 : alternate + 1;
    }
    if (at(position_) == '#') {
      while (position_ < text_.size() && newline_length(position_) == 0) ++position_;
    }
    if (position_ >= text_.size()) return false;
    const size_t length = newline_length(position_);
    if (length == 0) break;
    position_ += length;
  }
  line_start_ = false;
  first_on_line_ = true;
  if (!base_known_) {
    base_known_ = true;
    indents_.back() = {column, alternate};  // a text inside a program is often indented as a whole
  }
  const auto inconsistent = [&] {
    report_
        .error(Code::tabs_mixed, Span{static_cast<uint32_t>(position_), static_cast<uint32_t>(position_)},
               "inconsistent use of tabs and blanks in indentation")
        .reason("whether this line is deeper than the one above depends on the width of a tab")
        .help("indent with blanks only");
    token = fail();
    return true;
  };
  if (column == indents_.back().column) return alternate == indents_.back().alternate ? false : inconsistent();
  if (column > indents_.back().column) {
    if (alternate <= indents_.back().alternate) return inconsistent();
    if (indents_.size() >= max_indents) {
      report_.error(Code::too_deep, span_from(position_), "the indentation is nested too deeply")
          .reason(fmt::format("at most {} levels are read", max_indents))
          .help("write shorter blocks");
      token = fail();
      return true;
    }
    indents_.push_back({column, alternate});
    token = make(TokenKind::Indent, position_);
    return true;
  }
  while (indents_.size() > 1 && column < indents_.back().column) {
    indents_.pop_back();
    ++pending_dedents_;
  }
  if (column != indents_.back().column) {
    report_
        .error(Code::indentation, Span{static_cast<uint32_t>(position_), static_cast<uint32_t>(position_)},
               "the indentation matches no line above")
        .reason(fmt::format("this line begins at column {}, the enclosing one at column {}", column + 1,
                            indents_.back().column + 1))
        .help("align the line with the block it belongs to");
    token = fail();
    return true;
  }
  if (alternate != indents_.back().alternate) return inconsistent();
  return false;
}

Token Lexer::end_of_text() {
  if (!brackets_.empty() && !failed_) {
    const Span open = brackets_.back();
    report_.error(Code::bracket_unclosed, open, fmt::format("'{}' was never closed", text(open)))
        .reason("the text ends first")
        .help(fmt::format("add the closing '{}'", closing_of(text_[open.begin])));
    return fail();
  }
  if (any_token_) {
    any_token_ = false;
    pending_dedents_ += indents_.size() - 1;
    indents_.erase(indents_.begin() + 1, indents_.end());
    return make(TokenKind::Newline, position_);
  }
  if (!failed_ && indents_.size() > 1) {
    pending_dedents_ += indents_.size() - 1;
    indents_.erase(indents_.begin() + 1, indents_.end());
  }
  if (pending_dedents_ > 0) {
    --pending_dedents_;
    return make(TokenKind::Dedent, position_);
  }
  return make(TokenKind::End, position_);
}

Token Lexer::next() {
  if (failed_) return make(TokenKind::End, position_);
  Token token;
  if (line_start_ && pending_dedents_ == 0 && brackets_.empty() && begin_line(token)) return token;
  if (pending_dedents_ > 0) {
    --pending_dedents_;
    return make(TokenKind::Dedent, position_);
  }
  bool joined = false;
  if (!skip_blanks(joined)) return make(TokenKind::End, position_);
  if (position_ >= text_.size()) return end_of_text();

  if (const size_t length = newline_length(position_); length != 0) {
    const size_t begin = position_;
    position_ += length;
    line_start_ = true;
    if (!any_token_) return next();  // only a joined empty line gets here, so the depth is one
    any_token_ = false;
    return make(TokenKind::Newline, begin);
  }

  any_token_ = true;
  const bool first = first_on_line_ && !joined;
  first_on_line_ = false;
  const char c = text_[position_];
  if (is_name_start(c)) {
    token = name();
  } else if (is_digit(c) || (c == '.' && is_digit(at(position_ + 1)))) {
    token = number();
  } else if (c == '"' || c == '\'') {
    token = string(position_, position_, false, 0);
  } else {
    token = punctuation();
  }
  token.first_on_line = first;
  return token;
}

Token Lexer::name() {
  const size_t begin = position_;
  while (is_name_part(at(position_))) ++position_;
  const char quote = at(position_);
  if (quote == '"' || quote == '\'') {  // r"...", b"...", f"...", rb"..."
    bool raw = false;
    bool is_prefix = position_ - begin <= 2;
    char prefix = 0;
    for (const char c : text_.substr(begin, position_ - begin)) {
      const char lower = static_cast<char>(c | 0x20);
      if (lower == 'r') {
        raw = true;
      } else if (lower == 'b' || lower == 'f') {
        prefix = lower;
      } else if (lower != 'u') {
        is_prefix = false;
      }
    }
    if (is_prefix) return string(begin, position_, raw, prefix);
  }
  if (position_ < text_.size() && !is_ascii(text_[position_])) return bad_character();
  if (position_ - begin > max_name) {
    report_
        .error(Code::name_too_long, span_from(begin),
               fmt::format("a name of {} characters is too long", position_ - begin))
        .reason(fmt::format("names have at most {} characters", max_name))
        .help("shorten the name");
    return fail();
  }
  return make(TokenKind::Name, begin);
}

Token Lexer::bad_character() {
  const base::Utf8Step step = base::utf8_step(text_, position_);
  const Span span{static_cast<uint32_t>(position_), static_cast<uint32_t>(position_ + step.length)};
  const bool control = step.code_point < 0x20 || step.code_point == 0x7f;
  auto& error = report_.error(Code::text_character, span,
                              control ? fmt::format("control character U+{:04X}", step.code_point)
                                      : fmt::format("character '{}' (U+{:04X}) has no meaning here",
                                                    text_.substr(position_, step.length), step.code_point));
  error.reason(control                      ? "of these characters a text has line ends, tabs and form feeds"
               : is_ascii(text_[position_]) ? "it is no operator and no part of a name"
                                            : "outside strings and comments the text is ASCII: names are letters, "
                                              "digits and _");
  const uint32_t c = step.code_point;
  error.help(c == 0x2212                  ? "write - for minus"
             : c == 0xd7                  ? "write * for the product"
             : c == 0xf7                  ? "write / for the quotient"
             : c == 0xa0                  ? "write an ordinary blank"
             : c == '!'                   ? "write ~ for not, != for unequal"
             : c >= 0x2018 && c <= 0x201f ? "write the plain quote ' or \""
             : control                    ? "remove it"
             : c >= 0x80                  ? "use an ASCII name"
                                          : "remove it");
  return fail();
}

Token Lexer::punctuation() {
  static constexpr std::string_view spellings[] = {
      "**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "<=", ">=", "==", "!=", "->", "+=", "-=",
      "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "@=", ":=", "+",  "-",  "*",  "/",  "%",  "@",  "&",  "|",
      "^",   "~",   "<",   ">",   "(",   ")",  "[",  "]",  "{",  "}",  ",",  ":",  ".",  ";",  "="};
  const std::string_view rest = text_.substr(position_, 3);
  const auto* found = std::find_if(std::begin(spellings), std::end(spellings),
                                   [&](std::string_view spelling) { return rest.starts_with(spelling); });
  if (found == std::end(spellings)) return bad_character();
  const size_t begin = position_;
  position_ += found->size();
  Token token = make(TokenKind::Punct, begin);
  token.op = punct(*found);
  const char c = (*found)[0];
  if (c == '(' || c == '[' || c == '{') {
    if (brackets_.size() >= max_brackets) {
      report_.error(Code::too_deep, token.span, "brackets are nested too deeply")
          .reason(fmt::format("at most {} open brackets are read, as in CPython", max_brackets))
          .help("assign inner expressions to names");
      return fail();
    }
    brackets_.push_back(token.span);
  } else if (c == ')' || c == ']' || c == '}') {
    if (brackets_.empty()) {
      report_.error(Code::bracket_unclosed, token.span, fmt::format("unmatched '{}'", c))
          .reason("no bracket is open here")
          .help("remove it, or add the opening bracket");
      return fail();
    }
    const Span open = brackets_.back();
    if (const char expected = closing_of(text_[open.begin]); c != expected) {
      report_.error(Code::bracket_unclosed, token.span, fmt::format("'{}' closes '{}'", c, text(open)))
          .note("opened here", report_.source(), open)
          .help(fmt::format("close it with '{}'", expected));
      return fail();
    }
    brackets_.pop_back();
  }
  return token;
}

}  // namespace codetta::frontend
