// SPDX-License-Identifier: Apache-2.0
// Programs whose parameters are numbers: by value, in the declared type, compiled and interpreted.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "codetta/codetta.hpp"

namespace codetta {
namespace {

constexpr int m = 5, k = 7, n = 9;

class ProgramNumbers : public ::testing::TestWithParam<bool> {
 protected:
  ProgramNumbers()
      : context_(Context::make({.cache_enabled = false, .no_compiler = GetParam(), .threads = 1}).value()),
        x_(Tensor::make(f32, {m, k}).value()),
        w_(Tensor::make(f32, {k, n}).value()) {
    fill_random(x_.view(), 11);
    fill_random(w_.view(), 12);
  }

  // y = expression in x @ w and a, where a: type.
  Result<CompiledProgram> compiled(const std::string& type, const std::string& expression) {
    const auto program = Program::parse(
        "def f(x: f32[\"m\", 7], w: f32[7, 9], a: " + type + "):\n    y = " + expression + "\n    return y\n", "f.py");
    if (!program) return program.error();
    return codetta::compile(*program, Target::host(), {}, context_);
  }
  Result<Tensor> run(const std::string& type, const std::string& expression, const ArgumentValue& a) {
    const auto program = compiled(type, expression);
    if (!program) return program.error();
    Tensor y = Tensor::make(f32, {m, n}).value();
    fill_poison(y.view());
    const auto ran = program->run({{"x", x_.view()}, {"w", w_.view()}, {"a", a}, {"y", y.view()}});
    if (!ran) return ran.error();
    return y;
  }
  // Every element against the product by hand, changed by `wanted`.
  template <class Wanted>
  void expect(const std::string& type, const std::string& expression, const ArgumentValue& a, Wanted&& wanted) {
    const auto y = run(type, expression, a);
    ASSERT_TRUE(y) << type << " " << y.error().render();
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int l = 0; l < k; ++l) {
          const double product = double{x_.view().as<float>()[i * k + l]} * double{w_.view().as<float>()[l * n + j]};
          sum += product;
          size += std::abs(product);
        }
        const double right = wanted(sum), scale = wanted(size) - wanted(0.0);
        EXPECT_NEAR(double{y->view().as<float>()[i * n + j]}, right, 1e-6 * (std::abs(scale) + std::abs(right)))
            << type << " " << i << " " << j;
      }
    }
  }
  void expect_refused(const std::string& type, const ArgumentValue& a, const std::string& headline) {
    const auto y = run(type, type == "bool" ? "where(a, x @ w, 0.0)" : "x @ w * a", a);
    ASSERT_FALSE(y) << type;
    EXPECT_EQ(y.error().code(), 221) << y.error().render();
    EXPECT_EQ(y.error().message(), "error[E0221]: " + headline);
    EXPECT_NE(y.error().diagnostics()[0].where.line, 0U) << y.error().render();
  }

  Context context_;
  Tensor x_, w_;
};

TEST_P(ProgramNumbers, InEveryType) {
  for (const char* type : {"f32", "f64", "f16", "bf16"}) {
    expect(type, "cast(x @ w * a, f32)", 2.5, [](double p) { return 2.5 * p; });
    expect(type, "cast(x @ w * a, f32)", -3, [](double p) { return -3 * p; });
  }
  for (const char* type : {"f8e4m3", "f8e5m2"}) expect(type, "x @ w * a", -1.5, [](double p) { return -1.5 * p; });
  for (const char* type : {"i8", "i16", "i32", "i64"}) {
    expect(type, "x @ w * a", -100, [](double p) { return -100 * p; });
    expect(type, "x @ w + a // 8", -100, [](double p) { return p - 13; });
  }
  for (const char* type : {"u8", "u16", "u32", "u64"}) expect(type, "x @ w * a", 200, [](double p) { return 200 * p; });
  expect("u64", "x @ w + a // 4611686018427387904", UINT64_MAX, [](double p) { return p + 3; });
  expect("u64", "x @ w + where(a == 18446744073709551615, a - 2**63 - (2**63 - 8), a)", UINT64_MAX,
         [](double p) { return p + 7; });
  expect("u64", "x @ w + (a - 18446744073709551610)", UINT64_MAX, [](double p) { return p + 5; });
  expect("i8", "x @ w + (a + 18446744073709551615)", -100, [](double p) { return p - 101; });
  expect("i64", "x @ w + (a + 0xffffffffffffff00)", 1000, [](double p) { return p + 744; });
  expect("f32", "x @ w + a * 9223372036854775808", 0x1p-63, [](double p) { return p + 1; });
  expect("f32", "x @ w + a / 9223372036854775808.0", uint64_t{1} << 63, [](double p) { return p + 1; });
  for (const bool flag : {true, false})
    expect("bool", "where(a, x @ w, x @ w * 4.0)", flag, [&](double p) { return flag ? p : 4 * p; });
  // Rounded to the declared type, as a tensor of it would hold it.
  expect("bf16", "x @ w * a", 1.00390625 + 0.001, [](double p) { return 1.0078125 * p; });
  const Tensor half = Tensor::make(f32, {}).value();
  *half.view().as<float>() = 0.5F;
  expect("f32[()]", "x @ w * a", half, [](double p) { return 0.5 * p; });
}

