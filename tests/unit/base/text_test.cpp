// SPDX-License-Identifier: Apache-2.0
// Text helpers and nearest words.
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <clocale>
#include <cmath>
#include <limits>
#include <random>

#include "base/nearest.hpp"

namespace codetta::base {
namespace {

TEST(Utf8, EveryCodePointSteps) {
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    append_utf8(text, c);
    const Utf8Step step = utf8_step(text, 0);
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    ASSERT_EQ(step.valid, !surrogate) << c;
    if (surrogate) continue;
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, text.size());
    // A sequence without its last byte is invalid, byte by byte.
    if (text.size() > 1) {
      ASSERT_FALSE(is_valid_utf8(text.substr(0, text.size() - 1))) << c;
    }
  }
}

TEST(Utf8, RefusesOverlongTooLargeAndStray) {
  for (const char* text :
       {"\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\x80", "\xed\xa0\x80", "\xe2\x82(", "\xc3"}) {
    EXPECT_FALSE(is_valid_utf8(text)) << testing::PrintToString(text);
    EXPECT_EQ(utf8_step(text, 0).length, 1U);
  }
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8("a\u00e9\u4e2d\U0001F600"));
  EXPECT_EQ(count_code_points("a\u00e9\u4e2d\U0001F600\xff"), 5U);
}

TEST(Text, JoinSplitTrim) {
  EXPECT_EQ(join({}, ","), "");
  EXPECT_EQ(join({"a"}, ","), "a");
  EXPECT_EQ(join({"a", "", "b"}, ", "), "a, , b");
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("", ','), Parts{""});
  EXPECT_EQ(split("a,", ','), (Parts{"a", ""}));
  EXPECT_EQ(split(",a,b", ','), (Parts{"", "a", "b"}));
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

TEST(Text, EscapesForC) {
  EXPECT_EQ(escape_c("a\"b\\c?\n\t"), "a\\\"b\\\\c\\?\\n\\t");
  EXPECT_EQ(escape_c(std::string("\0"
                                 "1",
                                 2)),
            "\\0001");
  EXPECT_EQ(escape_c("\xff\x7f"), "\\377\\177");
}

TEST(Text, EscapesForJson) {
  EXPECT_EQ(escape_json("a\"b\\\n\t\x01\x7f"), "a\\\"b\\\\\\n\\t\\u0001\\u007f");
  EXPECT_EQ(escape_json("\u00e9\xff"), "\u00e9\ufffd");
}

TEST(Text, Identifiers) {
  for (const char* good : {"a", "_", "A9_", "accum"}) EXPECT_TRUE(is_identifier(good)) << good;
  for (const char* bad : {"", "9a", "a-b", "a b", "\u00e9", "a\n"}) EXPECT_FALSE(is_identifier(bad)) << bad;
}

TEST(Numbers, Format) {
  EXPECT_EQ(format_double(3.0), "3");
  EXPECT_EQ(format_double(0.1), "0.1");
  EXPECT_EQ(format_double(1e100), "1e+100");
  EXPECT_EQ(format_double(-0.0), "-0");
  EXPECT_EQ(format_double(INFINITY), "inf");
  EXPECT_EQ(format_double(-INFINITY), "-inf");
  EXPECT_EQ(format_double(NAN), "nan");
  EXPECT_EQ(format_double(-NAN), "nan");
  EXPECT_EQ(format_float(0.1F), "0.1");
  EXPECT_EQ(format_real(3.0), "3.0");
  EXPECT_EQ(format_real(-0.0), "-0.0");
  EXPECT_EQ(format_real(1e22), "1e+22");
  EXPECT_EQ(format_real(0.5), "0.5");
  EXPECT_EQ(format_real(INFINITY), "inf");
}

TEST(Numbers, RoundTripRandomBits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isnan(value)) continue;
    const auto back = parse_double(format_double(value));
    ASSERT_TRUE(back.has_value());
    ASSERT_EQ(std::bit_cast<uint64_t>(*back), std::bit_cast<uint64_t>(value));
    ASSERT_EQ(parse_double(format_real(value)), value);
  }
}

TEST(Numbers, ParseIsStrict) {
  EXPECT_EQ(parse_double("1.5"), 1.5);
  EXPECT_EQ(parse_double("-1e3"), -1000.0);
  EXPECT_EQ(parse_double("5e-324"), 5e-324);
  EXPECT_TRUE(std::isnan(parse_double("nan").value()));
  for (const char* bad : {"", " 1", "1 ", "+1", "0x10", "1,5", "1e", "1e999", "1.5f", "--1"}) {
    EXPECT_FALSE(parse_double(bad).has_value()) << bad;
  }
  EXPECT_EQ(parse_int64("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_int64("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "9223372036854775808", "1.0", "+1", " 1", "0x1", "1_000", "-"}) {
    EXPECT_FALSE(parse_int64(bad).has_value()) << bad;
  }
}

TEST(Numbers, IgnoreTheLocale) {
  // Whichever of these the machine has; C is always there, so the test never passes by doing nothing.
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C"}) {
    if (std::setlocale(LC_ALL, name) == nullptr) continue;
    EXPECT_EQ(format_double(1234.5), "1234.5");
    EXPECT_EQ(parse_double("1234.5"), 1234.5);
  }
  std::setlocale(LC_ALL, "C");
}

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("relu", "rleu"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ReLU", "relu"), 0U);
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);  // alignment distance: no edit inside a swapped pair
}

TEST(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string> functions = {"relu", "gelu", "silu", "exp", "exp2", "sigmoid", "tanh"};
  EXPECT_EQ(nearest("sigmiod", functions), "sigmoid");
  EXPECT_EQ(nearest("ReLU", functions), "relu");
  EXPECT_EQ(nearest("ex", functions), "exp");
  EXPECT_EQ(nearest("tahn", functions), "tanh");
  EXPECT_EQ(nearest("elu", functions), "relu");  // the first of equals
  EXPECT_EQ(nearest("reluu", {"relu6", "prelu", "relu"}), "relu");
  EXPECT_EQ(nearest("EXP_", {"exp2", "Exp", "expm"}), "Exp");
  EXPECT_EQ(nearest("tanhx", {"atanhx", "tanh1"}), "tanh1");  // the shorter one
  EXPECT_EQ(nearest("x", functions), "");
  EXPECT_EQ(nearest("convolution", functions), "");
  EXPECT_EQ(nearest("", functions), "");
  EXPECT_EQ(nearest("relu", {}), "");
}

TEST(Nearest, LongWordsHaveNoNeighbours) {
  const std::string limit(64, 'a');
  EXPECT_EQ(nearest(limit, {limit + "b", limit.substr(1)}), limit.substr(1));
  EXPECT_EQ(nearest(limit + "a", {limit}), "");
  EXPECT_EQ(nearest(std::string(1 << 20, 'a'), {limit}), "");
}

}  // namespace
}  // namespace codetta::base
