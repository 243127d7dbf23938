// SPDX-License-Identifier: Apache-2.0
#include "base/companion.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/retry.hpp"

namespace codetta::base {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int poll_ms = 20;  // and between two looks at the program and the caller
constexpr size_t head_bytes = sizeof(uint64_t);
constexpr std::chrono::milliseconds patience{5000};  // for a process that ends to be gone

std::string head_of(std::string_view frame) {
  const uint64_t size = frame.size();
  std::string head(head_bytes, '\0');
  std::memcpy(head.data(), &size, head_bytes);
  return head;
}

// It stays to be waited for.
bool has_ended(pid_t pid) {
  siginfo_t info{};
  const int asked =
      retry_interrupted([&] { return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT); });
  return asked != 0 || info.si_pid == pid;
}

bool receive_all(int socket, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = retry_interrupted([&] { return ::read(socket, to, bytes); });
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = retry_interrupted([&] { return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

// How frames that are under way stand.
struct Companion::Exchange {
  std::string out_head;
  std::string_view out;
  size_t sent = 0;  // of both
  std::string in_head, in;
  bool head_there = false, done = false, closed = false;

  [[nodiscard]] bool sending() const { return sent < out_head.size() + out.size(); }
  void send_some(int socket) {
    while (sending()) {
      const std::string_view left =
          sent < out_head.size() ? std::string_view(out_head).substr(sent) : out.substr(sent - out_head.size());
      const ssize_t got =
          retry_interrupted([&] { return ::send(socket, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT); });
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got <= 0) {
        sent = out_head.size() + out.size();  // nobody reads it: what is left to read tells
        return;
      }
      sent += static_cast<size_t>(got);
    }
  }
  void receive_some(int socket) {
    std::array<char, 16384> chunk;
    while (!done) {
      const size_t missing = head_there ? expected - in.size() : head_bytes - in_head.size();
      const ssize_t got = retry_interrupted(
          [&] { return ::recv(socket, chunk.data(), std::min(missing, chunk.size()), MSG_DONTWAIT); });
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got <= 0) {
        closed = true;
        return;
      }
      (head_there ? in : in_head).append(chunk.data(), static_cast<size_t>(got));
      if (!head_there && in_head.size() == head_bytes) {
        head_there = true;
        std::memcpy(&expected, in_head.data(), head_bytes);
      }
      done = head_there && in.size() >= expected;
    }
  }
  uint64_t expected = 0;
};

Expected<Companion> Companion::start(const ProcessRequest& request) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return last_error("socketpair", {});
  FileDescriptor ours = above_standard(FileDescriptor(ends[0])), theirs = above_standard(FileDescriptor(ends[1]));
  FileDescriptor nothing = above_standard(FileDescriptor(::open("/dev/null", O_WRONLY | O_CLOEXEC)));
  if (!ours.valid() || !theirs.valid() || !nothing.valid()) return last_error("open", "/dev/null");
  auto spawned = spawn(request, theirs.get(), theirs.get(), nothing.get());
  if (!spawned) return spawned.error();
  return Companion(*std::move(spawned), std::move(ours));
}

int Companion::end() {
  if (spawned_.pid == 0) return 0;
  const pid_t pid = std::exchange(spawned_.pid, 0);
  socket_ = FileDescriptor();
  int status = 0;
  const auto gone = [&] { return retry_interrupted([&] { return ::waitpid(pid, &status, WNOHANG); }) != 0; };
  const bool by_itself = gone();
  ::kill(-pid, SIGKILL);
  if (by_itself) {
    if (!spawned_.status.valid()) return status;
    const auto kept = spawned_.kept();
    return kept ? *kept : 0;
  }
  // One that waits for a device may need a while, and must not keep this process for ever.
  const auto until = Clock::now() + patience;
  while (!gone() && Clock::now() < until) ::poll(nullptr, 0, 1);
  return 0;
}

std::pair<IsolatedOutcome, std::string> Companion::ask(std::string_view frame, const IsolatedLimits& limits) {
  Exchange exchange;
  exchange.out_head = head_of(frame);
  exchange.out = frame;
  return complete(exchange, limits);
}

void Companion::post(std::string_view frame) {
  Exchange exchange;
  exchange.out_head = head_of(frame);
  exchange.out = frame;
  if (alive()) exchange.send_some(socket_.get());
}

std::pair<IsolatedOutcome, std::string> Companion::answer(const IsolatedLimits& limits) {
  Exchange exchange;
  return complete(exchange, limits);
}

std::pair<IsolatedOutcome, std::string> Companion::complete(Exchange& exchange, const IsolatedLimits& limits) {
  const auto start = Clock::now();
  auto asked = start;
  IsolatedOutcome outcome;
  const auto with = [&](IsolatedEnd how) {
    outcome.end = how;
    outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return std::pair(outcome, std::move(exchange.in));
  };
  while (alive()) {
    pollfd watched{socket_.get(), static_cast<short>(POLLIN | (exchange.sending() ? POLLOUT : 0)), 0};
    if (::poll(&watched, 1, poll_ms) > 0) {
      exchange.send_some(socket_.get());
      exchange.receive_some(socket_.get());
    }
    if (exchange.done) return with(IsolatedEnd::Finished);
    const auto now = Clock::now();
    const bool ask = now - asked >= std::chrono::milliseconds(poll_ms);  // not for each part of a large frame
    if (ask) asked = now;
    // The other end may be open in a process that another thread has forked meanwhile.
    const bool gone = ask && has_ended(spawned_.pid);
    if (gone) exchange.receive_some(socket_.get());
    if (exchange.done) return with(IsolatedEnd::Finished);
    if (exchange.closed || gone) {
      // The socket closes a moment before the process is gone, which may have a device to give back.
      for (const auto until = Clock::now() + patience; !has_ended(spawned_.pid) && Clock::now() < until;)
        ::poll(nullptr, 0, 1);
      const int status = end();
      outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      return with(IsolatedEnd::Died);
    }
    const bool late = limits.timeout.count() > 0 && now - start >= limits.timeout;
    if (late || (ask && limits.goes_on && !limits.goes_on())) {
      end();
      return with(late ? IsolatedEnd::TimedOut : IsolatedEnd::Stopped);
    }
  }
  return with(IsolatedEnd::Died);
}

bool read_frame(int socket, std::string& frame) {
  uint64_t size = 0;
  if (!receive_all(socket, reinterpret_cast<char*>(&size), sizeof size)) return false;
  try {
    frame.resize(size);
  } catch (const std::exception&) {
    return false;
  }
  return receive_all(socket, frame.data(), frame.size());
}

bool write_frame(int socket, std::string_view frame) {
  return send_all(socket, head_of(frame)) && send_all(socket, frame);
}

FileDescriptor keep_for_frames(int socket) {
  FileDescriptor kept(::fcntl(socket, F_DUPFD_CLOEXEC, 3));
  if (socket <= 1) {
    const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ::dup2(nothing.get(), 0);
    ::dup2(2, 1);
  }
  return kept;
}

void be_companion() {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
#if defined(__linux__)
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

}  // namespace codetta::base
