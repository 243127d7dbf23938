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
  Rest,      // one or more values
  Text,      // a string
  Integer,   // an integer literal
  Integers,  // a tuple of integer literals
  Dims,      // None, an integer literal or a tuple of them
  Axis,      // None, "row", "column" or "all"
  Shape,     // a tuple of integer literals and strings
  Flag,      // True or False
  DType,     // an element type, bare or as a string
};

struct FunctionParameter {
  std::string_view name;
  ParameterKind kind = ParameterKind::Value;
  bool required = true;
  double number = 0;      // default of Value and Integer
  std::string_view text;  // default of Text
};

enum class Lowering : uint8_t {
  Operands,     // the op on the values in order
  Identity,     // nothing
  Approximate,  // the op, or with approximate="tanh" the op after it in ops.def
  Clamp,        // clamp, minimum or maximum
  Relu6,
  Cast,
  Reduce,
  Permute,
  Reshape,
  Split,
  Join,
  Matmul,
  Transpose,
  Unavailable,  // known, rejected with what to write instead
};

inline constexpr size_t max_parameters = 3;

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
  [[nodiscard]] bool variadic() const { return parameter_count > 0 && parameters[0].kind == ParameterKind::Rest; }
  // Only programs may call it.
  [[nodiscard]] bool program_only() const { return lowering == Lowering::Matmul || lowering == Lowering::Transpose; }
};

std::span<const FunctionInfo> all_functions();
const FunctionInfo* find_function(std::string_view name);  // nullptr when unknown
std::string nearest_function(std::string_view name);       // "" when none is near
std::string signature(const FunctionInfo& info);           // gelu(x, approximate="none")
std::string_view documentation(const FunctionInfo& info);  // one line
// The dtype that a spelling of another framework means ("float32": "f32"); "" when unknown.
std::string_view dtype_alias(std::string_view name);
// inf and nan are the only words that stand for numbers; with functions and dtypes they are the reserved names.
bool is_reserved(std::string_view name);

}  // namespace codetta::frontend
