// SPDX-License-Identifier: Apache-2.0
// The binary interface between the CPU GEMM engine, the emitted epilogue functions and the tape interpreter.
// Header-free (it is also embedded and compiled with no include path); plain C++ without std; all structs are POD.
#pragma once

namespace codetta::cpu {

using i8 = __INT8_TYPE__;
using i16 = __INT16_TYPE__;
using i32 = __INT32_TYPE__;
using i64 = __INT64_TYPE__;
using u8 = __UINT8_TYPE__;
using u16 = __UINT16_TYPE__;
using u32 = __UINT32_TYPE__;
using u64 = __UINT64_TYPE__;

inline constexpr int abi_version = 1;  // part of every cache key of a CPU binary
inline constexpr int max_terms = 8;

// One tensor that the epilogue loads or stores. The element at root coordinates (b, r, c) lies at
//   data + sum over the operand's index terms t of stride[t] * index_t(b, r, c)        (in elements),
// where for the affine accesses the terms are t0 = b, t1 = r, t2 = c (stride 0 where the operand does not vary), and
// for Indexed operands term t is (axis_t / div_t) % mod_t as the emitted code and the tape know. Constant offsets are
// already added to `data` by the host. Behind the terms of a gathered operand lie stride and size of each gathered dim.
struct Operand {
  void* data;
  i64 stride[max_terms];
};

// A host scalar in its compute dtype (bool, ints: i/u; f32: f; f64: d).
union ScalarValue {
  float f;
  double d;
  i64 i;
  u64 u;
};

// Everything that is the same for all tiles of one run.
struct EpilogueArgs {
  const Operand* operands;     // in EpilogueProgram::operands order
  const ScalarValue* scalars;  // by EpilogueProgram argument; tensors have unused entries
  void* const* partials;       // per reduction: its partial buffer, see Tile::tile_row / tile_col
  const void* const* results;  // per reduction: its final values (valid from the phase after its own), contiguous:
                               //   row: [batch][rows]; column: [batch][cols]; all: [1]; compute dtype of the reduction
  i64 batches, rows, cols;     // extents of the root space: cols = N / split ways
  i64 tile_rows, tile_cols;    // number of tiles along rows and columns (of one batch item)
};

// One rectangle of finished accumulators. Accumulator of part j (split ways; 1 part without a split) at (r, c) in the
// tile:
//   acc[r * acc_ld + c * acc_col_stride + j * acc_part_stride], of the accumulator dtype (float, double or i32).
// Without a split, and whenever a split's chunk is at least the tile's width, acc_col_stride is 1.
// Alignment of acc: 64 bytes; acc_ld * element size is a multiple of 64 bytes when acc_col_stride is 1.
// Columns up to the next multiple of 64 bytes beyond `cols` are readable (values unspecified), never meaningful.
struct Tile {
  const void* acc;
  i64 acc_ld, acc_col_stride, acc_part_stride;
  i64 batch, row, col;     // root coordinates of the tile's first element
  i64 rows, cols;          // valid extent
  i64 tile_row, tile_col;  // index of the tile in the grid of one batch item
  // Reduction partials of this tile are written (not accumulated) by the epilogue, one value each, in the compute
  // dtype:
  //   row:    partials[i][((batch * tile_cols + tile_col) * args.rows) + row + r]
  //   column: partials[i][((batch * tile_rows + tile_row) * args.cols) + col + c]
  //   all:    partials[i][(batch * tile_rows + tile_row) * tile_cols + tile_col]
  // LogSumExp partials are two values wide (max, then sum of exp(x - max)): index above times 2.
  i64 phase;  // which phase of the EpilogueProgram to run
};

// Outputs with this many bytes or more are stored past the caches, as whole vectors: a reader that follows at once
// finds too little in the last-level cache to make up for reading every line before it is overwritten. Measured on Zen
// 4 (32 MiB for eight cores): equal at 3 to 4 MiB, producing and reading 12 MiB takes 0.87 of the time, producing them
// 0.81. Vectors of 16 bytes are not: a Zen 3 that stores two outputs so beside what it reads takes twice as long.
inline constexpr i64 past_caches = i64{4} << 20;

// What an emitted epilogue exports: extern "C" void codetta_epilogue(const EpilogueArgs*, const Tile*).
// Called from several threads at once with different tiles; who calls it orders its streaming stores. Never fails.
using EpilogueFunction = void (*)(const EpilogueArgs*, const Tile*);

// One task of a fully fused kernel (device/cpu/fused.h): a rectangle of the result, multiplied and finished in
// registers.
struct FusedArgs {
  const EpilogueArgs* args;
  Tile
      tile;  // root coordinates and extent of the rectangle; the accumulator fields are unused. col is a multiple of nr
  const void* a;       // element (first row, k = 0); consecutive k are adjacent
  i64 a_row_stride;    // elements
  const void* b;       // packed panel of the first nr columns: [k / group][nr][group], the last group padded with zeros
  i64 b_panel_stride;  // elements from one panel to the next
  i64 k;
};

// extern "C" void codetta_fused(const FusedArgs*). Called from several threads at once with different tasks; who calls
// it orders its streaming stores. Never fails.
using FusedFunction = void (*)(const FusedArgs*);

}  // namespace codetta::cpu
