// SPDX-License-Identifier: Apache-2.0
// Which values of a map's phases a thread keeps in registers until later phases, where it finishes whole rows.
#pragma once

#include <utility>
#include <vector>

#include "base/result.hpp"
#include "package/epilogue_program.hpp"

namespace codetta::emit {

struct KeptValues {
  // The same phases, where what an earlier phase has computed is an accumulator: part k stands for slot k.
  package::EpilogueProgram program;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> saved;  // by phase: values, and the slots that take them
  uint32_t slots = 0;
  int most_live = 0;  // slots that hold something between two phases, at most
};

// f32 values that change along rows and columns; those closest to what later phases do with them. Errors: as
// make_nests.
Result<KeptValues> keep_values(const package::EpilogueProgram& program);

}  // namespace codetta::emit
