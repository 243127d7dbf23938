// SPDX-License-Identifier: Apache-2.0
// Matrix products, reductions, layout, sampling and the verdict.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "oracle/exactness.hpp"
#include "support.hpp"
#include "support/sanitizers.hpp"

namespace codetta::oracle::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// relu(A @ B + row) as a kernel would compute it, one fused multiply-add a product, from the last k to the first.
void run_kernel(Data& a, Data& b, Data& row, Data& out) {
  const auto m = static_cast<size_t>(a.shape[0]), k = static_cast<size_t>(a.shape[1]),
             n = static_cast<size_t>(b.shape[1]);
  std::vector<float> fa, fb;
  for (size_t i = 0; i < a.count(); ++i) fa.push_back(static_cast<float>(a.get(i)));
  for (size_t i = 0; i < b.count(); ++i) fb.push_back(static_cast<float>(b.get(i)));
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t p = k; p-- > 0;) sum = std::fma(fa[i * k + p], fb[p * n + j], sum);
      out.set(i * n + j, static_cast<double>(std::max(sum + static_cast<float>(row.get(j)), 0.0f)));
    }
  }
}

struct Gemm {
  Data a, b, row, out;
  Gemm(DType dtype, int64_t m, int64_t n, int64_t k)
      : a(dtype, {m, k}), b(dtype, {k, n}), row(DType::f32, {n}), out(dtype, {m, n}) {
    a.fill_normal(1);
    b.fill_normal(2);
    row.fill_normal(3);
  }
  OracleResult expected(const OracleOptions& options = {}) {
    Maker maker({&a, &b, &row});
    const ir::NodeId product = maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32});
    maker.output(maker.add(Op::relu, {maker.add(Op::add, {product, maker.input(2)})}), out.dtype);
    return maker.evaluate(options);
  }
  CheckReport check(const OracleResult& result) {
    const TensorView views[] = {out.view()};
    Result<CheckReport> report = oracle::check(views, result);
    EXPECT_TRUE(report) << report.error().render();
    return *report;
  }
};

TEST(Products, RightResultsPassAndWrongOnesFail) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Gemm gemm(dtype, 37, 29, 83);
    run_kernel(gemm.a, gemm.b, gemm.row, gemm.out);
    const OracleResult expected = gemm.expected();
    CheckReport report = gemm.check(expected);
    EXPECT_EQ(report.verdict, Verdict::Pass) << report.outputs[0].worst_text;
    EXPECT_EQ(report.outputs[0].elements, 37 * 29);
    EXPECT_LE(report.outputs[0].max_ratio, 1);
    size_t at = 500;
    while (gemm.out.get(at) == 0) ++at;
    gemm.out.set(at, gemm.out.get(at) * 1.02);
    report = gemm.check(expected);
    EXPECT_EQ(report.verdict, Verdict::Fail);
    EXPECT_EQ(report.outputs[0].wrong, 1);
    EXPECT_EQ(report.outputs[0].worst, static_cast<int64_t>(at));
    EXPECT_NE(report.outputs[0].worst_text.find("expected"), std::string::npos);
    gemm.out.set(at, std::nan(""));
    EXPECT_EQ(gemm.check(expected).verdict, Verdict::Fail);
  }
}

TEST(Products, SmallIntegersAreBitExact) {
  Gemm gemm(DType::f32, 20, 20, 64);
  gemm.a.fill_integers(4, -8, 8);
  gemm.b.fill_integers(5, -8, 8);
  for (size_t i = 0; i < gemm.a.count(); ++i) gemm.a.set(i, gemm.a.get(i) / 16);
  gemm.row.fill_integers(6, -8, 8);
  const OracleResult expected = gemm.expected();
  for (const ExpectedElement& e : expected.outputs[0].elements) ASSERT_EQ(e.low, e.high);
  run_kernel(gemm.a, gemm.b, gemm.row, gemm.out);
  EXPECT_EQ(gemm.check(expected).verdict, Verdict::Pass);
  size_t at = 0;
  while (gemm.out.get(at) == 0) ++at;
  gemm.out.set(at, std::nextafter(static_cast<float>(gemm.out.get(at)), 1e9f));
  EXPECT_EQ(gemm.check(expected).verdict, Verdict::Fail);
}

// Factors cut to the ten bits of fraction that TF32 has: right where the options say so, and only there.
TEST(Products, RoundedFactors) {
  Gemm gemm(DType::f32, 37, 29, 83);
  Data a = gemm.a, b = gemm.b;
  for (Data* factor : {&a, &b}) {
    for (size_t i = 0; i < factor->count(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, factor->at(i), 4);
      bits &= 0xffffe000u;
      std::memcpy(factor->at(i), &bits, 4);
    }
  }
  run_kernel(a, b, gemm.row, gemm.out);
  EXPECT_EQ(gemm.check(gemm.expected()).verdict, Verdict::Fail);
  OracleOptions options;
  options.factor_rounding = 0x1p-10;
  EXPECT_EQ(gemm.check(gemm.expected(options)).verdict, Verdict::Pass);
  options.factor_rounding = 0x1p-14;
  EXPECT_EQ(gemm.check(gemm.expected(options)).verdict, Verdict::Fail);
  // Other dtypes are multiplied as they are.
  Gemm half(DType::bf16, 20, 20, 64);
  const OracleResult strict = half.expected(), loose = half.expected(options);
  for (size_t i = 0; i < strict.outputs[0].elements.size(); ++i)
    ASSERT_EQ(strict.outputs[0].elements[i].bound, loose.outputs[0].elements[i].bound);
}

