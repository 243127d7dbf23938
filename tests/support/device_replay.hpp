// SPDX-License-Identifier: Apache-2.0
// Runs a package over several devices in thought: each device has a stream, events order them, and vector clocks say
// what every piece of work is behind. Finds two uses of one device's memory by different streams that nothing orders.
// Knows of copies only what package::device_copies() says, and nothing of how that was found.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "package/device_copies.hpp"

namespace codetta::test {

class DeviceReplay {
 public:
  // `gathers`: sources of copies lie in pieces now and then, which only a run knows.
  DeviceReplay(const package::Package& package, const std::vector<package::DeviceCopy>& copies, uint32_t seed,
               bool gathers)
      : p_(package),
        random_(seed),
        gathers_(gathers),
        clocks_(package.device_count, Clock(package.device_count)),
        used_(package.device_count, Clock(package.device_count)) {
    for (const package::DeviceCopy& copy : copies) orders_[copy.step] = copy;
  }

  // One run, with branches and passes of loops as they fall. What is wrong, else empty.
  std::string run() {
    list(p_.steps, 0);
    // Memory is given back on the stream of its device, and the caller's stream goes on behind all.
    for (uint32_t device = 0; device < p_.device_count; ++device) work(device, {device}, "the end of the run");
    return wrong_;
  }
  int works = 0;

 private:
  using Clock = std::vector<int>;  // by stream: how much of it

  void work(uint32_t stream, std::initializer_list<uint32_t> memories, const std::string& what) {
    ++works;
    const int number = ++clocks_[stream][stream];
    for (const uint32_t memory : memories) {
      for (uint32_t other = 0; other < p_.device_count; ++other) {
        if (used_[memory][other] > clocks_[stream][other] && wrong_.empty())
          wrong_ = fmt::format("{} on stream {} is not behind what stream {} does with the memory of device {}", what,
                               stream, other, memory);
      }
      used_[memory][stream] = number;
    }
  }
  void order(uint32_t earlier, uint32_t later) {
    for (uint32_t i = 0; i < p_.device_count; ++i) clocks_[later][i] = std::max(clocks_[later][i], clocks_[earlier][i]);
  }
  bool falls() { return random_() % 2 == 0; }

  void list(const package::StepList& steps, uint32_t around) {
    std::vector<uint32_t> scope{around};
    for (const package::Step& step : steps) {
      if (const auto* enter = std::get_if<package::EnterDevice>(&step)) scope.push_back(enter->device);
      if (std::holds_alternative<package::ExitDevice>(step)) scope.pop_back();
      const uint32_t here = scope.back();
      if (const auto* branch = std::get_if<package::If>(&step))
        list(p_.step_lists[falls() ? branch->then_list : branch->else_list], here);
      if (const auto* loop = std::get_if<package::While>(&step)) {
        list(p_.step_lists[loop->condition], here);
        for (int pass = 0; pass < 3 && falls(); ++pass) {
          list(p_.step_lists[loop->body], here);
          list(p_.step_lists[loop->condition], here);
        }
      }
      if (std::holds_alternative<package::LaunchKernel>(step) || std::holds_alternative<package::CallExtern>(step) ||
          std::holds_alternative<package::Fill>(step) || std::holds_alternative<package::IndexPut>(step) ||
          std::holds_alternative<package::Scatter>(step))
        work(here, {here}, std::string(name_of(step)));
      if (const auto* one = std::get_if<package::Copy>(&step)) copy(*one);
    }
  }
  void copy(const package::Copy& step) {
    const uint32_t from = p_.buffers[step.source].device, to = p_.buffers[step.target].device;
    if (from == to) return work(to, {to}, "a copy");
    const auto found = orders_.find(&step);
    if (found == orders_.end()) {
      wrong_ = "a copy between devices of which nothing is said";
      return;
    }
    const package::DeviceCopy& said = found->second;
    if (said.from != from || said.to != to) wrong_ = "a copy is said to be between other devices";
    const bool gathers = gathers_ && falls();
    if (gathers) {
      if (said.follows) order(to, from);
      work(from, {from}, "a gather");
    }
    if (said.waits || gathers) order(from, to);
    work(to, {from, to}, fmt::format("copy {} to {}", step.source, step.target));
    if (said.waited_for) order(to, from);
  }

  const package::Package& p_;
  std::mt19937 random_;
  bool gathers_;
  std::map<const package::Copy*, package::DeviceCopy> orders_;
  std::vector<Clock> clocks_, used_;  // by stream; by memory, the last use of each stream
  std::string wrong_;
};

}  // namespace codetta::test
