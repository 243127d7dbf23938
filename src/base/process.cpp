// SPDX-License-Identifier: Apache-2.0
// One poll loop over a child's streams and its end.
#include "base/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "base/files.hpp"
#include "base/retry.hpp"
#include "base/spawn.hpp"
#include "base/text.hpp"

namespace codetta::base {

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds grace{100};
constexpr Milliseconds cancel_tick{20};
constexpr Milliseconds blind_tick{2};  // where the system can't make the child's end pollable

// The input as an unnamed file: no pipe to feed, so no SIGPIPE and no deadlock with a child that doesn't read.
Expected<FileDescriptor> make_input(const std::string& input) {
  FileDescriptor file;
  if (input.empty()) {
    file = FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!file.valid()) return last_error("open", "/dev/null");
  } else {
#if defined(__linux__)
    file = FileDescriptor(SystemCalls::real().memfd_create("codetta-stdin", 1U /* MFD_CLOEXEC */));
    if (!file.valid()) return last_error("memfd_create", {});
#else
    std::string name = "/tmp/codetta-XXXXXX";
    file = FileDescriptor(::mkstemp(name.data()));
    if (!file.valid()) return last_error("mkstemp", name);
    ::unlink(name.c_str());
    ::fcntl(file.get(), F_SETFD, FD_CLOEXEC);
#endif
    if (auto written = write_all(file, input); !written) return written.error();
    if (::lseek(file.get(), 0, SEEK_SET) != 0) return last_error("lseek", {});
  }
  file = above_standard(std::move(file));
  if (!file.valid()) return last_error("dup", {});
  return file;
}

// Reads what is there now, at most what a full pipe can hold, lest a fast writer keep the caller from looking at the
// clock. False at the end of the stream.
bool drain(int fd, size_t limit, std::string& text, bool& cut) {
  std::array<char, 16384> chunk;
  for (int i = 0; i < 64; ++i) {
    const ssize_t got = retry_interrupted([&] { return ::read(fd, chunk.data(), chunk.size()); });
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (got == 0) return false;
    const size_t kept = std::min(static_cast<size_t>(got), limit - std::min(limit, text.size()));
    text.append(chunk.data(), kept);
    cut = cut || kept < static_cast<size_t>(got);
  }
  return true;
}

// A file that the program writes to a FIFO.
class WrittenFile {
 public:
  WrittenFile(const ProcessRequest& request) : request_(request) {}
  Expected<bool> open() {
    if (request_.fifo.empty()) return true;
    fd_ = FileDescriptor(::open(request_.fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!fd_.valid()) return last_error("open", request_.fifo);
    return true;
  }
  [[nodiscard]] int watch() const { return fd_.get(); }  // readable, or hung up, from when the program has opened it
  // What is there; at its end the caller gets it. `ended`: nobody writes any more, if anybody has.
  void read(bool ended) {
    if (!fd_.valid()) return;
    bool cut = false;
    const bool more = drain(fd_.get(), request_.max_output_bytes, bytes_, cut);
    if (more && !ended) return;
    // Who opened it without writing was not the last, perhaps. A second descriptor has seen nobody hang up; without any
    // the next one to write would wait for a reader.
    FileDescriptor again;
    if (!ended && bytes_.empty())
      again = FileDescriptor(::open(request_.fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    fd_ = std::move(again);
    if (!bytes_.empty() && request_.on_file) request_.on_file(std::move(bytes_));
  }

 private:
  const ProcessRequest& request_;
  FileDescriptor fd_;
  std::string bytes_;
};

// A running child. The destructor leaves no process behind, whatever path led there.
class Child {
 public:
  explicit Child(Spawned spawned) : spawned_(std::move(spawned)), pid_(spawned_.pid) {
#if defined(SYS_pidfd_open)
    watch_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
#endif
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!reaped_) (void)reap();
  }

  [[nodiscard]] int watch() const { return watch_.get(); }  // readable when the child has ended, -1 where unsupported
  void signal_group(int number) const { ::kill(-pid_, number); }

  // Leaves the child unreaped, so that its group id can't pass to others before reap().
  [[nodiscard]] bool ended() const {
    siginfo_t info{};
    const int got =
        retry_interrupted([&] { return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT); });
    return got != 0 || info.si_pid == pid_;
  }

  Expected<int> reap() {
    signal_group(SIGKILL);
    reaped_ = true;
    int status = 0;
    const pid_t got = retry_interrupted([&] { return ::waitpid(pid_, &status, 0); });
    const int problem = errno;
    if (spawned_.status.valid()) return spawned_.kept();
    if (got == pid_) return status;
    // Guessing would be worse. Either all children are collected elsewhere, or SIGCHLD is ignored since the start.
    if (problem == ECHILD)
      return SystemError{ECHILD, "wait, while another part of this process collects or ignores its children", {}};
    errno = problem;
    return last_error("wait", {});
  }

 private:
  Spawned spawned_;
  pid_t pid_;
  FileDescriptor watch_;
  bool reaped_ = false;
};

}  // namespace

