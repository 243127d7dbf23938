// SPDX-License-Identifier: Apache-2.0
// What launches of a package need while they run, beside the temporaries of its plan: slices of split sums, packed
// factors, kept accumulators, partial reductions and counters. Known from sizes; nothing is bound, loaded or run.
#pragma once

#include <cstdint>
#include <vector>

#include "package/package.hpp"
#include "runtime/checks.hpp"

namespace codetta::runtime {

struct LaunchScratch {
  const package::Step* step = nullptr;  // of the package
  int64_t bytes = 0;                    // while it runs, at the place where others of its device have theirs
  int64_t counter_bytes = 0;            // of its own, from run to run (GPUs)
  uint32_t device = 0;                  // of the package
};

struct Scratch {
  std::vector<LaunchScratch> launches;        // those that need any, in the order of the steps
  std::vector<const package::Step*> unknown;  // launches of the vendor's library, which says so when it is loaded
  bool estimated = false;                     // how many blocks a GPU holds at once decides some
  // Of one device: the largest of its launches', which take turns; and the counters of all.
  [[nodiscard]] int64_t shared(uint32_t device) const;
  [[nodiscard]] int64_t counters(uint32_t device) const;
};

// `sizes`: of symbols; those that are not among them count as `otherwise`. Tensors lie row-major and aligned.
// `threads`: of a CPU; `compiled`: whether its epilogues are. `multiprocessors`: of a GPU. A launch that cannot be with
// these sizes needs nothing.
Scratch scratch_of(const package::Package& package, const Symbols& sizes, int64_t otherwise, int threads, bool compiled,
                   int multiprocessors);

}  // namespace codetta::runtime
