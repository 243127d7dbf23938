// SPDX-License-Identifier: Apache-2.0
// What the prebuilt CPU micro-kernels look like to the engine: per instruction set a table of register-block kernels
// and packers. No standard headers: the instruction-set files must not instantiate anything that another file may
// share.
#pragma once

#include "device/cpu/abi.h"

namespace codetta::cpu {

// How two operands multiply once they are in the form that the kernels read. The values are part of packed layouts.
//   f32, f64, int32, int64 one k step at a time, accumulator of the same type (integers wrap)
//   int16           pairs of k, exact in i32: 8-bit operands widened where there is no 8-bit dot product
//   bf16            pairs of k, accumulated in f32
//   u8s8 ... s8u8   quadruples of k in i32, signedness of A then of B
enum class Product : u8 {
  f32 = 0,
  f64 = 1,
  int32 = 2,
  int16 = 3,
  bf16 = 4,
  u8s8 = 5,
  s8s8 = 6,
  u8u8 = 7,
  s8u8 = 8,
  int64 = 9
};
inline constexpr int product_count = 10;
// B elements that a kernel can read where they lie and widen to the accumulator type.
enum class Source : u8 { f32 = 0, f64 = 1, int32 = 2, bf16 = 3, f16 = 4, int8 = 5, uint8 = 6 };
inline constexpr int source_count = 7;

// C[rows][vectors * lanes] = init + A[rows][k] * B[k][vectors * lanes]; all strides in bytes.
//   a: element (r, k) at a + r * lda + k * size.  b: row k (of `group` k's) at b + k * ldb.
//   init: null: zero; c itself: accumulate; else one row of accumulators added to every row.
//   lanes: valid columns of the last vector (kernels of KernelSet::partial only, which never touch more of b and c).
using Kernel = void (*)(const void* a, i64 lda, const void* b, i64 ldb, void* c, i64 ldc, i64 k, i64 lanes,
                        const void* init);

// Memory that a kernel fetches into L2 while it multiplies, in the order in which it lies: runs of `width` bytes,
// `stride` apart. Kernels move it on. Only speed depends on it; the addresses need not be readable.
struct Ahead {
  const void* data;  // start of the run
  i64 stride, width;
  i64 column;  // bytes of the run that were asked for
  i64 lines;   // how many a kernel asks for in four steps of k, a multiple of 4
  i64 pause;   // how many times four steps pass between two shares
  i64 waits;   // of these, what is left
};
// As Kernel, for whole vectors: `lanes` is ignored.
using FetchingKernel = void (*)(const void* a, i64 lda, const void* b, i64 ldb, void* c, i64 ldc, i64 k, i64 lanes,
                                const void* init, Ahead* next);

inline constexpr int max_vectors = 4;
inline constexpr int most_long_rows = 4;
inline constexpr i64 short_steps = 64;  // of KernelSet::group
// The register blocks of one product: kernel for v vectors and r rows is full[v - 1][r - 1], r <= max_rows[v - 1].
struct KernelSet {
  int lanes = 0;        // accumulators in a vector; 0: the instruction set lacks this product
  int group = 1;        // k elements that one step consumes
  int k_unit = 0;       // k is padded to multiples of this in packed operands; 0: to the group
  bool padded = false;  // tile registers: A is packed, its rows padded to max_rows; kernels run all of them
  int max_rows[max_vectors] = {};
  // Rows at a time where all of k is short, at most short_steps; 0: max_rows. A call's stores then hold up the next
  // one, and fewer accumulators are stored while others are multiplied.
  int short_rows[max_vectors] = {};
  const Kernel* full[max_vectors] = {};
  const Kernel* partial[max_vectors] = {};           // null where only packed panels are read
  const FetchingKernel* fetching[max_vectors] = {};  // as `full`; null where there is no such form
  // One row of A and rows of B of any length: `lanes` counts its columns, lda and ldc are ignored, k > 0. Null where
  // only packed panels are read.
  Kernel long_row = nullptr;
  Kernel long_rows[most_long_rows - 1] =
      {};  // the same for 2 rows of A, 3, ...; `init` is null or c. Floats of AVX2 and AVX-512 have it
  Kernel fetching_row =
      nullptr;  // the same sums by a walk that asks for the rows below; null where there is no such form
};

// C[rows][cols] = init + dot products of rows of A and columns of B, both contiguous along k. Column c of B at b + c *
// ldb. A in the accumulator type. Kernel for r rows and c columns: table[(r - 1) * max_cols + c - 1]; `lanes` is
// ignored.
struct DotSet {
  int max_rows = 0, max_cols = 0;
  const Kernel* table = nullptr;
};

// dst[i] = convert(src[i * stride]) for i < n; stride in elements of the source. Indexed by DType of the source.
using ConvertRun = void (*)(void* dst, const void* src, i64 n, i64 stride);
inline constexpr int dtype_slots = 15;

// Data movement of packing. All pointers are to elements of `size` bytes; strides in elements.
struct Packers {
  ConvertRun to_f32[dtype_slots];
  ConvertRun to_f64[dtype_slots];
  ConvertRun to_i32[dtype_slots];
  ConvertRun to_i64[dtype_slots];  // integers and bool only; u64 as its two's complement
  ConvertRun to_i16[dtype_slots];  // 8- and 16-bit integers and bool only; others null
  // dst[r * dst_ld + c] = src[c * src_ld + r], r < rows, c < cols.
  void (*transpose2)(void* dst, i64 dst_ld, const void* src, i64 src_ld, i64 rows, i64 cols);
  void (*transpose4)(void* dst, i64 dst_ld, const void* src, i64 src_ld, i64 rows, i64 cols);
  void (*transpose8)(void* dst, i64 dst_ld, const void* src, i64 src_ld, i64 rows, i64 cols);
  void (*transpose1)(void* dst, i64 dst_ld, const void* src, i64 src_ld, i64 rows, i64 cols);
  // dst[c * group + g] = rows[g * row_ld + c], c < cols.
  void (*interleave2)(void* dst, const void* rows, i64 row_ld, i64 cols);  // 2-byte elements, groups of 2
  void (*interleave4)(void* dst, const void* rows, i64 row_ld, i64 cols);  // 1-byte elements, groups of 4
  // sums[c] += sum over g of the group elements of packed column c.
  void (*sum_s8)(i32* sums, const void* packed, i64 cols);
  void (*sum_u8)(i32* sums, const void* packed, i64 cols);
};

struct MicroTable {
  KernelSet packed[product_count];
  KernelSet in_place[source_count];
  DotSet dot[source_count];
  const Packers* packers = nullptr;
  // AMX: a thread calls enter() before and leave() after its use of padded kernels. Null elsewhere.
  void (*enter)() = nullptr;
  void (*leave)() = nullptr;
};

// The tables of single instruction-set files; micro_table() in table.cpp combines them.
const MicroTable& generic_table();
const MicroTable& neon_table();
const MicroTable& avx2_table();
const MicroTable& avx512_table();
const MicroTable& avx512_vnni_table();  // the 8-bit products only
const MicroTable& avx512_bf16_table();  // bf16 only
const MicroTable& amx_table();          // bf16 and the 8-bit products only

}  // namespace codetta::cpu
