// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of the float types, by narrow_float.hpp.
#pragma once

#include <bit>
#include <cstdint>

#include "types/dtype.hpp"
#include "types/narrow_float.hpp"

namespace codetta::types {

template <DType D>
inline constexpr FloatFormat format_of{mantissa_bits(D), exponent_bits(D), dtype_traits(D).infinities, is_fp8(D)};

// The double that the low bits(D) bits encode. Exact; NaNs keep sign and payload and become quiet.
template <DType D>
constexpr double decode_float(uint64_t pattern) {
  static_assert(is_float(D));
  if constexpr (D == DType::f64) {
    constexpr uint64_t exponent = 0x7ff0000000000000, quiet = 0x0008000000000000;
    if ((pattern & ~(uint64_t{1} << 63)) > exponent) pattern |= quiet;
    return std::bit_cast<double>(pattern);
  } else {
    return decode_narrow<format_of<D>>(pattern);
  }
}

// The pattern of `value` rounded to D. Overflow gives infinity, but fp8 saturates to the largest finite value, from
// infinities too. NaN stays NaN, quiet, with its sign and the payload's leading bits.
template <DType D>
constexpr uint64_t encode_float(double value) {
  static_assert(is_float(D));
  if constexpr (D == DType::f64) {
    const uint64_t d = std::bit_cast<uint64_t>(value);
    return (d & ~(uint64_t{1} << 63)) > 0x7ff0000000000000 ? d | 0x0008000000000000 : d;
  } else {
    return encode_narrow<format_of<D>>(value);
  }
}

}  // namespace codetta::types
