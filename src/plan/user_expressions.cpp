// SPDX-License-Identifier: Apache-2.0
#include "plan/user_expressions.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"

namespace codetta::plan {

using diag::Span;
using types::Dim;

namespace {
constexpr int most_depth = 64;
}

Error LaunchExpressions::wrong(Span span, std::string reason, std::string help) const {
  return pragmas_.wrong(span, std::move(reason), std::move(help));
}

std::string LaunchExpressions::configuration() const {
  if (values_ == nullptr || values_->empty()) return {};
  std::string text;
  for (const auto& [name, value] : *values_) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  return " for " + text;
}

Result<std::vector<Dim>> LaunchExpressions::list(const Clause& clause, size_t most) const {
  if (clause.inside.empty())
    return wrong(clause.span, fmt::format("{} has no value", clause.word), "write it in parentheses behind the word");
  std::vector<Dim> values;
  for (size_t at = 0;; ++at) {
    CODETTA_TRY(Dim value, expression(clause.inside, at, 0));
    values.push_back(std::move(value));
    const Token& next = clause.inside[at];
    if (next.kind == Token::Kind::End) return values;
    if (next.text != ",")
      return wrong(next.span, fmt::format("{} is not expected here", next.text), "separate values by commas");
    if (values.size() == most)
      return wrong(next.span, fmt::format("{} has at most {} value{}", clause.word, most, most == 1 ? "" : "s"),
                   "leave the rest out");
  }
}

// `depth`: of the expression that it stands in.
Result<int64_t> LaunchExpressions::constant(const std::vector<Token>& in, size_t& at, std::string_view what,
                                            int depth) const {
  const Token first = in[at];
  CODETTA_TRY(const Dim value, expression(in, at, depth));
  if (const auto known = value.as_constant()) return *known;
  return wrong(first.span, fmt::format("{} is {}, and {} is a number", first.text, value.to_string(), what),
               "use integers and meta-parameters here");
}

Result<Dim> LaunchExpressions::expression(const std::vector<Token>& in, size_t& at, int depth) const {
  CODETTA_TRY(Dim left, term(in, at, depth));
  while (in[at].text == "+" || in[at].text == "-") {
    const bool adds = in[at++].text == "+";
    CODETTA_TRY(const Dim right, term(in, at, depth));
    left = adds ? left + right : left - right;
    CODETTA_CHECK_OK(sound(left, in[at - 1]));
  }
  return left;
}

Result<Dim> LaunchExpressions::term(const std::vector<Token>& in, size_t& at, int depth) const {
  CODETTA_TRY(Dim left, factor(in, at, depth));
  for (;;) {
    const Token sign = in[at];
    const bool divides = sign.text == "/" || sign.text == "//", rest = sign.text == "%", times = sign.text == "*";
    if (!divides && !rest && !times) return left;
    ++at;
    CODETTA_TRY(const Dim right, factor(in, at, depth));
    left = times ? left * right : divides ? floordiv(left, right) : mod(left, right);
    CODETTA_CHECK_OK(sound(left, sign));
  }
}

Result<void> LaunchExpressions::sound(const Dim& value, const Token& where) const {
  if (value.fault() == types::DimFault::none) return {};
  return wrong(where.span, fmt::format("the expression has no value: {}", to_string(value.fault())),
               "use sizes that fit 64 bits, and divisors that are not 0");
}

Result<Dim> LaunchExpressions::factor(const std::vector<Token>& in, size_t& at, int depth) const {
  const Token token = in[at];
  if (depth > most_depth) return wrong(token.span, "the expression is nested too deeply", "write it flatter");
  if (token.kind == Token::Kind::Number) {
    ++at;
    return Dim::constant(token.value);
  }
  if (token.text == "-") {
    CODETTA_TRY(const Dim value, factor(in, ++at, depth + 1));
    CODETTA_CHECK_OK(sound(-value, token));
    return -value;
  }
  if (token.text == "(") {
    CODETTA_TRY(Dim value, expression(in, ++at, depth + 1));
    CODETTA_CHECK_OK(expect(in, at, ")"));
    return value;
  }
  if (token.kind != Token::Kind::Name)
    return wrong(token.span, "a number, a size or a meta-parameter is expected here",
                 "sizes are the names in the dims of kernel(...)");
  ++at;
  if (in[at].text == "(") return call(token, in, at, depth);
  if (values_ != nullptr) {
    for (const auto& [name, value] : *values_) {
      if (name == token.text) return Dim::constant(value);
    }
  }
  if (const auto symbol = symbols_.find(token.text); symbol != symbols_.end()) return symbol->second;
  std::vector<std::string> known;
  for (const auto& [name, value] : symbols_) known.emplace_back(name);
  if (values_ != nullptr) {
    for (const auto& [name, value] : *values_) known.push_back(name);
  }
  const std::string near = diag::nearest(token.text, known);
  return wrong(token.span,
               fmt::format("{} is no size of the kernel and no meta-parameter{}", token.text, configuration()),
               near.empty() ? std::string("sizes are the names in the dims of kernel(...)")
                            : fmt::format("did you mean {}?", near));
}

Result<void> LaunchExpressions::expect(const std::vector<Token>& in, size_t& at, std::string_view sign) const {
  if (in[at].text == sign) {
    ++at;
    return {};
  }
  return wrong(in[at].span, fmt::format("{} is expected here", sign), "write it there");
}

// The tensor that is named.
Result<size_t> LaunchExpressions::tensor(const std::vector<Token>& in, size_t& at) const {
  const Token name = in[at];
  for (size_t a = 0; a < names_.size(); ++a) {
    if (names_[a] != name.text) continue;
    if (arguments_[a].is_scalar)
      return wrong(name.span, fmt::format("{} is a number", name.text), "name a tensor of kernel(...)");
    ++at;
    return a;
  }
  return wrong(name.span, "a tensor of the kernel is expected here", "name one of kernel(...)");
}

// The same, which has to lie in memory.
Result<size_t> LaunchExpressions::memory(const std::vector<Token>& in, size_t& at) const {
  const Token name = in[at];
  CODETTA_TRY(const size_t argument, tensor(in, at));
  if (argument != hook_) return argument;
  return wrong(name.span, fmt::format("{} is handed over element by element: it lies nowhere", name.text),
               "leave out hook, or name another tensor");
}

Result<Dim> LaunchExpressions::call(const Token& function, const std::vector<Token>& in, size_t& at, int depth) const {
  CODETTA_CHECK_OK(expect(in, at, "("));
  if (function.text == "size" || function.text == "stride") {
    CODETTA_TRY(const size_t a, function.text == "size" ? tensor(in, at) : memory(in, at));
    CODETTA_CHECK_OK(expect(in, at, ","));
    const Token which = in[at];
    CODETTA_TRY(const int64_t dim, constant(in, at, "a dim", depth + 1));
    CODETTA_CHECK_OK(expect(in, at, ")"));
    const std::vector<Dim>& shape = arguments_[a].shape;
    if (dim < 0 || static_cast<size_t>(dim) >= shape.size())
      return wrong(which.span, fmt::format("{} has {} dims, and no dim {}", names_[a], shape.size(), dim),
                   "dims are counted from 0");
    if (function.text == "size") return shape[static_cast<size_t>(dim)];
    if (!in_sizes_)
      return wrong(function.span, "a stride is not known here", "pass it to the kernel: sizes(stride(x, 0))");
    asked_.emplace_back(a, static_cast<int32_t>(dim));
    return stride_(a, static_cast<int32_t>(dim));
  }
  std::vector<Dim> values;
  for (;; ++at) {
    CODETTA_TRY(Dim value, expression(in, at, depth + 1));
    values.push_back(std::move(value));
    if (in[at].text != ",") break;
  }
  CODETTA_CHECK_OK(expect(in, at, ")"));
  Dim result = values[0];
  if (function.text == "ceil_div" && values.size() == 2) {
    result = floordiv(values[0] + values[1] - Dim::constant(1), values[1]);
  } else if (function.text == "min" || function.text == "max") {
    for (size_t i = 1; i < values.size(); ++i)
      result = function.text == "min" ? min(result, values[i]) : max(result, values[i]);
  } else {
    return wrong(function.span, fmt::format("{} of {} values is no function here", function.text, values.size()),
                 "there are ceil_div(a, b), min(a, b), max(a, b), size(x, dim) and, in sizes, stride(x, dim)");
  }
  CODETTA_CHECK_OK(sound(result, function));
  return result;
}

}  // namespace codetta::plan
