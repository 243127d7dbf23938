// SPDX-License-Identifier: Apache-2.0
// The threads of one threadgroup as fibers of the calling thread, and what metal_hooks.h asks of a runner.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace codetta::metal_run {

// Runs body(0) to body(threads - 1), each on a stack of its own, in an order that the seed picks, switching at barriers
// and exchanges. "" when all have ended; else what went wrong: threads that wait for others that never come.
std::string run_threads(int threads, uint64_t seed, const std::function<void(int thread)>& body);

}  // namespace codetta::metal_run
