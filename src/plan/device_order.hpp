// SPDX-License-Identifier: Apache-2.0
// The order of a list of steps by which several devices work at the same time.
//
// A device runs its steps in the order of the list, and a copy between two begins when both have run what stands in
// front of it. So a copy that stands too early holds back the device that makes nothing for it, and one that stands too
// late lets the device wait that needs it. The order is found by running the steps in thought: next comes the step that
// can begin first. Where several can, a copy does, since another device goes on with it; then the step in front of
// which the longest work waits.
#pragma once

#include <cstdint>
#include <vector>

namespace codetta::plan {

struct DeviceStep {
  std::vector<uint32_t> devices;  // that are busy with it: one, two of a copy between them, all of a branch or a loop
  bool is_copy = false;           // between two
  double microseconds = 0;
  std::vector<uint32_t> behind;  // steps that must have run
};

// Every step once, each behind what it needs; empty: they wait for each other.
std::vector<uint32_t> order_for_devices(const std::vector<DeviceStep>& steps);

// How long all take in an order, by the same account.
double microseconds_of(const std::vector<DeviceStep>& steps, const std::vector<uint32_t>& order);

}  // namespace codetta::plan
