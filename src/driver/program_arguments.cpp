// SPDX-License-Identifier: Apache-2.0
// Numbers and names that a caller passes to a program.
#include "driver/program_arguments.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::driver {

Result<codetta::cpu::ScalarValue> declared_number(const package::Buffer& buffer, const ArgumentValue& value) {
  const DType dtype = buffer.dtype;
  types::Scalar number;
  std::string text, why;
  if (const auto* flag = std::get_if<bool>(&value.value())) {
    number = types::Scalar::from_bool(*flag);
    text = *flag ? "true" : "false";
    if (dtype != DType::boolean) why = "a truth value is no number";
  } else if (const auto* integer = std::get_if<int64_t>(&value.value())) {
    number = types::Scalar::from_i64(*integer, dtype);
    text = std::to_string(*integer);
    const bool wraps =
        types::is_integer(dtype) && (number.as_i64() != *integer || (types::is_unsigned(dtype) && *integer < 0));
    if (dtype == DType::boolean) {
      why = "it is a number";
    } else if (wraps || !std::isfinite(number.as_f64())) {
      why = "it is out of range";
    }
  } else if (const auto* real = std::get_if<double>(&value.value())) {
    number = types::Scalar::from_f64(*real, dtype);
    text = fmt::format("{}", *real);
    if (!types::is_float(dtype)) {
      why = dtype == DType::boolean ? "it is a number" : "it is not an integer";
    } else if (std::isfinite(*real) && !std::isfinite(number.as_f64())) {
      why = "it is out of range";
    }
  }
  if (!why.empty()) {
    return diag::error(diag::Code::symbol_conflict,
                       fmt::format("{} is {} but is declared as {}", buffer.name, text, dtype_name(dtype)))
        .reason(why)
        .help(dtype == DType::boolean
                  ? "bind true or false"
                  : fmt::format("bind a number that {} holds, or declare another type", dtype_name(dtype)));
  }
  codetta::cpu::ScalarValue result{};
  const DType held = types::compute_dtype(dtype);
  if (held == DType::f32) {
    result.f = static_cast<float>(number.as_f64());
  } else if (held == DType::f64) {
    result.d = number.as_f64();
  } else {
    result.u = number.as_u64();
  }
  return result;
}

Result<void> check_known(const package::Package& package, const std::vector<NamedArgument>& arguments) {
  std::vector<std::string> known, unknown;
  for (const package::Buffer& buffer : package.buffers) {
    if (buffer.role == package::Buffer::Role::Argument || buffer.role == package::Buffer::Role::Output)
      known.push_back(buffer.name);
  }
  for (const NamedArgument& argument : arguments) {
    if (std::find(known.begin(), known.end(), argument.name) == known.end()) unknown.push_back(argument.name);
  }
  if (unknown.empty()) return {};
  const std::string near = diag::nearest(unknown.front(), known);
  return diag::error(diag::Code::argument_unexpected,
                     fmt::format("the program has no parameter or output {}", base::join(unknown, ", ")))
      .reason(fmt::format("it has {}", base::join(known, ", ")))
      .help(near.empty() ? "remove the argument" : fmt::format("did you mean {}?", near));
}

}  // namespace codetta::driver
