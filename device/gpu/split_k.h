// SPDX-License-Identifier: Apache-2.0
// K split: each slice's block leaves its accumulators in the workspace, and the block that arrives last sums all of
// them in slice order, so the result does not depend on who that is.
#pragma once

#include "device/gpu/builtins.h"

namespace codetta::gpu {

// Called by all `threads` threads of a block with its accumulators; true in the block that arrives last, whose
// accumulators then hold the sum. `tile` counts over all batch items; `flag` is one word of shared memory.
template <int count, int threads, class T>
CODETTA_FN bool sum_slices(const Problem& p, i64 tile, i64 slice, int thread, u32* flag, T (&acc)[count]) {
  T* const first = (T*)p.slices + tile * p.k_split * (count * threads) + thread;
  T* const own = first + slice * (count * threads);
#pragma unroll
  for (int i = 0; i < count; ++i) own[i * threads] = acc[i];
  before_arrival();
  __syncthreads();
  if (thread == 0) {
    const u32 before = arrive(p.counters + tile);
    *flag = before + 1 == (u32)p.k_split ? 1 : 0;
    if (*flag != 0) p.counters[tile] = 0;  // as it was found
  }
  __syncthreads();
  if (*flag == 0) return false;
#pragma unroll
  for (int i = 0; i < count; ++i) acc[i] = (T)0;
  for (i64 s = 0; s < p.k_split; ++s) {
#pragma unroll
    for (int i = 0; i < count; ++i) acc[i] += __ldcg(first + s * (count * threads) + i * threads);
  }
  return true;
}

}  // namespace codetta::gpu
