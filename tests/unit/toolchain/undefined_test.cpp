// SPDX-License-Identifier: Apache-2.0
#include "toolchain/undefined.hpp"

#include <gtest/gtest.h>

#include "support/users_source.hpp"

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
  EXPECT_EQ(undefined_names("the object: undefined symbol: i; from /dev/shm: the same"), Names{"i"});
  EXPECT_EQ(undefined_names("ptxas fatal   : Unresolved extern function '_Z6absentf'\n"), Names{"absent(float)"});
  EXPECT_EQ(undefined_names("ptxas fatal   : Unresolved extern variable 'table'\n"), Names{"table"});
  EXPECT_EQ(undefined_names("cannot find -lcodetta_engine\nundefined symbol: \n"), Names{});
}

std::string log_of(const Names& names) {
  std::string log;
  for (const std::string& name : names) log += "undefined reference to `" + name + "'\n";
  return log;
}

std::string source_of(const std::string& text, const std::string& before = "", const std::string& behind = "") {
  return test::users_source("own.cc", text, "#line 1 \"codetta/device/cpu/user.h\"\n" + before, behind);
}

TEST(Undefined, IsShownAtTheLastLineOfTheUsersThatHasIt) {
  const std::string source = source_of(
      "int absent(int), absent_not(int), not_absent(int);\n"
      "void k() {\n"
      "  /* \u00fc absent */ x::absent(absent_not(1)); not_absent(2);\n"
      "  absent_not(3);  // absent()\n"
      "}\n#if 0\nabsent\n#endif\n",
      "int absent(int);\n", "absent(4);\n");
  const auto error = undefined_in_users("codetta_k", source, log_of({"x::absent<int>(int)", "y"}), "told by a linker");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->render(),
            "error[E0313]: the source of 'codetta_k' uses what is not defined: x::absent<int>(int)\n"
            "  --> own.cc:3:21\n"
            "3 |   /* \u00fc absent */ x::absent(absent_not(1)); not_absent(2);\n"
            "  |                     ^^^^^^ declared, and defined nowhere\n"
            "note: told by a linker\n"
            "note: nor is y\n"
            "help: define it in the source of the kernel\n");
}

// By what is a symbol of the user's known, and where.
TEST(Undefined, NamesAsCppWritesThem) {
  struct Form {
    std::string name, line;
  };
  const Form forms[] = {
      {"codetta::Tensor<float const, 2> there::absent<int>(codetta::Tensor<float, 2>)", "absent<int>(t);"},
      {"there::absent<std::pair<int, a::b>>::call(int)", "there::absent<std::pair<int, a::b>>::call(1);"},
      {"(anonymous namespace)::absent(int)", "absent(1);"},
      {"S::S()", "S s;"},
      {"S::~S()", "S s;"},
      {"vtable for ns::S", "ns::S s;"},
      {"typeinfo for S", "S s;"},
      {"operator+(S, S)", "a = b operator + (c);"},
      {"S::operator()(int) const", "int operator()(int) const;"},
      {"S::operator<(S) const", "bool operator<(S) const;"},
      {"S::operator int() const", "operator int() const;"},
      {"a(int (*)(long))::S::absent(int)", "absent(1);"},
      {"ns::T::a(Tensor<int const, 2>) const::S::operator()(int) const", "int operator()(int) const;"},
      {"operator new[](unsigned long)", "p = new int[4];"},
      {"table", "table[0] = 1;"},
      {"gr\u00f6\u00dfe(int)", "gr\u00f6\u00dfe(1);"},
      {"a$b", "a$b = 1;"},
  };
  for (const Form& form : forms) {
    const auto error = undefined_in_users(
        "k", source_of("a = x;\n" + form.line + "\nabsently(); b += c; operators(); e; b;"), log_of({form.name}), "");
    ASSERT_TRUE(error) << form.name;
    EXPECT_EQ(error->diagnostics().front().where.line, 2U) << error->render();
  }
}

// Lines are counted as compilers count them, whatever stands in comments and in what is left out.
TEST(Undefined, LinesThatTheUsersTextNumbers) {
  const struct {
    std::string text, place;
  } cases[] = {
      {"/*\n#line 3 \"a.h\"\n#line 4 \"a.h\"\n*/\n#if 0\n#line 5 \"b.h\"\n#endif\nabsent();", "own.cc:8"},
      {"#line 70\nabsent();", "own.cc:70"},
      {"  # line 70 \"a.h\"  // \"b.h\"\nabsent();", "a.h:70"},
      {"# 70 \"a.h\" 1\nabsent();", "a.h:70"},
      {"#define LINE 70\n#line LINE\n#lines 7\n# \nabsent();", "own.cc:5"},
      {"#line 99999999999\nabsent();", "own.cc:2"},
  };
  for (const auto& [text, place] : cases) {
    const auto error = undefined_in_users("k", source_of(text), log_of({"absent()"}), "");
    ASSERT_TRUE(error) << text;
    EXPECT_NE(error->render().find("\n  --> " + place + ":1\n"), std::string::npos) << text << "\n" << error->render();
  }
}

// What Codetta's text lacks is not the user's mistake, whatever else is missing.
TEST(Undefined, WhatCodettaLacksIsNotTheUsers) {
  const std::string source = source_of("void k() { y.store(1); absent(); }  // lost_too\n",
                                       "x = lost(1) + __builtin_lostf(y);\n", "lost_too();\n");
  for (const char* name : {"lost(int)", "lost_too", "lostf", "ct_erf(float)", "codetta_entry",
                           "codetta::Hook<float, 2>::store(int)", "codetta::gpu::tile()"})
    EXPECT_FALSE(undefined_in_users("k", source, log_of({name}), "")) << name;
  const auto both = undefined_in_users("k", source, log_of({"lost(int)", "absent()", "lost_too"}), "");
  ASSERT_TRUE(both);
  EXPECT_NE(both->render().find("uses what is not defined: absent()\n"), std::string::npos) << both->render();
  EXPECT_TRUE(both->diagnostics().front().notes.empty()) << both->render();
  EXPECT_FALSE(undefined_in_users("k", "int absent();\n", log_of({"absent()"}), "")) << "no kernel of the user's";
  EXPECT_FALSE(undefined_in_users("k", source, "an error", ""));
}

// What a macro joins, and what a compiler calls by itself, is in no text.
TEST(Undefined, WhatNoTextHasIsTheUsersWithoutAPlace) {
  for (const char* name : {"__atomic_load_16", "absent(int)", "S::operator<(S)"}) {
    const auto nowhere =
        undefined_in_users("k", source_of("JOIN(ab, sent)(load(1)); bool operator<=(T);\n"), log_of({name}), "told");
    ASSERT_TRUE(nowhere) << name;
    EXPECT_EQ(nowhere->diagnostics().front().where.line, 0U);
    EXPECT_TRUE(nowhere->diagnostics().front().help.starts_with("nothing in the source names it: "))
        << nowhere->diagnostics().front().help;
  }
}

}  // namespace
}  // namespace codetta::toolchain
