// SPDX-License-Identifier: Apache-2.0
// One configuration of a kernel of the user's while it is tuned.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "codetta/program.hpp"
#include "driver/sampler.hpp"

namespace codetta::driver {

struct ConfigurationTrial {
  TuneResult result;
  std::optional<Execution> execution;  // what is timed
  std::optional<Sampler> sampler;
  std::vector<double> samples;
  bool blameless = false;  // failed by what is around it

  // Of itself: a time, or that it is none to take.
  [[nodiscard]] bool tells() const { return result.microseconds > 0 || (!result.failure.empty() && !blameless); }
  void drop() {
    result.microseconds = 0;
    sampler.reset();
    execution.reset();
  }
  Result<void> sample(int count) {
    for (int i = 0; i < count; ++i) {
      CODETTA_TRY(const double measured, sampler->sample());
      samples.push_back(measured);
    }
    std::vector<double> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    const auto at = [&](double part) {
      return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1))];
    };
    result.microseconds = at(0.5);
    result.spread = (at(0.75) - at(0.25)) / result.microseconds;
    return {};
  }
};

}  // namespace codetta::driver
