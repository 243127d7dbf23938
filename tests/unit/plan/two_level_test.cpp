// SPDX-License-Identifier: Apache-2.0
// What is found for 8-bit floats by how they may be summed (docs/semantics.md, fp8_two_level_accum).
#include <gtest/gtest.h>

#include "plan/families_cuda.hpp"
#include "support/plain_store.hpp"
#include "unit/plan/gpu_discovery.hpp"

namespace {

using namespace codetta;
using package::GpuFamily;
using package::GpuGemmConfig;
using plan::Discovery;
using plan::GemmShape;

GemmShape shape_of(int64_t m, int64_t n, int64_t k) {
  GemmShape shape = test::gpu_shape(m, n, k, DType::f8e4m3);
  shape.b_k_stride = 1, shape.b_col_stride = k;
  return shape;
}
Discovery found(const GemmShape& shape, const std::string& arch = "sm_90a") {
  return plan::discover(test::plain_store(DType::f32, DType::bf16), shape, {Backend::cuda, CpuIsa::generic, arch}, {});
}
const GpuGemmConfig& best(const Discovery& discovery) { return package::gpu(discovery.candidates.at(0).config); }

// 8-bit floats: all products of an element by the tensor cores, 128 at a time, or as exactly as f32 sums.
TEST(CudaDiscovery, SumsOfEightBitFloatsInTwoLevels) {
  GemmShape shape = shape_of(2048, 57344, 8192);
  const Discovery strict = found(shape);
  shape.math = MathMode::Fp8TwoLevelAccumulation;
  const Discovery two = found(shape);
  shape.math = MathMode::Fp8FastAccumulation;
  const Discovery fast = found(shape);
  EXPECT_EQ(best(strict).family, GpuFamily::Sm80);
  EXPECT_EQ(best(fast).math, MathMode::Fp8FastAccumulation);
  ASSERT_EQ(best(two).family, GpuFamily::Sm90);
  EXPECT_EQ(best(two).math, MathMode::Fp8TwoLevelAccumulation);
  // An H100: tiles of 128 x 192 take 1,593 us, the fastest in one level 1,506.
  EXPECT_EQ(best(two).tile_n, 192);
  EXPECT_NE(two.candidates[0].name.find("_two_coop_"), std::string::npos) << two.candidates[0].name;
  EXPECT_NE(two.candidates[0].terms[0].note.find("whose sums of 128 products are added to 96 others a thread"),
            std::string::npos)
      << two.candidates[0].terms[0].note;
  EXPECT_GT(two.candidates[0].microseconds, fast.candidates[0].microseconds);
  EXPECT_LT(two.candidates[0].microseconds, 1.15 * fast.candidates[0].microseconds);
  EXPECT_GT(strict.candidates[0].microseconds, 3 * two.candidates[0].microseconds);

  // Registers hold the products under way beside the sums: twice where that fits.
  const plan::GpuFacts gpu = plan::gpu_facts("sm_90a");
  for (const int64_t rows : {16, 128, 2048}) {
    for (const MathMode math : {MathMode::Fp8FastAccumulation, MathMode::Fp8TwoLevelAccumulation}) {
      GemmShape some = shape_of(rows, 8192, 8192);
      some.math = math;
      const auto program = test::plain_store(DType::f32, DType::bf16);
      const auto configurations = plan::sm90_configurations({program, some, gpu});
      EXPECT_FALSE(configurations.empty());
      for (const GpuGemmConfig& c : configurations) {
        const plan::Sm90Shape s = plan::sm90_shape(program, c);
        if (math == MathMode::Fp8FastAccumulation) {
          EXPECT_EQ(s.multiplied, s.accumulators);
          continue;
        }
        EXPECT_FALSE(c.pingpong);
        EXPECT_EQ(c.tile_m, 64 * c.consumers);
        EXPECT_EQ(c.tile_k, 128);
        EXPECT_EQ(s.multiplied, s.accumulators * (c.tile_n <= 128 ? 3 : 2));
        EXPECT_LE(s.multiplied, 192);
      }
    }
  }
  // A permission: where other instructions multiply, nothing changes.
  shape.math = MathMode::Fp8TwoLevelAccumulation;
  EXPECT_EQ(best(found(shape, "sm_89")).family, GpuFamily::Sm80);
  EXPECT_EQ(plan::product_rounding(shape.math, DType::f8e4m3, DType::f8e5m2).run, 128);
  EXPECT_EQ(plan::product_rounding(shape.math, DType::f8e4m3, DType::f8e5m2).each, 0x1p-13);
  EXPECT_EQ(plan::product_rounding(MathMode::Fp8FastAccumulation, DType::f8e4m3, DType::f8e4m3).run, 0);
  EXPECT_EQ(plan::product_rounding(shape.math, DType::bf16, DType::bf16).each, 0);
  EXPECT_EQ(plan::product_rounding(MathMode::Strict, DType::f8e4m3, DType::f8e4m3).each, 0);
}

// Sums of 8-bit floats are made in turns: cooperative tiles took a tenth longer on an H100.
TEST(CudaDiscovery, EightBitFloatsInTurns) {
  GemmShape shape = shape_of(4096, 4096, 4096);
  shape.math = MathMode::Fp8FastAccumulation;
  const GpuGemmConfig c = best(found(shape));
  EXPECT_TRUE(c.family == GpuFamily::Sm90 && c.pingpong);
  // In two levels 128 columns, whose products are under way twice, were the fastest of these sizes.
  shape.math = MathMode::Fp8TwoLevelAccumulation;
  EXPECT_EQ(best(found(shape)).tile_n, 128);
}

// A mode is a permission for the factors that it names: others are multiplied as without it.
TEST(CudaDiscovery, ModesSayNothingOfOtherFactors) {
  const auto names = [](const Discovery& discovery) {
    std::vector<std::string> result;
    for (const plan::Candidate& candidate : discovery.candidates) result.push_back(candidate.name);
    return result;
  };
  for (const char* arch : {"sm_80", "sm_89", "sm_90a", "sm_100a"}) {
    for (const int64_t rows : {4, 2048}) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::i8, DType::f64, DType::f8e4m3}) {
        for (const MathMode math :
             {MathMode::Tf32, MathMode::Tf32x3, MathMode::Fp8FastAccumulation, MathMode::Fp8TwoLevelAccumulation}) {
          const bool of_floats8 = math == MathMode::Fp8FastAccumulation || math == MathMode::Fp8TwoLevelAccumulation;
          if (dtype == (of_floats8 ? DType::f8e4m3 : DType::f32)) continue;
          GemmShape shape = test::gpu_shape(rows, 2048, 2048, dtype);
          const std::vector<std::string> strict = names(found(shape, arch));
          ASSERT_FALSE(strict.empty());
          shape.math = math;
          EXPECT_EQ(names(found(shape, arch)), strict)
              << arch << " " << rows << " " << dtype_name(dtype) << " " << math_mode_name(math);
        }
      }
    }
  }
}

}  // namespace
