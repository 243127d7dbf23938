// SPDX-License-Identifier: Apache-2.0
// Where libraries and programs come from.
#include "base/shared_library.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

namespace codetta::base {
namespace {

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

TEST(LibraryFile, OfALibraryAndOfNothing) {
  // A function that sanitizers do not have one of their own of.
  const std::string file = library_file_of(::dlsym(RTLD_DEFAULT, "getppid"));
  EXPECT_EQ(file.front(), '/') << file;
  EXPECT_NE(file.find("libc"), std::string::npos) << file;
  EXPECT_EQ(library_file_of(nullptr), "");
  const int local = 0;
  EXPECT_EQ(library_file_of(&local), "");
}

TEST(LibraryFile, OfTheProgram) {
  EXPECT_EQ(library_file_of(reinterpret_cast<const void*>(&this_program)), this_program());
}

// A search path completes a word that is no path from here.
TEST(LibraryFile, OfAProgramThatAWordStarted) {
  std::string word = "test_of_no_folder", filter = "--gtest_filter=LibraryFile.OfTheProgram";
  char* arguments[] = {word.data(), filter.data(), nullptr};
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, this_program().c_str(), nullptr, nullptr, arguments, environ), 0);
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace codetta::base
