// SPDX-License-Identifier: Apache-2.0
// What the calls of codetta/evt.hpp have in common.
#pragma once

#include "codetta/evt.hpp"
#include "driver/problem.hpp"
#include "emit/evt/evt.hpp"
#include "emit/host/text.hpp"

namespace codetta::driver {

struct EvtProblem {
  Problem gemm;
  ir::Graph graph;  // after the passes
  emit::evt::Problem evt;
};
// evt.graph is for the caller to set, once the object stays where it is.
Result<EvtProblem> make_evt_problem(const GemmArguments& arguments);
// Architecture, tile, schedule and names. Errors: E0230, E0406, E0412.
Result<void> apply(const EvtOptions& options, emit::evt::Problem& problem);

// The whole kernel of a problem. Errors: those of emit_cutlass.
Result<emit::evt::KernelText> emit_whole(EvtProblem& problem, const EvtOptions& options, const std::string& name);

}  // namespace codetta::driver
