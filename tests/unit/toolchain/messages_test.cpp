// SPDX-License-Identifier: Apache-2.0
#include "toolchain/messages.hpp"

#include <gtest/gtest.h>

#include "support/users_source.hpp"

namespace codetta::toolchain {
namespace {

TEST(CompilerMessages, WhoseSourceIsRefused) {
  const std::string source = test::users_source("own.cu", "void k() {\n}\n", "void hook_store();\n", "void entry();\n");
  const auto users = refused_source(source, "kernel.cu", "", {}, "another one");
  EXPECT_EQ(users.code, diag::Code::user_source);
  EXPECT_EQ(users.help, "correct the source of the kernel there");
  const auto ours = refused_source("// #line 1 \"codetta_user_entry.cu\"\n", "kernel.cu", "", {}, "another one");
  EXPECT_EQ(ours.code, diag::Code::compile_rejected);
  EXPECT_EQ(ours.help, "report this with the kept source; another one may take it");
  // Of a source that has one of the user's, by where the errors are.
  const auto code_of = [&](const std::string& text, const std::vector<CompilerMessage>& messages) {
    return refused_source(text, "kernel.cu", "", messages, "another one").code;
  };
  const auto error_in = [](const char* file) { return CompilerMessage{file, 3, 1, true, "wrong", {}}; };
  for (const char* file : {"own.cu", "codetta_user_entry.cu", "/usr/include/math.h"})
    EXPECT_EQ(code_of(source, {error_in("kernel.cu"), error_in(file)}), diag::Code::user_source) << file;
  for (const char* file : {"kernel.cu", "codetta_epilogue.cpp", "device/gpu/hook.h", "<stdin>"})
    EXPECT_EQ(code_of(source, {error_in(file)}), diag::Code::compile_rejected) << file;
  CompilerMessage warning = error_in("own.cu");
  warning.is_error = false;
  EXPECT_EQ(code_of(source, {error_in("kernel.cu"), warning}), diag::Code::compile_rejected);
  for (const char* by : {"own.cu", "codetta_user_entry.cu"}) {
    CompilerMessage asked = error_in("device/gpu/hook.h");
    asked.instantiated_at = {{"device/gpu/hook.h", 1, 1}, {by, 1, 1}};
    EXPECT_EQ(code_of(source, {asked}), diag::Code::user_source) << by;
  }
  // The user's file may be called as Codetta's are, and so may one that a #line of the user's names.
  for (const char* file : {"kernel.cu", "device/gpu/hook.cu", "codetta/own.cu", "codetta_own.cu", "<stdin>"}) {
    for (const std::string& text : {test::users_source(file, "void k();\n"),
                                    test::users_source("own.cu", "void k();\n#line 7 \"" + std::string(file) + "\"\n")})
      EXPECT_EQ(code_of(text, {error_in(file)}), diag::Code::user_source) << text;
    EXPECT_EQ(code_of(test::users_source(file, "void k();\n"), {error_in("codetta_epilogue.cpp")}),
              diag::Code::compile_rejected)
        << file;
  }
  // Without a place: what is missing would have been looked for in the user's text.
  const auto missing = refused_source(source, "kernel.cu", "undefined reference to `lost'", {}, "another one");
  EXPECT_EQ(missing.code, diag::Code::compile_rejected);
}

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

// An error in a template of a header is the mistake of whoever asks for that, in both compilers' words.
TEST(CompilerMessages, TemplatesAreAskedForByTheUsersText) {
  const struct {
    const char* log;
    uint32_t column;
  } logs[] = {
      {"codetta/device/cpu/hook.h: In instantiation of 'void codetta::Hook<T, Rank>::take() [with T = float]':\n"
       "codetta/device/cpu/hook.h:70:22:   recursively required from 'void codetta::Hook<T, Rank>::take()'\n"
       "codetta/device/cpu/hook.h:52:12:   required from 'void codetta::Hook<T, Rank>::store_run()'\n"
       "mine.cc:7:89:   required from here\n"
       "codetta/device/cpu/hook.h:67:54: error: cannot convert 'double*' to 'const float*'\n"
       "codetta/device/cpu/hook.h:88:69: note:   initializing argument 4\n"
       "codetta/device/cpu/hook.h:68:1: error: and another\n"
       "codetta_user_entry.cpp: In function 'int codetta_user()':\n"
       "codetta_user_entry.cpp:11:1: error: of nobody's\n",
       89},
      {"./device/gpu/hook.h:67:54: error: cannot convert 'double*' to 'const float*'\n"
       "./device/gpu/hook.h:70:7: note: in instantiation of function template specialization 'take<2>' requested here\n"
       "mine.cc:7:80: note: in instantiation of function template specialization 'store_run<int>' requested here\n"
       "device/cpu/hook.h:88:69: note: passing argument to parameter 'values' here\n"
       "device/cpu/hook.h:68:1: error: and another\n"
       "mine.cc:7:80: note: in instantiation of function template specialization 'store_run<int>' requested here\n"
       "codetta_user_entry.hip:11:1: error: of nobody's\n",
       80}};
  const std::string source = test::users_source("mine.cc", "");
  const UsersText users = *UsersText::in(source);
  for (const auto& [log, column] : logs) {
    std::vector<CompilerMessage> errors;
    for (const CompilerMessage& message : parse_compiler_messages(log)) {
      if (message.is_error) errors.push_back(in_users_text(message, users));
    }
    ASSERT_EQ(errors.size(), 3U) << log;
    EXPECT_EQ(errors[0].text, "cannot convert 'double*' to 'const float*'");
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(errors[i].file, "mine.cc") << i << log;
      EXPECT_EQ(errors[i].line, 7U);
      EXPECT_EQ(errors[i].column, column);
    }
    EXPECT_TRUE(errors[2].file.starts_with("codetta_user_entry.")) << errors[2].file;
  }
  // What is wrong in the user's own text stays there.
  const auto own = parse_compiler_messages(
      "mine.cc: In instantiation of 'void f()':\nmine.cc:9:1:   required from here\nmine.cc:3:2: error: wrong\n");
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(in_users_text(own[0], users).line, 3U);
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
