// SPDX-License-Identifier: Apache-2.0
// Halves of heads, whose columns lie in runs, and columns that are reduced: what goes by the copy engine, and in which
// tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/copy_engine.hpp"
#include "support/plain_store.hpp"
#include "unit/plan/gpu_discovery.hpp"

namespace {

using namespace codetta;
using package::Access;
using package::Axis;
using package::GpuGemmConfig;
using package::Operand;
using plan::ColumnRuns;
using plan::GemmShape;
using types::Dim;

// Root column c of the second part of heads of 2 * `half` columns lies at (c / half) * 2 * half + c % half + half.
Operand half_of_heads(int64_t half, bool second) {
  Operand o;
  o.access = Access::Indexed;
  o.dtype = DType::bf16;
  o.is_store = true;
  o.unit_stride = false;
  o.terms.push_back({Axis::Row, 1, 0, 1, Dim::constant(1)});
  o.terms.push_back({Axis::Col, 1, half, 0, Dim::constant(1)});
  o.terms.push_back({Axis::Col, half, 0, 0, Dim::constant(2 * half)});
  if (second) o.offsets.emplace_back(uint8_t{0}, Dim::constant(half));
  return o;
}
Operand angles(int64_t half) {
  Operand o;
  o.access = Access::Indexed;
  o.dtype = DType::f32;
  o.unit_stride = false;
  o.argument = 1;
  o.terms = {{Axis::Row, 1, 0, 2, Dim::constant(1)}, {Axis::Col, 1, half, 0, Dim::constant(1)}};
  return o;
}

// D = both halves, the first one times a table.
package::EpilogueProgram rotary(int64_t half, DType out = DType::bf16) {
  package::EpilogueProgram program = test::plain_store(DType::f32, out);
  program.split.ways = 2;
  program.split.chunk = Dim::constant(half);
  program.arguments.push_back({"table", DType::f32, false, false, {}});
  program.operands = {half_of_heads(half, false), half_of_heads(half, true), angles(half)};
  program.operands[0].dtype = program.operands[1].dtype = out;
  using Kind = package::Inst::Kind;
  package::Phase& phase = program.phases[0];
  phase.insts.assign(4, {});
  phase.insts[0].kind = phase.insts[1].kind = Kind::Accumulator;
  phase.insts[1].index = 1;
  phase.insts[2].kind = Kind::Load, phase.insts[2].index = 2;
  phase.insts[3].kind = Kind::Op, phase.insts[3].op = types::Op::mul, phase.insts[3].arity = 2;
  phase.insts[3].in[0] = 0, phase.insts[3].in[1] = 2;
  phase.stores = {{0, 3}, {1, 1}};
  return program;
}

GemmShape shape_of_heads(int64_t m, int64_t n, int64_t k) {
  GemmShape shape = test::gpu_shape(m, n, k, DType::bf16);
  shape.b_k_stride = 1, shape.b_col_stride = k;
  return shape;
}
std::vector<GpuGemmConfig> of_sm90(const package::EpilogueProgram& program, const GemmShape& shape) {
  return plan::sm90_configurations({program, shape, plan::gpu_facts("sm_90a")});
}
int64_t copied_of(const package::EpilogueProgram& program, const GemmShape& shape) {
  const auto all = of_sm90(program, shape);
  return std::count_if(all.begin(), all.end(), [](const GpuGemmConfig& c) { return c.copied; });
}

TEST(ColumnRuns, OfIndexedOperands) {
  EXPECT_EQ(plan::column_runs(half_of_heads(64, false)), (ColumnRuns{64, 128}));
  EXPECT_EQ(plan::column_runs(half_of_heads(48, true)), (ColumnRuns{48, 96}));
  EXPECT_EQ(plan::column_runs(angles(64)), (ColumnRuns{64, 0}));
  const auto none = [](auto change) {
    Operand o = half_of_heads(64, false);
    change(o);
    return !plan::column_runs(o);
  };
  EXPECT_FALSE(none([](Operand&) {}));
  EXPECT_TRUE(none([](Operand& o) { o.access = Access::Full; }));
  EXPECT_TRUE(none([](Operand& o) { o.gathered = {1}; }));
  EXPECT_TRUE(none([](Operand& o) { o.terms.resize(1); }));
  EXPECT_TRUE(none([](Operand& o) { std::swap(o.terms[0], o.terms[1]); }));
  EXPECT_TRUE(none([](Operand& o) { o.terms[0].div = 16; }));
  EXPECT_TRUE(none([](Operand& o) { o.terms[1].dim = 1; }));
  EXPECT_TRUE(none([](Operand& o) { o.terms[2].dim = 1; })) << "heads lie in a dim of their own";
  EXPECT_TRUE(none([](Operand& o) { o.terms[1].scale = Dim::constant(2); }));
  EXPECT_TRUE(none([](Operand& o) { o.terms[2].scale = Dim::symbol("n"); }));
  EXPECT_TRUE(none([](Operand& o) { o.terms[2].scale = Dim::constant(32); })) << "runs that overlap";
  EXPECT_TRUE(none([](Operand& o) { o.terms[2].div = 32; }));
  EXPECT_TRUE(none([](Operand& o) { o.terms[1].mod = 0; }));
  EXPECT_TRUE(none([](Operand& o) { o.terms.insert(o.terms.begin(), {Axis::Batch, 1, 0, 2, Dim::constant(1)}); }));
}

TEST(CudaDiscovery, HalvesOfHeadsByTheCopyEngine) {
  const GemmShape shape = shape_of_heads(4096, 6144, 4096);
  const package::EpilogueProgram program = rotary(64);
  const auto copies = plan::copies_of(program);
  ASSERT_TRUE(copies);
  EXPECT_EQ(copies->stores, (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(copies->loads.empty()) << "a table stays in the caches";
  EXPECT_EQ(plan::tables_of(program), std::vector<uint32_t>{2});
  EXPECT_EQ(plan::run_of_copies(program), 64);
  EXPECT_GT(copied_of(program, shape), 0);
  // A box of B has columns of one chunk, so that a tile may have several heads, and parts of one.
  bool wide = false, part = false;
  for (const GpuGemmConfig& c : of_sm90(program, shape)) {
    const plan::Sm90Shape s = plan::sm90_shape(program, c);
    EXPECT_EQ(64 % s.b_box_rows, 0) << c.tile_n;
    EXPECT_EQ(s.b_box_rows * s.b_boxes, c.tile_n);
    EXPECT_EQ(c.tile_n / 2 % plan::columns_side_by_side(program, c), 0);
    if (!c.copied) continue;
    EXPECT_LE(s.accumulators, 128);
    wide = wide || c.tile_n == 256;
    part = part || c.tile_n == 192;
    EXPECT_EQ(c.tile_n / 2 % c.piece_cols, 0) << "pieces lie within runs";
    EXPECT_EQ(64 % c.piece_cols, 0);
  }
  EXPECT_TRUE(wide && part);
  // Pieces have 32 columns where runs have no more, and lie in none of 48 or 16.
  for (const GpuGemmConfig& c : of_sm90(rotary(32), shape)) EXPECT_TRUE(!c.copied || c.piece_cols == 32);
  EXPECT_GT(copied_of(rotary(32), shape), 0);
  EXPECT_EQ(copied_of(rotary(48), shape), 0);
  EXPECT_EQ(copied_of(rotary(16), shape), 0);
  EXPECT_GT(copied_of(rotary(64, DType::f32), shape), 0);
  GemmShape somewhere = shape;
  somewhere.epilogue_alignment = 8;
  EXPECT_EQ(copied_of(program, somewhere), 0);
  // Halves that begin inside of 16 bytes, and a table that is as large as the product.
  package::EpilogueProgram other = program;
  other.operands[1].offsets[0].second = Dim::constant(4);
  EXPECT_EQ(copied_of(other, shape), 0);
  other = program;
  other.operands[0].terms[2].scale = Dim::constant(192);
  EXPECT_EQ(copied_of(other, shape), 0) << "a matrix of more columns than B";
  other = program;
  other.operands[2].terms.push_back({Axis::Col, 64, 0, 0, Dim::constant(64)});
  EXPECT_EQ(copied_of(other, shape), 0);
}

// Columns are reduced beside copies: of 4 bytes, one value each, two reductions at most, and no exponents by rows.
TEST(ColumnSums, BesideCopies) {
  using package::ReduceAxis;
  using package::ReduceKind;
  const GemmShape shape = test::gpu_shape(4096, 4096, 1024, DType::bf16);
  const auto of = [](ReduceKind kind, ReduceAxis axis, DType type = DType::f32) {
    return package::Reduction{kind, axis, false, 1, type, 0, 0};
  };
  const auto with = [](const std::vector<package::Reduction>& reductions) {
    package::EpilogueProgram program = test::plain_store(DType::f32, DType::bf16);
    program.reductions = reductions;
    return program;
  };
  const package::Reduction sum = of(ReduceKind::Sum, ReduceAxis::Column),
                           largest = of(ReduceKind::Max, ReduceAxis::Column),
                           of_row = of(ReduceKind::Sum, ReduceAxis::Row);
  for (const auto& some : {std::vector{sum}, std::vector{sum, largest}, std::vector{of_row, sum}}) {
    const package::EpilogueProgram program = with(some);
    const auto sums =
        std::count_if(some.begin(), some.end(), [](const auto& r) { return r.axis == ReduceAxis::Column; });
    EXPECT_GT(copied_of(program, shape), 0);
    for (const GpuGemmConfig& c : of_sm90(program, shape)) {
      if (!c.copied) continue;
      const plan::Sm90Shape sizes = plan::sm90_shape(program, c);
      EXPECT_EQ(sizes.scratch_bytes, 2 * 4 * 4 * c.tile_n * sums) << "f32 of two bands of four warps";
      EXPECT_TRUE(c.shared_bytes == sizes.shared_bytes && c.shared_bytes <= plan::sm90_shared_limit);
      EXPECT_EQ(c.tile_n % c.piece_cols, 0);
    }
  }
  EXPECT_EQ(copied_of(with({sum, largest, sum}), shape), 0);
  EXPECT_EQ(copied_of(with({of(ReduceKind::Sum, ReduceAxis::Column, DType::f64)}), shape), 0);
  EXPECT_EQ(copied_of(with({of(ReduceKind::LogSumExp, ReduceAxis::Column)}), shape), 0);
  EXPECT_EQ(copied_of(with({sum, of(ReduceKind::SumExp, ReduceAxis::Row)}), shape), 0);
  EXPECT_EQ(copied_of(with({of(ReduceKind::Sum, ReduceAxis::All)}), shape), 0);
}

// Parts of a split that begin inside 16 bytes of B's rows: B is packed along K, and the families that feed on the copy
// engine have kernels as of other parts.
TEST(CopyEngine, PartsOfASplitBeginAnywhere) {
  package::EpilogueProgram program = test::plain_store(DType::f32, DType::bf16);
  program.split.ways = 2;
  for (const char* arch : {"sm_90a", "sm_100a"}) {
    const plan::GpuFacts gpu = plan::gpu_facts(arch);
    for (const auto& [chunk, ld] : {std::pair{257, 514}, {257, 520}, {260, 520}, {264, 528}, {3, 8}}) {
      plan::GemmShape shape = test::gpu_shape(515, 2 * chunk, 520, DType::bf16);
      shape.b_k_stride = ld;
      program.split.chunk = types::Dim::constant(chunk);
      const plan::GpuProblem problem{program, shape, gpu};
      const bool hopper = gpu.arch == "sm_90a";
      EXPECT_FALSE(hopper ? plan::refuse_sm90(problem) : plan::refuse_sm100(problem)) << arch << " " << chunk;
      const auto configurations = hopper ? plan::sm90_configurations(problem) : plan::sm100_configurations(problem);
      for (const package::GpuGemmConfig& c : configurations) {
        EXPECT_EQ(c.b_k_major, chunk % 8 != 0) << arch << " " << chunk;
        EXPECT_EQ(c.pack_b, chunk % 8 != 0) << arch << " " << chunk << " " << ld;
      }
      // Where B lies along K parts begin with rows of it.
      std::swap(shape.b_k_stride, shape.b_col_stride);
      shape.b_col_stride = 520;
      for (const package::GpuGemmConfig& c : hopper ? plan::sm90_configurations({program, shape, gpu})
                                                    : plan::sm100_configurations({program, shape, gpu}))
        EXPECT_TRUE(c.b_k_major && !c.pack_b) << arch << " " << chunk;
    }
    // Of parts that are products of their own a chunk says nothing: each B begins where it begins.
    if (gpu.arch != "sm_90a") continue;
    package::EpilogueProgram two = program;
    two.split.products = 2;
    two.split.chunk = types::Dim::constant(1);
    plan::GemmShape shape = test::gpu_shape(512, 2 * 14336, 4096, DType::bf16);
    shape.products = 2;
    shape.b_k_stride = 14336;
    const auto configurations = plan::sm90_configurations({two, shape, gpu});
    EXPECT_FALSE(configurations.empty());
    for (const package::GpuGemmConfig& c : configurations) EXPECT_FALSE(c.b_k_major || c.pack_b);
  }
}

}  // namespace
