// SPDX-License-Identifier: Apache-2.0
// Functions of plain arithmetic, which the host compiles too.
#pragma once

#include "device/gpu/abi.h"

#ifdef __CUDACC__
#define CODETTA_ANYWHERE __device__ __forceinline__
#else
#define CODETTA_ANYWHERE inline
#endif

namespace codetta::gpu {

struct TilePlace {
  u32 m, n;
};
// Tile `index` of wide_m x wide_n. Tiles that are neighbours in time share L2: groups of `group` rows of tiles; within
// one, down the rows, then along the columns, every other group backwards.
CODETTA_ANYWHERE TilePlace place_in_groups(u32 index, u32 wide_m, u32 wide_n, u32 group) {
  const u32 per_group = group * wide_n;
  const u32 g = index / per_group, q = index - g * per_group;
  const u32 height = wide_m - g * group < group ? wide_m - g * group : group;
  const u32 along = q / height, down = q - along * height;
  return {g * group + down, (g & 1) != 0 ? wide_n - 1 - along : along};
}

}  // namespace codetta::gpu
