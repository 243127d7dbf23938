// SPDX-License-Identifier: Apache-2.0
// Steps of a run as the public observers see them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codetta/program.hpp"
#include "plan/plan.hpp"
#include "runtime/execution.hpp"

namespace codetta::driver {

// In the place of a result that a function has allocated and nothing takes.
TensorView nothing_taken();

class StepRecords {
 public:
  struct Known {
    StepRecord record;              // without values and times; .step: "step 3 (launch_kernel)"
    std::vector<uint32_t> written;  // buffers
    std::vector<uint32_t> results;  // of the function, in order; none if one is nowhere
    std::optional<size_t> planned;  // of launches: the kernel of the plan
    std::optional<size_t> list{};   // of a branch or a loop; none: the main one
    size_t index = 0;               // in its list
  };
  // The package was emitted from the plan, or from one that differs in the choice of candidates only.
  StepRecords(package::PackageRef package, const plan::Plan& plan);
  [[nodiscard]] StepRecord record(const runtime::StepEvent& event) const;
  // Of a step that has not run: without values and times.
  [[nodiscard]] const StepRecord& started(const package::Step& step) const { return steps_.at(&step).record; }
  // By the text of a record.
  [[nodiscard]] const Known& known(const std::string& text) const { return *by_text_.at(text); }
  [[nodiscard]] const std::string& text_of(const package::Step* step) const { return steps_.at(step).record.step; }

 private:
  void add(const package::StepList& steps, std::optional<size_t> list, const plan::Plan& plan,
           const std::vector<uint32_t>& launched, size_t& next);
  package::PackageRef package_;
  std::map<const package::Step*, Known> steps_;
  std::map<std::string, const Known*> by_text_;
};

}  // namespace codetta::driver
