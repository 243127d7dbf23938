// SPDX-License-Identifier: Apache-2.0
// How a tile of an operand lies in LDS for AMD's matrix instructions, and how it comes there. Whichever way the operand
// lies in memory, rows of LDS are rows of M (or N) with K along them, 16 bytes apart from the next, so that 16-byte
// reads of neighbouring rows meet no bank twice. Everything passes through registers.
#pragma once

#include "device/gpu/convert.h"
#include "device/gpu/tile.h"

namespace codetta::gpu {

// 16 bytes at p, of which `bytes` exist; the others are 0. p is a multiple of `alignment` and of an element's size.
template <int size, int alignment>
CODETTA_FN void load_unit(const char* p, int bytes, u32 (&w)[4]) {
  if (bytes == 16) {
    if constexpr (alignment >= 16) {
      const uint4 v = __ldg((const uint4*)p);
      w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
    } else if constexpr (alignment >= 8) {
      const uint2 lo = __ldg((const uint2*)p), hi = __ldg((const uint2*)p + 1);
      w[0] = lo.x, w[1] = lo.y, w[2] = hi.x, w[3] = hi.y;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (alignment >= 4 || size >= 4) {
          w[i] = __ldg((const u32*)p + i);
        } else if constexpr (size == 2) {
          w[i] = (u32)__ldg((const u16*)p + 2 * i) | (u32)__ldg((const u16*)p + 2 * i + 1) << 16;
        } else {
          const u8* const q = (const u8*)p + 4 * i;
          w[i] = (u32)__ldg(q) | (u32)__ldg(q + 1) << 8 | (u32)__ldg(q + 2) << 16 | (u32)__ldg(q + 3) << 24;
        }
      }
    }
    return;
  }
  // At edges, from the last element on; each makes room for the one before it.
#pragma unroll
  for (int i = 0; i < 4; ++i) w[i] = 0;
#pragma unroll 1
  for (int at = bytes - size; at >= 0; at -= size) {
    if constexpr (size >= 4) {
      w[3] = size == 8 ? w[1] : w[2], w[2] = size == 8 ? w[0] : w[1];
      w[1] = size == 8 ? __ldg((const u32*)(p + at) + 1) : w[0];
      w[0] = __ldg((const u32*)(p + at));
    } else {
      constexpr int bits = 8 * size;
      w[3] = w[3] << bits | w[2] >> (32 - bits);
      w[2] = w[2] << bits | w[1] >> (32 - bits);
      w[1] = w[1] << bits | w[0] >> (32 - bits);
      if constexpr (size == 2)
        w[0] = w[0] << bits | __ldg((const u16*)(p + at));
      else
        w[0] = w[0] << bits | __ldg((const u8*)(p + at));
    }
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

// Brings tiles, one after the other along K, each with all threads of the block: fetch() into registers, settle() from
// there into LDS. Elements beyond the operand become 0. Operands with K along the memory are taken in units of 16
// bytes; others in patches of 16 bytes along M (or N) and 8 bytes along K, which are turned on the way.
template <class Stage, int alignment, int threads, int ways>
struct Loader {
  static constexpr int size = Stage::size;
  static constexpr int depth = Stage::k_major ? 1 : 8 / size;                 // rows of memory in a patch
  static constexpr int columns = 16 / size;                                   // elements of a unit
  static constexpr int along = Stage::row_bytes / (Stage::k_major ? 16 : 8);  // units of a row of LDS
  static constexpr int units = Stage::k_major ? Stage::extent * along : Stage::extent / columns * along;
  static constexpr int passes = (units + threads - 1) / threads;
  static constexpr int width = Stage::extent / ways;

  const char* from[passes];  // this thread's units
  int left[passes];          // bytes of the unit that exist along M (K-major: 16 or 0)
  i64 ld;                    // bytes from row to row of memory
  int thread;
  u32 held[passes][depth][4];

  // K-major: row of the tile; otherwise: first of the unit's rows of the tile.
  CODETTA_MEMBER int row_of(int i) const {
    const int unit = thread + i * threads;
    return unit / along * (Stage::k_major ? 1 : columns);
  }
  CODETTA_MEMBER int place_of(int i) const { return (thread + i * threads) % along; }  // along a row of LDS
  CODETTA_MEMBER bool skipped(int i) const { return units % threads != 0 && thread + i * threads >= units; }

  // `operand`: its first element of this batch item and slice of K. `column_bytes`: from row to row of M (or N).
  // `extent`: rows that exist from the tile's first on; of a split tile: of each part.
  CODETTA_MEMBER void begin(const Problem& p, const char* operand, i64 first, i64 extent, i64 column_bytes, i64 k_bytes,
                            int own) {
    thread = own;
    ld = Stage::k_major ? column_bytes : k_bytes;
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      const int row = row_of(i), part = row / width, at = row % width;
      const i64 rest = extent - at;
      const i64 column = ways == 1 ? first + row : column_of_b<ways>(p, first + at, part);
      from[i] = operand + column * column_bytes + (i64)place_of(i) * (Stage::k_major ? 16 : depth * k_bytes);
      if constexpr (Stage::k_major)
        left[i] = rest > 0 && !skipped(i) ? 16 : 0;
      else
        left[i] = rest <= 0 || skipped(i) ? 0 : rest < columns ? (int)rest * size : 16;
    }
  }
  // The next tile, of which `k` rows (or columns) of K exist.
  CODETTA_MEMBER void fetch(int k) {
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      if constexpr (Stage::k_major) {
        const int rest = k * size - place_of(i) * 16;
        load_unit<size, alignment>(from[i], rest < 0 ? 0 : rest < left[i] ? rest : left[i], held[i][0]);
        from[i] += Stage::row_bytes;
      } else {
#pragma unroll
        for (int j = 0; j < depth; ++j)
          load_unit<size, alignment>(from[i] + j * ld, place_of(i) * depth + j < k ? left[i] : 0, held[i][j]);
        from[i] += (i64)(Stage::row_bytes / size) * ld;
      }
    }
  }
  CODETTA_MEMBER void settle(char* stage) const {
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      if (skipped(i)) continue;
      char* const to = stage + row_of(i) * Stage::stride + place_of(i) * (Stage::k_major ? 16 : 8);
      if constexpr (Stage::k_major) {
        *(uint4*)to = {held[i][0][0], held[i][0][1], held[i][0][2], held[i][0][3]};
      } else {
#pragma unroll
        for (int c = 0; c < columns; ++c) {
          u32 w[2];
          if constexpr (size == 8) {
            w[0] = held[i][0][2 * c], w[1] = held[i][0][2 * c + 1];
          } else if constexpr (size == 4) {
            w[0] = held[i][0][c], w[1] = held[i][1][c];
          } else {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              w[h] = 0;
#pragma unroll
              for (int e = 0; e < 4 / size; ++e) {
                const u32 word = held[i][h * 4 / size + e][c * size / 4] >> (c * size % 4 * 8);
                w[h] |= (size == 2 ? word & 0xffffu : word & 0xffu) << (e * size * 8);
              }
            }
          }
          *(uint2*)(to + c * Stage::stride) = {w[0], w[1]};
        }
      }
    }
  }
};

}  // namespace codetta::gpu
