// SPDX-License-Identifier: Apache-2.0
// The syntax tree as text; loops over an explicit stack, since chains are deep.
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
  if (expr.kind == ExprKind::Tuple || expr.kind == ExprKind::Slice) {
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
    if (!std::get<ExprId>(item).valid()) {  // a bound that is left out
      out += "_";
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
                         : expr.kind == ExprKind::Slice     ? std::string("(slice")
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
      } else if (statement.kind == StatementKind::Return) {
        out += statement.value.valid() ? "  return " : "  return";
      } else {
        out += statement.kind == StatementKind::Device ? "  with device " : "  end of with";
      }
      if (statement.value.valid()) print_expr(module, statement.value, out);
      out += '\n';
    }
  }
  return out;
}

}  // namespace codetta::frontend::ast
