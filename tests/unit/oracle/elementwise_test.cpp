// SPDX-License-Identifier: Apache-2.0
// Element-wise operations: f32 arithmetic is exact, functions hold the true value tightly, special values follow
// docs/semantics.md.
#include <cmath>
#include <limits>

#include "support.hpp"

namespace codetta::oracle::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> random_values(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(
        static_cast<double>(static_cast<float>(std::ldexp(normal(random), static_cast<int>(random() % 13) - 7))));
  return values;
}

TEST(Elementwise, ArithmeticIsOneRounding) {
  const int64_t n = 4000;
  Data x(DType::f32, {n}, random_values(1, n)), y(DType::f32, {n}, random_values(2, n));
  const auto check = [&](Op op, auto&& f) {
    const auto e = apply(op, {&x, &y}, DType::f32);
    for (size_t i = 0; i < e.size(); ++i) {
      const float expected = f(static_cast<float>(x.get(i)), static_cast<float>(y.get(i)));
      ASSERT_EQ(e[i].low, static_cast<double>(expected)) << i;
      ASSERT_EQ(e[i].high, static_cast<double>(expected)) << i;
    }
  };
  check(Op::add, [](float a, float b) { return a + b; });
  check(Op::sub, [](float a, float b) { return a - b; });
  check(Op::mul, [](float a, float b) { return a * b; });
  check(Op::minimum, [](float a, float b) { return std::min(a, b); });
  check(Op::maximum, [](float a, float b) { return std::max(a, b); });
  const auto q = apply(Op::div, {&x, &y}, DType::f32);
  for (size_t i = 0; i < q.size(); ++i) {
    const float expected = static_cast<float>(x.get(i)) / static_cast<float>(y.get(i));
    ASSERT_TRUE(holds(q[i], static_cast<double>(expected)));
    ASSERT_LE(q[i].high - q[i].low, std::abs(q[i].high) * 0x1p-23);
    // A quotient of f32 in f64 is never so near a tie that rounding twice shows.
    ASSERT_EQ(q[i].value, static_cast<double>(expected));
  }
}

// Of programs for sm_90a, whose exponentials are the less exact the larger their arguments are.
TEST(Elementwise, ExponentialsOfSm90a) {
  for (const double x : {-68.0, -60.0, -20.0, -0.5, 0.0, 3.0, 60.0}) {
    Data argument(DType::f32, {1}, {x});
    const auto widest = [&](std::span<const UlpRow> table) {
      Maker maker({&argument});
      maker.output(maker.add(Op::exp, {maker.input(0)}), DType::f32);
      OracleOptions options;
      options.ulp = table;
      const ExpectedElement e = maker.evaluate(options).outputs[0].elements[0];
      const double spacing = std::ldexp(1.0, std::ilogb(std::exp(x)) - 23);
      return std::max(std::exp(x) - e.low, e.high - std::exp(x)) / spacing;
    };
    const double own = widest(sm90a_ulp_table()), stated = 3 + std::abs(x) / 20;
    EXPECT_GE(own, stated - 0.51) << x;
    EXPECT_LE(own, 2 * stated + 0.51) << x;  // the oracle's spacing is from above, at most twice
    EXPECT_LT(widest(cuda_ulp_table()), own) << x;
  }
}

// Where the exponent is as large as 2^63 glibc's powl takes an even one for an odd one, or for none.
TEST(Elementwise, LargeExponentsAreEven) {
  for (const double y : {0x1p63, -0x1p63, 0x1p64, -0x1p64, 0x1p53, -0x1p53}) {
    for (const double x : {-inf, -2.0, -0.5, -0.0}) {
      Data base(DType::f64, {1}, {x}), exponent(DType::f64, {1}, {y});
      const ExpectedElement e = apply(Op::pow, {&base, &exponent}, DType::f64)[0];
      const double right = std::pow(std::abs(x), y);  // 0 or infinity
      EXPECT_EQ(e.low, right) << x << " ** " << y;
      EXPECT_EQ(e.high, right) << x << " ** " << y;
      EXPECT_FALSE(e.may_be_nan) << x << " ** " << y;
    }
  }
}

