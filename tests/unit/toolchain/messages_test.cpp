// SPDX-License-Identifier: Apache-2.0
#include "toolchain/messages.hpp"

#include <gtest/gtest.h>

namespace codetta::toolchain {
namespace {

TEST(CompilerMessages, FormsOfBothCompilers) {
  const auto messages = parse_compiler_messages(
      "<stdin>: In function 'void f()':\n"
      "<stdin>:3:12: error: 'x' was not declared in this scope\n"
      "<stdin>:4:1: warning: unused variable\n"
      "<stdin>:7: fatal error: too many errors: stopping\n"
      "g++: error: unrecognized command-line option '-fno-such'\n"
      "clang++: fatal error: no input files\n"
      "    error: this is a quoted line\n"
      "1 error generated.\n");
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[0].file, "<stdin>");
  EXPECT_EQ(messages[0].line, 3U);
  EXPECT_EQ(messages[0].column, 12U);
  EXPECT_TRUE(messages[0].is_error);
  EXPECT_EQ(messages[0].text, "'x' was not declared in this scope");
  EXPECT_FALSE(messages[1].is_error);
  EXPECT_EQ(messages[2].line, 7U);
  EXPECT_EQ(messages[2].column, 0U);
  EXPECT_EQ(messages[2].text, "too many errors: stopping");
  EXPECT_EQ(messages[3].line, 0U);
  EXPECT_EQ(messages[3].file, "");
  EXPECT_TRUE(messages[3].is_error);
  EXPECT_TRUE(messages[4].is_error);
}

TEST(CompilerMessages, HostileText) {
  for (const char* text : {"", ":", "::", ": error: ", "a:99999999999999:1: error: x", "a:-1:b: error: x", "error: x",
                           ": error: error: ", "\n\n\n", "x:1:: error: y"}) {
    for (const CompilerMessage& message : parse_compiler_messages(text)) EXPECT_LE(message.line, 1U) << text;
  }
}

TEST(CompilerMessages, CrashesAndFullDisks) {
  EXPECT_TRUE(says_crashed("<stdin>:1:1: internal compiler error: in foo, at bar.cc:1"));
  EXPECT_TRUE(says_crashed("g++: fatal error: Killed signal terminated program cc1plus"));
  EXPECT_TRUE(says_crashed("clang++: error: clang frontend command failed due to signal (use -v)"));
  EXPECT_FALSE(says_crashed("<stdin>:1:1: error: expected ';'"));
  EXPECT_TRUE(says_no_room("/usr/bin/ld: final link failed: No space left on device"));
  EXPECT_TRUE(says_no_room("Cannot create temporary file in /x/: Read-only file system"));
  EXPECT_FALSE(says_no_room("<stdin>:1:1: error: expected ';'"));
}

}  // namespace
}  // namespace codetta::toolchain
