// SPDX-License-Identifier: Apache-2.0
// Which CUDA kernels are found, what their configurations keep to, and in which order: the orders are those that were
// measured (bench/NOTES.md, section sm_90a).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/bind.hpp"
#include "plan/families_cuda.hpp"
#include "plan/parameters.hpp"
#include "support/plain_store.hpp"
#include "types/dtype.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/gpu_discovery.hpp"

namespace {

using namespace codetta;
using package::GpuFamily;
using package::GpuGemmConfig;
using plan::Discovery;
using plan::GemmShape;
using test::has_family;

enum class Layout { Rows, Columns };  // of B: consecutive columns, or consecutive k side by side

GemmShape shape_of(int64_t m, int64_t n, int64_t k, DType dtype = DType::bf16, Layout b = Layout::Columns) {
  GemmShape shape = test::gpu_shape(m, n, k, dtype);
  if (b == Layout::Columns) shape.b_k_stride = 1, shape.b_col_stride = k;
  return shape;
}

package::EpilogueProgram plain(DType accumulator = DType::f32, DType out = DType::bf16) {
  return test::plain_store(accumulator, out);
}

package::EpilogueProgram split(int32_t ways, int64_t chunk) {
  package::EpilogueProgram program = plain();
  program.split.ways = ways;
  program.split.chunk = types::Dim::constant(chunk);
  return program;
}

Discovery found(const package::EpilogueProgram& program, const GemmShape& shape, const std::string& arch = "sm_90a") {
  return plan::discover(program, shape, {Backend::cuda, CpuIsa::generic, arch}, {});
}
Discovery found(const GemmShape& shape, const std::string& arch = "sm_90a") {
  return found(plain(shape.accumulator, shape.accumulator), shape, arch);
}
const GpuGemmConfig& best(const Discovery& discovery) { return package::gpu(discovery.candidates.at(0).config); }
std::string why(const Discovery& discovery, const std::string& kernel) {
  return test::reasons_of(discovery, kernel, true);
}

// The model's time of one configuration, whether it is among those kept or not.
double microseconds(const package::EpilogueProgram& program, const GemmShape& shape, int tile_m, int tile_n,
                    bool pingpong, int cluster_m = 2) {
  const plan::GpuFacts gpu = plan::gpu_facts("sm_90a");
  const plan::GpuProblem problem{program, shape, gpu};
  for (const plan::GpuFamilyInfo& family : plan::cuda_families()) {
    if (family.family != GpuFamily::Sm90) continue;
    for (const GpuGemmConfig& c : family.configurations(problem)) {
      if (c.tile_m != tile_m || c.tile_n != tile_n || c.pingpong != pingpong || c.cluster_m != cluster_m ||
          c.cluster_n != 1 || c.k_split != 1 || (!pingpong && tile_m == 128 && c.consumers != 2))
        continue;
      double sum = 0;
      for (const plan::CostTerm& term : plan::cuda_cost_terms(problem, family, c)) sum += term.microseconds;
      return sum;
    }
  }
  ADD_FAILURE() << "no such configuration: " << tile_m << " x " << tile_n;
  return 0;
}

TEST(CudaRanking, FollowsTheMeasuredOrders) {
  // 4096^3 by pieces (bench/NOTES.md): cooperative 128x256 196.8 us on an H100, ping-pong 128x128 200.3, 128x176 200.7,
  // 128x192 209.2, 64x128 far behind; at the limit of an H200's power 219.9 and 210.9 for the first two.
  const GemmShape middle = shape_of(4096, 4096, 4096);
  const auto program = plain();
  const double pp128 = microseconds(program, middle, 128, 128, true),
               pp176 = microseconds(program, middle, 128, 176, true),
               coop = microseconds(program, middle, 128, 256, false),
               pp192 = microseconds(program, middle, 128, 192, true),
               narrow = microseconds(program, middle, 64, 128, true);
  EXPECT_LT(pp128, coop);
  EXPECT_LT(pp128, pp192);
  EXPECT_LT(pp176, pp192);
  EXPECT_NEAR(coop / pp128, 219.9 / 210.9, 0.05);
  EXPECT_NEAR(pp192 / coop, 209.2 / 196.8, 0.055);  // 5.3 rounds of the widest count as 6
  EXPECT_GT(narrow / coop, 1.25);
  // B along N in tiles that are no multiple of its blocks of 64: 218 us, where whole ones take 186.
  const GemmShape rows = shape_of(4096, 4096, 4096, DType::bf16, Layout::Rows);
  EXPECT_LT(microseconds(program, rows, 128, 256, false), microseconds(program, rows, 128, 176, true));
  // 8192^3: ping-pong 128x192 1.049, 128x176 1.037, cooperative 128x256 0.986.
  const GemmShape large = shape_of(8192, 8192, 8192);
  EXPECT_LT(microseconds(program, large, 128, 192, true), microseconds(program, large, 128, 176, true));
  EXPECT_LT(microseconds(program, large, 128, 176, true), microseconds(program, large, 128, 256, false));
  // Clusters: ahead of none for many tiles, behind in a single wave (1024^3: 9.1 us and 7.8).
  EXPECT_LT(microseconds(program, middle, 128, 176, true, 2), microseconds(program, middle, 128, 176, true, 1));
  const GpuGemmConfig small = best(found(program, shape_of(1024, 1024, 1024)));
  EXPECT_EQ(small.cluster_m * small.cluster_n, 1);
}

TEST(CudaRanking, PicksWhatTheShapeNeeds) {
  const auto program = plain();
  EXPECT_TRUE(best(found(program, shape_of(8192, 8192, 8192))).pingpong);
  EXPECT_GE(best(found(program, shape_of(4096, 4096, 4096))).tile_n, 128);
  EXPECT_EQ(best(found(program, shape_of(16, 14336, 4096))).family, GpuFamily::Stream);
  EXPECT_EQ(best(found(program, shape_of(48, 14336, 4096))).tile_m, 64);
  EXPECT_GT(best(found(program, shape_of(16, 1024, 16384))).k_split, 1);
  EXPECT_EQ(best(found(program, shape_of(4096, 4096, 4096))).k_split, 1);
  // 2112 columns are 11 tiles of 192, or 8.25 of 256.
  EXPECT_EQ(2112 % best(found(program, shape_of(4096, 2112, 7168))).tile_n, 0);
}

// Few rows, B along K, on an H100 (bench/NOTES.md): what was fastest, or within 3 % of it.
TEST(CudaRanking, FewRows) {
  const GpuGemmConfig middle = best(found(plain(), shape_of(32, 7168, 8192)));
  EXPECT_EQ(middle.family, GpuFamily::Sm90);
  EXPECT_EQ(middle.a_rows, 32);
  EXPECT_EQ(middle.k_split, 1);
  const GpuGemmConfig wide = best(found(plain(), shape_of(32, 8192, 3584)));
  EXPECT_TRUE(wide.family == GpuFamily::Sm90 && wide.a_rows == 32);
  const GpuGemmConfig tall = best(found(plain(), shape_of(16, 4096, 14336)));
  EXPECT_EQ(tall.family, GpuFamily::Stream);
}

TEST(CudaRanking, OffersDifferentTiles) {
  std::set<std::pair<int, int>> tiles;
  const Discovery discovery = found(shape_of(4096, 4096, 4096));
  for (const plan::Candidate& c : discovery.candidates)
    tiles.emplace(package::gpu(c.config).tile_m, package::gpu(c.config).tile_n);
  EXPECT_GE(tiles.size() * 2, discovery.candidates.size());
  EXPECT_LE(discovery.candidates.size(), 64U);
}

TEST(CudaDiscovery, SimtTakesEverything) {
  for (int a = 0; a < dtype_count; ++a) {
    for (int b = 0; b < dtype_count; ++b) {
      const auto accumulator = ir::default_accumulator(static_cast<DType>(a), static_cast<DType>(b));
      if (!accumulator) continue;
      GemmShape shape = shape_of(100, 96, 100);
      shape.a = static_cast<DType>(a);
      shape.b = static_cast<DType>(b);
      shape.accumulator = *accumulator;
      shape.a_k_stride = 7;  // and every layout
      shape.a_row_stride = 1000;
      shape.b_col_stride = 0;
      shape.a_alignment = 1;
      for (const char* arch : {"sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a"}) {
        for (const int32_t ways : {1, 2, 3, 7, 31, 48, 61, 64}) {
          package::EpilogueProgram program = split(ways, 1);
          program.accumulator = shape.accumulator;
          EXPECT_TRUE(has_family(found(program, shape, arch), GpuFamily::Simt))
              << dtype_name(shape.a) << " " << dtype_name(shape.b) << " " << arch << " " << ways;
        }
      }
    }
  }
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{0, 8, 8}, {8, 0, 8}, {8, 8, 0}, {1, 1, 1}}) {
    EXPECT_TRUE(has_family(found(shape_of(m, n, k)), GpuFamily::Simt));
    EXPECT_EQ(has_family(found(shape_of(m, n, k)), GpuFamily::Sm90), m * n * k != 0);
  }
}

