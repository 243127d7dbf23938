// SPDX-License-Identifier: Apache-2.0
// What may reach a terminal.
#include "diag/display.hpp"

#include <gtest/gtest.h>

#include "base/text.hpp"

namespace codetta::diag {
namespace {

TEST(Display, EscapesWhatMovesOrHides) {
  EXPECT_EQ(displayable("a\tb"), "a b");
  EXPECT_EQ(displayable("a\nb\r"), "a\\nb\\r");
  EXPECT_EQ(displayable("\x1b[0m\x7f"), "\\x1b[0m\\x7f");
  EXPECT_EQ(displayable("\u0085\u00ad\u200b\u2066\ufeff"), "\\x85\\xad\\u200b\\u2066\\ufeff");
  EXPECT_EQ(displayable("\U000E0041"), "\\ue0041");
  EXPECT_EQ(displayable("\xc3("), "\\xc3(");
  EXPECT_EQ(displayable("\u00fc \u4e2d \U0001F600"), "\u00fc \u4e2d \U0001F600");
}

TEST(Display, NothingUnsafeIsLeftOfAnyCodePoint) {
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    base::append_utf8(text, c);
    const std::string shown = displayable(text);
    ASSERT_TRUE(base::is_valid_utf8(shown)) << c;
    const uint32_t first = base::utf8_step(shown, 0).code_point;
    ASSERT_TRUE(first >= 0x20 && (first < 0x7f || first > 0x9f)) << c;
    ASSERT_FALSE(first >= 0x202A && first <= 0x202E) << c;
    ASSERT_LE(display_width(text), 9U) << c;
  }
}

TEST(Display, Width) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("\u4e2d\u6587"), 4U);
  EXPECT_EQ(display_width("e\u0301"), 1U);
  EXPECT_EQ(display_width("\x01"), 4U);
  EXPECT_EQ(display_width("\U0001F600"), 2U);
}

}  // namespace
}  // namespace codetta::diag
