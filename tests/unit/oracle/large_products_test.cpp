// SPDX-License-Identifier: Apache-2.0
// Products of large operands: what is read in parts, and bounds of long sums.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "support.hpp"
#include "support/sanitizers.hpp"
#include "support/slice.hpp"

namespace codetta::oracle::test {
namespace {

// The same products, of an operand that is read in parts, and of one that is held whole since a sum reads it, too.
TEST(LargeProducts, LargeOperandsAreReadInParts) {
  struct Shapes {
    std::vector<int64_t> a, b;
  };
  const int64_t k = 4100, many = 1030;
  static_assert(4100 * 1030 > int64_t{1} << 22);
  uint64_t which = 0;
  for (const Shapes& shapes :
       {Shapes{{3, k}, {k, many}}, Shapes{{many, k}, {k, 2}}, Shapes{{2, 3, k}, {2, k, 515}},
        Shapes{{2, 3, k}, {k, many}}, Shapes{{many, k}, {2, k, 1}}, Shapes{{3, 1'500'000}, {1'500'000, 3}}}) {
    for (const DType dtype : {DType::f16, DType::i8}) {
      if (!codetta::test::commit_takes(which++, 3)) continue;  // four of twelve, types in turn
      Data a(dtype, shapes.a), b(dtype, shapes.b);
      a.fill_integers(1, -100, 100);
      b.fill_integers(2, -3, 4);
      if (dtype == DType::f16) {  // of every line of B something rounds, and in one of A there is an infinity
        b.fill_normal(2);
        a.set(static_cast<size_t>(shapes.a.back()) + 7, std::numeric_limits<double>::infinity());
      }
      const auto evaluated = [&](bool whole) {
        Maker maker({&a, &b});
        const DType accumulator = dtype == DType::i8 ? DType::i32 : DType::f32;
        maker.output(maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{accumulator}), accumulator);
        for (const size_t i : {size_t{0}, size_t{1}}) {
          if (!whole) break;
          maker.output(maker.add(Op::reduce_max, {maker.input(i)}, ir::ReduceAttr{ir::ReduceAxis::Row, {}}), dtype);
        }
        OracleOptions options;
        options.max_work = INT64_MAX;
        return maker.evaluate(options).outputs[0].elements;
      };
      const auto parts = evaluated(false), whole = evaluated(true);
      ASSERT_EQ(parts.size(), whole.size());
      for (size_t i = 0; i < parts.size(); ++i) {
        if (whole[i].low != whole[i].low) {
          ASSERT_NE(parts[i].low, parts[i].low) << i;
        } else {
          ASSERT_EQ(parts[i].value, whole[i].value) << i;
          ASSERT_EQ(parts[i].low, whole[i].low) << i;
          ASSERT_EQ(parts[i].high, whole[i].high) << i;
        }
        ASSERT_EQ(parts[i].may_be_nan, whole[i].may_be_nan) << i;
        ASSERT_EQ(parts[i].exact_low, whole[i].exact_low) << i;
      }
    }
  }
}

// So long that K roundings of half a unit each are more than a half: a bound, which what is right lies in.
TEST(LargeProducts, AreJudgedFromTwoToTheTwentyThirdOn) {
  const int64_t k = (int64_t{1} << 23) + 1;
  Data a(DType::f16, {1, k}), b(DType::f16, {k, 1}), d(DType::f32, {1, 1});
  for (size_t i = 0; i < a.count(); ++i) a.set(i, 1), b.set(i, 0.25);
  a.set(5, 0.1);
  const auto evaluated = [&](const OracleOptions& options) {
    Maker maker({&a, &b});
    maker.output(maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32}), DType::f32);
    return maker.evaluate(options);
  };
  OracleOptions options;
  options.isa = CpuIsa::avx2;  // one rounding a product
  const OracleResult result = evaluated(options);
  ASSERT_EQ(result.outputs[0].elements.size(), 1U) << result.outputs[0].note;
  const ExpectedElement e = result.outputs[0].elements[0];
  const double right = 0.25 * static_cast<double>(k - 1) + 0.25 * a.get(5);
  EXPECT_NEAR(e.value, right, 1);
  EXPECT_TRUE(e.low < right && right < e.high) << e.low << " to " << e.high;
  EXPECT_TRUE(e.low > 0 && e.high < 2 * right) << e.low << " to " << e.high;  // no memory of any contents would pass
  d.set(0, right);
  const TensorView views[] = {d.view()};
  EXPECT_EQ(check(views, result)->verdict, Verdict::Pass);
  d.set(0, 0);
  EXPECT_EQ(check(views, result)->verdict, Verdict::Fail);
}

