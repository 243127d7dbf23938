// SPDX-License-Identifier: Apache-2.0
// The order of the tiles of a product: groups of rows of tiles that share L2. Plain arithmetic, which the host compiles
// too.
#pragma once

#include "device/gpu/anywhere.h"

namespace codetta::gpu {

// One unit of work of a cluster: a tile in each of its blocks, of one slice of K.
struct Unit {
  u32 tile_m, tile_n, batch, slice;  // tile of this block; may lie outside where clusters are not whole
  u32 blocks;                        // steps of tile_k
};

// Units 0 to count - 1 of clusters of cluster_m x 1 blocks, as block `rank` of the cluster sees them. Slices of K come
// last, so that the tiles of one slice are neighbours.
template <int cluster_m, int tile_k, bool splits>
struct Raster {
  u32 count, wide_m, wide_n, group, batches, blocks_k, blocks_slice, rank;

  CODETTA_ANYWHERE Raster(const Problem& p, u32 own) {
    wide_m = ((u32)p.tiles_m + cluster_m - 1) / cluster_m;
    wide_n = (u32)p.tiles_n;
    batches = (u32)p.batches;
    count = wide_m * wide_n * batches * (splits ? (u32)p.k_split : 1u);
    group = (u32)p.group / cluster_m;
    if (group < 1) group = 1;
    blocks_k = (u32)((p.k + tile_k - 1) / tile_k);
    blocks_slice = splits ? (u32)(p.k_slice / tile_k) : blocks_k;
    rank = own;
  }
  CODETTA_ANYWHERE Unit unit(u32 index) const {
    const u32 per_batch = wide_m * wide_n;
    const u32 outer = index / per_batch, inner = index - outer * per_batch;
    const TilePlace at = place_in_groups(inner, wide_m, wide_n, group);
    Unit u;
    u.tile_m = at.m * cluster_m + rank;
    u.tile_n = at.n;
    u.batch = outer;
    u.slice = 0;
    u.blocks = blocks_k;
    if constexpr (splits) {
      u.slice = outer / batches;
      u.batch = outer - u.slice * batches;
      const u32 begin = u.slice * blocks_slice;
      u.blocks = begin >= blocks_k ? 0 : blocks_k - begin < blocks_slice ? blocks_k - begin : blocks_slice;
    }
    return u;
  }
};

}  // namespace codetta::gpu
