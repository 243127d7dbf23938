// SPDX-License-Identifier: Apache-2.0
// What was fused into a GEMM and why, one line a decision: of explain and of --debug explain:fusion.
#pragma once

#include <string>
#include <vector>

#include "opt/passes.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

// Rewrites that fired, which operations run on the accumulator, how each tensor is read or written, what is reduced
// on the way, and layouts that became strides. Never empty.
std::vector<std::string> fusion_lines(const std::vector<opt::PassRecord>& passes, const plan::PlannedKernel& kernel);
// A pass as --debug time:passes tells it.
std::string time_line(const opt::PassRecord& pass);

}  // namespace codetta::driver
