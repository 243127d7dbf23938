// SPDX-License-Identifier: Apache-2.0
// What explain says of programs over several devices.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace codetta::plan {

// A copy between two devices.
struct Transfer {
  uint32_t buffer = 0;  // that it reads
  uint32_t from = 0, to = 0;
  types::Dim bytes;
  bool nested = false;  // in a branch or a loop
};
// In the order of the steps.
std::vector<Transfer> transfers_of(const Plan& plan);
uint32_t device_count(const Plan& plan);
// Arguments and outputs that lie on a device, by name.
std::vector<std::string> lying_on(const Plan& plan, uint32_t device, package::Buffer::Role role);
// Where a kernel runs.
uint32_t device_of(const Plan& plan, const package::LaunchKernel& launch);

}  // namespace codetta::plan
