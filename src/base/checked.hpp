// SPDX-License-Identifier: Apache-2.0
// 64-bit arithmetic on sizes, strides and offsets that says when it overflows instead of wrapping.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>

namespace codetta::base {

[[nodiscard]] constexpr std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

[[nodiscard]] constexpr std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

__extension__ typedef __int128 Int128;

// a * b + c; the product alone may leave 64 bits as long as the sum does not.
[[nodiscard]] constexpr std::optional<int64_t> checked_mul_add(int64_t a, int64_t b, int64_t c) {
  const Int128 wide = static_cast<Int128>(a) * b + c;
  if (wide < INT64_MIN || wide > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(wide);
}

// The product of non-negative sizes; any zero makes it zero, whatever the others are.
[[nodiscard]] constexpr std::optional<int64_t> checked_product(std::span<const int64_t> sizes) {
  for (const int64_t size : sizes) {
    if (size == 0) return 0;
  }
  int64_t out = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(out, size, &out)) return std::nullopt;
  }
  return out;
}

// For value >= 0 and divisor > 0; ceil_div never overflows, round_up must be known to fit (see checked_round_up).
template <std::integral T>
[[nodiscard]] constexpr T ceil_div(T value, T divisor) {
  return static_cast<T>(value / divisor + (value % divisor != 0 ? 1 : 0));
}

template <std::integral T>
[[nodiscard]] constexpr T round_up(T value, T multiple) {
  return static_cast<T>(ceil_div(value, multiple) * multiple);
}

[[nodiscard]] constexpr std::optional<int64_t> checked_round_up(int64_t value, int64_t multiple) {
  return checked_mul(ceil_div(value, multiple), multiple);
}

}  // namespace codetta::base
