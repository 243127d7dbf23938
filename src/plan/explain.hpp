// SPDX-License-Identifier: Apache-2.0
// A planned program for people and tools: what each kernel holds, what was not fused and why, what was picked, what it
// saves. docs/explain.md defines every figure.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace codetta::plan {

// What emission made of the kernels: those of equal source and configuration are one.
struct EmittedKernels {
  std::vector<std::string> names;  // by kernel of the plan
  size_t defined = 0;              // kernels of the package
  size_t compiled = 0;             // different sources among them
};

using GivenSizes = std::vector<std::pair<std::string, int64_t>>;  // symbol -> value

// What a kernel computes and another one, or a step, reads.
struct Boundary {
  uint32_t buffer = 0;
  size_t from = 0, to = 0;  // kernels of the plan
  uint16_t code = 0;        // E03xx, E04xx; 0: nothing was refused, the value is needed in memory anyway
  std::string text;
  std::string step{};  // "index_put ...", which reads it instead of a kernel `to`; empty: it is the kernel
};
// Products of one A (or, with swapped places, B) and other factors.
struct SharedFactor {
  uint32_t buffer = 0;
  bool is_a = true;
  std::vector<size_t> kernels;
  std::vector<uint32_t> others;  // buffers of the other factors
  types::Dim again;              // bytes of the shared factor that are read more than once
};

struct ProgramExplanation {
  std::vector<size_t> order;                           // kernels of the plan in the order of the text
  std::vector<const package::LaunchKernel*> launches;  // by kernel; null: another one calls it for a factor
  std::vector<bool> nested;                            // by kernel: launched in a branch or a loop
  std::vector<Boundary> boundaries;                    // in that order
  std::vector<FusionNote> decisions;                   // those that no boundary tells
  std::vector<SharedFactor> shared;
  size_t launched = 0;
  size_t one_an_operation = 0;  // kernels that the same program would be with one kernel an operation
  types::Dim saved;             // bytes
};
// The launches are those of `plan`, which must live as long.
ProgramExplanation explained(const Plan& plan);

// `name`: of the program. Sizes that are not given stay expressions, and count as 512 in estimates.
std::string explain_text(const Plan& plan, std::string_view name, const EmittedKernels& emitted,
                         const GivenSizes& sizes);
std::string explain_json(const Plan& plan, std::string_view name, const EmittedKernels& emitted,
                         const GivenSizes& sizes);

}  // namespace codetta::plan
