// SPDX-License-Identifier: Apache-2.0
// Copies factors whose rows begin anywhere, or whose elements lie apart, to where the copy engine can read them: the
// same layout with rows that begin at multiples of 16 bytes. Runs before the product (package::GpuEntry::Kind::Pack).
#pragma once

#include "device/gpu/builtins.h"

namespace codetta::gpu {

inline constexpr int pack_threads = 256, pack_at_once = 8;

// Elements that lie side by side along the slow dim change places in shared memory, a square of 32 x 32 at a time.
template <class E>
CODETTA_FN void pack_transposed(const Packing& f) {
  __shared__ E square[32][33];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  constexpr int warps = pack_threads / 32;
  const i64 along = (f.fast + 31) / 32, down = (f.slow + 31) / 32, count = f.batches * along * down;
  for (i64 index = blockIdx.x; index < count; index += gridDim.x) {
    const i64 batch = index / (along * down), inner = index - batch * (along * down);
    const i64 slow0 = inner / along * 32, fast0 = inner % along * 32;
    const E* const source = (const E*)f.from + batch * f.batch_stride;
    E* const target = (E*)f.to + batch * f.slow * f.packed_stride;
#pragma unroll
    for (int i = 0; i < 32; i += warps) {
      const i64 fast = fast0 + i + warp, slow = slow0 + lane;
      if (fast < f.fast && slow < f.slow) square[i + warp][lane] = __ldg(source + (fast * f.fast_stride + slow));
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32; i += warps) {
      const i64 slow = slow0 + i + warp, fast = fast0 + lane;
      if (fast < f.fast && slow < f.slow) target[slow * f.packed_stride + fast] = square[lane][i + warp];
    }
    __syncthreads();
  }
}

// With all blocks of x, a warp a row, for the factor of the block's y. E: an integer of the elements' size.
template <class E>
CODETTA_FN void pack_factor(const PackParams& params) {
  const Packing& f = params.factor[blockIdx.y];
  if (f.slow_stride == 1 && f.fast_stride != 1) {
    pack_transposed<E>(f);
    return;
  }
  const E* const from = (const E*)f.from;
  E* const to = (E*)f.to;
  const int lane = threadIdx.x % 32;
  constexpr int warps = pack_threads / 32;
  const i64 rows = f.batches * f.slow;
  for (i64 row = (i64)blockIdx.x * warps + threadIdx.x / 32; row < rows; row += (i64)gridDim.x * warps) {
    const i64 batch = f.batches > 1 ? row / f.slow : 0;
    const E* const source = from + (batch * f.batch_stride + (row - batch * f.slow) * f.slow_stride);
    E* const target = to + row * f.packed_stride;
    for (i64 first = lane; first < f.fast; first += 32 * pack_at_once) {
      E held[pack_at_once];
#pragma unroll
      for (int i = 0; i < pack_at_once; ++i) {
        if (first + 32 * i < f.fast) held[i] = __ldg(source + (first + 32 * i) * f.fast_stride);
      }
#pragma unroll
      for (int i = 0; i < pack_at_once; ++i) {
        if (first + 32 * i < f.fast) target[first + 32 * i] = held[i];
      }
    }
  }
}

}  // namespace codetta::gpu
