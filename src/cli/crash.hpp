// SPDX-License-Identifier: Apache-2.0
// What the command says where a program's own kernel crashes, which takes the command along.
#pragma once

#include <map>
#include <string>

#include "codetta/codetta.hpp"

namespace codetta::cli {

// While it lives, a signal of a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) that comes in a kernel of the user's,
// or in a step behind one, is told on standard error as E0617, with the step and how to get its reproducer; then the
// signal ends the command as it would have. One at a time. Told of the steps of a run by starts(), from one thread.
class CrashTold {
 public:
  // `reproducer`: what a shell takes for a reproducer but for the kernel's name, which goes to its end.
  CrashTold(std::string reproducer, bool json);
  CrashTold(const CrashTold&) = delete;
  CrashTold& operator=(const CrashTold&) = delete;
  ~CrashTold();

  void starts(const StepRecord& step);

 private:
  struct Words {  // on both sides of the signal's name
    std::string before, after;
  };
  [[nodiscard]] Error words_of(const StepRecord& step) const;

  const std::string reproducer_;
  const bool json_;
  std::string own_kernel_, own_step_;  // of the user's, the last that was started
  std::map<std::string, Words> told_;  // by step: loops come again
};

}  // namespace codetta::cli