// How wide what may be stored of a row times a column is.
double width_of(Data a, Data b, const OracleOptions& options) {
  Maker maker({&a, &b});
  maker.output(maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32}), DType::f32);
  const ExpectedElement e = maker.evaluate(options).outputs[0].elements[0];
  return e.high - e.low;
}

// Of factors below 2^-115 a second TF32 keeps less than the 11 bits that the first one lacks, and below 2^-136 nothing:
// an H100 gave 3.78e-39 for 4.1159e-39, a sum of 32 products of a subnormal factor.
TEST(Products, RoundedFactorsThatAreSmall) {
  OracleOptions options;
  options.factor_rounding = 0x1p-21;
  const double off = 4.1159e-39 - 3.78e-39;
  const Data ones(DType::f32, {1, 32}, std::vector<double>(32, 0.75)),
      small(DType::f32, {32, 1}, std::vector<double>(32, 1.7e-40));
  EXPECT_LT(width_of(ones, small, {}), off);
  EXPECT_GT(width_of(ones, small, options), off);
  const Data larger(DType::f32, {32, 1}, std::vector<double>(32, 1.7e-30));
  EXPECT_LT(width_of(ones, larger, options), 1e-5 * 1.7e-30 * 32);
}

// What a mode permits of 8-bit floats, or of f32, says nothing of other factors.
TEST(Products, OtherFactorsLoseNothing) {
  OracleOptions options;
  options.product_rounding = 0x1p-13;
  options.factor_rounding = 0x1p-10;
  const std::vector<double> values{1, 1.125, 16};
  const auto width = [&](DType a, DType b) { return width_of({a, {1, 3}, values}, {b, {3, 1}, values}, options); };
  EXPECT_EQ(width(DType::bf16, DType::bf16), 0);
  EXPECT_EQ(width(DType::f16, DType::f8e4m3), 0);
  EXPECT_GT(width(DType::f32, DType::f32), 0);
  EXPECT_GT(width(DType::f8e4m3, DType::f8e4m3), 258 * 0x1p-13);
}

// 8-bit floats whose sums keep 13 bits: exact where these hold every product, and only there.
TEST(Products, SumsOfFewerBits) {
  const auto width = [](const std::vector<double>& values, double rounding, int64_t run = 0) {
    const auto count = static_cast<int64_t>(values.size());
    OracleOptions options;
    options.product_rounding = rounding;
    options.product_run = run;
    return width_of({DType::f8e4m3, {1, count}, values}, {DType::f8e4m3, {count, 1}, values}, options);
  };
  EXPECT_EQ(width({1, 1.125, 16}, 0), 0) << "258.265625 is an f32";
  EXPECT_GT(width({1, 1.125, 16}, 0x1p-13), 258 * 0x1p-13);
  EXPECT_EQ(width({1, 3, 16}, 0x1p-13), 0);
  // Runs of 128 that are added in f32 cost what one of them does, and no more than all together.
  const std::vector<double> many(512, 1.125);
  const double all = width(many, 0x1p-13), runs = width(many, 0x1p-13, 128), sum = 512 * 1.125 * 1.125;
  EXPECT_NEAR(runs, 2 * 0x1p-6 * sum, 0.01 * sum);
  EXPECT_NEAR(all, 4 * runs, 0.01 * sum);
  EXPECT_EQ(width({1, 1.125, 16}, 0x1p-13, 128), width({1, 1.125, 16}, 0x1p-13));
  EXPECT_EQ(width({1, 3, 16}, 0x1p-13, 128), 0);
}

TEST(Products, BoundGrowsWithRoundingsAndFlushing) {
  const Data a(DType::bf16, {1, 4}, {0x1p-130, 1, 1, 1}), b(DType::bf16, {4, 1}, {1, 1.0 / 3, 2.0 / 3, 0.1});
  const auto width = [&](CpuIsa isa) {
    OracleOptions options;
    options.isa = isa;
    return width_of(a, b, options);
  };
  EXPECT_GT(width(CpuIsa::generic), width(CpuIsa::avx2));
  EXPECT_GT(width(CpuIsa::amx), width(CpuIsa::avx2));
}

// A subnormal factor of infinity is 0 times infinity for an instruction that flushes.
TEST(Products, FlushedFactorsOfInfinity) {
  Data a(DType::bf16, {1, 2}, {0x1p-130, 1}), b(DType::bf16, {2, 1}, {inf, 1});
  for (const auto& [isa, flushes] :
       {std::pair{CpuIsa::avx2, false}, {CpuIsa::avx512_bf16, true}, {CpuIsa::amx, true}}) {
    Maker maker({&a, &b});
    maker.output(maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32}), DType::f32);
    OracleOptions options;
    options.isa = isa;
    const ExpectedElement e = maker.evaluate(options).outputs[0].elements[0];
    EXPECT_TRUE(holds(e, inf));
    EXPECT_EQ(holds(e, std::numeric_limits<double>::quiet_NaN()), flushes);
    EXPECT_FALSE(holds(e, 1e30));
  }
}

