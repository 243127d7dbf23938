// SPDX-License-Identifier: Apache-2.0
// Which element of a matrix each lane of a wave of 32 holds for the 16 x 16 x 16 instructions of RDNA 3 (gfx11) and
// RDNA 4 (gfx12): AMD "RDNA3" and "RDNA4 Instruction Set Architecture" reference guides, section on wave matrix
// multiply accumulate. Plain arithmetic, for kernels and for tests that execute the instructions. `gfx`: the
// architecture's number as it is read in hexadecimal, 0x1100.
#pragma once

namespace codetta::gpu::wmma {

constexpr int lanes = 32;
constexpr int extent = 16;
constexpr int accumulators = 8;  // of a lane

// gfx11: both halves of the wave hold the same 16 elements of K; gfx12: eight each.
constexpr bool halves_repeat(int gfx) { return gfx < 0x1200; }
constexpr int held(int gfx) { return halves_repeat(gfx) ? 16 : 8; }
// Element e of those that a lane holds of A (of B: the column).
constexpr int factor_row(int lane) { return lane % 16; }
constexpr int factor_k(int gfx, int lane, int e) { return halves_repeat(gfx) ? e : lane / 16 * 8 + e; }
// Accumulator r of a lane: every other row on gfx11, eight rows below each other on gfx12.
constexpr int result_row(int gfx, int lane, int r) {
  return halves_repeat(gfx) ? r * 2 + lane / 16 : lane / 16 * 8 + r;
}
constexpr int result_col(int lane) { return lane % 16; }

}  // namespace codetta::gpu::wmma
