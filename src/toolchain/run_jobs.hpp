// SPDX-License-Identifier: Apache-2.0
// Several compiles at once, on threads that mostly wait.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>

namespace codetta::toolchain {

// Calls job(0) to job(count - 1), taken in order by up to `parallel` threads of their own, and returns when all have
// returned. Meanwhile `tick`, if there is one, is called by the calling thread: at least every 10 ms, and once at the
// end; what it throws passes through when all jobs have returned. The application's signals are not delivered to those
// threads. Where none can be started the caller does the work.
void run_jobs(size_t count, int parallel, const std::function<void(size_t)>& job,
              const std::function<void()>& tick = {});

// A thread that calls `job` and ends; the application's signals are not delivered to it. Where none can be started the
// caller does the work, and the result is no thread.
std::jthread start_job(const std::function<void()>& job);

}  // namespace codetta::toolchain
