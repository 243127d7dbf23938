// SPDX-License-Identifier: Apache-2.0
// From GemmArguments to a typed, optimized graph with everything that planning and binding need.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codetta/kernel.hpp"
#include "ir/bind.hpp"
#include "opt/passes.hpp"
#include "plan/candidates.hpp"
#include "plan/lower.hpp"
#include "runtime/execution.hpp"

namespace codetta::driver {

struct Problem {
  std::shared_ptr<const ir::EpilogueFunction> function;
  ir::GemmFacts facts;
  ir::Graph bound;                      // as bound: what the oracle evaluates
  ir::Graph graph;                      // optimized: what is planned
  std::vector<opt::PassRecord> passes;  // how it came about
  plan::GemmShape shape;
  TensorView a, b;                            // as rank-3 views where batched
  std::map<std::string, TensorView> tensors;  // epilogue tensors and outputs by name
  std::map<std::string, ArgumentValue> scalars;
  std::vector<plan::ArgumentLayout> layouts;  // by program argument: tensor and scalar inputs, then outputs
};

// Checks views and names, binds, and runs the passes. Errors: E02xx, E06xx.
Result<Problem> make_problem(const GemmArguments& arguments);

// The values of a graph's inputs and outputs, for an executor or the oracle. The scalar in the dtype that binding gave
// it.
codetta::cpu::ScalarValue scalar_value(const ArgumentValue& value, DType dtype);
// The dtype of a host number: f32 (f64 with an f64 accumulator), i32 where it fits, else i64, bool.
DType scalar_dtype(const ArgumentValue& value, DType accumulator);

}  // namespace codetta::driver
