// SPDX-License-Identifier: Apache-2.0
// What is kept of a command that ends with status 70.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "base/files.hpp"
#include "cli/last_words.hpp"
#include "cli/repro.hpp"

namespace codetta::cli {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Repro, KeepsCommandTextVersionAndMessage) {
  const auto parent = base::TemporaryDirectory::make(testing::TempDir());
  ASSERT_TRUE(parent);
  const std::string text = "def f(accum): D = relu(accum); return D";
  const std::string folder = keep_repro({.command = {"codetta", "gemm", "--epilogue", text, "it's"},
                                         .folder = parent->path(),
                                         .text = text,
                                         .message = "m"});
  ASSERT_TRUE(folder.starts_with(parent->path() + "/repro-")) << folder;
  EXPECT_EQ(read(folder + "/command.txt"), "codetta gemm --epilogue '" + text + "' 'it'\\''s'\n");
  EXPECT_EQ(read(folder + "/epilogue.py"), text);
  EXPECT_EQ(read(folder + "/message.txt"), "m");
  EXPECT_TRUE(read(folder + "/version.txt").starts_with(std::string("codetta ") + version() + "\ncpu:"));
  struct stat info {};
  ASSERT_EQ(::stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST(Repro, FallsBackAndNeverFails) {
  const std::string folder =
      keep_repro({.command = {"codetta"}, .folder = "/nowhere/at/all", .text = "", .message = ""});
  ASSERT_FALSE(folder.empty());
  EXPECT_EQ(folder.find("/nowhere"), std::string::npos);
  ASSERT_TRUE(base::remove_tree(folder));
  const auto parent = base::TemporaryDirectory::make(testing::TempDir());
  const std::string missing =
      keep_repro({.command = {}, .folder = parent->path(), .text = parent->path() + "/none.py", .message = ""});
  EXPECT_FALSE(missing.empty());
}

TEST(Repro, InternalErrorsLeaveTheirMessage) {
  Diagnostic diagnostic;
  diagnostic.code = 901;
  diagnostic.headline = "a rule is broken";
  diagnostic.help = "report it";
  testing::internal::CaptureStderr();
  EXPECT_EQ(report(Error(diagnostic), true), exit_internal);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("\"E0901\""), std::string::npos);
  EXPECT_NE(internal_message().find("error[E0901]: a rule is broken"), std::string::npos);
}

TEST(LastWords, StandInsideOfAJsonString) {
  char out[32];
  escape_json("a \"b\" \\ \n\x7f\xc3\xa9", out, sizeof out);
  EXPECT_STREQ(out, R"(a \"b\" \\ \u000a\u007f??)");
  char few[6];
  escape_json("abc\ndef", few, sizeof few);  // no part of an escape
  EXPECT_STREQ(few, "abc");
  escape_json("abcdefgh", few, sizeof few);
  EXPECT_STREQ(few, "abcde");
  escape_json("", few, 1);
  EXPECT_STREQ(few, "");
}

}  // namespace
}  // namespace codetta::cli
