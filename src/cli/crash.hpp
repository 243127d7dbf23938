// SPDX-License-Identifier: Apache-2.0
// What the command says where a program's own kernel crashes, which takes the command along.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "codetta/codetta.hpp"

namespace codetta::cli {

// What is said of one step, made before the run. Its words have places for what only the handler knows.
struct CrashWords {
  enum class Place : unsigned char { end, signal, own_step, own_kernel };
  struct Piece {
    std::string_view text;
    Place behind = Place::end;  // what follows the text
  };
  const Piece* pieces = nullptr;
  size_t count = 0;
  bool own = false;               // the step runs a kernel of the user's:
  std::string_view step, kernel;  // named so
};

// From when it is made to the end of the process, a signal of a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) that
// comes in a kernel of the user's, or in whatever runs behind one, is told on standard error as E0617, with the step
// and how to get its reproducer; then the signal ends the command as it would have. One in a process.
class CrashTold {
 public:
  // `reproducer`: what a shell takes for a reproducer but for the kernel's name, which goes to its end.
  CrashTold(std::string reproducer, bool json);
  CrashTold(const CrashTold&) = delete;
  CrashTold& operator=(const CrashTold&) = delete;

  // What is called before the step runs, from one thread: it stores where the run is, and that alone. Empty where there
  // is no room for more words.
  std::function<void()> starting(const StepRecord& step);
  // All steps are known: from here on nothing writes to the words, be it a kernel that writes anywhere.
  void run_begins();
  // What crashes from here on is no step's.
  void run_ended();

 private:
  [[nodiscard]] Error words_of(const StepRecord& step) const;
  [[nodiscard]] Error words_behind() const;
  // Null where there is no room for them.
  const CrashWords* keep(const Error& error, const StepRecord& step);
  std::byte* take(size_t bytes);
  bool take(std::string_view text, std::string_view& kept);

  const std::string reproducer_;
  const bool json_;
  std::byte* memory_ = nullptr;  // of the words, apart from all that kernels are handed
  size_t used_ = 0;
  const CrashWords* behind_ = nullptr;
};

}  // namespace codetta::cli
