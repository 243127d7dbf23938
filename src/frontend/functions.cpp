// SPDX-License-Identifier: Apache-2.0
// The table of functions and what is looked up in it.
#include "frontend/functions.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "codetta/tensor.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::frontend {

namespace {

using types::Op;

constexpr FunctionParameter value(std::string_view name) { return {name, ParameterKind::Value, true, 0, {}}; }
constexpr FunctionParameter value(std::string_view name, double number) {
  return {name, ParameterKind::Value, false, number, {}};
}
constexpr FunctionParameter bound(std::string_view name) { return {name, ParameterKind::Bound, false, 0, {}}; }
constexpr FunctionParameter rest(std::string_view name) { return {name, ParameterKind::Rest, true, 0, {}}; }
constexpr FunctionParameter any(std::string_view name) { return {name, ParameterKind::Rest, false, 0, {}}; }
constexpr FunctionParameter sizes(std::string_view name) { return {name, ParameterKind::Sizes, true, 0, {}}; }
constexpr FunctionParameter text(std::string_view name) { return {name, ParameterKind::Text, true, 0, {}}; }
constexpr FunctionParameter callee(std::string_view name) { return {name, ParameterKind::Function, true, 0, {}}; }
constexpr FunctionParameter types(std::string_view name) { return {name, ParameterKind::Types, true, 0, {}}; }
constexpr FunctionParameter text(std::string_view name, std::string_view standard) {
  return {name, ParameterKind::Text, false, 0, standard};
}
constexpr FunctionParameter integer(std::string_view name) { return {name, ParameterKind::Integer, true, 0, {}}; }
constexpr FunctionParameter integer(std::string_view name, int standard) {
  return {name, ParameterKind::Integer, false, static_cast<double>(standard), {}};
}
constexpr FunctionParameter integers(std::string_view name) { return {name, ParameterKind::Integers, true, 0, {}}; }
constexpr FunctionParameter dims(std::string_view name) { return {name, ParameterKind::Dims, false, 0, {}}; }
constexpr FunctionParameter axis(std::string_view name) { return {name, ParameterKind::Axis, false, 0, {}}; }
constexpr FunctionParameter shape(std::string_view name) { return {name, ParameterKind::Shape, true, 0, {}}; }
constexpr FunctionParameter flag(std::string_view name, bool standard = false) {
  return {name, ParameterKind::Flag, false, standard ? 1.0 : 0.0, {}};
}
constexpr FunctionParameter dtype(std::string_view name) { return {name, ParameterKind::DType, true, 0, {}}; }
constexpr FunctionParameter dtype(std::string_view name, std::string_view standard) {
  return {name, ParameterKind::DType, false, 0, standard};
}

template <class... Parameters>
constexpr FunctionInfo function(std::string_view name, Lowering lowering, Op op, std::string_view doc,
                                Parameters... parameters) {
  static_assert(sizeof...(parameters) <= max_parameters);
  return {name, lowering, op, doc, {parameters...}, sizeof...(parameters)};
}

constexpr FunctionInfo table[] = {
#define CODETTA_FUNCTION(name, lowering, op, ...) function(#name, Lowering::lowering, Op::op, __VA_ARGS__),
#include "frontend/functions.def"
#undef CODETTA_FUNCTION
};

struct Alias {
  std::string_view other;
  std::string_view ours;
};
constexpr Alias aliases[] = {
    {"float", "f32"},
    {"float32", "f32"},
    {"fp32", "f32"},
    {"single", "f32"},
    {"tf32", "f32"},
    {"float64", "f64"},
    {"fp64", "f64"},
    {"double", "f64"},
    {"float16", "f16"},
    {"fp16", "f16"},
    {"half", "f16"},
    {"bfloat16", "bf16"},
    {"bfloat", "bf16"},
    {"int8", "i8"},
    {"s8", "i8"},
    {"int16", "i16"},
    {"short", "i16"},
    {"s16", "i16"},
    {"int32", "i32"},
    {"int", "i32"},
    {"s32", "i32"},
    {"int64", "i64"},
    {"long", "i64"},
    {"s64", "i64"},
    {"uint8", "u8"},
    {"byte", "u8"},
    {"uint16", "u16"},
    {"uint32", "u32"},
    {"uint64", "u64"},
    {"bool_", "bool"},
    {"boolean", "bool"},
    {"e4m3", "f8e4m3"},
    {"float8_e4m3", "f8e4m3"},
    {"float8_e4m3fn", "f8e4m3"},
    {"fp8_e4m3", "f8e4m3"},
    {"fp8", "f8e4m3"},
    {"f8", "f8e4m3"},
    {"e5m2", "f8e5m2"},
    {"float8_e5m2", "f8e5m2"},
    {"fp8_e5m2", "f8e5m2"},
};

}  // namespace

