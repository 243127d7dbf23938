// SPDX-License-Identifier: Apache-2.0
// The syntax tree as text and as JSON; loops over an explicit stack, since chains are deep.
#include <fmt/format.h>

#include <iterator>
#include <variant>

#include "base/text.hpp"
#include "frontend/ast.hpp"

namespace codetta::frontend::ast {

namespace {

// What is still to be printed, last first: a piece of text or an expression.
using Pending = std::vector<std::variant<std::string, ExprId>>;

std::string operator_text(const Expr& expr) {
  return expr.op == types::Op::input ? "+" : std::string(types::op_info(expr.op).spelling);
}

std::vector<ExprId> children(const Module& module, const Expr& expr) {
  if (expr.kind == ExprKind::Tuple) {
    const auto begin = module.elements.begin() + expr.first;
    return {begin, begin + expr.count};
  }
  std::vector<ExprId> out;
  if (expr.a.valid()) out.push_back(expr.a);
  if (expr.b.valid()) out.push_back(expr.b);
  return out;
}

// The text of an expression without children.
std::string leaf_text(const Module& module, const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::Bool:
      return expr.integer != 0 ? "True" : "False";
    case ExprKind::Int:
      return fmt::format("{}", expr.integer);
    case ExprKind::Float:
      return base::format_real(expr.real);
    case ExprKind::None:
      return "None";
    case ExprKind::String:
      return fmt::format("\"{}\"", base::escape_json(module.strings[expr.first]));
    case ExprKind::Invalid:
      return "<invalid>";
    default:
      return std::string(module.text(expr.span));
  }
}

void push_reversed(Pending& pending, Pending items) {
  pending.insert(pending.end(), std::make_move_iterator(items.rbegin()), std::make_move_iterator(items.rend()));
}

void print_expr(const Module& module, ExprId root, std::string& out) {
  Pending pending{root};
  while (!pending.empty()) {
    const auto item = std::move(pending.back());
    pending.pop_back();
    if (const auto* piece = std::get_if<std::string>(&item)) {
      out += *piece;
      continue;
    }
    const Expr& expr = module[std::get<ExprId>(item)];
    Pending items;
    if (expr.kind == ExprKind::Call) {
      items.emplace_back(fmt::format("({}", module.name_of(expr.a)));
      for (uint32_t i = 0; i < expr.count; ++i) {
        const Argument& argument = module.arguments[expr.first + i];
        items.emplace_back(argument.keyword.known() ? fmt::format(" {}=", module.text(argument.keyword))
                                                    : std::string(" "));
        items.emplace_back(argument.value);
      }
      items.emplace_back(std::string(")"));
    } else if (const auto parts = children(module, expr); !parts.empty() || expr.kind == ExprKind::Tuple) {
      const bool op = expr.kind == ExprKind::Unary || expr.kind == ExprKind::Binary;
      items.emplace_back(op                                 ? "(" + operator_text(expr)
                         : expr.kind == ExprKind::Tuple     ? std::string("(tuple")
                         : expr.kind == ExprKind::Subscript ? std::string("(subscript")
                                                            : std::string("(annotation"));
      for (const ExprId part : parts) {
        items.emplace_back(std::string(" "));
        items.emplace_back(part);
      }
      items.emplace_back(std::string(")"));
    } else {
      out += leaf_text(module, expr);
    }
    push_reversed(pending, std::move(items));
  }
}

std::string span_json(diag::Span span) { return fmt::format("\"span\":[{},{}]", span.begin, span.end); }

std::string_view kind_name(ExprKind kind) {
  static constexpr std::string_view names[] = {"invalid", "name",   "bool", "int",   "float",      "none",     "string",
                                               "unary",   "binary", "call", "tuple", "annotation", "subscript"};
  return names[static_cast<size_t>(kind)];
}

void print_expr_json(const Module& module, ExprId root, std::string& out) {
  Pending pending{root};
  while (!pending.empty()) {
    const auto item = std::move(pending.back());
    pending.pop_back();
    if (const auto* piece = std::get_if<std::string>(&item)) {
      out += *piece;
      continue;
    }
    const Expr& expr = module[std::get<ExprId>(item)];
    Pending items;
    std::string head = fmt::format(R"({{"kind":"{}",{})", kind_name(expr.kind), span_json(expr.span));
    if (expr.kind == ExprKind::Call) {
      items.emplace_back(head +
                         fmt::format(R"(,"callee":"{}","arguments":[)", base::escape_json(module.name_of(expr.a))));
      for (uint32_t i = 0; i < expr.count; ++i) {
        const Argument& argument = module.arguments[expr.first + i];
        std::string open = i == 0 ? "{" : ",{";
        if (argument.keyword.known()) open += fmt::format(R"("keyword":"{}",)", module.text(argument.keyword));
        items.emplace_back(open + R"("value":)");
        items.emplace_back(argument.value);
        items.emplace_back(std::string("}"));
      }
      items.emplace_back(std::string("]}"));
    } else if (const auto parts = children(module, expr); !parts.empty() || expr.kind == ExprKind::Tuple) {
      if (expr.kind == ExprKind::Unary || expr.kind == ExprKind::Binary) {
        head += fmt::format(R"(,"op":"{}")", operator_text(expr));
      }
      items.emplace_back(head + R"(,"parts":[)");
      for (size_t i = 0; i < parts.size(); ++i) {
        if (i > 0) items.emplace_back(std::string(","));
        items.emplace_back(parts[i]);
      }
      items.emplace_back(std::string("]}"));
    } else if (expr.kind == ExprKind::String) {
      out += head + fmt::format(R"(,"value":"{}"}})", base::escape_json(module.strings[expr.first]));
    } else {
      out += head + fmt::format(R"(,"text":"{}"}})", base::escape_json(leaf_text(module, expr)));
    }
    push_reversed(pending, std::move(items));
  }
}

std::string names_of(const Module& module, const Statement& statement) {
  std::string out;
  for (uint32_t i = 0; i < statement.target_count; ++i) {
    if (i > 0) out += ", ";
    out += module.text(module.targets[statement.first_target + i]);
  }
  return out;
}

}  // namespace

