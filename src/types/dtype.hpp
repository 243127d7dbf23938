// SPDX-License-Identifier: Apache-2.0
// What an element type is: widths, ranges, precision, and the type that two operands compute in (docs/semantics.md).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "codetta/tensor.hpp"

namespace codetta::types {

enum class DTypeKind : uint8_t { boolean, signed_integer, unsigned_integer, floating };

// One row per DType. mantissa_bits counts the stored fraction; exponent fields are 0 for integers.
struct DTypeTraits {
  std::string_view name;
  DTypeKind kind;
  int bits;
  int mantissa_bits;
  int exponent_bits;
  bool infinities;  // the format encodes them (a store of fp8 never produces one)
  double max_finite;
};

// Widths and maxima: IEEE 754-2019, bfloat16, and OCP "8-bit Floating Point Specification (OFP8)" revision 1.0.
inline constexpr std::array<DTypeTraits, dtype_count> dtype_table{{
    {"bool", DTypeKind::boolean, 8, 0, 0, false, 1.0},
    {"i8", DTypeKind::signed_integer, 8, 0, 0, false, 127.0},
    {"i16", DTypeKind::signed_integer, 16, 0, 0, false, 32767.0},
    {"i32", DTypeKind::signed_integer, 32, 0, 0, false, 2147483647.0},
    {"i64", DTypeKind::signed_integer, 64, 0, 0, false, 0x1p63},
    {"u8", DTypeKind::unsigned_integer, 8, 0, 0, false, 255.0},
    {"u16", DTypeKind::unsigned_integer, 16, 0, 0, false, 65535.0},
    {"u32", DTypeKind::unsigned_integer, 32, 0, 0, false, 4294967295.0},
    {"u64", DTypeKind::unsigned_integer, 64, 0, 0, false, 0x1p64},
    {"f8e4m3", DTypeKind::floating, 8, 3, 4, false, 448.0},
    {"f8e5m2", DTypeKind::floating, 8, 2, 5, true, 57344.0},
    {"f16", DTypeKind::floating, 16, 10, 5, true, 65504.0},
    {"bf16", DTypeKind::floating, 16, 7, 8, true, 0x1.fep127},
    {"f32", DTypeKind::floating, 32, 23, 8, true, 0x1.fffffep127},
    {"f64", DTypeKind::floating, 64, 52, 11, true, 0x1.fffffffffffffp1023},
}};

// Whether a byte (from a file, say) names an element type; everything below needs a valid one.
constexpr bool is_valid(DType d) { return static_cast<int>(d) < dtype_count; }
constexpr const DTypeTraits& dtype_traits(DType d) { return dtype_table[static_cast<size_t>(d)]; }

constexpr int bits(DType d) { return dtype_traits(d).bits; }
constexpr int64_t byte_size(DType d) { return dtype_traits(d).bits / 8; }
constexpr bool is_bool(DType d) { return d == DType::boolean; }
constexpr bool is_float(DType d) { return dtype_traits(d).kind == DTypeKind::floating; }
constexpr bool is_float8(DType d) { return d == DType::f8e4m3 || d == DType::f8e5m2; }
constexpr bool is_byte(DType d) { return d == DType::i8 || d == DType::u8; }  // an integer of 8 bits
// bool is no integer: arithmetic on it is decided by each op.
constexpr bool is_integer(DType d) {
  return dtype_traits(d).kind == DTypeKind::signed_integer || dtype_traits(d).kind == DTypeKind::unsigned_integer;
}
constexpr bool is_unsigned(DType d) { return dtype_traits(d).kind == DTypeKind::unsigned_integer; }
constexpr bool is_signed(DType d) { return dtype_traits(d).kind == DTypeKind::signed_integer || is_float(d); }
constexpr bool is_fp8(DType d) { return d == DType::f8e4m3 || d == DType::f8e5m2; }
constexpr int mantissa_bits(DType d) { return dtype_traits(d).mantissa_bits; }
constexpr int exponent_bits(DType d) { return dtype_traits(d).exponent_bits; }
constexpr int exponent_bias(DType d) { return is_float(d) ? (1 << (dtype_traits(d).exponent_bits - 1)) - 1 : 0; }

namespace detail {
constexpr double power_of_two(int exponent) {
  double r = 1.0;
  for (; exponent > 0; --exponent) r *= 2.0;
  for (; exponent < 0; ++exponent) r *= 0.5;
  return r;
}
}  // namespace detail

// The largest finite value; of i64 and u64 the next power of two, which is what double can say (max_int is exact).
constexpr double max_finite(DType d) { return dtype_traits(d).max_finite; }
constexpr int64_t min_int(DType d) {
  return dtype_traits(d).kind == DTypeKind::signed_integer ? std::numeric_limits<int64_t>::min() >> (64 - bits(d)) : 0;
}
constexpr uint64_t max_int(DType d) {
  if (is_bool(d)) return 1;
  const int value_bits = dtype_traits(d).kind == DTypeKind::signed_integer ? bits(d) - 1 : bits(d);
  return std::numeric_limits<uint64_t>::max() >> (64 - value_bits);
}
// Smallest positive normal and subnormal values of a float type.
constexpr double min_normal(DType d) { return detail::power_of_two(1 - exponent_bias(d)); }
constexpr double min_subnormal(DType d) { return detail::power_of_two(1 - exponent_bias(d) - mantissa_bits(d)); }
// Half a unit in the last place of 1.0: the relative error of one rounding to nearest. 0 for integers.
constexpr double unit_roundoff(DType d) { return is_float(d) ? detail::power_of_two(-mantissa_bits(d) - 1) : 0.0; }

// What a loaded value computes in: 8- and 16-bit floats widen to f32, everything else stays.
constexpr DType compute_dtype(DType d) { return is_float(d) && bits(d) < 32 ? DType::f32 : d; }

// The type that an op over both computes in. bool gives way to the other; integers of one sign take the wider; of mixed
// sign the narrowest signed type that holds both, and i64 where none does (u64 with any signed type); integer with
// float takes the float's compute type; f32 with f64 is f64. join(bool, bool) is bool. Nullopt only when a value is no
// DType (is_valid).
constexpr std::optional<DType> join(DType a, DType b) {
  if (!is_valid(a) || !is_valid(b)) return std::nullopt;
  a = compute_dtype(a);
  b = compute_dtype(b);
  if (a == b || is_bool(b)) return a;
  if (is_bool(a)) return b;
  if (is_float(a) && is_float(b)) return bits(a) > bits(b) ? a : b;
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  if (is_signed(a) == is_signed(b)) return bits(a) > bits(b) ? a : b;
  const DType wider_signed = is_signed(a) ? a : b;
  const DType other = is_signed(a) ? b : a;
  if (bits(wider_signed) > bits(other)) return wider_signed;
  switch (bits(other)) {
    case 8:
      return DType::i16;
    case 16:
      return DType::i32;
    default:
      return DType::i64;
  }
}

}  // namespace codetta::types
