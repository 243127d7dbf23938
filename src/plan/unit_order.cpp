// SPDX-License-Identifier: Apache-2.0
// The order of units: for memory, or where there are several devices so that they work at the same time.
#include <algorithm>
#include <limits>
#include <map>

#include "base/result.hpp"
#include "plan/device_order.hpp"
#include "plan/order.hpp"
#include "plan/units.hpp"

namespace codetta::plan {

using package::Buffer;

namespace {

// Parts of a join share a buffer: the first writer makes it, the others find it there, and readers wait for all.
void order_writers(std::vector<OrderStep>& steps, size_t buffers) {
  std::vector<std::vector<uint32_t>> writers(buffers);
  for (uint32_t s = 0; s < steps.size(); ++s) {
    for (const uint32_t buffer : steps[s].makes) writers[buffer].push_back(s);
  }
  for (OrderStep& step : steps) {
    for (const uint32_t buffer : step.reads) {
      if (writers[buffer].size() > 1)
        step.behind.insert(step.behind.end(), writers[buffer].begin(), writers[buffer].end());
    }
  }
  for (uint32_t s = 0; s < steps.size(); ++s) {
    std::erase_if(steps[s].makes, [&](uint32_t buffer) {
      const bool later = writers[buffer].front() != s;
      if (later) steps[s].reads.push_back(buffer);
      return later;
    });
  }
}

// What a unit keeps busy, with the blocks inside of it.
void add_work(const Plan& plan, const UnitProgram& program, const Unit& unit, const SizeHint& hint, DeviceStep& work) {
  constexpr double step_us = 5, transfer_rate = 50, memory_rate = 1000;  // GB/s: between devices, of one
  for (const package::Step& step : unit.steps) {
    work.microseconds += step_us;
    const auto* copy = std::get_if<package::Copy>(&step);
    if (copy == nullptr) {
      add_once(work.devices, unit.device);
      const auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch == nullptr) continue;
      const auto& candidates = plan.kernels[launch->kernel].discovery.candidates;
      if (!candidates.empty()) work.microseconds += candidates[0].microseconds;
      continue;
    }
    const Buffer &from = plan.buffers[copy->source], &to = plan.buffers[copy->target];
    add_once(work.devices, from.device);
    add_once(work.devices, to.device);
    const bool between = from.device != to.device;
    work.is_copy = work.is_copy || between;
    const auto bytes = static_cast<double>(std::max<int64_t>(hint(size_in_bytes(to, true)), 0));
    work.microseconds += bytes / (between ? transfer_rate : memory_rate) / 1000;
  }
  for (const uint32_t child : unit.blocks) {
    for (const Unit& inner : program.blocks[child].units) add_work(plan, program, inner, hint, work);
    work.is_copy = false;
  }
}

// Empty where one device does it all.
std::vector<uint32_t> device_order(const Plan& plan, const UnitProgram& program, uint32_t block,
                                   const std::vector<OrderStep>& steps, const SizeHint& hint) {
  const bool several =
      std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& b) { return b.device != 0; });
  if (!several) return {};
  std::map<uint32_t, uint32_t> maker;
  for (uint32_t s = 0; s < steps.size(); ++s) {
    for (const uint32_t buffer : steps[s].makes) maker.emplace(buffer, s);
  }
  std::vector<DeviceStep> work(steps.size());
  std::vector<uint32_t> devices;
  for (uint32_t s = 0; s < steps.size(); ++s) {
    add_work(plan, program, program.blocks[block].units[s], hint, work[s]);
    for (const uint32_t device : work[s].devices) add_once(devices, device);
    for (const uint32_t before : steps[s].behind) {
      if (before != s) add_once(work[s].behind, before);
    }
    for (const uint32_t buffer : steps[s].reads) {
      const auto made = maker.find(buffer);
      if (made != maker.end() && made->second != s) add_once(work[s].behind, made->second);
    }
  }
  return devices.size() > 1 ? order_for_devices(work) : std::vector<uint32_t>();
}

}  // namespace

Result<void> order_units(const Plan& plan, UnitProgram& program, uint32_t block, const SizeHint& hint) {
  const int64_t most = std::numeric_limits<int64_t>::max() / static_cast<int64_t>(plan.buffers.size() + 1);
  std::vector<Unit>& units = program.blocks[block].units;
  std::vector<uint32_t> used;  // by the block's units: their numbers there are places in this
  for (const Unit& unit : units) {
    used.insert(used.end(), unit.reads.begin(), unit.reads.end());
    used.insert(used.end(), unit.makes.begin(), unit.makes.end());
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::vector<OrderBuffer> buffers;
  for (const uint32_t b : used) {
    const bool own = program.home[b] == block;
    buffers.push_back({own ? std::min(hint(size_in_bytes(plan.buffers[b], block != 0)), most) : 0, !own});
  }
  const auto places = [&](std::vector<uint32_t> list) {
    for (uint32_t& b : list) b = static_cast<uint32_t>(std::lower_bound(used.begin(), used.end(), b) - used.begin());
    return list;
  };
  std::vector<OrderStep> steps;
  for (const Unit& unit : units) {
    OrderStep step{places(unit.reads), places(unit.makes), {}, 0};
    for (const uint32_t child : unit.blocks) step.scratch = std::max(step.scratch, program.blocks[child].peak);
    steps.push_back(std::move(step));
  }
  order_writers(steps, buffers.size());
  CODETTA_TRY(StepOrder order, order_for_memory(steps, buffers));
  if (std::vector<uint32_t> apart = device_order(plan, program, block, steps, hint); !apart.empty()) {
    order.steps = std::move(apart);
    order.peak = peak_of(steps, buffers, order.steps);
  }
  std::vector<Unit> ordered;
  for (const uint32_t r : order.steps) ordered.push_back(std::move(units[r]));
  units = std::move(ordered);
  program.blocks[block].peak = order.peak;
  return {};
}

}  // namespace codetta::plan