std::string print_ast(const Module& module) {
  std::string out;
  for (const Function& function : module.functions) {
    const SourceLocation where = module.source->locate(function.name);
    out += fmt::format("function {} line {}\n", module.text(function.name), where.line);
    for (uint32_t i = 0; i < function.parameter_count; ++i) {
      const Parameter& parameter = module.parameters[function.first_parameter + i];
      out += fmt::format("  parameter {}", module.text(parameter.name));
      if (parameter.annotation.valid()) {
        out += ": ";
        print_expr(module, parameter.annotation, out);
      }
      out += '\n';
    }
    for (uint32_t i = 0; i < function.statement_count; ++i) {
      const Statement& statement = module.statements[function.first_statement + i];
      if (statement.kind == StatementKind::Assign) {
        out += fmt::format("  assign {} = ", names_of(module, statement));
      } else {
        out += statement.value.valid() ? "  return " : "  return";
      }
      if (statement.value.valid()) print_expr(module, statement.value, out);
      out += '\n';
    }
  }
  return out;
}

std::string print_ast_json(const Module& module) {
  std::string out = R"({"functions":[)";
  for (size_t f = 0; f < module.functions.size(); ++f) {
    const Function& function = module.functions[f];
    out += fmt::format(R"({}{{"name":"{}",{},"parameters":[)", f == 0 ? "" : ",", module.text(function.name),
                       span_json(function.name));
    for (uint32_t i = 0; i < function.parameter_count; ++i) {
      const Parameter& parameter = module.parameters[function.first_parameter + i];
      out += fmt::format(R"({}{{"name":"{}",{})", i == 0 ? "" : ",", module.text(parameter.name),
                         span_json(parameter.name));
      if (parameter.annotation.valid()) {
        out += R"(,"annotation":)";
        print_expr_json(module, parameter.annotation, out);
      }
      out += '}';
    }
    out += R"(],"statements":[)";
    for (uint32_t i = 0; i < function.statement_count; ++i) {
      const Statement& statement = module.statements[function.first_statement + i];
      const bool assign = statement.kind == StatementKind::Assign;
      out += fmt::format(R"({}{{"kind":"{}",{})", i == 0 ? "" : ",", assign ? "assign" : "return",
                         span_json(statement.span));
      if (assign) {
        out += R"(,"targets":[)";
        for (uint32_t t = 0; t < statement.target_count; ++t) {
          out += fmt::format("{}\"{}\"", t == 0 ? "" : ",", module.text(module.targets[statement.first_target + t]));
        }
        out += ']';
      }
      if (statement.value.valid()) {
        out += R"(,"value":)";
        print_expr_json(module, statement.value, out);
      }
      out += '}';
    }
    out += "]}";
  }
  return out + "]}\n";
}

}  // namespace codetta::frontend::ast
