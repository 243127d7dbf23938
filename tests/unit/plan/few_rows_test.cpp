// SPDX-License-Identifier: Apache-2.0
// What is ranked first for few rows where memory gives more than an H100's, and for few columns.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/beyond_h100.hpp"
#include "plan/families_cuda.hpp"
#include "support/plain_store.hpp"
#include "unit/plan/gpu_discovery.hpp"

namespace {

using namespace codetta;
using package::GpuFamily;
using package::GpuGemmConfig;

// A row of weights for each column of the result.
plan::GemmShape weights(int64_t m, int64_t n, int64_t k, DType dtype = DType::bf16) {
  plan::GemmShape shape = test::gpu_shape(m, n, k, dtype);
  shape.b_k_stride = 1, shape.b_col_stride = k;
  return shape;
}
GpuGemmConfig first_of(const plan::GemmShape& shape, double memory_rate) {
  plan::MachineFacts machine;
  machine.gpu = plan::gpu_facts("sm_90a");
  machine.gpu.memory_rate = memory_rate;
  const plan::Discovery found = plan::discover(test::plain_store(DType::f32, DType::bf16), shape,
                                               {Backend::cuda, CpuIsa::generic, "sm_90a"}, machine);
  return package::gpu(found.candidates.at(0).config);
}
constexpr double h100 = 3015, h200 = 4332;  // bytes/ns

// Tiles of so many columns of each multiprocessor's share, or each pair's where tiles are fewer.
double unevenness(const GpuGemmConfig& c, int64_t n) {
  const double tiles = static_cast<double>((n + c.tile_n - 1) / c.tile_n) * c.k_split, places = tiles > 132 ? 132 : 66;
  return std::ceil(tiles / places) / (tiles / places);
}

TEST(CudaFewRows, TilesAreSpreadEvenlyWhereMemoryIsFast) {
  // An H200: 32 x 8192 x 3584 17.6 us in 128 tiles of 64 columns, 22.4 in 86 of 96, which an H100 has as fast.
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{32, 8192, 3584}, {32, 7168, 8192}, {64, 28672, 4096}}) {
    const GpuGemmConfig c = first_of(weights(m, n, k), h200);
    EXPECT_EQ(c.family, GpuFamily::Sm90) << m << " " << n;
    EXPECT_TRUE(c.copied) << m << " " << n << ", tiles of " << c.tile_n;
    EXPECT_LE(unevenness(c, n), 1.2) << m << " " << n << ", tiles of " << c.tile_n;
  }
  plan::GemmShape shape = weights(16, 57344, 8192, DType::f8e4m3);
  shape.math = MathMode::Fp8TwoLevelAccumulation;
  EXPECT_LE(unevenness(first_of(shape, h200), 57344), 1.05) << "117 us, 131 in tiles of 160 columns, an H100's pick";
  // More memory is less time, for each family; with more rows not for those that L2 or their own steps hold up.
  for (const int64_t m : {1, 16, 32, 64}) {
    for (const GpuFamily family : {GpuFamily::Stream, GpuFamily::Sm80, GpuFamily::Sm90}) {
      std::array<double, 2> least{1e9, 1e9};
      for (const size_t i : {0, 1}) {
        plan::GpuFacts gpu = plan::gpu_facts("sm_90a");
        gpu.memory_rate = i == 0 ? h100 : h200;
        const auto program = test::plain_store(DType::f32, DType::bf16);
        const plan::GemmShape some = weights(m, 14336, 4096);
        const plan::GpuProblem problem{program, some, gpu};
        for (const plan::GpuFamilyInfo& info : plan::cuda_families()) {
          if (info.family != family) continue;
          for (const GpuGemmConfig& c : info.configurations(problem)) {
            double us = 0;
            for (const plan::CostTerm& term : plan::cuda_cost_terms(problem, info, c)) us += term.microseconds;
            least[i] = std::min(least[i], us);
          }
        }
      }
      EXPECT_LE(least[1], (m <= 16 || family == GpuFamily::Sm90 ? 0.85 : 1) * least[0]) << m;
      EXPECT_GT(least[1], 0.69 * least[0]) << m << ": no more than memory is faster";
    }
  }
}

// One row by 6144 columns: 14.1 us in 384 blocks, 16.4 in 192 (an H200).
TEST(CudaFewRows, BlocksOfOneRowAreSpreadEvenlyWhereMemoryIsFast) {
  const auto early = [](const plan::GemmShape& shape) {
    plan::GpuFacts gpu = plan::gpu_facts("sm_90a");
    const auto program = test::plain_store(DType::f32, DType::bf16);
    const std::vector<GpuGemmConfig> all = plan::stream_configurations({program, shape, gpu});
    return std::any_of(all.begin(), all.end(), [](const GpuGemmConfig& c) { return c.stages >= 8; });
  };
  const GpuGemmConfig c = first_of(weights(1, 6144, 4096), h200);
  EXPECT_EQ(c.family, GpuFamily::Stream);
  EXPECT_LE(unevenness(c, 6144), 1.05) << "blocks of " << c.tile_n;
  EXPECT_EQ(c.stages, 8);
  EXPECT_TRUE(early(weights(8, 6144, 4096)));
  EXPECT_FALSE(early(weights(1, 4096, 4096))) << "12.7 us, 11.3 with four steps";
  EXPECT_FALSE(early(weights(1, 14336, 4096))) << "seven blocks each";
  EXPECT_FALSE(early(weights(16, 6144, 4096)));
  // 96 blocks are two on some pairs of multiprocessors and one on others.
  plan::GpuFacts gpu = plan::gpu_facts("sm_90a");
  EXPECT_EQ(plan::unevenness(gpu, 96), 0) << "of an H100 nothing is known";
  gpu.memory_rate = h200;
  EXPECT_EQ(plan::unevenness(gpu, 132), 0);
  EXPECT_GT(plan::unevenness(gpu, 96), 0.07);
  EXPECT_GT(plan::unevenness(gpu, 192), plan::unevenness(gpu, 384));
}

TEST(CudaFewRows, FewColumnsByConsumersInTurns) {
  const auto in_turns = [](const plan::GemmShape& shape) {
    const plan::GpuFacts gpu = plan::gpu_facts("sm_90a");
    const auto program = test::plain_store(DType::f32, DType::bf16);
    std::vector<GpuGemmConfig> found = plan::sm90_configurations({program, shape, gpu});
    std::erase_if(found, [](const GpuGemmConfig& c) { return !c.pingpong || c.tile_n != 16; });
    return found;
  };
  for (const int64_t n : {1, 8, 16}) {
    const auto found = in_turns(weights(65536, n, 256));
    ASSERT_FALSE(found.empty()) << n;
    for (const GpuGemmConfig& c : found) {
      EXPECT_EQ(c.tile_m, 64);
      EXPECT_GT(c.stages, 12) << "small stages, and many of them";
      EXPECT_LE(c.shared_bytes, plan::sm90_shared_limit);
    }
    EXPECT_TRUE(first_of(weights(65536, n, 256), h200).pingpong) << n;
  }
  EXPECT_TRUE(in_turns(weights(65536, 17, 256)).empty());
  EXPECT_TRUE(in_turns(weights(128, 1, 256)).empty()) << "no second tile to hide under";
}

}  // namespace