// Where no bound is a number, everything is admissible, but nothing has to be NaN.
TEST(LargeProducts, OfMoreRoundingsThanABoundCanBeOfAreMistrusted) {
  Data a(DType::f32, {1, 10}), b(DType::f32, {10, 1}), d(DType::f32, {1, 1}, {1});
  a.fill_normal(1);
  b.fill_normal(2);
  Maker maker({&a, &b});
  maker.output(maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32}), DType::f32);
  OracleOptions options;
  options.accumulation = types::accumulation_model(CpuIsa::generic, DType::f32);
  options.accumulation->roundings = INT32_MAX;
  const OracleResult result = maker.evaluate(options);
  const ExpectedElement& e = result.outputs[0].elements[0];
  EXPECT_EQ(e.low, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(e.high, std::numeric_limits<double>::infinity());
  const TensorView views[] = {d.view()};
  EXPECT_EQ(check(views, result)->verdict, Verdict::Mistrusted);
}

// Each product of a graph reads what is not held anew, which is work.
TEST(LargeProducts, WhatIsReadInPartsCountsForEachProduct) {
  const int64_t k = 2100;
  Data a(DType::i8, {1, k}), b(DType::i8, {k, k});
  a.fill_integers(1, -4, 4);
  b.fill_integers(2, -3, 4);
  for (const int products : {1, 3}) {
    Maker maker({&a, &b});
    ir::NodeId row = maker.input(0);
    for (int i = 0; i < products; ++i) {
      const ir::NodeId sum = maker.add(Op::matmul, {row, maker.input(1)}, ir::MatmulAttr{DType::i32});
      row = maker.add(Op::cast, {sum}, ir::CastAttr{DType::i8});
    }
    maker.output(maker.add(Op::reduce_max, {row}, ir::ReduceAttr{ir::ReduceAxis::All, {}}), DType::i8);
    OracleOptions options;
    options.max_work = 2 * 64 * k * k / 32;  // twice all of B
    EXPECT_EQ(maker.evaluate(options).outputs[0].left_out(), products == 3) << products;
  }
}

// Weights that lie as [N, K], and a part of them, are read as they lie.
TEST(LargeProducts, LargeWeightsThatArePermutedOrSlicedAreReadInParts) {
  const int64_t k = 4100, n = 4110;  // more than are ever held whole
  Data a(DType::bf16, {2, k}), b(DType::bf16, {n, k});
  a.fill_integers(1, -4, 4);
  b.fill_integers(2, -3, 4);
  Maker maker({&a, &b});
  const ir::NodeId turned = maker.add(Op::permute, {maker.input(1)}, ir::PermuteAttr{{1, 0}});
  const auto sliced = [&](int64_t start, int64_t count, int64_t step) {
    ir::SliceAttr slice;
    slice.dim = 1;
    slice.start = ir::Dim::constant(start);
    slice.count = ir::Dim::constant(count);
    slice.step = step;
    return maker.add(Op::slice, {turned}, slice);
  };
  const auto largest = [&](ir::NodeId weights) {
    const ir::NodeId product = maker.add(Op::matmul, {maker.input(0), weights}, ir::MatmulAttr{DType::f32});
    maker.output(maker.add(Op::reduce_max, {product}, ir::ReduceAttr{ir::ReduceAxis::Row, {}}), DType::f32);
  };
  largest(turned);
  largest(sliced(11, 2000, 2));  // in parts, too
  largest(sliced(13, 3, 3));     // held, of a tensor that is not
  OracleOptions options;
  const OracleResult result = maker.evaluate(options);
  struct Columns {
    int64_t start, count, step;
  };
  const Columns columns[] = {{0, n, 1}, {11, 2000, 2}, {13, 3, 3}};
  for (size_t o = 0; o < 3; ++o) {
    ASSERT_EQ(result.outputs[o].elements.size(), 2U) << o << ": " << result.outputs[o].note;
    for (size_t r = 0; r < 2; ++r) {
      double most = -std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < columns[o].count; ++j) {
        const auto line = static_cast<size_t>((columns[o].start + j * columns[o].step) * k);
        double sum = 0;
        for (size_t p = 0; p < static_cast<size_t>(k); ++p)
          sum += a.get(r * static_cast<size_t>(k) + p) * b.get(line + p);
        most = std::max(most, sum);
      }
      EXPECT_EQ(result.outputs[o].elements[r].value, most) << o << ", " << r;
    }
  }
}

