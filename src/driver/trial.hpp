// SPDX-License-Identifier: Apache-2.0
// The first run of what may crash or hang, in a process of its own.
#pragma once

#include <functional>

#include "base/isolated.hpp"
#include "runtime/execution.hpp"

namespace codetta::driver {

// Runs `execution`, which is prepared for a CPU, in a forked child of one thread, which does what `threads` threads
// would do. What it writes stays there, and an Error of the run is not told: only whether it came to its end within
// `seconds` (at most a day). `goes_on` is asked about every 20 ms, and may be empty. An error means that there was no
// child.
base::Expected<base::IsolatedOutcome> trial_run(runtime::Execution& execution, int threads, double seconds,
                                                const std::function<bool()>& goes_on);

}  // namespace codetta::driver
