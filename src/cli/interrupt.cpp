// SPDX-License-Identifier: Apache-2.0
// Only what a signal handler may do: atomics, alarm, raise.
#include "cli/interrupt.hpp"

#include <signal.h>
#include <unistd.h>

#include <initializer_list>

namespace codetta::cli {
namespace {

// Written by the handlers.
std::atomic<bool> ending{false};
std::atomic<int> ending_signal{0};
std::atomic<bool> patient{false};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void end_by(int number) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(number, &action, nullptr);
  ::raise(number);
}

extern "C" void on_interrupt(int number) {
  if (ending.exchange(true)) return end_by(number);
  ending_signal.store(number);
  if (!patient.load()) ::alarm(1);
}

extern "C" void on_alarm(int) { end_by(ending_signal.load()); }

}  // namespace

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

int interrupted_status() { return ending.load() ? 128 + ending_signal.load() : 0; }

}  // namespace codetta::cli
