// SPDX-License-Identifier: Apache-2.0
// Whether an evaluation goes on: asked now and then, since it may take minutes.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace codetta::oracle {

class Pulse {
 public:
  // An empty function is never asked.
  explicit Pulse(std::function<bool()> goes_on) : goes_on_(std::move(goes_on)) {}

  // `work` more is to be done, in multiply-adds. Asks once in about a millisecond's; from the first "no" on it is
  // false.
  bool beats(int64_t work) {
    if (!goes_on_ || stopped_) return !stopped_;
    constexpr int64_t between = int64_t{1} << 20;
    waiting_ += work;
    if (waiting_ < between) return true;
    waiting_ = 0;
    stopped_ = !goes_on_();
    return !stopped_;
  }
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  std::function<bool()> goes_on_;
  int64_t waiting_ = 0;
  bool stopped_ = false;
};

}  // namespace codetta::oracle
