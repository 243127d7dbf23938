// SPDX-License-Identifier: Apache-2.0
// The recursive descent parser: expressions (parser_expressions.cpp) and statements (parser.cpp).
#pragma once

#include <string>
#include <string_view>

#include "frontend/ast.hpp"
#include "frontend/lexer.hpp"
#include "frontend/parser.hpp"

namespace codetta::frontend {

bool is_keyword(std::string_view word);  // of Python, hard ones

class Parser {
 public:
  explicit Parser(Report& report) : report_(report), lexer_(report) { module_.source = report.source(); }

  ast::Module parse();
  [[nodiscard]] bool complete() const { return complete_; }

 private:
  using ExprId = ast::ExprId;

  // tokens
  void advance();
  [[nodiscard]] bool at(std::string_view spelling) const { return token_.is(spelling); }
  [[nodiscard]] bool at_word(std::string_view word) const {
    return token_.kind == TokenKind::Name && lexer_.text(token_.span) == word;
  }
  [[nodiscard]] bool at_name() const { return token_.kind == TokenKind::Name && !is_keyword(lexer_.text(token_.span)); }
  bool accept(std::string_view spelling);
  bool expect(std::string_view spelling, std::string_view where);
  [[nodiscard]] std::string describe_token() const;
  [[nodiscard]] diag::Span span_from(uint32_t begin) const { return {begin, end_ > begin ? end_ : begin}; }
  void syntax_error(std::string expected);
  void stop();
  void skip_line();
  void skip_block();
  // An indented line behind one that opens no block: told, and all that is indented is passed.
  void reject_indentation();
  // With the opening bracket as the current token: passes the closing one.
  void skip_brackets();
  // In brackets: passes everything up to the bracket that closes the innermost one.
  void skip_to_closing();

  // expressions
  ExprId add(ast::Expr expr);
  ExprId add_tuple(uint32_t begin, const std::vector<ExprId>& elements, bool list);  // ends before the token at hand
  ExprId invalid(uint32_t begin);
  void too_deep(diag::Span span);
  bool enter(diag::Span span);
  ExprId expression_list();
  ExprId expression();
  ExprId binary(int lowest);
  ExprId unary();
  ExprId power();
  ExprId postfix();
  ExprId atom();
  ExprId word_atom();
  ExprId lambda();
  ExprId bracketed(bool list);
  ExprId string_atom();
  ExprId call(ExprId callee, uint32_t begin);
  ExprId attribute(ExprId object, uint32_t begin);
  ExprId subscript(ExprId object, uint32_t begin);
  ExprId subscript_item();
  ExprId comprehension(uint32_t begin);
  ExprId annotation();

  // statements
  void definition();
  bool parameters();
  void parameter();
  void body();
  void block(std::string_view what);
  bool device_block();
  void statement_line();
  void simple_statement();
  void assignment(ExprId target, uint32_t begin);
  bool add_targets(ExprId target);
  bool rejected_statement(bool in_function);
  void report_control_flow(std::string_view word);
  void top_level();

  Report& report_;
  Lexer lexer_;
  ast::Module module_;
  Token token_;
  uint32_t end_ = 0;  // of the last token taken
  size_t depth_ = 0;
  bool stopped_ = false;  // at a limit: nothing more is read
  bool panic_ = false;    // a syntax error was reported, the rest of the line means nothing
  bool complete_ = true;
  bool in_annotation_ = false;
};

}  // namespace codetta::frontend
