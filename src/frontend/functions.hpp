// SPDX-License-Identifier: Apache-2.0
// The table of functions (functions.def).
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "types/op.hpp"

namespace codetta::frontend {

enum class ParameterKind : uint8_t {
  Value,     // a tensor or a number
  Bound,     // a value or None
  Rest,      // one or more values, none where it is not required
  Text,      // a string
  Integer,   // an integer literal
  Integers,  // a tuple of integer literals
  Dims,      // None, an integer literal or a tuple of them
  Axis,      // None, "row", "column" or "all"
  Shape,     // a size or a tuple of them: integer literals, strings, and arithmetic with names of sizes
  Sizes,     // one or more of these, as arguments of their own or as tuples
  Flag,      // True or False
  DType,     // an element type, bare or as a string
  Function,  // the name of a function of the text
  Types,     // a string such as "f32[m, n]", or a tuple of them
};

struct FunctionParameter {
  std::string_view name;
  ParameterKind kind = ParameterKind::Value;
  bool required = true;
  double number = 0;      // default of Value, Integer and Flag
  std::string_view text;  // default of Text
};

enum class Lowering : uint8_t {  // from Matmul on of programs only
  Operands,                      // the op on the values in order
  Identity,                      // nothing
  Approximate,                   // the op, or with approximate="tanh" the op after it in ops.def
  Clamp,                         // clamp, minimum or maximum
  Relu6,
  Cast,
  Reduce,
  Permute,
  Reshape,
  Split,
  Join,
  Matmul,
  Transpose,
  Concat,
  Squeeze,
  Unsqueeze,
  Expand,
  Full,
  Filled,  // zeros, ones
  Arange,
  Take,  // also gather
  IndexPut,
  Scatter,
  Softmax,  // also log_softmax
  LayerNorm,
  RmsNorm,
  Rope,
  Cond,
  WhileLoop,
  CallExtern,
  UserKernel,
  ToDevice,
  Unavailable,  // known, rejected with what to write instead
};

inline constexpr size_t max_parameters = 5;

struct FunctionInfo {
  std::string_view name;
  Lowering lowering;
  types::Op op;
  std::string_view doc;
  std::array<FunctionParameter, max_parameters> parameters{};
  size_t parameter_count = 0;
  [[nodiscard]] std::span<const FunctionParameter> all_parameters() const {
    return {parameters.data(), parameter_count};
  }
  // The parameter that takes any number of arguments; parameter_count when there is none.
  [[nodiscard]] size_t rest_at() const {
    size_t at = 0;
    while (at < parameter_count && parameters[at].kind != ParameterKind::Rest &&
           parameters[at].kind != ParameterKind::Sizes)
      ++at;
    return at;
  }
  [[nodiscard]] bool variadic() const { return rest_at() < parameter_count; }
  // Only programs may call it.
  [[nodiscard]] bool program_only() const { return lowering >= Lowering::Matmul && lowering < Lowering::Unavailable; }
};

std::span<const FunctionInfo> all_functions();
const FunctionInfo* find_function(std::string_view name);  // nullptr when unknown
std::string nearest_function(std::string_view name);       // "" when none is near
std::string signature(const FunctionInfo& info);           // gelu(x, approximate="none")
// The dtype that a spelling of another framework means ("float32": "f32"); "" when unknown.
std::string_view dtype_alias(std::string_view name);
// inf and nan are the only words that stand for numbers; with functions and dtypes they are the reserved names.
// Functions that only programs may call are none in epilogues: an operand may be called `full`.
bool is_reserved(std::string_view name, bool program);

}  // namespace codetta::frontend
