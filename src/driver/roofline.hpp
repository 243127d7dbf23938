// SPDX-License-Identifier: Apache-2.0
// How far the kernels of a program are from what the machine could do, by the cost model's estimates.
#pragma once

#include <string>
#include <vector>

#include "driver/size_sets.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

struct RooflinePoint {
  size_t kernel = 0;        // of the plan
  double operations = 0;    // 2 a multiply-add of a product, and 1 an element of the kernel's space for each other one
  double bytes = 0;         // of every tensor that it reads or writes, once
  double microseconds = 0;  // the estimate
  [[nodiscard]] double intensity() const { return bytes > 0 ? operations / bytes : 0; }
  [[nodiscard]] double rate() const { return microseconds > 0 ? operations / microseconds / 1000 : 0; }  // G/s
};
struct Roofline {
  std::vector<RooflinePoint> points;  // of the kernels that steps launch, in the order of the plan
  double memory_rate = 0;             // GB/s
  double peak = 0;                    // G operations a second; 0: not known
  std::string peak_of;                // "multiply-adds of f32"
  // What the machine could do at this intensity.
  [[nodiscard]] double roof(double intensity) const;
};
// `sizes`: of symbols; others count as 512, as in planning.
Roofline roofline(const plan::Plan& plan, const plan::MachineFacts& machine, const SizeHints& sizes);

}  // namespace codetta::driver
