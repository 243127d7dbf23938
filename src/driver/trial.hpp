// SPDX-License-Identifier: Apache-2.0
// The first run of what may crash or hang, in a process of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/companion.hpp"
#include "base/isolated.hpp"
#include "driver/context.hpp"
#include "runtime/cuda/execution.hpp"
#include "runtime/execution.hpp"

namespace codetta::driver {

// Runs `execution`, which is prepared for a CPU, in a forked child of one thread, which does what `threads` threads
// would do. What it writes stays there, and an Error of the run is not told: only whether it came to its end within
// `seconds` (at most a day). `goes_on` is asked about every 20 ms, and may be empty. An error means that there was no
// child.
base::Expected<base::IsolatedOutcome> trial_run(runtime::Execution& execution, int threads, double seconds,
                                                const std::function<bool()>& goes_on);

// How a trial ended, and of what: "signal 11 (Segmentation fault)", "E0644: ...", "no end within 2.0 s".
struct TrialOutcome {
  base::IsolatedEnd end = base::IsolatedEnd::Finished;
  std::string summary{};
};

// The command of this build: what the options name, else this program where it is the command (linked with the
// library), else where an installation or a build has it from the library's folder on. Empty: there is none; a program
// of the caller's is never taken for it, whatever its name.
std::string command_of(const ContextOptions& options);

// Where the first runs of a tuning take place: for a CPU as trial_run(), for a GPU in a `codetta` command, since a
// process that uses one cannot be forked. It has a context and memory of its own, and is started anew behind what has
// crashed or hung in it. Belongs to one thread.
class Trials {
 public:
  // `start_seconds`: for a command to open the device, and to make an execution of no operands.
  Trials(ContextState& context, const Target& target, double start_seconds = 60)
      : context_(context), target_(target), start_seconds_(start_seconds) {}

  // Starts what run() needs, so that it is ready by then; what goes wrong is for run() to tell.
  void begin();
  // On a GPU it runs with memory like that of `execution`, which holds zeros, or with `contents` what it holds now. An
  // error of the run that leaves the device as it is counts as an end. Those of the vendor's library are not tried. The
  // error says why there was no process for it.
  base::Expected<TrialOutcome, std::string> run(Execution& execution, double seconds, bool contents,
                                                const std::function<bool()>& goes_on);
  // Of what is not tried again: its process ends, and gives its memory back.
  void finish() { companion_.reset(); }

 private:
  base::Expected<void, std::string> start();
  // Whether what was started has opened the device. Finished: it has.
  base::Expected<TrialOutcome, std::string> greeted(const std::function<bool()>& goes_on);
  base::Expected<TrialOutcome, std::string> run_on_gpu(const runtime::cuda::Execution& execution, double seconds,
                                                       bool contents, const std::function<bool()>& goes_on);
  ContextState& context_;
  Target target_;
  double start_seconds_;
  std::optional<base::Companion> companion_;
  bool ready_ = false;  // it has opened the device
  std::string none_{};  // why there is none, once that is known
};

}  // namespace codetta::driver
