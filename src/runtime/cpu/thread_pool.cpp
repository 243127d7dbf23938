// SPDX-License-Identifier: Apache-2.0
// The default thread pool: persistent workers woken through one epoch counter.
#include "runtime/cpu/thread_pool.hpp"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

namespace codetta {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins for about 20 us, then sleeps until `value` differs from `old`.
uint32_t wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    for (int i = 0; i < 64; ++i) {
      const uint32_t now = value.load(std::memory_order_acquire);
      if (now != old) return now;
      relax();
    }
    if (std::chrono::steady_clock::now() - start > std::chrono::microseconds(20)) break;
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

class WorkerPool final : public ThreadPool {
 public:
  explicit WorkerPool(int threads) : owner_(getpid()) {
    workers_.reserve(static_cast<size_t>(threads - 1));
    for (int i = 1; i < threads; ++i) {
      try {
        workers_.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        break;  // fewer threads than asked for: slower, never wrong
      }
    }
  }
  ~WorkerPool() override {
    if (getpid() != owner_) {  // a forked child has no such threads to join
      for (std::thread& t : workers_) t.detach();
      return;
    }
    stop_.store(true, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    for (std::thread& t : workers_) t.join();
  }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  [[nodiscard]] int size() const override { return static_cast<int>(workers_.size()) + 1; }

  void run(int tasks, void (*fn)(void*, int), void* ctx) override {
    // Nested or concurrent calls, and forked children, do their tasks themselves: always correct, never a deadlock.
    if (tasks <= 1 || workers_.empty() || getpid() != owner_ || busy_.test_and_set(std::memory_order_acquire)) {
      for (int i = 0; i < tasks; ++i) fn(ctx, i);
      return;
    }
    fn_ = fn;
    ctx_ = ctx;
    tasks_ = tasks;
    next_.store(0, std::memory_order_relaxed);
    active_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    take_tasks();
    for (uint32_t left = active_.load(std::memory_order_acquire); left != 0;) left = wait_for_change(active_, left);
    busy_.clear(std::memory_order_release);
  }

 private:
  void take_tasks() {
    for (int i = next_.fetch_add(1, std::memory_order_relaxed); i < tasks_;
         i = next_.fetch_add(1, std::memory_order_relaxed)) {
      fn_(ctx_, i);
    }
  }
  void work() {
    uint32_t seen = 0;
    for (;;) {
      seen = wait_for_change(epoch_, seen);
      if (stop_.load(std::memory_order_relaxed)) return;
      take_tasks();
      if (active_.fetch_sub(1, std::memory_order_acq_rel) == 1) active_.notify_one();
    }
  }

  std::vector<std::thread> workers_;
  const pid_t owner_;
  std::atomic_flag busy_;
  void (*fn_)(void*, int) = nullptr;
  void* ctx_ = nullptr;
  int tasks_ = 0;
  alignas(64) std::atomic<int> next_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<uint32_t> active_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace

int runtime::cpu::usable_processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  const unsigned n = std::thread::hardware_concurrency();
  return n == 0 ? 1 : static_cast<int>(n);
}

std::unique_ptr<ThreadPool> make_thread_pool(int threads) {
  return std::make_unique<WorkerPool>(threads > 0 ? threads : runtime::cpu::usable_processors());
}

}  // namespace codetta
