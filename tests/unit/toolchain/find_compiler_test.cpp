// SPDX-License-Identifier: Apache-2.0
// Which compiler is taken, why others are not, and that its identity is remembered without starting it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "compilers.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/probe.hpp"

namespace codetta::toolchain {
namespace {

// What GCC of some version on this architecture says about itself.
std::string gcc_script(int major, const std::string& worker) {
#if defined(__x86_64__)
  const std::string architecture = "__x86_64__";
#else
  const std::string architecture = "__aarch64__";
#endif
  return "case \"$*\" in\n*-dM*) echo '#define __GNUC__ " + std::to_string(major) + "'; echo '#define " + architecture +
         " 1';;\n*--version*) echo 'fake " + std::to_string(major) + "';;\n*cc1plus*) echo " + worker + ";;\nesac\n";
}

class FindCompiler : public CompilerTest {
 protected:
  [[nodiscard]] Result<HostCompiler> find(const std::string& wanted, const std::string& search = system_path) const {
    FindOptions options;
    options.wanted = wanted;
    options.path = search;
    options.memo_dir = memo_dir;
    return find_host_compiler(options);
  }
  std::string memo_dir;
};

TEST_F(FindCompiler, RealOnes) {
  const auto compilers = real_compilers();
  ASSERT_FALSE(compilers.empty());
  for (const HostCompiler& compiler : compilers) {
    EXPECT_TRUE(compiler.path.starts_with('/'));
    EXPECT_GE(compiler.major, compiler.kind == CompilerKind::Gcc ? 12 : 16);
    EXPECT_EQ(compiler.identity.size(), 32U);
    EXPECT_FALSE(compiler.version.empty());
  }
  if (compilers.size() > 1) {
    EXPECT_NE(compilers[0].identity, compilers[1].identity);
  }
  EXPECT_TRUE(find(""));
}

TEST_F(FindCompiler, MissingOnesAreNamedWithWhereTheyWereLookedFor) {
  const auto none = find("", folder());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(), "error[E0501]: no C++ compiler was found");
  EXPECT_NE(none.error().render().find(folder()), std::string::npos);
  EXPECT_NE(none.error().render().find("clang++"), std::string::npos);

  const auto named = find("g++-99");
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().message(), "error[E0501]: the C++ compiler 'g++-99' was not found");
  EXPECT_NE(named.error().render().find(system_path), std::string::npos);

  const auto path = find("/nowhere/g++");
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().message(), "error[E0501]: the C++ compiler '/nowhere/g++' was not found");
  for (const auto& [wanted, why] : {std::pair("/etc", "it is a folder"),
                                    {"/etc/passwd", "the file is not executable"},
                                    {"/dev/null", "it is no file"}}) {
    const Error error = find(wanted).error();
    EXPECT_EQ(error.message(), std::string("error[E0501]: the C++ compiler '") + wanted + "' is no program");
    EXPECT_NE(error.render().find(why), std::string::npos) << error.render();
  }

  const auto relative = find("bin/g++");
  ASSERT_FALSE(relative);
  EXPECT_EQ(relative.error().message(), "error[E0501]: the C++ compiler 'bin/g++' is not an absolute path");

  const auto options = find("g++ -O3");
  ASSERT_FALSE(options);
  EXPECT_NE(options.error().render().find("options can not follow"), std::string::npos);

  EXPECT_FALSE(find("", ""));
  EXPECT_FALSE(find("", ".:relative"));
}

TEST_F(FindCompiler, NotACompiler) {
  const std::string silent = script("silent", "exit 0\n");
  const auto found = find(silent);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(), "error[E0502]: the C++ compiler '" + silent + "' can not be used");
  EXPECT_NE(found.error().render().find("neither GCC nor Clang"), std::string::npos);

  const auto failing = find(script("failing", "echo 'no licence' >&2\nexit 3\n"));
  ASSERT_FALSE(failing);
  EXPECT_EQ(failing.error().code(), 502);
  EXPECT_NE(failing.error().render().find("exit status 3: no licence"), std::string::npos);

  const auto crashing = find(script("crashing", "kill -SEGV $$\n"));
  ASSERT_FALSE(crashing);
  EXPECT_NE(crashing.error().render().find("signal 11"), std::string::npos);

  ASSERT_TRUE(base::write_file_atomically(path("text"), "no program"));
  ASSERT_EQ(::chmod(path("text").c_str(), 0755), 0);
  const auto text = find(path("text"));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), 502);
  EXPECT_FALSE(find(folder()));
}

TEST_F(FindCompiler, CanBeCancelled) {
  const std::string hanging = script("hanging", "sleep 60\n");
  const std::atomic<bool> cancel = true;
  const auto found = find_host_compiler({.wanted = hanging, .path = {}, .memo_dir = {}, .cancel = &cancel});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), static_cast<uint16_t>(diag::Code::compile_cancelled)) << found.error().render();
}

