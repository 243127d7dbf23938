// SPDX-License-Identifier: Apache-2.0
// Compilers that hang, crash or lie, and machines without room; all of them small scripts or bad folders.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/text.hpp"
#include "compilers.hpp"
#include "support/users_source.hpp"
#include "toolchain/library.hpp"

namespace codetta::toolchain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class CompilerFailures : public CompilerTest {
 protected:
  CompilerFailures() { options.work_dir = folder(); }

  [[nodiscard]] HostCompiler fake(const std::string& body) const {
    HostCompiler compiler;
    compiler.path = script("fake", body);
    compiler.major = 12;
    compiler.version = "fake 12";
    compiler.search_path = system_path;
    return compiler;
  }
  [[nodiscard]] Result<CompileOutput> run(const std::string& body) const {
    return compile(fake(body), {"int x;", {"-O2"}, "epilogue_0"}, options);
  }
  CompileOptions options;
};

TEST_F(CompilerFailures, AHangEndsWithAllThatItStarted) {
  options.timeout_seconds = 0.2;
  const auto begin = Clock::now();
  const auto output = run("sleep 300 &\necho $! > " + path("pid") + "\nwait\n");
  ASSERT_FALSE(output);
  EXPECT_LT(seconds_since(begin), 10.0);
  EXPECT_EQ(output.error().message(), "error[E0505]: the compiler did not finish 'epilogue_0' in time");
  const pid_t grandchild = std::stoi(*base::read_file(path("pid"), 100));
  // Gone, or a zombie that its new parent has not collected yet; what is killed takes a while where others run, too.
  const auto lives = [&] {
    const auto status = base::read_file("/proc/" + std::to_string(grandchild) + "/stat", 4096);
    return status && status->find(") Z") == std::string::npos;
  };
  while (lives() && seconds_since(begin) < 60) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(lives());
}

TEST_F(CompilerFailures, ACrashNamesTheSignal) {
  const auto output = run("kill -SEGV $$\n");
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().message(), "error[E0506]: the compiler crashed on 'epilogue_0'");
  EXPECT_NE(output.error().render().find("signal 11"), std::string::npos);
  // Reported by the driver for a pass that died.
  const auto pass = run("echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2\nexit 1\n");
  ASSERT_FALSE(pass);
  EXPECT_EQ(pass.error().code(), 506);
}

TEST_F(CompilerFailures, CannotBeStarted) {
  HostCompiler compiler = fake("exit 0\n");
  ASSERT_TRUE(base::remove_file(compiler.path));
  const auto output = compile(compiler, {"int x;", {}, "epilogue_0"}, options);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().message(), "error[E0506]: the compiler could not be started for 'epilogue_0'");
  EXPECT_NE(output.error().render().find("No such file"), std::string::npos);
}

TEST_F(CompilerFailures, SuccessWithoutAnObject) {
  const auto output = run("exit 0\n");
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().message(), "error[E0506]: the compiler made no object of 'epilogue_0'");
  const auto empty = run("while [ \"$1\" != -o ]; do shift; done; : > \"$2\"\n");
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code(), 506);
}

TEST_F(CompilerFailures, FailureWithoutAnyMessage) {
  const auto output = run("echo 'license expired'\nexit 7\n");
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code(), 504);
  EXPECT_NE(output.error().render().find("exit status 7: license expired"), std::string::npos);
}

TEST_F(CompilerFailures, NoRoomForTemporaries) {
  options.work_dir = path("absent");
  const auto missing = run("exit 0\n");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message(),
            "error[E0507]: no folder for the temporary files of the compile of 'epilogue_0'");
  EXPECT_NE(missing.error().render().find(path("absent")), std::string::npos);

  options.work_dir = folder();
  const auto full = run("echo '/usr/bin/ld: final link failed: No space left on device' >&2\nexit 1\n");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message(), "error[E0507]: the compiler could not write the files of 'epilogue_0'");

  if (::geteuid() != 0) {  // root may write everywhere
    ASSERT_EQ(::chmod(folder().c_str(), 0500), 0);
    EXPECT_EQ(run("exit 0\n").error().code(), 507);
    ASSERT_EQ(::chmod(folder().c_str(), 0700), 0);
  }
}

// What is wrong with the folder is then not that there is none.
TEST_F(CompilerFailures, NoRoomForTheFilesOfALibrary) {
  LibraryJob job;
  job.name = "libnone.so";
  job.units = {{"int x;", {"-O2"}, "unit"}};
  job.files = {{"device/large.h", std::string(8192, ' ')}};
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit few = before;
  few.rlim_cur = 4096;
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &few), 0);
  const auto built = build_library(fake("exit 0\n"), job, options, 1);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  ASSERT_FALSE(built);
  const std::string said = built.error().render();
  EXPECT_EQ(built.error().message(),
            "error[E0507]: there is no room for the temporary files of the compile of 'libnone.so'");
  EXPECT_NE(said.find("device/large.h: File too large"), std::string::npos) << said;
  EXPECT_NE(said.find("ulimit -f"), std::string::npos) << said;
  EXPECT_EQ(said.find("writable"), std::string::npos) << said;
}