TEST(CudaDiscovery, ConfigurationsKeepToTheLimits) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64, DType::i8}) {
      for (const Layout layout : {Layout::Rows, Layout::Columns}) {
        for (const int32_t ways : {1, 2, 3, 4, 8}) {
          for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                        {16, 14336, 4096},
                                        {37, 1000, 776},
                                        {128, 4096, 14336},
                                        {1024, 1024, 1024},
                                        {4096, 4096, 100000},
                                        {100000, 128256, 512}}) {
            const GemmShape shape = shape_of(m, n / ways * ways, k, dtype, layout);
            package::EpilogueProgram program = split(ways, shape.n / ways);
            program.accumulator = shape.accumulator;
            const Discovery discovery = found(program, shape, arch);
            ASSERT_FALSE(discovery.candidates.empty());
            std::set<std::string> names;
            for (const plan::Candidate& candidate : discovery.candidates) {
              SCOPED_TRACE(candidate.name);
              const GpuGemmConfig& c = package::gpu(candidate.config);
              EXPECT_TRUE(names.insert(candidate.name).second);
              EXPECT_EQ(candidate.name.rfind(std::string("_") + arch),
                        candidate.name.size() - std::string(arch).size() - 1);
              EXPECT_EQ(c.tile_n % ways, 0);
              EXPECT_EQ(c.piece_cols % c.lanes, 0);
              EXPECT_EQ(c.tile_m % c.piece_rows, 0);
              EXPECT_TRUE(c.threads % 32 == 0 && c.threads <= 512);
              EXPECT_TRUE(c.k_split >= 1 && c.k_split <= package::max_k_split);
              if (c.family == GpuFamily::Sm90) {
                const plan::Sm90Shape s = plan::sm90_shape(program, c);
                EXPECT_EQ(s.shared_bytes, c.shared_bytes);
                EXPECT_LE(s.shared_bytes, plan::sm90_shared_limit);
                EXPECT_LE(s.accumulators, c.k_split > 1 ? plan::sm90_accumulators_split : plan::sm90_accumulators);
                EXPECT_TRUE(s.a_box_rows <= 256 && s.b_box_rows <= 256);
                EXPECT_TRUE(s.a_box_rows % 8 == 0 && s.b_box_rows % 8 == 0);
                EXPECT_TRUE(c.stages >= 2 && c.alignment == 16 && c.persistent);
              } else if (c.family == GpuFamily::Simt) {
                EXPECT_EQ(c.shared_bytes, 0);
                EXPECT_EQ(c.alignment, 1);
              } else {
                EXPECT_TRUE(c.shared_bytes > 0 && c.shared_bytes <= plan::gpu_facts(arch).shared_per_block);
                EXPECT_EQ(c.tile_n / ways % c.piece_cols, 0);
              }
              double sum = 0;
              for (const plan::CostTerm& term : candidate.terms) {
                EXPECT_GT(term.microseconds, 0) << term.name;
                EXPECT_FALSE(term.note.empty()) << term.name;
                sum += term.microseconds;
              }
              EXPECT_DOUBLE_EQ(sum, candidate.microseconds);
              EXPECT_TRUE(std::isfinite(sum) && sum > 0);
            }
            EXPECT_TRUE(std::is_sorted(
                discovery.candidates.begin(), discovery.candidates.end(),
                [](const plan::Candidate& x, const plan::Candidate& y) { return x.microseconds < y.microseconds; }));
          }
        }
      }
    }
  }
}

