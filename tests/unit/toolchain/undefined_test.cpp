// SPDX-License-Identifier: Apache-2.0
#include "toolchain/undefined.hpp"

#include <gtest/gtest.h>

namespace codetta::toolchain {
namespace {

using Names = std::vector<std::string>;

TEST(Undefined, NamesInTheWordsOfLinkersAndOfTheLoader) {
  EXPECT_EQ(undefined_names("/usr/bin/ld: unit_3.o: in function `k':\n"
                            "<stdin>:(.text+0x14d): undefined reference to `absent(int)'\n"
                            "/usr/bin/ld: <stdin>:(.text+0x153): undefined reference to `there::other'\n"
                            "/usr/bin/ld: <stdin>:(.text+0x163): undefined reference to `absent(int)'\n"
                            "collect2: error: ld returned 1 exit status\n"),
            (Names{"absent(int)", "there::other"}));
  EXPECT_EQ(undefined_names("unit_0.o:<stdin>:function f: error: undefined reference to 'absent'\n"), Names{"absent"});
  EXPECT_EQ(undefined_names("ld.lld: error: undefined symbol: absent(float)\n>>> referenced by <stdin>\n"
                            ">>>               unit_0.o:(f)\n"),
            Names{"absent(float)"});
  EXPECT_EQ(undefined_names("lld: error: undefined hidden symbol: absent(float)\n"), Names{"absent(float)"});
  EXPECT_EQ(undefined_names("the object: undefined symbol: _Z6absenti; from /dev/shm: the same"), Names{"absent(int)"});
  EXPECT_EQ(undefined_names("the object: undefined symbol: expf, version GLIBC_2.99"), Names{"expf"});
  EXPECT_EQ(undefined_names("ptxas fatal   : Unresolved extern function '_Z6absentf'\n"), Names{"absent(float)"});
  EXPECT_EQ(undefined_names("ptxas fatal   : Unresolved extern variable 'table'\n"), Names{"table"});
  EXPECT_EQ(undefined_names("cannot find -lcodetta_engine\nundefined symbol: \n"), Names{});
}

TEST(Undefined, IsShownAtTheLastLineOfTheUsersThatHasIt) {
  const std::string source =
      "#line 1 \"codetta/device/cpu/user.h\"\n"
      "int absent(int);\n"
      "#line 1 \"own.cc\"\n"
      "int absent(int), absent_not(int), not_absent(int);\n"
      "void k() {\n"
      "  /* \u00fc */ x::absent(absent_not(1)); not_absent(2);\n"
      "  absent_not(3);\n"
      "}\n"
      "#line 1 \"codetta_user_entry.cpp\"\n"
      "absent(4);\n";
  const Error error = undefined_in_users("codetta_k", source, {"x::absent<int>(int)", "y"}, "told by a linker");
  EXPECT_EQ(error.render(),
            "error[E0313]: the source of 'codetta_k' uses what is not defined: x::absent<int>(int)\n"
            "  --> own.cc:3:14\n"
            "3 |   /* \u00fc */ x::absent(absent_not(1)); not_absent(2);\n"
            "  |              ^^^^^^ declared, and defined nowhere\n"
            "note: told by a linker\n"
            "note: nor is y\n"
            "help: define it in the source of the kernel\n");
  // What a macro pastes together has no place.
  const Error nowhere = undefined_in_users("codetta_k", source, {"pasted"}, "told by a linker");
  EXPECT_EQ(nowhere.diagnostics().front().where.line, 0U);
  EXPECT_TRUE(nowhere.diagnostics().front().help.starts_with("nothing in the source names it: "))
      << nowhere.diagnostics().front().help;
}

}  // namespace
}  // namespace codetta::toolchain
