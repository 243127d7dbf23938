// SPDX-License-Identifier: Apache-2.0
// How a tile of an operand lies in shared memory for ldmatrix, and how it comes there. Rows of memory stay rows: rows
// of K for K-major operands, rows of M (or N) for the others. The 16-byte chunks of a row are permuted by an exclusive
// or with a function of the row, so that neither the copies nor the loads of fragments meet a bank twice.
#pragma once

#include "device/cuda/mma.h"

namespace codetta::gpu {

// A fragment of 16 rows (of M or N) and 32 bytes of K: the order of registers of operand A of mma.sync. As operand B,
// registers 0 and 2 are the first 8 columns, 1 and 3 the others (f64: register 0, register 1).
template <class Stage>
struct WordFragment {
  u32 r[4];
  CODETTA_MEMBER void load(u32 stage, int first, int step, int lane) {
    constexpr int size = Stage::size;
    const int q = lane / 8;
    if constexpr (Stage::k_major) {
      ptx::load_matrices<false>(r, stage + Stage::at(first + lane % 16, step * 32 + lane / 16 * 16));
    } else if constexpr (size == 2) {
      ptx::load_matrices<true>(r, stage + Stage::at(step * 16 + q / 2 * 8 + lane % 8, (first + q % 2 * 8) * size));
    } else if constexpr (size == 1) {
      // A matrix holds 8 rows of K, 16 wide, as pairs of bytes. The rows are chosen such that a thread gets two
      // successive k from one matrix and the next two from another, for a pair of rows of M: the fragment's rows g and
      // g + 8 are rows 2g and 2g + 1 of the tile (`paired`).
      const int row = step * 32 + q / 2 * 16 + lane % 8 / 2 * 4 + lane % 2 + q % 2 * 2;
      u32 x[4];
      ptx::load_matrices<true>(x, stage + Stage::at(row, first));
      r[0] = ptx::permute<0x6420>(x[0], x[1]);
      r[1] = ptx::permute<0x7531>(x[0], x[1]);
      r[2] = ptx::permute<0x6420>(x[2], x[3]);
      r[3] = ptx::permute<0x7531>(x[2], x[3]);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        r[e] =
            ptx::load_shared(stage + Stage::at(step * 8 + lane % 4 + e / 2 * 4, (first + lane / 4 + e % 2 * 8) * size));
    }
  }
};
template <class Stage>
struct DoubleFragment {
  double r[2];
  CODETTA_MEMBER void load(u32 stage, int first, int step, int lane) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int row = first + lane / 4 + e * 8, k = step * 4 + lane % 4;
      r[e] = ptx::load_shared_f64(stage + (Stage::k_major ? Stage::at(row, k * 8) : Stage::at(k, row * 8)));
    }
  }
};

template <class E, bool is_k_major, int extent, int tile_k>
struct Stage {
  static constexpr bool k_major = is_k_major;
  static constexpr int size = (int)sizeof(E);
  static constexpr int rows = k_major ? extent : tile_k, row_bytes = (k_major ? tile_k : extent) * size;
  static constexpr int bytes = rows * row_bytes;
  static constexpr bool paired = size == 1 && !k_major;  // see WordFragment
  using Fragment = typename Choose<size == 8, DoubleFragment<Stage>, WordFragment<Stage>>::type;
  static_assert(row_bytes == 64 || row_bytes % 128 == 0, "the permutation is of 128 bytes");

  // Byte offset of byte `byte` of row `row`.
  static CODETTA_MEMBER u32 at(int row, int byte) {
    u32 x = (u32)row & 7;
    if constexpr (size == 8 || (size == 4 && !k_major)) x = ((u32)row & 3) << 1;
    if constexpr (paired) x = ((u32)row & 1) | (((u32)row >> 2) & 3) << 1;
    if constexpr (row_bytes == 64) x >>= 1;  // two rows share 128 bytes
    return (u32)row * row_bytes + ((u32)byte ^ x << 4);
  }
};

// Brings the tiles of an operand, one after the other along K, each with all threads of the block. Elements beyond the
// operand become 0. With fewer than 4 bytes of alignment they pass through registers: aligned words, shifted.
template <class Stage, int alignment, int threads, int ways>
struct Loader {
  static constexpr bool plain = alignment < 4;
  static constexpr int unit = alignment >= 16 || plain ? 16 : alignment >= 8 ? 8 : 4;
  static constexpr int along = Stage::row_bytes / unit, units = Stage::bytes / unit;
  static constexpr int passes = (units + threads - 1) / threads, pass_rows = threads / along;
  static_assert(threads % along == 0, "a thread keeps its place in the row");
  static_assert(passes <= 32, "one bit a pass");

  const char* from;  // this thread's first unit
  i64 ld;            // bytes from row to row of memory
  const i64* table;  // ways > 1: byte offset of each row (K-major) or column
  u32 there = 0;     // K-major: passes whose row exists
  int fast = unit;   // else: bytes of the unit that exist along the row
  int row, byte;
  const char *lowest, *highest;
  u32 held[plain ? passes : 1][5];

