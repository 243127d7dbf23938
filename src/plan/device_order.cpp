// SPDX-License-Identifier: Apache-2.0
#include "plan/device_order.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace codetta::plan {
namespace {

class DeviceClocks {
 public:
  [[nodiscard]] double start(const DeviceStep& step) const {
    double at = 0;
    for (const uint32_t device : step.devices) {
      const auto clock = at_.find(device);
      if (clock != at_.end()) at = std::max(at, clock->second);
    }
    return at;
  }
  double run(const DeviceStep& step) {
    const double end = start(step) + step.microseconds;
    for (const uint32_t device : step.devices) at_[device] = end;
    return end;
  }

 private:
  std::map<uint32_t, double> at_;
};

}  // namespace

std::vector<uint32_t> order_for_devices(const std::vector<DeviceStep>& steps) {
  std::vector<std::vector<uint32_t>> users(steps.size());
  std::vector<size_t> waits(steps.size());
  for (uint32_t s = 0; s < steps.size(); ++s) {
    for (const uint32_t before : steps[s].behind) users[before].push_back(s);
    waits[s] = steps[s].behind.size();
  }
  std::vector<uint32_t> ready, sorted;
  std::vector<size_t> left = waits;
  for (uint32_t s = 0; s < steps.size(); ++s) {
    if (left[s] == 0) sorted.push_back(s);
  }
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (const uint32_t user : users[sorted[i]]) {
      if (--left[user] == 0) sorted.push_back(user);
    }
  }
  if (sorted.size() != steps.size()) return {};
  std::vector<double> path(steps.size());  // of the step and what waits for it
  for (size_t i = sorted.size(); i-- > 0;) {
    const uint32_t s = sorted[i];
    for (const uint32_t user : users[s]) path[s] = std::max(path[s], path[user]);
    path[s] += steps[s].microseconds;
  }
  for (uint32_t s = 0; s < steps.size(); ++s) {
    if (waits[s] == 0) ready.push_back(s);
  }
  DeviceClocks clocks;
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    const auto key = [&](uint32_t s) {
      return std::make_tuple(clocks.start(steps[s]), !steps[s].is_copy, -path[s], s);
    };
    const auto next =
        std::min_element(ready.begin(), ready.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    const uint32_t s = *next;
    ready.erase(next);
    order.push_back(s);
    clocks.run(steps[s]);
    for (const uint32_t user : users[s]) {
      if (--waits[user] == 0) ready.push_back(user);
    }
  }
  return order;
}

double microseconds_of(const std::vector<DeviceStep>& steps, const std::vector<uint32_t>& order) {
  DeviceClocks clocks;
  double end = 0;
  for (const uint32_t s : order) end = std::max(end, clocks.run(steps[s]));
  return end;
}

}  // namespace codetta::plan
