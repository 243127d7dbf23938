// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit floats of sm_90a whose sums are made in two levels (MathMode::Fp8TwoLevelAccumulation): the tensor
// cores, which sum with 13 bits of fraction, sum the 128 products of a stage in accumulators of their own, and these
// are added to the others as f32. Where registers hold two sets of them a consumer adds one while the other is
// multiplied (an H100, 128 x 128: 1,654 us instead of 1,747); else its products wait, and those of the other consumer
// go on.
#pragma once

#include "device/cuda/kernels/sm90.h"

namespace codetta::gpu::sm90 {

// The products of one stage, in band `set` of accumulators: 0 has the sums. Returns the stage, which is read until they
// have ended.
template <int set, class Config, class S>
__device__ __forceinline__ u32 issue_run(u32 band0, u32 base, u32 full, Ring<Config::stages>& ring) {
  constexpr u32 a_band = 64 * 128;
  const u64 descriptor = ptx::descriptor_128b(0, Config::tile_k * 128, 1024);
  ptx::barrier_wait(full + 8 * ring.stage, ring.turn);
  const u32 stage = ring.stage, at = (base & 0x3ffff) + stage * S::stage_bytes;
  const u64 a = descriptor | (at + band0 * a_band) >> 4, b = descriptor | (at + S::a_bytes) >> 4;
  ptx::wgmma_fence();
  each<0, 4>([&](auto step) {
    constexpr int k = decltype(step)::value;
    ptx::wgmma<set, k == 0>(a + (u64)(k * 2), b + (u64)(k * 2));
  });
  ptx::wgmma_commit();
  ring.advance();
  return stage;
}

// As multiply(), where consumers do not take turns.
template <class Config, class S, class Release>
__device__ __forceinline__ void multiply_runs(u32 blocks, u32 band0, u32 base, u32 full, Release release,
                                              Ring<Config::stages>& ring) {
  static_assert(S::bands == 1 && Config::a_k_major && Config::b_k_major && sizeof(typename Config::A) == 1);
  ptx::clear<0>();
  if constexpr (S::sets == 2) {
#pragma unroll 1
    for (u32 block = 0; block < blocks; ++block) {
      const u32 stage = issue_run<1, Config, S>(band0, base, full, ring);
      ptx::wgmma_wait<0>();
      release(stage);
      ptx::add_band<0, 1>();
    }
  } else if (blocks > 0) {
    // Sets 1 and 2 by turns. Whether one is added depends on nothing but the loop's end: the assembler puts products
    // whose accumulators are read under a condition one behind the other.
    u32 first = issue_run<1, Config, S>(band0, base, full, ring), block = 1;
#pragma unroll 1
    for (; block + 1 < blocks; block += 2) {
      const u32 second = issue_run<2, Config, S>(band0, base, full, ring);
      ptx::wgmma_wait<1>();
      release(first);
      ptx::add_band<0, 1>();
      first = issue_run<1, Config, S>(band0, base, full, ring);
      ptx::wgmma_wait<1>();
      release(second);
      ptx::add_band<0, 2>();
    }
    if (block == blocks) {
      ptx::wgmma_wait<0>();
      release(first);
      ptx::add_band<0, 1>();
    } else {
      const u32 second = issue_run<2, Config, S>(band0, base, full, ring);
      ptx::wgmma_wait<1>();
      release(first);
      ptx::add_band<0, 1>();
      ptx::wgmma_wait<0>();
      release(second);
      ptx::add_band<0, 2>();
    }
  }
}

}  // namespace codetta::gpu::sm90
