// SPDX-License-Identifier: Apache-2.0
// Which units of work the clusters of the sm_90a GEMM have, in which order, and where rows of A that begin anywhere
// begin in their copies (kernels/sm90.h says what Config is). Names no machine instruction.
#pragma once

#include "device/gpu/anywhere.h"

namespace codetta::gpu::sm90 {

// One unit of work of a cluster: a tile in each of its blocks, of one slice of K.
struct Unit {
  u32 tile_m, tile_n, batch;  // tile of this block
  u32 begin, blocks;          // steps of tile_k
  u32 slice, slices;          // which of how many parts along K
  u32 shared;                 // slices > 1: number of the tile among those whose parts are summed
};

// Of Config::spread_a, elements of other rows that the copies of an item's rows begin with.
template <class Config>
__device__ __forceinline__ u32 in_front(const Problem& p, u32 item) {
  if constexpr (Config::spread_a == 1) return 0;
  return item * (u32)p.a_batch % (u32)(16 / sizeof(typename Config::A));
}

// Word `i` of 16 bytes without the first `bytes` of them.
__device__ __forceinline__ u32 behind_front(u32 word, u32 i, u32 bytes) {
  const u32 left = bytes > 4 * i ? bytes - 4 * i : 0;
  return left >= 4 ? 0 : word & ~0u << 8 * left;
}

// The units of this cluster. Each cluster has tiles first, first + step, ... below count; stream-K: of
// the first `cut` tiles an equal share of steps before them.
template <class Config>
struct Schedule {
  u32 first, step, count, wide_m, wide_n, group, blocks_k, blocks_slice, rank_m, rank_n;
  u32 share = 0, cut = 0, pieces = 0;  // steps of a cluster, tiles, units of this cluster

  __device__ __forceinline__ explicit Schedule(const Problem& p, u32 rank) {
    constexpr u32 cluster = Config::cluster_m * Config::cluster_n;
    first = blockIdx.x / cluster;
    step = gridDim.x / cluster;
    wide_m = ((u32)p.tiles_m + Config::cluster_m - 1) / Config::cluster_m;
    wide_n = ((u32)p.tiles_n + Config::cluster_n - 1) / Config::cluster_n;
    if constexpr (Config::spread_a > 1) {
      wide_m *= (u32)p.batches;
      count = wide_m * wide_n;
    } else {
      count = wide_m * wide_n * (u32)p.batches * (Config::k_split > 1 ? (u32)p.k_split : 1u);
    }
    group = (u32)p.group / Config::cluster_m;
    if (group < 1) group = 1;
    blocks_k = (u32)((p.k + Config::tile_k - 1) / Config::tile_k);
    blocks_slice = Config::k_split > 1 ? (u32)(p.k_slice / Config::tile_k) : blocks_k;
    rank_m = rank % Config::cluster_m;
    rank_n = rank / Config::cluster_m;
    if constexpr (Config::stream_k) {
      const u32 full = count / step;
      if (count % step != 0) cut = count - (full > 1 ? full - 1 : 0) * step;
      share = (cut * blocks_k + step - 1) / step;
      const u32 from = first * share, all = cut * blocks_k, to = from + share < all ? from + share : all;
      if (from < to) pieces = (to + blocks_k - 1) / blocks_k - from / blocks_k;
    }
  }
  // Asked again for each unit: a count of them, made up front, is a register that some kernels have to spill.
  __device__ __forceinline__ bool has(u32 i) const {
    if constexpr (Config::stream_k) {
      if (i < pieces) return true;
      i -= pieces;
    }
    return cut + first + i * step < count;
  }
  __device__ __forceinline__ Unit nth(const Problem& p, u32 i) const {
    if constexpr (Config::stream_k) {
      if (i < pieces) {
        const u32 from = first * share, all = cut * blocks_k, to = from + share < all ? from + share : all;
        const u32 tile = from / blocks_k + i;
        Unit u = unit(p, tile);
        u.begin = i == 0 ? from - tile * blocks_k : 0;
        const u32 left = to - tile * blocks_k;
        u.blocks = (left < blocks_k ? left : blocks_k) - u.begin;
        const u32 owner = tile * blocks_k / share;  // of its first step
        u.slice = first - owner;
        u.slices = ((tile + 1) * blocks_k - 1) / share - owner + 1;
        u.shared = (tile * Config::cluster_n + rank_n) * Config::cluster_m + rank_m;
        return u;
      }
      i -= pieces;
    }
    return unit(p, cut + first + i * step);
  }
  // Where rows are spread, those of all items follow each other: they lie in the same lines of A and pages of outputs.
  __device__ __forceinline__ Unit unit(const Problem& p, u32 index) const {
    const u32 per_batch = wide_m * wide_n;
    const u32 outer = index / per_batch, inner = index - outer * per_batch;
    TilePlace at = place_in_groups(inner, wide_m, wide_n, group);
    Unit u;
    u.batch = outer;
    u.blocks = blocks_k;
    if constexpr (Config::spread_a > 1) {
      u.batch = at.m % (u32)p.batches;
      at.m /= (u32)p.batches;
      if (p.k != 0) u.blocks = ((u32)p.k + in_front<Config>(p, u.batch) + Config::tile_k - 1) / Config::tile_k;
    }
    u.tile_m = at.m * Config::cluster_m + rank_m;
    u.tile_n = at.n * Config::cluster_n + rank_n;
    u.begin = u.slice = u.shared = 0;
    u.slices = 1;
    if constexpr (Config::k_split > 1) {
      u.slice = outer / (u32)p.batches;
      u.slices = (u32)p.k_split;
      u.batch = outer - u.slice * (u32)p.batches;
      u.begin = u.slice * blocks_slice;
      u.blocks = u.begin >= blocks_k ? 0 : blocks_k - u.begin < blocks_slice ? blocks_k - u.begin : blocks_slice;
      u.shared = (u.batch * (u32)p.tiles_m + u.tile_m) * (u32)p.tiles_n + u.tile_n;
    }
    return u;
  }
};

}  // namespace codetta::gpu::sm90