// The interval holds the true value rounded, and is no wider than the stated accuracy allows.
TEST(Elementwise, FunctionsHoldTheTruthTightly) {
  struct Row {
    Op op;
    long double (*f)(long double);
  };
  const Row rows[] = {
      {Op::exp, [](long double x) { return std::exp(x); }},
      {Op::exp2, [](long double x) { return std::exp2(x); }},
      {Op::expm1, [](long double x) { return std::expm1(x); }},
      {Op::log1p, [](long double x) { return std::log1p(x); }},
      {Op::sqrt, [](long double x) { return std::sqrt(x); }},
      {Op::rsqrt, [](long double x) { return 1 / std::sqrt(x); }},
      {Op::reciprocal, [](long double x) { return 1 / x; }},
      {Op::log, [](long double x) { return std::log(x); }},
      {Op::log2, [](long double x) { return std::log2(x); }},
      {Op::sin, [](long double x) { return std::sin(x); }},
      {Op::cos, [](long double x) { return std::cos(x); }},
      {Op::tanh, [](long double x) { return std::tanh(x); }},
      {Op::erf, [](long double x) { return std::erf(x); }},
      {Op::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }},
      {Op::silu, [](long double x) { return x / (1 + std::exp(-x)); }},
      {Op::gelu_erf, [](long double x) { return x * std::erfc(-x * std::sqrt(0.5L)) / 2; }},
      {Op::gelu_tanh,
       [](long double x) {
         return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x)));
       }},
      {Op::hardswish, [](long double x) { return x * std::min(std::max(x + 3, 0.0L), 6.0L) / 6; }},
      {Op::hardsigmoid, [](long double x) { return std::min(std::max(x + 3, 0.0L), 6.0L) / 6; }},
      {Op::mish, [](long double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {Op::dsigmoid, [](long double x) { return std::exp(-x) / ((1 + std::exp(-x)) * (1 + std::exp(-x))); }},
      {Op::dtanh, [](long double x) { return 1 / (std::cosh(x) * std::cosh(x)); }},
      {Op::dsilu,
       [](long double x) {
         const long double s = 1 / (1 + std::exp(-x));
         return s * (1 + x * (1 - s));
       }},
      {Op::dgelu_erf,
       [](long double x) {
         return std::erfc(-x * std::sqrt(0.5L)) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0L));
       }},
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    Data x(dtype, {2000}, random_values(3, 2000));
    for (const Row& row : rows) {
      const auto e = apply(row.op, {&x}, dtype);
      ASSERT_EQ(e.size(), 2000u);
      for (size_t i = 0; i < e.size(); ++i) {
        const long double truth = row.f(x.get(i));
        const double value =
            dtype == DType::f32 ? static_cast<double>(static_cast<float>(truth)) : static_cast<double>(truth);
        ASSERT_TRUE(holds(e[i], value)) << types::op_info(row.op).name << " of " << x.get(i) << ": " << value
                                        << " not in " << e[i].low << ".." << e[i].high;
        if (value != value || std::isinf(value)) continue;
        const double unit = dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
        ASSERT_LE(e[i].high - e[i].low, 140 * unit * std::abs(value) + 6 * unit * 8 + 1e-44)
            << types::op_info(row.op).name << " of " << x.get(i);
        ASSERT_FALSE(e[i].ambiguous);
      }
    }
  }
}

// An inexact argument: the interval must hold f at every point of it, also around turning points.
TEST(Elementwise, IntervalsHoldTheFunctionInBetween) {
  for (const Op op :
       {Op::exp, Op::sin, Op::cos, Op::tanh, Op::silu, Op::gelu_erf, Op::gelu_tanh, Op::mish, Op::hardswish,
        Op::dsigmoid, Op::dtanh, Op::dsilu, Op::dgelu_erf, Op::dgelu_tanh, Op::abs, Op::relu}) {
    Data point(DType::f32, {1}), other(DType::f32, {1}), flag(DType::f32, {1});
    std::mt19937_64 random(7);
    for (int i = 0; i < 300; ++i) {
      const double a = std::uniform_real_distribution<double>(-5, 5)(random),
                   width = std::ldexp(1.0, -static_cast<int>(random() % 8));
      point.set(0, a);
      other.set(0, a + width);
      // where(c + q > c + q rounded, ...) can't be decided, and gives the hull of both.
      flag.set(0, 0.1);
      Maker maker({&point, &other, &flag});
      const ir::NodeId e = maker.add(Op::exp, {maker.input(2)});
      const ir::NodeId unknown = maker.add(Op::gt, {e, maker.number(std::exp(0.1f))});
      const ir::NodeId hull = maker.add(Op::where, {unknown, maker.input(0), maker.input(1)});
      maker.output(maker.add(op, {hull}), DType::f32);
      const OracleResult wide = maker.evaluate();
      const ExpectedElement& range = wide.outputs[0].elements[0];
      ASSERT_TRUE(range.ambiguous);
      for (int step = 0; step <= 8; ++step) {
        Data inner(DType::f32, {1}, {a + (other.get(0) - point.get(0)) * step / 8});
        const auto exact = apply(op, {&inner}, DType::f32);
        ASSERT_LE(range.low, exact[0].value + 1e-6 * std::abs(exact[0].value))
            << types::op_info(op).name << " " << a << " " << width;
        ASSERT_GE(range.high, exact[0].value - 1e-6 * std::abs(exact[0].value))
            << types::op_info(op).name << " " << a << " " << width;
      }
    }
  }
}

