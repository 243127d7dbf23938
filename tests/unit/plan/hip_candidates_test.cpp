// SPDX-License-Identifier: Apache-2.0
// Which HIP kernels are found, what their configurations keep to, and what is refused with which reason.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "plan/families_hip.hpp"
#include "plan/family_map.hpp"
#include "support/plain_store.hpp"
#include "types/dtype.hpp"
#include "unit/plan/gpu_discovery.hpp"

namespace {

using namespace codetta;
using package::GpuFamily;
using package::GpuGemmConfig;
using plan::Discovery;
using plan::GemmShape;
using test::has_family;
using test::reasons_of;

constexpr const char* all_architectures[] = {"gfx90a", "gfx942", "gfx1100", "gfx1201"};

GemmShape hip_shape(int64_t m, int64_t n, int64_t k, DType dtype = DType::bf16) {
  return test::gpu_shape(m, n, k, dtype);
}

Discovery hip_found(const GemmShape& shape, const std::string& arch,
                    const package::EpilogueProgram* program = nullptr) {
  const package::EpilogueProgram plain = test::plain_store(shape.accumulator, shape.accumulator);
  return plan::discover(program != nullptr ? *program : plain, shape, {Backend::hip, CpuIsa::generic, arch}, {});
}

// A matrix kernel counts in 64 bits; what ends is the grid, of 2^32 threads.
TEST(HipCandidates, SizesBeyond32Bits) {
  for (const char* arch : all_architectures) {
    const bool cdna = plan::find_hip(arch)->wave == 64;
    const GpuFamily family = cdna ? GpuFamily::Mfma : GpuFamily::Wmma;
    const std::string name = cdna ? "hip_mfma" : "hip_wmma";
    EXPECT_TRUE(has_family(hip_found(hip_shape(512, 512, int64_t{1} << 33), arch), family)) << arch;
    if (cdna) {
      EXPECT_TRUE(has_family(hip_found(hip_shape(3000000000, 64, 4096), arch), family)) << arch;
    }
    EXPECT_EQ(reasons_of(hip_found(hip_shape(int64_t{1} << 50, 512, 512), arch), name),
              "E0406: 1125899906842624 x 512 x 512 in 1 batch items are more tiles than one grid has, or more steps of "
              "K than 2^31\n");
  }
}

// The family that always exists ends there, too; what a grid of small tiles has no threads for larger ones compute.
TEST(HipCandidates, SimtWithinAGrid) {
  for (const char* arch : all_architectures) {
    const auto blocks = [&](const GemmShape& shape) {
      std::vector<int64_t> threads;
      for (const plan::Candidate& candidate : hip_found(shape, arch).candidates) {
        const GpuGemmConfig& c = package::gpu(candidate.config);
        if (c.family != GpuFamily::Simt) continue;
        const int64_t tiles = (shape.m + c.tile_m - 1) / c.tile_m * ((shape.n + c.tile_n - 1) / c.tile_n) * shape.batch;
        threads.push_back(tiles * c.threads);
      }
      return threads;
    };
    const std::vector<int64_t> few = blocks(hip_shape(4096, 64, 512)),
                               many = blocks(hip_shape(int64_t{1} << 30, 24, 2));
    EXPECT_FALSE(many.empty()) << arch;
    EXPECT_LT(many.size(), few.size()) << arch;
    for (const int64_t threads : many) EXPECT_LE(threads, int64_t{UINT32_MAX}) << arch;
    EXPECT_EQ(
        reasons_of(hip_found(hip_shape(int64_t{1} << 40, 512, 512), arch), "hip_simt"),
        "E0406: 1099511627776 x 512 in 1 batch items are more tiles than a grid of 4294967295 threads computes\n");
    EXPECT_EQ(reasons_of(hip_found(hip_shape(int64_t{1} << 40, 0, 512), arch), "hip_simt"), "");
  }
}

TEST(HipCandidates, EveryArchitectureHasItsMatrixFamilyFirst) {
  for (const char* arch : all_architectures) {
    const Discovery found = hip_found(hip_shape(4096, 4096, 4096), arch);
    ASSERT_FALSE(found.candidates.empty());
    const bool cdna = plan::find_hip(arch)->wave == 64;
    EXPECT_EQ(package::gpu(found.candidates[0].config).family, cdna ? GpuFamily::Mfma : GpuFamily::Wmma) << arch;
    EXPECT_FALSE(has_family(found, cdna ? GpuFamily::Wmma : GpuFamily::Mfma));
    EXPECT_TRUE(found.candidates[0].name.starts_with(cdna ? "hip_mfma_" : "hip_wmma_")) << found.candidates[0].name;
    EXPECT_TRUE(found.candidates[0].name.ends_with(arch));
    EXPECT_TRUE(has_family(found, GpuFamily::Simt));
  }
}

TEST(HipCandidates, DtypesHaveTheFamiliesThatMultiplyThem) {
  struct Row {
    DType dtype;
    bool cdna, rdna;
  };
  for (const Row& row : {Row{DType::bf16, true, true}, Row{DType::f16, true, true}, Row{DType::i8, true, true},
                         Row{DType::u8, false, true}, Row{DType::f32, true, false}, Row{DType::f64, true, false},
                         Row{DType::f8e4m3, false, false}}) {
    for (const char* arch : all_architectures) {
      const Discovery found = hip_found(hip_shape(512, 512, 512, row.dtype), arch);
      const bool cdna = plan::find_hip(arch)->wave == 64;
      const GpuFamily family = cdna ? GpuFamily::Mfma : GpuFamily::Wmma;
      EXPECT_EQ(has_family(found, family), cdna ? row.cdna : row.rdna) << arch << " " << dtype_name(row.dtype);
      EXPECT_TRUE(has_family(found, GpuFamily::Simt));
      if (!has_family(found, family)) {
        EXPECT_NE(reasons_of(found, cdna ? "hip_mfma" : "hip_wmma").find("E0405"), std::string::npos);
      }
    }
  }
  EXPECT_NE(reasons_of(hip_found(hip_shape(64, 64, 64, DType::f8e4m3), "gfx942"), "hip_mfma").find("FNUZ"),
            std::string::npos);
}

TEST(HipCandidates, ConfigurationsKeepToTheLimits) {
  for (const plan::HipArchitecture& arch : plan::hip_architectures()) {
    for (const DType dtype : {DType::bf16, DType::i8, DType::f64, DType::f32}) {
      for (const int64_t m : {1, 16, 100, 4096}) {
        const GemmShape shape = hip_shape(m, 512, 8192, dtype);
        const package::EpilogueProgram program = test::plain_store(shape.accumulator, dtype);
        const plan::GpuProblem problem{program, shape, arch.facts};
        for (const plan::GpuFamilyInfo& family : plan::hip_families()) {
          if (!family.concerns(problem) || family.refuse(problem)) continue;
          for (const GpuGemmConfig& c : family.configurations(problem)) {
            if (family.family == GpuFamily::Simt) continue;
            EXPECT_EQ(c.threads, c.consumers * arch.wave);
            EXPECT_LE(c.shared_bytes, plan::lds_limit);
            EXPECT_EQ(c.shared_bytes, plan::hip_shared_bytes(program, c));
            EXPECT_LE(plan::hip_registers(plan::hip_matrix_family(c.family), arch, c, problem), arch.registers);
            EXPECT_GT(plan::sm80_warps_along_m(c.tile_m, c.tile_n, c.consumers), 0);
            EXPECT_EQ(c.tile_k * types::byte_size(dtype) % 64, 0);
            EXPECT_EQ(c.tile_m % c.piece_rows, 0);
            EXPECT_EQ(c.tile_n % c.piece_cols, 0);
            double sum = 0;
            for (const plan::CostTerm& term : plan::cuda_cost_terms(problem, family, c)) sum += term.microseconds;
            EXPECT_GT(sum, 0);
            EXPECT_LT(sum, 1e9);
          }
        }
      }
    }
  }
}

TEST(HipCandidates, WhatCannotBeReadIsRefusedWithItsStrides) {
  GemmShape shape = hip_shape(256, 256, 256);
  shape.a_k_stride = 2;
  shape.a_row_stride = 512;
  const std::string why = reasons_of(hip_found(shape, "gfx942"), "hip_mfma");
  EXPECT_NE(why.find("E0407"), std::string::npos) << why;
  EXPECT_NE(why.find("2 along K and 512 along rows"), std::string::npos) << why;
  const std::string empty = reasons_of(hip_found(hip_shape(256, 256, 0), "gfx1100"), "hip_wmma");
  EXPECT_NE(empty.find("E0406"), std::string::npos) << empty;
}

TEST(HipCandidates, PiecesOfManyPartsAreCutUntilTheyFitIntoLds) {
  for (const int ways : {2, 4, 8, 16}) {
    const GemmShape shape = hip_shape(256, 4096, 256);
    package::EpilogueProgram program = test::plain_store(DType::f32, DType::bf16);
    program.split.ways = ways;
    program.split.chunk = types::Dim::constant(4096 / ways);
    const plan::GpuProblem problem{program, shape, plan::find_hip("gfx942")->facts};
    const auto configs = plan::hip_matrix_configurations(plan::mfma_family(), problem);
    EXPECT_FALSE(configs.empty()) << ways;
    for (const GpuGemmConfig& c : configs) {
      EXPECT_LE(c.shared_bytes, plan::lds_limit);
      EXPECT_EQ(c.tile_n / ways % c.piece_cols, 0);
    }
  }
}

TEST(HipCandidates, ProblemsSmallerThanHalfOfATileAreToldSo) {
  for (const char* arch : all_architectures) {
    for (const auto& [m, n, k] :
         {std::tuple{15, 16, 64}, std::tuple{17, 1, 64}, std::tuple{32, 16, 256}, std::tuple{1, 1, 33}}) {
      const Discovery found = hip_found(hip_shape(m, n, k), arch);
      const std::string why = reasons_of(found, plan::find_hip(arch)->wave == 64 ? "hip_mfma" : "hip_wmma");
      EXPECT_EQ(why, fmt::format("E0406: {} x {} would fill at most half of a tile, of which the smallest are 16 x 64 "
                                 "and 64 x 32\n",
                                 m, n))
          << arch;
      EXPECT_TRUE(has_family(found, GpuFamily::Simt));
    }
    for (const auto& [m, n] : {std::pair{33, 16}, std::pair{16, 17}})
      EXPECT_TRUE(has_family(hip_found(hip_shape(m, n, 64), arch),
                             plan::find_hip(arch)->wave == 64 ? GpuFamily::Mfma : GpuFamily::Wmma))
          << arch << " " << m << " " << n;
  }
}

TEST(HipCandidates, UnknownArchitecturesNameTheKnownOnes) {
  const Discovery found = hip_found(hip_shape(64, 64, 64), "gfx1030");
  ASSERT_TRUE(found.candidates.empty());
  ASSERT_EQ(found.rejections.size(), 1u);
  EXPECT_EQ(found.rejections[0].code, 412);
  for (const char* arch : all_architectures) EXPECT_NE(found.rejections[0].text.find(arch), std::string::npos);
}

TEST(HipCandidates, FewRowsAreCutAlongK) {
  const Discovery found = hip_found(hip_shape(16, 1024, 16384), "gfx942");
  ASSERT_FALSE(found.candidates.empty());
  EXPECT_GT(package::gpu(found.candidates[0].config).k_split, 1);
  // The same answer again.
  const Discovery again = hip_found(hip_shape(16, 1024, 16384), "gfx942");
  ASSERT_EQ(found.candidates.size(), again.candidates.size());
  for (size_t i = 0; i < found.candidates.size(); ++i) EXPECT_EQ(found.candidates[i].name, again.candidates[i].name);
}

TEST(GpuFacts, RatesOfMatrixUnits) {
  for (const char* arch : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120a"})
    EXPECT_GE(plan::matrix_rate(arch), 512) << arch;
  for (const char* arch : {"gfx90a", "gfx942", "gfx1100", "gfx1201"}) EXPECT_GE(plan::matrix_rate(arch), 256) << arch;
  for (const char* arch : {"", "sm_", "sm_70", "gfx900", "apple9"}) EXPECT_EQ(plan::matrix_rate(arch), 0) << arch;
  // What a matrix multiplies on an H100 in a clock fits what was measured of it.
  const plan::GpuFacts h100 = plan::gpu_facts("sm_90a");
  EXPECT_NEAR(2 * plan::matrix_rate(h100.arch) * h100.sms * h100.ghz, 798e3, 5e3) << "operations in a microsecond";
}

}  // namespace
