// SPDX-License-Identifier: Apache-2.0
#include "base/isolated.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

namespace codetta::base {
namespace {

using std::chrono::milliseconds;

IsolatedOutcome isolated(const std::function<void()>& work, const IsolatedLimits& limits = {milliseconds(60000), {}}) {
  const auto outcome = run_isolated(work, limits);
  EXPECT_TRUE(outcome);
  return outcome ? *outcome : IsolatedOutcome{};
}

void wait_forever() {
  while (true) ::pause();
}

TEST(Isolated, WhatItWritesStaysThere) {
  int value = 1;
  EXPECT_EQ(isolated([&] { value = 2; }).end, IsolatedEnd::Finished);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // nothing is left behind
}

TEST(Isolated, DeadlySignals) {
  for (const int signal : {SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGABRT, SIGKILL}) {
    const IsolatedOutcome outcome = isolated([&] { ::raise(signal); });
    EXPECT_EQ(outcome.end, IsolatedEnd::Died);
    EXPECT_EQ(outcome.signal, signal);
  }
  EXPECT_EQ(isolated([] { ::raise(SIGSEGV); }).summary(), "signal 11 (Segmentation fault)");
}

TEST(Isolated, HandlersOfTheHostStayOut) {
  struct sigaction action {
  }, former{};
  action.sa_handler = [](int) { ::_exit(0); };
  ::sigaction(SIGSEGV, &action, &former);
  const IsolatedOutcome outcome = isolated([] { ::raise(SIGSEGV); });
  ::sigaction(SIGSEGV, &former, nullptr);
  EXPECT_EQ(outcome.signal, SIGSEGV);
}

TEST(Isolated, AnExitOfItsOwnIsNoEnd) {
  const IsolatedOutcome outcome = isolated([] { ::_exit(0); });
  EXPECT_EQ(outcome.end, IsolatedEnd::Died);
  EXPECT_EQ(outcome.summary(), "an exit of its own");
}

TEST(Isolated, ForeverEndsInTime) {
  const IsolatedOutcome outcome = isolated(wait_forever, {milliseconds(100), {}});
  EXPECT_EQ(outcome.end, IsolatedEnd::TimedOut);
  EXPECT_GE(outcome.seconds, 0.1);
  EXPECT_NE(outcome.summary().find("no end within "), std::string::npos);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Isolated, StopsWhenAsked) {
  int asked = 0;
  EXPECT_EQ(isolated(wait_forever, {milliseconds(0), [&] { return ++asked < 3; }}).end, IsolatedEnd::Stopped);
  EXPECT_EQ(asked, 3);
}

TEST(Isolated, WhereTheHostReapsItsChildrenItself) {
  struct sigaction ignore {
  }, former{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &ignore, &former);
  const IsolatedEnd fine = isolated([] {}).end, dead = isolated([] { ::raise(SIGSEGV); }).end;
  ::sigaction(SIGCHLD, &former, nullptr);
  EXPECT_EQ(fine, IsolatedEnd::Finished);
  EXPECT_EQ(dead, IsolatedEnd::Died);
}

TEST(Isolated, ManyAtOnce) {
  std::atomic<int> finished = 0, died = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const bool dies = (i + t) % 2 == 0;
        const auto outcome = run_isolated([&] { dies ? std::abort() : void(); }, {milliseconds(60000), {}});
        if (outcome && outcome->end == (dies ? IsolatedEnd::Died : IsolatedEnd::Finished)) ++(dies ? died : finished);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(finished, 20);
  EXPECT_EQ(died, 20);
}

}  // namespace
}  // namespace codetta::base
