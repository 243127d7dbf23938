// SPDX-License-Identifier: Apache-2.0
// What tcgen05 instructions read as numbers: descriptors and sizes of tensor memory. Plain arithmetic, which the host
// compiles too (tests/unit/device_cuda holds it to the tables of the PTX ISA).
#pragma once

#include "device/gpu/anywhere.h"

namespace codetta::gpu::ptx {

// Tensor memory of a multiprocessor: 128 lanes (rows) of 512 columns of 32 bits. An address has the lane in its upper
// half and the column in the lower (PTX ISA, "Tensor Memory Addressing").
inline constexpr u32 tensor_lanes = 128, tensor_columns = 512, least_tensor_columns = 32;

// Columns are given out in powers of two of at least 32 (PTX ISA, "tcgen05.alloc").
CODETTA_ANYWHERE constexpr u32 allocated_columns(u32 used) {
  u32 columns = least_tensor_columns;
  while (columns < used) columns *= 2;
  return columns;
}

// .kind of tcgen05.mma; a step of K is 32 bytes in each of them.
enum class MmaKind { F16, Tf32, F8, I8 };

// The instruction descriptor of dense products whose factors have these format codes (PTX ISA, "Instruction
// descriptor": of kind f16: f16 0, bf16 1; tf32: 2; f8f6f4: e4m3 0, e5m2 1; i8: u8 0, s8 1). Accumulators are f32, or
// s32 of kind i8. `m` counts the rows of both blocks of a pair.
CODETTA_ANYWHERE constexpr u32 instruction_descriptor(MmaKind kind, u32 a_format, u32 b_format, bool a_k_major,
                                                      bool b_k_major, u32 m, u32 n) {
  const u32 accumulator = kind == MmaKind::I8 ? 2 : 1;
  return accumulator << 4 | a_format << 7 | b_format << 10 | (a_k_major ? 0u : 1u) << 15 | (b_k_major ? 0u : 1u) << 16 |
         (n >> 3) << 17 | (m >> 4) << 24;
}

// The shared-memory descriptor of tiles in the 128-byte swizzle that begin at a multiple of 1024 bytes (PTX ISA,
// "Shared memory descriptor": offsets in units of 16 bytes, 1 at bit 46, swizzle code 2 at bit 61). Atoms are 8 rows of
// 128 bytes and lie 1024 bytes apart: K-major, 8 rows of the tile, `lead` unused; MN-major, 8 steps of K, and the next
// 128 bytes along M or N begin `lead` bytes further.
CODETTA_ANYWHERE constexpr u64 matrix_descriptor(u32 address, u32 lead) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)(lead >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 46 | 2ull << 61;
}

}  // namespace codetta::gpu::ptx
