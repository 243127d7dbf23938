// SPDX-License-Identifier: Apache-2.0
// How a tile of an operand lies in LDS for AMD's matrix instructions, and how it comes there. Whichever way the operand
// lies in memory, rows of LDS are rows of M (or N) with K along them, 16 bytes apart from the next, so that 16-byte
// reads of neighbouring rows meet no bank twice. Everything passes through registers.
#pragma once

#include "device/gpu/convert.h"
#include "device/gpu/tile.h"

namespace codetta::gpu {

// 16 bytes at p, a multiple of `alignment`.
template <int alignment>
CODETTA_FN void load_unit(const char* p, u32 (&w)[4]) {
  const uint4 v = alignment >= 16 ? __ldg((const uint4*)p) : load_unaligned(p);
  w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
}
CODETTA_FN void clear_unit(u32 (&w)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) w[i] = 0;
}
// The element at p (0 without `exists`) as the first, which makes room for those that are there.
template <int size>
CODETTA_FN void put_first(const char* p, bool exists, u32 (&w)[4]) {
  if constexpr (size >= 4) {
    w[3] = size == 8 ? w[1] : w[2], w[2] = size == 8 ? w[0] : w[1];
    const u32 element = __ldg((const u32*)p), upper = size == 8 ? __ldg((const u32*)p + 1) : 0;
    w[1] = size == 4 ? w[0] : exists ? upper : 0;
    w[0] = exists ? element : 0;
  } else {
    constexpr int bits = 8 * size;
    w[3] = w[3] << bits | w[2] >> (32 - bits);
    w[2] = w[2] << bits | w[1] >> (32 - bits);
    w[1] = w[1] << bits | w[0] >> (32 - bits);
    const u32 element = size == 2 ? (u32)__ldg((const u16*)p) : (u32)__ldg((const u8*)p);
    w[0] = w[0] << bits | (exists ? element : 0);
  }
}

template <class E, bool is_k_major, int extent_, int tile_k>
struct Stage {
  static constexpr bool k_major = is_k_major;
  static constexpr int size = (int)sizeof(E), extent = extent_;
  static constexpr int row_bytes = tile_k * size, stride = row_bytes + 16;
  static constexpr int bytes = extent * stride;
  static_assert(row_bytes % 16 == 0 && extent % 16 == 0);
};

// A patch as rows of memory, 16 bytes along M (or N) each, to its columns of 8 bytes along K.
CODETTA_FN void turn(const u32 (&rows)[1][4], u32 (&columns)[2][2]) {
#pragma unroll
  for (int c = 0; c < 4; ++c) columns[c / 2][c % 2] = rows[0][c];
}
CODETTA_FN void turn(const u32 (&rows)[2][4], u32 (&columns)[4][2]) {
#pragma unroll
  for (int c = 0; c < 8; ++c) columns[c / 2][c % 2] = rows[c % 2][c / 2];
}
CODETTA_FN void turn(const u32 (&rows)[4][4], u32 (&columns)[8][2]) {
#pragma unroll
  for (int c = 0; c < 4; ++c) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      columns[2 * c][h] = chosen_bytes(rows[2 * h][c], rows[2 * h + 1][c], 0x05040100);
      columns[2 * c + 1][h] = chosen_bytes(rows[2 * h][c], rows[2 * h + 1][c], 0x07060302);
    }
  }
}
CODETTA_FN void turn(const u32 (&rows)[8][4], u32 (&columns)[16][2]) {
#pragma unroll
  for (int c = 0; c < 4; ++c) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {  // of two columns
        const u32 which = upper == 0 ? 0x05010400 : 0x07030602;
        const u32 x = chosen_bytes(rows[4 * h][c], rows[4 * h + 1][c], which);
        const u32 y = chosen_bytes(rows[4 * h + 2][c], rows[4 * h + 3][c], which);
        columns[4 * c + 2 * upper][h] = chosen_bytes(x, y, 0x05040100);
        columns[4 * c + 2 * upper + 1][h] = chosen_bytes(x, y, 0x07060302);
      }
    }
  }
}

// A unit of the operand, `rows` of memory that are 16 bytes each, to its place in LDS. K-major: one row along K;
// otherwise a patch, which is turned on the way.
template <class Stage, int depth>
CODETTA_FN void put_unit(char* to, const u32 (&rows)[depth][4]) {
  if constexpr (Stage::k_major) {
    *(uint4*)to = {rows[0][0], rows[0][1], rows[0][2], rows[0][3]};
  } else {
    constexpr int columns = 16 / Stage::size;
    u32 turned[columns][2];
    turn(rows, turned);
#pragma unroll
    for (int c = 0; c < columns; ++c) *(uint2*)(to + c * Stage::stride) = {turned[c][0], turned[c][1]};
  }
}

// How the threads of a block share a tile: operands with K along the memory are taken in units of 16 bytes, others in
// patches of 16 bytes along M (or N) and 8 bytes along K.
template <class Stage, int threads, int ways>
struct Units {
  static constexpr int size = Stage::size;
  static constexpr int depth = Stage::k_major ? 1 : 8 / size;                 // rows of memory in a patch
  static constexpr int columns = 16 / size;                                   // elements of a unit
  static constexpr int along = Stage::row_bytes / (Stage::k_major ? 16 : 8);  // units of a row of LDS
  static constexpr int units = Stage::k_major ? Stage::extent * along : Stage::extent / columns * along;
  static constexpr int passes = (units + threads - 1) / threads;
  static constexpr int width = Stage::extent / ways;
  static_assert(threads % along == 0, "a thread's units lie at one place along K");