std::string ProcessResult::summary() const {
  switch (end) {
    case ProcessEnd::Exited:
      return fmt::format("exit status {}", exit_code);
    case ProcessEnd::Signaled:
      return fmt::format("signal {} ({})", signal, ::strsignal(signal));
    case ProcessEnd::TimedOut:
      return fmt::format("timed out after {:.1f} s", seconds);
    case ProcessEnd::Cancelled:
      return "cancelled";
  }
  return {};
}

Expected<ProcessResult> run_process(const ProcessRequest& request) {
  const auto has_zero = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  if (has_zero(request.program) || has_zero(request.working_directory) ||
      std::any_of(request.arguments.begin(), request.arguments.end(), has_zero) ||
      std::any_of(request.environment.begin(), request.environment.end(), has_zero)) {
    return SystemError{EINVAL, "start", request.program};
  }
  if (struct stat info{}; !request.working_directory.empty()) {
    const std::string& folder = request.working_directory;
    if (::stat(folder.c_str(), &info) != 0) return last_error("chdir", folder);
    if (!S_ISDIR(info.st_mode)) return SystemError{ENOTDIR, "chdir", folder};
  }
  const auto begin = Clock::now();
  FileDescriptor input;
  if (request.gate == nullptr) {
    auto made = make_input(request.input);
    if (!made) return made.error();
    input = *std::move(made);
  }
  WrittenFile file(request);
  if (auto opened = file.open(); !opened) return opened.error();
  auto output = make_pipe();
  if (!output) return output.error();
  auto errors = make_pipe();
  if (!errors) return errors.error();
  auto spawned = spawn(request, request.gate ? request.gate->read_end() : input.get(), output->write_end.get(),
                       errors->write_end.get());
  if (!spawned) return spawned.error();
  Child child(*std::move(spawned));
  output->write_end = FileDescriptor();
  errors->write_end = FileDescriptor();

  ProcessResult result;
  std::optional<Clock::time_point> kill_at;
  std::array<pollfd, 4> watched{{{output->read_end.get(), POLLIN, 0},
                                 {errors->read_end.get(), POLLIN, 0},
                                 {child.watch(), POLLIN, 0},
                                 {file.watch(), POLLIN, 0}}};
  const auto read_all = [&] {
    if (!drain(output->read_end.get(), request.max_output_bytes, result.output, result.output_cut)) watched[0].fd = -1;
    if (!drain(errors->read_end.get(), request.max_output_bytes, result.errors, result.errors_cut)) watched[1].fd = -1;
  };
  while (!child.ended()) {
    const auto now = Clock::now();
    if (!kill_at) {
      const bool cancelled = request.cancel != nullptr && request.cancel->load(std::memory_order_relaxed);
      const bool late = request.timeout.count() > 0 && now - begin >= request.timeout;
      if (cancelled || late) {
        result.end = cancelled ? ProcessEnd::Cancelled : ProcessEnd::TimedOut;
        child.signal_group(SIGTERM);
        child.signal_group(SIGCONT);  // a stopped child couldn't act on it
        kill_at = now + grace;
      }
    } else if (now >= *kill_at) {
      child.signal_group(SIGKILL);
      kill_at = now + grace;
    }
    Milliseconds wait{60'000};
    if (kill_at) {
      wait = std::min(wait, std::chrono::ceil<Milliseconds>(*kill_at - now));
    } else if (request.timeout.count() > 0) {
      wait = std::min(wait, std::chrono::ceil<Milliseconds>(begin + request.timeout - now));
    }
    if (request.cancel != nullptr) wait = std::min(wait, cancel_tick);
    if (child.watch() < 0) wait = std::min(wait, blind_tick);
    const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(wait.count(), 0)));
    if (ready > 0) read_all();
    if (ready > 0 && watched[3].revents != 0) {
      file.read(false);
      watched[3].fd = file.watch();
    }
  }
  // What is in the pipes now is all that counts; a left-over grandchild may hold them open, and dies with the group.
  child.signal_group(SIGKILL);
  read_all();
  file.read(true);
  auto status = child.reap();
  if (result.end == ProcessEnd::Exited) {
    if (!status) return status.error();
    if (WIFSIGNALED(*status)) {
      result.end = ProcessEnd::Signaled;
      result.signal = WTERMSIG(*status);
    } else {
      result.exit_code = WEXITSTATUS(*status);
    }
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return result;
}

Expected<Gate> Gate::make() {
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  if (::fcntl(pipe->read_end.get(), F_SETFL, 0) != 0) return last_error("pipe", {});
  return Gate(std::move(pipe->read_end), std::move(pipe->write_end));
}

std::optional<std::string> find_executable(std::string_view name, std::string_view path_list) {
  const auto executable = [](const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
           ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
  };
  if (name.empty() || name.find('\0') != std::string_view::npos) return std::nullopt;
  if (name.find('/') != std::string_view::npos) {
    std::string path(name);
    if (!executable(path)) return std::nullopt;
    return path;
  }
  for (const std::string_view folder : split(path_list, ':')) {
    if (!folder.starts_with('/')) continue;
    std::string path = std::string(folder) + (folder.ends_with('/') ? "" : "/") + std::string(name);
    if (executable(path)) return path;
  }
  return std::nullopt;
}

}  // namespace codetta::base
