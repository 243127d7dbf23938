// SPDX-License-Identifier: Apache-2.0
// The dtype table against the standard library's limits, and the rules of join over all pairs.
#include "types/dtype.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace codetta::types {
namespace {

constexpr DType all(int i) { return static_cast<DType>(i); }

template <class T>
void expect_integer_limits(DType d) {
  EXPECT_EQ(min_int(d), static_cast<int64_t>(std::numeric_limits<T>::min())) << dtype_name(d);
  EXPECT_EQ(max_int(d), static_cast<uint64_t>(std::numeric_limits<T>::max())) << dtype_name(d);
  EXPECT_EQ(max_finite(d), static_cast<double>(std::numeric_limits<T>::max())) << dtype_name(d);
  EXPECT_EQ(bits(d), static_cast<int>(8 * sizeof(T)));
  EXPECT_EQ(is_signed(d), std::numeric_limits<T>::is_signed);
  EXPECT_EQ(is_unsigned(d), !std::numeric_limits<T>::is_signed);
  EXPECT_TRUE(is_integer(d));
  EXPECT_FALSE(is_float(d));
  EXPECT_EQ(unit_roundoff(d), 0.0);
}

template <class T>
void expect_float_limits(DType d) {
  using Limits = std::numeric_limits<T>;
  EXPECT_EQ(max_finite(d), static_cast<double>(Limits::max()));
  EXPECT_EQ(min_normal(d), static_cast<double>(Limits::min()));
  EXPECT_EQ(min_subnormal(d), static_cast<double>(Limits::denorm_min()));
  EXPECT_EQ(unit_roundoff(d), static_cast<double>(Limits::epsilon()) / 2);
  EXPECT_EQ(mantissa_bits(d), Limits::digits - 1);
  EXPECT_TRUE(is_float(d) && is_signed(d) && !is_integer(d));
}

TEST(DTypeTraits, MatchTheStandardTypes) {
  expect_integer_limits<int8_t>(i8);
  expect_integer_limits<int16_t>(i16);
  expect_integer_limits<int32_t>(i32);
  expect_integer_limits<int64_t>(i64);
  expect_integer_limits<uint8_t>(u8);
  expect_integer_limits<uint16_t>(u16);
  expect_integer_limits<uint32_t>(u32);
  expect_integer_limits<uint64_t>(u64);
  expect_float_limits<float>(f32);
  expect_float_limits<double>(f64);
}

TEST(DTypeTraits, SmallFloats) {
  EXPECT_EQ(min_normal(f16), 0x1p-14);
  EXPECT_EQ(min_subnormal(f16), 0x1p-24);
  EXPECT_EQ(min_normal(bf16), 0x1p-126);
  EXPECT_EQ(min_subnormal(bf16), 0x1p-133);
  EXPECT_EQ(min_normal(f8e4m3), 0x1p-6);
  EXPECT_EQ(min_subnormal(f8e4m3), 0x1p-9);
  EXPECT_EQ(min_normal(f8e5m2), 0x1p-14);
  EXPECT_EQ(min_subnormal(f8e5m2), 0x1p-16);
  EXPECT_EQ(unit_roundoff(bf16), 0x1p-8);
  EXPECT_EQ(unit_roundoff(f8e4m3), 0x1p-4);
  EXPECT_TRUE(is_fp8(f8e4m3) && is_fp8(f8e5m2) && !is_fp8(f16) && !is_fp8(u8));
  EXPECT_FALSE(is_integer(boolean) || is_float(boolean) || is_signed(boolean));
}

TEST(DTypeNames, RoundTripAndSizes) {
  for (int i = 0; i < dtype_count; ++i) {
    const DType d = all(i);
    EXPECT_EQ(dtype_from_name(dtype_name(d)), d);
    EXPECT_EQ(dtype_size(d) * 8, bits(d));
  }
  EXPECT_EQ(dtype_name(boolean), "bool");
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
  EXPECT_EQ(dtype_from_name("F32"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
  EXPECT_EQ(dtype_name(static_cast<DType>(200)), "invalid");
}

TEST(Join, IsCommutativeIdempotentAndTotal) {
  for (int i = 0; i < dtype_count; ++i) {
    EXPECT_EQ(join(all(i), all(i)), compute_dtype(all(i)));
    for (int j = 0; j < dtype_count; ++j) {
      const auto r = join(all(i), all(j));
      ASSERT_TRUE(r.has_value());
      EXPECT_EQ(r, join(all(j), all(i)));
      EXPECT_EQ(compute_dtype(*r), *r);
      EXPECT_EQ(is_float(*r), is_float(all(i)) || is_float(all(j)));
      if (is_integer(*r) && bits(*r) < 64) {
        // Below 64 bits the join holds every value of both operands.
        for (DType d : {all(i), all(j)}) {
          EXPECT_LE(min_int(*r), min_int(d));
          EXPECT_GE(max_int(*r), max_int(d));
        }
      }
    }
  }
}

TEST(Join, Table) {
  EXPECT_EQ(join(boolean, boolean), boolean);
  EXPECT_EQ(join(boolean, i8), i8);
  EXPECT_EQ(join(boolean, bf16), f32);
  EXPECT_EQ(join(u8, i8), i16);
  EXPECT_EQ(join(u8, i32), i32);
  EXPECT_EQ(join(u16, i8), i32);
  EXPECT_EQ(join(u16, i16), i32);
  EXPECT_EQ(join(u32, i32), i64);
  EXPECT_EQ(join(u64, i8), i64);
  EXPECT_EQ(join(u64, i64), i64);
  EXPECT_EQ(join(u8, u64), u64);
  EXPECT_EQ(join(i8, i32), i32);
  EXPECT_EQ(join(i64, f16), f32);
  EXPECT_EQ(join(i32, f64), f64);
  EXPECT_EQ(join(f8e4m3, f8e5m2), f32);
  EXPECT_EQ(join(f32, f64), f64);
  EXPECT_EQ(join(static_cast<DType>(99), f32), std::nullopt);
}

}  // namespace
}  // namespace codetta::types