TEST_P(ProgramNumbers, NextToTensorsInSeveralProducts) {
  const Program program = Program::parse(
                              "def mlp(x: f32[\"m\", 7], w: f32[7, 9], v: f32[9, 3], a: f32, c: i32):\n"
                              "    h = relu(x @ w * a)\n"
                              "    y = h @ v * (a + 1.0) + c\n"
                              "    return y, h\n")
                              .value();
  EXPECT_EQ(program.parameters()[3].type, "f32");
  EXPECT_EQ(program.parameters()[0].type, "f32[m, 7]");
  const CompiledProgram compiled = codetta::compile(program, Target::host(), {}, context_).value();
  const Tensor v = Tensor::make(f32, {n, 3}).value(), y = Tensor::make(f32, {m, 3}).value(),
               h = Tensor::make(f32, {m, n}).value();
  fill_random(v.view(), 13);
  for (const double a : {0.5, -2.0}) {
    ASSERT_TRUE(compiled.run({{"c", 4}, {"x", x_}, {"w", w_}, {"v", v}, {"a", a}, {"y", y}, {"h", h}}));
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < 3; ++j) {
        double sum = 0;
        for (int l = 0; l < n; ++l) {
          double inner = 0;
          for (int q = 0; q < k; ++q)
            inner += double{x_.view().as<float>()[i * k + q]} * double{w_.view().as<float>()[q * n + l]};
          sum += std::max(inner * a, 0.0) * double{v.view().as<float>()[l * 3 + j]};
        }
        EXPECT_NEAR(double{y.view().as<float>()[i * 3 + j]}, sum * (a + 1) + 4, 1e-4);
      }
    }
  }
}

TEST_P(ProgramNumbers, AreRefusedWhereTheyDoNotFit) {
  expect_refused("i32", 2.5, "a is 2.5 but is declared as i32");
  expect_refused("i32", 2.0, "a is 2.0 but is declared as i32");
  expect_refused("i32", -0.0, "a is -0.0 but is declared as i32");
  expect_refused("i64", 1e300, "a is 1e+300 but is declared as i64");
  expect_refused("bool", std::numeric_limits<double>::infinity(), "a is inf but is declared as bool");
  expect_refused("i8", 128, "a is 128 but is declared as i8");
  expect_refused("u64", -1, "a is -1 but is declared as u64");
  expect_refused("i64", uint64_t{1} << 63, "a is 9223372036854775808 but is declared as i64");
  expect_refused("bool", UINT64_MAX, "a is 18446744073709551615 but is declared as bool");
  expect_refused("f32", true, "a is true but is declared as f32");
  expect_refused("bool", 1, "a is 1 but is declared as bool");
  expect_refused("f16", 70000, "a is 70000 but is declared as f16");
  expect_refused("f32", 1e40, "a is 1e+40 but is declared as f32");
  expect_refused("f32", Tensor::make(f32, {}).value(), "a is a tensor but is declared as a number");
  expect_refused("f32[()]", 2.5, "a is a number but is declared as a tensor");
  const auto infinite = run("f32", "x @ w * 0.0 + a", -std::numeric_limits<double>::infinity());
  ASSERT_TRUE(infinite);
  EXPECT_EQ(infinite->view().as<float>()[3], -std::numeric_limits<float>::infinity());
  const auto program = compiled("f32", "x @ w * a");
  ASSERT_TRUE(program);
  const Tensor y = Tensor::make(f32, {m, n}).value();
  const auto unknown = program->run({{"x", x_}, {"w", w_}, {"a", 1}, {"y", y}, {"alhpa", 2}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), 209) << unknown.error().render();
  const auto scalar_output = program->run({{"x", x_}, {"w", w_}, {"a", 1}, {"y", 2}});
  ASSERT_FALSE(scalar_output);
  EXPECT_EQ(scalar_output.error().code(), 213) << scalar_output.error().render();
}

INSTANTIATE_TEST_SUITE_P(Epilogues, ProgramNumbers, ::testing::Bool(),
                         [](const auto& form) { return form.param ? "Interpreted" : "Compiled"; });

}  // namespace
}  // namespace codetta
