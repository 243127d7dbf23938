// SPDX-License-Identifier: Apache-2.0
// Type names of the CPU and the printed conversions.
#include "emit/dialect.hpp"

#include <array>

namespace codetta::emit {

using types::compute_dtype;
using types::is_bool;
using types::is_float;

namespace {

constexpr std::array<TypeNames, dtype_count> cpu_types{{
    {"boolv", "u8v", "u8"},
    {"i8v", "i8v", "i8"},
    {"i16v", "i16v", "i16"},
    {"i32v", "i32v", "i32"},
    {"i64v", "i64v", "i64"},
    {"u8v", "u8v", "u8"},
    {"u16v", "u16v", "u16"},
    {"u32v", "u32v", "u32"},
    {"u64v", "u64v", "u64"},
    {"", "u8v", "u8"},
    {"", "u8v", "u8"},
    {"", "u16v", "u16"},
    {"", "u16v", "u16"},
    {"f32v", "f32v", "f32"},
    {"f64v", "f64v", "f64"},
}};

std::string applied(std::string_view function, std::string_view argument) {
  std::string out(function);
  out += '(';
  out += argument;
  out += ')';
  return out;
}

}  // namespace

const Dialect& cpu_dialect() {
  static constexpr Dialect dialect{.name = "cpu", .types = cpu_types.data()};
  return dialect;
}

// The same names: device/gpu/vec.h has them as structs of lanes.
const Dialect& cuda_dialect() {
  static constexpr Dialect dialect{.name = "cuda",
                                   .types = cpu_types.data(),
                                   .templated = "f.template ",
                                   .scalars = "f.params.scalar",
                                   .operands = "f.params.operand",
                                   .extents = "f.params.problem.",
                                   .registers = true,
                                   .says_written = true,
                                   .divides_by_one = true};
  return dialect;
}

// C++14 without lambdas, `double` and `long long`, whose pointers say in which memory they point (device/metal).
const Dialect& metal_dialect() {
  static constexpr Dialect dialect{.name = "metal",
                                   .types = cpu_types.data(),
                                   .templated = "f.template ",
                                   .scalars = "f.params.scalar",
                                   .operands = "f.params.operand",
                                   .extents = "f.params.problem.",
                                   .registers = true,
                                   .closures = false,
                                   .doubles = false,
                                   .memory = "device ",
                                   .long_long = "l"};
  return dialect;
}

Domain domain_of(DType compute) {
  if (compute == DType::f32) return Domain::F32;
  if (compute == DType::f64) return Domain::F64;
  return types::is_integer(compute) ? Domain::Int : Domain::Common;
}

std::string Conversions::call(std::string_view function, DType domain, std::string_view arguments) {
  needs_.emplace(function, domain_of(domain));
  return applied(function, arguments);
}

std::string Conversions::templated(std::string_view function, DType to, std::string_view arguments) {
  needs_.emplace(function, Domain::Common);
  return applied(std::string(function) + "<" + std::string(dialect_.type(to).value) + ">", arguments);
}

std::string Conversions::convert(std::string text, DType from, DType to, bool truncate) {
  if (from == to) return text;
  if (is_bool(to)) return call("to_bool", from, text);
  if (is_bool(from)) return templated("bool_to", to, text);
  if (is_float(from) && !is_float(to)) return templated(truncate ? "truncate_to" : "round_to", to, text);
  return templated("convert_to", to, text);
}

std::string Conversions::widen(std::string text, DType stored, DType to) {
  const DType natural = compute_dtype(stored);
  if (stored != natural || is_bool(stored)) {
    text = call("widen_" + std::string(types::dtype_traits(stored).name), DType::boolean, text);
  }
  return convert(std::move(text), natural, to, false);
}

std::string Conversions::narrow(std::string text, DType from, DType stored) {
  if (is_bool(stored)) return call("narrow_bool", DType::boolean, convert(std::move(text), from, stored, false));
  const DType natural = compute_dtype(stored);
  if (stored == natural) return convert(std::move(text), from, stored, false);
  // A 16- or 8-bit float: what f32 cannot hold exactly is rounded to odd on the way.
  if (types::is_integer(from) && types::bits(from) == 64 && dialect_.doubles) {
    text = templated("exact_or_odd", DType::f64, text);
    from = DType::f64;
  } else if (types::is_integer(from) && types::bits(from) >= 32) {
    text = templated("exact_or_odd", DType::f32, text);
    from = DType::f32;
  }
  if (from == DType::f64) {
    text = call("to_odd", DType::boolean, text);
    from = DType::f32;
  }
  return call("narrow_" + std::string(types::dtype_traits(stored).name), DType::boolean,
              convert(std::move(text), from, DType::f32, false));
}

std::string Conversions::round_trip(std::string text, DType from, DType through, DType to, bool truncate) {
  if (compute_dtype(through) == through)
    return convert(convert(std::move(text), from, through, truncate), through, to, false);
  return widen(narrow(std::move(text), from, through), through, to);
}

}  // namespace codetta::emit
