// SPDX-License-Identifier: Apache-2.0
#include "base/cpp_text.hpp"

#include <gtest/gtest.h>

namespace codetta::base {
namespace {

TEST(CppText, CommentsAreBlanks) {
  EXPECT_EQ(without_comments("a /* b\n c */ d // e \\\nf\ng"), "a     \n      d       \n \ng");
  EXPECT_EQ(without_comments("a // b /* c\nd /* e"), "a          \nd     ");
  EXPECT_EQ(without_comments("a // b /* c */", LineComments::Stay), "a // b /* c */");
  EXPECT_EQ(without_comments("a /* b */ // c", LineComments::Stay), "a         // c");
}

TEST(CppText, StringsHoldNoComments) {
  for (const char* text :
       {"f(\"// a\", '\\'', \"\\\"/*\")", "f(R\"x(// \" /* )x\")", "1'000'000 / 2", "\"open // to its end\nb"})
    EXPECT_EQ(without_comments(text), text);
  EXPECT_EQ(without_comments("'\"' // a"), "'\"'     ");
}

TEST(CppText, NoDirectiveBeginsInARawString) {
  EXPECT_EQ(without_comments("R\"(#a // b\n #if 0\n\t# c #\n/* d)\" // e\n#f"),
            "R\"(#a // b\n  if 0\n\t  c #\n/* d)\"     \n#f");
  EXPECT_EQ(without_comments("R\"x(\n#a)\"\n#b"), "R\"x(\n a)\"\n b") << "not closed";
}

TEST(CppText, WhatIf0LeavesOutIsBlank) {
  EXPECT_EQ(without_comments("#if 0\na\n#if b\nc\n#endif\n#else\nd\n#endif"),
            "#if 0\n \n     \n \n      \n#else\nd\n#endif");
  EXPECT_EQ(without_comments("#if 1\na\n#endif"), "#if 1\na\n#endif");
}

TEST(CppText, Words) {
  for (const char c : std::string("azAZ09_$\u00fc")) EXPECT_TRUE(in_word(c)) << c;
  for (const char c : std::string("+ :\n~")) EXPECT_FALSE(in_word(c)) << c;
}

}  // namespace
}  // namespace codetta::base
