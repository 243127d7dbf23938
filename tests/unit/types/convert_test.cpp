// SPDX-License-Identifier: Apache-2.0
// Conversions against a slow reference that knows only what each pattern is worth: rounding searches the table of all
// finite values for the nearest, ties to the even pattern.
#include "types/convert.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace codetta::types {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr DType small_floats[] = {f8e4m3, f8e5m2, f16, bf16};
constexpr DType all_floats[] = {f8e4m3, f8e5m2, f16, bf16, f32, f64};

struct Format {
  DType dtype;
  int exponent, mantissa;
  bool ieee, saturates;
};
Format format_of(DType d) {
  switch (d) {
    case f8e4m3:
      return {d, 4, 3, false, true};
    case f8e5m2:
      return {d, 5, 2, true, true};
    case f16:
      return {d, 5, 10, true, false};
    default:
      return {bf16, 8, 7, true, false};
  }
}
uint32_t pattern_count(const Format& f) { return 1u << (f.exponent + f.mantissa + 1); }

// The value by the formula of the format's definition.
double value_of(const Format& f, uint32_t pattern) {
  const int e = static_cast<int>(pattern >> f.mantissa) & ((1 << f.exponent) - 1);
  const int m = static_cast<int>(pattern) & ((1 << f.mantissa) - 1);
  const double sign = (pattern >> (f.exponent + f.mantissa)) != 0 ? -1.0 : 1.0;
  const int bias = (1 << (f.exponent - 1)) - 1;
  if (e == (1 << f.exponent) - 1) {
    if (f.ieee) return m == 0 ? sign * inf : nan;
    if (m == (1 << f.mantissa) - 1) return nan;
  }
  if (e == 0) return sign * std::ldexp(m, 1 - bias - f.mantissa);
  return sign * std::ldexp((1 << f.mantissa) + m, e - bias - f.mantissa);
}

// Rounds by search among the non-negative finite values, which ascend with their patterns.
class Reference {
 public:
  explicit Reference(DType d) : format_(format_of(d)) {
    for (uint32_t p = 0; p < pattern_count(format_) / 2; ++p) {
      const double v = value_of(format_, p);
      if (std::isfinite(v)) values_.push_back(v);
    }
    // The first value beyond: where rounding to it, not to the largest, begins.
    const double top = values_.back();
    values_.push_back(top + (top - values_[values_.size() - 2]));
  }

  // Not for NaN.
  [[nodiscard]] uint32_t round(double x) const {
    const uint32_t sign = std::signbit(x) ? pattern_count(format_) / 2 : 0;
    x = std::fabs(x);
    const auto beyond = static_cast<uint32_t>(values_.size() - 1);
    uint32_t p = beyond;
    if (x < values_.back()) {
      const auto above = std::upper_bound(values_.begin(), values_.end(), x);
      const auto hi = static_cast<uint32_t>(above - values_.begin()), lo = hi - 1;
      const double middle = (values_[lo] + values_[hi]) / 2;  // exact: few significant bits
      p = x < middle ? lo : x > middle ? hi : (lo % 2 == 0 ? lo : hi);
    }
    if (p == beyond) return sign | (format_.saturates ? beyond - 1 : infinity());
    return sign | p;
  }
  [[nodiscard]] uint32_t infinity() const { return ((1u << format_.exponent) - 1) << format_.mantissa; }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  Format format_;
  std::vector<double> values_;
};

uint32_t load_pattern(const void* p, DType d) {
  uint32_t r = 0;
  std::memcpy(&r, p, static_cast<size_t>(dtype_size(d)));
  return r;
}
uint32_t store_pattern(double v, DType d) {
  uint64_t cell = 0xa5a5a5a5a5a5a5a5;
  store_f64(&cell, d, v);
  EXPECT_EQ(cell >> bits(d), 0xa5a5a5a5a5a5a5a5 >> bits(d)) << "wrote past the element";
  return load_pattern(&cell, d);
}

