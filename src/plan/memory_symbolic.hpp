// SPDX-License-Identifier: Apache-2.0
// Offsets that hold for every value of the symbols.
#pragma once

#include <vector>

#include "plan/memory_search.hpp"
#include "types/dim.hpp"

namespace codetta::plan {

struct SymbolicOffsets {
  std::vector<std::vector<types::Dim>> terms;  // by item: its offset is the largest of these
  std::vector<types::Dim> at;
  std::vector<int64_t> hinted;
  types::Dim bytes;
  int64_t hinted_bytes = 0;
};

// Stacks items in the given order: each directly above the highest of those before it that it must not overlap. The
// order alone decides who lies above whom, so the result is sound for all sizes; with those of the hints it needs no
// more than a layout whose offsets ascend in this order. `sizes` are >= 0 for all symbols and count as rounded up to
// the alignment. Conflicts as in search_offsets. Offsets are faulty where they leave 64 bits.
SymbolicOffsets stack_in_order(const std::vector<types::Dim>& sizes, const std::vector<SearchItem>& items,
                               int64_t alignment, const std::vector<uint32_t>& order, const Conflicts* conflicts);

}  // namespace codetta::plan
