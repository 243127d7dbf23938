// SPDX-License-Identifier: Apache-2.0
// A program between its regions and its steps: units of work with what they read and make, in blocks that nest as
// branches and loops do. Ordering, memory and the step lists are decided on these.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/guards.hpp"
#include "plan/plan.hpp"

namespace codetta::plan {

inline constexpr uint32_t no_block = UINT32_MAX;

// Steps that run one after the other; an If or While is the last one. A Copy in front of others gives what they update
// its first contents; where its source ends with the unit it is replaced by Reuse.
struct Unit {
  std::vector<package::Step> steps;
  std::vector<uint32_t> reads, makes;  // buffers, each once; of If and While with those of their blocks
  std::vector<uint32_t> blocks;        // If: then, else; While: condition, body. Block b is list b - 1 of the package
  uint32_t device = 0;                 // of its steps, but for copies between two
};
struct UnitBlock {
  std::vector<Unit> units;
  std::vector<package::RangeGuard> checks;  // in front of them, of sizes that are known by then
  int64_t peak = 0;                         // bytes of its own at the fullest unit, with hints
};

struct UnitProgram {
  std::vector<UnitBlock> blocks;  // 0: the program itself
  std::vector<uint32_t> home;     // by buffer of the plan: the block in which it is placed; no_block: it is not
};

// What order and sizes are taken from.
using SizeHint = std::function<int64_t(const types::Dim&)>;

// `in_branch`: of a block that may not run, where sizes may be below 0. They take no place then, so that what else lies
// in the pool keeps its own.
types::Dim size_in_bytes(const package::Buffer& buffer, bool in_branch);
// Adds to reads or makes, once.
void add_once(std::vector<uint32_t>& list, uint32_t buffer);
// Calls f(buffer&) for every buffer that a step names; kernels and lists stay.
void each_buffer(package::Step& step, const std::function<void(uint32_t&)>& f);
// Whether the copies in front of a unit's other steps are the only ones of its own steps to name the buffer.
bool read_only_by_copies(const Unit& unit, uint32_t buffer);
// Whether the launch, a step of the unit, reads `operand` nowhere but at the element of `result` that it writes.
bool updates_in_place(const Plan& plan, const Unit& unit, const package::LaunchKernel& launch, uint32_t operand,
                      uint32_t result);

// Puts the units of a block in the order that needs the least memory at once. Blocks inside are ordered before.
Result<void> order_units(const Plan& plan, UnitProgram& program, uint32_t block, const SizeHint& hint);

// Places every temporary and appends the steps: plan.steps, step_lists, pools, temporaries, memory. Buffers that no
// step names any more are dropped.
Result<void> schedule(Plan& plan, UnitProgram& program, const SizeHint& hint);

}  // namespace codetta::plan