// A piece must be a place of its own in the partials of a reduction.
TEST(CudaDiscovery, PiecesOfReductionsAreWhole) {
  package::EpilogueProgram program = plain();
  program.reductions.push_back(
      {package::ReduceKind::LogSumExp, package::ReduceAxis::Column, false, 1, DType::f64, 0, 0});
  for (const int64_t n : {40, 2112, 4096}) {
    const Discovery discovery = found(program, shape_of(2048, n, 2048));
    EXPECT_TRUE(has_family(discovery, GpuFamily::Sm90));
    for (const plan::Candidate& candidate : discovery.candidates) {
      const GpuGemmConfig& c = package::gpu(candidate.config);
      EXPECT_EQ(c.tile_n % c.piece_cols, 0) << candidate.name;
      const plan::PieceLayout layout = plan::piece_layout(program, c);
      EXPECT_TRUE(layout.across <= 32 && layout.across * layout.lanes >= c.piece_cols) << candidate.name;
    }
  }
}

// What the copy engine refuses, the families of plain copies take: odd rows, any chunk along K, 8-bit and f64 products.
// All configurations of the sm_90a family, whether the model keeps them or not.
std::vector<GpuGemmConfig> of_sm90(const package::EpilogueProgram& program, const GemmShape& shape) {
  const plan::GpuFacts gpu = plan::gpu_facts("sm_90a");
  return plan::sm90_configurations({program, shape, gpu});
}
int copied_of(const package::EpilogueProgram& program, const GemmShape& shape) {
  const auto all = of_sm90(program, shape);
  return static_cast<int>(std::count_if(all.begin(), all.end(), [](const GpuGemmConfig& c) { return c.copied; }));
}

// D = accum + C.
package::EpilogueProgram residual(DType dtype = DType::bf16) {
  package::EpilogueProgram program = plain(DType::f32, dtype);
  program.arguments.push_back({"C", dtype, false, false, {types::Dim::symbol("m"), types::Dim::symbol("n")}});
  package::Operand read = program.operands[0];
  read.argument = 1;
  read.is_store = false;
  program.operands.push_back(read);
  package::Inst load, add;
  load.kind = package::Inst::Kind::Load;
  load.index = 1;
  add.op = types::Op::add;
  add.in[1] = 1;
  add.arity = 2;
  program.phases[0].insts.push_back(load);
  program.phases[0].insts.push_back(add);
  program.phases[0].stores[0].value = 2;
  return program;
}

// What has code for pieces that are not complete in one form.
TEST(CudaDiscovery, PlannedSizesOfWholeTilesAreEven) {
  const auto evens = [](const GemmShape& shape, const std::string& arch) {
    const Discovery discovery = found(shape, arch);
    return std::count_if(discovery.candidates.begin(), discovery.candidates.end(),
                         [](const plan::Candidate& candidate) {
                           const GpuGemmConfig& c = package::gpu(candidate.config);
                           EXPECT_FALSE(c.even && c.copied) << candidate.name;
                           return c.even;
                         });
  };
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    EXPECT_GT(evens(shape_of(4096, 4096, 1024), arch), 0) << arch;
    EXPECT_EQ(evens(shape_of(4096, 4100, 1024), arch) + evens(shape_of(1001, 4096, 1024), arch), 0) << arch;
    EXPECT_GT(evens(shape_of(19201, 4096, 1024), arch), 0) << arch << ": of a hundred tiles one may be left";
  }
  GemmShape apart = shape_of(4096, 4096, 1024);  // rows of factors that begin anywhere
  apart.a_row_stride += 1;
  for (const plan::Candidate& candidate : found(apart, "sm_80").candidates) {
    const GpuGemmConfig& c = package::gpu(candidate.config);
    EXPECT_FALSE(c.even && c.family == GpuFamily::Sm80) << candidate.name;
  }
}

TEST(CudaDiscovery, MatricesOfTheEpilogueByTheCopyEngine) {
  GemmShape shape = shape_of(4096, 4096, 4096);
  EXPECT_GT(copied_of(plain(), shape), 0);
  EXPECT_GT(copied_of(residual(), shape), 0);
  EXPECT_EQ(copied_of(plain(DType::f32, DType::f8e4m3), shape), 0);  // rows of 64 bytes at least
  package::EpilogueProgram strided = plain();
  strided.operands[0].unit_stride = false;
  EXPECT_EQ(copied_of(strided, shape), 0);
  strided.operands[0].column_major = true;
  EXPECT_GT(copied_of(strided, shape), 0) << "columns side by side instead of rows";
  // The engine stores 16 bytes at a time, of a column of D here and of a row otherwise.
  EXPECT_EQ(copied_of(strided, shape_of(4092, 4096, 4096)), 0);
  EXPECT_GT(copied_of(strided, shape_of(4096, 4092, 4096)), 0);
  EXPECT_EQ(copied_of(plain(), shape_of(4096, 4092, 4096)), 0);
  package::EpilogueProgram turned = residual(DType::f32);
  for (package::Operand& operand : turned.operands) operand.unit_stride = false, operand.column_major = true;
  EXPECT_GT(copied_of(turned, shape), 0);
  // Every copy in whole strips; what is read is not stored twice.
  for (const auto& program : {plain(), residual(), turned}) {
    for (const GpuGemmConfig& c : of_sm90(program, shape)) {
      if (!c.copied) continue;
      EXPECT_FALSE(c.from_registers);
      EXPECT_EQ(c.lanes, 2);
      EXPECT_LE(c.shared_bytes, plan::sm90_shared_limit);
      EXPECT_EQ(c.shared_bytes, plan::sm90_shape(program, c).shared_bytes);
      EXPECT_EQ(c.tile_n % 16, 0);
      EXPECT_TRUE(program.operands.size() == 1 || c.tile_n % c.piece_cols == 0);
    }
  }
  shape.epilogue_alignment = 8;
  EXPECT_EQ(copied_of(plain(), shape), 0);
}