// A row of these is a product of all weights, which are more than are ever held.
TEST(LargeProducts, FewRowsOfLargeWeightsAreJudged) {
  Data a(DType::bf16, {4, 4200}), b(DType::bf16, {4200, 4200});
  a.fill_integers(1, -4, 4);
  b.fill_integers(2, -3, 4);
  Maker maker({&a, &b});
  const ir::NodeId product = maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{DType::f32});
  maker.output(maker.add(Op::reduce_max, {product}, ir::ReduceAttr{ir::ReduceAxis::Row, {}}), DType::f32);
  const OracleResult result = maker.evaluate(OracleOptions{});
  ASSERT_FALSE(result.outputs[0].left_out()) << result.outputs[0].note;
  ASSERT_EQ(result.outputs[0].elements.size(), 4U);
  for (size_t r = 0; r < 4; ++r) {
    std::vector<double> row(4200);
    for (size_t p = 0; p < 4200; ++p) {
      for (size_t j = 0; j < 4200; ++j) row[j] += a.get(r * 4200 + p) * b.get(p * 4200 + j);
    }
    EXPECT_EQ(result.outputs[0].elements[r].value, *std::max_element(row.begin(), row.end()));
  }
}

#if !CODETTA_ALLOCATOR_IS_SANITIZED
// No more address space than `bytes` beside what is there.
class AddressLimit {
 public:
  explicit AddressLimit(uint64_t bytes) {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &former_);
    rlimit limit = former_;
    limit.rlim_cur = pages * 4096 + bytes;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &former_); }
  AddressLimit(const AddressLimit&) = delete;

 private:
  rlimit former_{};
};

// One line that is longer than what is held, and lines of so many items: 47 bytes an element would be a gigabyte.
TEST(LargeProducts, LongLinesAndManyItemsAreReadInParts) {
  struct Shapes {
    std::vector<int64_t> a, b;
  };
  const int64_t k = 12'000'000, items = int64_t{1} << 18;
  for (const Shapes& shapes : {Shapes{{1, k}, {k, 1}}, Shapes{{items, 1, 48}, {items, 48, 1}}}) {
    ir::GraphBuilder builder;
    const ir::NodeId operands[] = {builder.add_input("a", {DType::i8, false, dims(shapes.a)}),
                                   builder.add_input("b", {DType::i8, false, dims(shapes.b)})};
    const auto product = builder.add(Op::matmul, operands, ir::MatmulAttr{DType::i32});
    ASSERT_TRUE(product);
    builder.add_output("y", *product, DType::i32);
    const auto graph = std::move(builder).finish();
    ASSERT_TRUE(graph);
    const int8_t two = 2, three = 3;
    const auto repeated = [](const int8_t& x, const std::vector<int64_t>& shape) {
      return *TensorView::make(const_cast<int8_t*>(&x), DType::i8, Dims(shape),
                               Dims(std::vector<int64_t>(shape.size(), 0)));
    };
    const OracleInput inputs[] = {repeated(two, shapes.a), repeated(three, shapes.b)};
    OracleOptions options;
    options.max_work = INT64_MAX;
    const AddressLimit limit(uint64_t{500} << 20);
    const auto result = oracle::evaluate(*graph, inputs, options);
    ASSERT_TRUE(result) << result.error().render();
    for (const ExpectedElement& e : result->outputs[0].elements) {
      ASSERT_EQ(e.exact_low, 6 * shapes.a.back());
      ASSERT_EQ(e.exact_high, 6 * shapes.a.back());
    }
  }
}
#endif

