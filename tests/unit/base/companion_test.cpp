// SPDX-License-Identifier: Apache-2.0
// Talking to another program: cat says every frame again, others do what companions must not.
#include "base/companion.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <thread>

namespace codetta::base {
namespace {

using std::chrono::milliseconds;

const IsolatedLimits patient{milliseconds(60000), {}};

Companion started(const std::string& program, const std::vector<std::string>& arguments = {}) {
  ProcessRequest request;
  request.program = program;
  request.arguments = arguments;
  auto companion = Companion::start(request);
  EXPECT_TRUE(companion) << companion.error().message();
  return *std::move(companion);
}

TEST(Companion, AnswersEveryFrame) {
  {
    Companion cat = started("/bin/cat");
    for (const size_t size : {0, 1, 7, 16384, 5'000'000}) {
      std::string frame(size, 'x');
      for (size_t i = 0; i < size; ++i) frame[i] = static_cast<char>(i * 7 + i / 251);
      const auto [outcome, answer] = cat.ask(frame, patient);
      ASSERT_EQ(outcome.end, IsolatedEnd::Finished) << size << " bytes: " << outcome.summary();
      EXPECT_TRUE(answer == frame) << size << " bytes";
    }
    cat.post("later");
    cat.post("still later");
    EXPECT_EQ(cat.answer(patient).second, "later");
    EXPECT_EQ(cat.answer(patient).second, "still later");
    EXPECT_TRUE(cat.alive());
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "nothing is left behind";
}

TEST(Companion, OneThatDiesSaysOfWhat) {
  for (const auto& [command, signal] : {std::pair<const char*, int>{"kill -SEGV $$", SIGSEGV},
                                        {"read line; kill -KILL $$", SIGKILL},
                                        {"exit 3", 0},
                                        {"exec 0<&- 1>&-; sleep 0.05; kill -ABRT $$", SIGABRT}}) {
    Companion shell = started("/bin/sh", {"-c", command});
    const auto [outcome, answer] = shell.ask("what\n", patient);
    EXPECT_EQ(outcome.end, IsolatedEnd::Died) << command;
    EXPECT_EQ(outcome.signal, signal) << command;
    EXPECT_FALSE(shell.alive());
    EXPECT_EQ(shell.ask("more", patient).first.end, IsolatedEnd::Died);
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Companion, OneThatHangsIsEnded) {
  Companion silent = started("/bin/sleep", {"1000"});
  const std::string large(5'000'000, 'x');  // more than it is sent before it reads
  const auto [outcome, answer] = silent.ask(large, {milliseconds(100), {}});
  EXPECT_EQ(outcome.end, IsolatedEnd::TimedOut);
  EXPECT_GE(outcome.seconds, 0.1);
  EXPECT_FALSE(silent.alive());
  Companion stubborn = started("/bin/sh", {"-c", "trap '' TERM INT; while true; do sleep 1; done"});
  int asked = 0;
  EXPECT_EQ(stubborn.ask("frame", {milliseconds(60000), [&] { return ++asked < 3; }}).first.end, IsolatedEnd::Stopped);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Companion, ALargeFrameAsksAsSeldomAsAWait) {
  Companion cat = started("/bin/cat");
  const std::string large(50'000'000, 'x');
  int asked = 0;
  const auto [outcome, answer] = cat.ask(large, {milliseconds(60000), [&] { return ++asked > 0; }});
  ASSERT_EQ(outcome.end, IsolatedEnd::Finished) << outcome.summary();
  EXPECT_TRUE(answer == large);
  EXPECT_LE(asked, outcome.seconds / 0.02 + 1);
}

TEST(Companion, OneThatIsNotThere) {
  ProcessRequest request;
  request.program = "/nonexistent/codetta";
  const auto none = Companion::start(request);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("/nonexistent/codetta"), std::string::npos) << none.error().message();
}

TEST(Companion, TheOtherSideReadsAndWrites) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const FileDescriptor here(ends[0]);
  FileDescriptor there(ends[1]);
  const std::string large(1'000'000, 'y');
  std::thread writer([&] {
    EXPECT_TRUE(write_frame(there.get(), ""));
    EXPECT_TRUE(write_frame(there.get(), large));
    // A frame that is cut off.
    EXPECT_EQ(::send(there.get(), "\7\0\0\0\0\0\0\0abc", 11, MSG_NOSIGNAL), 11);
    there = FileDescriptor();
  });
  std::string frame = "before";
  EXPECT_TRUE(read_frame(here.get(), frame));
  EXPECT_EQ(frame, "");
  EXPECT_TRUE(read_frame(here.get(), frame));
  EXPECT_TRUE(frame == large);
  EXPECT_FALSE(read_frame(here.get(), frame));
  writer.join();
  EXPECT_FALSE(write_frame(here.get(), "nobody reads this")) << "and no signal ends this process";
}

}  // namespace
}  // namespace codetta::base
