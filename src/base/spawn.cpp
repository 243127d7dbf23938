// SPDX-License-Identifier: Apache-2.0
// posix_spawn (a vfork underneath, so that a large caller doesn't pay for its page tables), behind a fork only where
// the host ignores SIGCHLD.
#include "base/spawn.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/retry.hpp"

namespace codetta::base {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts, const std::string* first) {
  std::vector<char*> out;
  out.reserve(texts.size() + 2);
  // The exec family promises not to write through these.
  if (first != nullptr) out.push_back(const_cast<char*>(first->c_str()));
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// All that a start needs, made before any fork: start() itself allocates nothing.
class Launch {
 public:
  Launch(const ProcessRequest& request, int input, int output, int errors)
      : program_(request.program.c_str()),
        arguments_(pointers(request.arguments, &request.program)),
        environment_(pointers(request.environment, nullptr)) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    failed_ = ::posix_spawn_file_actions_adddup2(&actions_, input, 0);
    if (failed_ == 0) failed_ = ::posix_spawn_file_actions_adddup2(&actions_, output, 1);
    if (failed_ == 0) failed_ = ::posix_spawn_file_actions_adddup2(&actions_, errors, 2);
    if (failed_ == 0 && !request.working_directory.empty())
      failed_ = ::posix_spawn_file_actions_addchdir_np(&actions_, request.working_directory.c_str());
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
    if (failed_ == 0) failed_ = ::posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
#endif
#endif
    sigset_t all{};
    sigset_t none{};
    sigfillset(&all);
    sigemptyset(&none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  // Into the process group `group`, 0 for one of its own. 0, or an errno.
  int start(pid_t group, pid_t& pid) {
    if (failed_ != 0) return failed_;
    ::posix_spawnattr_setpgroup(&attributes_, group);
    return ::posix_spawn(&pid, program_, &actions_, &attributes_, arguments_.data(), environment_.data());
  }

 private:
  const char* program_;
  std::vector<char*> arguments_, environment_;
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  int failed_ = 0;
};

void close_all_but(int kept) {
#if defined(SYS_close_range)
  if (kept > 0) ::syscall(SYS_close_range, 0U, static_cast<unsigned>(kept - 1), 0U);
  ::syscall(SYS_close_range, static_cast<unsigned>(kept + 1), ~0U, 0U);
#else
  (void)kept;
#endif
}

// The forked process: two numbers go to `report`, the errno of the start and the program's wait status. It outlives a
// SIGTERM to the group, so that the program has its grace.
[[noreturn]] void keep(Launch& launch, int report) {
  for (int number = 1; number < NSIG; ++number) ::signal(number, number == SIGTERM ? SIG_IGN : SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setpgid(0, 0);
  pid_t program = 0;
  const int failed = launch.start(::getpid(), program);
  (void)!::write(report, &failed, sizeof failed);
  if (failed != 0) ::_exit(0);
  close_all_but(report);
  int status = 0;
  if (retry_interrupted([&] { return ::waitpid(program, &status, 0); }) == program)
    (void)!::write(report, &status, sizeof status);
  ::_exit(0);
}

bool statuses_are_dropped() {
  struct sigaction action {};
  return ::sigaction(SIGCHLD, nullptr, &action) == 0 &&
         (action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0);
}

Expected<Spawned> spawn_keeper(Launch& launch, const std::string& program) {
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  const pid_t keeper = ::fork();
  if (keeper < 0) return last_error("fork", {});
  if (keeper == 0) keep(launch, pipe->write_end.get());
  pipe->write_end = FileDescriptor();
  Spawned spawned{keeper, std::move(pipe->read_end)};
  pollfd word{spawned.status.get(), POLLIN, 0};
  retry_interrupted([&] { return ::poll(&word, 1, -1); });
  const auto failed = spawned.kept();
  if (failed && *failed == 0) return spawned;
  // It ends by itself. Until then it is a child, which nobody would wait for if statuses were kept again by then.
  retry_interrupted([&] { return ::waitpid(keeper, nullptr, 0); });
  if (!failed) return failed.error();
  return SystemError{*failed, "start", program};
}

}  // namespace

FileDescriptor above_standard(FileDescriptor fd) {
  if (fd.get() > 2 || !fd.valid()) return fd;
  return FileDescriptor(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
}

Expected<Pipe> make_pipe() {
  std::array<int, 2> ends{};
#if defined(__linux__)
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return last_error("pipe", {});
#else
  if (::pipe(ends.data()) != 0) return last_error("pipe", {});
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
#endif
  Pipe pipe{above_standard(FileDescriptor(ends[0])), above_standard(FileDescriptor(ends[1]))};
  if (!pipe.read_end.valid() || !pipe.write_end.valid()) return last_error("pipe", {});
  if (::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK) != 0) return last_error("pipe", {});
  return pipe;
}

Expected<int> Spawned::kept() const {
  int word = 0;
  const ssize_t got = retry_interrupted([&] { return ::read(status.get(), &word, sizeof word); });
  if (got == static_cast<ssize_t>(sizeof word)) return word;
  return SystemError{ECHILD, "wait, since somebody ended the process that waits", {}};
}

Expected<Spawned> spawn(const ProcessRequest& request, int input, int output, int errors) {
  Launch launch(request, input, output, errors);
  if (statuses_are_dropped()) return spawn_keeper(launch, request.program);
  Spawned spawned;
  if (const int failed = launch.start(0, spawned.pid); failed != 0)
    return SystemError{failed, "start", request.program};
  return spawned;
}

}  // namespace codetta::base