// Rows are reduced where the accumulators are, also where there is no matrix to copy; a row may have a number of 64
// bits.
TEST(CudaDiscovery, ReductionsWithoutMatricesFromRegisters) {
  const GemmShape shape = shape_of(512, 8192, 4096);
  package::EpilogueProgram program = plain();
  program.operands.clear();
  program.phases[0].stores.clear();
  EXPECT_EQ(copied_of(program, shape), 0);
  program.reductions.push_back({package::ReduceKind::LogSumExp, package::ReduceAxis::Row, false, 1, DType::f32, 0, 0});
  EXPECT_GT(copied_of(program, shape), 0);
  EXPECT_TRUE(package::gpu(found(program, shape).candidates[0].config).copied) << "pieces take longer";
  package::Operand label;
  label.dtype = DType::i64;
  label.access = package::Access::Column;
  program.operands.push_back(label);
  package::Inst load;
  load.kind = package::Inst::Kind::Load;
  load.type = load.aux = DType::i64;
  program.phases[0].insts.push_back(load);
  EXPECT_GT(copied_of(program, shape), 0);
  program.operands[0].access = package::Access::Row;
  EXPECT_EQ(copied_of(program, shape), 0) << "64 bits of each column";
  program.operands[0].access = package::Access::Column;
  program.reductions[0].axis = package::ReduceAxis::Column;
  EXPECT_EQ(copied_of(program, shape), 0);
}

// Of few rows that are known to be no more a stage brings these alone, and what an instruction reads beyond them is in
// the same stage.
TEST(CudaDiscovery, StagesBringTheRowsThatThereAre) {
  for (const int64_t m : {1, 8, 9, 32, 33, 56, 57, 64, 65, 96, 120, 121, 129}) {
    for (const int64_t n : {4096, 28672}) {
      for (const bool any : {false, true}) {
        GemmShape shape = shape_of(m, n, 4096);
        shape.any_m = any;
        bool few = false;
        for (const GpuGemmConfig& c : of_sm90(plain(), shape)) {
          if (c.a_rows == 0) continue;
          few = true;
          EXPECT_EQ(c.tile_m, m <= 64 ? 64 : 128);
          EXPECT_TRUE(c.a_rows >= m && (c.a_rows < m + 8 * c.cluster_n || c.a_rows == 128 - c.tile_n)) << c.a_rows;
          EXPECT_EQ(plan::sm90_shape(plain(), c).stage_bytes, (c.a_rows + c.tile_n) * 128);
          EXPECT_GE(c.a_rows + c.tile_n, c.tile_m);
        }
        EXPECT_EQ(few, !any && (m <= 56 || (m > 64 && m <= 120))) << m;
      }
    }
  }
  GemmShape items = shape_of(8, 4096, 4096);
  items.batch = 2, items.a_batch_stride = 8 * 4096;
  for (const GpuGemmConfig& c : of_sm90(plain(), items)) EXPECT_EQ(c.a_rows, 0) << "they may become rows of one item";
}

// Reductions of few rows end in the product's kernel, which costs less than one behind it; others do not.
TEST(CudaDiscovery, TheLastBlockCombinesFewRows) {
  using package::ReduceAxis;
  const auto with = [](ReduceAxis axis) {
    package::EpilogueProgram program = plain();
    program.reductions.push_back({package::ReduceKind::Sum, axis, false, 1, DType::f32, 0, 0});
    return program;
  };
  const auto families = [](const package::EpilogueProgram& program, int64_t m) {
    std::set<GpuFamily> combining;
    for (const plan::Candidate& candidate : found(program, shape_of(m, 4096, 4096)).candidates) {
      const GpuGemmConfig& c = package::gpu(candidate.config);
      if (c.combines) combining.insert(c.family);
      EXPECT_FALSE(c.combines && (c.stream_k || c.pingpong || (c.family == GpuFamily::Sm90 && c.consumers > 1)));
    }
    return combining;
  };
  EXPECT_EQ(families(with(ReduceAxis::Row), 16),
            (std::set<GpuFamily>{GpuFamily::Sm80, GpuFamily::Sm90, GpuFamily::Stream}));
  EXPECT_TRUE(families(with(ReduceAxis::Row), 128).empty());
  EXPECT_TRUE(families(with(ReduceAxis::Column), 16).empty());
  EXPECT_TRUE(families(plain(), 16).empty());
}

// Tensor maps of what the copy engine brings are parameters as the tensors are; 43 tensors leave no room for them.
TEST(CudaDiscovery, NoCopiesWhereALaunchCannotPassTheirMaps) {
  const GemmShape shape = shape_of(4096, 4096, 4096);
  for (const auto& [rows, copies] : {std::pair(39, true), {40, false}, {42, false}}) {
    package::EpilogueProgram program = residual();
    for (int i = 0; i < rows; ++i) {  // of one value a column
      package::Operand row = program.operands[1];
      row.argument = static_cast<uint32_t>(program.arguments.size());
      row.access = package::Access::Row;
      row.terms.erase(row.terms.begin());
      program.arguments.push_back({"r" + std::to_string(i), DType::bf16, false, false, {types::Dim::symbol("n")}});
      program.operands.push_back(row);
    }
    EXPECT_EQ(copied_of(program, shape) > 0, copies) << rows;
    EXPECT_TRUE(has_family(found(program, shape), GpuFamily::Sm90)) << rows;
  }
}

TEST(CudaDiscovery, SharesOfKWhereTheLastWaveIsNarrow) {
  const auto streams = [](const GemmShape& shape) {
    const auto all = of_sm90(plain(), shape);
    return std::any_of(all.begin(), all.end(), [](const GpuGemmConfig& c) { return c.stream_k; });
  };
  EXPECT_TRUE(streams(shape_of(1536, 1536, 4096)));
  EXPECT_FALSE(streams(shape_of(1536, 1536, 512)));   // shares of a few steps
  EXPECT_FALSE(streams(shape_of(8192, 8192, 8192)));  // more than L2 holds
  for (const GpuGemmConfig& c : of_sm90(plain(), shape_of(1536, 1536, 4096)))
    EXPECT_TRUE(!c.stream_k || (c.k_split == 1 && !c.pingpong));
}