TEST(Elementwise, SpecialValues) {
  const auto one = [](Op op, std::vector<double> x) {
    std::vector<Data> data;
    for (const double v : x) data.emplace_back(DType::f32, std::vector<int64_t>{1}, std::vector<double>{v});
    std::vector<Data*> pointers;
    for (Data& d : data) pointers.push_back(&d);
    return apply(op, pointers, DType::f32)[0];
  };
  const auto is = [&](Op op, std::vector<double> x, double expected) {
    const ExpectedElement e = one(op, x);
    if (expected != expected) return e.low != e.low && e.may_be_nan;
    return e.low == expected && e.high == expected && !e.may_be_nan && std::signbit(e.low) == std::signbit(expected);
  };
  EXPECT_TRUE(is(Op::div, {1, 0}, inf));
  EXPECT_TRUE(is(Op::div, {1, -0.0}, -inf));
  EXPECT_TRUE(is(Op::div, {0, 0}, nan));
  EXPECT_TRUE(is(Op::mul, {0, inf}, nan));
  EXPECT_TRUE(is(Op::add, {inf, -inf}, nan));
  EXPECT_TRUE(is(Op::log, {0}, -inf));
  EXPECT_TRUE(is(Op::log, {-1}, nan));
  EXPECT_TRUE(is(Op::sqrt, {-1}, nan));
  EXPECT_TRUE(is(Op::sqrt, {-0.0}, -0.0));
  EXPECT_TRUE(is(Op::rsqrt, {0}, inf));
  EXPECT_TRUE(is(Op::relu, {-0.0}, 0.0));
  EXPECT_TRUE(is(Op::relu, {nan}, nan));
  EXPECT_TRUE(is(Op::minimum, {nan, 1}, nan));
  EXPECT_TRUE(is(Op::maximum, {1, nan}, nan));
  EXPECT_TRUE(is(Op::clamp, {nan, 0, 1}, nan));
  EXPECT_TRUE(is(Op::clamp, {5, 3, 1}, 1));
  EXPECT_TRUE(is(Op::sign, {nan}, nan));
  EXPECT_TRUE(is(Op::sign, {-3}, -1));
  EXPECT_TRUE(is(Op::drelu, {nan}, 0));
  EXPECT_TRUE(is(Op::round, {2.5}, 2));
  EXPECT_TRUE(is(Op::round, {3.5}, 4));
  EXPECT_TRUE(is(Op::round, {-0.4}, -0.0));
  EXPECT_TRUE(is(Op::silu, {-inf}, nan));
  EXPECT_TRUE(is(Op::gelu_erf, {-inf}, nan));
  EXPECT_TRUE(is(Op::gelu_tanh, {-inf}, nan));
  EXPECT_TRUE(is(Op::mish, {-inf}, nan));
  EXPECT_TRUE(is(Op::exp, {-inf}, 0));
  EXPECT_TRUE(is(Op::exp, {1000}, inf));
  EXPECT_TRUE(is(Op::tanh, {inf}, 1));
  EXPECT_TRUE(is(Op::sin, {inf}, nan));
  EXPECT_TRUE(is(Op::floordiv, {-7, 2}, -4));
  EXPECT_TRUE(is(Op::mod, {-7, 2}, 1));
  EXPECT_TRUE(is(Op::mod, {7, -2}, -1));
  EXPECT_TRUE(is(Op::mod, {7, 0}, nan));
  EXPECT_TRUE(is(Op::floordiv, {7, 0}, inf));
  EXPECT_TRUE(is(Op::floordiv, {inf, 2}, inf));
  EXPECT_TRUE(is(Op::mod, {7, inf}, 7));
  EXPECT_TRUE(is(Op::mod, {-7, inf}, inf));
  EXPECT_TRUE(is(Op::mod, {inf, 7}, nan));
  EXPECT_TRUE(is(Op::mod, {0x1p40, 3}, 1));  // exact, however large the quotient
  EXPECT_TRUE(is(Op::pow, {2, 10}, 1024) || holds(one(Op::pow, {2, 10}), 1024));
  EXPECT_TRUE(is(Op::pow, {-8, 0.5}, nan));
  EXPECT_TRUE(is(Op::pow, {-inf, 0.5}, inf));
  EXPECT_TRUE(is(Op::pow, {nan, 2}, nan));
  EXPECT_TRUE(is(Op::pow, {2, nan}, nan));
  EXPECT_TRUE(is(Op::pow, {nan, 0}, 1));
  EXPECT_TRUE(is(Op::pow, {1, nan}, 1));
  EXPECT_TRUE(is(Op::softplus, {3, 0.0, 20}, inf));
  EXPECT_TRUE(is(Op::softplus, {3, -0.0, 20}, -inf));
  EXPECT_TRUE(is(Op::softplus, {3, 0.0, -1}, 3));
  EXPECT_TRUE(is(Op::softplus, {inf, 0.0, 20}, nan));
  EXPECT_TRUE(is(Op::softplus, {3, nan, 20}, nan));
  EXPECT_TRUE(holds(one(Op::softplus, {30, 1, nan}), 30));  // never above it
  EXPECT_TRUE(is(Op::floordiv, {2, inf}, 0));
  EXPECT_TRUE(is(Op::floordiv, {-2, inf}, -0.0));
  EXPECT_TRUE(is(Op::multiply_add, {3, 4, 5}, 17));
  EXPECT_TRUE(is(Op::add, {1e30, -1e30}, 0));
}