// What can be NaN alone makes its line NaN, however little is known of the others, and no other line.
TEST(Products, OneNaNMakesALineOfThem) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool of_a : {true, false}) {
    for (const bool points : {true, false}) {
      Data a(DType::f32, {2, 3}, {of_a ? nan : 1.0, 2, 3, 0.5, 0.7, -1}), b(DType::f32, {3, 2}, {1, 2, 3, 4, 5, 6});
      if (!of_a) b.set(2, nan);
      Maker maker({&a, &b});
      ir::NodeId factors[] = {maker.input(0), maker.input(1)};
      if (!points) {
        for (ir::NodeId& factor : factors) factor = maker.add(Op::exp, {factor});
      }
      maker.output(maker.add(Op::matmul, {factors[0], factors[1]}, ir::MatmulAttr{DType::f32}), DType::f32);
      const std::vector<ExpectedElement> e = maker.evaluate().outputs[0].elements;
      for (size_t i = 0; i < e.size(); ++i) {
        const bool is_nan = of_a ? i < 2 : i % 2 == 0;
        EXPECT_EQ(std::isnan(e[i].low) && std::isnan(e[i].high), is_nan) << i;
        EXPECT_EQ(e[i].may_be_nan, is_nan) << i;
        EXPECT_FALSE(e[i].ambiguous) << i;
      }
    }
  }
}

// Partial sums that overflow against an infinity that follows are NaN; without them the infinity is certain.
TEST(Products, OverflowAgainstAnInfinity) {
  for (const double large : {3e38, 3.0}) {
    Data a(DType::f32, {1, 3}, {large, large, -inf}), b(DType::f32, {3, 1}, {1, 1, 1});
    Maker maker({&a, &b});
    maker.output(maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32}), DType::f32);
    maker.output(maker.add(Op::reduce_sum, {maker.input(0)}, ir::ReduceAttr{ir::ReduceAxis::Row, {}}), DType::f32);
    const OracleResult result = maker.evaluate();
    for (const ExpectedOutput& output : result.outputs) {
      EXPECT_TRUE(holds(output.elements[0], -inf));
      EXPECT_EQ(holds(output.elements[0], std::numeric_limits<double>::quiet_NaN()), large > 1e38);
      EXPECT_FALSE(holds(output.elements[0], inf));
    }
  }
}

TEST(Products, IntegerProductsWrap) {
  Data a(DType::u8, {1, 3}, {255, 255, 255}), b(DType::i8, {3, 1}, {-128, -128, 127});
  Maker maker({&a, &b});
  maker.output(maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::i32}), DType::i32);
  EXPECT_EQ(maker.evaluate().outputs[0].elements[0].exact_low, 255 * (-128 - 128 + 127));
}

TEST(Products, InfinitiesAndEmptySums) {
  Data a(DType::f32, {2, 2}, {inf, 1, inf, 1}), b(DType::f32, {2, 1}, {1, 2});
  Maker maker({&a, &b});
  maker.output(maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32}), DType::f32);
  EXPECT_EQ(maker.evaluate().outputs[0].elements[0].low, inf);
  b.set(0, 0);
  Maker second({&a, &b});
  second.output(second.add(Op::matmul, {second.input(0), second.input(1)}, ir::MatmulAttr{DType::f32}), DType::f32);
  const OracleResult result = second.evaluate();
  EXPECT_NE(result.outputs[0].elements[0].low, result.outputs[0].elements[0].low);
  Data none(DType::f32, {2, 0}), of(DType::f32, {0, 3});
  Maker third({&none, &of});
  third.output(third.add(Op::matmul, {third.input(0), third.input(1)}, ir::MatmulAttr{DType::f32}), DType::f32);
  const OracleResult zeros = third.evaluate();
  ASSERT_EQ(zeros.outputs[0].elements.size(), 6u);
  for (const ExpectedElement& e : zeros.outputs[0].elements) EXPECT_EQ(e.low, e.high);
}

TEST(Products, F64HasItsOwnBound) {
  Data a(DType::f64, {3, 200}), b(DType::f64, {200, 3});
  a.fill_normal(1);
  b.fill_normal(2);
  Maker maker({&a, &b});
  maker.output(maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f64}), DType::f64);
  const OracleResult result = maker.evaluate();
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t p = 0; p < 200; ++p) sum += a.get(i * 200 + p) * b.get(p * 3 + j);
      const ExpectedElement& e = result.outputs[0].elements[i * 3 + j];
      EXPECT_TRUE(holds(e, sum));
      EXPECT_LT(e.high - e.low, 2e-11);
      EXPECT_FALSE(holds(e, sum + 2e-11));
    }
  }
}

TEST(Reductions, SumsHoldEveryOrder) {
  Data x(DType::f32, {5, 1000});
  x.fill_normal(9);
  for (const Op op : {Op::reduce_sum, Op::reduce_mean, Op::reduce_sum_of_squares, Op::reduce_logsumexp, Op::reduce_max,
                      Op::reduce_amax}) {
    const auto e = apply(op, {&x}, DType::f32, ir::ReduceAttr{ir::ReduceAxis::Row, {}});
    ASSERT_EQ(e.size(), 5u);
    for (size_t row = 0; row < 5; ++row) {
      for (const bool backward : {false, true}) {
        float sum = 0, most = -INFINITY;
        for (size_t i = 0; i < 1000; ++i)
          most = std::max(most, static_cast<float>(op == Op::reduce_amax ? std::abs(x.get(row * 1000 + i))
                                                                         : x.get(row * 1000 + i)));
        for (size_t i = 0; i < 1000; ++i) {
          const auto v = static_cast<float>(x.get(row * 1000 + (backward ? 999 - i : i)));
          sum += op == Op::reduce_sum_of_squares ? v * v : op == Op::reduce_logsumexp ? std::exp(v - most) : v;
        }
        const float value = op == Op::reduce_mean                           ? sum / 1000
                            : op == Op::reduce_logsumexp                    ? most + std::log(sum)
                            : op == Op::reduce_max || op == Op::reduce_amax ? most
                                                                            : sum;
        EXPECT_TRUE(holds(e[row], static_cast<double>(value))) << types::op_info(op).name;
        EXPECT_LT(e[row].high - e[row].low, 0.3) << types::op_info(op).name;
        EXPECT_FALSE(holds(e[row], static_cast<double>(value) + 0.6));
      }
    }
  }
}