TEST(ConvertFloat, EveryPatternDecodes) {
  for (DType d : small_floats) {
    const Format f = format_of(d);
    for (uint32_t p = 0; p < pattern_count(f); ++p) {
      const double want = value_of(f, p), got = load_f64(&p, d);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << dtype_name(d) << " " << p;
        EXPECT_EQ(std::signbit(got), (p & (pattern_count(f) / 2)) != 0);
      } else {
        ASSERT_EQ(std::bit_cast<uint64_t>(want), std::bit_cast<uint64_t>(got)) << dtype_name(d) << " " << p;
      }
    }
  }
}

TEST(ConvertFloat, EveryPatternRoundTripsThroughDoubleAndFloat) {
  for (DType d : small_floats) {
    const Format f = format_of(d);
    for (uint32_t p = 0; p < pattern_count(f); ++p) {
      const double v = value_of(f, p);
      uint32_t back64 = store_pattern(load_f64(&p, d), d), back32 = 0;
      float wide = 0;
      convert(&p, d, &wide, f32, 1);
      convert(&wide, f32, &back32, d, 1);
      ASSERT_EQ(back32, back64);
      if (std::isnan(v)) {
        // Quiet, sign and payload kept.
        const uint32_t quiet = f.ieee ? p | (1u << (f.mantissa - 1)) : p;
        ASSERT_EQ(back64, quiet) << dtype_name(d);
      } else if (std::isinf(v) && f.saturates) {
        EXPECT_EQ(value_of(f, back64), std::copysign(max_finite(d), v));
      } else {
        ASSERT_EQ(back64, p) << dtype_name(d);
      }
    }
  }
}

// Values, midpoints and their neighbours among doubles and floats: everywhere rounding can go wrong.
TEST(ConvertFloat, RoundsOnceAtEveryHalfwayPoint) {
  for (DType d : small_floats) {
    const Reference reference(d);
    const auto& v = reference.values();
    for (size_t i = 0; i + 1 < v.size(); ++i) {
      const double middle = (v[i] + v[i + 1]) / 2;
      for (double x : {v[i], middle, v[i + 1]}) {
        for (double y : {x, std::nextafter(x, inf), std::nextafter(x, -inf),
                         static_cast<double>(std::nextafter(static_cast<float>(x), HUGE_VALF)),
                         static_cast<double>(std::nextafter(static_cast<float>(x), -HUGE_VALF))}) {
          ASSERT_EQ(store_pattern(y, d), reference.round(y)) << dtype_name(d) << " " << y;
          ASSERT_EQ(store_pattern(-y, d), reference.round(-y)) << dtype_name(d) << " " << -y;
        }
      }
    }
  }
}

TEST(ConvertFloat, FloatPatternsInAllStrata) {
  // Every sign and exponent of f32, with random and with structured mantissas; about 10^6 patterns.
  std::mt19937 random(7);
  std::vector<float> inputs;
  for (uint32_t top = 0; top < 512; ++top) {
    for (int i = 0; i < 2000; ++i) {
      uint32_t m = random() & 0x7fffff;
      if (i % 4 == 1) m &= ~0u << (random() % 24);             // few significant bits: exact values and ties
      if (i % 4 == 2) m = (m & (~0u << (random() % 24))) + 1;  // just above a tie
      if (i % 4 == 3) m = (m & (~0u << (random() % 24))) - 1;  // just below
      inputs.push_back(std::bit_cast<float>(top << 23 | (m & 0x7fffff)));
    }
  }
  const auto n = static_cast<int64_t>(inputs.size());
  for (DType d : small_floats) {
    const Reference reference(d);
    std::vector<uint8_t> out(inputs.size() * static_cast<size_t>(dtype_size(d)), 0xa5);
    convert(inputs.data(), f32, out.data(), d, n);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const uint32_t got = load_pattern(out.data() + i * static_cast<size_t>(dtype_size(d)), d);
      if (std::isnan(inputs[i])) {
        ASSERT_TRUE(std::isnan(value_of(format_of(d), got)));
      } else {
        ASSERT_EQ(got, reference.round(static_cast<double>(inputs[i]))) << dtype_name(d) << " " << inputs[i];
      }
    }
  }
}

