// SPDX-License-Identifier: Apache-2.0
// Building a program in C++ instead of as text; both give the same graph. What a function means says docs/language.md.
//   codetta::ProgramBuilder b("mlp");
//   auto x = b.input("x", codetta::DType::bf16, {"batch", 64});
//   auto w = b.input("w", codetta::DType::bf16, {64, 10});
//   b.output("y", codetta::call("softmax", {codetta::call("matmul", {x, w})}));
//   codetta::Result<codetta::Program> program = b.finish();
// Nothing here fails on its own: mistakes are kept, and finish() returns them, each with the place in the C++ source
// (CallSite) that made it. What follows from a mistake is not told again: a failed call gives a value that any function
// takes in silence.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "codetta/call_site.hpp"
#include "codetta/program.hpp"
#include "codetta/tensor.hpp"
#include "codetta/traced.hpp"

namespace codetta {

namespace detail {
struct GraphState;
struct GraphAccess;
}  // namespace detail

class GraphValue;

// A size: a number, a symbol such as "n", or arithmetic on them, as in the strings of the language ("n // 8"). Floor
// division and remainder round as Python's. A text that is no size is E0139 where it is used.
class Size {
 public:
  template <class T>
  requires std::is_integral_v<T> Size(T value) : text_(std::to_string(value)) {}
  Size(const char* expression) : text_(expression) {}
  Size(std::string expression) : text_(std::move(expression)) {}
  // One integer that the program computes, or an input without dims or a number: the size that it has in the run. It is
  // E0233 where it has dims or stands in a function of a branch or loop; where it is no integer, finish() says so.
  CODETTA_API Size(const GraphValue& value, CallSite at = CallSite::current());
  [[nodiscard]] const std::string& text() const { return text_; }

  friend Size operator+(const Size& a, const Size& b) { return combine(a, " + ", b); }
  friend Size operator-(const Size& a, const Size& b) { return combine(a, " - ", b); }
  friend Size operator*(const Size& a, const Size& b) { return combine(a, " * ", b); }
  friend Size operator%(const Size& a, const Size& b) { return combine(a, " % ", b); }
  friend Size floordiv(const Size& a, const Size& b) { return combine(a, " // ", b); }

 private:
  static Size combine(const Size& a, const char* op, const Size& b) {
    return {"(" + a.text_ + ")" + op + "(" + b.text_ + ")"};
  }
  std::string text_;
};

// A value of the program that a builder makes; a cheap handle. A default-made one holds nothing, and using it is E0156.
// Belongs to its builder, or to the function of the branch or loop whose body it was made in: used elsewhere it is
// E0148. Not thread safe.
class CODETTA_API GraphValue : public detail::Traced {
 public:
  GraphValue() = default;

  // Elements start, start + step, ... of dim `dim`, up to `stop`, or to the end. As x[start:stop:step]: bounds below 0
  // count from the end, and none is clamped (E0225). What cannot be shown for all sizes a run checks (E0610); with a
  // step it is E0225.
  [[nodiscard]] GraphValue slice(int dim, const Size& start, const std::optional<Size>& stop = {}, int64_t step = 1,
                                 CallSite at = CallSite::current()) const;

 private:
  friend struct detail::GraphAccess;
  std::shared_ptr<detail::GraphState> state_;
  uint32_t id_ = UINT32_MAX;
};

// An argument of call(): a value, a number, an option, sizes, or the types of results.
class Argument {
 public:
  // uint64_t: an integer from 2^63 on; smaller ones are int64_t whatever they came as.
  using Variant = std::variant<std::monostate, GraphValue, std::vector<GraphValue>, bool, int64_t, double, std::string,
                               std::vector<int64_t>, std::vector<Size>, DType, std::vector<std::string>, uint64_t>;
  Argument() = default;  // None
  Argument(GraphValue value) : value_(std::move(value)) {}
  Argument(std::vector<GraphValue> values) : value_(std::move(values)) {}  // for a parameter that takes any number
  Argument(bool flag) : value_(flag) {}
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) Argument(T number) : value_(widest(number)) {}
  Argument(const char* text) : value_(std::string(text)) {}  // an option, a name, a type, or one size
  Argument(std::string text) : value_(std::move(text)) {}
  Argument(std::vector<int64_t> integers) : value_(std::move(integers)) {}
  Argument(std::vector<Size> sizes) : value_(std::move(sizes)) {}
  Argument(Size size) : value_(std::vector<Size>{std::move(size)}) {}
  Argument(DType dtype) : value_(dtype) {}
  Argument(std::vector<std::string> texts) : value_(std::move(texts)) {}  // types of several results
  [[nodiscard]] const Variant& value() const { return value_; }

 private:
  template <class T>
  static Variant widest(T number) {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(number);
    } else {
      static_assert(sizeof(T) <= 8, "numbers have at most 64 bits");
      const auto integer = static_cast<int64_t>(number);
      if (std::is_unsigned_v<T> && integer < 0) return static_cast<uint64_t>(number);
      return integer;
    }
  }
  Variant value_;
};