TEST(CudaRanking, WhatIsReadForEachKAloneKeepsFactorsOfSm80Waiting) {
  // RMS norm in front of gate and up, one row, on an H100: 188 us where A is made in blocks of 32 and 80 where it is
  // read from memory.
  package::EpilogueProgram program = plain();
  GemmShape shape = shape_of(1, 28672, 4096, DType::bf16, Layout::Rows);
  const plan::GpuFacts gpu = plan::gpu_facts("sm_90a");
  const auto narrow = [&] {  // microseconds of 16x128x32
    const plan::GpuProblem problem{program, shape, gpu};
    for (const plan::GpuFamilyInfo& family : plan::cuda_families()) {
      if (family.family != GpuFamily::Sm80) continue;
      for (const GpuGemmConfig& c : family.configurations(problem)) {
        if (c.tile_m != 16 || c.tile_n != 128 || c.tile_k != 32) continue;
        double sum = 0;
        for (const plan::CostTerm& term : plan::cuda_cost_terms(problem, family, c)) sum += term.microseconds;
        return sum;
      }
    }
    ADD_FAILURE() << "no such tile";
    return 0.0;
  };
  const double read = narrow();
  package::Operand row = residual().operands[1];  // of A itself, and one number for each k
  row.argument = static_cast<uint32_t>(program.arguments.size());
  program.arguments.push_back({"x", DType::bf16, false, false, {}});
  program.operands.push_back(row);
  row.access = package::Access::Row;
  program.operands.push_back(row);
  package::FactorProgram& factor = program.factors.emplace_back();
  factor.dtype = DType::bf16;
  for (uint32_t i = 0; i < 2; ++i)
    factor.insts.push_back(
        {.kind = package::Inst::Kind::Load, .index = static_cast<uint32_t>(program.operands.size()) - 2 + i});
  shape.a_made = true;
  shape.a_read_bytes = 2;
  EXPECT_GT(narrow(), 1.3 * read);
  program.operands.back().access = package::Access::Column;  // one for each row, the same all along K
  EXPECT_LT(narrow(), 1.1 * read);
  factor.insts.pop_back();  // all of it is under way beside the copies
  EXPECT_LT(narrow(), 1.1 * read);
}

TEST(CudaDiscovery, Sm80TakesWhatSm90Refuses) {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const Discovery odd = found(shape_of(65536, 1024, 479), arch);
    const bool hopper = std::string_view(arch) == "sm_90a";
    EXPECT_EQ(best(odd).family, hopper ? GpuFamily::Sm90 : GpuFamily::Sm80);
    EXPECT_EQ(best(odd).alignment, hopper ? 16 : 1);
    EXPECT_EQ(best(odd).spread_a == 8 && best(odd).pack_b, hopper);
    EXPECT_EQ(best(found(split(2, 1), shape_of(512, 512, 512), arch)).family, GpuFamily::Sm80);
    EXPECT_FALSE(
        has_family(found(split(2, 1), shape_of(512, 512, 512, DType::bf16, Layout::Rows), arch), GpuFamily::Sm80));
    for (const DType dtype : {DType::i8, DType::f64}) {
      const GemmShape shape = shape_of(2048, 2048, 2048, dtype);
      EXPECT_EQ(best(found(shape, arch)).family, hopper && dtype == DType::i8 ? GpuFamily::Sm90 : GpuFamily::Sm80)
          << dtype_name(dtype);
    }
    GemmShape f32 = shape_of(2048, 2048, 2048, DType::f32);
    EXPECT_EQ(best(found(f32, arch)).family, GpuFamily::Simt);
    f32.math = package::MathMode::Tf32x3;
    EXPECT_EQ(best(found(f32, arch)).family, GpuFamily::Sm80);
    EXPECT_EQ(best(found(f32, arch)).math, package::MathMode::Tf32x3);
  }
  EXPECT_EQ(best(found(shape_of(2048, 2048, 2048, DType::f8e4m3), "sm_89")).family, GpuFamily::Sm80);
  for (const char* arch : {"sm_80", "sm_89", "sm_90a"}) {
    for (const Layout layout : {Layout::Rows, Layout::Columns}) {
      for (const int64_t m : {1, 16}) {
        // B along N: 36.4 us by tiles of 16 rows at 12288 x 4096, 37.9 by the fastest stream (an H100).
        const GpuFamily family = best(found(plain(), shape_of(m, 14336, 4096, DType::bf16, layout), arch)).family;
        const bool along_k = layout == Layout::Columns && std::string_view(arch) != "sm_80";
        EXPECT_TRUE(family == GpuFamily::Stream || (!along_k && family == GpuFamily::Sm80)) << arch << " " << m;
      }
    }
  }
}

TEST(CudaDiscovery, ADeviceInPlaceOfTheUsualProduct) {
  plan::MachineFacts machine;
  machine.gpu = plan::gpu_facts("sm_90a");
  machine.gpu.memory_rate = 4300;  // H200
  const GemmShape shape = shape_of(16, 14336, 4096);
  const Target target{Backend::cuda, CpuIsa::generic, "sm_90a"};
  const double faster = plan::discover(plain(), shape, target, machine).candidates.at(0).microseconds;
  EXPECT_LT(faster, found(plain(), shape).candidates.at(0).microseconds);
  machine.gpu.arch = "sm_80";  // another device than the target
  EXPECT_DOUBLE_EQ(plan::discover(plain(), shape, target, machine).candidates.at(0).microseconds,
                   found(plain(), shape).candidates.at(0).microseconds);
  EXPECT_EQ(plan::gpu_facts("sm_121").sms, plan::gpu_facts("sm_120").sms);
  EXPECT_EQ(plan::gpu_facts("sm_103a").sms, 148);
}

// Sizes beyond 2^31 are no limit of kernels without tensor maps, which count in 64 bits.
TEST(CudaDiscovery, SizesBeyondTheCopyEngines) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    for (const GemmShape& shape :
         {shape_of(3000000000, 512, 4096), shape_of(512, 3000000000, 512), shape_of(512, 512, int64_t{1} << 33)}) {
      const Discovery discovery = found(shape, arch);
      ASSERT_FALSE(discovery.candidates.empty()) << arch;
      EXPECT_TRUE(has_family(discovery, GpuFamily::Sm80)) << arch << " " << shape.m << " " << shape.n << " " << shape.k;
      EXPECT_EQ(package::gpu(discovery.candidates[0].config).family, GpuFamily::Sm80) << arch;
    }
  }
}