TEST(ConvertFloat, DoublesRoundOnceToFloat) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 400000; ++i) {
    uint64_t p = random();
    if (i % 2 == 0) p = (p & 0x800fffffffffffff) | (uint64_t{873} + random() % 280) << 52;  // near the range of f32
    if (i % 3 == 0) p &= ~uint64_t{0} << (random() % 53);
    const auto x = std::bit_cast<double>(p);
    float got = 0;
    convert(&x, f64, &got, f32, 1);
    const auto want = static_cast<float>(x);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(got));
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(want), std::bit_cast<uint32_t>(got)) << x;
      const double back = load_f64(&got, f32);
      ASSERT_EQ(std::bit_cast<uint64_t>(back), std::bit_cast<uint64_t>(static_cast<double>(got)));
    }
  }
  // Through f32 this would tie and round up; in one step it stays below the tie.
  EXPECT_EQ(store_pattern(1.0 + 0x1p-11 - 0x1p-40, f16), 0x3c00u);
  EXPECT_EQ(store_pattern(1.0 + 0x1p-11 + 0x1p-40, f16), 0x3c01u);
}

TEST(ConvertFloat, OverflowAndSpecials) {
  EXPECT_EQ(store_pattern(inf, f8e4m3), 0x7eu);
  EXPECT_EQ(store_pattern(-1e300, f8e4m3), 0xfeu);
  EXPECT_EQ(store_pattern(nan, f8e4m3), 0x7fu);
  EXPECT_EQ(store_pattern(-nan, f8e4m3), 0xffu);
  EXPECT_EQ(store_pattern(464.0, f8e4m3), 0x7eu);
  EXPECT_EQ(store_pattern(inf, f8e5m2), 0x7bu);
  EXPECT_EQ(store_pattern(61440.0, f8e5m2), 0x7bu);
  EXPECT_EQ(store_pattern(nan, f8e5m2) & 0x7eu, 0x7eu);
  EXPECT_EQ(store_pattern(65519.999, f16), 0x7bffu);
  EXPECT_EQ(store_pattern(65520.0, f16), 0x7c00u);
  EXPECT_EQ(store_pattern(-inf, bf16), 0xff80u);
  EXPECT_EQ(store_pattern(1e300, f32), 0x7f800000u);
  EXPECT_EQ(store_pattern(-0.0, f8e4m3), 0x80u);
  EXPECT_EQ(store_pattern(-1e-300, f16), 0x8000u);
  EXPECT_EQ(store_pattern(std::numeric_limits<double>::denorm_min(), f32), 0u);
  const uint32_t infinity_e5m2 = 0x7c;
  EXPECT_EQ(load_f64(&infinity_e5m2, f8e5m2), inf);
  // A signaling NaN becomes quiet and keeps its payload's leading bits.
  const uint32_t signaling = 0xff812345;
  double wide = 0;
  convert(&signaling, f32, &wide, f64, 1);
  EXPECT_EQ(std::bit_cast<uint64_t>(wide), 0xfff8000000000000 | uint64_t{0x012345} << 29);
}

template <class T>
void expect_truncates(DType d, double x) {
  T got{};
  convert(&x, f64, &got, d, 1);
  T want{};
  if (x != x) {
    want = 0;
  } else if (std::trunc(x) >= std::ldexp(1.0, std::numeric_limits<T>::digits)) {
    want = std::numeric_limits<T>::max();
  } else if (std::trunc(x) <= static_cast<double>(std::numeric_limits<T>::min())) {
    want = std::numeric_limits<T>::min();
  } else {
    want = static_cast<T>(x);
  }
  ASSERT_EQ(got, want) << dtype_name(d) << " " << x;
}