// Of values that are known as intervals only: what holds for all of an interval is known, too.
TEST(Elementwise, IntervalsAreNoMoreAmbiguousThanTheirValues) {
  const auto of = [](double near, auto&& make) {
    Data x(DType::f32, {1}, {near}), z(DType::f32, {1}, {0x1p-20});
    Maker maker({&x, &z});
    const ir::NodeId inexact = maker.add(Op::mul, {maker.input(0), maker.add(Op::exp2, {maker.input(1)})});
    maker.output(make(maker, inexact), DType::f32);
    const ExpectedElement e = maker.evaluate().outputs[0].elements[0];
    EXPECT_FALSE(e.ambiguous) << near;
    return e;
  };
  const auto with = [](Op op, double other) {
    return [=](Maker& m, ir::NodeId x) { return m.add(op, {x, m.number(other)}); };
  };
  const auto only_nan = [](const ExpectedElement& e) { return e.low != e.low && e.may_be_nan; };
  EXPECT_LT(of(-3, [](Maker&, ir::NodeId x) { return x; }).low, of(-3, [](Maker&, ir::NodeId x) { return x; }).high);
  EXPECT_TRUE(only_nan(of(-3, with(Op::pow, -0.5))));
  EXPECT_TRUE(only_nan(of(-2.5, [](Maker& m, ir::NodeId x) { return m.add(Op::pow, {x, x}); })));
  EXPECT_TRUE(only_nan(of(-3, with(Op::pow, nan))));
  EXPECT_EQ(of(-3, [](Maker& m, ir::NodeId x) { return m.add(Op::pow, {m.number(0.0), x}); }).low, inf);
  EXPECT_EQ(of(-3, with(Op::mod, inf)).high, inf);
  EXPECT_LE(of(3, with(Op::mod, inf)).high, 3.1);
  // Steps of 1 are no steps where neighbours are further apart.
  for (const Op op : {Op::floor, Op::ceil, Op::round, Op::trunc}) {
    const ExpectedElement e = of(1e20, [&](Maker& m, ir::NodeId x) { return m.add(op, {x}); });
    EXPECT_LT(e.low, e.high);
  }
  (void)of(1e20, with(Op::floordiv, 3));
  EXPECT_EQ(of(5,
               [](Maker& m, ir::NodeId x) {  // the usual question for NaN
                 return m.add(Op::where, {m.add(Op::ne, {x, x}), m.number(1), m.number(2)});
               })
                .low,
            2);
  const auto softplus = [](Maker& m, ir::NodeId x) { return m.add(Op::softplus, {m.number(0.5), x, m.number(20)}); };
  for (const double beta : {2.0, -2.0}) {
    const ExpectedElement e = of(beta, softplus);
    EXPECT_TRUE(holds(e, std::log1p(std::exp(0.5 * beta)) / beta)) << e.low << " " << e.high;
    EXPECT_LT(e.high - e.low, 1e-5);
  }
}

