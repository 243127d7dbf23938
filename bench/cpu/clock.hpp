// SPDX-License-Identifier: Apache-2.0
// Times, races between contenders, and medians with their intervals.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace codetta::bench {

// Processor time of the process: other load on the machine does not count. Wall time where threads are compared.
enum class Clock { Processor, Wall };
double now(Clock clock);

// Median of independent samples and the 95 % interval of it (order statistics: no assumption about the distribution).
struct Estimate {
  double median = 0, low = 0, high = 0;
};
Estimate estimate(std::vector<double> samples);

struct Contender {
  std::string name;
  std::function<void()> run;
};

// All contenders in turns, so that each round meets the same machine. seconds[i][round].
struct Race {
  std::vector<std::vector<double>> seconds;
  [[nodiscard]] double median(size_t contender) const;
  // How many times as fast as `other` contender `i` is.
  [[nodiscard]] Estimate ratio(size_t i, size_t other) const;
};
// `rounds` rounds, fewer (at least 11) where they would take longer than `budget` seconds. Each sample lasts at least
// 200 us. In each round the order is another one: what the one before leaves in the caches, its own operands or a
// peer's, would otherwise favour the same contender every time.
Race race(const std::vector<Contender>& contenders, Clock clock, int rounds = 61, double budget = 6);

// The fastest of the contenders, by the median of a few rounds.
size_t fastest(const std::vector<Contender>& contenders, Clock clock, double budget = 1.5);

}  // namespace codetta::bench
