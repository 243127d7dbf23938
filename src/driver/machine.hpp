// SPDX-License-Identifier: Apache-2.0
// Facts of this machine for the cost model.
#pragma once

#include "plan/candidates.hpp"
#include "types/machine.hpp"

namespace codetta::driver {

// From facts of the system (cache sizes) and from tables by CPU vendor and family (units per clock); nothing is
// measured, so ranking is the same on every run. `cores`: threads that may be used.
plan::MachineFacts machine_facts(const types::CpuFacts& facts, CpuIsa isa, int cores);

}  // namespace codetta::driver