  template <class... T>
  explicit CODETTA_MEMBER Loader(const T&...) {}  // as MadeLoader is made
  // `origin`: the tile's first element; with a table, that of column 0. `extent`: rows or columns that exist from the
  // tile's first on; of a split tile: of each part.
  CODETTA_MEMBER void begin(const char* origin, i64 row_stride, i64 extent, int thread, const i64* columns) {
    constexpr int width = (Stage::k_major ? Stage::rows : Stage::row_bytes / Stage::size) / ways;
    ld = row_stride, table = columns;
    row = thread / along, byte = thread % along * unit;
    from = origin + byte;
    if constexpr (Stage::k_major) {
      if constexpr (ways == 1) from += row * ld;
#pragma unroll
      for (int i = 0; i < passes; ++i) there |= (u32)((row + i * pass_rows) % width < extent ? 1 : 0) << i;
    } else {
      from += row * ld;
      const int column = byte / Stage::size;
      const i64 left = (extent - column % width) * Stage::size;
      fast = left < 0 ? 0 : left < unit ? (int)left : unit;
      if constexpr (ways > 1) from += columns[column] - byte;
    }
  }
  // The operand's element at (0, 0), and how far its last ones are from there.
  CODETTA_MEMBER void bounds(const char* first, i64 rows, i64 columns) {
    lowest = first + (rows < 0 ? rows : 0) + (columns < 0 ? columns : 0);
    highest = first + (rows > 0 ? rows : 0) + (columns > 0 ? columns : 0) + Stage::size;
  }

  static CODETTA_MEMBER bool skipped(int pass, int thread_row) {
    return units % threads != 0 && thread_row + pass * pass_rows >= Stage::rows;
  }
  CODETTA_MEMBER const char* source(int pass) const {
    if constexpr (Stage::k_major && ways > 1) return from + table[row + pass * pass_rows];
    return from + pass * (pass_rows * ld);
  }
  // Bytes of the unit that exist, of a tile of which `k` rows (or columns) of K do.
  CODETTA_MEMBER int valid(int pass, int k) const {
    if constexpr (Stage::k_major) {
      const int left = k * Stage::size - byte;
      return (there >> pass & 1) == 0 || left < 0 ? 0 : left < unit ? left : unit;
    }
    return row + pass * pass_rows < k ? fast : 0;
  }
  CODETTA_MEMBER void advance() { from += Stage::k_major ? (i64)Stage::row_bytes : Stage::rows * ld; }

  // An aligned word, of whose bytes only those inside the operand are touched.
  CODETTA_MEMBER u32 word(const char* p) const {
    if (p >= lowest && p + 4 <= highest) return __ldg((const u32*)p);
    u32 w = 0;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      if (p + i >= lowest && p + i < highest) w |= (u32)__ldg((const u8*)p + i) << (8 * i);
    }
    return w;
  }
  // Toward L2, what a fetch `blocks` later would bring; a thread asks for 64 bytes, where copies have 16.
  CODETTA_MEMBER void prefetch(int blocks, int k) const {
    if (byte % 64 != 0) return;
    const i64 ahead = blocks * (Stage::k_major ? (i64)Stage::row_bytes : Stage::rows * ld);
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      if (!skipped(i, row) && valid(i, k) > 0) ptx::prefetch_l2(source(i) + ahead);
    }
  }
  CODETTA_MEMBER void fetch(u32 stage, int k) {
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      if (skipped(i, row)) continue;
      const char* const p = source(i);
      if constexpr (plain) {
        const int bytes = valid(i, k), shift = (int)((u64)p & 3);
        const char* const aligned = p - shift;
        if (bytes == unit && aligned >= lowest && aligned + unit + 4 <= highest) {
#pragma unroll
          for (int w = 0; w < 5; ++w) held[i][w] = __ldg((const u32*)aligned + w);
        } else {
#pragma unroll
          for (int w = 0; w < 5; ++w) held[i][w] = w * 4 < bytes + shift ? word(aligned + 4 * w) : 0;
        }
      } else {
        ptx::copy_async<unit>(stage + Stage::at(row + i * pass_rows, byte), p, (u32)valid(i, k));
      }
    }
    if constexpr (!plain) advance();
  }
  // With `plain`: writes what fetch() read of the same tile.
  CODETTA_MEMBER void settle(u32 stage, int k) {
    if constexpr (plain) {
#pragma unroll
      for (int i = 0; i < passes; ++i) {
        if (skipped(i, row)) continue;
        const u32 shift = (u32)((u64)source(i) & 3) * 8;
        const int bytes = valid(i, k);
        u32 v[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) v[w] = __funnelshift_r(held[i][w], held[i][w + 1], shift);
        if (bytes < unit) {
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            const int left = bytes - w * 4;
            if (left < 4) v[w] = left <= 0 ? 0 : v[w] & ((1u << (8 * left)) - 1);
          }
        }
        ptx::store_shared_four(stage + Stage::at(row + i * pass_rows, byte), {v[0], v[1], v[2], v[3]});
      }
      advance();
    }
  }
};

}  // namespace codetta::gpu