// Terms of one sign can only overflow to the infinity of that sign; of both signs to anything. What may be infinite
// with either sign may be NaN.
TEST(Reductions, OverflowOfOneSignIsCertain) {
  const double large = static_cast<double>(3e38F);
  for (const double sign : {1.0, -1.0}) {
    Data x(DType::f32, {1, 3}, {sign * large, sign * large, sign}), mixed(DType::f32, {1, 3}, {large, -large, sign});
    for (const Op op : {Op::reduce_sum, Op::reduce_mean, Op::reduce_sum_of_squares}) {
      const auto e = apply(op, {&x}, DType::f32, ir::ReduceAttr{ir::ReduceAxis::Row, {}})[0];
      EXPECT_EQ(e.low, op == Op::reduce_sum_of_squares ? inf : sign * inf);
      EXPECT_EQ(e.low, e.high);
      EXPECT_FALSE(e.ambiguous || e.may_be_nan);
    }
    EXPECT_TRUE(apply(Op::reduce_sum, {&mixed}, DType::f32, ir::ReduceAttr{ir::ReduceAxis::Row, {}})[0].may_be_nan);
  }
  // A product that is contracted stays finite: large or infinite, of both signs.
  Data x(DType::f32, {1, 2}, {large, -large});
  Maker maker({&x});
  const ir::NodeId product = maker.add(Op::mul, {maker.input(0), maker.number(1e10)});
  maker.output(maker.add(Op::reduce_sum, {product}, ir::ReduceAttr{ir::ReduceAxis::Row, {}}), DType::f32);
  EXPECT_TRUE(maker.evaluate().outputs[0].elements[0].may_be_nan);
}

TEST(Reductions, OverNothing) {
  Data x(DType::f32, {2, 0});
  const auto of = [&](Op op) { return apply(op, {&x}, DType::f32, ir::ReduceAttr{ir::ReduceAxis::Row, {}})[0]; };
  EXPECT_EQ(of(Op::reduce_sum).low, 0);
  EXPECT_EQ(of(Op::reduce_max).high, -inf);
  EXPECT_EQ(of(Op::reduce_min).low, inf);
  EXPECT_EQ(of(Op::reduce_amax).high, 0);
  EXPECT_TRUE(std::isnan(of(Op::reduce_mean).low));
  EXPECT_EQ(of(Op::reduce_logsumexp).high, -inf);
  Data i(DType::i16, {2, 0});
  const auto integer = [&](Op op) {
    return apply(op, {&i}, DType::i16, ir::ReduceAttr{ir::ReduceAxis::Row, {}})[0].exact_low;
  };
  EXPECT_EQ(integer(Op::reduce_max), -32768);
  EXPECT_EQ(integer(Op::reduce_min), 32767);
  EXPECT_EQ(integer(Op::reduce_sum), 0);
}

TEST(Layout, MovesValues) {
  Data x(DType::i32, {2, 3, 4});
  for (size_t i = 0; i < 24; ++i) x.set(i, static_cast<double>(i));
  const auto permuted = apply(Op::permute, {&x}, DType::i32, ir::PermuteAttr{{2, 0, 1}});
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = 0; b < 2; ++b) {
      for (size_t c = 0; c < 3; ++c)
        EXPECT_EQ(permuted[(a * 2 + b) * 3 + c].exact_low, static_cast<int64_t>((b * 3 + c) * 4 + a));
    }
  }
  const auto part = apply(Op::split, {&x}, DType::i32, ir::SplitAttr{2, 1, 2});
  ASSERT_EQ(part.size(), 12u);
  EXPECT_EQ(part[0].exact_low, 2);
  EXPECT_EQ(part[3].exact_low, 7);
  Data y(DType::i32, {2, 3, 4});
  for (size_t i = 0; i < 24; ++i) y.set(i, 100 + static_cast<double>(i));
  const auto blocks = apply(Op::join, {&x, &y}, DType::i32, ir::JoinAttr{1, false});
  EXPECT_EQ(blocks[12].exact_low, 100);
  const auto woven = apply(Op::join, {&x, &y}, DType::i32, ir::JoinAttr{2, true});
  EXPECT_EQ(woven[1].exact_low, 100);
  EXPECT_EQ(woven[2].exact_low, 1);
}

TEST(Sampling, WholeRowsAndColumnsWithTheTails) {
  Gemm gemm(DType::f32, 200, 180, 70);
  run_kernel(gemm.a, gemm.b, gemm.row, gemm.out);
  const OracleResult full = gemm.expected();
  OracleOptions options;
  options.max_work = 1 << 23;
  const OracleResult sampled = gemm.expected(options);
  const ExpectedOutput& output = sampled.outputs[0];
  EXPECT_FALSE(output.whole);
  EXPECT_EQ(output.note, "96 of 180 columns, 96 of 200 rows");
  EXPECT_EQ(output.at.size(), output.elements.size());
  EXPECT_EQ(output.at.size(), 96u * 200 + 96 * 180 - 96 * 96);
  std::vector<int> seen(200 * 180);
  for (size_t i = 0; i < output.at.size(); ++i) {
    const auto at = static_cast<size_t>(output.at[i]);
    ++seen[at];
    ASSERT_EQ(output.elements[i].low, full.outputs[0].elements[at].low);
    ASSERT_EQ(output.elements[i].high, full.outputs[0].elements[at].high);
  }
  for (size_t i = 0; i < 180; ++i) {
    EXPECT_EQ(seen[i], 1);
    EXPECT_EQ(seen[199 * 180 + i], 1);
  }
  EXPECT_EQ(gemm.check(sampled).verdict, Verdict::Pass);
  gemm.out.set(199 * 180 + 179, 1e6);
  EXPECT_EQ(gemm.check(sampled).verdict, Verdict::Fail);
}