// Factors that the copy engine cannot read are packed, and only those.
TEST(CudaDiscovery, PacksWhatTheCopyEngineCannotRead) {
  const GemmShape aligned = shape_of(2048, 2048, 2048);
  const auto packs = [&](void (*change)(GemmShape&)) {
    GemmShape shape = aligned;
    change(shape);
    const Discovery discovery = found(shape);
    const auto sm90 =
        std::find_if(discovery.candidates.begin(), discovery.candidates.end(),
                     [](const plan::Candidate& c) { return package::gpu(c.config).family == GpuFamily::Sm90; });
    EXPECT_NE(sm90, discovery.candidates.end());
    const GpuGemmConfig& c = package::gpu(sm90->config);
    return std::string(c.pack_a ? "A" : "") + (c.pack_b ? "B" : "") + (c.a_k_major ? " k" : " m") +
           (c.b_k_major ? "k" : "n") + (c.spread_a > 1 ? " spread" : "");
  };
  EXPECT_EQ(packs([](GemmShape&) {}), " kk");
  EXPECT_EQ(packs([](GemmShape& s) { s.a_row_stride += 1, s.m = 2047; }), "A kk");
  EXPECT_EQ(packs([](GemmShape& s) { s.a_row_stride = 0; }), "A kk");
  EXPECT_EQ(packs([](GemmShape& s) { s.b_alignment = 2; }), "B kk");
  EXPECT_EQ(packs([](GemmShape& s) { s.b_k_stride = 2; }), "B kk");
  EXPECT_EQ(packs([](GemmShape& s) { s.b_k_stride = 2049, s.b_col_stride = 1; }), "B kn");
  EXPECT_EQ(packs([](GemmShape& s) { s.batch = 3, s.b_batch_stride = 12; }), "B kk");
  // wgmma reads only 16-bit elements along M and N.
  EXPECT_EQ(packs([](GemmShape& s) {
              s.a = s.b = DType::f32, s.math = MathMode::Tf32;
              s.b_k_stride = 2048, s.b_col_stride = 1;
            }),
            "B kk");
}

// Rows of A that begin anywhere are read where they lie, beside kernels that pack them: where M, strides and the
// epilogue let them be items, and as one B along N serves all.
TEST(CudaDiscovery, SpreadsRowsThatBeginAnywhere) {
  const auto spread = [](const package::EpilogueProgram& program, void (*change)(GemmShape&)) {
    GemmShape shape = shape_of(65536, 1024, 479);
    change(shape);
    const plan::GpuFacts gpu = plan::gpu_facts("sm_90a");
    int items = 1, packed = 0, least = INT32_MAX;
    for (const GpuGemmConfig& c : plan::sm90_configurations({program, shape, gpu})) {
      if (c.spread_a == 1) ++packed, least = std::min<int>(least, c.pack_a);
      if (c.spread_a == 1) continue;
      EXPECT_TRUE(items == 1 || items == c.spread_a);
      items = c.spread_a;
      EXPECT_FALSE(c.pack_a || c.b_k_major || c.stream_k || c.k_split > 1);
      EXPECT_EQ(c.pack_b, shape.b_k_stride == 1 || shape.b_k_stride % 8 != 0);
      EXPECT_NE(plan::cuda_kernel_name(c, "sm_90a").find("_sa" + std::to_string(items)), std::string::npos);
      EXPECT_EQ(c.alignment, 16);
    }
    EXPECT_GT(packed, 0) << "the same without";
    EXPECT_TRUE(items == 1 || least == 1);
    return items;
  };
  const auto as_is = [](GemmShape&) {};
  const auto program = plain();
  EXPECT_EQ(spread(program, as_is), 8);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.a_row_stride = 482; }), 4);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.a_row_stride = 484; }), 2);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.a_row_stride = 480; }), 1) << "read as it is";
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.a = s.b = DType::f16; }), 8);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.b_k_stride = 1024, s.b_col_stride = 1; }), 8);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.b_k_stride = 1025, s.b_col_stride = 1; }), 8);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.m = 65532; }), 1) << "no multiple of 8";
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.m = 65532, s.a_row_stride = 482; }), 4);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.m_multiple = 4; }), 1) << "only hinted to be one";
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.m_multiple = 8; }), 8);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.batch = 2, s.a_batch_stride = 65536 * 479; }), 1);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.a_alignment = 2; }), 1);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.a_k_stride = 2, s.a_row_stride = 959; }), 1);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.a_row_stride = -479; }), 1);
  EXPECT_EQ(spread(program, [](GemmShape& s) { s.a = s.b = DType::f32, s.math = MathMode::Tf32; }), 1)
      << "B lies along K";
  package::EpilogueProgram other = plain();
  other.phases[0].insts.push_back({.kind = package::Inst::Kind::RowIndex, .type = DType::i64});
  EXPECT_EQ(spread(other, as_is), 1) << "rows have numbers";
  other = plain();
  other.reductions.push_back({package::ReduceKind::Sum, package::ReduceAxis::Column, false, 0, DType::f32, 0, 1});
  EXPECT_EQ(spread(other, as_is), 1) << "sums over the rows of an item";
  other.reductions[0].axis = package::ReduceAxis::Row;
  EXPECT_EQ(spread(other, as_is), 8);
  other = plain();
  other.operands[0].access = package::Access::Indexed;
  EXPECT_EQ(spread(other, as_is), 1) << "its strides have no place for items";
  // Rows of an item that lie side by side are not next to each other.
  other = plain();
  other.operands[0].column_major = true, other.operands[0].unit_stride = false;
  const plan::GpuFacts gpu = plan::gpu_facts("sm_90a");
  for (const GpuGemmConfig& c : plan::sm90_configurations({other, shape_of(65536, 1024, 479), gpu}))
    EXPECT_FALSE(c.copied && c.spread_a > 1);
  // Parameters have room for a map of every item.
  other = plain();
  const int64_t room = plan::free_parameter_bytes(2) - plan::parameter_bytes(other);
  const auto arguments = static_cast<size_t>(room / 8);
  other.arguments.resize(other.arguments.size() + arguments, {"s", DType::f32, true, false, {}});
  EXPECT_EQ(spread(other, as_is), 1);
  other.arguments.resize(other.arguments.size() - 7 * 128 / 8);
  EXPECT_EQ(spread(other, as_is), 8);
}

