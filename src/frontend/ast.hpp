// SPDX-License-Identifier: Apache-2.0
// The syntax tree of a text: flat stores, children before parents, so that every walk is a loop.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "diag/diagnostic.hpp"
#include "types/op.hpp"

namespace codetta::frontend::ast {

using ExprId = base::Id<struct ExprTag>;

enum class ExprKind : uint8_t {
  Invalid,  // something that was reported; whatever uses it stays silent
  Name,     // the span's text
  Bool,     // integer
  Int,      // integer, up to 2^63 (which only a minus makes valid)
  Float,    // real
  None,
  String,      // text
  Unary,       // op, a; Op::input stands for unary plus
  Binary,      // op, a, b
  Call,        // a = callee (a Name), arguments [first, first + count)
  Tuple,       // elements [first, first + count); also lists, which mean the same wherever they are allowed
  Annotation,  // a form that only annotations have, such as attributes: a, b are its parts, if any
  Subscript,   // a[b]; outside of annotations b is a tuple of values, slices, None and ...
  Slice,       // elements [first, first + 3): start, stop, step, each invalid where it is left out
  Ellipsis,    // ... in a subscript
};

struct Expr {
  ExprKind kind = ExprKind::Invalid;
  types::Op op = types::Op::input;
  diag::Span span;
  ExprId a, b;
  uint32_t first = 0;
  uint32_t count = 0;
  uint64_t integer = 0;
  double real = 0;
};

struct Argument {
  diag::Span keyword;  // unknown for positional ones
  ExprId value;
};

// `with device(n):` begins a block (value: n), which ends at the matching EndDevice.
enum class StatementKind : uint8_t { Assign, Return, Device, EndDevice };
struct Statement {
  StatementKind kind = StatementKind::Assign;
  diag::Span span;
  uint32_t first_target = 0;  // Assign: names in Module::targets
  uint32_t target_count = 0;
  ExprId annotation;  // Assign: may be invalid
  ExprId value;       // Return: invalid when nothing is returned
};

struct Parameter {
  diag::Span name;
  ExprId annotation;  // may be invalid
};

struct Function {
  diag::Span name;
  uint32_t first_parameter = 0;
  uint32_t parameter_count = 0;
  uint32_t first_statement = 0;
  uint32_t statement_count = 0;
};

struct Module {
  diag::SourceRef source;
  base::IdVector<ExprId, Expr> exprs;
  std::vector<ExprId> elements;
  std::vector<Argument> arguments;
  std::vector<diag::Span> targets;
  std::vector<Statement> statements;
  std::vector<Parameter> parameters;
  std::vector<Function> functions;
  std::vector<std::string> strings;  // String: Expr::first

  [[nodiscard]] std::string_view text(diag::Span span) const {
    return source->text().substr(span.begin, span.end - span.begin);
  }
  [[nodiscard]] const Expr& operator[](ExprId id) const { return exprs[id]; }
  [[nodiscard]] std::string_view name_of(ExprId id) const { return text(exprs[id].span); }
};

// One line a statement, expressions in prefix form: "  assign F = (* accum alpha)".
std::string print_ast(const Module& module);

}  // namespace codetta::frontend::ast