TEST(Sampling, ReductionsAreExact) {
  Data a(DType::f32, {300, 64}), b(DType::f32, {64, 256});
  a.fill_normal(1);
  b.fill_normal(2);
  const auto make = [&](const OracleOptions& options) {
    Maker maker({&a, &b});
    const ir::NodeId product = maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32});
    maker.output(maker.add(Op::reduce_sum, {product}, ir::ReduceAttr{ir::ReduceAxis::Row, {}}), DType::f32);
    maker.output(maker.add(Op::reduce_sum, {product}, ir::ReduceAttr{ir::ReduceAxis::Column, {}}), DType::f32);
    maker.output(maker.add(Op::reduce_sum, {product}, ir::ReduceAttr{ir::ReduceAxis::All, {}}), DType::f32);
    maker.output(maker.add(Op::dropout, {product, maker.number(0.5), maker.integer(7)}), DType::f32);
    return maker.evaluate(options);
  };
  const OracleResult full = make({});
  OracleOptions options;
  options.max_work = 1 << 23;
  const OracleResult sampled = make(options);
  for (size_t o = 0; o < 4; ++o) {
    const ExpectedOutput& output = sampled.outputs[o];
    if (o == 2) {  // a sum of everything can't be sampled
      EXPECT_TRUE(output.whole);
    } else {
      ASSERT_GE(output.elements.size(), 64u);
    }
    for (size_t i = 0; i < output.elements.size(); ++i) {
      const ExpectedElement& whole = full.outputs[o].elements[o == 2 ? i : static_cast<size_t>(output.at[i])];
      ASSERT_EQ(output.elements[i].low, whole.low) << o;
      ASSERT_EQ(output.elements[i].high, whole.high) << o;
    }
  }
  EXPECT_EQ(sampled.outputs[0].note, "96 of 300 rows");
  EXPECT_EQ(sampled.outputs[1].note, "96 of 256 columns");
}

TEST(Sampling, GoesThroughCopiesBetweenDevices) {
  Data a(DType::f32, {300, 64}), b(DType::f32, {64, 256});
  a.fill_normal(1);
  b.fill_normal(2);
  const auto make = [&](const OracleOptions& options) {
    Maker maker({&a, &b});
    const ir::NodeId product = maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32});
    const ir::NodeId there = maker.add(Op::to_device, {product}, ir::DeviceAttr{1});
    maker.output(maker.add(Op::relu, {there}), DType::f32);
    return maker.evaluate(options);
  };
  OracleOptions options;
  options.max_work = 1 << 23;
  const OracleResult full = make({}), sampled = make(options);
  const ExpectedOutput& output = sampled.outputs[0];
  EXPECT_FALSE(output.whole);
  ASSERT_GE(output.elements.size(), 64u);
  for (size_t i = 0; i < output.elements.size(); ++i) {
    const ExpectedElement& whole = full.outputs[0].elements[static_cast<size_t>(output.at[i])];
    ASSERT_EQ(output.elements[i].low, whole.low);
    ASSERT_EQ(output.elements[i].high, whole.high);
  }
}

#if !CODETTA_ALLOCATOR_IS_SANITIZED
TEST(Sampling, WhatMemoryDoesNotHoldIsAnError) {
  float one = 1;
  constexpr int64_t size = int64_t{1} << 50;  // cells for it lie beyond any address space
  ir::GraphBuilder builder;
  const ir::NodeId x[] = {builder.add_input("x", {DType::f32, false, dims({size})})};
  const auto y = builder.add(Op::relu, x);
  ASSERT_TRUE(y);
  builder.add_output("y", *y, DType::f32);
  const auto graph = std::move(builder).finish();
  ASSERT_TRUE(graph);
  const OracleInput inputs[] = {*TensorView::make(&one, DType::f32, {size}, {0})};
  OracleOptions options;
  options.max_work = INT64_MAX;
  const auto result = oracle::evaluate(*graph, inputs, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), 606);
}
#endif

TEST(Exactness, TheLowestBitIsThatOfTheBits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    uint64_t bits = random();
    if (i % 3 == 0) bits &= ~uint64_t{0} << (random() % 52);  // few digits
    if (i % 7 == 0) bits &= ~(uint64_t{0x7ff} << 52);         // subnormal
    const auto x = std::bit_cast<double>(bits);
    if (x == 0 || !std::isfinite(x)) continue;
    ASSERT_EQ(lowest_bit(x), lowest_bit<double>(x)) << x;
    ASSERT_EQ(lowest_bit(x), lowest_bit(static_cast<long double>(x))) << x;
  }
  EXPECT_EQ(lowest_bit(1.0), 0);
  EXPECT_EQ(lowest_bit(-12.0), 2);
  EXPECT_EQ(lowest_bit(0x1p-1074), -1074);
}

