// SPDX-License-Identifier: Apache-2.0
// What the command says where a program's own kernel crashes, which takes the command along.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "codetta/codetta.hpp"

namespace codetta::cli {

// What is said of one step, made before the run. Its words have places for what only the handler knows.
struct CrashWords {
  enum class Place : unsigned char { end, signal, own_step, own_kernel };
  struct Piece {
    std::string text;
    Place behind = Place::end;  // what follows the text
  };
  std::vector<Piece> pieces;
  bool own = false;          // the step runs a kernel of the user's:
  std::string step, kernel;  // named so
};

// While it lives, a signal of a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) that comes in a kernel of the user's,
// or in a step behind one, is told on standard error as E0617, with the step and how to get its reproducer; then the
// signal ends the command as it would have. One at a time.
class CrashTold {
 public:
  // `reproducer`: what a shell takes for a reproducer but for the kernel's name, which goes to its end.
  CrashTold(std::string reproducer, bool json);
  CrashTold(const CrashTold&) = delete;
  CrashTold& operator=(const CrashTold&) = delete;
  ~CrashTold();

  // What is called before the step runs, from one thread: it stores where the run is, and that alone.
  std::function<void()> starting(const StepRecord& step);

 private:
  [[nodiscard]] Error words_of(const StepRecord& step) const;

  const std::string reproducer_;
  const bool json_;
  std::deque<CrashWords> told_;  // by step; they stay where they are
};

}  // namespace codetta::cli
