// SPDX-License-Identifier: Apache-2.0
// Problems with an empty batch, M or N: no element exists, but results of rows, of columns and of everything may still
// be owed, and what follows them, such as the logsumexp over M of a minimum over no columns.
//
// Such a problem runs over a root space in which each empty extent counts as 1, with accumulators of K = 0. What is
// computed there for missing elements is arbitrary and is stored nowhere; reductions over an empty extent give their
// identity whatever they were fed.
#pragma once

#include <vector>

#include "package/epilogue_program.hpp"
#include "runtime/cpu/gemm.hpp"

namespace codetta::runtime {

// Whether an operand is written for each place along an extent that is empty: a part of its argument, which has no
// element.
bool writes_nothing(const package::Operand& operand, const cpu::GemmProblem& problem);

// The program without its stores to arguments that have no elements, and without those that write nothing.
package::EpilogueProgram owed_stores(const package::EpilogueProgram& program, const std::vector<bool>& argument_empty,
                                     const cpu::GemmProblem& problem);

// Replaces empty extents by 1 and K by 0. The split's chunk follows the columns.
void stand_in(cpu::GemmProblem& problem);

// Whether a reduction over this axis of the true extents has nothing to reduce.
bool reduces_nothing(package::ReduceAxis axis, const cpu::GemmProblem& problem);

}  // namespace codetta::runtime
