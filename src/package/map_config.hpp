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

  bool operator==(const GpuMapConfig&) const = default;
};

}  // namespace codetta::package