TEST(ConvertInteger, FloatTruncatesAndSaturates) {
  std::mt19937_64 random(3);
  std::vector<double> inputs = {0.0, -0.0, 0.5, -0.5, 0.99999, -0.99999, inf, -inf, nan, -nan, 1e300, -1e300, 5e-324};
  for (int e : {7, 8, 15, 16, 31, 32, 63, 64}) {
    const double p = std::ldexp(1.0, e);
    for (double x : {p, p - 0.5, p - 1, p - 1.5, p + 0.5, p + 1, std::nextafter(p, 0.0), std::nextafter(p, inf)}) {
      inputs.push_back(x);
      inputs.push_back(-x);
    }
  }
  for (int i = 0; i < 20000; ++i) {
    const int exponent = static_cast<int>(random() % 80) - 12;
    inputs.push_back(std::ldexp(static_cast<double>(static_cast<int64_t>(random())), exponent - 60));
  }
  for (double x : inputs) {
    expect_truncates<int8_t>(i8, x);
    expect_truncates<int16_t>(i16, x);
    expect_truncates<int32_t>(i32, x);
    expect_truncates<int64_t>(i64, x);
    expect_truncates<uint8_t>(u8, x);
    expect_truncates<uint16_t>(u16, x);
    expect_truncates<uint32_t>(u32, x);
    expect_truncates<uint64_t>(u64, x);
  }
}

// Integers that tie, nearly tie or carry into the next binade, at every width.
std::vector<uint64_t> hard_integers() {
  std::vector<uint64_t> r = {0, 1, 2, 127, 128, 255, 256, 65503, 65504, 65519, 65520, 65535, 65536, ~uint64_t{0}};
  std::mt19937_64 random(5);
  for (int width = 1; width <= 64; ++width) {
    for (int i = 0; i < 200; ++i) {
      uint64_t v = random() >> (64 - width) | uint64_t{1} << (width - 1);
      const int cut = static_cast<int>(random() % 64);
      if (i % 4 != 0) v = (v >> cut << cut) + (i % 4 == 2 ? 1u : 0u) - (i % 4 == 3 ? 1u : 0u);
      r.push_back(v);
    }
  }
  // Rounding to double first would make this a tie, and then even.
  r.push_back((uint64_t{1} << 62) + (uint64_t{1} << 54) + 1);
  return r;
}

TEST(ConvertInteger, ToFloatRoundsOnce) {
  const Reference bf(bf16), half(f16), e4m3(f8e4m3), e5m2(f8e5m2);
  const auto nearest_bf16 = [](uint64_t v) {  // by integer arithmetic, for what double can't hold
    int shift = 0;
    uint64_t q = v;
    while (q > 255) q >>= 1, ++shift;
    if (shift == 0) return static_cast<double>(v);
    const uint64_t rest = v - (q << shift), tie = uint64_t{1} << (shift - 1);
    if (rest > tie || (rest == tie && q % 2 == 1)) ++q;
    return std::ldexp(static_cast<double>(q), shift);
  };
  for (uint64_t v : hard_integers()) {
    for (const bool as_signed : {false, true}) {
      const DType from = as_signed ? i64 : u64;
      const bool negative = as_signed && (v >> 63) != 0;
      const uint64_t magnitude = negative ? 0 - v : v;
      const auto check = [&](DType d, double want) {
        uint64_t cell = 0;
        convert(&v, from, &cell, d, 1);
        ASSERT_EQ(load_f64(&cell, d), negative ? -want : want) << dtype_name(from) << "->" << dtype_name(d) << " " << v;
      };
      check(f32, static_cast<double>(static_cast<float>(magnitude)));
      check(f64, static_cast<double>(magnitude));
      check(bf16, nearest_bf16(magnitude));
      if (magnitude < uint64_t{1} << 53) {
        const auto exact = static_cast<double>(magnitude);
        check(bf16, value_of(format_of(bf16), bf.round(exact)));
        check(f16, value_of(format_of(f16), half.round(exact)));
        check(f8e4m3, value_of(format_of(f8e4m3), e4m3.round(exact)));
        check(f8e5m2, value_of(format_of(f8e5m2), e5m2.round(exact)));
      } else {
        check(f16, inf);
        check(f8e4m3, 448.0);
        check(f8e5m2, 57344.0);
      }
    }
  }
}

