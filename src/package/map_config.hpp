// SPDX-License-Identifier: Apache-2.0
// What a plan decides about a map kernel: an EpilogueProgram without accumulators over a root space [batches, rows,
// cols] of its own, launched without a product. Plain, serializable data; sizes count elements of the root space.
#pragma once

#include <cstdint>

#include "codetta/target.hpp"

namespace codetta::package {

inline constexpr int32_t max_map_rows = 1 << 20, max_map_cols = 1 << 24;

struct CpuMapConfig {
  CpuIsa isa = CpuIsa::generic;
  int32_t tile_rows = 64;    // of a tile, the unit of parallel work; phases with row reductions finish a row of tiles
  int32_t tile_cols = 1024;  // before the next, so that it is read from the caches after its first phase

  bool operator==(const CpuMapConfig&) const = default;
};

struct GpuMapConfig {
  int32_t threads = 256;                     // of a block
  int32_t piece_rows = 64, piece_cols = 64;  // root rows and columns that one call of a phase finishes
  int32_t lanes = 4;                         // columns of one row that a thread holds at a position
  bool panels = false;  // one launch for all leading phases: a block finishes its rows, whatever their length
  // Of panels: columns that rows have or are likely to have, which get a form of their own; 0: not known. `fixed_cols`:
  // they have no other number.
  int32_t row_cols = 0;
  bool fixed_cols = false;
  int32_t kept_cols = 0;   // of panels: columns of a row that a thread keeps in registers from phase to phase, at most
  int32_t row_blocks = 1;  // of panels: blocks that a multiprocessor has room for

  bool operator==(const GpuMapConfig&) const = default;
};

}  // namespace codetta::package