namespace detail {
// An operand of an operator: a value or a number, with the place where it stands.
struct ValueOperand {
  template <class X>
  requires(std::convertible_to<X, GraphValue> || std::is_arithmetic_v<std::remove_cvref_t<X>>)
      ValueOperand(X&& x, CallSite at = CallSite::current())  // NOLINT
      : argument(std::forward<X>(x)), site(at) {}
  Argument argument;
  CallSite site;
};
using ValueComparison = Comparison<GraphValue>;
}  // namespace detail

// Operators as in text; one operand may be a number. Those of two C++ numbers are C++'s.
CODETTA_API GraphValue operator+(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API GraphValue operator-(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API GraphValue operator*(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API GraphValue operator/(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API GraphValue operator%(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API GraphValue floordiv(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API GraphValue operator-(const detail::ValueOperand& x);
CODETTA_API detail::ValueComparison operator==(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API detail::ValueComparison operator!=(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API detail::ValueComparison operator<(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API detail::ValueComparison operator<=(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API detail::ValueComparison operator>(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API detail::ValueComparison operator>=(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API GraphValue operator&(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API GraphValue operator|(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API GraphValue operator^(const detail::ValueOperand& x, const detail::ValueOperand& y);
CODETTA_API GraphValue operator~(const detail::ValueOperand& x);

using NamedArguments = std::vector<std::pair<std::string, Argument>>;

// Any function of the language by its name, with arguments by position and by name: call("layer_norm", {x, weight},
// {{"eps", 1e-6}}). Numbers become values where the function takes values; at least one argument is a value of the
// builder, but for those that need none (see ProgramBuilder::call). Of functions with several results: the first.
CODETTA_API GraphValue call(std::string_view function, std::vector<Argument> arguments,
                            const NamedArguments& named = {}, CallSite at = CallSite::current());
// All results: parts of split, results of call_extern and user_kernel.
CODETTA_API std::vector<GraphValue> call_all(std::string_view function, std::vector<Argument> arguments,
                                             const NamedArguments& named = {}, CallSite at = CallSite::current());

// A function of a branch or a loop: it gets values of its own for the operands, and uses no others. Called at once; an
// empty one is E0156.
using GraphFunction = std::function<std::vector<GraphValue>(std::vector<GraphValue>)>;
// The results of `then` where the predicate (one boolean) holds, else of `otherwise`.
CODETTA_API std::vector<GraphValue> cond(const GraphValue& predicate, const GraphFunction& then,
                                         const GraphFunction& otherwise, std::vector<GraphValue> operands,
                                         CallSite at = CallSite::current());
// `carried`, replaced by the results of `body` as long as the one result of `condition` holds.
CODETTA_API std::vector<GraphValue> while_loop(const GraphFunction& condition, const GraphFunction& body,
                                               std::vector<GraphValue> carried, CallSite at = CallSite::current());

// Makes one program. Not thread safe.
class CODETTA_API ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name = "program", CallSite at = CallSite::current());
  ProgramBuilder(const ProgramBuilder&) = default;  // of one program; moves copy
  ProgramBuilder& operator=(const ProgramBuilder&) = default;

  // A tensor; {} is a tensor without dims. Inputs keep their order.
  GraphValue input(const std::string& name, DType dtype, const std::vector<Size>& shape,
                   CallSite at = CallSite::current());
  // A tensor whose memory the caller gives up, as donated[...] of a text (ProgramParameter::donated).
  GraphValue donated_input(const std::string& name, DType dtype, const std::vector<Size>& shape,
                           CallSite at = CallSite::current());
  // A number, passed by value.
  GraphValue number(const std::string& name, DType dtype, CallSite at = CallSite::current());
  // A number or a bool written in the program; numbers are weak, as in text.
  template <class T>
  requires std::is_arithmetic_v<T> GraphValue constant(T value, CallSite at = CallSite::current()) {
    return literal(Argument(value), at);
  }
  // call() without a value among the arguments: zeros, ones, full, arange.
  GraphValue call(std::string_view function, std::vector<Argument> arguments, const NamedArguments& named = {},
                  CallSite at = CallSite::current());
  // Outputs keep their order; one value may be several.
  void output(const std::string& name, const GraphValue& value, CallSite at = CallSite::current());

  // The program as built up to now. Errors: those of texts (E01xx but for syntax, E02xx), E0148, E0149 and E0156; what
  // a text would point at in its line points at the line of the printed program, and names the call that made it.
  [[nodiscard]] Result<Program> finish(CallSite at = CallSite::current()) const;

 private:
  friend struct detail::GraphAccess;
  GraphValue literal(const Argument& number, CallSite at);
  std::shared_ptr<detail::GraphState> state_;
};

}  // namespace codetta
