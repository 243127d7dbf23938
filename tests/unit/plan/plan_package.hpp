// SPDX-License-Identifier: Apache-2.0
// What of a plan a package has, without sources of kernels.
#pragma once

#include <algorithm>
#include <utility>

#include "package/package.hpp"
#include "plan/plan.hpp"

namespace codetta::test {

inline package::Package package_of(const plan::Plan& plan) {
  package::Package package;
  package.target = plan.target;
  package.buffers = plan.buffers;
  package.steps = plan.steps;
  package.step_lists = plan.step_lists;
  package.pools = plan.pools;
  package.result_count = plan.result_count;
  for (const package::Buffer& buffer : plan.buffers)
    package.device_count = std::max(package.device_count, buffer.device + 1);
  for (const plan::PlannedKernel& kernel : plan.kernels) {
    package::Kernel made;
    made.config = kernel.discovery.candidates[kernel.chosen].config;
    made.epilogue = kernel.lowered.program;
    package.kernels.push_back(std::move(made));
  }
  return package;
}

}  // namespace codetta::test
