// SPDX-License-Identifier: Apache-2.0
#include "toolchain/run_jobs.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace codetta::toolchain {
namespace {

constexpr std::chrono::milliseconds poll_interval{10};

// As many threads as there can be, up to `wanted`; signals stay with the threads of the application.
template <class Work>
std::vector<std::jthread> start_threads(size_t wanted, const Work& work) {
  sigset_t all{}, before{};
  sigfillset(&all);
  const bool masked = ::pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < wanted; ++i) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      break;
    }
  }
  if (masked) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return threads;
}

}  // namespace

void run_jobs(size_t count, int parallel, const std::function<void(size_t)>& job, const std::function<void()>& tick) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::condition_variable ended;
  size_t finished = 0;  // threads
  const auto take_jobs = [&] {
    for (size_t i = next++; i < count; i = next++) job(i);
  };
  std::vector<std::jthread> threads = start_threads(std::min(static_cast<size_t>(std::max(parallel, 1)), count), [&] {
    take_jobs();
    const std::lock_guard lock(mutex);
    ++finished;
    ended.notify_all();
  });
  if (threads.empty()) take_jobs();
  if (tick) {
    std::unique_lock lock(mutex);
    while (finished != threads.size()) {
      lock.unlock();
      tick();
      lock.lock();
      if (finished != threads.size()) ended.wait_for(lock, poll_interval);
    }
    lock.unlock();
  }
  for (std::jthread& thread : threads) thread.join();
  if (tick) tick();
}

std::jthread start_job(const std::function<void()>& job) {
  std::vector<std::jthread> threads = start_threads(1, job);
  if (!threads.empty()) return std::move(threads.front());
  job();
  return {};
}

}  // namespace codetta::toolchain