TEST(Verdict, AnOutputThatIsLeftOutIsNotTrusted) {
  Data a(DType::f32, {300, 64}), b(DType::f32, {64, 256}), rows(DType::f32, {300, 1}), all(DType::f32, {1, 1});
  a.fill_normal(1);
  b.fill_normal(2);
  Maker maker({&a, &b});
  const ir::NodeId product = maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32});
  maker.output(maker.add(Op::reduce_sum, {product}, ir::ReduceAttr{ir::ReduceAxis::Row, {}}), DType::f32);
  maker.output(maker.add(Op::reduce_sum, {product}, ir::ReduceAttr{ir::ReduceAxis::All, {}}), DType::f32);
  OracleOptions options;
  options.max_work = 1 << 18;  // too little for everything, even 32 times
  const OracleResult sampled = maker.evaluate(options);
  ASSERT_FALSE(sampled.outputs[0].left_out());
  EXPECT_TRUE(sampled.outputs[1].left_out());
  const std::string& note = sampled.outputs[1].note;
  EXPECT_TRUE(note.starts_with("left out: it depends on every element, which takes ")) << note;
  EXPECT_TRUE(note.ends_with(" are allowed") && note.find("of a value of") == std::string::npos) << note;
  for (size_t i = 0; i < sampled.outputs[0].at.size(); ++i)
    rows.set(static_cast<size_t>(sampled.outputs[0].at[i]), sampled.outputs[0].elements[i].value);
  const TensorView views[] = {rows.view(), all.view()};
  const Result<CheckReport> report = check(views, sampled);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->outputs[0].verdict, Verdict::Pass);
  EXPECT_EQ(report->outputs[1].verdict, Verdict::Mistrusted);
  EXPECT_EQ(report->verdict, Verdict::Mistrusted);
}

TEST(Verdict, MostlyAmbiguousOrZeroIsNotTrusted) {
  Data x(DType::f32, {100}, std::vector<double>(100, 2.0)), out(DType::f32, {100});
  Maker maker({&x});
  maker.output(maker.add(Op::floor, {maker.add(Op::log, {maker.add(Op::exp, {maker.input(0)})})}), DType::f32);
  const OracleResult unsure = maker.evaluate();
  for (size_t i = 0; i < 100; ++i) out.set(i, 2);
  const TensorView views[] = {out.view()};
  Result<CheckReport> report = check(views, unsure);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->verdict, Verdict::Mistrusted);
  EXPECT_EQ(report->outputs[0].ambiguous, 100);
  EXPECT_TRUE(report->outputs[0].mistrust.starts_with("100 of 100 elements lie")) << report->outputs[0].mistrust;
  out.set(3, 3);
  EXPECT_EQ(check(views, unsure)->verdict, Verdict::Fail);

  Data negative(DType::f32, {100}, std::vector<double>(100, -1.0)), zeros(DType::f32, {100});
  Maker second({&negative});
  second.output(second.add(Op::relu, {second.input(0)}), DType::f32);
  const OracleResult empty = second.evaluate();
  const TensorView zero_views[] = {zeros.view()};
  EXPECT_EQ(check(zero_views, empty)->verdict, Verdict::Mistrusted);
  EXPECT_TRUE(check(zero_views, empty)->outputs[0].mistrust.starts_with("100 of 100 elements must be 0"));
  CheckOptions expected_zeros;
  expected_zeros.max_zeros = 1;
  EXPECT_EQ(check(zero_views, empty, expected_zeros)->verdict, Verdict::Pass);
  for (size_t i = 0; i < 100; ++i) zeros.set(i, -0.0);
  EXPECT_EQ(check(zero_views, empty, expected_zeros)->verdict, Verdict::Pass);
  expected_zeros.signed_zeros = true;
  EXPECT_EQ(check(zero_views, empty, expected_zeros)->verdict, Verdict::Fail);
}

// Expectations as they come of a reduction whose bound says nothing.
OracleResult expected_of(const std::vector<std::pair<double, double>>& intervals) {
  OracleResult result;
  ExpectedOutput& output = result.outputs.emplace_back();
  output.dtype = DType::f32;
  output.shape = {static_cast<int64_t>(intervals.size())};
  for (const auto& [low, high] : intervals) {
    ExpectedElement& e = output.elements.emplace_back();
    e.low = low;
    e.high = high;
  }
  return result;
}
OutputReport middles_of(const OracleResult& expected) {
  const ExpectedOutput& output = expected.outputs[0];
  Data data(DType::f32, {static_cast<int64_t>(output.elements.size())});
  for (size_t i = 0; i < output.elements.size(); ++i) {
    const double middle = output.elements[i].low / 2 + output.elements[i].high / 2;
    data.set(i, middle == middle ? middle : 0);
  }
  const TensorView views[] = {data.view()};
  return check(views, expected)->outputs[0];
}

TEST(Verdict, BoundsThatHoldAnythingAreNotTrusted) {
  EXPECT_EQ(middles_of(expected_of({{-inf, inf}})).verdict, Verdict::Mistrusted);
  EXPECT_EQ(middles_of(expected_of({{2, inf}})).verdict, Verdict::Mistrusted);
  const OutputReport wide = middles_of(expected_of({{392 - 26490, 392 + 26490}}));
  EXPECT_EQ(wide.verdict, Verdict::Mistrusted);
  EXPECT_EQ(wide.vague, 1);
  EXPECT_TRUE(wide.mistrust.starts_with("1 of 1 elements have a bound that is infinite or larger")) << wide.mistrust;
  EXPECT_EQ(middles_of(expected_of({{390, 394}})).verdict, Verdict::Pass);
  EXPECT_EQ(middles_of(expected_of({{inf, inf}})).verdict, Verdict::Pass);
  EXPECT_EQ(middles_of(expected_of({{-1e-6, 1e-6}})).verdict, Verdict::Pass);  // 0 but for roundings

  std::vector<std::pair<double, double>> mixed(100, {99, 101});
  for (size_t i = 0; i < 50; ++i) mixed[i] = {-1, 1};  // near 0 among larger ones
  EXPECT_EQ(middles_of(expected_of(mixed)).verdict, Verdict::Pass);
  for (size_t i = 0; i < 5; ++i) mixed[i] = {-inf, inf};
  EXPECT_EQ(middles_of(expected_of(mixed)).verdict, Verdict::Pass);
  mixed[5] = {-1000, 1000};
  EXPECT_EQ(middles_of(expected_of(mixed)).vague, 6);
  EXPECT_EQ(middles_of(expected_of(mixed)).verdict, Verdict::Mistrusted);
  EXPECT_EQ(middles_of(expected_of(std::vector<std::pair<double, double>>(100, {-3, 3.5}))).vague, 100);
}

