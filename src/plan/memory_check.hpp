// SPDX-License-Identifier: Apache-2.0
// The checker of memory plans. It shares no code with the planner and believes nothing that the planner says.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/memory.hpp"

namespace codetta::plan {

using SymbolValues = std::map<std::string, int64_t>;

// What was shown. Constant plans are proven by one pass.
struct MemoryProof {
  size_t valuations = 0;  // of symbols, each checked as a constant plan
  bool symbolic = false;  // every pair that must not overlap was also compared symbolically ...
  size_t unproven = 0;    // ... and for so many the order could not be told that way
};

// Every buffer has a place that it may have: inside of its pool or allocation, aligned, sharing no byte with anything
// that is not over, on any stream; what is reused, taken over or viewed is so by right. Symbolic plans are checked with
// `values` and with valuations of the checker's own, zero and large sizes among them. Near-linear for each valuation.
// Errors: E0901 with the first mistake.
Result<MemoryProof> check_memory(const MemoryProblem& problem, const MemoryPlan& plan,
                                 const std::vector<SymbolValues>& values = {});

}  // namespace codetta::plan