  int thread, place;  // place: of the thread's units, along a row of LDS

  explicit CODETTA_MEMBER Units(int own) : thread(own), place(own % along) {}
  // K-major: row of the tile; otherwise: first of the unit's rows of the tile.
  CODETTA_MEMBER int row_of(int i) const {
    const int unit = thread + i * threads;
    return unit / along * (Stage::k_major ? 1 : columns);
  }
  CODETTA_MEMBER bool skipped(int i) const { return units % threads != 0 && thread + i * threads >= units; }
  CODETTA_MEMBER char* to(char* stage, int i) const {
    return stage + row_of(i) * Stage::stride + place * (Stage::k_major ? 16 : 8);
  }
};

// An operand in this batch item: its first element of the last tile along K, and bytes from row to row of M (or N) and
// of K.
struct OperandBytes {
  const char* first;
  i64 column, k;
};

// Brings tiles, the last one along K and then the others from the first on, each with all threads of the block:
// fetch_last() and fetch() into registers, settle() from there into LDS. Beyond K everything becomes 0; what lies
// beyond M (or N) becomes anything, since no element that exists depends on it. Of several products each has strides of
// its own.
template <class Stage, int alignment, int threads, int ways, int products = 1>
struct Loader : Units<Stage, threads, ways> {
  using U = Units<Stage, threads, ways>;
  using U::columns, U::depth, U::passes, U::place, U::row_of, U::size, U::skipped, U::width;
  static constexpr bool each = products > 1 && !Stage::k_major;  // unit has a stride of its own

  const char* from[passes];    // this thread's units
  int left[passes];            // not K-major: bytes of the unit that exist along M
  i64 lds[each ? passes : 1];  // bytes from row to row of memory
  u32 held[passes][depth][4];

  template <class... T>
  explicit CODETTA_MEMBER Loader(int own, const T&...) : U(own) {}  // as MadeLoader is made
  CODETTA_MEMBER i64 ld(int i) const { return lds[each ? i : 0]; }

  // `operand(part)`: OperandBytes of a part of the split. `extent`: rows that exist from the tile's first on, at least
  // one; of a split tile: of each part.
  template <class Operand>
  CODETTA_MEMBER void begin(const Problem& p, i64 first, i64 extent, Operand operand) {
    const ColumnsOfB<ways, products> places(p, first);
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      const int row = row_of(i), part = row / width, at = row % width;
      const i64 rest = extent - at;
      // The last row in the place of those that do not exist.
      const i64 taken = !Stage::k_major ? at : skipped(i) ? 0 : rest > 0 ? at : extent - 1;
      const int own = Stage::k_major && skipped(i) ? 0 : part;
      const i64 column = ways == 1 ? first + (Stage::k_major ? taken : row) : places.at((int)taken, own);
      const OperandBytes bytes = operand(own);
      lds[each ? i : 0] = Stage::k_major ? bytes.column : bytes.k;
      from[i] = bytes.first + column * bytes.column + (i64)place * (Stage::k_major ? 16 : depth * bytes.k);
      if constexpr (!Stage::k_major) left[i] = rest <= 0 || skipped(i) ? 0 : rest < columns ? (int)rest * size : 16;
    }
  }
  // The last tile, of which `k` rows (or columns) of K exist; `before`: so many lie before it.
  CODETTA_MEMBER void fetch_last(int k, i64 before) {
    if constexpr (Stage::k_major) {
      const int rest = k * size - place * 16;  // bytes that exist along K
      if (rest >= 16) {
#pragma unroll
        for (int i = 0; i < passes; ++i) load_unit<alignment>(from[i], held[i][0]);
      } else {
#pragma unroll
        for (int i = 0; i < passes; ++i) clear_unit(held[i][0]);
#pragma unroll 1
        for (int at = rest - size; at >= 0; at -= size) {
#pragma unroll
          for (int i = 0; i < passes; ++i) put_first<size>(from[i] + at, true, held[i][0]);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < passes; ++i) fetch_patch(i, k - place * depth);
    }
#pragma unroll
    for (int i = 0; i < passes; ++i) from[i] -= before * (Stage::k_major ? size : ld(i));
  }
  // The first tile, and then the next one each time.
  CODETTA_MEMBER void fetch() {
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      if constexpr (Stage::k_major)
        load_unit<alignment>(from[i], held[i][0]);
      else
        fetch_patch(i, depth);
      from[i] += (i64)(Stage::row_bytes / size) * (Stage::k_major ? size : ld(i));
    }
  }
  // Not K-major: a unit, of which `rest` rows of memory exist.
  CODETTA_MEMBER void fetch_patch(int i, int rest) {
    if (left[i] == 16 && rest >= depth) {
#pragma unroll
      for (int j = 0; j < depth; ++j) load_unit<alignment>(from[i] + j * ld(i), held[i][j]);
    } else {
#pragma unroll
      for (int j = 0; j < depth; ++j) clear_unit(held[i][j]);
#pragma unroll 1
      for (int at = rest > 0 ? left[i] - size : -1; at >= 0; at -= size) {
#pragma unroll
        for (int j = 0; j < depth; ++j)
          put_first<size>(from[i] + (j < rest ? j : 0) * ld(i) + at, j < rest, held[i][j]);
      }
    }
  }
  CODETTA_MEMBER void settle(char* stage) const {
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      if (!skipped(i)) put_unit<Stage>(U::to(stage, i), held[i]);
    }
  }
};

}  // namespace codetta::gpu
