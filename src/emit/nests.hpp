// SPDX-License-Identifier: Apache-2.0
// Which values of a phase change along rows and columns, and in which loop nest each has to be computed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "package/epilogue_program.hpp"

namespace codetta::emit {

// Bits: a value differs from row to row, from column to column.
using Variation = uint8_t;
inline constexpr Variation uniform = 0, by_row = 1, by_column = 2, by_both = 3;

Variation variation_of(const package::Operand& operand);

// The work of one phase, split by the loops it needs. Indices are value ids (ascending), stores and reductions of the
// phase.
struct Nests {
  std::vector<Variation> variation;      // per value
  std::vector<uint32_t> uniform_values;  // computed once a tile
  std::vector<uint32_t> row_values;      // once a row: what the column stores and the full work need
  std::vector<uint32_t> full_values;     // at each position, for full stores and reductions
  std::vector<uint32_t> column_values;   // at each column, once a tile: for row-class stores
  std::vector<uint32_t> scalar_stores, column_stores, row_stores, full_stores;  // indices into phase.stores
  std::vector<uint32_t> reductions;  // indices into program.reductions, all of this phase
  [[nodiscard]] bool has_full_work() const { return !full_stores.empty() || !reductions.empty(); }
};

// Errors: E0901 where ids are out of range or a store cannot hold its value's variation.
Result<Nests> make_nests(const package::EpilogueProgram& program, uint32_t phase);

}  // namespace codetta::emit
