// SPDX-License-Identifier: Apache-2.0
// The parser's place in the tokens: taking them, saying what was expected, and going on behind a mistake.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/parser_impl.hpp"

namespace codetta::frontend {

using diag::Code;
using diag::Span;

void Parser::advance() {
  end_ = token_.span.known() ? token_.span.end : 0;
  if (stopped_) return;
  token_ = lexer_.next();
  if (lexer_.failed() || report_.full()) {
    panic_ = true;
    complete_ = false;
  }
}

bool Parser::accept(std::string_view spelling) {
  if (!at(spelling)) return false;
  advance();
  return true;
}

bool Parser::expect(std::string_view spelling, std::string_view where) {
  if (accept(spelling)) return true;
  syntax_error(where.empty() ? fmt::format("'{}'", spelling) : fmt::format("'{}' {}", spelling, where));
  return false;
}

std::string Parser::describe_token() const {
  switch (token_.kind) {
    case TokenKind::End:
      return "end of the text";
    case TokenKind::Newline:
      return "end of the line";
    case TokenKind::Indent:
      return "deeper indentation";
    case TokenKind::Dedent:
      return "end of the block";
    default: {
      const std::string_view text = lexer_.text(token_.span);
      return text.size() > 40 ? fmt::format("'{}...'", text.substr(0, 40)) : fmt::format("'{}'", text);
    }
  }
}

// Nothing of the text is read from here on.
void Parser::stop() {
  panic_ = true;
  complete_ = false;
  token_ = Token{};
  token_.span = {end_, end_};
  stopped_ = true;
}

void Parser::syntax_error(std::string expected) {
  if (panic_) return;
  panic_ = true;
  complete_ = false;
  if (lexer_.failed() || stopped_) return;
  const std::string found = describe_token();
  const Span span = token_.span;
  // Where a bracket was forgotten everything behind it is nonsense; the lexer then reports the bracket.
  if (lexer_.bracket_depth() > 0) {
    while (lexer_.bracket_depth() > 0 && token_.kind != TokenKind::End) advance();
    if (lexer_.failed()) return;
  }
  report_.error(Code::syntax, span, fmt::format("unexpected {}", found))
      .reason(fmt::format("expected {}", expected))
      .help("correct the line; the language is a subset of Python, see docs/language.md");
}

// To the begin of the next logical line.
void Parser::skip_line() {
  while (token_.kind != TokenKind::Newline && token_.kind != TokenKind::End) token_ = lexer_.next();
  if (token_.kind == TokenKind::Newline) token_ = lexer_.next();
  panic_ = lexer_.failed() || stopped_ || report_.full();
}

// An indented block, if one begins here.
void Parser::skip_block() {
  if (token_.kind != TokenKind::Indent) return;
  size_t depth = 0;
  do {
    if (token_.kind == TokenKind::Indent) ++depth;
    if (token_.kind == TokenKind::Dedent) --depth;
    token_ = lexer_.next();
  } while (depth > 0 && token_.kind != TokenKind::End);
}

void Parser::skip_brackets() {
  const size_t outside = lexer_.bracket_depth() - 1;
  while (lexer_.bracket_depth() > outside && token_.kind != TokenKind::End) advance();
  if (!panic_) advance();
}

void Parser::skip_to_closing() {
  const size_t inside = lexer_.bracket_depth();
  while (token_.kind != TokenKind::End && lexer_.bracket_depth() >= inside && inside > 0) advance();
}

}  // namespace codetta::frontend