// A zero remainder has an open sign; what follows must keep it open.
TEST(Elementwise, ZerosOfOpenSign) {
  Data x(DType::f32, {1}, {6}), y(DType::f32, {1}, {3});
  Maker maker({&x, &y});
  const ir::NodeId zero = maker.add(Op::mod, {maker.input(0), maker.input(1)});
  maker.output(maker.add(Op::reciprocal, {maker.add(Op::mul, {zero, maker.number(0.125)})}), DType::f32);
  const ExpectedElement e = maker.evaluate().outputs[0].elements[0];
  EXPECT_TRUE(holds(e, inf));
  EXPECT_TRUE(holds(e, -inf));
}

TEST(Elementwise, SignOfZeroIsPositive) {
  Data x(DType::f32, {2}, {-0.0, 0.0});
  Maker maker({&x});
  maker.output(maker.add(Op::reciprocal, {maker.add(Op::sign, {maker.input(0)})}), DType::f32);
  const OracleResult result = maker.evaluate();
  for (const ExpectedElement& e : result.outputs[0].elements) EXPECT_EQ(e.low, inf);
}

// Also through functions that keep a zero's sign, next to zeros of known sign, and over an interval.
TEST(Elementwise, OpenZerosStayOpen) {
  Data x(DType::f32, {1}, {6}), y(DType::f32, {1}, {3}), z(DType::f32, {1}, {0x1p-20}), far(DType::f32, {1}, {inf});
  const auto both = [&](auto&& make) {
    Maker maker({&x, &y, &z, &far});
    const ir::NodeId zero = maker.add(Op::mod, {maker.input(0), maker.input(1)});
    maker.output(maker.add(Op::reciprocal, {make(maker, zero)}), DType::f32);
    const ExpectedElement e = maker.evaluate().outputs[0].elements[0];
    return holds(e, inf) && holds(e, -inf);
  };
  for (const Op op : {Op::hardswish, Op::expm1, Op::log1p, Op::silu, Op::tanh, Op::sqrt, Op::floor, Op::neg}) {
    EXPECT_TRUE(both([&](Maker& m, ir::NodeId zero) { return m.add(op, {zero}); })) << types::op_info(op).name;
  }
  for (const double other : {0.0, -0.0}) {
    for (const Op op : {Op::minimum, Op::maximum}) {
      EXPECT_TRUE(both([&](Maker& m, ir::NodeId zero) { return m.add(op, {zero, m.number(other)}); }));
      EXPECT_TRUE(both([&](Maker& m, ir::NodeId zero) { return m.add(op, {m.number(other), zero}); }));
    }
  }
  EXPECT_TRUE(both([](Maker& m, ir::NodeId zero) { return m.add(Op::pow, {zero, m.number(3)}); }));
  EXPECT_TRUE(both([](Maker& m, ir::NodeId) {  // log(exp(z)) - z over inf: the sign of a difference that is about 0
    const ir::NodeId about = m.add(Op::sub, {m.add(Op::log, {m.add(Op::exp, {m.input(2)})}), m.input(2)});
    return m.add(Op::div, {about, m.input(3)});
  }));
  EXPECT_TRUE(both([](Maker& m, ir::NodeId) {  // one term, or a sum that starts with +0
    return m.add(Op::reduce_sum, {m.add(Op::mul, {m.input(0), m.number(-0.0)})},
                 ir::ReduceAttr{ir::ReduceAxis::Dims, {0}});
  }));
  // Of known sign: the product of something positive and +0.
  Maker maker({&z});
  const ir::NodeId zero = maker.add(Op::mul, {maker.add(Op::exp, {maker.input(0)}), maker.number(0)});
  maker.output(maker.add(Op::reciprocal, {zero}), DType::f32);
  EXPECT_EQ(maker.evaluate().outputs[0].elements[0].low, inf);
}