// The user's timeout bounds each of the runs that ask what a compiler is.
TEST_F(FindCompiler, OneThatHangsIsEndedInTime) {
  constexpr double timeout = 0.3;
  const std::string worker = script("cc1plus", "exit 0\n");
  const auto asked = [&](const std::string& wanted, const std::string& search) {
    const auto start = std::chrono::steady_clock::now();
    auto found = find_host_compiler({.wanted = wanted, .path = search, .memo_dir = {}, .timeout_seconds = timeout});
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
    return found;
  };
  const auto expect_late = [&](const Result<HostCompiler>& found, const std::string& command) {
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), static_cast<uint16_t>(diag::Code::compile_timeout)) << found.error().render();
    EXPECT_NE(found.error().render().find("`" + command + "`: timed out after 0."), std::string::npos)
        << found.error().render();
    EXPECT_NE(found.error().render().find("raise `compile_timeout_seconds`"), std::string::npos);
  };
  const std::string hanging = script("hanging", "exec /bin/sleep 60\n");
  expect_late(asked(hanging, {}), hanging + " -dM -E -x c++ -");
  // In each of the questions.
  const std::string macros = "case \"$*\" in *-dM*) " + gcc_script(13, worker) + "exit 0;; esac\n";
  const std::string no_version = script("no-version", macros + "exec /bin/sleep 60\n");
  expect_late(asked(no_version, {}), no_version + " --version");
  const std::string no_worker =
      script("no-worker", "case \"$*\" in *cc1plus*) exec /bin/sleep 60;; esac\n" + gcc_script(13, worker));
  expect_late(asked(no_worker, {}), no_worker + " -print-prog-name=cc1plus");
  // Of the usual ones another may do; where none does, the one that hangs is told of before those that are too old.
  const std::string old = script("g++", gcc_script(9, worker));
  const std::string late = script("c++", "exec /bin/sleep 60\n");
  const auto none = asked("", folder());
  expect_late(none, late + " -dM -E -x c++ -");
  EXPECT_NE(none.error().render().find("is GCC 9"), std::string::npos) << none.error().render();
  const std::string good = script("g++-13", gcc_script(13, worker));
  const auto found = asked("", folder());
  ASSERT_TRUE(found) << found.error().render();
  EXPECT_EQ(found->path, good);
}

TEST_F(FindCompiler, TooOldOrForAnotherMachine) {
  const std::string worker = script("cc1plus", "exit 0\n");
  EXPECT_TRUE(find(script("g++-new", gcc_script(12, worker))));
  const auto old = find(script("g++-old", gcc_script(11, worker)));
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code(), 502);
  EXPECT_NE(old.error().render().find("is GCC 11, and 12 is the oldest that is supported"), std::string::npos);

  const auto cross = find(script("cross", "case \"$*\" in *-dM*) echo '#define __GNUC__ 14';; *cc1plus*) echo " +
                                              worker + ";; *) echo fake;; esac\n"));
  ASSERT_FALSE(cross);
  EXPECT_NE(cross.error().render().find("not for this machine's"), std::string::npos);
}

TEST_F(FindCompiler, TheFirstUsableOfTheUsualNamesIsTaken) {
  const std::string worker = script("cc1plus", "exit 0\n");
  (void)script("g++", gcc_script(9, worker));
  const auto old_only = find("", folder());
  ASSERT_FALSE(old_only);
  EXPECT_EQ(old_only.error().message(), "error[E0502]: no C++ compiler that was found can be used");
  const std::string newer = script("g++-13", gcc_script(13, worker));
  const auto found = find("", folder());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, newer);
  EXPECT_EQ(found->major, 13);
}

TEST_F(FindCompiler, IdentityFollowsContent) {
  const std::string worker = script("cc1plus", "exit 0\n");
  const std::string driver = script("g++-12", gcc_script(12, worker));
  const auto first = find(driver);
  ASSERT_TRUE(first);
  EXPECT_EQ(find(driver)->identity, first->identity);
  (void)script("cc1plus", "exit 1\n");
  const auto other_worker = find(driver);
  ASSERT_TRUE(other_worker);
  EXPECT_NE(other_worker->identity, first->identity);
  (void)script("g++-12", gcc_script(12, worker) + "# patched\n");
  EXPECT_NE(find(driver)->identity, other_worker->identity);
}

TEST_F(FindCompiler, TheMemoSparesTheProcessesUntilAFileChanges) {
  memo_dir = path("memo");
  const std::string worker = script("cc1plus", "exit 0\n");
  const std::string count = path("count");
  const std::string body = "echo x >> " + count + "\n" + gcc_script(12, worker);
  const std::string driver = script("g++-12", body);
  const auto starts = [&] { return base::read_file(count, 1 << 20)->size(); };
  const auto first = find(driver);
  ASSERT_TRUE(first);
  const size_t cold = starts();
  const auto again = find(driver);
  ASSERT_TRUE(again);
  EXPECT_EQ(starts(), cold);
  EXPECT_EQ(again->identity, first->identity);
  EXPECT_EQ(again->version, first->version);
  EXPECT_EQ(again->major, first->major);
  EXPECT_EQ(again->search_path, first->search_path);

  (void)script("cc1plus", "exit 1\n");
  ASSERT_TRUE(find(driver));
  EXPECT_GT(starts(), cold);

  // A damaged memo is asked again, and heals.
  const auto files = base::list_directory(memo_dir);
  ASSERT_EQ(files->size(), 1U);
  const std::string memo = memo_dir + "/" + files->front().name;
  const std::string text = *base::read_file(memo, 1 << 20);
  for (const std::string& damaged : {text.substr(0, text.size() / 2), std::string(), text + "x", "y" + text}) {
    ASSERT_TRUE(base::write_file_atomically(memo, damaged));
    const size_t before = starts();
    ASSERT_TRUE(find(driver));
    EXPECT_GT(starts(), before);
    EXPECT_EQ(*base::read_file(memo, 1 << 20), text);
  }
  // One that others may write is not believed.
  ASSERT_EQ(::chmod(memo_dir.c_str(), 0777), 0);
  const size_t before = starts();
  ASSERT_TRUE(find(driver));
  EXPECT_GT(starts(), before);
}

TEST_F(FindCompiler, WarmStartIsFast) {
  memo_dir = path("memo");
  ASSERT_TRUE(find(""));
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(find(""));
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  EXPECT_LT(best, 1e-3);
}

}  // namespace
}  // namespace codetta::toolchain
