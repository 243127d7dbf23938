// SPDX-License-Identifier: Apache-2.0
// Running programs of a POSIX system.
#include "base/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/files.hpp"
#include "base/text.hpp"
#include "support/sanitizers.hpp"

namespace codetta::base {
namespace {

using namespace std::chrono_literals;

// The shell is only the program under test here.
ProcessRequest shell(std::string script) {
  ProcessRequest request;
  request.program = "/bin/sh";
  request.arguments = {"-c", std::move(script)};
  request.environment = {"PATH=/usr/bin:/bin"};
  request.timeout = 60s;
  return request;
}

ProcessResult run(const ProcessRequest& request) {
  auto result = run_process(request);
  EXPECT_TRUE(result) << result.error().message();
  return result ? std::move(*result) : ProcessResult{};
}

bool gone_soon(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
    // An orphan that is dead but that nobody has reaped counts as gone.
    const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
    if (stat && stat->find(") Z ") != std::string::npos) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST(Process, CapturesBothStreamsAndTheStatus) {
  const ProcessResult result = run(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.end, ProcessEnd::Exited);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_FALSE(result.success());
  EXPECT_EQ(result.summary(), "exit status 3");
  EXPECT_GT(result.seconds, 0.0);
  EXPECT_TRUE(run(shell("true")).success());
}

TEST(Process, ArgumentsArePassedAsTheyAre) {
  ProcessRequest request;
  request.program = "/usr/bin/printf";
  request.arguments = {"%s|", "a b", "$HOME", "`x`", "", "\"'\\", "\xff*"};
  EXPECT_EQ(run(request).output, "a b|$HOME|`x`||\"'\\|\xff*|");
}

TEST(Process, EnvironmentIsExactlyTheGiven) {
  ProcessRequest request;
  request.program = "/usr/bin/env";
  EXPECT_EQ(run(request).output, "");
  request.environment = {"A=1", "B=two words"};
  EXPECT_EQ(run(request).output, "A=1\nB=two words\n");
}

TEST(Process, WorkingDirectory) {
  ProcessRequest request = shell("pwd");
  request.working_directory = "/";
  EXPECT_EQ(run(request).output, "/\n");
  request.working_directory = "/nowhere";
  EXPECT_EQ(run_process(request).error(), (SystemError{ENOENT, "chdir", "/nowhere"}));
  request.working_directory = "/bin/sh";
  EXPECT_EQ(run_process(request).error(), (SystemError{ENOTDIR, "chdir", "/bin/sh"}));
}

TEST(Process, InputIsSmallLargeOrNone) {
  ProcessRequest request;
  request.program = "/bin/cat";
  EXPECT_EQ(run(request).output, "");
  request.input = "text\n";
  EXPECT_EQ(run(request).output, "text\n");
  request.input = std::string(3000000, 'x');
  EXPECT_EQ(run(request).output, request.input);
  // A child that doesn't read it does no harm (no SIGPIPE).
  request.program = "/bin/true";
  EXPECT_TRUE(run(request).success());
}

// It waits at its stdin until the gate opens, or is gone, and reads nothing there; by its name, too.
TEST(Process, AGateKeepsAProgramWaiting) {
  const auto folder = TemporaryDirectory::make("/tmp");
  ASSERT_TRUE(folder);
  const std::string begun = folder->path() + "/begun", open = folder->path() + "/open";
  for (const bool goes : {false, true}) {
    // That the other thread has read the gate is known by a file, which is no order to the thread sanitizer.
    if (goes && CODETTA_THREADS_ARE_SANITIZED == 1) continue;
    auto gate = Gate::make();
    ASSERT_TRUE(gate) << gate.error().message();
    auto request = shell("echo > " + begun + "; cat < /dev/stdin; cat; test -e " + open);
    request.gate = &*gate;
    ProcessResult result;
    std::jthread runs([&] { result = run(request); });
    while (::access(begun.c_str(), F_OK) != 0) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(write_file_atomically(open, ""));
    if (goes)
      (void)Gate(*std::move(gate));
    else
      gate->open();
    runs.join();
    EXPECT_TRUE(result.success()) << result.summary();
    EXPECT_EQ(result.output, "");
    ASSERT_EQ(::unlink(open.c_str()) + ::unlink(begun.c_str()), 0);
  }
  auto gate = Gate::make();
  ASSERT_TRUE(gate);
  auto stuck = shell("cat");
  stuck.gate = &*gate;
  stuck.timeout = 50ms;
  EXPECT_EQ(run(stuck).end, ProcessEnd::TimedOut);
}

// Its caller gets it while the program still runs, once, also from one that is killed or writes more than a pipe holds.
TEST(Process, AFileComesBeforeTheEnd) {
  const auto folder = TemporaryDirectory::make("/tmp");
  ASSERT_TRUE(folder);
  const std::string fifo = folder->path() + "/file", seen = folder->path() + "/seen";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::vector<std::string> files;
  const auto request_of = [&](std::string script) {
    auto request = shell(std::move(script));
    request.environment.push_back("FILE=" + fifo);
    request.fifo = fifo;
    request.on_file = [&](std::string bytes) {
      files.push_back(std::move(bytes));
      EXPECT_TRUE(write_file_atomically(seen, ""));
    };
    return request;
  };
  EXPECT_TRUE(run(request_of("echo text > $FILE; while [ ! -e " + seen + " ]; do sleep 0.01; done; echo x > $FILE &"))
                  .success());
  EXPECT_EQ(files, std::vector<std::string>{"text\n"});
  files.clear();
  EXPECT_TRUE(run(request_of("head -c 3000000 /dev/zero > $FILE")).success());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].size(), 3000000U);
  files.clear();
  EXPECT_EQ(run(request_of("exec 3> $FILE; echo part >&3; kill -9 $$")).end, ProcessEnd::Signaled);
  EXPECT_EQ(files, std::vector<std::string>{"part\n"});
  files.clear();
  EXPECT_TRUE(run(request_of(": > $FILE; echo text > $FILE")).success());  // opened twice, and for nothing before
  EXPECT_EQ(files, std::vector<std::string>{"text\n"});
  files.clear();
  // None that is opened, one without a byte, and one in its place.
  EXPECT_TRUE(run(request_of("true")).success());
  EXPECT_TRUE(run(request_of(": > $FILE")).success());
  EXPECT_TRUE(run(request_of("echo text > $FILE.new; mv $FILE.new $FILE")).success());
  EXPECT_EQ(files.size(), 0U);
  auto missing = request_of("true");
  missing.fifo = folder->path() + "/none";
  const auto failed = run_process(missing);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().errno_value, ENOENT) << failed.error().message();
}

