// SPDX-License-Identifier: Apache-2.0
// Several compiles at once. Each is a process, so threads here only wait.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "toolchain/compile.hpp"
#include "toolchain/failure.hpp"

namespace codetta::toolchain {

namespace {

constexpr std::chrono::milliseconds poll_interval{10};

struct Batch {
  const HostCompiler& compiler;
  const std::vector<CompileJob>& jobs;
  const CompileOptions& options;
  std::vector<std::optional<Result<CompileOutput>>> results;
  std::atomic<size_t> next = 0;
  std::atomic<bool> cancel = false;
  std::mutex mutex;
  std::condition_variable ended;
  size_t running = 0;

  void work() {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      if (cancel.load()) {
        results[i] = Result<CompileOutput>(cancelled_before_start(jobs[i]));
      } else {
        results[i] = compile_cancellable(compiler, jobs[i], options, &cancel);
      }
    }
    const std::lock_guard lock(mutex);
    --running;
    ended.notify_all();
  }
};

}  // namespace

std::vector<Result<CompileOutput>> compile_all(const HostCompiler& compiler, const std::vector<CompileJob>& jobs,
                                               const CompileOptions& options, int parallel, bool (*cancelled)(void*),
                                               void* context) {
  Batch batch{compiler, jobs, options, {}, {}, {}, {}, {}, 0};
  batch.results.resize(jobs.size());
  const size_t wanted = std::min(static_cast<size_t>(std::max(parallel, 1)), jobs.size());

  // Signals stay with the threads of the application.
  sigset_t all{};
  sigset_t before{};
  sigfillset(&all);
  const bool masked = ::pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
  std::vector<std::thread> threads;
  batch.running = wanted;
  for (size_t i = 0; i < wanted; ++i) {
    try {
      threads.emplace_back([&batch] { batch.work(); });
    } catch (const std::system_error&) {  // no more threads; the others do the work
      const std::lock_guard lock(batch.mutex);
      batch.running -= wanted - i;
      break;
    }
  }
  if (masked) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  if (threads.empty()) {
    batch.running = 1;
    batch.work();
  }
  {
    std::unique_lock lock(batch.mutex);
    while (batch.running != 0) {
      if (cancelled == nullptr && options.cancel == nullptr) {
        batch.ended.wait(lock);
        continue;
      }
      lock.unlock();
      if ((cancelled != nullptr && cancelled(context)) || (options.cancel != nullptr && options.cancel->load()))
        batch.cancel = true;
      lock.lock();
      if (batch.running != 0) batch.ended.wait_for(lock, poll_interval);
    }
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Result<CompileOutput>> results;
  results.reserve(jobs.size());
  for (auto& result : batch.results) results.push_back(std::move(*result));
  return results;
}

}  // namespace codetta::toolchain
