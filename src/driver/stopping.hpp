// SPDX-License-Identifier: Apache-2.0
// Work that its caller may stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "diag/diagnostic.hpp"

namespace codetta::driver {

inline bool was_cancelled(const Error& error) {
  return error.code() == static_cast<uint16_t>(diag::Code::compile_cancelled);
}

// Passes a question on every twentieth of a second, and says yes in between: for what is asked about each millisecond,
// and does more than to look at a flag.
inline std::function<bool()> now_and_then(std::function<bool()> ask) {
  using Clock = std::chrono::steady_clock;
  return [ask = std::move(ask), next = Clock::time_point()]() mutable {
    const auto now = Clock::now();
    if (now < next) return true;
    next = now + std::chrono::milliseconds(50);
    return ask();
  };
}

// The seconds that a budget counts.
class BudgetClock {
 public:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] double gone() const { return seconds((stands_ ? *stands_ : Clock::now()) - start_) - stood_; }

  // While it lives the clock stands.
  class Pause {
   public:
    explicit Pause(BudgetClock& clock) : clock_(clock) { clock_.stands_ = Clock::now(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() {
      clock_.stood_ += so_far();
      clock_.stands_.reset();
    }
    [[nodiscard]] double so_far() const { return seconds(Clock::now() - *clock_.stands_); }

   private:
    BudgetClock& clock_;
  };

 private:
  static double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

  Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> stands_{};
  double stood_ = 0;
};

}  // namespace codetta::driver
