// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of float formats in integer arithmetic: the same bits on every machine and under any rounding
// or denormal mode of the FPU. One rounding, to nearest, ties to even. It depends on nothing else of Codetta: emitted
// sources carry it (src/runtime/cpu/values.cpp).
#pragma once

#include <bit>
#include <cstdint>

namespace codetta::types {

// Bits of the stored fraction and of the exponent; whether infinities have patterns; whether what overflows, infinities
// too, becomes the largest finite value instead of one.
struct FloatFormat {
  int mantissa, exponent;
  bool infinities, saturates;
};
inline constexpr FloatFormat format_f8e4m3{3, 4, false, true}, format_f8e5m2{2, 5, true, true},
    format_f16{10, 5, true, false}, format_bf16{7, 8, true, false};

// The double that the low bits of `pattern` encode; the format is no wider than f32. Exact; NaNs keep sign and payload
// and become quiet.
template <FloatFormat F>
constexpr double decode_narrow(uint64_t pattern) {
  constexpr int man = F.mantissa, exp = F.exponent, bias = (1 << (exp - 1)) - 1;
  constexpr uint64_t exp_mask = (uint64_t{1} << exp) - 1, man_mask = (uint64_t{1} << man) - 1;
  const uint64_t sign = (pattern >> (man + exp)) << 63;
  const uint64_t e = (pattern >> man) & exp_mask;
  uint64_t m = pattern & man_mask;
  if (e == exp_mask && (F.infinities || m == man_mask)) {
    uint64_t out = sign | 0x7ff0000000000000;
    if (m != 0) out |= 0x0008000000000000 | (F.infinities ? m << (52 - man) : 0);
    return std::bit_cast<double>(out);
  }
  int exponent = static_cast<int>(e);
  if (e == 0) {
    if (m == 0) return std::bit_cast<double>(sign);
    const int shift = man + 1 - static_cast<int>(std::bit_width(m));
    m = (m << shift) & man_mask;
    exponent = 1 - shift;
  }
  return std::bit_cast<double>(sign | (static_cast<uint64_t>(exponent - bias + 1023) << 52) | (m << (52 - man)));
}

// The pattern of `value` rounded to a format no wider than f32. NaN stays NaN, quiet, with its sign and the payload's
// leading bits.
template <FloatFormat F>
constexpr uint64_t encode_narrow(double value) {
  const uint64_t d = std::bit_cast<uint64_t>(value);
  const uint64_t magnitude = d & ~(uint64_t{1} << 63);
  constexpr uint64_t infinity = 0x7ff0000000000000;
  constexpr int man = F.mantissa, exp = F.exponent, bias = (1 << (exp - 1)) - 1;
  constexpr uint64_t exp_ones = ((uint64_t{1} << exp) - 1) << man;
  constexpr uint64_t largest = F.infinities ? exp_ones - 1 : exp_ones + (uint64_t{1} << man) - 2;
  constexpr uint64_t overflow = F.saturates ? largest : exp_ones;
  const uint64_t sign = (d >> 63) << (man + exp);
  if (magnitude > infinity) {
    constexpr uint64_t payload = (uint64_t{1} << man) - 1;
    if (!F.infinities) return sign | exp_ones | payload;
    return sign | exp_ones | (uint64_t{1} << (man - 1)) | ((d >> (52 - man)) & payload);
  }
  if (magnitude == infinity) return sign | overflow;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023 + bias;  // doubles' subnormals round to 0 in all
  const uint64_t significand = (d & 0x000fffffffffffff) | 0x0010000000000000;
  const int shift = 52 - man + (exponent < 1 ? 1 - exponent : 0);
  if (shift > 53) return sign;
  const uint64_t rest = significand & ((uint64_t{1} << shift) - 1), half = uint64_t{1} << (shift - 1);
  uint64_t q = significand >> shift;
  q += static_cast<uint64_t>(rest > half || (rest == half && (q & 1) != 0));
  // q carries the leading 1 of normal values, so adding it to (exponent - 1) also carries a round-up across binades.
  const uint64_t pattern = (exponent > 1 ? static_cast<uint64_t>(exponent - 1) << man : 0) + q;
  return sign | (pattern > largest ? overflow : pattern);
}

}  // namespace codetta::types
