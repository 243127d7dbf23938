// SPDX-License-Identifier: Apache-2.0
// Option tables.
#include "base/options.hpp"

#include <gtest/gtest.h>

#include <array>

namespace codetta::base {
namespace {

constexpr std::array<OptionRow, 6> table = {{
    {"dump", OptionKind::List, "", "plan|graph|source", "what to print"},
    {"time", OptionKind::List, "", "", "what to time"},
    {"level", OptionKind::Integer, "2", "", "how much"},
    {"scale", OptionKind::Real, "0.5", "", "a factor"},
    {"mode", OptionKind::Choice, "fast", "fast|strict", "which math"},
    {"check", OptionKind::Flag, "true", "", "verify results"},
}};

using Words = std::vector<std::string>;

TEST(Options, Defaults) {
  const Options options(table);
  EXPECT_EQ(options.integer("level"), 2);
  EXPECT_EQ(options.real("scale"), 0.5);
  EXPECT_EQ(options.text("mode"), "fast");
  EXPECT_TRUE(options.flag("check"));
  EXPECT_EQ(options.list("dump"), Words{});
  EXPECT_FALSE(options.is_set("level"));
  EXPECT_EQ(options.canonical(), "");
  EXPECT_EQ(options.integer("mode"), 0);  // another kind
  EXPECT_EQ(options.text("nothing"), "");
}

TEST(Options, ParsesTheDebugForm) {
  Options options(table);
  ASSERT_TRUE(options.parse("dump:plan, time:passes,dump=graph,dump:plan,level=-7,mode:strict,check=off,scale=1e3"));
  EXPECT_EQ(options.list("dump"), (Words{"plan", "graph"}));
  EXPECT_TRUE(options.has("time", "passes"));
  EXPECT_FALSE(options.has("time", "plan"));
  EXPECT_EQ(options.integer("level"), -7);
  EXPECT_EQ(options.real("scale"), 1000.0);
  EXPECT_EQ(options.text("mode"), "strict");
  EXPECT_FALSE(options.flag("check"));
  EXPECT_EQ(options.canonical(), "dump=graph,dump=plan,time=passes,level=-7,scale=1e3,mode=strict,check=off");
  ASSERT_TRUE(options.parse("check"));
  EXPECT_TRUE(options.flag("check"));
  ASSERT_TRUE(options.parse(""));
  ASSERT_TRUE(options.parse("  "));
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
  expect_error("time:x, dmp:plan", "unknown option 'dmp'", "dump", 8);
  expect_error("dump:plann", "option 'dump' takes one of plan, graph, source, not 'plann'", "plan", 0);
  expect_error("dump", "option 'dump' takes one of plan, graph, source, not ''", "", 0);
  expect_error("time", "option 'time' takes a word, not ''", "", 0);
  expect_error("level=high", "option 'level' takes an integer, not 'high'", "", 0);
  expect_error("level=99999999999999999999", "option 'level' takes an integer, not '99999999999999999999'", "", 0);
  expect_error("scale=x", "option 'scale' takes a number, not 'x'", "", 0);
  expect_error("mode=stict", "option 'mode' takes one of fast, strict, not 'stict'", "strict", 0);
  expect_error("check=maybe", "option 'check' takes true or false, not 'maybe'", "", 0);
  expect_error("check,,time:x", "unknown option ''", "", 6);
  expect_error("=", "unknown option ''", "", 0);
}

TEST(Options, Help) {
  EXPECT_EQ(Options(table).help(),
            "dump=plan|graph|source  what to print\n"
            "time=WORD               what to time\n"
            "level=INTEGER           how much (default: 2)\n"
            "scale=NUMBER            a factor (default: 0.5)\n"
            "mode=fast|strict        which math (default: fast)\n"
            "check                   verify results (default: true)\n");
}

}  // namespace
}  // namespace codetta::base
