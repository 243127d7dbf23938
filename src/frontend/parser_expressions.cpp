// SPDX-License-Identifier: Apache-2.0
// Expressions: precedence climbing; chains of one level are loops, only brackets and right operands recurse.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "frontend/functions.hpp"
#include "frontend/parser_impl.hpp"

namespace codetta::frontend {

using ast::Expr;
using ast::ExprId;
using ast::ExprKind;
using diag::Code;
using diag::Span;
using types::Op;

namespace {

enum class OperatorClass : uint8_t { Plain, Comparison, Word, Unsupported };

struct BinaryOperator {
  std::string_view spelling;
  int precedence;
  OperatorClass kind;
  Op op;
};
constexpr BinaryOperator binary_operators[] = {
    {"or", 1, OperatorClass::Word, Op::input},        {"and", 2, OperatorClass::Word, Op::input},
    {"==", 4, OperatorClass::Comparison, Op::eq},     {"!=", 4, OperatorClass::Comparison, Op::ne},
    {"<", 4, OperatorClass::Comparison, Op::lt},      {"<=", 4, OperatorClass::Comparison, Op::le},
    {">", 4, OperatorClass::Comparison, Op::gt},      {">=", 4, OperatorClass::Comparison, Op::ge},
    {"in", 4, OperatorClass::Unsupported, Op::input}, {"is", 4, OperatorClass::Unsupported, Op::input},
    {"|", 5, OperatorClass::Plain, Op::logical_or},   {"^", 6, OperatorClass::Plain, Op::logical_xor},
    {"&", 7, OperatorClass::Plain, Op::logical_and},  {"<<", 8, OperatorClass::Unsupported, Op::input},
    {">>", 8, OperatorClass::Unsupported, Op::input}, {"+", 9, OperatorClass::Plain, Op::add},
    {"-", 9, OperatorClass::Plain, Op::sub},          {"*", 10, OperatorClass::Plain, Op::mul},
    {"/", 10, OperatorClass::Plain, Op::div},         {"//", 10, OperatorClass::Plain, Op::floordiv},
    {"%", 10, OperatorClass::Plain, Op::mod},         {"@", 10, OperatorClass::Plain, Op::matmul},
};
constexpr int not_precedence = 3;
constexpr int comparison_precedence = 4;

}  // namespace

ExprId Parser::add(Expr expr) {
  if (module_.exprs.size() >= max_expressions) {
    report_.error(Code::text_too_large, expr.span, "the text has too many expressions")
        .reason(fmt::format("at most {} are read", max_expressions))
        .help("split the text");
    stop();
  }
  return module_.exprs.push_back(expr);
}

ExprId Parser::invalid(uint32_t begin) {
  Expr expr;
  expr.span = span_from(begin);
  return add(expr);
}

void Parser::too_deep(Span span) {
  if (!panic_) {
    report_.error(Code::too_deep, span, "the expression is nested too deeply")
        .reason(fmt::format("at most {} levels are read", max_nesting))
        .help("assign inner expressions to names");
  }
  stop();
}

// One level deeper; false, with a report, at the limit. The caller decrements depth_ in both cases.
bool Parser::enter(Span span) {
  if (++depth_ <= max_nesting) return true;
  too_deep(span);
  return false;
}

// a, b, c without brackets.
ExprId Parser::expression_list() {
  const uint32_t begin = token_.span.begin;
  const ExprId first = expression();
  if (!at(",") || panic_) return first;
  std::vector<ExprId> elements{first};
  while (!panic_ && accept(",")) {
    if (token_.kind == TokenKind::Newline || token_.kind == TokenKind::End || at("=") || at(";")) break;
    elements.push_back(expression());
  }
  return add_tuple(begin, elements, false);
}

ExprId Parser::expression() {
  const uint32_t begin = token_.span.begin;
  if (at_word("lambda")) return lambda();
  const ExprId value = binary(1);
  if (panic_) return value;
  if (at_word("if")) {
    const Span word = token_.span;
    advance();
    binary(1);
    if (panic_) return value;
    if (!at_word("else")) {
      syntax_error("'else'");
      return value;
    }
    advance();
    if (enter(token_.span)) expression();
    --depth_;
    if (panic_) return value;
    report_.error(Code::conditional_expression, word, "conditional expressions are not part of the language")
        .reason("a condition is a tensor: both sides are computed for every element")
        .help("write where(condition, a, b) for a if condition else b");
    return invalid(begin);
  }
  if (at(":=")) {
    report_.error(Code::operator_unsupported, token_.span, "operator ':=' is not part of the language")
        .reason("names are defined by statements")
        .help("assign on a line of its own");
    advance();
    if (enter(token_.span)) expression();
    --depth_;
    return invalid(begin);
  }
  return value;
}

ExprId Parser::binary(int lowest) {
  const uint32_t begin = token_.span.begin;
  if (!enter(token_.span)) {
    --depth_;
    return invalid(begin);
  }
  ExprId left;
  if (at_word("not") && lowest <= not_precedence) {
    report_.error(Code::boolean_operator, token_.span, "'not' is not part of the language")
        .reason("it asks for one truth value, a tensor has many")
        .help("write ~x");
    while (at_word("not")) advance();
    binary(comparison_precedence);
    left = invalid(begin);
  } else {
    left = unary();
  }
  bool compared = false;
  while (!panic_) {
    const bool word = token_.kind == TokenKind::Name;
    if (!word && token_.kind != TokenKind::Punct) break;
    const std::string_view spelling = lexer_.text(token_.span);
    const bool not_in = word && spelling == "not" && lowest <= comparison_precedence;  // a not in b
    const auto* const found = std::find_if(std::begin(binary_operators), std::end(binary_operators),
                                           [&](const auto& entry) { return entry.spelling == spelling; });
    if (!not_in && (found == std::end(binary_operators) || found->precedence < lowest)) break;
    const Span operator_span = token_.span;
    const OperatorClass kind = not_in ? OperatorClass::Unsupported : found->kind;
    const int precedence = not_in ? comparison_precedence : found->precedence;
    advance();
    std::string written(spelling);
    if (kind == OperatorClass::Unsupported && (not_in ? at_word("in") : at_word("not"))) {
      written = not_in ? "not in" : "is not";
      advance();
    }
    const ExprId right = binary(precedence + 1);
    if (panic_) break;
    Expr expr;
    expr.span = span_from(begin);
    const bool chained = precedence == comparison_precedence && compared;
    compared |= precedence == comparison_precedence;
    if (chained) {
      report_.error(Code::chained_comparison, operator_span, "chained comparisons are not part of the language")
          .reason("Python reads a < b < c as one truth value, and & binds tighter than a comparison")
          .help("write (a < b) & (b < c), each comparison in parentheses");
    } else if (kind == OperatorClass::Word) {
      report_.error(Code::boolean_operator, operator_span, fmt::format("'{}' is not part of the language", spelling))
          .reason("it asks for one truth value, a tensor has many")
          .help(fmt::format("write (a) {} (b), each side in parentheses", spelling == "and" ? '&' : '|'));
    } else if (kind == OperatorClass::Unsupported) {
      report_
          .error(Code::operator_unsupported, operator_span,
                 fmt::format("operator '{}' is not part of the language", written))
          .reason("the operators are + - * / // % ** @ & | ^ ~ and comparisons")
          .help(spelling == "<<"   ? "write x * 2 ** n"
                : spelling == ">>" ? "write x // 2 ** n"
                : spelling == "is" ? "compare with == or !="
                                   : "compare with == and |");
    } else {
      expr.kind = ExprKind::Binary;
      expr.op = found->op;
      expr.a = left;
      expr.b = right;
    }
    left = add(expr);
  }
  --depth_;
  return left;
}

ExprId Parser::unary() {
  std::vector<std::pair<Op, uint32_t>> prefixes;
  while (at("-") || at("+") || at("~")) {
    if (prefixes.size() >= max_nesting) {
      too_deep(token_.span);
      return invalid(token_.span.begin);
    }
    prefixes.emplace_back(at("-") ? Op::neg : at("~") ? Op::logical_not : Op::input, token_.span.begin);
    advance();
  }
  ExprId value = power();
  for (size_t i = prefixes.size(); i-- > 0 && !panic_;) {
    Expr expr;
    expr.kind = ExprKind::Unary;
    expr.op = prefixes[i].first;
    expr.span = span_from(prefixes[i].second);
    expr.a = value;
    value = add(expr);
  }
  return value;
}

ExprId Parser::power() {
  const uint32_t begin = token_.span.begin;
  const ExprId base = postfix();
  if (panic_ || !at("**")) return base;
  advance();
  ExprId exponent;
  if (enter(token_.span)) exponent = unary();
  --depth_;
  if (panic_) return base;
  Expr expr;
  expr.kind = ExprKind::Binary;
  expr.op = Op::pow;
  expr.span = span_from(begin);
  expr.a = base;
  expr.b = exponent;
  return add(expr);
}

ExprId Parser::postfix() {
  const uint32_t begin = token_.span.begin;
  ExprId value = atom();
  while (!panic_) {
    if (at("(")) {
      value = call(value, begin);
    } else if (at("[")) {
      value = subscript(value, begin);
    } else if (at(".")) {
      value = attribute(value, begin);
    } else {
      break;
    }
  }
  return value;
}

}  // namespace codetta::frontend
