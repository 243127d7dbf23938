// SPDX-License-Identifier: Apache-2.0
#include "driver/same_program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analyses.hpp"
#include "ir/bind_arguments.hpp"

namespace codetta::driver {
namespace {

// But for whether rows lie side by side: what relies on that looks at each launch.
bool same_program(package::EpilogueProgram found, package::EpilogueProgram other) {
  for (package::EpilogueProgram* program : {&found, &other}) {
    for (package::Operand& operand : program->operands) operand.column_major = false;
  }
  return found == other;
}

// Whether a tensor of the shape `given` beside a product of the sizes `to` is what one of the shape `found` is beside
// `from`: full in the same dims, and 1 in the others.
bool follows(const Dims& found, const Dims& given, const ir::GemmFacts& from, const ir::GemmFacts& to) {
  if (found.rank() != given.rank()) return false;
  const int64_t before[] = {from.n, from.m, from.batch}, after[] = {to.n, to.m, to.batch};
  for (int i = 0; i < found.rank(); ++i) {
    const int dim = found.rank() - 1 - i;
    const bool full = found[i] != 1 && dim < 3 && found[i] == before[dim];
    if (given[i] != (full ? after[dim] : found[i])) return false;
  }
  return true;
}

// The problem with the sizes of `wanted`, bound, where that holds for its own as well: a tensor that is full in a dim
// of size 1 is read at its one place, but bound by itself it would be one that all rows share.
std::optional<Problem> with_sizes_of(const Problem& wanted, const Problem& problem) {
  const auto& inputs = wanted.bound.inputs();
  const auto symbolic = [](const types::Dim& dim) { return dim.as_symbol().has_value(); };
  if (inputs.size() < 2 || wanted.arguments.size() != problem.arguments.size()) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {  // A and B; where the text reshapes, sizes are constants
    const auto& shape = wanted.bound.type(inputs[i].node).shape;
    if (!std::all_of(shape.begin(), shape.end(), symbolic)) return std::nullopt;
  }
  ir::GemmFacts facts = problem.facts;
  facts.batch = wanted.facts.batch, facts.m = wanted.facts.m, facts.n = wanted.facts.n, facts.k = wanted.facts.k;
  facts.out_shape = wanted.facts.out_shape;
  if (!(facts == wanted.facts) ||
      !follows(wanted.facts.out_shape, problem.facts.out_shape, wanted.facts, problem.facts))
    return std::nullopt;
  for (size_t i = 0; i < problem.arguments.size(); ++i) {
    ir::BoundArgument argument = problem.arguments[i];
    argument.shape = wanted.arguments[i].shape;
    if (!(argument == wanted.arguments[i]) ||
        !follows(argument.shape, problem.arguments[i].shape, wanted.facts, problem.facts))
      return std::nullopt;
  }
  Problem other = problem;
  other.facts = wanted.facts;
  other.arguments = wanted.arguments;
  if (!bind_problem(other)) return std::nullopt;
  return other;
}

// Whether the graph of a bound problem is lowered to the program that was found.
Result<bool> is_found_program(const FoundState& found, const Problem& problem) {
  CODETTA_TRY(const opt::Optimized optimized, optimize_problem(problem, found.context->debug.passes));
  CODETTA_TRY(const Planned* planned, found.planned());
  // The product has a place of its own in each graph.
  const std::vector<ir::NodeId> products = ir::matmuls(optimized.graph);
  if (products.size() != 1) return false;
  CODETTA_TRY(const plan::Lowered lowered, plan::lower_epilogue(optimized.graph, products[0], problem.layouts));
  return same_program(planned->plan.kernels[0].lowered.program, lowered.program);
}

// What of the epilogue differs: a tensor of another form, by name, or else that something does.
std::string other_form(const Problem& wanted, const Problem& problem) {
  for (const ir::BoundArgument& argument : problem.arguments) {
    const auto found = std::find_if(wanted.arguments.begin(), wanted.arguments.end(),
                                    [&](const ir::BoundArgument& one) { return one.name == argument.name; });
    if (found == wanted.arguments.end() || found->is_scalar || argument.is_scalar) continue;
    if (found->dtype == argument.dtype && !follows(found->shape, argument.shape, wanted.facts, problem.facts)) {
      return fmt::format("{} is {}, and the kernel was found with {}, of a product of {} x {}", argument.name,
                         ir::describe(argument), ir::describe(*found), wanted.facts.m, wanted.facts.n);
    }
  }
  return "the epilogue, an operand's dtype, broadcast form or layout differs from what the kernel was found with";
}

}  // namespace

Result<void> check_same_program(const FoundState& found, Problem& problem) {
  const Problem& wanted = found.problem;
  if (binds_alike(wanted, problem)) return {};
  CODETTA_CHECK_OK(bind_problem(problem));
  const bool same_types = problem.facts.a == wanted.facts.a && problem.facts.b == wanted.facts.b;
  if (same_types && problem.strict == wanted.strict && problem.math == wanted.math) {
    CODETTA_TRY(const bool same, is_found_program(found, problem));
    if (same) return {};
    if (const auto other = with_sizes_of(wanted, problem)) {
      CODETTA_TRY(const bool holds, is_found_program(found, *other));
      if (holds) return {};
    }
  }
  return diag::error(diag::Code::kernel_mismatch, "these arguments need another kernel")
      .reason(!same_types
                  ? fmt::format("the kernel is for {} x {}, the arguments are {} x {}", dtype_name(wanted.facts.a),
                                dtype_name(wanted.facts.b), dtype_name(problem.facts.a), dtype_name(problem.facts.b))
              : problem.strict != wanted.strict ? "the kernel was found with another setting of `strict`"
              : problem.math != wanted.math ? fmt::format("the kernel was found with math = {}, the arguments have {}",
                                                          math_mode_name(wanted.math), math_mode_name(problem.math))
                                            : other_form(wanted, problem))
      .help("call find_kernels again with these arguments");
}

}  // namespace codetta::driver