// A product of reals is asked between its rows, one of integers, too.
TEST(Stopping, IsAskedInsideOfAProduct) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i8}) {
    Data a(dtype, {256, 256}), b(dtype, {256, 256});
    a.fill_integers(1, -3, 3);
    b.fill_integers(2, -3, 3);
    Maker maker({&a, &b});
    const DType accumulator = dtype == DType::i8 ? DType::i32 : dtype;
    maker.output(maker.add(Op::matmul, {maker.input(0), maker.input(1)}, ir::MatmulAttr{accumulator}), accumulator);
    Result<ir::Graph> graph = std::move(maker.builder()).finish();
    ASSERT_TRUE(graph);
    const OracleInput inputs[] = {a.view(), b.view()};
    int asked = 0, most = 1 << 20;
    OracleOptions options;
    options.goes_on = [&] { return ++asked < most; };
    ASSERT_TRUE(evaluate(*graph, inputs, options));
    EXPECT_GE(asked, 15);
    most = asked / 2;
    asked = 0;
    const auto stopped = evaluate(*graph, inputs, options);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code(), static_cast<uint16_t>(diag::Code::compile_cancelled));
    EXPECT_EQ(asked, most) << "it ends with the first no";
  }
}

// So is all else that looks at each element, along a row and between rows.
TEST(Stopping, IsAskedInsideOfOtherValues) {
  using Make = ir::NodeId (*)(Maker&, ir::NodeId);
  struct Value {
    const char* name;
    DType dtype;
    Make make;
  };
  const Value values[] = {
      {"erf", DType::f32, [](Maker& m, ir::NodeId x) { return m.add(Op::erf, {x}); }},
      {"add", DType::f64,
       [](Maker& m, ir::NodeId x) {
         return m.add(Op::add, {x, x});
       }},
      {"clamp", DType::f32,
       [](Maker& m, ir::NodeId x) {
         return m.add(Op::clamp, {x, m.number(0), m.number(1)});
       }},
      {"lt", DType::f32,
       [](Maker& m, ir::NodeId x) {
         return m.add(Op::lt, {x, m.number(0)});
       }},
      {"where", DType::f32,
       [](Maker& m, ir::NodeId x) {
         return m.add(Op::where, {m.add(Op::lt, {x, x}), x, m.number(0)});
       }},
      {"dropout", DType::f32,
       [](Maker& m, ir::NodeId x) {
         return m.add(Op::dropout, {x, m.number(0.5), m.integer(3)});
       }},
      {"logsumexp", DType::f32,
       [](Maker& m, ir::NodeId x) {
         return m.add(Op::reduce_logsumexp, {x}, ir::ReduceAttr{ir::ReduceAxis::Dims, {0}});
       }},
      {"mul", DType::i32,
       [](Maker& m, ir::NodeId x) {
         return m.add(Op::mul, {x, x});
       }},
      {"sum", DType::i32,
       [](Maker& m, ir::NodeId x) {
         return m.add(Op::reduce_sum, {x}, ir::ReduceAttr{ir::ReduceAxis::Dims, {0}});
       }},
  };
  for (const Value& value : values) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1 << 16}, {1 << 8, 1 << 8}}) {
      SCOPED_TRACE(std::string(value.name) + " of rank " + std::to_string(shape.size()));
      Data x(value.dtype, shape);
      x.fill_integers(1, -3, 3);
      int asked = 0, most = 1 << 20;
      // As often as it asks for the value beside the input.
      const auto evaluated = [&](bool with_value) {
        Maker maker({&x});
        maker.output(maker.input(0), value.dtype);
        const ir::NodeId made = with_value ? value.make(maker, maker.input(0)) : maker.input(0);
        maker.output(made, maker.builder().type(made).dtype);
        Result<ir::Graph> graph = std::move(maker.builder()).finish();
        EXPECT_TRUE(graph);
        const OracleInput inputs[] = {x.view()};
        OracleOptions options;
        options.goes_on = [&] { return ++asked < most; };
        asked = 0;
        return evaluate(*graph, inputs, options);
      };
      ASSERT_TRUE(evaluated(false));
      const int of_input = asked;
      ASSERT_TRUE(evaluated(true));
      EXPECT_GE(asked - of_input, 4);
      most = of_input + 2;
      const auto stopped = evaluated(true);
      ASSERT_FALSE(stopped);
      EXPECT_EQ(stopped.error().code(), static_cast<uint16_t>(diag::Code::compile_cancelled));
      EXPECT_EQ(asked, most) << "it ends with the first no";
    }
  }
}

}  // namespace
}  // namespace codetta::oracle::test