// 1 / sqrt has a pole at zero: an interval that touches it holds both infinities.
TEST(Elementwise, PolesAtTheEndOfAnInterval) {
  Data x(DType::f32, {1}, {3}), z(DType::f32, {1}, {0x1p-20});
  Maker maker({&x, &z});
  const ir::NodeId inexact = maker.add(Op::mul, {maker.input(0), maker.add(Op::exp2, {maker.input(1)})});
  const ir::NodeId remainder = maker.add(Op::mod, {inexact, inexact});  // known to be in [0, 3.1] only
  maker.output(maker.add(Op::rsqrt, {remainder}), DType::f32);
  maker.output(maker.add(Op::floordiv, {maker.add(Op::log, {remainder}), maker.number(-2)}), DType::f32);
  const OracleResult result = maker.evaluate();
  EXPECT_TRUE(holds(result.outputs[0].elements[0], inf));
  EXPECT_TRUE(holds(result.outputs[0].elements[0], -inf));
  EXPECT_TRUE(holds(result.outputs[1].elements[0], inf));
  EXPECT_TRUE(holds(result.outputs[1].elements[0], -1));  // rounded down, though the other end is infinite
  EXPECT_EQ(result.outputs[1].elements[0].low, -1);
}

// Inexact operands: the remainder is known within a step of the quotient, and anything below the divisor across one.
TEST(Elementwise, RemaindersOfInexactOperands) {
  std::mt19937_64 random(5);
  Data x(DType::f32, {1}), y(DType::f32, {1}), z(DType::f32, {1}, {0x1p-20});
  const auto factor = static_cast<float>(std::exp2(0x1p-20));
  for (int i = 0; i < 2000; ++i) {
    x.set(0, std::ldexp(std::normal_distribution<double>(0, 1)(random), static_cast<int>(random() % 24)));
    y.set(0, std::ldexp(std::normal_distribution<double>(0, 1)(random), static_cast<int>(random() % 8)));
    Maker maker({&x, &y, &z});
    const ir::NodeId inexact = maker.add(Op::mul, {maker.input(0), maker.add(Op::exp2, {maker.input(2)})});
    maker.output(maker.add(Op::mod, {inexact, maker.input(1)}), DType::f32);
    const ExpectedElement e = maker.evaluate().outputs[0].elements[0];
    const auto a = static_cast<float>(x.get(0)) * factor, b = static_cast<float>(y.get(0));
    float r = std::fmod(a, b);
    if (r != 0 && (r < 0) != (b < 0)) r += b;
    ASSERT_TRUE(holds(e, static_cast<double>(r))) << a << " % " << b << ": " << r << " in " << e.low << ".." << e.high;
  }
}

// dsilu(inf) is 1 * (1 + inf * 0), NaN; of something unknown that may be infinite it is not certain.
TEST(Elementwise, NanAtTheEndOfAnIntervalIsNotCertain) {
  Data x(DType::f32, {1}, {1}), zero(DType::f32, {1}, {0.1});
  Maker maker({&x, &zero});
  const ir::NodeId near_zero = maker.add(Op::sub, {maker.add(Op::exp, {maker.input(1)}), maker.number(std::exp(0.1f))});
  const ir::NodeId anything = maker.add(Op::div, {maker.input(0), near_zero});
  maker.output(maker.add(Op::dsilu, {anything}), DType::f32);
  const ExpectedElement e = maker.evaluate().outputs[0].elements[0];
  EXPECT_TRUE(holds(e, 0.5));
  EXPECT_TRUE(holds(e, nan));
}

TEST(Elementwise, ContractionIsHeldAndStrictIsNot) {
  // (1 + 2^-12)^2 needs 25 bits; minus 1 the lost one shows.
  const double x = 1 + 0x1p-12;
  Data data(DType::f32, {1}, {x});
  for (const bool contraction : {true, false}) {
    Maker maker({&data});
    const ir::NodeId square = maker.add(Op::mul, {maker.input(0), maker.input(0)});
    maker.output(maker.add(Op::sub, {square, maker.number(1)}), DType::f32);
    OracleOptions options;
    options.contraction = contraction;
    const ExpectedElement e = maker.evaluate(options).outputs[0].elements[0];
    const auto separate = static_cast<double>(static_cast<float>(x * x) - 1.0f),
               fused = static_cast<double>(std::fma(static_cast<float>(x), static_cast<float>(x), -1.0f));
    ASSERT_NE(separate, fused);
    EXPECT_TRUE(holds(e, separate));
    EXPECT_EQ(holds(e, fused), contraction);
    // What is x for every x does not keep them apart.
    for (const bool divided : {true, false}) {
      Maker between({&data});
      const ir::NodeId product = between.add(Op::mul, {between.input(0), between.input(0)});
      const ir::NodeId kept = divided ? between.add(Op::div, {product, between.number(1)})
                                      : between.add(Op::sub, {product, between.number(0)});
      between.output(between.add(Op::sub, {kept, between.number(1)}), DType::f32);
      const ExpectedElement same = between.evaluate(options).outputs[0].elements[0];
      EXPECT_TRUE(holds(same, separate));
      EXPECT_EQ(holds(same, fused), contraction);
    }
    // The sum of one square is that product.
    Maker reducing({&data});
    const ir::NodeId sum =
        reducing.add(Op::reduce_sum_of_squares, {reducing.input(0)}, ir::ReduceAttr{ir::ReduceAxis::Dims, {0}});
    reducing.output(reducing.add(Op::sub, {sum, reducing.number(1)}), DType::f32);
    const ExpectedElement reduced = reducing.evaluate(options).outputs[0].elements[0];
    EXPECT_TRUE(holds(reduced, separate));
    EXPECT_EQ(holds(reduced, fused), contraction);
  }
}

