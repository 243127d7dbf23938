// SPDX-License-Identifier: Apache-2.0
// Running a piece of this program's own work where its crash or hang harms nobody: in a forked child.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/expected.hpp"

namespace codetta::base {

enum class IsolatedEnd : uint8_t {
  Finished,  // the work returned
  Died,      // a signal, or an exit of its own
  TimedOut,
  Stopped,  // goes_on said no
};

struct IsolatedOutcome {
  IsolatedEnd end = IsolatedEnd::Finished;
  int signal = 0;  // when it Died of one
  double seconds = 0.0;
  // "signal 11 (Segmentation fault)", "an exit of its own", "no end within 2.0 s", "stopped", "finished"
  [[nodiscard]] std::string summary() const;
};

struct IsolatedLimits {
  std::chrono::milliseconds timeout{0};  // 0: none
  std::function<bool()> goes_on;         // asked about every 20 ms; may be empty
};

// Runs `work` in a forked child of one thread: what it writes to memory stays there, and it ends with the work, without
// exit handlers. The child has default handling of deadly signals, leaves no core file and dies with the calling
// thread. Other threads of this process do not exist in it, so the work must not wait for any (a lock that one of them
// may hold, a thread pool) and must not touch a GPU. An error means that there was no child (EAGAIN, ENOMEM, EMFILE).
// Thread-safe.
Expected<IsolatedOutcome> run_isolated(const std::function<void()>& work, const IsolatedLimits& limits);

}  // namespace codetta::base
