// SPDX-License-Identifier: Apache-2.0
// Primary expressions: names, numbers, strings and brackets, and what may follow them: calls, attributes, subscripts.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "frontend/functions.hpp"
#include "frontend/parser_impl.hpp"
#include "frontend/recipes.hpp"

namespace codetta::frontend {

using ast::Expr;
using ast::ExprId;
using ast::ExprKind;
using diag::Code;
using diag::Span;

ExprId Parser::call(ExprId callee, uint32_t begin) {
  const ExprKind kind = module_[callee].kind;
  if (kind != ExprKind::Name && kind != ExprKind::Invalid && kind != ExprKind::Annotation) {
    report_.error(Code::function_unknown, module_[callee].span, "only a function's name can be called")
        .reason("what stands before the parenthesis is a value")
        .help("write * for a product");
  }
  advance();
  std::vector<ast::Argument> arguments;
  bool keywords = false;
  while (!panic_ && !at(")")) {
    ast::Argument argument;
    if (at("*") || at("**")) {
      report_.error(Code::syntax, token_.span, "arguments can not be unpacked")
          .reason("the number of arguments is known when the text is read")
          .help("write the arguments one by one");
      advance();
    }
    const Span start = token_.span;
    argument.value = expression();
    if (panic_) break;
    if (at("=")) {
      const Expr& name = module_[argument.value];
      if (name.kind != ExprKind::Name) {
        syntax_error("')' or ','");
        break;
      }
      argument.keyword = name.span;
      keywords = true;
      advance();
      argument.value = expression();
    } else if (at_word("for")) {
      argument.value = comprehension(start.begin);
    } else if (keywords) {
      report_.error(Code::syntax, start, "positional argument follows a keyword argument")
          .reason("positional arguments come first")
          .help("name this argument too, or move it to the front");
    }
    arguments.push_back(argument);
    if (panic_ || at(")")) break;
    if (!at(",")) {
      syntax_error("')' or ','");
      break;
    }
    advance();
  }
  if (panic_) return callee;
  advance();
  Expr expr;
  expr.span = span_from(begin);
  if (kind == ExprKind::Name) {
    expr.kind = ExprKind::Call;
    expr.a = callee;
    expr.first = static_cast<uint32_t>(module_.arguments.size());
    expr.count = static_cast<uint32_t>(arguments.size());
    module_.arguments.insert(module_.arguments.end(), arguments.begin(), arguments.end());
  } else if (in_annotation_) {
    expr.kind = ExprKind::Annotation;
    expr.a = callee;
  }
  return add(expr);
}

ExprId Parser::attribute(ExprId object, uint32_t begin) {
  advance();
  if (token_.kind != TokenKind::Name) {
    syntax_error("a name");
    return object;
  }
  std::string member(lexer_.text(token_.span));
  advance();
  while (!panic_ && accept(".")) {  // torch.nn.functional.relu is one mistake
    if (token_.kind != TokenKind::Name) {
      syntax_error("a name");
      return object;
    }
    member = lexer_.text(token_.span);
    advance();
  }
  const Span span = span_from(begin);
  if (in_annotation_) {
    Expr expr;
    expr.kind = ExprKind::Annotation;
    expr.span = span;
    expr.a = object;
    return add(expr);
  }
  if (module_[object].kind == ExprKind::Invalid) return invalid(begin);
  const bool method = at("(");
  auto& error = report_.error(
      Code::attribute_access, span,
      method ? "methods and module prefixes are not part of the language" : "attributes are not part of the language");
  error.reason("functions are called by their bare name, and values have no members");
  const bool program = std::any_of(module_.parameters.begin(), module_.parameters.end(), [this](const auto& parameter) {
    return parameter.annotation.valid() && module_[parameter.annotation].kind == ExprKind::Subscript;
  });
  const bool simple = module_[object].kind == ExprKind::Name;
  const std::string name = simple ? std::string(module_.name_of(object)) : std::string("x");
  if (member == "T" || member == "mT" || member == "t" || member == "transpose") {
    error.help(fmt::format("write permute({0}, indices=(1, 0)), or transpose({0}) in a program", name));
  } else if (method && find_function(member) != nullptr) {
    error.help(fmt::format("write {}(...)", member));
  } else if (const std::string_view recipe = recipe_for(member, program); !recipe.empty()) {
    error.help(fmt::format("write {}", recipe));
  } else if (const std::string near = nearest_function(member); method && !near.empty()) {
    error.help(fmt::format("did you mean {}(...)?", near));
  } else {
    error.help("use the functions of the language; docs/language.md lists them");
  }
  return invalid(begin);
}

ExprId Parser::subscript(ExprId object, uint32_t begin) {
  if (in_annotation_) {
    advance();
    const ExprId index = at("]") ? invalid(token_.span.begin) : expression_list();
    if (panic_ || !expect("]", "")) return object;
    Expr expr;
    expr.kind = ExprKind::Subscript;
    expr.span = span_from(begin);
    expr.a = object;
    expr.b = index;
    return add(expr);
  }
  advance();
  std::vector<ExprId> items;
  while (!panic_ && !at("]")) {
    items.push_back(subscript_item());
    if (panic_ || at("]")) break;
    if (!at(",")) {
      syntax_error("']' or ','");
      break;
    }
    advance();
  }
  if (panic_) return object;
  Expr tuple;
  tuple.kind = ExprKind::Tuple;
  tuple.span = span_from(begin);
  tuple.first = static_cast<uint32_t>(module_.elements.size());
  tuple.count = static_cast<uint32_t>(items.size());
  module_.elements.insert(module_.elements.end(), items.begin(), items.end());
  advance();
  if (module_[object].kind == ExprKind::Invalid) return invalid(begin);
  Expr expr;
  expr.kind = ExprKind::Subscript;
  expr.span = span_from(begin);
  expr.a = object;
  expr.b = add(tuple);
  return add(expr);
}

// A value, None, start:stop:step with any part left out, or ...
ExprId Parser::subscript_item() {
  Expr expr;
  const uint32_t begin = token_.span.begin;
  if (at("...")) {
    expr.kind = ExprKind::Ellipsis;
    expr.span = token_.span;
    advance();
    return add(expr);
  }
  ExprId parts[3];
  if (!at(":")) {
    parts[0] = expression();
    if (panic_ || !at(":")) return parts[0];
  }
  for (size_t i = 1; i < 3 && accept(":"); ++i) {
    if (!panic_ && !at(":") && !at(",") && !at("]")) parts[i] = expression();
    if (panic_) return invalid(begin);
  }
  expr.kind = ExprKind::Slice;
  expr.span = span_from(begin);
  expr.first = static_cast<uint32_t>(module_.elements.size());
  expr.count = 3;
  module_.elements.insert(module_.elements.end(), std::begin(parts), std::end(parts));
  return add(expr);
}

ExprId Parser::comprehension(uint32_t begin) {
  report_.error(Code::lambda_or_comprehension, token_.span, "comprehensions are not part of the language")
      .reason("there is nothing to iterate over: functions work on whole tensors")
      .help("use a reduction such as sum(x, axis=\"row\")");
  skip_to_closing();
  return invalid(begin);
}

ExprId Parser::lambda() {
  const uint32_t begin = token_.span.begin;
  report_.error(Code::lambda_or_comprehension, token_.span, "lambda is not part of the language")
      .reason("functions are called where they are named")
      .help("write a def of its own; calls to it are inlined");
  advance();
  while (!at(":") && token_.kind != TokenKind::Newline && token_.kind != TokenKind::End && !at(")")) advance();
  if (!expect(":", "after the parameters of lambda")) return invalid(begin);
  if (enter(token_.span)) expression();
  --depth_;
  return invalid(begin);
}

ExprId Parser::annotation() {
  const bool before = in_annotation_;
  in_annotation_ = true;
  const ExprId value = expression();
  in_annotation_ = before;
  return value;
}

ExprId Parser::atom() {
  Expr expr;
  expr.span = token_.span;
  const uint32_t begin = token_.span.begin;
  switch (token_.kind) {
    case TokenKind::Name:
      return word_atom();
    case TokenKind::Int:
      expr.kind = ExprKind::Int;
      expr.integer = token_.integer;
      advance();
      return add(expr);
    case TokenKind::Float:
      expr.kind = ExprKind::Float;
      expr.real = token_.real;
      advance();
      return add(expr);
    case TokenKind::String:
      return string_atom();
    case TokenKind::Punct:
      break;
    case TokenKind::End:
    case TokenKind::Newline:
    case TokenKind::Indent:
    case TokenKind::Dedent:
      syntax_error("an expression");
      return invalid(begin);
  }
  if (at("(")) return bracketed(false);
  if (at("[")) return bracketed(true);
  if (at("{")) {
    skip_brackets();
    if (!panic_) {
      report_.error(Code::value_kind, span_from(begin), "dictionaries and sets are not part of the language")
          .reason("a value is a tensor or a number")
          .help("pass every operand as a parameter of its own");
    }
    return invalid(begin);
  }
  if (at("...")) {
    advance();
    if (in_annotation_) {
      expr.kind = ExprKind::Annotation;
      return add(expr);
    }
    report_.error(Code::value_kind, span_from(begin), "'...' is not a value")
        .reason("a value is a tensor or a number")
        .help("write the expression");
    return invalid(begin);
  }
  syntax_error("an expression");
  return invalid(begin);
}

ExprId Parser::word_atom() {
  const std::string_view word = lexer_.text(token_.span);
  Expr expr;
  expr.span = token_.span;
  if (word == "True" || word == "False") {
    expr.kind = ExprKind::Bool;
    expr.integer = word == "True" ? 1 : 0;
  } else if (word == "None") {
    expr.kind = ExprKind::None;
  } else if (!is_keyword(word)) {
    expr.kind = ExprKind::Name;
  } else if (word == "lambda") {
    return lambda();
  } else if (word == "yield" || word == "await") {
    report_.error(Code::statement_unsupported, token_.span, fmt::format("'{}' is not part of the language", word))
        .reason("a function computes its outputs once")
        .help("remove it");
    advance();
    if (enter(token_.span)) power();
    --depth_;
    return invalid(expr.span.begin);
  } else {
    syntax_error("an expression");
    return invalid(expr.span.begin);
  }
  advance();
  return add(expr);
}

ExprId Parser::bracketed(bool list) {
  const uint32_t begin = token_.span.begin;
  const std::string_view close = list ? "]" : ")";
  advance();
  std::vector<ExprId> elements;
  bool tuple = list;
  while (!panic_ && !at(close)) {
    if (at("*")) {
      report_.error(Code::syntax, token_.span, "values can not be unpacked here")
          .reason("the number of values is known when the text is read")
          .help("write the values one by one");
      advance();
    }
    const uint32_t element_begin = token_.span.begin;
    elements.push_back(expression());
    if (!panic_ && at_word("for")) {
      comprehension(element_begin);
      if (panic_) break;
      advance();
      return invalid(begin);
    }
    if (panic_ || at(close)) break;
    if (!at(",")) {
      syntax_error(fmt::format("'{}' or ','", close));
      break;
    }
    tuple = true;
    advance();
  }
  if (panic_) return invalid(begin);
  advance();
  if (!tuple && elements.size() == 1) return elements[0];
  return add_tuple(begin, elements, list);
}

ExprId Parser::add_tuple(uint32_t begin, const std::vector<ExprId>& elements, bool list) {
  Expr expr;
  expr.kind = ExprKind::Tuple;
  expr.integer = list ? 1 : 0;
  expr.span = span_from(begin);
  expr.first = static_cast<uint32_t>(module_.elements.size());
  expr.count = static_cast<uint32_t>(elements.size());
  module_.elements.insert(module_.elements.end(), elements.begin(), elements.end());
  return add(expr);
}

ExprId Parser::string_atom() {
  Expr expr;
  expr.kind = ExprKind::String;
  const uint32_t begin = token_.span.begin;
  std::string value;
  bool special = false;
  while (token_.kind == TokenKind::String) {  // neighbours are one string
    special |= token_.prefix != 0;
    value += lexer_.string_value(token_.string);
    advance();
  }
  if (special && !in_annotation_) {
    report_.error(Code::string_value, span_from(begin), "bytes and f-strings are not part of the language")
        .reason("strings only name things such as dimensions")
        .help("write a plain string");
    return invalid(begin);
  }
  expr.span = span_from(begin);
  expr.first = static_cast<uint32_t>(module_.strings.size());
  module_.strings.push_back(std::move(value));
  return add(expr);
}

}  // namespace codetta::frontend