// Rows and items of the problem that it then is; A is not packed, which costs what it is more than to read it so.
TEST(CudaRanking, SpreadRowsAreAheadOfPackedOnes) {
  const GemmShape shape = shape_of(65536, 1024, 479), spread = plan::spread_rows(shape, 8);
  EXPECT_EQ(spread.batch, 8);
  EXPECT_EQ(spread.m, 8192);
  EXPECT_EQ(spread.a_batch_stride, 479);
  EXPECT_EQ(spread.a_row_stride, 8 * 479);
  EXPECT_TRUE(plan::spread_rows(shape, 1) == shape);
  const GpuGemmConfig first = best(found(shape));
  EXPECT_EQ(first.spread_a, 8);
  // Of 64 rows, 8 an item fill an eighth of a tile.
  EXPECT_EQ(best(found(shape_of(64, 1024, 4095))).spread_a, 1);
}

TEST(CudaRejections, SayWhyWithNumbers) {
  const GemmShape plain_shape = shape_of(512, 512, 512);
  EXPECT_EQ(why(found(plain_shape, "sm_90"), "cuda_sm90"),
            "E0404: wgmma and setmaxnreg belong to sm_90a, which sm_90 code does not have\n");
  EXPECT_EQ(why(found(shape_of(512, 512, 512, DType::f32), "sm_80"), "cuda_sm80"),
            "E0405: tensor cores round f32 factors to tf32, and the program's math is strict\n");
  GemmShape mixed = plain_shape;
  mixed.b = DType::f16;
  EXPECT_EQ(why(found(mixed, "sm_80"), "cuda_sm80"), "E0405: no mma.sync instruction multiplies bf16 x f16 into f32\n");
  EXPECT_EQ(why(found(shape_of(16, 512, 512, DType::f8e4m3), "sm_80"), "cuda_sm80"),
            "E0404: sm_80 has no 8-bit floating-point products; sm_89 and later have\n");
  EXPECT_EQ(why(found(shape_of(16, 512, 512, DType::f8e4m3), "sm_80"), "cuda_stream"),
            "E0404: sm_80 has no 8-bit floating-point products; sm_89 and later have\n");
  EXPECT_EQ(why(found(shape_of(16, 512, 512, DType::i8, Layout::Rows), "sm_80"), "cuda_stream"),
            "E0407: elements of one byte are read along K, and consecutive k of B are 512 apart\n");
  EXPECT_EQ(why(found(shape_of(16, 479, 512, DType::bf16, Layout::Rows)), "cuda_stream"),
            "E0407: the stride of B along K is 958 bytes, no multiple of 16\n");
  EXPECT_EQ(why(found(plain_shape, "sm_100f"), "cuda_sm100"),
            "E0404: its tcgen05 code is made for sm_100a and sm_103a, and this is sm_100f\n");
  EXPECT_EQ(why(found(shape_of(512, 512, 512, DType::i8), "sm_103a"), "cuda_sm100"),
            "E0404: 8-bit integer products (kind::i8) belong to sm_100a, and sm_103a has none\n");
  EXPECT_EQ(
      why(found(shape_of(512, 512, 512, DType::f64), "sm_100a"), "cuda_sm100"),
      "E0405: multiplies bf16, f16, f32 (as tf32) and 8-bit floats into f32 and 8-bit integers into i32, and this "
      "is f64 x f64 into f64\n");
  EXPECT_EQ(why(found(shape_of(512, 512, 512, DType::f32), "sm_100a"), "cuda_sm100"),
            "E0405: tcgen05 cuts f32 factors to tf32, and the program's math is strict\n");
  EXPECT_EQ(why(found(shape_of(512, 512, 0), "sm_100a"), "cuda_sm100"),
            "E0406: 512 x 512 x 0 in 1 batch items has nothing to multiply\n");
  EXPECT_EQ(why(found(split(2, 1), plain_shape, "sm_100a"), "cuda_sm100"),
            "E0408: the 2 parts of the split alternate by column, and a copy brings neighbouring columns\n");
  EXPECT_EQ(why(found(shape_of(512, 512, 512, DType::f8e4m3)), "cuda_sm90"),
            "E0405: wgmma sums products of 8-bit floats with 13 bits of fraction, and the program's math is strict; "
            "fp8_two_level_accum permits it of 128 at a time, fp8_fast_accum of all\n");
  EXPECT_EQ(why(found(shape_of(512, 512, 0)), "cuda_sm90"),
            "E0406: 512 x 512 x 0 in 1 batch items has nothing to multiply\n");
  EXPECT_EQ(why(found(shape_of(512, 512, int64_t{1} << 32)), "cuda_sm90"),
            "E0406: a size of 4294967296 is beyond the copy engine's 2^31\n");
  EXPECT_EQ(why(found(shape_of(int64_t{1} << 50, 512, 512), "sm_80"), "cuda_sm80"),
            "E0406: 1125899906842624 x 512 x 512 in 1 batch items are more tiles than one grid has, or more steps of K "
            "than 2^31\n");
  EXPECT_EQ(why(found(shape_of(512, 512, int64_t{1} << 50), "sm_80"), "cuda_sm80"),
            "E0406: 512 x 512 x 1125899906842624 in 1 batch items are more tiles than one grid has, or more steps of K "
            "than 2^31\n");
  EXPECT_EQ(why(found(shape_of(512, 512, 512, DType::f32)), "cuda_sm90"),
            "E0405: wgmma cuts f32 factors to tf32, and the program's math is strict\n");
  EXPECT_EQ(why(found(split(2, 1), plain_shape), "cuda_sm90"),
            "E0408: the 2 parts of the split alternate by column, and a copy brings neighbouring columns\n");
  EXPECT_EQ(why(found(split(4, 4), plain_shape), "cuda_sm90"),
            "E0408: no tile of up to 256 columns holds 4 parts in chunks of 4 columns\n");
  EXPECT_NE(why(found(shape_of(4096, 4096, 4096)), "cuda_sm90").find("variants of tiles that are listed"),
            std::string::npos);
  EXPECT_EQ(why(found(shape_of(15, 16, 64), "sm_80"), "cuda_sm80"),
            "E0406: 15 x 16 would fill at most half of a tile, of which the smallest are 16 x 64 and 64 x 32\n");
  for (const int64_t rows : {1, 15, 17, 33}) {
    for (const int64_t columns : {1, 15, 17, 33}) {
      for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
        for (const plan::Rejection& rejection : found(shape_of(rows, columns, 33), arch).rejections)
          EXPECT_NE(rejection.code, static_cast<uint16_t>(diag::Code::family_split))
              << rejection.text;  // none is split
      }
    }
  }
  const GemmShape endless = shape_of(int64_t{1} << 30, int64_t{1} << 30, 64, DType::f32);
  EXPECT_EQ(why(found(endless), "cuda_simt"),
            "E0406: 1073741824 x 1073741824 in 1 batch items are more than the 2147483647 tiles that one grid has\n");
  GemmShape packed = plain_shape;
  packed.b_packed = true;
  EXPECT_EQ(why(found(packed), ""), "E0410: a packed B is given, and CUDA kernels read B where it lies\n");
  EXPECT_EQ(why(found(plain(), plain_shape, ""), ""),
            "E0412: the target names no architecture, and there is no device to take it from\n");
}

