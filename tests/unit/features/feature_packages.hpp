// SPDX-License-Identifier: Apache-2.0
// One small package for every kind of step, guard and launch feature: what each backend says to it is its cell in
// docs/features.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unit/runtime/step_program.hpp"

namespace codetta::features {

struct Feature {
  std::string group;  // heading of the table
  std::string row;
  std::vector<size_t> steps;   // kinds that the package shows, as indices of package::Step
  std::vector<size_t> guards;  // likewise of package::Guard
  std::unique_ptr<runtime::test::StepProgram> program;
};

// Of the kernel whose launch passes a hook on a GPU: both of its tensors and a size in one parameter.
inline constexpr const char* hands_over = "hands_over";

// In the order of the page.
std::vector<Feature> all_features();

}  // namespace codetta::features
