// SPDX-License-Identifier: Apache-2.0
// What a plan decides about a CPU GEMM and the engine in runtime/cpu executes: plain, serializable data.
#pragma once

#include <cstdint>
#include <string_view>

#include "codetta/target.hpp"
#include "codetta/tensor.hpp"

namespace codetta::package {

enum class CpuFamily : uint8_t {
  Packed,   // B packed in panels (once by kernel.pack, or per run), A streamed or packed; any shape
  InPlace,  // A and B read where they lie: tiny shapes (<= 64), skinny M or N, GEMV; no packing, no scratch beyond the
            // tile
  Convert,  // operands converted while packing to the accumulator dtype: every dtype pair and layout that no native
            // product multiplies the same way
  Fused,    // whole kernel compiled with the epilogue in registers; a candidate that tuning may pick
};

std::string_view name_of(CpuFamily family);  // "packed", "in_place", "convert", "fused"

// Bounds of every configuration, so that what is read from a file cannot make the engine ask for absurd scratch.
inline constexpr int32_t max_block_rows = 64, max_block_cols = 1024, max_tile_rows = 4096, max_tile_cols = 1 << 14;
inline constexpr int32_t max_cache_block = 1 << 20, max_k_split = 256;

// One configuration. Sizes count elements. The engine trusts it: plan/ has checked it against the family's limits.
struct CpuGemmConfig {
  CpuFamily family = CpuFamily::Packed;
  CpuIsa isa = CpuIsa::generic;
  DType a_dtype = DType::f32;  // as stored
  DType b_dtype = DType::f32;
  DType accumulator = DType::f32;  // f32, f64, i32 or i64
  int32_t mr = 6, nr = 64;         // register block: rows x columns
  int32_t tile_rows =
      48;  // rows of the L1 accumulator tile handed to the epilogue (multiple of mr, or any for InPlace)
  int32_t tile_cols = 64;                 // columns of that tile (multiple of nr)
  int32_t kc = 512, mc = 192, nc = 4096;  // cache blocking
  int32_t k_split = 1;  // > 1: K is cut in this many fixed slices computed in parallel, summed in slice order
  bool pack_a = false;

  bool operator==(const CpuGemmConfig&) const = default;
};

}  // namespace codetta::package
