// SPDX-License-Identifier: Apache-2.0
// Which kernels tuning tries, and in what order.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "driver/kernel_state.hpp"

namespace codetta::driver {

// On a CPU the ranking's first. On a GPU two steps: first tiles in the ranking's order, one variant of each, half of
// all that may be tried but at least two, of which a quarter, at least one, may be the vendor's, and the last is of
// another schedule where all before have the same (which of two is ahead hangs on the clock that a device's power
// allows); then, a few at a time, what is nearest to the fastest kernel so far (plan::steps_between) and expected to
// take at most half as long again. What no earlier call has timed comes first, of that the nearest, of those one for
// each respect in which they differ, then what is expected to be faster, then names; where nothing is near, the ranking
// goes on. So the order is the same wherever the same kernels turn out fastest.
class TuneSearch {
 public:
  // `listed`: as discovery ranks them. `all`: every configuration, asked for when the second step begins.
  TuneSearch(KernelList listed, size_t most, std::function<Result<KernelList>()> all);
  // The next ones, at most `count`; none where `most` have been given or nothing is left. Errors: those of `all`.
  Result<std::vector<Kernel>> next(size_t count);
  void measured(const Kernel& kernel, double microseconds);

 private:
  // Of the fastest kernel that has variants; null where there is none.
  [[nodiscard]] const plan::Candidate* centre() const;
  // The first listed of another schedule than all tiles so far, if it is expected to be about as fast as the best.
  [[nodiscard]] const Kernel* other_schedule() const;
  void take(const Kernel& kernel, std::vector<Kernel>& to);
  void take_tiles(size_t count, std::vector<Kernel>& to);
  Result<void> take_nearest(size_t count, std::vector<Kernel>& to);

  KernelList listed_;
  size_t most_;
  std::function<Result<KernelList>()> find_all_;
  bool gpu_;
  size_t first_;        // tried in the first step
  size_t vendors_ = 0;  // met there
  std::optional<KernelList> all_{};
  std::set<std::string> tried_{};
  std::vector<const plan::Candidate*> tiles_{};  // of the first step
  Kernel fastest_{};
  double fastest_us_ = 0;
};

}  // namespace codetta::driver
