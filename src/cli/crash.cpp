// SPDX-License-Identifier: Apache-2.0
// The handler only does what one may do: it reads an atomic and writes what is there.
#include "cli/crash.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/interrupt.hpp"

namespace codetta::cli {

namespace {

constexpr struct {
  int number;
  const char* name;
} crashes[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}, {SIGABRT, "SIGABRT"}};
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

// A recursion without end leaves no stack.
alignas(16) std::byte own_stack[1 << 16];
// Of the words: address space, of which what is used is taken.
constexpr size_t room = size_t{64} << 20;

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
    for (size_t i = 0; i < words->count; ++i) {
      const CrashWords::Piece& piece = words->pieces[i];
      write_words(piece.text);
      if (piece.behind == CrashWords::Place::signal) write_name(number);
      if (piece.behind == CrashWords::Place::own_step) write_words(own->step);
      if (piece.behind == CrashWords::Place::own_kernel) write_words(own->kernel);
    }
  }
  end_by_signal(number);
}

struct Cut {
  std::string text;
  CrashWords::Place behind;
};
// Cut at the marks, each of which stands once: the order is that of the form, text or JSON. Of a kernel of the user's
// own there is the signal alone.
std::vector<Cut> pieces_of(std::string text, bool own) {
  std::vector<Cut> pieces;
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
  void* const memory =
      ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  memory_ = static_cast<std::byte*>(memory);
  behind_ = keep(words_behind(), {});
  stack_t stack{};
  stack.ss_sp = own_stack;
  stack.ss_size = sizeof own_stack;
  ::sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK;
  for (const auto& crash : crashes) ::sigaddset(&action.sa_mask, crash.number);
  for (const auto& crash : crashes) ::sigaction(crash.number, &action, nullptr);
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

Error CrashTold::words_behind() const {
  Diagnostic diagnostic;
  diagnostic.code = 617;
  diagnostic.headline = "the command crashed behind the run: " + std::string(marks[0].text);
  diagnostic.reason = std::string(marks[1].text) + ", ran before that, and may have written where it may not";
  diagnostic.help = "`" + reproducer_ + " " + std::string(marks[2].text) +
                    "` makes a program of this kernel alone, for a debugger or a sanitizer";
  return Error(std::move(diagnostic));
}

std::byte* CrashTold::take(size_t bytes) {
  const size_t begin = (used_ + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
  if (memory_ == nullptr || bytes > room || begin > room - bytes) return nullptr;
  used_ = begin + bytes;
  return memory_ + begin;
}

bool CrashTold::take(std::string_view text, std::string_view& kept) {
  std::byte* const memory = take(text.size());
  if (memory == nullptr) return false;
  std::memcpy(memory, text.data(), text.size());
  kept = {reinterpret_cast<const char*>(memory), text.size()};
  return true;
}

const CrashWords* CrashTold::keep(const Error& error, const StepRecord& step) {
  const bool own = !step.function.empty();
  const std::vector<Cut> cuts = pieces_of(json_ ? error.to_json() + "\n" : error.render(), own);
  std::byte* const memory = take(sizeof(CrashWords));
  std::byte* const list = take(cuts.size() * sizeof(CrashWords::Piece));
  if (memory == nullptr || list == nullptr) return nullptr;
  auto* const words = new (memory) CrashWords;
  auto* const pieces = reinterpret_cast<CrashWords::Piece*>(list);
  for (size_t i = 0; i < cuts.size(); ++i) {
    auto* const piece = new (pieces + i) CrashWords::Piece{{}, cuts[i].behind};
    if (!take(cuts[i].text, piece->text)) return nullptr;
  }
  words->pieces = pieces;
  words->count = cuts.size();
  words->own = own;
  if (!take(step.step + ", kernel " + step.kernel, words->step) || !take(step.kernel, words->kernel)) return nullptr;
  return words;
}

std::function<void()> CrashTold::starting(const StepRecord& step) {
  const CrashWords* const words = keep(words_of(step), step);
  if (words == nullptr) return {};
  return [words] {
    running.store(words, std::memory_order_release);
    if (words->own) own_step.store(words, std::memory_order_release);
  };
}

void CrashTold::run_begins() {
  if (memory_ != nullptr) ::mprotect(memory_, room, PROT_READ);
  memory_ = nullptr;
}

void CrashTold::run_ended() { running.store(behind_, std::memory_order_release); }

}  // namespace codetta::cli
