// SPDX-License-Identifier: Apache-2.0
// Writing an epilogue in C++: expressions over the accumulator and named operands, with the functions of the language.
//   auto epilogue = codetta::Epilogue::trace([](codetta::EpilogueTracer& e) {
//     auto F = e.accum() * e.input("alpha") + e.input("C") * 2.0;
//     e.output("D", relu(F));
//     e.output("F", F);
//   });
// gives the same epilogue as the text
//   def epilogue(accum, alpha, C):
//       F = accum * alpha + C * 2.0
//       D = relu(F)
//       return D, F
// Nothing here fails: mistakes (an expression of another tracer, an unknown option, a name that can not be used) are
// kept, and Epilogue::trace returns them with the place in the C++ source (CallSite) that made them; messages of later
// stages point into the printed epilogue, and name that place too. What C++ alone can see is refused by the compiler:
// `if (x > 0)`, a < b < c, x += y, a function that the language lacks.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "codetta/call_site.hpp"
#include "codetta/error.hpp"
#include "codetta/tensor.hpp"
#include "codetta/traced.hpp"

namespace codetta {

namespace detail {
struct ExprNode;
struct TraceState;
using NodeRef = std::shared_ptr<const ExprNode>;
struct TraceAccess;
}  // namespace detail

// A value of the epilogue, immutable; copies share. Numbers convert: bool, integers (64-bit) and floats stay what they
// are, as literals in text do. A default-made Expr holds nothing, and using it is E0156. Not tied to a thread.
class CODETTA_API Expr : public detail::Traced {
 public:
  Expr() = default;
  template <class T>
  requires std::is_arithmetic_v<T> Expr(T value, CallSite at = CallSite::current())  // NOLINT
      : Expr(literal(value, at)) {}

 private:
  friend struct detail::TraceAccess;
  explicit Expr(detail::NodeRef node) : node_(std::move(node)) {}
  template <class T>
  static Expr literal(T value, CallSite at) {
    if constexpr (std::same_as<T, bool>) {
      return from_bool(value, at);
    } else if constexpr (std::floating_point<T>) {
      return from_real(static_cast<double>(value), at);
    } else if constexpr (std::signed_integral<T>) {
      return from_int(static_cast<int64_t>(value), at);
    } else {
      return from_unsigned(static_cast<uint64_t>(value), at);
    }
  }
  static Expr from_bool(bool value, CallSite at);
  static Expr from_int(int64_t value, CallSite at);
  static Expr from_unsigned(uint64_t value, CallSite at);  // from 2^63 on a u64
  static Expr from_real(double value, CallSite at);

  detail::NodeRef node_;
};

// What a function is traced with; lives as long as the call of Epilogue::trace.
class CODETTA_API EpilogueTracer {
 public:
  EpilogueTracer();
  EpilogueTracer(const EpilogueTracer&) = default;  // of one epilogue; moves copy
  EpilogueTracer& operator=(const EpilogueTracer&) = default;
  [[nodiscard]] Expr accum(CallSite at = CallSite::current()) const;
  // An operand; what is bound to it decides whether it is a tensor or a scalar. The same name gives the same operand.
  // The epilogue's parameters are in the order in which its outputs first use them: C++ leaves open which of two calls
  // in one expression comes first.
  [[nodiscard]] Expr input(std::string name, CallSite at = CallSite::current()) const;
  [[nodiscard]] Expr literal(Expr number) const { return number; }
  // Outputs are in the order of these calls.
  void output(std::string name, const Expr& value, CallSite at = CallSite::current());

