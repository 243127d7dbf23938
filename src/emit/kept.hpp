// SPDX-License-Identifier: Apache-2.0
// Which values of a map's phases a thread keeps in registers until later phases, where it finishes whole rows.
#pragma once

#include <utility>
#include <vector>

#include "base/result.hpp"
#include "package/epilogue_program.hpp"

namespace codetta::emit {

struct KeptLoad {
  uint32_t value = 0, slot = 0;  // the load in its phase
  bool first = false;            // it is in no earlier phase: here it is loaded
};

struct KeptValues {
  // The same phases, where what an earlier phase has computed is an accumulator: part k stands for slot k.
  package::EpilogueProgram program;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> saved;  // by phase: values, and the slots that take them
  uint32_t slots = 0;
  std::vector<uint32_t> last;  // of each slot: the last phase that takes its value
  // By phase: loads whose vectors are kept as they are; of these there are slots of their own, by element type.
  std::vector<std::vector<KeptLoad>> loads;
  std::vector<DType> load_slots;
  // Registers an element that hold something between two phases, at most, and in a phase, which takes some and makes
  // others.
  double most_live = 0, most_held = 0;
  [[nodiscard]] bool any() const { return slots > 0 || !load_slots.empty(); }
};

// f32 values that change along rows and columns; those closest to what later phases do with them. Of a value that one
// or two cheap operations make of a 16-bit float the latter is kept, in half the registers, and they are done again.
// Errors: as make_nests.
Result<KeptValues> keep_values(const package::EpilogueProgram& program);

}  // namespace codetta::emit
