// SPDX-License-Identifier: Apache-2.0
// Checked arithmetic against 128-bit arithmetic.
#include "base/checked.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace codetta::base {
namespace {

std::optional<int64_t> narrow(Int128 wide) {
  if (wide < INT64_MIN || wide > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(wide);
}

TEST(Checked, AgreesWithWideArithmetic) {
  std::mt19937_64 random(3);
  // Magnitudes of all sizes, so that both outcomes are frequent.
  const auto draw = [&] {
    const int64_t value = static_cast<int64_t>(random()) >> (random() % 64);
    return random() % 16 == 0 ? (random() % 2 == 0 ? INT64_MIN : INT64_MAX) : value;
  };
  int overflows = 0;
  for (int i = 0; i < 1000000; ++i) {
    const int64_t a = draw();
    const int64_t b = draw();
    const int64_t c = draw();
    ASSERT_EQ(checked_add(a, b), narrow(Int128{a} + b));
    ASSERT_EQ(checked_mul(a, b), narrow(Int128{a} * b));
    ASSERT_EQ(checked_mul_add(a, b, c), narrow(Int128{a} * b + c));
    overflows += checked_mul(a, b) ? 0 : 1;
  }
  EXPECT_GT(overflows, 100000);
  EXPECT_LT(overflows, 900000);
}

TEST(Checked, Product) {
  EXPECT_EQ(checked_product({}), 1);
  EXPECT_EQ(checked_product(std::array<int64_t, 3>{2, 3, 4}), 24);
  EXPECT_EQ(checked_product(std::array<int64_t, 3>{INT64_MAX, INT64_MAX, 0}), 0);
  EXPECT_EQ(checked_product(std::array<int64_t, 2>{INT64_MAX, 2}), std::nullopt);
  EXPECT_EQ(checked_product(std::array<int64_t, 2>{int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
}

TEST(Checked, Rounding) {
  EXPECT_EQ(ceil_div(0, 8), 0);
  EXPECT_EQ(ceil_div(1, 8), 1);
  EXPECT_EQ(ceil_div(16, 8), 2);
  EXPECT_EQ(ceil_div(INT64_MAX, int64_t{2}), (int64_t{1} << 62));
  EXPECT_EQ(round_up(17U, 16U), 32U);
  EXPECT_EQ(round_up(uint8_t{3}, uint8_t{4}), 4);
  EXPECT_EQ(checked_round_up(17, 16), 32);
  EXPECT_EQ(checked_round_up(INT64_MAX, 16), std::nullopt);
}

}  // namespace
}  // namespace codetta::base
