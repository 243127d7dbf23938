// SPDX-License-Identifier: Apache-2.0
// The fully fused form: products of every kernel with an epilogue in registers, at sizes with row, column and k tails.
#include <gtest/gtest.h>

#include <random>

#include "device/cpu/abi.h"
#include "loaded_source.hpp"
#include "program_maker.hpp"
#include "tile_runner.hpp"
#include "types/convert.hpp"

namespace codetta::emit {
namespace {

using package::Access;
using types::Op;
using types::Scalar;

struct Operands {
  DType a, b;
};

// D = relu(accum * s[col] + r[row]) and F = accum, with both compared exactly: all values are small integers.
void check(Operands types_of, CpuIsa isa, const TestCompiler& compiler, int64_t rows, int64_t cols, int64_t k) {
  const DType accumulator = types::is_float(types_of.a) ? f32 : i32;
  ProgramMaker m(accumulator);
  const uint32_t acc = m.accum();
  const uint32_t real = accumulator == f32 ? acc : m.cast(acc, f32);
  const uint32_t scaled = m.op(Op::multiply_add, f32, {real, m.load(f32, Access::Row), m.load(f32, Access::Column)});
  m.store(m.op(Op::relu, f32, {scaled}), f32);
  m.store(acc, accumulator);
  m.store(m.load(f32, Access::Column), f32, Access::Column);
  ASSERT_EQ(plan::fused_obstacle(m.program, isa, types_of.a, types_of.b), "");
  const auto source = emit_cpu_fused(m.program, types_of.a, types_of.b, {isa, false, true});
  ASSERT_TRUE(source.has_value()) << source.error().render();
  const LoadedSource loaded(*source, compiler);
  const auto function = reinterpret_cast<cpu::FusedFunction>(loaded.symbol(source->entry));
  ASSERT_NE(function, nullptr) << loaded.log();
  EXPECT_EQ(loaded.log(), "");

  std::mt19937_64 random(7);
  const int64_t a_size = types::byte_size(types_of.a), b_size = types::byte_size(types_of.b);
  const int64_t group = source->block.group, nr = source->block.nr, groups = (k + group - 1) / group,
                panels = (cols + nr - 1) / nr;
  GuardedBytes a(static_cast<size_t>(rows * k * a_size));
  std::vector<std::byte> b(static_cast<size_t>(std::max<int64_t>(1, panels * groups * nr * group) * b_size));
  std::vector<std::vector<int64_t>> av(static_cast<size_t>(rows)), bv(static_cast<size_t>(k));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) {
      av[static_cast<size_t>(r)].push_back(static_cast<int64_t>(random() % 8) -
                                           (types::is_unsigned(types_of.a) ? 0 : 4));
      Scalar::from_i64(av[static_cast<size_t>(r)].back(), types_of.a).store(a.data() + (r * k + i) * a_size);
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t c = 0; c < cols; ++c) {
      bv[static_cast<size_t>(i)].push_back(static_cast<int64_t>(random() % 8) - 4);
      const int64_t at = ((c / nr * groups + i / group) * nr + c % nr) * group + i % group;
      Scalar::from_i64(bv[static_cast<size_t>(i)].back(), types_of.b).store(b.data() + at * b_size);
    }
  }
  std::vector<float> scale, shift;
  for (int64_t c = 0; c < cols; ++c) scale.push_back(static_cast<float>(static_cast<int>(random() % 5) - 2));
  for (int64_t r = 0; r < rows; ++r) shift.push_back(static_cast<float>(random() % 100));
  GuardedBytes d(static_cast<size_t>(rows * cols) * 4), f(static_cast<size_t>(rows * cols) * 4),
      column(static_cast<size_t>(rows) * 4);
  const std::vector<cpu::Operand> operands{{scale.data(), {0, 0, 1}}, {shift.data(), {0, 1, 0}},
                                           {d.data(), {0, cols, 1}},  {f.data(), {0, cols, 1}},
                                           {shift.data(), {0, 1, 0}}, {column.data(), {0, 1, 0}}};
  cpu::EpilogueArgs args{};
  args.operands = operands.data();
  args.batches = args.tile_rows = args.tile_cols = 1;
  args.rows = rows;
  args.cols = cols;
  cpu::FusedArgs task{};
  task.args = &args;
  task.tile.rows = rows;
  task.tile.cols = cols;
  task.a = a.data();
  task.a_row_stride = k;
  task.b = b.data();
  task.b_panel_stride = groups * nr * group;
  task.k = k;
  function(&task);
  for (int64_t r = 0; r < rows; ++r) {
    ASSERT_EQ(reinterpret_cast<const float*>(column.data())[r], shift[static_cast<size_t>(r)]);
    for (int64_t c = 0; c < cols; ++c) {
      int64_t sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += av[static_cast<size_t>(r)][static_cast<size_t>(i)] * bv[static_cast<size_t>(i)][static_cast<size_t>(c)];
      const float expected =
          std::max(0.0f, static_cast<float>(sum) * scale[static_cast<size_t>(c)] + shift[static_cast<size_t>(r)]);
      ASSERT_EQ(reinterpret_cast<const float*>(d.data())[r * cols + c], expected) << r << ' ' << c;
      ASSERT_EQ(Scalar::load(f.data() + (r * cols + c) * 4, accumulator).as_i64(), sum) << r << ' ' << c;
    }
  }
}

