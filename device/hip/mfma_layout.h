// SPDX-License-Identifier: Apache-2.0
// Which element of a matrix each lane of a wave of 64 holds for the 16 x 16 instructions of CDNA (AMD "CDNA2" and "CDNA
// 3 Instruction Set Architecture" reference guides, chapter on matrix arithmetic instructions). Plain arithmetic, for
// kernels and for tests that execute the instructions.
#pragma once

namespace codetta::gpu::mfma {

constexpr int lanes = 64;
constexpr int extent = 16;       // rows of A and columns of B
constexpr int accumulators = 4;  // of a lane

// Element e of the `held` adjacent ones of K that a lane holds of A (of B: the column).
constexpr int factor_row(int lane) { return lane % 16; }
constexpr int factor_k(int lane, int e, int held) { return lane / 16 * held + e; }
// Accumulator r of a lane: four rows below each other; of f64 four rows apart.
constexpr int result_row(int lane, int r, bool f64) { return f64 ? r * 4 + lane / 16 : lane / 16 * 4 + r; }
constexpr int result_col(int lane) { return lane % 16; }

}  // namespace codetta::gpu::mfma