// 2^100 * 2^30 - (2^100 * 2^30): separate products are infinite, and their difference is NaN; fused, one of them stays
// finite.
TEST(Elementwise, AContractedProductDoesNotOverflow) {
  Data large(DType::f32, {1}, {0x1p100}), factor(DType::f32, {1}, {0x1p30});
  for (const bool contraction : {true, false}) {
    Maker maker({&large, &factor});
    const ir::NodeId product = maker.add(Op::mul, {maker.input(0), maker.input(1)});
    const ir::NodeId difference = maker.add(Op::sub, {product, product});
    maker.output(maker.add(Op::relu, {difference}), DType::f32);
    maker.output(product, DType::f32);
    OracleOptions options;
    options.contraction = contraction;
    const OracleResult expected = maker.evaluate(options);
    EXPECT_TRUE(holds(expected.outputs[0].elements[0], nan));
    EXPECT_EQ(holds(expected.outputs[0].elements[0], 0), contraction);
    EXPECT_TRUE(holds(expected.outputs[1].elements[0], inf));
    EXPECT_FALSE(holds(expected.outputs[1].elements[0], 0x1p127));
  }
}

TEST(Elementwise, DiscontinuitiesInsideTheBoundAreAmbiguous) {
  Data x(DType::f32, {2}, {2.0, 2.5});
  Maker maker({&x});
  // log(exp(x)) is x within a bound: floor and comparison at 2 can go either way, at 2.5 not.
  const ir::NodeId y = maker.add(Op::log, {maker.add(Op::exp, {maker.input(0)})});
  maker.output(maker.add(Op::floor, {y}), DType::f32);
  maker.output(maker.add(Op::where, {maker.add(Op::lt, {y, maker.number(2)}), maker.number(10), maker.number(20)}),
               DType::f32);
  maker.output(maker.add(Op::cast, {y}, ir::CastAttr{DType::i8}), DType::i8);
  maker.output(y, DType::i32);
  const OracleResult result = maker.evaluate();
  const auto range = [&](size_t output, size_t i) {
    return std::pair(result.outputs[output].elements[i].low, result.outputs[output].elements[i].high);
  };
  EXPECT_EQ(range(0, 0), std::pair(1.0, 2.0));
  EXPECT_EQ(range(0, 1), std::pair(2.0, 2.0));
  EXPECT_EQ(range(1, 0), std::pair(10.0, 20.0));
  EXPECT_EQ(range(1, 1), std::pair(20.0, 20.0));
  EXPECT_EQ(range(2, 0), std::pair(1.0, 2.0));
  EXPECT_EQ(range(3, 0), std::pair(2.0, 2.0));  // a store rounds
  EXPECT_EQ(range(3, 1), std::pair(2.0, 3.0));
  EXPECT_TRUE(result.outputs[0].elements[0].ambiguous);
  EXPECT_FALSE(result.outputs[0].elements[1].ambiguous);
  EXPECT_TRUE(result.outputs[3].elements[1].ambiguous);
}