TEST(Fused, ProductsWithTails) {
  bool ran = false;
  for (const Operands operands : {Operands{f32, f32}, Operands{bf16, bf16}, Operands{u8, i8}}) {
    for (const CpuIsa isa : {CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512_vnni, CpuIsa::avx512_bf16}) {
      if (!cpu_supports(isa) || !plan::fused_obstacle(ProgramMaker(types::is_float(operands.a) ? f32 : i32).program,
                                                      isa, operands.a, operands.b)
                                     .empty())
        continue;
      for (const TestCompiler& compiler : test_compilers(isa)) {
        SCOPED_TRACE(std::string(isa_name(isa)) + " " + std::string(dtype_name(operands.a)) + " " + compiler.path);
        check(operands, isa, compiler, 13, 70, 37);
        check(operands, isa, compiler, 1, 1, 1);
        check(operands, isa, compiler, 6, 128, 0);
        ran = true;
      }
    }
  }
  if (!ran) GTEST_SKIP() << "this machine has neither AVX2 nor AVX-512";
}

TEST(Fused, ObstaclesAreNamed) {
  ProgramMaker plain;
  plain.store(plain.accum(), f32);
  EXPECT_EQ(plan::fused_obstacle(plain.program, CpuIsa::generic, f32, f32),
            "no fused micro-kernel multiplies f32 by f32 on generic");
  EXPECT_EQ(plan::fused_obstacle(plain.program, CpuIsa::avx2, u8, i8),
            "no fused micro-kernel multiplies u8 by i8 on avx2");
  EXPECT_EQ(plan::fused_obstacle(plain.program, CpuIsa::avx512_vnni, u8, i8), "the fused form accumulates in i32");
  ProgramMaker reduced;
  reduced.reduce(package::ReduceKind::Sum, package::ReduceAxis::Row, reduced.accum());
  EXPECT_EQ(plan::fused_obstacle(reduced.program, CpuIsa::avx2, f32, f32),
            "the epilogue has 1 reductions and the fused form has none");
  EXPECT_FALSE(emit_cpu_fused(reduced.program, f32, f32, {CpuIsa::avx2}).has_value());
  ProgramMaker wide;
  wide.store(wide.cast(wide.accum(), f64), f64);
  EXPECT_EQ(plan::fused_obstacle(wide.program, CpuIsa::avx2, f32, f32), "the epilogue computes with 64-bit values");
}

}  // namespace
}  // namespace codetta::emit
