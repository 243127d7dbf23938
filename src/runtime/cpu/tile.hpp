// SPDX-License-Identifier: Apache-2.0
// Accumulators of one tile.
#pragma once

#include "runtime/cpu/layout.hpp"

namespace codetta::runtime::cpu {

struct TileJob {
  const std::byte* a = nullptr;  // first row of the tile, first k of the slice; as the kernels read it
  int64_t lda = 0;               // bytes
  // Not null: A is packed here, one kc block at a time, from `a`, which then is the whole matrix as it lies.
  std::byte* a_buffer = nullptr;
  const std::byte* b = nullptr;                  // Panels: packed B of the batch item; else null
  std::byte* b_buffer = nullptr;                 // not null: B is made here, block_made of k at a time
  int64_t batch = 0;                             // item
  int64_t row = 0, col = 0, rows = 0, cols = 0;  // root coordinates
  int64_t k_begin = 0, k_end = 0;
  bool first_slice = true;
};

// Writes the accumulators to `acc` in the layout's tile form (l.acc_ld and so on). With a store (see StoreTile),
// `direct` points to the first element of the tile in the output and full vectors go there; `acc` then is scratch.
void compute_tile(const Layout& l, const GemmProblem& p, const TileJob& job, std::byte* acc, std::byte* direct,
                  int64_t direct_ld);

}  // namespace codetta::runtime::cpu
