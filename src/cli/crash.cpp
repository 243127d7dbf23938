// SPDX-License-Identifier: Apache-2.0
// The handler only does what one may do: it reads an atomic and writes what is there.
#include "cli/crash.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <string_view>
#include <utility>

#include "cli/interrupt.hpp"

namespace codetta::cli {

namespace {

constexpr struct {
  int number;
  const char* name;
} crashes[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}, {SIGABRT, "SIGABRT"}};
constexpr size_t crash_count = std::size(crashes);
// Stand in a text for what the handler knows.
constexpr struct {
  CrashWords::Place place;
  std::string_view text;
} marks[] = {{CrashWords::Place::signal, "(signal)"},
             {CrashWords::Place::own_step, "(own step)"},
             {CrashWords::Place::own_kernel, "(own kernel)"}};

// The step that runs, and the last one that ran a kernel of the user's; null before one.
std::atomic<const CrashWords*> running{nullptr}, own_step{nullptr};
std::atomic<bool> telling{false};
static_assert(std::atomic<const CrashWords*>::is_always_lock_free);

struct sigaction former_actions[crash_count];
// A recursion without end leaves no stack.
alignas(16) std::byte own_stack[1 << 16];
stack_t former_stack;

void write_words(std::string_view words) {
  const char* text = words.data();
  size_t bytes = words.size();
  while (bytes > 0) {
    const ssize_t written = ::write(STDERR_FILENO, text, bytes);
    if (written <= 0) return;
    text += written;
    bytes -= static_cast<size_t>(written);
  }
}

void write_name(int number) {
  for (const auto& crash : crashes) {
    if (crash.number == number) write_words(crash.name);
  }
}

extern "C" void on_crash(int number) {
  // Threads that share a step crash together: one tells, and its signal ends the others.
  while (telling.exchange(true)) ::pause();
  const CrashWords* const words = running.load();
  const CrashWords* const own = own_step.load();
  if (words != nullptr && own != nullptr) {
    for (const CrashWords::Piece& piece : words->pieces) {
      write_words(piece.text);
      if (piece.behind == CrashWords::Place::signal) write_name(number);
      if (piece.behind == CrashWords::Place::own_step) write_words(own->step);
      if (piece.behind == CrashWords::Place::own_kernel) write_words(own->kernel);
    }
  }
  end_by_signal(number);
}

// Cut at the marks, each of which stands once: the order is that of the form, text or JSON. Of a kernel of the user's
// own there is the signal alone.
std::vector<CrashWords::Piece> pieces_of(std::string text, bool own) {
  std::vector<CrashWords::Piece> pieces;
  size_t used[std::size(marks)] = {};
  for (size_t left = own ? 1 : std::size(marks); left > 0; --left) {
    size_t at = std::string::npos, next = 0;
    for (size_t i = 0; i < (own ? 1 : std::size(marks)); ++i) {
      const size_t found = used[i] != 0 ? std::string::npos : text.find(marks[i].text);
      if (found < at) at = found, next = i;
    }
    if (at == std::string::npos) break;
    used[next] = 1;
    pieces.push_back({text.substr(0, at), marks[next].place});
    text.erase(0, at + marks[next].text.size());
  }
  pieces.push_back({std::move(text), CrashWords::Place::end});
  return pieces;
}

}  // namespace

CrashTold::CrashTold(std::string reproducer, bool json) : reproducer_(std::move(reproducer)), json_(json) {
  stack_t stack{};
  stack.ss_sp = own_stack;
  stack.ss_size = sizeof own_stack;
  ::sigaltstack(&stack, &former_stack);
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK;
  for (const auto& crash : crashes) ::sigaddset(&action.sa_mask, crash.number);
  for (size_t i = 0; i < crash_count; ++i) ::sigaction(crashes[i].number, &action, &former_actions[i]);
}

CrashTold::~CrashTold() {
  running.store(nullptr);
  own_step.store(nullptr);
  for (size_t i = 0; i < crash_count; ++i) ::sigaction(crashes[i].number, &former_actions[i], nullptr);
  ::sigaltstack(&former_stack, nullptr);
}

Error CrashTold::words_of(const StepRecord& step) const {
  const bool is_own = !step.function.empty();
  Diagnostic diagnostic;
  diagnostic.code = 617;
  diagnostic.headline = (step.kernel.empty() ? step.step : "kernel " + (is_own ? step.function : step.kernel)) +
                        " crashed: " + std::string(marks[0].text);
  diagnostic.reason = step.step + (is_own ? ", kernel " + step.kernel : std::string());
  for (size_t i = 0; i < step.origins.size(); ++i) diagnostic.reason += (i == 0 ? ", for " : "; ") + step.origins[i];
  if (!is_own)
    diagnostic.notes.push_back(
        {std::string(marks[1].text) + ", ran before it, and may have written where it may not", {}});
  diagnostic.help = "`" + reproducer_ + " " + (is_own ? step.kernel : std::string(marks[2].text)) +
                    "` makes a program of this kernel alone, for a debugger or a sanitizer";
  return Error(std::move(diagnostic));
}

std::function<void()> CrashTold::starting(const StepRecord& step) {
  const Error error = words_of(step);
  CrashWords& words = told_.emplace_back();
  words.own = !step.function.empty();
  words.step = step.step + ", kernel " + step.kernel;
  words.kernel = step.kernel;
  words.pieces = pieces_of(json_ ? error.to_json() + "\n" : error.render(), words.own);
  return [&words] {
    running.store(&words, std::memory_order_release);
    if (words.own) own_step.store(&words, std::memory_order_release);
  };
}

}  // namespace codetta::cli
