// SPDX-License-Identifier: Apache-2.0
// Only what a signal handler may do: atomics, alarm, unlink, raise.
#include "cli/interrupt.hpp"

#include <signal.h>
#include <unistd.h>

#include <initializer_list>
#include <utility>

namespace codetta::cli {
namespace {

// Written by the handlers.
std::atomic<bool> ending{false};
std::atomic<int> ending_signal{0};
std::atomic<bool> patient{false};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// Files that go with the command: a list that a handler may walk at any time, so that nothing is ever taken out of it.
struct RemovedFile {
  std::string path;
  std::atomic<bool> active{true};
  RemovedFile* next = nullptr;
};
std::atomic<RemovedFile*> removed_files{nullptr};

extern "C" void on_interrupt(int number) {
  if (ending.exchange(true)) return end_by_signal(number);
  ending_signal.store(number);
  if (!patient.load()) ::alarm(1);
}

extern "C" void on_alarm(int) { end_by_signal(ending_signal.load()); }

}  // namespace

void end_by_signal(int number) {
  for (const RemovedFile* file = removed_files.load(); file != nullptr; file = file->next) {
    if (file->active.load()) ::unlink(file->path.c_str());
  }
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(number, &action, nullptr);
  ::raise(number);
}

const std::atomic<bool>& interrupted() { return ending; }

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_alarm;
  ::sigaction(SIGALRM, &action, nullptr);
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction former {};
    if (::sigaction(number, nullptr, &former) == 0 && former.sa_handler != SIG_IGN)
      ::sigaction(number, &action, nullptr);
  }
  action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, nullptr);
}

void take_time_when_interrupted() {
  patient.store(true);
  ::alarm(0);
}

bool given_up() { return ending.load() && !patient.load(); }

Patience::Patience() : former_(patient.exchange(true)) { ::alarm(0); }
Patience::~Patience() {
  patient.store(former_);
  if (given_up()) ::alarm(1);
}

RemovedWhenEnded::RemovedWhenEnded(const std::string& path) {
  auto* const file = new RemovedFile{path};
  active_ = &file->active;
  file->next = removed_files.load();
  while (!removed_files.compare_exchange_weak(file->next, file)) {
  }
}
RemovedWhenEnded::RemovedWhenEnded(RemovedWhenEnded&& other) noexcept
    : active_(std::exchange(other.active_, nullptr)) {}
RemovedWhenEnded::~RemovedWhenEnded() {
  if (active_ != nullptr) active_->store(false);
}

int interrupted_status() { return ending.load() ? 128 + ending_signal.load() : 0; }

}  // namespace codetta::cli
