// SPDX-License-Identifier: Apache-2.0
// The handler only does what one may do: it reads an atomic and writes what is there.
#include "cli/crash.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <utility>

#include "cli/interrupt.hpp"

namespace codetta::cli {

namespace {

constexpr struct {
  int number;
  const char* name;
} crashes[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}, {SIGABRT, "SIGABRT"}};
constexpr size_t crash_count = std::size(crashes);
// Stands for the name until the handler knows it.
constexpr const char* signal_mark = "(signal)";

// What the handler writes, on both sides of the name: texts that stay where they are meanwhile.
std::atomic<const std::string*> before_name{nullptr}, after_name{nullptr};
std::atomic<bool> telling{false};
static_assert(std::atomic<const std::string*>::is_always_lock_free);

struct sigaction former_actions[crash_count];
// A recursion without end leaves no stack.
alignas(16) std::byte own_stack[1 << 16];
stack_t former_stack;

void write_words(const char* text, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(STDERR_FILENO, text, bytes);
    if (written <= 0) return;
    text += written;
    bytes -= static_cast<size_t>(written);
  }
}

extern "C" void on_crash(int number) {
  // Threads that share a step crash together: one tells, and its signal ends the others.
  while (telling.exchange(true)) ::pause();
  const std::string* const before = before_name.load();
  const std::string* const after = after_name.load();
  if (before != nullptr && after != nullptr) {
    write_words(before->data(), before->size());
    for (const auto& crash : crashes) {
      size_t length = 0;
      while (crash.name[length] != '\0') ++length;
      if (crash.number == number) write_words(crash.name, length);
    }
    write_words(after->data(), after->size());
  }
  end_by_signal(number);
}

void set_words(const std::string* before, const std::string* after) {
  before_name.store(before);
  after_name.store(after);
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
  set_words(nullptr, nullptr);
  for (size_t i = 0; i < crash_count; ++i) ::sigaction(crashes[i].number, &former_actions[i], nullptr);
  ::sigaltstack(&former_stack, nullptr);
}

Error CrashTold::words_of(const StepRecord& step) const {
  const bool is_own = !step.function.empty();
  Diagnostic diagnostic;
  diagnostic.code = 617;
  diagnostic.headline = (step.kernel.empty() ? step.step : "kernel " + (is_own ? step.function : step.kernel)) +
                        " crashed: " + signal_mark;
  diagnostic.reason = step.step + (is_own ? ", kernel " + step.kernel : std::string());
  for (size_t i = 0; i < step.origins.size(); ++i) diagnostic.reason += (i == 0 ? ", for " : "; ") + step.origins[i];
  if (!is_own) diagnostic.notes.push_back({own_step_ + " ran before it, and may have written where it may not", {}});
  diagnostic.help = "`" + reproducer_ + " " + (is_own ? step.kernel : own_kernel_) +
                    "` makes a program of this kernel alone, for a debugger or a sanitizer";
  return Error(std::move(diagnostic));
}

void CrashTold::starts(const StepRecord& step) {
  const bool own = !step.function.empty();
  if (!own && own_kernel_.empty()) return;
  auto at = told_.find(step.step);
  if (at == told_.end()) {
    const Error error = words_of(step);
    std::string text = json_ ? error.to_json() + "\n" : error.render();
    const size_t mark = text.find(signal_mark);
    Words words{text.substr(0, mark), text.substr(mark + std::char_traits<char>::length(signal_mark))};
    at = told_.emplace(step.step, std::move(words)).first;
  }
  if (own) {
    own_kernel_ = step.kernel;
    own_step_ = step.step + ", kernel " + step.kernel + ",";
  }
  set_words(&at->second.before, &at->second.after);
}

}  // namespace codetta::cli