TEST(Process, OutputIsBounded) {
  ProcessRequest request = shell("head -c 3000000 /dev/zero; head -c 100 /dev/zero >&2");
  request.max_output_bytes = 1000;
  const ProcessResult result = run(request);
  EXPECT_TRUE(result.success());
  EXPECT_EQ(result.output.size(), 1000U);
  EXPECT_TRUE(result.output_cut);
  EXPECT_EQ(result.errors.size(), 100U);
  EXPECT_FALSE(result.errors_cut);
}

TEST(Process, Signals) {
  const ProcessResult result = run(shell("kill -SEGV $$"));
  EXPECT_EQ(result.end, ProcessEnd::Signaled);
  EXPECT_EQ(result.signal, SIGSEGV);
  EXPECT_EQ(result.summary(), "signal 11 (Segmentation fault)");
}

TEST(Process, NotStarted) {
  ProcessRequest request;
  request.program = "/nowhere/c++";
  EXPECT_EQ(run_process(request).error(), (SystemError{ENOENT, "start", "/nowhere/c++"}));
  request.program = "/etc/passwd";
  EXPECT_EQ(run_process(request).error().errno_value, EACCES);
  request.program = "/";
  EXPECT_EQ(run_process(request).error().errno_value, EACCES);
  request.program = "/bin/true";
  request.arguments = {std::string("a\0b", 3)};
  EXPECT_EQ(run_process(request).error().errno_value, EINVAL);
  request.arguments = {std::string(8 << 20, 'a')};
  EXPECT_EQ(run_process(request).error().errno_value, E2BIG);
}

TEST(Process, TimeoutKillsTheWholeGroup) {
  ProcessRequest request = shell("sleep 1000 & echo $!; wait");
  request.timeout = 300ms;
  const ProcessResult result = run(request);
  EXPECT_EQ(result.end, ProcessEnd::TimedOut);
  EXPECT_GE(result.seconds, 0.3);
  EXPECT_LT(result.seconds, 20.0);
  const auto grandchild = parse_int64(trim(result.output));
  ASSERT_TRUE(grandchild.has_value());
  EXPECT_TRUE(gone_soon(static_cast<pid_t>(*grandchild)));
  EXPECT_NE(result.summary().find("timed out after"), std::string::npos);
}

