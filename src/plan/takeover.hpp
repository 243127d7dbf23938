// SPDX-License-Identifier: Apache-2.0
// Results of branches and loops that are made where the value in front of them lies.
#pragma once

#include <cstdint>

#include "plan/units.hpp"

namespace codetta::plan {

// Whether the only unit of the block that makes `made` may write to `old` at once: every reader of the old value is
// over.
bool may_write_at_once(const Plan& plan, const UnitProgram& program, uint32_t block, uint32_t made, uint32_t old);

// `to` in place of `from` in a block and those inside of it. What then copies a buffer to itself is dropped.
void rename(UnitProgram& program, uint32_t block, uint32_t from, uint32_t to);

// A result of an If whose operand of the same form ends with it, and which both branches may write at once, begins as a
// copy of that operand in front of the If; what a branch hands on as it is, or updates in place, then costs nothing.
// Units are in their final order. Memory planning makes the copy a Reuse.
void take_over_operands(const Plan& plan, UnitProgram& program);

}  // namespace codetta::plan