TEST_F(CompilerFailures, TheChildSeesAScrubbedEnvironmentAndAnArgumentArray) {
  ASSERT_EQ(::setenv("LD_PRELOAD_OF_A_TEST", "x", 1), 0);
  const HostCompiler compiler =
      fake("env > " + path("env") + "\nfor a in \"$@\"; do echo \"$a\"; done > " + path("args") + "\n");
  const std::string evil = "-DX=$(touch " + path("evil") + ");'\"`";
  EXPECT_FALSE(compile(compiler, {"int x;", {evil}, "'; touch x"}, options));
  const std::string environment = *base::read_file(path("env"), 1 << 20);
  EXPECT_EQ(environment.find("LD_PRELOAD_OF_A_TEST"), std::string::npos);
  EXPECT_NE(environment.find("LC_ALL=C\n"), std::string::npos);
  EXPECT_NE(environment.find("PATH=" + system_path + "\n"), std::string::npos);
  EXPECT_NE(environment.find("TMPDIR=" + folder()), std::string::npos);
  EXPECT_NE(base::read_file(path("args"), 1 << 20)->find(evil + "\n"), std::string::npos);
  EXPECT_FALSE(base::read_file(path("evil"), 1));
}

TEST_F(CompilerFailures, FoldersOfKilledProcessesAreSwept) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);  // its number is free now
  const std::string stale = path("codetta-cc-" + std::to_string(child) + "-Ab12cd");
  const std::string locked = path("codetta-cc-" + std::to_string(child) + "-locked");
  const std::string alive = path("codetta-cc-" + std::to_string(::getpid()) + "-Ab12cd");
  const std::string other = path("codetta-cc-Ab12cd");
  for (const std::string& each : {stale, locked, alive, other}) {
    ASSERT_TRUE(base::make_private_directory(each));
    ASSERT_TRUE(base::write_file_atomically(each + "/kernel.so", "x"));
  }
  const auto holder = base::open_directory(locked);  // as a process of another container would
  ASSERT_TRUE(holder);
  ASSERT_EQ(::flock(holder->get(), LOCK_EX | LOCK_NB), 0);
  options.sweep = true;
  for (const HostCompiler& compiler : real_compilers()) {
    ASSERT_TRUE(compile(compiler, {"int x;\n", {}, "epilogue_0"}, options));
    break;
  }
  std::vector<std::string> left;
  const auto entries = base::list_directory(folder());
  ASSERT_TRUE(entries);
  for (const auto& entry : *entries) {
    if (entry.name.starts_with("codetta-cc-")) left.push_back(path(entry.name));
  }
  std::vector<std::string> wanted{locked, alive, other};
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(left, wanted);
}

TEST_F(CompilerFailures, ALibraryTellsOfTheFirstUnitThatFailed) {
  // The second bad unit fails while the first one is still being compiled.
  const HostCompiler compiler =
      fake("text=$(cat)\ncase $text in slow*) sleep 0.3;; esac\ncase $text in *bad) exit 1;; esac\n");
  LibraryJob job;
  job.name = "libx.so";
  for (const char* text : {"good", "slow bad", "good", "bad", "good", "good"})
    job.units.push_back({text, {}, "unit_" + std::to_string(job.units.size())});
  size_t told = 0;
  const auto built = build_library(compiler, job, options, 4, [&](size_t done, size_t all) {
    EXPECT_GT(done, told);
    EXPECT_EQ(all, 6U);
    told = done;
  });
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().message(), "error[E0504]: the compiler rejected the source of 'unit_1'");
  EXPECT_GE(told, 2U);
}

// What a linker misses is a mistake of the user's where a kernel of the user's asks for it, and only there.
TEST_F(CompilerFailures, WhatALinkerMissesIsWhoseTextAsksForIt) {
  const auto linked = [&](const std::string& names) {
    std::string said = "unit_0.o: in function `f':\nunit_1.o: in function `k':\n";
    for (const std::string_view name : base::split(names, ' '))
      said += fmt::format("undefined reference to `{}'\n", name);
    const HostCompiler compiler = fake("case \"$*\" in *-shared*) cat >&2 <<'END'\n" + said + "END\nexit 1;; esac\n");
    LibraryJob job;
    job.name = "libx.so";
    job.units = {{"int lost(); int f() { return lost(); }", {}, "ours"},
                 {test::users_source("own.cc", "int absent();\nint k() { return absent(); }\n"), {}, "users"}};
    return build_library(compiler, job, options, 1);
  };
  const auto users = linked("lost absent");
  ASSERT_FALSE(users);
  EXPECT_EQ(users.error().message(), "error[E0313]: the source of 'users' uses what is not defined: absent");
  EXPECT_EQ(users.error().diagnostics().front().where.line, 2U);
  const auto ours = linked("lost");
  ASSERT_FALSE(ours);
  EXPECT_EQ(ours.error().message(), "error[E0542]: the library libx.so could not be linked");
}