TEST(Process, TimeoutKillsTheStubborn) {
  // Ignores SIGTERM, keeps its output open and is busy.
  ProcessRequest request = shell("trap '' TERM; while :; do echo x; done");
  request.timeout = 200ms;
  const ProcessResult result = run(request);
  EXPECT_EQ(result.end, ProcessEnd::TimedOut);
  EXPECT_GT(result.output.size(), 0U);
}

TEST(Process, ClosedStreamsDoNotEndTheWait) {
  const ProcessResult result = run(shell("exec >&- 2>&-; sleep 0.2; exit 5"));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_GE(result.seconds, 0.2);
}

TEST(Process, LeftOverGrandchildrenDieAndDoNotBlock) {
  ProcessRequest request = shell("sleep 1000 & echo $!");
  const ProcessResult result = run(request);
  EXPECT_TRUE(result.success());
  EXPECT_LT(result.seconds, 30.0);
  EXPECT_TRUE(gone_soon(static_cast<pid_t>(parse_int64(trim(result.output)).value())));
}

TEST(Process, CanBeCancelled) {
  std::atomic<bool> cancel{false};
  ProcessRequest request = shell("sleep 1000");
  request.cancel = &cancel;
  std::thread later([&] {
    std::this_thread::sleep_for(100ms);
    cancel = true;
  });
  const ProcessResult result = run(request);
  later.join();
  EXPECT_EQ(result.end, ProcessEnd::Cancelled);
  EXPECT_EQ(result.summary(), "cancelled");
  EXPECT_LT(result.seconds, 20.0);
}

TEST(Process, InheritsNoDescriptor) {
  const int leaked = ::open("/dev/null", O_RDONLY);  // without close-on-exec, as a host application might
  ASSERT_GE(leaked, 0);
  ProcessRequest request;
  request.program = "/bin/ls";
  request.arguments = {"/proc/self/fd"};
  // 3 is the folder that ls reads.
  EXPECT_EQ(run(request).output, "0\n1\n2\n3\n");
  ::close(leaked);
}

