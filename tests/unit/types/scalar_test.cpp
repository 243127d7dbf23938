// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "types/convert.hpp"

namespace codetta::types {
namespace {

TEST(Scalar, HoldsTheRoundedValue) {
  EXPECT_EQ(Scalar::from_f64(0.1, f32).as_f64(), static_cast<double>(0.1f));
  EXPECT_EQ(Scalar::from_f64(0.1, bf16).as_f64(), 0.10009765625);
  EXPECT_EQ(Scalar::from_f64(-1.9, i32).as_i64(), -1);
  EXPECT_EQ(Scalar::from_f64(-1.9, u8).as_i64(), 0);
  EXPECT_EQ(Scalar::from_i64(-1, u64).as_u64(), ~uint64_t{0});
  EXPECT_EQ(Scalar::from_i64(-1, i8).payload(), ~uint64_t{0});
  EXPECT_EQ(Scalar::from_u64(255, i8).as_i64(), -1);
  EXPECT_EQ(Scalar::from_u64(~uint64_t{0}, f32).as_f64(), 0x1p64);
  EXPECT_TRUE(Scalar::from_f64(std::nan(""), boolean).as_bool());
  EXPECT_FALSE(Scalar::from_f64(-0.0, f32).as_bool());
  EXPECT_EQ(Scalar().as_f64(), 0.0);
}

TEST(Scalar, ConvertsWithoutLosingWideIntegers) {
  const Scalar big = Scalar::from_u64(~uint64_t{0} - 1);
  EXPECT_EQ(convert(big, i64).as_i64(), -2);
  EXPECT_EQ(convert(convert(big, i64), u64), big);
  EXPECT_EQ(convert(Scalar::from_i64((int64_t{1} << 53) + 1), i64).as_i64(), (int64_t{1} << 53) + 1);
  EXPECT_EQ(convert(Scalar::from_f64(1e30), i32).as_i64(), std::numeric_limits<int32_t>::max());
}

TEST(Scalar, EqualityIsBitwise) {
  EXPECT_EQ(Scalar::from_f64(std::nan("")), Scalar::from_f64(std::nan("")));
  EXPECT_FALSE(Scalar::from_f64(0.0) == Scalar::from_f64(-0.0));
  EXPECT_FALSE(Scalar::from_f64(1.0, f32) == Scalar::from_f64(1.0, f64));
}

TEST(Scalar, Text) {
  EXPECT_EQ(to_string(Scalar::from_f64(2.5, f32)), "2.5");
  EXPECT_EQ(to_string(Scalar::from_f64(1.0)), "1.0");
  EXPECT_EQ(to_string(Scalar::from_f64(0.1, f32)), "0.1");
  EXPECT_EQ(to_string(Scalar::from_f64(1e30)), "1e+30");
  EXPECT_EQ(to_string(Scalar::from_f64(-0.0)), "-0.0");
  EXPECT_EQ(to_string(Scalar::from_f64(INFINITY, f16)), "inf");
  EXPECT_EQ(to_string(Scalar::from_f64(-INFINITY)), "-inf");
  EXPECT_EQ(to_string(Scalar::from_f64(std::nan(""))), "nan");
  EXPECT_EQ(to_string(Scalar::from_i64(std::numeric_limits<int64_t>::min())), "-9223372036854775808");
  EXPECT_EQ(to_string(Scalar::from_u64(~uint64_t{0})), "18446744073709551615");
  EXPECT_EQ(to_string(Scalar::from_bool(true)), "true");
}

}  // namespace
}  // namespace codetta::types