std::span<const FunctionInfo> all_functions() { return table; }

const FunctionInfo* find_function(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(table), std::end(table), [&](const FunctionInfo& info) { return info.name == name; });
  return found == std::end(table) ? nullptr : found;
}

std::string nearest_function(std::string_view name) {
  static constexpr Alias other_names[] = {{"swish", "silu"},
                                          {"logistic", "sigmoid"},
                                          {"power", "pow"},
                                          {"absolute", "abs"},
                                          {"fabs", "abs"},
                                          {"fmax", "maximum"},
                                          {"fmin", "minimum"},
                                          {"clip", "clamp"},
                                          {"ln", "log"},
                                          {"inv", "reciprocal"},
                                          {"recip", "reciprocal"},
                                          {"fma", "multiply_add"},
                                          {"select", "where"},
                                          {"cat", "concat"},
                                          {"stack", "join"},
                                          {"chunk", "split"},
                                          {"average", "mean"},
                                          {"astype", "cast"},
                                          {"convert", "cast"},
                                          {"absmax", "amax"},
                                          {"sumsq", "sum_of_squares"},
                                          {"norm", "sum_of_squares"},
                                          {"mm", "matmul"},
                                          {"dot", "matmul"},
                                          {"bmm", "matmul"},
                                          {"view", "reshape"},
                                          {"leakyrelu", "leaky_relu"},
                                          {"rmsnorm", "rms_norm"},
                                          {"layernorm", "layer_norm"},
                                          {"broadcast_to", "expand"},
                                          {"index_select", "take"},
                                          {"take_along_axis", "gather"},
                                          {"iota", "arange"},
                                          {"swapaxes", "transpose"},
                                          {"scatter_add", "scatter"},
                                          {"index_add", "index_put"}};
  for (const Alias& alias : other_names) {
    if (alias.other == name) return std::string(alias.ours);
  }
  std::vector<std::string> names;
  for (const FunctionInfo& info : table) names.emplace_back(info.name);
  return diag::nearest(name, names);
}

std::string signature(const FunctionInfo& info) {
  std::string out(info.name);
  out += '(';
  for (const FunctionParameter& parameter : info.all_parameters()) {
    if (out.back() != '(') out += ", ";
    out += parameter.name;
    switch (parameter.kind) {
      case ParameterKind::Rest:
      case ParameterKind::Sizes:
        out += ", ...";
        break;
      case ParameterKind::Value:
        if (!parameter.required) out += "=" + base::format_real(parameter.number);
        break;
      case ParameterKind::Integer:
        if (!parameter.required) out += "=" + base::format_double(parameter.number);
        break;
      case ParameterKind::Text:
        if (!parameter.required) out += "=\"" + std::string(parameter.text) + "\"";
        break;
      case ParameterKind::Flag:
        out += parameter.number != 0 ? "=True" : "=False";
        break;
      case ParameterKind::Bound:
      case ParameterKind::Dims:
      case ParameterKind::Axis:
        out += "=None";
        break;
      case ParameterKind::DType:
        if (!parameter.required) out += "=" + std::string(parameter.text.empty() ? "None" : parameter.text);
        break;
      case ParameterKind::Integers:
      case ParameterKind::Shape:
      case ParameterKind::Function:
      case ParameterKind::Types:
        break;
    }
  }
  return out + ")";
}

std::string_view dtype_alias(std::string_view name) {
  for (const Alias& alias : aliases) {
    if (alias.other == name) return alias.ours;
  }
  return {};
}

bool is_reserved(std::string_view name, bool program) {
  const FunctionInfo* function = find_function(name);
  return name == "inf" || name == "nan" || (function != nullptr && (program || !function->program_only())) ||
         dtype_from_name(name).has_value();
}

}  // namespace codetta::frontend