TEST(Process, IsInItsOwnGroupWithDefaultSignals) {
  sigset_t blocked{};
  sigset_t before{};
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  struct sigaction ignore {};
  struct sigaction old {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &old);
  // Builtins only: around the start of a command the shell blocks signals itself.
  const ProcessResult result =
      run(shell("while read -r line; do case $line in SigBlk*|SigIgn*) echo \"$line\";; esac; done </proc/$$/status; "
                "read -r pid name state parent group rest </proc/$$/stat; echo $group; echo $$"));
  ::sigaction(SIGPIPE, &old, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const auto lines = split(result.output, '\n');
  ASSERT_GE(lines.size(), 4U) << result.output << result.errors;
  EXPECT_EQ(lines[0], "SigBlk:\t0000000000000000");
  // Without the upper bits: the C library keeps real-time signals of its own ignored.
  EXPECT_EQ(lines[1].substr(lines[1].size() - 7), "0000000") << lines[1];
  EXPECT_EQ(trim(lines[2]), trim(lines[3]));
}

// As a daemon may, and as a child inherits it: the system then keeps no exit status of a child.
class IgnoredChildren : public ::testing::TestWithParam<int> {
 protected:
  IgnoredChildren() {
    struct sigaction ignore {};
    ignore.sa_handler = GetParam() == 0 ? SIG_IGN : SIG_DFL;
    ignore.sa_flags = GetParam();
    ::sigaction(SIGCHLD, &ignore, &former_);
  }
  ~IgnoredChildren() override { ::sigaction(SIGCHLD, &former_, nullptr); }
  struct sigaction former_ {};
};

TEST_P(IgnoredChildren, HaveAStatus) {
  const ProcessResult three = run(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(three.end, ProcessEnd::Exited);
  EXPECT_EQ(three.exit_code, 3);
  EXPECT_EQ(three.output, "out\n");
  EXPECT_EQ(three.errors, "err\n");
  EXPECT_TRUE(run(shell("exit 0")).success());
  const ProcessResult died = run(shell("kill -SEGV $$"));
  EXPECT_EQ(died.end, ProcessEnd::Signaled);
  EXPECT_EQ(died.signal, SIGSEGV);
  ProcessRequest absent = shell("exit 0");
  absent.program = "/nonexistent/program";
  EXPECT_EQ(run_process(absent).error().errno_value, ENOENT);
}

TEST_P(IgnoredChildren, EndInTimeWithAllTheyStarted) {
  ProcessRequest slow = shell("sleep 1000 & echo $!; wait");
  slow.timeout = 200ms;
  const ProcessResult late = run(slow);
  EXPECT_EQ(late.end, ProcessEnd::TimedOut);
  EXPECT_TRUE(gone_soon(static_cast<pid_t>(parse_int64(trim(late.output)).value())));
  slow.timeout = 10s;
  slow.arguments = {"-c", "trap 'echo tidied; exit 0' TERM; while :; do sleep 0.01; done"};
  std::atomic<bool> cancel{false};
  slow.cancel = &cancel;
  std::thread later([&] {
    std::this_thread::sleep_for(100ms);
    cancel = true;
  });
  const ProcessResult cancelled = run(slow);
  later.join();
  EXPECT_EQ(cancelled.end, ProcessEnd::Cancelled);
  EXPECT_EQ(cancelled.output, "tidied\n");  // it had its grace
}

TEST_P(IgnoredChildren, InheritNothingAndLeaveNothing) {
  const int leaked = ::open("/dev/null", O_RDONLY);
  ProcessRequest request;
  request.program = "/bin/ls";
  request.arguments = {"/proc/self/fd"};
  EXPECT_EQ(run(request).output, "0\n1\n2\n3\n");
  ::close(leaked);
  const ProcessResult signals =
      run(shell("while read -r line; do case $line in SigBlk*|SigIgn*) echo \"$line\";; esac; done </proc/$$/status"));
  EXPECT_NE(signals.output.find("SigBlk:\t0000000000000000"), std::string::npos) << signals.output;
  EXPECT_EQ(signals.output.substr(signals.output.size() - 8), "0000000\n") << signals.output;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 10; ++round)
        EXPECT_EQ(run(shell("exit " + std::to_string(i * 10 + round))).exit_code, i * 10 + round);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

INSTANTIATE_TEST_SUITE_P(Ways, IgnoredChildren, ::testing::Values(0, SA_NOCLDWAIT));

TEST(Process, FromManyThreads) {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        ProcessRequest request = shell("cat; echo err" + std::to_string(t) + " >&2");
        request.input = std::to_string(t * 100 + i);
        const ProcessResult result = run(request);
        good += result.output == request.input && result.errors == "err" + std::to_string(t) + "\n" ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 80);
  // No zombie is left behind.
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Process, LeaksNoDescriptor) {
  const auto open_now = [] { return list_directory("/proc/self/fd")->size(); };
  const size_t before = open_now();
  for (int i = 0; i < 5; ++i) {
    (void)run(shell("true"));
    ProcessRequest missing;
    missing.program = "/nowhere";
    (void)run_process(missing);
  }
  EXPECT_EQ(open_now(), before);
}

// A host without standard streams: the pipes of the child then get the numbers 0 to 2.
TEST(Process, WorksWithStandardStreamsClosed) {
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    for (int fd = 0; fd < 3; ++fd) ::close(fd);
    ProcessRequest request = shell("cat; echo err >&2");
    request.input = "in";
    const auto result = run_process(request);
    ::_exit(result && result->output == "in" && result->errors == "err\n" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST(FindExecutable, LooksAlongThePath) {
  EXPECT_EQ(find_executable("sh", "/nowhere:/bin:/usr/bin"), "/bin/sh");
  EXPECT_EQ(find_executable("sh", "/bin/"), "/bin/sh");
  EXPECT_EQ(find_executable("no-such-program", "/bin:/usr/bin"), std::nullopt);
  EXPECT_EQ(find_executable("/bin/sh", ""), "/bin/sh");
  EXPECT_EQ(find_executable("/bin", ""), std::nullopt);
  EXPECT_EQ(find_executable("/etc/passwd", ""), std::nullopt);
  EXPECT_EQ(find_executable("", "/bin"), std::nullopt);
  EXPECT_EQ(find_executable("sh", ""), std::nullopt);
}

TEST(FindExecutable, SkipsRelativeFoldersAndOtherFiles) {
  const auto folder = TemporaryDirectory::make(testing::TempDir());
  ASSERT_TRUE(folder);
  ASSERT_TRUE(write_file_atomically(folder->path() + "/tool", "#!/bin/sh\n"));
  EXPECT_EQ(find_executable("tool", folder->path()), std::nullopt);  // not executable
  ASSERT_EQ(::chmod((folder->path() + "/tool").c_str(), 0700), 0);
  EXPECT_EQ(find_executable("tool", ":.:" + folder->path()), folder->path() + "/tool");
  ASSERT_EQ(::mkdir((folder->path() + "/sub").c_str(), 0700), 0);
  EXPECT_EQ(find_executable("sub", folder->path()), std::nullopt);  // a folder
}

}  // namespace
}  // namespace codetta::base
