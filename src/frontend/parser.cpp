// SPDX-License-Identifier: Apache-2.0
// Statements, functions and error recovery.
#include "frontend/parser.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/parser_impl.hpp"

namespace codetta::frontend {

using ast::ExprId;
using ast::ExprKind;
using diag::Code;
using diag::Span;

bool is_keyword(std::string_view word) {
  static constexpr std::string_view keywords[] = {
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
  return std::find(std::begin(keywords), std::end(keywords), word) != std::end(keywords);
}

ast::Module Parser::parse() {
  token_ = lexer_.next();
  if (lexer_.failed()) complete_ = false;
  while (token_.kind != TokenKind::End) {
    panic_ = false;
    top_level();
  }
  if (lexer_.failed() || stopped_) complete_ = false;
  if (module_.functions.empty() && report_.empty()) {
    report_.error(Code::text_empty, Span{0, 0}, "the text holds no function")
        .reason("an epilogue is a function of accum, a program one of typed tensors")
        .help(
            "write def epilogue(accum): D = relu(accum); return D, or def program(x: f32[\"n\"]): y = relu(x); return "
            "y");
  }
  return std::move(module_);
}

void Parser::reject_indentation() {
  token_ = lexer_.next();
  report_.error(Code::indentation, token_.span, "unexpected indentation")
      .reason("no block was opened by the line above")
      .help("align the line with the one above");
  complete_ = false;
  while (token_.kind != TokenKind::Dedent && token_.kind != TokenKind::End) token_ = lexer_.next();
}

void Parser::top_level() {
  if (token_.kind == TokenKind::Newline || token_.kind == TokenKind::Dedent) {
    token_ = lexer_.next();
    return;
  }
  if (token_.kind == TokenKind::Indent) {
    reject_indentation();
    return;
  }
  if (at_word("def")) {
    definition();
    return;
  }
  if (at("@")) {
    report_.error(Code::decorator, token_.span, "decorators are not part of the language")
        .reason("nothing runs when the text is read")
        .help("remove the decorator");
    skip_line();
    return;
  }
  if (rejected_statement(false)) return;
  if (token_.kind == TokenKind::String) {  // a docstring
    skip_line();
    return;
  }
  const diag::Span span = token_.span;
  std::string name;  // of a number, as Python has at the top of a file: alpha = 0.5
  if (token_.kind == TokenKind::Name) {
    name = lexer_.text(span);
    token_ = lexer_.next();
    if (at("=")) token_ = lexer_.next();
    if (token_.kind != TokenKind::Int && token_.kind != TokenKind::Float) name.clear();
  }
  report_.error(Code::statement_unsupported, span, "statement outside of a function")
      .reason("a text is a list of functions")
      .help(name.empty() ? "write def epilogue(accum, ...): and put the statements in its body"
                         : fmt::format("write the number where {0} is used, or make {0} a parameter of the function",
                                       name.substr(0, 64)));
  complete_ = false;
  skip_line();
  skip_block();
}

void Parser::definition() {
  ast::Function function;
  advance();
  function.name = token_.span;
  if (!at_name()) {
    syntax_error("the function's name");
  } else {
    advance();
  }
  function.first_parameter = static_cast<uint32_t>(module_.parameters.size());
  function.first_statement = static_cast<uint32_t>(module_.statements.size());
  if (!panic_ && parameters()) {
    if (accept("->")) annotation();
    if (!panic_) expect(":", "before the function's body");
  }
  if (panic_) {
    skip_line();
    skip_block();
    return;
  }
  function.parameter_count = static_cast<uint32_t>(module_.parameters.size()) - function.first_parameter;
  body();
  function.statement_count = static_cast<uint32_t>(module_.statements.size()) - function.first_statement;
  module_.functions.push_back(function);
}

bool Parser::parameters() {
  if (!expect("(", "after the function's name")) return false;
  while (!panic_ && !at(")")) {
    parameter();
    if (panic_ || at(")")) break;
    if (!at(",")) {
      syntax_error("')' or ','");
      break;
    }
    advance();
  }
  if (panic_) return false;
  advance();
  return true;
}

void Parser::parameter() {
  const bool star = at("*") || at("**");
  if (star || at("/")) {
    const Span begin = token_.span;
    advance();
    if (star && at_name()) advance();
    report_.error(Code::parameter_form, {begin.begin, end_}, "this form of a parameter is not part of the language")
        .reason("every operand is bound by its name")
        .help("list the parameters one by one");
    if (star && accept(":")) annotation();
    return;
  }
  if (!at_name()) {
    syntax_error("a parameter's name");
    return;
  }
  ast::Parameter parameter;
  parameter.name = token_.span;
  advance();
  if (accept(":")) parameter.annotation = annotation();
  if (!panic_ && at("=")) {
    const uint32_t begin = parameter.name.begin;
    advance();
    annotation();
    if (panic_) return;
    report_
        .error(Code::parameter_form, span_from(begin),
               fmt::format("parameter '{}' has a default value", module_.text(parameter.name)))
        .reason("every operand is bound when the epilogue is used")
        .help("remove the default; write a constant in the body, or pass the value");
  }
  module_.parameters.push_back(parameter);
}

void Parser::body() { block("the function's body"); }

void Parser::block(std::string_view what) {
  if (token_.kind != TokenKind::Newline) {
    statement_line();
    return;
  }
  advance();
  if (panic_) return;
  if (token_.kind != TokenKind::Indent) {
    report_.error(Code::indentation, token_.span, "expected an indented block")
        .reason("the line above ends with ':'")
        .help(fmt::format("indent {}", what));
    stop();
    return;
  }
  token_ = lexer_.next();
  while (token_.kind != TokenKind::Dedent && token_.kind != TokenKind::End) {
    panic_ = false;
    if (token_.kind == TokenKind::Newline) {
      token_ = lexer_.next();
    } else if (token_.kind == TokenKind::Indent) {
      reject_indentation();
      if (token_.kind == TokenKind::Dedent) token_ = lexer_.next();
    } else if (!device_block() && !rejected_statement(true)) {
      statement_line();
    }
  }
  if (token_.kind == TokenKind::Dedent) token_ = lexer_.next();
}

// At `with device(n):`: takes it with its block. Other blocks of this kind are rejected as a whole.
bool Parser::device_block() {
  if (!at_word("with")) return false;
  const std::string_view rest = module_.source->text().substr(token_.span.end);
  constexpr std::string_view blanks = " \t", name = "device";
  const size_t word = rest.find_first_not_of(blanks);
  if (word == std::string_view::npos || !rest.substr(word).starts_with(name)) return false;
  const size_t behind = rest.find_first_not_of(blanks, word + name.size());
  if (behind == std::string_view::npos || rest[behind] != '(') return false;
  const uint32_t begin = token_.span.begin;
  ast::Statement statement;
  statement.kind = ast::StatementKind::Device;
  for (int i = 0; i < 3; ++i) advance();  // with device (
  statement.value = expression();
  const bool whole = !panic_ && expect(")", "") && expect(":", "");
  if (whole && depth_ == max_nesting) {
    report_
        .error(Code::text_too_large, span_from(begin), fmt::format("blocks are nested more than {} deep", max_nesting))
        .reason("each of them is a level of the reader")
        .help("write one behind the other");
  }
  if (!whole || depth_ == max_nesting) {
    complete_ = false;
    skip_line();
    skip_block();
    return true;
  }
  ++depth_;
  statement.span = span_from(begin);
  module_.statements.push_back(statement);
  block("what runs on the device");
  --depth_;
  statement.kind = ast::StatementKind::EndDevice;
  statement.value = {};
  module_.statements.push_back(statement);
  return true;
}

void Parser::statement_line() {
  for (;;) {
    if (rejected_statement(true)) return;
    simple_statement();
    if (panic_) break;
    if (accept(";")) {
      if (token_.kind == TokenKind::Newline || token_.kind == TokenKind::End) break;
      continue;
    }
    if (token_.kind != TokenKind::Newline && token_.kind != TokenKind::End) syntax_error("the end of the line or ';'");
    break;
  }
  skip_line();
}

void Parser::simple_statement() {
  const uint32_t begin = token_.span.begin;
  if (at_word("pass")) {
    advance();
    return;
  }
  if (at_word("return")) {
    ast::Statement statement;
    statement.kind = ast::StatementKind::Return;
    statement.span = token_.span;
    advance();
    if (token_.kind != TokenKind::Newline && token_.kind != TokenKind::End && !at(";")) {
      statement.value = expression_list();
    }
    if (panic_) return;
    module_.statements.push_back(statement);
    return;
  }
  const ExprId value = expression_list();
  if (panic_) return;
  if (at("=") || at(":")) {
    assignment(value, begin);
    return;
  }
  const std::string_view op = token_.kind == TokenKind::Punct ? lexer_.text(token_.span) : std::string_view();
  if (op.size() > 1 && op.back() == '=' && op != "==") {  // comparisons were taken as expressions
    const Span span = token_.span;
    const std::string target(module_.text(module_[value].span).substr(0, 40));
    advance();
    expression_list();
    report_.error(Code::augmented_assignment, span, fmt::format("'{}' is not part of the language", op))
        .reason("every name is defined once")
        .help(fmt::format("define a new name: {0}2 = {0} {1} ...", target, op.substr(0, op.size() - 1)));
    return;
  }
  const ExprKind kind = module_[value].kind;
  if (kind == ExprKind::String || kind == ExprKind::Invalid) return;  // strings document
  report_.error(Code::expression_unused, module_[value].span, "the value of this expression is not used")
      .reason("functions have no side effects")
      .help("assign it to a name, or remove it");
}

// Behind the first target. a = b = value is a = value; b = a.
void Parser::assignment(ExprId target, uint32_t begin) {
  ast::Statement statement;
  statement.first_target = static_cast<uint32_t>(module_.targets.size());
  if (!add_targets(target)) {
    panic_ = true;
    return;
  }
  statement.target_count = static_cast<uint32_t>(module_.targets.size()) - statement.first_target;
  if (accept(":")) {
    statement.annotation = annotation();
    if (panic_) return;
    if (!at("=")) {
      syntax_error("'=' and a value after the annotation");
      return;
    }
  }
  if (!expect("=", "")) return;
  std::vector<ExprId> parts{expression_list()};
  while (!panic_ && accept("=")) parts.push_back(expression_list());
  if (panic_) return;
  statement.value = parts.back();
  statement.span = span_from(begin);
  module_.statements.push_back(statement);
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (module_[parts[i]].kind != ExprKind::Name || statement.target_count != 1) {
      report_.error(Code::tuple_assignment, module_[parts[i]].span, "only single names can be assigned in a chain")
          .reason("a = b = value gives one value two names")
          .help("write one assignment a line");
      return;
    }
    ast::Expr alias;
    alias.kind = ExprKind::Name;
    alias.span = module_.targets[statement.first_target];
    ast::Statement next;
    next.span = statement.span;
    next.first_target = static_cast<uint32_t>(module_.targets.size());
    next.target_count = 1;
    module_.targets.push_back(module_[parts[i]].span);
    next.value = add(alias);
    module_.statements.push_back(next);
  }
}

bool Parser::add_targets(ExprId target) {
  const ast::Expr& expr = module_[target];
  const uint32_t count = expr.kind == ExprKind::Tuple ? expr.count : 1;
  for (uint32_t i = 0; i < count; ++i) {
    const ast::Expr& name = expr.kind == ExprKind::Tuple ? module_[module_.elements[expr.first + i]] : expr;
    if (name.kind != ExprKind::Name) {
      if (name.kind == ExprKind::Subscript) {
        report_.error(Code::subscript, name.span, "a part of a value cannot be assigned")
            .reason("values never change; an operation gives a new one")
            .help("write y = index_put(x, indices, values), or join the parts");
      } else if (name.kind != ExprKind::Invalid) {
        report_.error(Code::syntax, name.span, "only names can be assigned")
            .reason("the left side of = lists one or more names")
            .help("write name = value");
      }
      complete_ = false;
      return false;
    }
    module_.targets.push_back(name.span);
  }
  return count > 0;
}

ast::Module parse_module(Report& report, bool& complete) {
  Parser parser(report);
  ast::Module module = parser.parse();
  complete = parser.complete();
  return module;
}

Result<ast::Module> parse_text(diag::SourceRef source) {
  Report report(std::move(source));
  bool complete = true;
  ast::Module module = parse_module(report, complete);
  if (!report.empty()) return report.finish();
  return module;
}

}  // namespace codetta::frontend