TEST_F(CompilerFailures, LinkingCanBeCancelledAndTimesOut) {
  const HostCompiler compiler =
      fake("case \"$*\" in *-shared*) sleep 1000 & echo $! >" + path("pid") + "; wait;; esac\n");
  LibraryJob job;
  job.name = "libx.so";
  job.units = {{"int x;", {}, "unit"}};
  std::atomic<bool> cancel{false};
  options.cancel = &cancel;
  std::thread later([&] {
    while (!base::read_file(path("pid"), 100)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cancel = true;
  });
  const auto cancelled = build_library(compiler, job, options, 1);
  later.join();
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().message(), "error[E0510]: the link of libx.so was cancelled");
  cancel = false;
  options.timeout_seconds = 0.3;
  const auto late = build_library(compiler, job, options, 1);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message(), "error[E0505]: the linker did not finish libx.so in time");
}

TEST_F(CompilerFailures, ALibraryTakesNoFlagsThatChangeFloatingPoint) {
  LibraryJob job;
  job.name = "libx.so";
  job.units = {{"int x;", {"-O2"}, "good"}, {"int x;", {"-ffast-math"}, "bad"}};
  const auto built = build_library(fake("touch " + path("started") + "\n"), job, options, 1);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().message(), "error[E0901]: -ffast-math is among the flags of 'bad'");
  EXPECT_FALSE(base::read_file(path("started"), 1));
}

TEST_F(CompilerFailures, FoldersOfKilledBuildsAreSwept) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const std::string stale = path("codetta-build-" + std::to_string(child) + "-Ab12cd");
  const std::string alive = path("codetta-build-" + std::to_string(::getpid()) + "-Ab12cd");
  for (const std::string& each : {stale, alive}) ASSERT_TRUE(base::make_private_directory(each));
  LibraryJob job;
  job.name = "libx.so";
  job.units = {{"int x;", {}, "unit"}};
  EXPECT_FALSE(build_library(fake("exit 1\n"), job, options, 1));
  EXPECT_FALSE(base::open_directory(stale));
  EXPECT_TRUE(base::open_directory(alive));
}

TEST_F(CompilerFailures, OneCompileCanBeCancelled) {
  const HostCompiler compiler = fake("sleep 1000 & echo $! >" + path("pid") + "; wait");
  std::atomic<bool> cancel{false};
  options.cancel = &cancel;
  std::thread later([&] {
    while (!base::read_file(path("pid"), 100)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cancel = true;
  });
  const auto output = compile(compiler, {"int x;\n", {}, "epilogue_0"}, options);
  later.join();
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code(), 510);
}

TEST_F(CompilerFailures, CancellingEndsRunningJobsAndStartsNoOthers) {
  const HostCompiler compiler = fake("echo x >> " + path("started") + "\nsleep 300\n");
  const std::vector<CompileJob> jobs(6, CompileJob{"int x;", {}, "epilogue_0"});
  const auto begin = Clock::now();
  struct Asked {
    std::thread::id caller = std::this_thread::get_id();
    bool elsewhere = false;
    Clock::time_point begin = Clock::now();
  } asked;
  const auto results = compile_all(
      compiler, jobs, options, 2,
      [](void* context) {
        auto* state = static_cast<Asked*>(context);
        state->elsewhere = state->elsewhere || std::this_thread::get_id() != state->caller;
        return seconds_since(state->begin) > 0.3;
      },
      &asked);
  EXPECT_LT(seconds_since(begin), 10.0);
  EXPECT_FALSE(asked.elsewhere);
  ASSERT_EQ(results.size(), 6U);
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message(), "error[E0510]: the compile of 'epilogue_0' was cancelled");
  }
  EXPECT_LE(base::read_file(path("started"), 100)->size(), 4U);
}

TEST_F(CompilerFailures, SignalMaskOfTheCallerStays) {
  sigset_t before{};
  sigset_t after{};
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &before), 0);
  (void)compile_all(fake("exit 1\n"), std::vector<CompileJob>(2), options, 2);
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &after), 0);
  for (int signal = 1; signal < 32; ++signal) EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
}

}  // namespace
}  // namespace codetta::toolchain
