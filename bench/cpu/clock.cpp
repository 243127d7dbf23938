// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu/clock.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>
#include <random>

namespace codetta::bench {
namespace {

double median_of(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

struct Pace {
  std::vector<int> inner;  // runs in a sample
  double round = 0;        // seconds of all samples
};
Pace pace(const std::vector<Contender>& contenders, Clock clock) {
  Pace result;
  for (const Contender& c : contenders) {
    c.run();
    double once = 1e30;
    for (int i = 0; i < 3; ++i) {
      const double start = now(clock);
      c.run();
      once = std::min(once, now(clock) - start);
    }
    result.inner.push_back(static_cast<int>(std::clamp(2e-4 / std::max(once, 1e-8), 1.0, 20000.0)));
    result.round += once * result.inner.back();
  }
  return result;
}

}  // namespace

double now(Clock clock) {
  timespec t{};
  clock_gettime(clock == Clock::Wall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Estimate estimate(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const double n = static_cast<double>(samples.size());
  const double half = 0.98 * std::sqrt(n);  // 1.96 deviations of a binomial count with p = 1/2
  const auto at = [&](double position) { return samples[static_cast<size_t>(std::clamp(position, 0.0, n - 1))]; };
  return {at(std::floor(n / 2)), at(std::floor(n / 2 - half)), at(std::ceil(n / 2 + half))};
}

double Race::median(size_t contender) const { return median_of(seconds[contender]); }

Estimate Race::ratio(size_t i, size_t other) const {
  std::vector<double> ratios;
  for (size_t r = 0; r < seconds[i].size(); ++r) ratios.push_back(seconds[other][r] / seconds[i][r]);
  return estimate(std::move(ratios));
}

Race race(const std::vector<Contender>& contenders, Clock clock, int rounds, double budget) {
  const Pace p = pace(contenders, clock);
  const int count = std::clamp(static_cast<int>(budget / std::max(p.round, 1e-6)), 11, rounds);
  Race result;
  result.seconds.resize(contenders.size());
  std::vector<size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 generator(1);
  for (int r = 0; r < count; ++r) {
    std::shuffle(order.begin(), order.end(), generator);
    for (const size_t i : order) {
      const double start = now(clock);
      for (int j = 0; j < p.inner[i]; ++j) contenders[i].run();
      result.seconds[i].push_back((now(clock) - start) / p.inner[i]);
    }
  }
  return result;
}

size_t fastest(const std::vector<Contender>& all, Clock clock, double budget) {
  if (all.size() < 2) return 0;
  // Some ways are hundreds of times slower (a library's reference code): they are out after one run.
  std::vector<double> once;
  for (const Contender& c : all) {
    const double start = now(clock);
    c.run();
    once.push_back(now(clock) - start);
  }
  std::vector<Contender> contenders;
  std::vector<size_t> index;
  for (size_t i = 0; i < all.size(); ++i) {
    if (once[i] > 10 * *std::min_element(once.begin(), once.end()) + 1e-3) continue;
    contenders.push_back(all[i]);
    index.push_back(i);
  }
  const Pace p = pace(contenders, clock);
  const int count = std::clamp(static_cast<int>(budget / std::max(p.round, 1e-6)), 3, 15);
  std::vector<std::vector<double>> times(contenders.size());
  for (int r = 0; r < count; ++r) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      const double start = now(clock);
      for (int j = 0; j < p.inner[i]; ++j) contenders[i].run();
      times[i].push_back((now(clock) - start) / p.inner[i]);
    }
  }
  size_t best = 0;
  for (size_t i = 1; i < times.size(); ++i) {
    if (median_of(times[i]) < median_of(times[best])) best = i;
  }
  return index[best];
}

}  // namespace codetta::bench
