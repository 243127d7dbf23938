// SPDX-License-Identifier: Apache-2.0
// Tables of switches.
#include "base/options.hpp"

#include <gtest/gtest.h>

#include <array>

namespace codetta::base {
namespace {

constexpr std::array<OptionRow, 2> table = {{{"dump", "plan|graph|source"}, {"time", "passes"}}};

TEST(Options, ParsesTheDebugForm) {
  Options options(table);
  ASSERT_TRUE(options.parse(""));
  ASSERT_TRUE(options.parse("  "));
  EXPECT_FALSE(options.has("dump", "plan"));
  ASSERT_TRUE(options.parse("dump:plan, time:passes,dump=graph,dump : plan"));
  EXPECT_TRUE(options.has("dump", "plan"));
  EXPECT_TRUE(options.has("dump", "graph"));
  EXPECT_FALSE(options.has("dump", "source"));
  EXPECT_TRUE(options.has("time", "passes"));
  EXPECT_FALSE(options.has("time", "plan"));
  EXPECT_FALSE(options.has("nothing", ""));
}

TEST(Options, KeepsWhatWasRight) {
  Options options(table);
  EXPECT_FALSE(options.parse("dump:plan,dump:x,time:passes"));
  EXPECT_TRUE(options.has("dump", "plan"));
  EXPECT_FALSE(options.has("time", "passes"));
}

void expect_error(std::string_view text, std::string_view message, std::string_view nearest, size_t offset) {
  Options options(table);
  const auto done = options.parse(text);
  ASSERT_FALSE(done.has_value()) << text;
  EXPECT_EQ(done.error().text, message);
  EXPECT_EQ(done.error().nearest, nearest);
  EXPECT_EQ(done.error().offset, offset);
}

TEST(Options, SaysWhatIsWrong) {
  expect_error("time:passes, dmp:plan", "unknown option 'dmp'", "dump", 13);
  expect_error("dump:plann", "option 'dump' takes one of plan, graph, source, not 'plann'", "dump:plan", 0);
  expect_error("dump", "option 'dump' takes one of plan, graph, source, not ''", "", 0);
  expect_error("time:x", "option 'time' takes passes, not 'x'", "", 0);
  expect_error("time:passes,,time:passes", "unknown option ''", "", 12);
  expect_error("=", "unknown option ''", "", 0);
}

}  // namespace
}  // namespace codetta::base
