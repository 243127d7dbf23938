// SPDX-License-Identifier: Apache-2.0
// Which program tuning starts for first runs. A program that is linked with the library is started only if it is the
// command.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.hpp"
#include "driver/trial.hpp"

namespace codetta::driver {
namespace {

namespace fs = std::filesystem;

int status_of(const std::string& program, std::string filter) {
  std::string word = program;
  char* arguments[] = {word.data(), filter.data(), nullptr};
  pid_t pid = 0;
  int status = -1;
  if (::posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environ) != 0) return -1;
  return ::waitpid(pid, &status, 0) == pid ? status : -1;
}

TEST(TrialCommand, IsWhatTheOptionsName) {
  ContextOptions options;
  options.command = "/somewhere/codetta";
  EXPECT_EQ(command_of(options), "/somewhere/codetta");
}

// Of this program, which is not the command: none, or one of another name beside it.
TEST(TrialCommand, IsNoProgramOfAnother) {
  const std::string command = command_of({}), own = fs::read_symlink("/proc/self/exe").string();
  EXPECT_NE(command, own);
  EXPECT_TRUE(command.empty() || fs::path(command).filename() == "codetta") << command;
  EXPECT_TRUE(command.empty() || fs::path(own).filename() != "codetta") << command;
}

TEST(TrialCommand, IsNoProgramThatIsOnlyCalledSo) {
  const auto folder = base::TemporaryDirectory::make("/tmp", "codetta-test-");
  ASSERT_TRUE(folder);
  const std::string program = folder->path() + "/codetta";
  fs::copy_file("/proc/self/exe", program);
  EXPECT_EQ(status_of(program, "--gtest_filter=TrialCommand.IsNoProgramOfAnother"), 0);
}

}  // namespace
}  // namespace codetta::driver