TEST(ConvertInteger, WrapsBetweenWidths) {
  constexpr DType integers[] = {i8, i16, i32, i64, u8, u16, u32, u64};
  for (uint64_t v : hard_integers()) {
    for (DType s : integers) {
      // What s holds of v, sign or zero extended.
      const int drop = 64 - bits(s);
      const uint64_t held =
          is_signed(s) ? static_cast<uint64_t>(static_cast<int64_t>(v << drop) >> drop) : v << drop >> drop;
      for (DType d : integers) {
        uint64_t cell = 0;
        convert(&v, s, &cell, d, 1);
        ASSERT_EQ(cell, held << (64 - bits(d)) >> (64 - bits(d))) << dtype_name(s) << "->" << dtype_name(d);
      }
      EXPECT_EQ(load_i64(&v, s), static_cast<int64_t>(held));
    }
  }
}

TEST(ConvertBool, NonzeroAndNaNAreTrue) {
  const auto to_bool = [](double v, DType d) {
    uint64_t cell = 0;
    uint8_t out = 0xa5;
    store_f64(&cell, d, v);
    convert(&cell, d, &out, boolean, 1);
    return out;
  };
  for (DType d : all_floats) {
    EXPECT_EQ(to_bool(nan, d), 1);
    EXPECT_EQ(to_bool(0.0, d), 0);
    EXPECT_EQ(to_bool(-0.0, d), 0);
    EXPECT_EQ(to_bool(min_subnormal(d), d), 1);
    EXPECT_EQ(to_bool(-2.0, d), 1);
    uint8_t yes = 7;  // a foreign true
    EXPECT_EQ(load_f64(&yes, boolean), 1.0);
    uint64_t cell = 0;
    convert(&yes, boolean, &cell, d, 1);
    EXPECT_EQ(load_f64(&cell, d), 1.0);
  }
  const uint8_t foreign[] = {0, 1, 2, 255};
  uint8_t out[4] = {9, 9, 9, 9};
  convert(foreign, boolean, out, boolean, 4);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 1);
  EXPECT_EQ(out[2], 1);
  EXPECT_EQ(out[3], 1);
  const int64_t big = int64_t{1} << 40;  // truncating to a byte first would lose it
  convert(&big, i64, out, boolean, 1);
  EXPECT_EQ(out[0], 1);
}

TEST(ConvertBulk, AgreesWithScalarsForAllPairsAtAnyAlignment) {
  std::mt19937_64 random(1);
  for (int s = 0; s < dtype_count; ++s) {
    for (int d = 0; d < dtype_count; ++d) {
      const auto src = static_cast<DType>(s), dst = static_cast<DType>(d);
      constexpr int64_t n = 257;
      std::vector<uint8_t> from(1 + n * 8), to(1 + n * 8 + 8, 0xa5);
      for (auto& b : from) b = static_cast<uint8_t>(random());
      convert(from.data() + 1, src, to.data() + 1, dst, n);
      for (int64_t i = 0; i < n; ++i) {
        uint8_t one[8] = {};
        const Scalar value = Scalar::load(from.data() + 1 + i * dtype_size(src), src);
        convert(value, dst).store(one);
        const uint8_t* got = to.data() + 1 + i * dtype_size(dst);
        if (src == dst && is_float(src) && std::isnan(value.as_f64())) continue;  // bits copy; the scalar is quiet
        ASSERT_EQ(std::memcmp(got, one, static_cast<size_t>(dtype_size(dst))), 0)
            << dtype_name(src) << "->" << dtype_name(dst) << " " << to_string(value);
      }
      EXPECT_EQ(to[static_cast<size_t>(1 + n * dtype_size(dst))], 0xa5);
    }
  }
  uint8_t untouched = 0xa5;
  convert(nullptr, f32, &untouched, i8, 0);
  EXPECT_EQ(untouched, 0xa5);
}

TEST(ConvertBulk, InPlaceForEqualSizes) {
  float values[] = {1.5f, -2.5f, 3e9f};
  convert(values, f32, values, i32, 3);
  int32_t out[3];
  std::memcpy(out, values, sizeof out);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], -2);
  EXPECT_EQ(out[2], std::numeric_limits<int32_t>::max());
}

}  // namespace
}  // namespace codetta::types
