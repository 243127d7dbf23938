// SPDX-License-Identifier: Apache-2.0
// Factors that a GPU's kernel makes where it reads them (package::FactorProgram): what an element of one takes, and
// what of it is the same for elements that lie side by side.
#pragma once

#include <cstdint>

#include "package/epilogue_program.hpp"
#include "plan/regions.hpp"

namespace codetta::plan {

// Rows (columns) in which an operand by index terms is the same, from multiples of that on: a power of two, at most
// max_run, which it is too where no term has the axis.
inline constexpr int64_t max_run = 64;
int64_t run_along(const package::Operand& operand, package::Axis axis);

// Of one element. Clocks are those of a lane: what is the same in a row is computed once for a vector of elements, or,
// `unshared`, for each. Bytes come from memory, each tensor at most once.
struct MakingCost {
  double clocks = 0, unshared_clocks = 0, read_bytes = 0;
};
// `map`: what stores the factor otherwise, over `elements` of it.
MakingCost making_cost(const package::EpilogueProgram& map, double elements, const SizeOf& size);

// Rows of a factor whose vectors a thread has under way at once: neighbours in groups of `reach`, of which it has each
// `apart`-th, with `cols` columns.
struct HeldRows {
  int64_t reach = 1, apart = 1, cols = 1;
};
// Bytes in registers for an element of A (B, of those of several products the one with most): what is the same for
// several is held once.
double held_bytes(const package::EpilogueProgram& program, package::FactorProgram::Which which, const HeldRows& rows);

}  // namespace codetta::plan
