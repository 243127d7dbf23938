// SPDX-License-Identifier: Apache-2.0
// The parameters of every GPU kernel that a package carries. Header-free: NVRTC compiles it into each kernel, and the
// host includes it to build the same bytes. All structs are POD; every field is 8-byte aligned on both sides.
#pragma once

// Metal wants to know in which memory a constant lies and a pointer points, and has neither `long long` nor `double`.
#ifdef __METAL_VERSION__
#define CODETTA_CONSTANT constant constexpr
#define CODETTA_DEVICE device
#else
#define CODETTA_CONSTANT constexpr
#define CODETTA_DEVICE
#endif

namespace codetta::gpu {

using i8 = signed char;
using i16 = short;
using i32 = int;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
#ifdef __METAL_VERSION__
using i64 = long;
using u64 = unsigned long;
#else
using i64 = long long;
using u64 = unsigned long long;
#endif

CODETTA_CONSTANT int abi_version = 1;  // part of every cache key of a GPU binary
CODETTA_CONSTANT int max_terms = 8;

// A CUtensorMap: what the driver's cuTensorMapEncodeTiled wrote.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

// One tensor that the epilogue loads or stores; the meaning of the strides is that of codetta::cpu::Operand: the
// element at root coordinates (b, r, c) lies at data + sum over the operand's index terms t of stride[t] * index_t(b,
// r, c), in elements; the affine accesses have the terms batch, row, column. Constant offsets are already added to
// `data`.
struct Operand {
  CODETTA_DEVICE void* data;
  i64 stride[max_terms];
};

// A host scalar in its compute dtype (bool and integers: i or u; f32: f; f64: d).
union ScalarValue {
  float f;
#ifndef __METAL_VERSION__
  double d;
#endif
  i64 i;
  u64 u;
};

// The buffers of one reduction. Partials: one value (two for logsumexp and sums of exponents: largest, then sum of
// exp(x - largest)) of the reduction's compute dtype for each piece of the root space that a block finishes on its own
// (`pieces` below):
//   row:    partials[((batch * pieces_n + piece_n) * rows) + row]        piece_n = column / piece_cols
//           (the first of a tile for all of them, where its matrices go by the copy engine)
//   column: partials[((batch * pieces_m + piece_m) * cols) + column]     piece_m = row / piece_rows
//   all:    partials[(batch * pieces_m + piece_m) * pieces_n + piece_n]
// Results: row [batch][rows], column [batch][cols], all [1]; valid once the combine kernel of their phase has run.
struct ReductionBuffers {
  CODETTA_DEVICE void* partials;
  CODETTA_DEVICE void* results;
};

// The product and the grid. Sizes and strides count elements.
struct Problem {
  const CODETTA_DEVICE void* a;
  const CODETTA_DEVICE void* b;
  i64 a_batch, a_row, a_k;  // strides of A [batch, m, k]
  i64 b_batch, b_k, b_col;  // strides of B [batch, k, n]
  i64 inner;                // items that are so far apart, of which each next has more in front of it,
  i64 a_skip, b_skip;       // which is 0 where one stride is enough (device/host/items.h)
  i64 batches, m, n, k;     // n counts the accumulator's columns
  i64 rows, cols;           // of the root space: rows = m, cols = n / split ways
  i64 chunk;                // of the split: accumulator column of part j at root column c is
                            //   (c / chunk) * chunk * ways + j * chunk + c % chunk; without a split: cols
  i64 tiles_m, tiles_n;     // tiles of one batch item: ceil(rows / tile_m), ceil(cols / root columns of a tile)
  i64 pieces_m, pieces_n;   // pieces of one batch item: ceil(rows / piece_rows), ceil(cols / piece_cols)
  i64 k_split;              // slices of K, >= 1
  i64 k_slice;              // length of a slice: a multiple of tile_k; the last may be shorter
  // Workspace, or null where the kernel's entries need none:
  CODETTA_DEVICE void*
      accumulators;  // [batch][part][rows][cols] of the accumulator dtype: for later phases that read accumulators
  CODETTA_DEVICE void* slices;   // [batch][tile][slice] tiles of partial accumulators, laid out as the kernel likes
                                 // (K split)
  CODETTA_DEVICE u32* counters;  // [batch][tile], zero before every run; a kernel leaves them zero. Of a map: those
                                 // of all kernels of a call, which it is the first of
  i64 clears;                    // words of those that it sets to zero, having waited for the kernel before it; else 0
  u64 group;                     // tiles of one raster group along the slower axis (L2 reuse), >= 1
};

// A factor that is copied before the product, because rows of it do not begin where the copy engine needs them. Sizes
// and strides count elements; `fast` of them lie side by side in the copy, whose rows are packed_stride apart.
struct Packing {
  const CODETTA_DEVICE void* from;
  CODETTA_DEVICE void* to;
  i64 batches, slow, fast;
  i64 batch_stride, slow_stride, fast_stride;  // of `from`
  i64 packed_stride;                           // of `to`; batch items follow each other
  i64 inner, skip;                             // of `from`, as in Problem
};
// The parameter of the kernel that packs: as many factors as its grid has blocks along y.
struct PackParams {
  Packing factor[2];
};

// What a kernel gets, by value, as its only parameter (`const __grid_constant__`; Metal: a constant buffer). Counts of
// zero become one unused entry, because C++ has no empty arrays. Layout on the host: each member after the other,
// 8-byte aligned; the maps first, 64-byte aligned.
constexpr int at_least_one(int n) { return n < 1 ? 1 : n; }
template <int maps, int operands, int arguments, int reductions>
struct Params {
  TensorMap map[at_least_one(maps)];
  Problem problem;
  Operand operand[at_least_one(operands)];               // in EpilogueProgram::operands order
  ScalarValue scalar[at_least_one(arguments)];           // by EpilogueProgram argument, unused of tensors; then sizes
  ReductionBuffers reduction[at_least_one(reductions)];  // in EpilogueProgram::reductions order
};

}  // namespace codetta::gpu
