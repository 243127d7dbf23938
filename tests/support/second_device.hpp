// SPDX-License-Identifier: Apache-2.0
// Planned packages of one device made into such of two by hand: the last product becomes one of device 1, where all
// that it reads and writes then lies but for its A, which is copied there.
#pragma once

#include <algorithm>
#include <iterator>

#include "package/package.hpp"

namespace codetta::test {

inline void move_last_product(package::Package& package) {
  using namespace package;  // NOLINT: kinds of steps
  const auto last = std::find_if(package.steps.rbegin(), package.steps.rend(), [](const Step& step) {
    const auto* launch = std::get_if<LaunchKernel>(&step);
    return launch != nullptr && launch->product;
  });
  auto launch = *std::get_if<LaunchKernel>(&*last);
  const auto at = std::distance(last, package.steps.rend()) - 1;
  const uint32_t from = launch.product->a, there = static_cast<uint32_t>(package.buffers.size());
  Buffer moved = package.buffers[from];
  moved.name += " of device 1";
  moved.role = Buffer::Role::Temporary;
  package.buffers.push_back(moved);
  launch.product->a = there;
  for (uint32_t& argument : launch.arguments) argument = argument == from ? there : argument;
  const auto move = [&](uint32_t b) { package.buffers[b].device = package.buffers[b].is_scalar ? 0 : 1; };
  launch.product->each_buffer(move);
  for (const uint32_t argument : launch.arguments) move(argument);
  const StepList around{EnterDevice{1}, Allocate{there}, ExitDevice{}, Copy{from, there},
                        EnterDevice{1}, launch,          Free{there},  ExitDevice{}};
  package.steps.erase(package.steps.begin() + at);
  package.steps.insert(package.steps.begin() + at, around.begin(), around.end());
  package.device_count = 2;
}

}  // namespace codetta::test