TEST(Elementwise, CastsTruncateAndStoresRound) {
  Data x(DType::f32, {6}, {2.7, -2.7, 300, -300, nan, 1e20});
  const auto cast = apply(Op::cast, {&x}, DType::i8, ir::CastAttr{DType::i8});
  const auto store = apply(Op::abs, {&x}, DType::i8);
  const int64_t casts[] = {2, -2, 127, -128, 0, 127}, stores[] = {3, 3, 127, 127, 0, 127};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(cast[i].exact_low, casts[i]) << i;
    EXPECT_EQ(cast[i].exact_high, casts[i]) << i;
    EXPECT_EQ(store[i].exact_low, stores[i]) << i;
    EXPECT_EQ(store[i].exact_high, stores[i]) << i;
  }
  Data y(DType::f32, {4}, {500, inf, -inf, 1.06});
  const auto fp8 = apply(Op::neg, {&y}, DType::f8e4m3);
  EXPECT_EQ(fp8[0].low, -448);
  EXPECT_EQ(fp8[1].high, -448);
  EXPECT_EQ(fp8[2].low, 448);
  EXPECT_EQ(fp8[3].low, -1.0);
  const auto boolean = apply(Op::neg, {&x}, DType::boolean);
  EXPECT_EQ(boolean[4].exact_low, 1);
}

TEST(Elementwise, IntegersAgainstTheirDefinition) {
  Data x(DType::i8, {256, 1}), y(DType::i8, {1, 256});
  for (size_t i = 0; i < 256; ++i) x.set(i, static_cast<double>(i) - 128), y.set(i, static_cast<double>(i) - 128);
  const auto floor_div = [](int a, int b) {
    return b == 0 ? 0 : static_cast<int>(std::floor(static_cast<double>(a) / b));
  };
  const auto check = [&](Op op, auto&& f) {
    const auto e = apply(op, {&x, &y}, DType::i8);
    for (int a = -128; a < 128; ++a) {
      for (int b = -128; b < 128; ++b) {
        const auto at = static_cast<size_t>((a + 128) * 256 + b + 128);
        ASSERT_EQ(e[at].exact_low, static_cast<int8_t>(f(a, b))) << types::op_info(op).name << " " << a << " " << b;
        ASSERT_EQ(e[at].exact_high, static_cast<int8_t>(f(a, b)));
      }
    }
  };
  check(Op::add, [](int a, int b) { return a + b; });
  check(Op::sub, [](int a, int b) { return a - b; });
  check(Op::mul, [](int a, int b) { return a * b; });
  check(Op::floordiv, floor_div);
  check(Op::mod, [&](int a, int b) { return b == 0 ? 0 : a - floor_div(a, b) * b; });
  check(Op::minimum, [](int a, int b) { return std::min(a, b); });
  check(Op::maximum, [](int a, int b) { return std::max(a, b); });
}

TEST(Elementwise, WideIntegersStayExact) {
  Data x(DType::u64, {2}), y(DType::i64, {2});
  const uint64_t u[] = {UINT64_MAX, 1ull << 63};
  const int64_t s[] = {INT64_MIN, (1ll << 60) + 1};
  std::memcpy(x.at(0), u, 16);
  std::memcpy(y.at(0), s, 16);
  EXPECT_EQ(static_cast<uint64_t>(apply(Op::add, {&x, &x}, DType::u64)[0].exact_low), UINT64_MAX - 1);
  EXPECT_EQ(apply(Op::abs, {&y}, DType::i64)[0].exact_low, INT64_MIN);
  EXPECT_EQ(apply(Op::mul, {&y, &y}, DType::i64)[1].exact_low, static_cast<int64_t>((1ull << 61) + 1));
  EXPECT_EQ(apply(Op::gt, {&x, &x}, DType::boolean)[0].exact_high, 0);
  EXPECT_EQ(apply(Op::neg, {&y}, DType::f32)[1].low, -0x1p60);
}

TEST(Elementwise, DropoutIsPhilox) {
  // Random123's known answer for Philox4x32-10 with counter and key 0 is 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  const double first = (0x6627e8d5u >> 8) * 0x1p-24;
  Data x(DType::f32, {4, 5}, std::vector<double>(20, 3.0));
  for (const double p : {first, first + 0x1p-24, 1.0, 0.0}) {
    Maker maker({&x});
    maker.output(maker.add(Op::dropout, {maker.input(0), maker.number(p), maker.integer(0)}), DType::f32);
    const auto elements = maker.evaluate().outputs[0].elements;
    const uint32_t words[] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    for (size_t i = 0; i < 4; ++i) {
      const double expected = p > (words[i] >> 8) * 0x1p-24 ? 0 : 3.0 / (1 - p);
      EXPECT_NEAR(elements[i].low, expected, 1e-5) << p << " of element " << i;
      EXPECT_NEAR(elements[i].high, expected, 1e-5) << p << " of element " << i;
    }
  }
}

}  // namespace
}  // namespace codetta::oracle::test
