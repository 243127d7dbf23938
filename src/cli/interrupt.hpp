// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and its like: compilers are ended and their files removed before the command goes.
#pragma once

#include <atomic>

namespace codetta::cli {

// Whether a signal asked the command to end. Contexts watch it while compilers run.
const std::atomic<bool>& interrupted();

// Takes over SIGINT, SIGTERM and SIGHUP, unless they are ignored (nohup). The first one sets interrupted() and, a
// second later, ends the command, which is time to end a compiler; the second one ends it at once. SIGCHLD gets its
// default back, without which no exit status of a compiler would be known.
void catch_interrupts();
// From here on the command looks at interrupted() itself and takes the time it needs: no end after a second.
void take_time_when_interrupted();
// 128 + the number of the signal, as shells have it; 0 when there was none.
int interrupted_status();

}  // namespace codetta::cli
