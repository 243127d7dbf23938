// SPDX-License-Identifier: Apache-2.0
// Reuse of whole allocations, with a guard on the peak.
#pragma once

#include "plan/memory_blocks.hpp"

namespace codetta::plan {

// A block takes over the allocation of one that is over where device, stream (or an event between the two), dtype,
// symbolic size, alignment and scope agree, and where holding the bytes in between keeps every position of its scope
// below the peak that the scope has without reuse. Symbolic sizes are guarded by their hint; one that has neither a
// hint nor an upper bound changes hands only between neighbouring steps, where nothing is held. `live`: bytes by device
// (in the order of `devices`) and position. Fills placements, report.peak, report.occupied and report.reused.
Result<MemoryPlan> plan_reuse(const MemoryProblem& problem, const Blocks& all, const std::vector<uint32_t>& devices,
                              std::vector<std::vector<int64_t>> live, size_t candidates);

}  // namespace codetta::plan
