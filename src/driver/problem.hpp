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
  std::vector<ir::BoundArgument> arguments;  // what the epilogue's parameters and outputs are bound to
  bool strict = false;
  MathMode math = MathMode::Strict;
  ir::Graph bound;  // canonical and typed, before any pass: what the oracle evaluates
  plan::GemmShape shape;
  TensorView a, b;                            // as rank-3 views where batched
  std::map<std::string, TensorView> tensors;  // epilogue tensors and outputs by name
  std::map<std::string, ArgumentValue> scalars;
  std::vector<plan::ArgumentLayout> layouts;  // by program argument: tensor and scalar inputs, then outputs
};

// Checks views and names; neither bound nor layouts are there yet. Errors: E02xx, E06xx.
Result<Problem> gather_problem(const GemmArguments& arguments);
// Types the epilogue. Errors: E02xx.
Result<void> bind_problem(Problem& problem);
// Both.
Result<Problem> make_problem(const GemmArguments& arguments);
// The bound graph through the passes; as it was bound where they leave nothing of the product, since a choice between
// equal values doesn't depend on it.
Result<opt::Optimized> optimize_problem(const Problem& problem, const opt::RunOptions& options);
// Whether binding must give both the same graph, and layouts that differ in nothing that programs rely on; `bound` has
// been bound, `other` only gathered.
bool binds_alike(const Problem& bound, const Problem& other);

// The values of a graph's inputs and outputs, for an executor or the oracle. The scalar in the dtype that binding gave
// it.
codetta::cpu::ScalarValue scalar_value(const ArgumentValue& value, DType dtype);
// The dtype of a host number: f32 (f64 with an f64 accumulator), i32 where it fits, else i64, bool.
DType scalar_dtype(const ArgumentValue& value, DType accumulator);

// Casts make enums of anything: `value` of `option`, whose names are numbered from 0. Errors: E0703.
Result<void> check_enum(const char* option, int value, int last);
// The error with positions for what is about an argument and has none: where the function names it.
Error placed(const Error& error, const ir::Function& function);
// Gives it this place in the text.
void place(Diagnostic& diagnostic, const diag::SourceRef& source, diag::Span span);

// For the use of an object that holds nothing: `what` is "kernel", `source` where one comes from. E0608.
Error nothing_held(const std::string& what, const std::string& source);

}  // namespace codetta::driver
