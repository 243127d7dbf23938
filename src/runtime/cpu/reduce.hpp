// SPDX-License-Identifier: Apache-2.0
// Finishing reductions from per-tile partials, in tile order: the same bits for any number of threads.
#pragma once

#include "runtime/cpu/gemm.hpp"

namespace codetta::runtime::cpu {

// Extents of the grid that the partials were written over.
struct ReductionGrid {
  int64_t batches, rows, cols, tile_rows, tile_cols;  // tile_*: numbers of tiles
};

// Elements (not bytes) of the partial and result buffers.
int64_t partial_count(const Reduction& r, const ReductionGrid& g);
int64_t result_count(const Reduction& r, const ReductionGrid& g);

// Finishes results [begin, end) (indices into the result buffer). f32 sums accumulate in f64; integer sums wrap; max
// and min propagate NaN; a mean divides by the number of reduced elements; no tiles give the identity.
void finish_reduction(const Reduction& r, const ReductionGrid& g, const void* partials, void* results, int64_t begin,
                      int64_t end);

}  // namespace codetta::runtime::cpu
