// SPDX-License-Identifier: Apache-2.0
// Running other programs: no shell, own process group, bounded output, timeout.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.hpp"
#include "base/files.hpp"

namespace codetta::base {

// Keeps a program that reads its stdin waiting there: it comes to the end, of nothing, when the gate is opened or gone.
class Gate {
 public:
  static Expected<Gate> make();
  void open() { write_end_ = FileDescriptor(); }
  [[nodiscard]] int read_end() const { return read_end_.get(); }

 private:
  Gate(FileDescriptor read_end, FileDescriptor write_end)
      : read_end_(std::move(read_end)), write_end_(std::move(write_end)) {}
  FileDescriptor read_end_, write_end_;
};

struct ProcessRequest {
  std::string program;                   // path, not searched for (see find_executable)
  std::vector<std::string> arguments;    // without the program itself, which becomes argv[0]
  std::vector<std::string> environment;  // "NAME=value"; the child sees these and nothing else
  std::string working_directory;         // empty: the caller's
  std::string input;                     // what it reads from stdin
  const Gate* gate = nullptr;            // its stdin in the place of `input`
  // A FIFO that exists, for a file that it writes (max_output_bytes at most): on_file is called with the bytes, on this
  // thread, as soon as it has closed it, which is before it ends. Not called where it opens none.
  std::string fifo;
  std::function<void(std::string)> on_file;
  size_t max_output_bytes = size_t{4} << 20;  // of stdout and of stderr each; the rest is read and dropped
  std::chrono::milliseconds timeout{0};       // 0: none
  const std::atomic<bool>* cancel = nullptr;  // when it becomes true the run ends within about 20 ms
};

enum class ProcessEnd : uint8_t { Exited, Signaled, TimedOut, Cancelled };

struct ProcessResult {
  ProcessEnd end = ProcessEnd::Exited;
  int exit_code = 0;  // when Exited
  int signal = 0;     // when Signaled
  std::string output;
  std::string errors;
  bool output_cut = false;  // more than max_output_bytes came
  bool errors_cut = false;
  double seconds = 0.0;

  [[nodiscard]] bool success() const { return end == ProcessEnd::Exited && exit_code == 0; }
  // "exit status 1", "signal 11 (Segmentation fault)", "timed out after 2.0 s", "cancelled"
  [[nodiscard]] std::string summary() const;
};

// Runs the program to its end. An error means that it was not started (ENOENT, EACCES, ENOEXEC, E2BIG, EAGAIN, a bad
// working directory, ...) or that its exit status is lost (ECHILD), because the caller collects all children elsewhere.
// A caller that ignores SIGCHLD is served through a forked process that waits in its place. Whatever it leaves running
// in its process group is killed when it ends; timeout and cancel terminate the group and kill it 100 ms later. The
// child is in a group of its own, so Ctrl-C at the terminal reaches the caller only; it inherits no descriptor but 0,
// 1, 2 and starts with default signal handling. Thread-safe; the caller's signal handlers and masks stay as they are.
Expected<ProcessResult> run_process(const ProcessRequest& request);

// The first executable regular file `name` in the colon separated folders; relative and empty entries are skipped. A
// name with a '/' is only checked. nullopt when there is none.
std::optional<std::string> find_executable(std::string_view name, std::string_view path_list);

}  // namespace codetta::base
