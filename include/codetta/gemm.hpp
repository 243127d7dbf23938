// SPDX-License-Identifier: Apache-2.0
// What to compute: D = epilogue(A @ B, ...).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "codetta/epilogue.hpp"
#include "codetta/math_mode.hpp"
#include "codetta/tensor.hpp"
#include "codetta/trace.hpp"

namespace codetta {

// What an epilogue parameter or output is bound to: a tensor, or a host number. Floating numbers are f32 (f64 when the
// accumulator is f64); integers are i32 where they fit, else i64, from 2^63 on u64; so a plain 3.0 never widens the
// computation.
class ArgumentValue {
 public:
  ArgumentValue(const TensorView& tensor) : value_(tensor) {}     // NOLINT(google-explicit-constructor)
  ArgumentValue(const Tensor& tensor) : value_(tensor.view()) {}  // NOLINT(google-explicit-constructor)
  // Exactly a number or a bool: nothing converts to one on the way, least of all a pointer to data.
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  ArgumentValue(Number number) : value_(widen(number)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] const TensorView* tensor() const { return std::get_if<TensorView>(&value_); }
  // uint64_t: an integer from 2^63 on; smaller ones are int64_t whatever they came as.
  using Value = std::variant<bool, int64_t, double, TensorView, uint64_t>;
  [[nodiscard]] const Value& value() const { return value_; }

 private:
  template <class Number>
  static Value widen(Number number) {
    static_assert(!std::is_same_v<Number, long double>, "long double has no dtype; use double");
    if constexpr (std::is_same_v<Number, bool>) {
      return number;
    } else if constexpr (std::is_integral_v<Number>) {
      if constexpr (sizeof(Number) == 8 && std::is_unsigned_v<Number>) {
        if (number > uint64_t{INT64_MAX}) return static_cast<uint64_t>(number);
      }
      return static_cast<int64_t>(number);
    } else {
      return static_cast<double>(number);
    }
  }
  Value value_;
};
struct NamedArgument {
  std::string name;
  ArgumentValue value;
};

// An epilogue with everything its parameters and outputs are bound to, by name. Copies share the epilogue; views stay
// views.
class EpilogueArguments {
 public:
  EpilogueArguments() = default;  // D = accum
  EpilogueArguments(Epilogue epilogue, std::vector<NamedArgument> arguments)
      : epilogue_(std::move(epilogue)), arguments_(std::move(arguments)) {}
  // From text. Errors: those of Epilogue::parse.
  static Result<EpilogueArguments> make(std::string source, std::vector<NamedArgument> arguments) {
    auto epilogue = Epilogue::parse(std::move(source));
    if (!epilogue) return std::move(epilogue).error();
    return EpilogueArguments(*std::move(epilogue), std::move(arguments));
  }
#if CODETTA_HAS_EXCEPTIONS
  EpilogueArguments(const char* source, std::vector<NamedArgument> arguments)
      : EpilogueArguments(make(source, std::move(arguments)).value()) {}
  EpilogueArguments(std::string source, std::vector<NamedArgument> arguments)
      : EpilogueArguments(make(std::move(source), std::move(arguments)).value()) {}
  template <class Traced, class = std::enable_if_t<std::is_invocable_v<Traced, EpilogueTracer&>>>
  EpilogueArguments(Traced&& lambda, std::vector<NamedArgument> arguments, CallSite at = CallSite::current())
      : EpilogueArguments(Epilogue::trace(std::forward<Traced>(lambda), at).value(), std::move(arguments)) {}
#endif
  [[nodiscard]] const std::optional<Epilogue>& epilogue() const { return epilogue_; }
  [[nodiscard]] const std::vector<NamedArgument>& arguments() const { return arguments_; }

 private:
  std::optional<Epilogue> epilogue_;
  std::vector<NamedArgument> arguments_;
};

// What A times B accumulates in unless asked otherwise: f32 for floats up to f32, f64 if one is f64, i32 for 8-bit
// integers, i64 where one of two integers is wider. Nullopt where no GEMM multiplies the two (bool, a float with an
// integer).
CODETTA_API std::optional<DType> default_accumulator(DType a, DType b);

// How results are rounded.
enum class Rounding : uint8_t {
  Fused,      // computed in the accumulator's type, one rounding at each store
  AsUnfused,  // accum is rounded to D's dtype and each result to its operands' promoted dtype, as separate kernels
              // would
};

// B packed once for a kernel: an opaque layout that Kernel::pack makes and the same kernel family reads.
class PackedTensor;

// One GEMM with its epilogue. A: [M, K] or [batch, M, K]; B: [K, N] or [batch, K, N] (a rank-2 operand is shared by the
// batch); any strides, so transposed operands are views. out: the view of output D, or absent where D is not returned.
struct GemmArguments {
  TensorView A{};
  TensorView B{};
  std::optional<TensorView> out{};
  std::optional<DType> accumulator{};  // else that of default_accumulator
  EpilogueArguments epilogue{};        // default: D = accum
  Rounding rounding = Rounding::Fused;
  bool strict = false;                     // no contraction of a * b + c
  MathMode math = MathMode::Strict;        // how exactly A and B are multiplied
  const PackedTensor* packed_B = nullptr;  // instead of B's memory; B still says shape, dtype, batch
};

// An output of an epilogue as its value is. It may be bound to a tensor of any dtype; leading sizes of 1 may be left
// out.
struct OutputShape {
  std::string name;
  DType dtype = DType::f32;  // that the value is computed in
  Dims shape;
};
// The outputs in the order of return, with the shapes that follow from A, B and the operands: what to make tensors for.
// Outputs and `out` may be bound or not. Errors: E0220, E0223 (A, B), those of operands (E02xx), E0604.
CODETTA_API Result<std::vector<OutputShape>> output_shapes(const GemmArguments& arguments);

}  // namespace codetta
