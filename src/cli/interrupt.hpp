// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and its like: compilers are ended and their files removed before the command goes.
#pragma once

#include <atomic>
#include <string>

namespace codetta::cli {

// Whether a signal asked the command to end. Contexts watch it while compilers run.
const std::atomic<bool>& interrupted();

// Takes over SIGINT, SIGTERM and SIGHUP, unless they are ignored (nohup). The first one sets interrupted() and, a
// second later, ends the command, which is time to end a compiler; the second one ends it at once. SIGCHLD gets its
// default back, without which no exit status of a compiler would be known.
void catch_interrupts();
// From here on the command looks at interrupted() itself and takes the time it needs: no end after a second.
void take_time_when_interrupted();
// Whether a signal asked the command to end, and it does not take the time it needs.
bool given_up();
// While it lives the command is not ended after a second: for the write of a file, whose end is near.
class Patience {
 public:
  Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  ~Patience();

 private:
  bool former_;
};
// A file that goes where a signal ends the command before this does.
class RemovedWhenEnded {
 public:
  explicit RemovedWhenEnded(const std::string& path);
  RemovedWhenEnded(RemovedWhenEnded&& other) noexcept;
  RemovedWhenEnded& operator=(RemovedWhenEnded&&) = delete;
  ~RemovedWhenEnded();

 private:
  std::atomic<bool>* active_;
};
// Ends the command by this signal, as if nobody had caught it, with the files that go with it. For handlers.
void end_by_signal(int number);
// 128 + the number of the signal, as shells have it; 0 when there was none.
int interrupted_status();

}  // namespace codetta::cli
