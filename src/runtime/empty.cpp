// SPDX-License-Identifier: Apache-2.0
#include "runtime/empty.hpp"

#include <algorithm>

namespace codetta::runtime {

bool writes_nothing(const package::Operand& operand, const cpu::GemmProblem& problem) {
  return std::any_of(operand.terms.begin(), operand.terms.end(), [&](const package::IndexTerm& term) {
    return (term.axis == package::Axis::Batch ? problem.batch
            : term.axis == package::Axis::Row ? problem.m
                                              : problem.n) == 0;
  });
}

package::EpilogueProgram owed_stores(const package::EpilogueProgram& program, const std::vector<bool>& argument_empty,
                                     const cpu::GemmProblem& problem) {
  package::EpilogueProgram result = program;
  for (package::Phase& phase : result.phases) {
    phase.stores.erase(std::remove_if(phase.stores.begin(), phase.stores.end(),
                                      [&](const package::Store& store) {
                                        const package::Operand& operand = result.operands[store.operand];
                                        return argument_empty[operand.argument] || writes_nothing(operand, problem);
                                      }),
                       phase.stores.end());
  }
  return result;
}

void stand_in(cpu::GemmProblem& problem) {
  problem.batch = std::max<int64_t>(problem.batch, 1);
  problem.m = std::max<int64_t>(problem.m, 1);
  problem.k = 0;
  if (problem.n > 0) return;
  problem.n = problem.split.ways;
  problem.split.chunk = 1;
}

bool reduces_nothing(package::ReduceAxis axis, const cpu::GemmProblem& problem) {
  switch (axis) {
    case package::ReduceAxis::Row:
      return problem.n == 0;
    case package::ReduceAxis::Column:
      return problem.m == 0;
    case package::ReduceAxis::Item:
      return problem.m == 0 || problem.n == 0;
    case package::ReduceAxis::All:
      break;
  }
  return problem.batch == 0 || problem.m == 0 || problem.n == 0;
}

}  // namespace codetta::runtime
