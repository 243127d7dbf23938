// SPDX-License-Identifier: Apache-2.0
// Expressions, in a loop over an explicit stack: chains of 10^5 operators are ordinary input.
#include <fmt/format.h>

#include <limits>

#include "frontend/lower_impl.hpp"

namespace codetta::frontend {

using ast::Expr;
using ast::ExprId;
using ast::ExprKind;
using diag::Code;
using diag::Span;
using ir::LiteralAttr;
using types::Op;

namespace {

constexpr uint64_t min_magnitude = uint64_t{1} << 63;

}  // namespace

ValueId Lowerer::integer(const Expr& expr, bool negated, Span span) {
  if (expr.integer >= min_magnitude && !negated) return builder_.unsigned_literal(expr.integer, span);
  if (expr.integer > min_magnitude) {
    report_.error(Code::number_overflow, span, "integer does not fit")
        .reason("integers have 64 bits: -9223372036854775808 to 18446744073709551615")
        .help(fmt::format("write it as a float, with a point: -{}.0", expr.integer));
    return {};
  }
  LiteralAttr attr;
  attr.kind = LiteralAttr::Kind::Int;
  if (!negated) {
    attr.i = static_cast<int64_t>(expr.integer);
  } else if (expr.integer == min_magnitude) {
    attr.i = std::numeric_limits<int64_t>::min();
  } else {
    attr.i = -static_cast<int64_t>(expr.integer);
  }
  return builder_.literal(attr, span);
}

void Lowerer::undefined(const Scope& scope, const Expr& expr) {
  const std::string_view word = text(expr.span);
  const bool shown = !report_.full();
  auto& error = report_.error(Code::name_undefined, expr.span, fmt::format("Variable '{}' is undefined.", word));
  if (!shown) return;  // near names take long to find, for each of many
  for (uint32_t i = 0; i < scope.function->statement_count; ++i) {
    const ast::Statement& statement = module_.statements[scope.function->first_statement + i];
    for (uint32_t t = 0; t < statement.target_count; ++t) {
      const Span target = module_.targets[statement.first_target + t];
      if (text(target) != word) continue;
      const SourceLocation where = module_.source->locate(target);
      error.reason(fmt::format("it is defined later, on line {}", where.line))
          .help("move the definition before its first use");
      return;
    }
  }
  std::vector<std::string> names;
  for (uint32_t i = 0; i < scope.function->parameter_count; ++i) {
    names.emplace_back(text(module_.parameters[scope.function->first_parameter + i].name));
  }
  for (uint32_t i = 0; i < scope.function->statement_count; ++i) {
    const ast::Statement& statement = module_.statements[scope.function->first_statement + i];
    if (statement.span.begin >= expr.span.begin) break;
    for (uint32_t t = 0; t < statement.target_count; ++t) {
      names.emplace_back(text(module_.targets[statement.first_target + t]));
    }
  }
  const std::string near = diag::nearest(word, names);
  error.reason(fmt::format("it is no parameter of '{}', and no line above defines it", text(scope.function->name)));
  if (!near.empty()) {
    error.help(fmt::format("did you mean '{}'?", near));
  } else {
    error.help(fmt::format("add '{}' to the parameters, or define it first", word));
  }
}

ValueId Lowerer::name(Scope& scope, const Expr& expr) {
  const std::string_view word = text(expr.span);
  if (const auto found = scope.values.find(word); found != scope.values.end()) {
    scope.read.emplace(word);
    return found->second;
  }
  if (word == "inf" || word == "nan") {
    const double number =
        word == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return builder_.real(number, expr.span);
  }
  if (find_function(word) != nullptr || functions_.contains(word)) {
    report_.error(Code::value_kind, expr.span, fmt::format("function '{}' is used as a value", word))
        .reason("a value is a tensor or a number")
        .help(fmt::format("call it: {}(...)", word));
  } else if (dtype_from_name(word)) {
    report_.error(Code::value_kind, expr.span, fmt::format("element type '{}' is used as a value", word))
        .reason("a value is a tensor or a number")
        .help(fmt::format("convert with cast(x, {})", word));
  } else if (is_size(word)) {
    report_.error(Code::value_kind, expr.span, fmt::format("size '{}' is used as a value", word))
        .reason("it is a dimension of a parameter's type, not a tensor or a number")
        .help("sizes stand in slices and in reshape, expand, full and arange; a count is sum(ones(n))");
  } else {
    undefined(scope, expr);
  }
  scope.values.emplace(word, ValueId());  // reported once
  return {};
}

// Values of an expression without children.
Lowerer::Values Lowerer::leaf(Scope& scope, const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::Name:
      return {brought(scope, text(expr.span), name(scope, expr), expr.span)};
    case ExprKind::Bool:
      return {builder_.literal({LiteralAttr::Kind::Bool, static_cast<int64_t>(expr.integer), 0}, expr.span)};
    case ExprKind::Int:
      return {integer(expr, false, expr.span)};
    case ExprKind::Float:
      return {builder_.real(expr.real, expr.span)};
    case ExprKind::None:
      report_.error(Code::value_kind, expr.span, "None is not a value")
          .reason("a value is a tensor or a number")
          .help("write a number, or leave the term out");
      return {ValueId()};
    case ExprKind::String:
      report_.error(Code::string_value, expr.span, "a string is not a value")
          .reason("a value is a tensor or a number; strings only name things such as dimensions")
          .help("pass the operand as a parameter and write its name without quotes");
      return {ValueId()};
    case ExprKind::Tuple:
      report_.error(Code::value_kind, expr.span, "a tuple or list is not a value")
          .reason("a value is a tensor or a number")
          .help("compute the elements one by one");
      return {ValueId()};
    case ExprKind::Annotation:
    case ExprKind::Subscript:
    case ExprKind::Invalid:
    case ExprKind::Unary:
    case ExprKind::Binary:
    case ExprKind::Call:
      break;
    case ExprKind::Slice:
    case ExprKind::Ellipsis:
      report_.error(Code::value_kind, expr.span, "a slice is not a value")
          .reason("it stands in brackets behind a value, with nothing around it")
          .help("write x[1:3]");
      break;
  }
  return {ValueId()};
}