// Sums of more than 2^23 terms of f32 have a bound, because no tile has as many.
TEST(Verdict, SumsOfVeryManyTermsHaveABound) {
  constexpr int64_t n = int64_t{9} << 20;
  Data x(DType::f32, {1, n}), sum(DType::f32, {1, 1}), log(DType::f32, {1, 1});
  for (int64_t i = 0; i < n; ++i) x.set(static_cast<size_t>(i), 0.1 + static_cast<double>(i % 7) / 64);
  Maker maker({&x});
  for (const Op op : {Op::reduce_sum, Op::reduce_logsumexp})
    maker.output(maker.add(op, {maker.input(0)}, ir::ReduceAttr{ir::ReduceAxis::All, {}}), DType::f32);
  const OracleResult expected = maker.evaluate();
  const ExpectedElement& s = expected.outputs[0].elements[0];
  const ExpectedElement& l = expected.outputs[1].elements[0];
  EXPECT_LT(s.high - s.low, 0.02 * s.value);
  EXPECT_LT(l.high - l.low, 0.05);
  const auto verdict = [&](double of_sum, double of_log) {
    sum.set(0, of_sum);
    log.set(0, of_log);
    const TensorView views[] = {sum.view(), log.view()};
    return check(views, expected)->verdict;
  };
  EXPECT_EQ(verdict(s.value, l.value), Verdict::Pass);
  EXPECT_EQ(verdict(0, l.value), Verdict::Fail);
  EXPECT_EQ(verdict(s.value, 0), Verdict::Fail);
  EXPECT_EQ(verdict(s.value * 1.02, l.value), Verdict::Fail);
}

// The bound of a sum of normal numbers grows with the root of their number, and any order of f32
// additions stays inside. Terms of one sign have the bound that always holds.
TEST(Verdict, SumsThatCancelHaveANarrowBound) {
  constexpr int64_t n = int64_t{1} << 18;
  const float unit = 0x1p-24f;
  for (const bool cancels : {true, false}) {
    Data x(DType::f32, {1, n}), out(DType::f32, {1, 1});
    x.fill_normal(cancels ? 5 : 6);
    double magnitudes = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!cancels) x.set(i, std::abs(x.get(i)) + 0.25);
      magnitudes += std::abs(x.get(i));
    }
    Maker maker({&x});
    maker.output(maker.add(Op::reduce_sum, {maker.input(0)}, ir::ReduceAttr{ir::ReduceAxis::All, {}}), DType::f32);
    const OracleResult expected = maker.evaluate();
    const ExpectedElement& e = expected.outputs[0].elements[0];
    const double bound = e.high / 2 - e.low / 2, chain = static_cast<double>(int64_t{1} << 17);
    if (cancels) {
      EXPECT_LT(bound, 9 * std::sqrt(chain) * unit * magnitudes);
    } else {
      EXPECT_GT(bound, chain * unit * magnitudes);
    }
    for (const int64_t lanes : {1, 4, 16}) {
      std::vector<float> partial(static_cast<size_t>(lanes));
      for (int64_t i = 0; i < n; ++i)
        partial[static_cast<size_t>(i % lanes)] += static_cast<float>(x.get(static_cast<size_t>(i)));
      float total = 0;
      for (const float p : partial) total += p;
      EXPECT_TRUE(total >= e.low && total <= e.high) << lanes << " lanes: " << total;
    }
  }
}

// What adds up before it cancels rounds one way all along: only the bound that always holds does.
TEST(Verdict, SumsThatAddUpFirstHaveTheBoundThatAlwaysHolds) {
  constexpr int64_t n = int64_t{1} << 16;
  Data x(DType::f32, {1, n + 1});
  const float step = 0.1F;
  x.set(0, -0.1 * static_cast<double>(n));
  for (size_t i = 1; i <= n; ++i) x.set(i, static_cast<double>(step));
  Maker maker({&x});
  maker.output(maker.add(Op::reduce_sum, {maker.input(0)}, ir::ReduceAttr{ir::ReduceAxis::All, {}}), DType::f32);
  const OracleResult expected = maker.evaluate();
  const ExpectedElement& e = expected.outputs[0].elements[0];
  auto total = static_cast<float>(x.get(0));
  for (int64_t i = 0; i < n; ++i) total += step;
  // Beyond what independent roundings give.
  EXPECT_GT(std::abs(total - e.value), 8 * std::sqrt(static_cast<double>(n)) * 0x1p-24 * 0.2 * static_cast<double>(n));
  EXPECT_TRUE(total >= e.low && total <= e.high) << total << " " << e.low << " " << e.high;
}

