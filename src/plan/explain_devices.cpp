// SPDX-License-Identifier: Apache-2.0
#include "plan/explain_devices.hpp"

#include <algorithm>

#include "plan/units.hpp"

namespace codetta::plan {

using package::Buffer;

std::vector<Transfer> transfers_of(const Plan& plan) {
  std::vector<Transfer> transfers;
  const auto add = [&](const package::StepList& list, bool nested) {
    for (const package::Step& step : list) {
      const auto* copy = std::get_if<package::Copy>(&step);
      if (copy == nullptr) continue;
      const Buffer &from = plan.buffers[copy->source], &to = plan.buffers[copy->target];
      if (from.device == to.device) continue;
      transfers.push_back({copy->source, from.device, to.device, size_in_bytes(from, nested), nested});
    }
  };
  add(plan.steps, false);
  for (const package::StepList& list : plan.step_lists) add(list, true);
  return transfers;
}

uint32_t device_count(const Plan& plan) {
  uint32_t count = 1;
  for (const Buffer& buffer : plan.buffers) count = std::max(count, buffer.device + 1);
  return count;
}

std::vector<std::string> lying_on(const Plan& plan, uint32_t device, Buffer::Role role) {
  std::vector<std::string> names;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.role == role && buffer.device == device && !buffer.is_scalar) names.push_back(buffer.name);
  }
  return names;
}

uint32_t device_of(const Plan& plan, const package::LaunchKernel& launch) {
  for (const uint32_t buffer : launch.arguments) {
    if (!plan.buffers[buffer].is_scalar) return plan.buffers[buffer].device;
  }
  return 0;
}

}  // namespace codetta::plan
