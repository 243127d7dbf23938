// SPDX-License-Identifier: Apache-2.0
// fork, a pipe for the child's word that it is done, and a poll loop.
#include "base/isolated.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/files.hpp"
#include "base/retry.hpp"

namespace codetta::base {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int tick_ms = 20;

[[noreturn]] void be_the_child(const std::function<void()>& work, int word, pid_t parent) {
#if defined(__linux__)
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before that was set
#else
  (void)parent;
#endif
  // The host program's handlers (crash reporters, Ctrl-C) are not for what happens here.
  for (const int deadly : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGTERM, SIGINT})
    ::signal(deadly, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  work();
  const char done = 1;
  (void)!::write(word, &done, 1);
  ::_exit(0);
}

struct IsolatedChild {
  pid_t id = 0;
  // Empty while it runs. Where the host reaps all children itself nothing is known but that this one is gone: status 0.
  std::optional<int> ended(bool wait) const {
    int status = 0;
    const pid_t got = retry_interrupted([&] { return ::waitpid(id, &status, wait ? 0 : WNOHANG); });
    if (got == 0) return std::nullopt;
    return got == id ? status : 0;
  }
  // Kills it unless it has ended, and takes it off the system's table.
  void finish() const {
    if (ended(false)) return;
    ::kill(id, SIGKILL);
    ended(true);
  }
};

}  // namespace

Expected<IsolatedOutcome> run_isolated(const std::function<void()>& work, const IsolatedLimits& limits) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return last_error("pipe", {});
  const FileDescriptor word(ends[0]);
  FileDescriptor sender(ends[1]);
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  const auto start = Clock::now();
  const auto elapsed = [&] { return Clock::now() - start; };
  const pid_t parent = ::getpid(), id = ::fork();
  if (id < 0) return last_error("fork", {});
  if (id == 0) be_the_child(work, sender.get(), parent);
  sender = FileDescriptor();
  const IsolatedChild child{id};
  IsolatedOutcome outcome;
  const auto with = [&](IsolatedEnd end) {
    outcome.end = end;
    outcome.seconds = std::chrono::duration<double>(elapsed()).count();
    return outcome;
  };
  while (true) {
    pollfd watched{word.get(), POLLIN, 0};
    const int ready = ::poll(&watched, 1, tick_ms);
    char byte = 0;
    if (ready > 0 && (watched.revents & POLLIN) != 0 &&
        retry_interrupted([&] { return ::read(word.get(), &byte, 1); }) == 1) {
      child.finish();
      return with(IsolatedEnd::Finished);
    }
    // The other end may still be open in a process that another thread has forked meanwhile: the status decides.
    const bool closed = ready > 0;
    if (const std::optional<int> status = child.ended(closed)) {
      // Its word may have come between the poll and this.
      pollfd late{word.get(), POLLIN, 0};
      if (!closed && ::poll(&late, 1, 0) > 0 && (late.revents & POLLIN) != 0) return with(IsolatedEnd::Finished);
      outcome.signal = WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
      return with(IsolatedEnd::Died);
    }
    const bool late = limits.timeout.count() > 0 && elapsed() >= limits.timeout;
    if (late || (limits.goes_on && !limits.goes_on())) {
      child.finish();
      return with(late ? IsolatedEnd::TimedOut : IsolatedEnd::Stopped);
    }
  }
}

std::string IsolatedOutcome::summary() const {
  switch (end) {
    case IsolatedEnd::Finished:
      return "finished";
    case IsolatedEnd::Died:
      return signal == 0 ? "an exit of its own" : fmt::format("signal {} ({})", signal, ::strsignal(signal));
    case IsolatedEnd::TimedOut:
      return fmt::format("no end within {:.1f} s", seconds);
    case IsolatedEnd::Stopped:
      break;
  }
  return "stopped";
}

}  // namespace codetta::base
