// SPDX-License-Identifier: Apache-2.0
// The order in which clusters of the sm_90a kernel work (device/cuda/kernels/sm90_schedule.h): every tile of every item
// once, and of rows that are dealt out to items neighbours one after the other.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "device/cuda/builtins.h"
#define __device__
#define __forceinline__ inline
#include "device/cuda/kernels/sm90_schedule.h"
#undef __device__
#undef __forceinline__
#pragma GCC diagnostic pop

namespace codetta::gpu::sm90 {
namespace {

template <int spread, int m, int n>
struct ScheduleConfig {
  using A = u16;
  static constexpr int spread_a = spread, cluster_m = m, cluster_n = n, k_split = 1, tile_k = 64;
  static constexpr bool stream_k = false;
};

struct Tiles {
  i64 items, m, n, k, stride;  // of an item; between rows of A
  u64 group;
  unsigned clusters;  // at once
};

template <class Config>
void covers_everything(const Tiles& tiles) {
  SCOPED_TRACE(testing::Message() << tiles.items << " items of " << tiles.m << " x " << tiles.n << ", K " << tiles.k
                                  << ", groups of " << tiles.group);
  Problem p{};
  p.batches = tiles.items, p.tiles_m = tiles.m, p.tiles_n = tiles.n, p.k = tiles.k, p.group = tiles.group;
  p.a_batch = tiles.stride;
  constexpr unsigned cluster = Config::cluster_m * Config::cluster_n;
  gridDim.x = tiles.clusters * cluster;
  std::map<std::tuple<u32, u32, u32>, int> seen;
  for (unsigned block = 0; block < gridDim.x; ++block) {
    blockIdx.x = block;
    const Schedule<Config> schedule(p, block % cluster);
    for (u32 i = 0; schedule.has(i); ++i) {
      const Unit u = schedule.nth(p, i);
      const i64 front = Config::spread_a > 1 ? u.batch * tiles.stride * 2 % 16 / 2 : 0;
      EXPECT_EQ(in_front<Config>(p, u.batch), front);
      EXPECT_EQ(u.blocks, tiles.k == 0 ? 0 : (tiles.k + front + 63) / 64);
      EXPECT_EQ(u.begin, 0);
      EXPECT_EQ(u.slices, 1);
      EXPECT_LT(u.batch, tiles.items);
      ++seen[{u.batch, u.tile_m, u.tile_n}];
    }
  }
  for (u32 item = 0; item < tiles.items; ++item) {
    for (u32 m = 0; m < tiles.m; ++m) {
      for (u32 n = 0; n < tiles.n; ++n) EXPECT_EQ((seen[{item, m, n}]), 1) << item << ", " << m << ", " << n;
    }
  }
  for (const auto& [tile, times] : seen) {  // blocks of a cluster beyond the edge do nothing that counts
    EXPECT_LT(std::get<1>(tile), tiles.m + Config::cluster_m);
    EXPECT_LT(std::get<2>(tile), tiles.n + Config::cluster_n);
    EXPECT_LE(times, 1);
  }
  if (Config::spread_a == 1 || tiles.k == 0) return;
  blockIdx.x = 0;
  const Schedule<Config> schedule(p, 0);
  const u32 rows = static_cast<u32>((tiles.m + Config::cluster_m - 1) / Config::cluster_m * tiles.items);
  for (u32 i = 0; i + 1 < schedule.count; ++i) {
    const Unit u = schedule.unit(p, i), next = schedule.unit(p, i + 1);
    if (next.tile_n != u.tile_n) continue;  // of the next columns, or of the next group
    const auto place = [&](const Unit& v) { return v.tile_m / Config::cluster_m * tiles.items + v.batch; };
    EXPECT_TRUE(place(next) == place(u) + 1 || place(next) % schedule.group == 0) << i;
    EXPECT_LT(place(next), rows);
  }
}

template <int m, int n>
void with_clusters() {
  for (const i64 k : {0, 1, 13, 57, 64, 479, 512}) {
    for (const u64 group : {u64{1}, u64{2}, u64{8}, u64{16}}) {
      covers_everything<ScheduleConfig<8, m, n>>({8, 5, 3, k, 479, group, 7});
      covers_everything<ScheduleConfig<8, m, n>>({8, 1, 1, k, 513, group, 132});
      covers_everything<ScheduleConfig<4, m, n>>({4, 6, 2, k, 482, group, 5});
      covers_everything<ScheduleConfig<2, m, n>>({2, 3, 7, k, 532, group, 1});
      covers_everything<ScheduleConfig<1, m, n>>({3, 5, 4, k, 480, group, 6});
    }
  }
  // Nothing to multiply: rows are not dealt out, and there may be any items.
  covers_everything<ScheduleConfig<8, m, n>>({1, 5, 3, 0, 479, 8, 7});
  covers_everything<ScheduleConfig<8, m, n>>({3, 5, 3, 0, 479, 8, 7});
}

TEST(Sm90Schedule, CoversEveryTileOnce) {
  with_clusters<1, 1>();
  with_clusters<2, 1>();
  with_clusters<1, 2>();
}

TEST(Sm90Schedule, WordsBehindTheFront) {
  for (u32 bytes = 0; bytes < 16; ++bytes) {
    unsigned char expected[16], found[16];
    for (int i = 0; i < 16; ++i) expected[i] = found[i] = static_cast<unsigned char>(0xF0 + i);
    std::memset(expected, 0, bytes);
    for (u32 i = 0; i < 4; ++i) {
      u32 word = 0;
      std::memcpy(&word, found + 4 * i, 4);
      word = behind_front(word, i, bytes);
      std::memcpy(found + 4 * i, &word, 4);
    }
    EXPECT_EQ(std::memcmp(expected, found, 16), 0) << bytes;
  }
}

}  // namespace
}  // namespace codetta::gpu::sm90
