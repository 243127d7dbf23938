// SPDX-License-Identifier: Apache-2.0
// Blocks of AMD GPUs: what they share, and what limits them.
#include "driver/occupancy.hpp"

#include <gtest/gtest.h>

#include "plan/families_hip.hpp"

namespace codetta::driver {
namespace {

package::GpuGemmConfig config(int threads, int shared_bytes) {
  package::GpuGemmConfig made;
  made.tile_m = made.tile_n = 128;
  made.tile_k = 32;
  made.threads = threads;
  made.shared_bytes = shared_bytes;
  return made;
}
plan::GemmShape shape(int64_t m, int64_t n) {
  plan::GemmShape made;
  made.m = m;
  made.n = n;
  made.k = 4096;
  return made;
}

// gfx1100: 96 compute units are 48 work-group processors, each with 128 KiB of LDS and 4 SIMDs of 16 waves.
TEST(HipOccupancy, BlocksOfAWorkGroupProcessor) {
  const plan::GpuFacts& gpu = plan::find_hip("gfx1100")->facts;
  const package::GpuGemmConfig lds = config(256, 41104);
  const Occupancy three = occupancy(lds, shape(4096, 4096), 1, gpu, {});
  EXPECT_EQ(three.blocks, 3) << "of 128 KiB; 64 KiB hold one";
  EXPECT_EQ(three.limited_by, "LDS");
  EXPECT_EQ(three.warps, 24);
  EXPECT_EQ(three.warps_max, 64);
  EXPECT_EQ(three.tiles, 1024);
  EXPECT_DOUBLE_EQ(three.waves, 1024.0 / (3 * 48));
  const std::string text = to_string(three, lds, gpu);
  EXPECT_NE(text.find("3 blocks a work-group processor (limit: LDS), 24 of 64 waves"), std::string::npos) << text;
  EXPECT_NE(text.find("on 48 work-group processors: 7.11 rounds"), std::string::npos) << text;

  const Occupancy threads = occupancy(config(1024, 0), shape(128, 128), 1, gpu, {});
  EXPECT_EQ(threads.blocks, 2) << "of 32 waves each";
  EXPECT_EQ(threads.limited_by, "threads");
  // 192 registers: 8 waves of a SIMD.
  toolchain::PtxasRemarks compiled;
  compiled.kernel = "codetta_gemm";
  compiled.registers = 192;
  const Occupancy registers = occupancy(config(256, 0), shape(128, 128), 1, gpu, {compiled});
  EXPECT_EQ(registers.blocks, 4);
  EXPECT_EQ(registers.limited_by, "registers");
}

TEST(HipOccupancy, BlocksOfAComputeUnit) {
  const plan::GpuFacts& gpu = plan::find_hip("gfx942")->facts;
  const package::GpuGemmConfig lds = config(256, 20000);
  const Occupancy three = occupancy(lds, shape(4096, 4096), 1, gpu, {});
  EXPECT_EQ(three.blocks, 3);
  EXPECT_EQ(three.limited_by, "LDS");
  EXPECT_EQ(three.warps, 12);
  EXPECT_EQ(three.warps_max, 32);
  EXPECT_DOUBLE_EQ(three.waves, 1024.0 / (3 * 304));
  EXPECT_NE(to_string(three, lds, gpu).find("3 blocks a compute unit (limit: LDS)"), std::string::npos);
}

}  // namespace
}  // namespace codetta::driver