// An integer that a wide interval is stored to may be any of its type.
TEST(Verdict, IntegersOfBoundsThatHoldAnythingAreNotTrusted) {
  Data x(DType::f32, {1}, {40});
  Maker maker({&x});
  const ir::NodeId large = maker.add(Op::exp2, {maker.input(0)});
  const ir::NodeId any = maker.add(Op::sub, {large, maker.number(0x1p40)});  // 0, and errors above 1e5
  maker.output(any, DType::i8);
  maker.output(maker.add(Op::cast, {any}, ir::CastAttr{DType::i32}), DType::i32);
  maker.output(large, DType::i64);
  const OracleResult expected = maker.evaluate();
  Data bytes(DType::i8, {1}, {77}), words(DType::i32, {1}, {-5}), longs(DType::i64, {1}, {0x1p40});
  const TensorView views[] = {bytes.view(), words.view(), longs.view()};
  const auto report = check(views, expected);
  EXPECT_EQ(report->outputs[0].verdict, Verdict::Mistrusted);
  EXPECT_EQ(report->outputs[1].verdict, Verdict::Mistrusted);
  EXPECT_EQ(report->outputs[2].verdict, Verdict::Pass);
}

TEST(Verdict, OneAmbiguousElementOfAFewSaysNothingOfTheOthers) {
  OracleResult expected = expected_of({{1, 1}, {2, 3}, {4, 4}});
  expected.outputs[0].elements[1].ambiguous = true;
  EXPECT_EQ(middles_of(expected).verdict, Verdict::Pass);
  expected.outputs[0].elements[2].ambiguous = true;
  EXPECT_EQ(middles_of(expected).verdict, Verdict::Mistrusted);
  expected = expected_of({{2, 3}});
  expected.outputs[0].elements[0].ambiguous = true;
  EXPECT_EQ(middles_of(expected).verdict, Verdict::Mistrusted);
}

// The error is that of what is stored, and the ratio is error / bound.
TEST(Verdict, ErrorsAreMeasuredAfterStoring) {
  Data x(DType::f32, {4}, {500, -500, 3, 3}), out(DType::f8e4m3, {4}, {448, -448, 3, 3});
  Maker maker({&x});
  maker.output(maker.input(0), DType::f8e4m3);
  const OracleResult saturated = maker.evaluate();
  const TensorView views[] = {out.view()};
  CheckReport report = *check(views, saturated);
  EXPECT_EQ(report.verdict, Verdict::Pass) << report.outputs[0].worst_text;
  EXPECT_EQ(report.outputs[0].max_error, 0);
  EXPECT_EQ(report.outputs[0].max_ratio, 0);
  out.set(2, 4);
  report = *check(views, saturated);
  EXPECT_EQ(report.verdict, Verdict::Fail);
  EXPECT_EQ(report.outputs[0].max_error, 1);
  EXPECT_EQ(report.outputs[0].max_ratio, std::numeric_limits<double>::infinity());

  Data y(DType::f32, {3}, {1, 2, 3}), exps(DType::f32, {3});
  Maker rounding({&y});
  rounding.output(rounding.add(Op::exp, {rounding.input(0)}), DType::f32);
  const OracleResult bounded = rounding.evaluate();
  const ExpectedElement& e = bounded.outputs[0].elements[1];
  ASSERT_LT(e.low, e.high);
  for (size_t i = 0; i < 3; ++i) exps.set(i, std::exp(y.get(i)));
  exps.set(1, e.high);
  const TensorView near[] = {exps.view()};
  report = *check(near, bounded);
  EXPECT_EQ(report.verdict, Verdict::Pass);
  EXPECT_DOUBLE_EQ(report.outputs[0].max_error, e.high / 2 - e.low / 2);
  EXPECT_DOUBLE_EQ(report.outputs[0].max_ratio, 1);
  exps.set(1, e.high + (e.high - e.low));
  report = *check(near, bounded);
  EXPECT_EQ(report.verdict, Verdict::Fail);
  EXPECT_DOUBLE_EQ(report.outputs[0].max_ratio, 3);

  // Where two values of f64 side by side are right, either is half of a step away from the middle.
  Data large(DType::f64, {2}, {0x1p53, 0x1p53}), sums(DType::f64, {2}, {0x1p53, 0x1p53 + 2});
  Maker adding({&large});
  adding.output(adding.add(Op::add, {adding.input(0), adding.input(0)}), DType::f64);
  OracleResult between = adding.evaluate();
  for (ExpectedElement& sum : between.outputs[0].elements) sum.low = 0x1p53, sum.high = 0x1p53 + 2;
  const TensorView both[] = {sums.view()};
  report = *check(both, between);
  EXPECT_EQ(report.verdict, Verdict::Pass);
  EXPECT_EQ(report.outputs[0].max_error, 1);
  EXPECT_EQ(report.outputs[0].max_ratio, 1);
}

TEST(Verdict, WrongTensorsAreErrors) {
  Data x(DType::f32, {4}), wrong_type(DType::f16, {4}), wrong_shape(DType::f32, {5}), row(DType::f32, {1, 4});
  Maker maker({&x});
  maker.output(maker.add(Op::neg, {maker.input(0)}), DType::f32);
  const OracleResult result = maker.evaluate();
  const auto code = [&](Data& d) {
    const TensorView views[] = {d.view()};
    Result<CheckReport> report = check(views, result);
    return report ? std::string() : report.error().message();
  };
  EXPECT_EQ(code(wrong_type), "error[E0213]: y0 is f16 but f32 is expected");
  EXPECT_EQ(code(wrong_shape), "error[E0212]: y0 is f32[5] but [4] is expected");
  EXPECT_EQ(code(row), "");
  EXPECT_FALSE(check({}, result));
}

}  // namespace
}  // namespace codetta::oracle::test
