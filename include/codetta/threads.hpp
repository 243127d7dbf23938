// SPDX-License-Identifier: Apache-2.0
// The threads that kernels run on; replaceable by the caller's own.
#pragma once

#include <memory>

#include "codetta/error.hpp"

namespace codetta {

// A fixed number of threads, the caller's included. Kernels give the same bits for every size().
class CODETTA_API ThreadPool {
 public:
  virtual ~ThreadPool() = default;
  [[nodiscard]] virtual int size() const = 0;
  // Calls fn(ctx, 0) ... fn(ctx, tasks - 1), in any order and on any threads, and returns when all have returned.
  // fn doesn't throw. May be called from several threads at once, and from inside a task.
  virtual void run(int tasks, void (*fn)(void* ctx, int task), void* ctx) = 0;
};

// `threads` threads in all (at least 1; 0: one per processor this process may use). Workers spin about 20 us after a
// run, then sleep. In a process forked from the one that made the pool the workers don't exist: run() then does all
// tasks in the caller. The destructor joins the workers; no run() may be under way.
CODETTA_API std::unique_ptr<ThreadPool> make_thread_pool(int threads);

}  // namespace codetta