 private:
  friend struct detail::TraceAccess;
  std::shared_ptr<detail::TraceState> state_;
};

namespace detail {
using ExprOperand = Operand<Expr>;
using ExprComparison = Comparison<Expr>;
}  // namespace detail

// Operators as in text. / is the real quotient, of integers too; floordiv and % round toward minus infinity. A quotient
// of two C++ integers, as in x * (1 / 2), is C++'s, and 0.
CODETTA_API Expr operator+(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API Expr operator-(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API Expr operator*(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API Expr operator/(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API Expr operator%(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API Expr floordiv(const Expr& x, const Expr& y, CallSite at = CallSite::current());
CODETTA_API Expr operator+(const detail::ExprOperand& x);
CODETTA_API Expr operator-(const detail::ExprOperand& x);
CODETTA_API detail::ExprComparison operator==(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API detail::ExprComparison operator!=(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API detail::ExprComparison operator<(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API detail::ExprComparison operator<=(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API detail::ExprComparison operator>(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API detail::ExprComparison operator>=(const detail::ExprOperand& x, const detail::ExprOperand& y);
// On booleans.
CODETTA_API Expr operator&(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API Expr operator|(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API Expr operator^(const detail::ExprOperand& x, const detail::ExprOperand& y);
CODETTA_API Expr operator~(const detail::ExprOperand& x);

// Functions as in text, with the same defaults; docs/language.md says what each computes.
CODETTA_API Expr row_index(CallSite at = CallSite::current());
CODETTA_API Expr col_index(CallSite at = CallSite::current());
CODETTA_API Expr batch_index(CallSite at = CallSite::current());
CODETTA_API Expr identity(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr multiply_add(const Expr& x, const Expr& y, const Expr& z, CallSite at = CallSite::current());
CODETTA_API Expr pow(const Expr& x, const Expr& y, CallSite at = CallSite::current());
CODETTA_API Expr reciprocal(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr sqrt(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr rsqrt(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr abs(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr sign(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr floor(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr ceil(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr round(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr trunc(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr where(const Expr& condition, const Expr& x, const Expr& y, CallSite at = CallSite::current());
CODETTA_API Expr minimum(const Expr& x, const Expr& y, CallSite at = CallSite::current());
CODETTA_API Expr maximum(const Expr& x, const Expr& y, CallSite at = CallSite::current());
// A bound may be no_bound, not both.
struct NoBound {};
inline constexpr NoBound no_bound{};
CODETTA_API Expr clamp(const Expr& x, const Expr& min, const Expr& max, CallSite at = CallSite::current());
CODETTA_API Expr clamp(const Expr& x, const Expr& min, NoBound max, CallSite at = CallSite::current());
CODETTA_API Expr clamp(const Expr& x, NoBound min, const Expr& max, CallSite at = CallSite::current());
CODETTA_API Expr hardtanh(const Expr& x, const Expr& min_val = -1.0, const Expr& max_val = 1.0,
                          CallSite at = CallSite::current());
CODETTA_API Expr relu6(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr exp(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr exp2(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr expm1(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr log(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr log2(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr log1p(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr sin(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr cos(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr tanh(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr erf(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr relu(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr sigmoid(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr silu(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr gelu(const Expr& x, std::string_view approximate = "none",
                      CallSite at = CallSite::current());  // "none" or "tanh"
CODETTA_API Expr softplus(const Expr& x, const Expr& beta = 1.0, const Expr& threshold = 20.0,
                          CallSite at = CallSite::current());
CODETTA_API Expr elu(const Expr& x, const Expr& alpha = 1.0, CallSite at = CallSite::current());
CODETTA_API Expr leaky_relu(const Expr& x, const Expr& negative_slope = 0.01, CallSite at = CallSite::current());
CODETTA_API Expr hardswish(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr hardsigmoid(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr mish(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr drelu(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr dsigmoid(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr dtanh(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr dsilu(const Expr& x, CallSite at = CallSite::current());
CODETTA_API Expr dgelu(const Expr& x, std::string_view approximate = "none", CallSite at = CallSite::current());
CODETTA_API Expr cast(const Expr& x, DType dtype, CallSite at = CallSite::current());
CODETTA_API Expr dropout(const Expr& x, const Expr& p, const Expr& seed, CallSite at = CallSite::current());

// What a reduction runs over. Axis::Row: within each row (over N); Axis::Column: over M. Dimensions are counted from 0,
// or from -1 for the last. Reduced dimensions stay with size 1, or are dropped with keepdim = false.
enum class Axis : uint8_t { Row, Column, All };
class ReduceOver {
 public:
  ReduceOver(Axis axis) : axis_(axis) {}  // NOLINT(google-explicit-constructor)
  // Exactly an int: a factor or a bound that was meant for another function doesn't become a dim.
  template <std::same_as<int> T>
  ReduceOver(T dim) : dims_{dim}, by_dims_(true) {}  // NOLINT(google-explicit-constructor)
  ReduceOver(std::initializer_list<int> dims) : dims_(dims), by_dims_(true) {}
  ReduceOver(std::vector<int> dims) : dims_(std::move(dims)), by_dims_(true) {}  // NOLINT(google-explicit-constructor)

 private:
  friend struct detail::TraceAccess;
  Axis axis_ = Axis::All;
  std::vector<int> dims_;
  bool by_dims_ = false;
};
CODETTA_API Expr sum(const Expr& x, const ReduceOver& over = Axis::All, bool keepdim = true,
                     CallSite at = CallSite::current());
CODETTA_API Expr max(const Expr& x, const ReduceOver& over = Axis::All, bool keepdim = true,
                     CallSite at = CallSite::current());
CODETTA_API Expr min(const Expr& x, const ReduceOver& over = Axis::All, bool keepdim = true,
                     CallSite at = CallSite::current());
// As in text: max(x, 0) may mean the larger of both, which is maximum(x, 0). A dim is written {0}.
template <class T>
requires std::is_arithmetic_v<T> Expr max(const Expr& x, T y)
= delete;
template <class T>
requires std::is_arithmetic_v<T> Expr min(const Expr& x, T y)
= delete;
CODETTA_API Expr mean(const Expr& x, const ReduceOver& over = Axis::All, bool keepdim = true,
                      CallSite at = CallSite::current());
CODETTA_API Expr amax(const Expr& x, const ReduceOver& over = Axis::All, bool keepdim = true,
                      CallSite at = CallSite::current());
CODETTA_API Expr sum_of_squares(const Expr& x, const ReduceOver& over = Axis::All, bool keepdim = true,
                                CallSite at = CallSite::current());
CODETTA_API Expr logsumexp(const Expr& x, const ReduceOver& over = Axis::All, bool keepdim = true,
                           CallSite at = CallSite::current());

CODETTA_API Expr permute(const Expr& x, const std::vector<int>& indices, CallSite at = CallSite::current());
CODETTA_API Expr reshape(const Expr& x, const std::vector<int64_t>& new_shape,
                         CallSite at = CallSite::current());  // one size may be -1
// n equal parts along dim; n is 2 to 1024, else the result has one part that carries the error.
CODETTA_API std::vector<Expr> split(const Expr& x, int n, int dim = -1, CallSite at = CallSite::current());
CODETTA_API Expr join(const std::vector<Expr>& parts, int dim = -1, bool interleave = false,
                      CallSite at = CallSite::current());

// Functions of <cmath> that the language lacks, or has under another name.
template <detail::TracedValue X, class Y>
Expr fmax(const X&, const Y&) {
  static_assert(detail::never<X, Y>, "the language has no fmax: maximum(x, y) is the larger of both; NaN propagates");
  return {};
}
template <detail::TracedValue X, class Y>
Expr fmin(const X&, const Y&) {
  static_assert(detail::never<X, Y>, "the language has no fmin: minimum(x, y) is the smaller of both; NaN propagates");
  return {};
}
template <detail::TracedValue X, class Y>
Expr fmod(const X&, const Y&) {
  static_assert(detail::never<X, Y>, "the language has no fmod: x % y has the sign of y, as in Python");
  return {};
}
template <detail::TracedValue X>
Expr fabs(const X&) {
  static_assert(detail::never<X>, "the language has no fabs: abs(x) is that of every type");
  return {};
}
template <detail::TracedValue X>
Expr tan(const X&) {
  static_assert(detail::never<X>, "the language has no tan: write sin(x) / cos(x)");
  return {};
}
template <detail::TracedValue X>
Expr log10(const X&) {
  static_assert(detail::never<X>, "the language has no log10: write log(x) * 0.4342944819032518");
  return {};
}
template <detail::TracedValue X>
Expr isnan(const X&) {
  static_assert(detail::never<X>, "the language has no isnan: write x != x");
  return {};
}

}  // namespace codetta