// Pairs of blocks, columns of tensor memory, and grids that are launched whole where there is more than one wave.
TEST(CudaBlackwell, ConfigurationsKeepToTheLimits) {
  for (const char* arch : {"sm_100a", "sm_103a"}) {
    const plan::GpuFacts gpu = plan::gpu_facts(arch);
    for (const DType dtype :
         {DType::bf16, DType::f16, DType::f32, DType::f8e4m3, DType::f8e5m2, DType::i8, DType::u8}) {
      for (const Layout layout : {Layout::Rows, Layout::Columns}) {
        for (const int32_t ways : {1, 2, 4}) {
          for (const auto& [m, n] : {std::pair<int64_t, int64_t>{64, 4096}, {512, 1024}, {8192, 8192}}) {
            GemmShape shape = shape_of(m, n, 4096, dtype, layout);
            shape.math = MathMode::Tf32;
            const package::EpilogueProgram program = split(ways, n / ways);
            const plan::GpuProblem problem{program, shape, gpu};
            const bool integers = dtype == DType::i8 || dtype == DType::u8;
            if (integers && arch == std::string_view("sm_103a")) {
              EXPECT_TRUE(plan::refuse_sm100(problem).has_value());
              continue;
            }
            SCOPED_TRACE(std::string(arch) + " " + std::string(dtype_name(dtype)) + " " + std::to_string(ways));
            if (types::byte_size(dtype) == 1 && layout == Layout::Rows &&
                ways == 4) {  // boxes of 128 columns, 64 a part
              EXPECT_TRUE(plan::refuse_sm100(problem).has_value());
              continue;
            }
            ASSERT_FALSE(plan::refuse_sm100(problem).has_value());
            bool pairs = false, whole = false;
            for (const GpuGemmConfig& c : plan::sm100_configurations(problem)) {
              const plan::Sm100Shape s = plan::sm100_shape(program, c);
              EXPECT_EQ(s.shared_bytes, c.shared_bytes);
              EXPECT_LE(c.shared_bytes, 232448);
              EXPECT_TRUE(s.tensor_columns >= 2 * c.tile_n && s.tensor_columns <= 512 &&
                          (s.tensor_columns & (s.tensor_columns - 1)) == 0);
              EXPECT_TRUE(c.tile_m == 128 && c.piece_rows == 128 && c.cluster_n == 1 && c.cluster_m <= 2);
              EXPECT_EQ(c.tile_n % (16 * c.cluster_m), 0);
              EXPECT_EQ(c.tile_k * types::byte_size(dtype), 128);
              EXPECT_EQ(c.threads, 128 * (1 + c.consumers));
              EXPECT_TRUE(c.stages >= 2 && s.stage_bytes % 1024 == 0 && s.b_box_cols <= 256);
              EXPECT_TRUE(ways == 1 || ways % c.cluster_m == 0);
              EXPECT_EQ(c.tile_n / ways % c.piece_cols, 0);
              EXPECT_TRUE(dtype != DType::f32 || (c.a_k_major && c.b_k_major));
              pairs = pairs || c.cluster_m == 2;
              whole = whole || !c.persistent;
            }
            EXPECT_EQ(pairs, m > 128);
            EXPECT_EQ(whole, m == 8192);
          }
        }
      }
    }
  }
  EXPECT_EQ(best(found(plain(), shape_of(8192, 8192, 8192), "sm_100a")).family, GpuFamily::Sm100);
  EXPECT_EQ(best(found(plain(), shape_of(8192, 8192, 8192), "sm_100a")).cluster_m, 2);
  const Discovery discovery = found(plain(), shape_of(8192, 8192, 8192), "sm_100a");
  EXPECT_NE(discovery.candidates[0].terms[0].note.find("has not run on a GPU"), std::string::npos);
}

// Heads and halves: parts that begin where a copy begins.
TEST(CudaRejections, PartsThatCopiesCanReach) {
  const GemmShape columns = shape_of(512, 1024, 512), rows = shape_of(512, 1024, 512, DType::bf16, Layout::Rows);
  for (const GemmShape& shape : {columns, rows}) {
    EXPECT_TRUE(has_family(found(split(2, 512), shape), GpuFamily::Sm90));  // gate and up
    EXPECT_TRUE(has_family(found(split(2, 64), shape), GpuFamily::Sm90));   // halves of heads of 128
  }
  EXPECT_TRUE(has_family(found(split(2, 32), columns), GpuFamily::Sm90));  // of 64: copies of 32 columns
  EXPECT_FALSE(
      has_family(found(split(2, 32), rows), GpuFamily::Sm90));  // copies of 64 columns would reach the other half
  EXPECT_TRUE(has_family(found(split(2, 500), shape_of(512, 1000, 512)), GpuFamily::Sm90));
}

}  // namespace
