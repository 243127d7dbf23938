// SPDX-License-Identifier: Apache-2.0
#include "driver/trial.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace codetta::driver {

namespace {

// Stands for a pool whose threads don't exist: as many tasks, done by the caller.
class AloneAsMany : public ThreadPool {
 public:
  explicit AloneAsMany(int size) : size_(size) {}
  [[nodiscard]] int size() const override { return size_; }
  void run(int tasks, void (*fn)(void* ctx, int task), void* ctx) override {
    for (int task = 0; task < tasks; ++task) fn(ctx, task);
  }

 private:
  int size_;
};

}  // namespace

base::Expected<base::IsolatedOutcome> trial_run(runtime::Execution& execution, int threads, double seconds,
                                                const std::function<bool()>& goes_on) {
  base::IsolatedLimits limits;
  limits.timeout =
      std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(std::min(seconds, 86400.0) * 1e3)));
  limits.goes_on = goes_on;
  AloneAsMany pool(threads);
  return base::run_isolated([&] { static_cast<void>(execution.run(pool)); }, limits);
}

}  // namespace codetta::driver