ValueId Lowerer::one_of(const Values& values, const Expr& expr) {
  if (values.size() == 1) return values[0];
  report_
      .error(Code::tuple_assignment, expr.span, fmt::format("this call has {} results, one is needed", values.size()))
      .reason("several results can only be assigned to as many names")
      .help("write a, b = ... on a line of its own");
  return {};
}

ValueId Lowerer::evaluate_one(Scope& scope, ExprId root) { return one_of(evaluate(scope, root), module_[root]); }

Lowerer::Values Lowerer::evaluate(Scope& scope, ExprId root) {
  std::vector<Frame> frames;
  std::vector<ValueId> operands;  // of all frames, innermost last
  const auto push = [&](ExprId id) {
    const Expr& expr = module_[id];
    Frame frame;
    frame.id = id;
    frame.first_operand = operands.size();
    if (expr.kind == ExprKind::Unary) {
      if (expr.op != Op::neg || module_[expr.a].kind != ExprKind::Int) frame.children = {expr.a};
    } else if (expr.kind == ExprKind::Subscript) {
      frame.children = {expr.a};
    } else if (expr.kind == ExprKind::Binary) {
      frame.children = {expr.a, expr.b};
    } else {
      prepare_call(frame);
    }
    frames.push_back(std::move(frame));
  };
  const auto composite = [&](ExprId id) {
    const ExprKind kind = module_[id].kind;
    return kind == ExprKind::Unary || kind == ExprKind::Binary || kind == ExprKind::Call || kind == ExprKind::Subscript;
  };
  if (!composite(root)) return leaf(scope, module_[root]);
  push(root);
  for (;;) {
    Frame& frame = frames.back();
    if (frame.next < frame.children.size()) {
      const ExprId child = frame.children[frame.next++];
      if (composite(child)) {
        push(child);
      } else {
        operands.push_back(one_of(leaf(scope, module_[child]), module_[child]));
      }
      continue;
    }
    if (builder_.full(elsewhere_) && !stopped_) {
      stopped_ = true;
      report_.error(Code::text_too_large, module_[frame.id].span, "the function has too many operations")
          .reason(fmt::format("at most {} are built, calls inlined", max_values))
          .help("split the function");
    }
    Values values;
    if (stopped_) {
      values = {ValueId()};
    } else {
      values = finish_frame(frame, operands);
    }
    const ExprId id = frame.id;
    operands.resize(frame.first_operand);
    frames.pop_back();
    if (frames.empty()) return values;
    ValueId value = one_of(values, module_[id]);
    // Used at once in a block of a device: what to_device, or a function that is called, leaves elsewhere.
    const std::optional<uint32_t> place = device() && value.valid() ? place_of(value) : std::nullopt;
    if (place && place != device())
      value = builder_.op(Op::to_device, {value}, ir::DeviceAttr{*device()}, module_[id].span, builder_.rank(value));
    operands.push_back(value);
  }
}

// All children of the frame are evaluated.
Lowerer::Values Lowerer::finish_frame(Frame& frame, const std::vector<ValueId>& operands) {
  const Expr& expr = module_[frame.id];
  if (expr.kind == ExprKind::Call) {
    return call(frame, std::vector<ValueId>(operands.begin() + static_cast<std::ptrdiff_t>(frame.first_operand),
                                            operands.end()));
  }
  if (frame.children.empty()) return {integer(module_[expr.a], true, expr.span)};
  const ValueId a = operands[frame.first_operand];
  if (expr.kind == ExprKind::Subscript) return {subscript(expr, a)};
  if (expr.kind == ExprKind::Unary) {
    if (!a.valid()) return {a};
    return {builder_.unary(expr.op, a, expr.span)};
  }
  const ValueId b = operands[frame.first_operand + 1];
  if (expr.op == Op::matmul && !program_) {
    report_.error(Code::program_only, expr.span, "a matrix product inside an epilogue")
        .reason("an epilogue follows one product, whose result is accum")
        .help("write a program: def f(a: f32[\"m\", \"k\"], b: f32[\"k\", \"n\"]): C = a @ b; return C");
    return {ValueId()};
  }
  if (!a.valid() || !b.valid()) return {ValueId()};
  return {builder_.op(expr.op, {a, b}, expr.op == Op::matmul ? ir::Attr(ir::MatmulAttr{}) : ir::Attr(), expr.span)};
}

}  // namespace codetta::frontend
