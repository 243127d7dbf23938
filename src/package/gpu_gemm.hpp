// SPDX-License-Identifier: Apache-2.0
// What a plan decides about a CUDA GEMM, emit/ compiles in, and runtime/cuda launches: plain, serializable data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codetta/math_mode.hpp"
#include "codetta/tensor.hpp"

namespace codetta::package {

enum class GpuFamily : uint8_t {
  Simt,       // every dtype, layout, stride and alignment, on any GPU: the floor that always exists
  Sm80,       // cp.async stages, ldmatrix, mma.sync; also on later architectures
  Sm90,       // TMA, WGMMA, warp-specialized, persistent; sm_90a only
  Stream,     // few rows (decode): B streams through once, A stays on chip
  Sm100,      // tcgen05 and TMEM; sm_100a, sm_103a
  Vendor,     // cuBLASLt, where its fixed menu says the same thing
  Mfma,       // AMD's matrix instructions of waves of 64: gfx90a, gfx942
  Wmma,       // AMD's matrix instructions of waves of 32: gfx1100, gfx1201
  Simdgroup,  // Apple's simdgroup_matrix
};
inline constexpr int gpu_families = 9;
// Whether kernels of the family compute several products of one A (EpilogueProgram::more_b).
bool shares_a(GpuFamily family);
// Whether these may have columns of their own, a tile being one product's (EpilogueProgram::spaces).
bool has_spaces(GpuFamily family);
// Whether kernels of the family compute A (else B) where they read it (EpilogueProgram::factors).
bool makes_factor(GpuFamily family, bool is_a);
std::string_view name_of(GpuFamily family);  // "simt", "sm80", ..., "mfma", "wmma", "simdgroup"

// Bounds of every configuration, so that what is read from a file cannot ask for absurd launches.
inline constexpr int32_t max_gpu_tile = 1 << 16, max_gpu_threads = 1024, max_gpu_shared = 1 << 20, max_spread = 16;

using codetta::MathMode;

// One configuration. Sizes count elements. plan/ has checked it against the family's limits.
struct GpuGemmConfig {
  GpuFamily family = GpuFamily::Simt;
  DType a_dtype = DType::f32;  // as stored
  DType b_dtype = DType::f32;
  DType accumulator = DType::f32;  // f32, f64 or i32
  MathMode math = MathMode::Strict;
  bool a_k_major = true;   // consecutive k of a row of A are adjacent (else consecutive rows are); of Simt likely
  bool b_k_major = false;  // consecutive k of a column of B are adjacent (else consecutive columns are)
  int32_t tile_m = 64, tile_n = 64, tile_k = 16;  // of a block's accumulators; tile_n counts accumulator columns
  int32_t stages = 1;
  int32_t cluster_m = 1, cluster_n = 1;
  int32_t consumers = 1;  // warpgroups (Sm90) or warps (Sm80) that multiply, warps along K (Stream); Simt: 1
  bool pingpong = false;  // Sm90: each consumer owns whole tiles in turn
  bool persistent = false;
  bool from_registers = false;  // Sm90: the epilogue takes accumulators from registers, without shared memory
  bool copied = false;      // Sm90: from registers, and its matrices come and go by the copy engine; their addresses
                            // and strides are multiples of 16 bytes then (a guard)
  bool stream_k = false;    // Sm90: tiles beyond whole waves are cut along K into one equal share for each block
  bool combines = false;    // Sm80, Sm90, Stream: the block that arrives last combines the reductions of phase 0, which
                            // are of rows; their Combine entry is for a product without elements only
  bool whole_rows = false;  // pieces hold whole rows, of 1 to piece_cols columns (a guard): results of row reductions
                            // stay on chip, and later phases are in the product's own kernel
  bool pack_a = false;      // A (B) is first copied to where the product can read it; a_k_major, b_k_major and
  bool pack_b = false;      // `alignment` then speak of the copy
  bool even = false;     // the sizes that were planned for are whole tiles, or all but one of a hundred, so that pieces
                         // with less are not worth code of their own for each kind of row
  int32_t spread_a = 1;  // > 1, Sm90: rows of A that begin anywhere are read where they lie. Each spread_a-th of them
                         // is one of an item of a batch, and so they begin multiples of 16 bytes apart. M is a multiple
                         // of it (a guard)
  int32_t a_rows = 0;    // > 0, Sm90: rows of A that a stage brings, of which M is at most so many (a guard); the
                         // others of tile_m are multiplied with what lies there, and nothing reads those products
  int32_t k_split = 1;   // > 1: slices of K summed in slice order by the block that arrives last
  int32_t group = 8;     // tiles of a raster group
  int32_t alignment = 1;  // bytes that A's and B's addresses and slower strides are multiples of (a guard)
  int32_t piece_rows = 64, piece_cols = 64;  // root rows and columns that one call of the epilogue finishes
  int32_t lanes = 4;                         // columns of one row that a thread holds at a position
  int32_t threads = 256;                     // of a block
  int32_t shared_bytes = 0;                  // dynamic shared memory of a block

  bool operator==(const GpuGemmConfig&) const = default;
};

// One kernel function of the module. They run in list order in one stream; each takes the whole Params.
struct GpuEntry {
  enum class Kind : uint8_t {
    Gemm,     // the product with phase 0 over its tiles. Grid: tiles * k_split * batches blocks, or as many clusters as
              // fit at once where the configuration is persistent
    Combine,  // the reductions of phase `index`: partials to results. Grid: x = results / results_per_block rounded up
              // of the largest of them, y = its reduction's place among those of the phase
    Phase,    // phase `index` over the root space, after everything before (0: of a map). Grid: pieces_n, pieces_m,
              // batches (pieces_m beyond 65,535 are walked by a loop)
    Pack,     // copies of the factors that the configuration packs, before the product; gets PackParams of
              // device/gpu/abi.h instead of Params. Grid: rows, factors
    Panel,    // phases 0 to `index` of a map, and their row reductions: a block finishes piece_rows rows. Grid: 1,
              // pieces_m, batches
  };
  Kind kind = Kind::Gemm;
  uint32_t index = 0;
  std::string symbol;
  int32_t threads = 256;
  int32_t shared_bytes = 0;       // dynamic
  int32_t results_per_block = 1;  // Combine
  bool operator==(const GpuEntry&) const = default;
};

// Tensor maps of a kernel, in the order of Params::map. Which tensor, the box in elements (fastest dim first), swizzle.
struct CudaTensorMap {
  // MadeA: the operand that A is made of (FactorProgram), as large as A; MadeRows: so is that of all items together.
  enum class Source : uint8_t { A, B, Operand, MoreB, MadeA, MadeRows };
  Source source = Source::A;
  uint32_t operand = 0;  // index into EpilogueProgram::operands; of A: the item where rows are spread; of B: 0
  int32_t box_fast = 0, box_slow = 0;  // the third dim, if any, is the batch with a box of 1
  int32_t swizzle_bytes = 128;         // 0, 32, 64, 128
  bool column_major = false;           // Operand: its rows are the fast dim
  bool operator==(const CudaTensorMap&) const = default;
};

}  // namespace codetta::package
