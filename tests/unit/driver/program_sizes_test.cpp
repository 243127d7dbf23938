// SPDX-License-Identifier: Apache-2.0
// Sizes that values give: runs against the oracle, plans, and what a run refuses.
#include <gtest/gtest.h>

#include <array>

#include "codetta/extern.h"
#include "frontend/lower.hpp"
#include "ir/bind.hpp"
#include "opt/passes.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

class ProgramSizes : public ::testing::Test {
 protected:
  ProgramOutcome run(const std::string& text, const std::vector<ProgramInput>& inputs,
                     const oracle::OracleOptions& oracle_options = {}, const RunOptions& options = {}) {
    const auto program = Program::parse(text, "p.py");
    EXPECT_TRUE(program) << (program ? "" : program.error().render());
    return program ? run_checked(*program, text, inputs, context_, oracle_options, options) : ProgramOutcome{};
  }
  // What the run says of a program with one output.
  std::string refused(const std::string& text, const std::vector<ProgramInput>& inputs, const RunOptions& options = {},
                      std::optional<int64_t> most_room = {}) {
    return said_of(text, inputs, context_, options, most_room);
  }

  Context context_ = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
};

TEST_F(ProgramSizes, AMultipleGivesASymbolItsValue) {
  const std::string text =
      "def f(x: f32[\"n\", \"2*h\"], z: f32[\"3*h\"]):\n    y = relu(x[:, :h] * x[:, h:] + z[h:2 * h])\n"
      "    s = sum(x, dim=1)\n    return y, s\n";
  for (const int64_t h : {0, 1, 7, 40}) {
    const auto outcome =
        run(text, {random_input("x", DType::f32, {5, 2 * h}, 1), random_input("z", DType::f32, {3 * h}, 2)});
    ASSERT_TRUE(outcome.checked);
    EXPECT_EQ(outcome.outputs[0].view().shape(), (Dims{5, h}));
  }
  const std::string one = "def f(x: f32[\"2*h\"]):\n    y = x[:h] + x[h:]\n    return y\n";
  const std::string odd = refused(one, {random_input("x", DType::f32, {9}, 1)});
  EXPECT_NE(odd.find("error[E0221]: dim 0 of x is 9 but is declared as 2*h"), std::string::npos) << odd;
  const std::string apart =
      refused(text, {random_input("x", DType::f32, {5, 8}, 1), random_input("z", DType::f32, {9}, 2)});
  EXPECT_NE(apart.find("h is 4 (dim 1 of x, which is 2*h)"), std::string::npos) << apart;
}

// A number more or less, also of a multiple, and what has a value in another dim.
TEST_F(ProgramSizes, ASumGivesASymbolItsValue) {
  const std::string text =
      "def f(x: f32[\"h + 2\", \"2*w + 1\"], z: f32[\"h + m\", 3], c: f32[\"k - 1\"]):\n"
      "    y = relu(x[1:1 + h, :w] + x[:h, w:2 * w])\n    t = sum(z[h:], dim=0) * 2.0\n"
      "    u = concat(c, zeros(1), dim=0) + arange(k) * 0.5\n    return y, t, u\n";
  for (const auto& [h, w, m, k] : std::vector<std::array<int64_t, 4>>{{5, 3, 4, 7}, {0, 1, 2, 1}, {33, 0, 1, 20}}) {
    const auto outcome =
        run(text, {random_input("x", DType::f32, {h + 2, 2 * w + 1}, 1), random_input("z", DType::f32, {h + m, 3}, 2),
                   random_input("c", DType::f32, {k - 1}, 3)});
    ASSERT_TRUE(outcome.checked);
    EXPECT_EQ(outcome.outputs[0].view().shape(), (Dims{h, w}));
    EXPECT_EQ(outcome.outputs[2].view().shape(), Dims{k});
  }
  const std::string one = "def f(x: f32[\"2*h + 2\"]):\n    y = x[:h] + x[h:2 * h]\n    return y\n";
  const std::string small = refused(one, {random_input("x", DType::f32, {1}, 1)});
  EXPECT_NE(small.find("error[E0221]: dim 0 of x is 1 but is declared as 2*h + 2"), std::string::npos) << small;
  EXPECT_NE(small.find("note: 1 less 2 is negative, and sizes are 0 or more"), std::string::npos) << small;
  const std::string odd = refused(one, {random_input("x", DType::f32, {9}, 1)});
  EXPECT_NE(odd.find("note: 9 less 2 is no multiple of 2"), std::string::npos) << odd;
  const std::string sum =
      refused(text, {random_input("x", DType::f32, {6, 7}, 1), random_input("z", DType::f32, {3, 3}, 2),
                     random_input("c", DType::f32, {4}, 3)});
  EXPECT_NE(sum.find("error[E0221]: dim 0 of z is 3 but is declared as h + m"), std::string::npos) << sum;
  EXPECT_NE(sum.find("3 less 4 is negative, and sizes are 0 or more; h is 4 (dim 0 of x, which is h + 2)"),
            std::string::npos)
      << sum;
}

constexpr const char* ragged =
    "def ragged(x: f32[\"n\", 16], keep: bool[\"n\"], w: f32[16, 8]):\n"
    "    count = sum(cast(keep, i64), keepdim=False)\n"
    "    y = relu(x[:count] @ w)\n"
    "    out = concat(y, zeros(n - count, 8), dim=0)\n"
    "    return out, count\n";

TEST_F(ProgramSizes, RowsThatCountAreMultiplied) {
  for (const int64_t n : {1, 7, 40}) {
    for (const int64_t kept : {int64_t{0}, n / 2, n}) {
      std::vector<double> keep(static_cast<size_t>(n), 0.0);
      std::fill(keep.begin(), keep.begin() + kept, 1.0);
      const auto outcome =
          run(ragged, {random_input("x", DType::f32, {n, 16}, 1), values_input("keep", DType::boolean, {n}, keep),
                       random_input("w", DType::f32, {16, 8}, 2)});
      ASSERT_TRUE(outcome.checked);
      EXPECT_EQ(*static_cast<const int64_t*>(outcome.outputs[1].view().data()), kept);
    }
  }
}

TEST_F(ProgramSizes, ValuesStandWhereSizesMay) {
  const std::string text =
      "def f(x: f32[\"n\", 4], k: i64[()], a: i32, lengths: u8[3], w: f32[4, 8]):\n"
      "    y = sum(x[:k] @ w, dim=0)\n"
      "    z = sum(x[a:k], dim=0)\n"
      "    m = lengths[1]\n"
      "    e = sum(expand(z, m, a, 4), dim=(0, 1), keepdim=False) + cast(sum(arange(k), keepdim=False), f32)\n"
      "    r = sum(reshape(full(0.5, k * 8), (k, 8)), dim=0) + sum(ones(min(m, k), 1), dim=0)\n"
      "    s = sum(x[k - a:], dim=0) + sum(x[lengths[2]:lengths[2] + 1], dim=0)\n"
      "    return y, z, e, r, s\n";
  for (const int64_t k : {5, 8, 2}) {
    const auto outcome =
        run(text, {random_input("x", DType::f32, {8, 4}, 1),
                   values_input("k", DType::i64, {}, {static_cast<double>(k)}), number_input("a", 2),
                   values_input("lengths", DType::u8, {3}, {9, 3, 7}), random_input("w", DType::f32, {4, 8}, 2)});
    EXPECT_TRUE(outcome.checked) << k;
  }
}

TEST_F(ProgramSizes, PositionsStartAtThem) {
  const std::string text =
      "def f(x: f32[\"n\", 4], k: i64[()], w: f32[4, 8]):\n"
      "    behind = reshape(cast(arange(n + k)[k:], f32), (n, 1))\n"
      "    y = x * behind\n"
      "    z = x @ w + behind\n"
      "    s = sum(softmax(x * 0.25 + behind, dim=0) * cast(reshape(arange(2 * n + k)[n + k:], (n, 1)), f32), dim=0)\n"
      "    return y, z, s\n";
  for (const int64_t k : {0, 3, 70}) {
    const auto outcome = run(
        text, {random_input("x", DType::f32, {9, 4}, 1), values_input("k", DType::i64, {}, {static_cast<double>(k)}),
               random_input("w", DType::f32, {4, 8}, 2)});
    EXPECT_TRUE(outcome.checked) << k;
  }
}

TEST_F(ProgramSizes, BranchesAndLoopsTakeWhatHasSuchASize) {
  const std::string text =
      "def more(i, y):\n    return i < 3\n\n"
      "def step(i, y):\n    return i + 1, y * 2.0\n\n"
      "def up(y):\n    return y + 1.0\n\n"
      "def down(y):\n    return y - 1.0\n\n"
      "def f(x: f32[\"n\", 4], lengths: i32[2]):\n"
      "    k = lengths[0]\n"
      "    i, z = while_loop(more, step, 0, x[:k] + 1.0)\n"
      "    y = sum(cond(sum(z, keepdim=False) > 0.0, up, down, z), dim=0)\n"
      "    return y\n";
  for (const double k : {0, 3, 8}) {
    EXPECT_TRUE(run(text, {random_input("x", DType::f32, {8, 4}, 1), values_input("lengths", DType::i32, {2}, {k, 1})})
                    .checked);
  }
}

TEST_F(ProgramSizes, OneIsDefinedBehindWhatMakesItAndInFrontOfAllThatHasIt) {
  const auto outcome = run(ragged, {random_input("x", DType::f32, {20, 16}, 1),
                                    values_input("keep", DType::boolean, {20}, std::vector<double>(20, 1.0)),
                                    random_input("w", DType::f32, {16, 8}, 2)});
  ASSERT_TRUE(outcome.checked);
  const std::string& plan = outcome.plan;
  const size_t steps = plan.find("steps:\n"), defined = plan.find("  define count = value of count\n");
  ASSERT_NE(defined, std::string::npos) << plan;
  const size_t made = plan.find("with [keep, count]", steps);
  EXPECT_LT(made, defined);
  EXPECT_EQ(plan.find("  check 0 <= count <= n: `x[:count]`, line 3, column 14\n"), plan.find('\n', defined) + 1)
      << plan;
  EXPECT_EQ(plan.find("count x", steps), plan.find("count x", defined)) << plan;
  EXPECT_EQ(plan.find("allocate", steps), plan.find("allocate", defined)) << plan;
}

TEST_F(ProgramSizes, ABoundOutsideOfItsDimIsToldWithItsPlace) {
  const std::string text = "def f(x: f32[\"n\", 4], a: i64, k: i64[()]):\n    y = sum(x[a:k], dim=0)\n    return y\n";
  const auto told = [&](int64_t a, double k) {
    return refused(
        text, {random_input("x", DType::f32, {8, 4}, 1), number_input("a", a), values_input("k", DType::i64, {}, {k})});
  };
  EXPECT_EQ(told(2, 8), "ran");
  EXPECT_EQ(told(8, 8), "ran");
  EXPECT_EQ(told(2, 9),
            "error[E0610]: k must be a to n\n"
            "note: it is 9, and 2 to 8 is wanted; `x[a:k]`, line 2, column 13\n"
            "help: pass values that give a size in this range; slices are never clamped\n");
  EXPECT_NE(told(6, 5).find("it is 5, and 6 to 8 is wanted"), std::string::npos) << told(6, 5);
  EXPECT_EQ(told(-1, 5).rfind("error[E0610]: a is negative\n  --> p.py:1:", 0), 0U) << told(-1, 5);
  EXPECT_EQ(told(0, -3).rfind("error[E0610]: k is negative\n  --> p.py:1:", 0), 0U) << told(0, -3);
  // Of a value in between as the text says it, also in a loop.
  EXPECT_EQ(
      refused("def f(x: f32[\"n\", 4], k: i64[2]):\n    y = sum(x[:k[0] - minimum(k[1], 3)], dim=0)\n    return y\n",
              {random_input("x", DType::f32, {8, 4}, 1), values_input("k", DType::i64, {2}, {4, -3})}),
      "error[E0610]: size_2 is negative\n"
      "  --> p.py:2:23\n"
      "2 |     y = sum(x[:k[0] - minimum(k[1], 3)], dim=0)\n"
      "  |                       ^^^^^^^^^^^^^^^^\n"
      "note: it is -3\n"
      "help: bind tensors whose sizes give a number of at least 0\n");
  const std::string inner = refused(
      "def more(i, x, y):\n    return i < 5\n\n"
      "def step(i, x, y):\n    return i + 1, x, y + sum(x[:minimum(i * 2, 3 - i)], dim=0)\n\n"
      "def f(x: f32[\"n\", 4]):\n    i, a, y = while_loop(more, step, 0, x, zeros(1, 4))\n    return y\n",
      {random_input("x", DType::f32, {8, 4}, 1)});
  EXPECT_NE(inner.find("  --> p.py:5:33\n"), std::string::npos) << inner;
  EXPECT_NE(inner.find("note: it is -1\n"), std::string::npos) << inner;
  const std::string before = "def f(x: f32[\"n\", 4], k: i64):\n    y = sum(x[k - 2:], dim=0)\n    return y\n";
  EXPECT_NE(refused(before, {random_input("x", DType::f32, {8, 4}, 1), number_input("k", 1)})
                .find("-1, and 0 to 8 is wanted"),
            std::string::npos);
  const std::string made = "def f(x: f32[\"n\", 4], k: i64):\n    y = sum(zeros(n - k, 4)) + sum(x)\n    return y\n";
  EXPECT_EQ(refused(made, {random_input("x", DType::f32, {8, 4}, 1), number_input("k", 9)}),
            "error[E0610]: -k + n must be at least 0\n"
            "note: it is -1, and 0 or more is wanted; `zeros(n - k, 4)`, line 2, column 13\n"
            "help: pass values that give a size in this range; slices are never clamped\n");
  const std::string divided = "def f(x: f32[\"n\", 4], k: i64):\n    y = sum(x[:n // k], dim=0)\n    return y\n";
  const auto by_zero = refused(divided, {random_input("x", DType::f32, {8, 4}, 1), number_input("k", 0)});
  EXPECT_NE(by_zero.find("note: it has no value (division by zero), and 0 to 8 is wanted; `x[:n // k]`, line 2"),
            std::string::npos)
      << by_zero;
}

// Of sizes of parameters, too, where it cannot be shown for all of them that a slice lies inside.
TEST_F(ProgramSizes, PartsThatASmallTensorLacksAreCheckedInARun) {
  const std::string text =
      "def f(x: f32[\"n\", 4], z: f32[2, \"m\"], w: f32[4, 8]):\n"
      "    last = softmax(x[-1:] @ w)\n"
      "    shifted = x[1:] - x[:-1]\n"
      "    row = x[n - 1] + z[:, -1:]\n"
      "    joined = sum(x[:m], dim=0) + sum(z[:, n // 4:]) + sum(relu(x @ w)[2:], dim=0)[:, :4]\n"
      "    return last, shifted, row, joined\n";
  for (const auto& [n, m] : {std::pair<int64_t, int64_t>{5, 3}, {2, 1}, {33, 33}}) {
    EXPECT_TRUE(run(text, {random_input("x", DType::f32, {n, 4}, 1), random_input("z", DType::f32, {2, m}, 2),
                           random_input("w", DType::f32, {4, 8}, 3)})
                    .checked)
        << n << " " << m;
  }
  const auto told = [&](int64_t n, int64_t m) {
    return refused(text, {random_input("x", DType::f32, {n, 4}, 1), random_input("z", DType::f32, {2, m}, 2),
                          random_input("w", DType::f32, {4, 8}, 3)});
  };
  EXPECT_EQ(told(3, 4),
            "error[E0610]: m must be 0 to n\n"
            "note: it is 4, and 0 to 3 is wanted; `x[:m]`, line 5, column 18\n"
            "help: pass values that give a size in this range; slices are never clamped\n");
  EXPECT_EQ(told(1, 1),
            "error[E0610]: n must be at least 2\n"
            "note: it is 1, and 2 or more is wanted; `relu(x @ w)[2:]`, line 5, column 59\n"
            "help: pass values that give a size in this range; slices are never clamped\n");
  EXPECT_EQ(told(0, 0).rfind("error[E0221]: size n - 1 of output shifted cannot be\n", 0), 0U) << told(0, 0);
  // What holds for no sizes with elements is a mistake in the text.
  const std::string never = refused("def f(x: f32[\"n\"]):\n    y = x[:2 * n]\n    return y\n", {});
  EXPECT_EQ(never.rfind("error[E0225]: the slice ends at 2*n, but dim 0 of x has the size n\n", 0), 0U) << never;
}

TEST_F(ProgramSizes, TheOracleSaysTheSame) {
  const auto program = Program::parse("def f(x: f32[\"n\"], k: i64):\n    y = sum(x[:k])\n    return y\n", "p.py");
  ASSERT_TRUE(program);
  const Tensor x = Tensor::make(DType::f32, {4}).value();
  const auto said = [&](int64_t k, const std::string& text) {
    const auto parsed = Program::parse(text, "p.py");
    const oracle::OracleInput inputs[] = {x.view(), types::Scalar::from_i64(k)};
    const auto result = oracle::evaluate(Program::Access::state(*parsed)->graph, inputs);
    return result ? std::string("fine") : result.error().diagnostics()[0].headline;
  };
  const auto reason = [&](int64_t k, const std::string& text) {
    const auto parsed = Program::parse(text, "p.py");
    const oracle::OracleInput inputs[] = {x.view(), types::Scalar::from_i64(k)};
    const auto result = oracle::evaluate(Program::Access::state(*parsed)->graph, inputs);
    return result ? std::string("fine") : result.error().diagnostics()[0].reason;
  };
  const std::string text = "def f(x: f32[\"n\"], k: i64):\n    y = sum(x[:k])\n    return y\n";
  EXPECT_EQ(said(4, text), "fine");
  EXPECT_EQ(said(5, text), "k must be 0 to n");
  EXPECT_EQ(said(-1, text), "k is negative");
  EXPECT_EQ(reason(0, "def f(x: f32[\"n\"], k: i64):\n    y = sum(x[:n // k])\n    return y\n"),
            "it has no value (division by zero), and 0 to 4 is wanted");
  // A size of which roundings leave several is none that kernels could be judged by.
  EXPECT_EQ(said(1,
                 "def f(x: f32[\"n\"], k: i64):\n    s = cast(sum(x * 0.3 + 1.0 / 3.0, keepdim=False) * 3.0, i64)\n"
                 "    y = sum(ones(s)) + cast(k, f32)\n    return y\n"),
            "the size s is not certain");
}

// Of the first `rows` rows with a positive first element.
int positive_rows(void*, const CodettaTensor* inputs, int, CodettaTensor* outputs, int count) {
  if (count != 1) return 1;
  const auto* x = static_cast<const float*>(inputs[0].data);
  std::vector<float> kept;
  int64_t rows = 0;
  for (int64_t r = 0; r < inputs[0].shape[0]; ++r) {
    const float* row = x + r * inputs[0].strides[0];
    if (row[0] <= 0) continue;
    for (int64_t c = 0; c < inputs[0].shape[1]; ++c) kept.push_back(row[c * inputs[0].strides[1]]);
    ++rows;
  }
  auto* memory = new float[kept.size() + 1];
  std::copy(kept.begin(), kept.end(), memory);
  outputs[0].data = memory;
  outputs[0].dtype = static_cast<int32_t>(DType::f32);
  outputs[0].rank = 2;
  outputs[0].shape[0] = rows;
  outputs[0].shape[1] = outputs[0].strides[0] = inputs[0].shape[1];
  outputs[0].strides[1] = 1;
  outputs[0].owner = memory;
  outputs[0].release = [](CodettaTensor* tensor) { delete[] static_cast<float*>(tensor->owner); };
  return 0;
}

TEST_F(ProgramSizes, AFunctionReturnsAsManyRowsAsItLikes) {
  const std::string text =
      "def f(x: f32[\"n\", 4], w: f32[4, 8]):\n"
      "    kept = call_extern(\"positive_rows\", x, out=\"f32[k, 4]\", form=\"alloc\")\n"
      "    y = sum(kept @ w, dim=0) + sum(ones(k, 8), dim=0)\n"
      "    z = sum(x[:k], dim=0)\n"
      "    return y, z\n";
  const ProgramInput x = values_input("x", DType::f32, {3, 4}, {1, 2, 3, 4, -1, 5, 6, 7, 2, 8, 9, 10});
  RunOptions options;
  options.externs = {{"positive_rows", positive_rows, nullptr}};
  oracle::OracleOptions truth;
  truth.sizes = {{"k", 2}};
  truth.functions["positive_rows"] = [&](std::span<const TensorView> in,
                                         std::span<const TensorView> out) -> Result<void> {
    const auto* from = static_cast<const float*>(in[0].data());
    auto* to = static_cast<float*>(out[0].data());
    std::copy(from, from + 4, to);
    std::copy(from + 8, from + 12, to + 4);
    return {};
  };
  const auto outcome = run(text, {x, random_input("w", DType::f32, {4, 8}, 2)}, truth, options);
  EXPECT_TRUE(outcome.checked);
  EXPECT_NE(outcome.plan.find("define k = "), std::string::npos) << outcome.plan;
  // Without the size the oracle does not guess.
  const auto parsed = Program::parse(text, "p.py");
  const Tensor w = Tensor::make(DType::f32, {4, 8}).value();
  const oracle::OracleInput inputs[] = {x.view(), w.view()};
  const auto unknown = oracle::evaluate(Program::Access::state(*parsed)->graph, inputs);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().diagnostics()[0].headline, "the size k is not known here");
  // Of the caller's memory the size has to be known.
  EXPECT_EQ(
      refused("def f(x: f32[\"n\", 4]):\n    y = sum(call_extern(\"g\", x, out=\"f32[k, 4]\"))\n    return y\n", {x})
          .substr(0, 12),
      "error[E0224]");
}

// [rows, cols] of ones, and three numbers.
int ones_of_two_sizes(void* sizes, const CodettaTensor*, int, CodettaTensor* outputs, int count) {
  if (count != 2) return 1;
  const auto* size = static_cast<const int64_t*>(sizes);
  const int64_t shapes[2][2] = {{size[0], size[1]}, {3, 1}};
  for (int o = 0; o < 2; ++o) {
    const auto elements = static_cast<size_t>(shapes[o][0] * shapes[o][1]);
    auto* memory = new float[elements + 1];
    std::fill(memory, memory + elements, o == 0 ? 1.0F : 0.5F);
    outputs[o].data = outputs[o].owner = memory;
    outputs[o].dtype = static_cast<int32_t>(DType::f32);
    outputs[o].rank = o == 0 ? 2 : 1;
    outputs[o].shape[0] = shapes[o][0];
    outputs[o].shape[1] = outputs[o].strides[0] = shapes[o][1];
    outputs[o].strides[1] = 1;
    outputs[o].release = [](CodettaTensor* tensor) { delete[] static_cast<float*>(tensor->owner); };
  }
  return 0;
}

TEST_F(ProgramSizes, AFunctionReturnsSeveralSizes) {
  const ProgramInput x = random_input("x", DType::f32, {8, 3}, 1);
  int64_t sizes[] = {5, 2};
  RunOptions options;
  options.externs = {{"two", ones_of_two_sizes, sizes}};
  for (const auto& [rows, cols] : {std::pair("rows", "cols"), std::pair("b", "a")}) {  // named in either order
    for (const bool whole : {true, false}) {  // without the result that has them only another one is read
      const std::string text = "def f(x: f32[\"n\", 3]):\n    t, three = call_extern(\"two\", x, out=(\"f32[" +
                               std::string(rows) + ", " + cols + "]\", \"f32[3]\"), form=\"alloc\")\n    y = sum(x[" +
                               cols + ":" + rows + "], dim=0) + three" + (whole ? " + sum(t)" : "") +
                               "\n    return y\n";
      oracle::OracleOptions truth;
      truth.sizes = {{rows, sizes[0]}, {cols, sizes[1]}};
      truth.functions["two"] = [](std::span<const TensorView>, std::span<const TensorView> out) -> Result<void> {
        for (size_t o = 0; o < out.size(); ++o)
          std::fill_n(static_cast<float*>(out[o].data()), out[o].element_count(), o == 0 ? 1.0F : 0.5F);
        return {};
      };
      EXPECT_TRUE(run(text, {x}, truth, options).checked) << text;
      sizes[1] = 6;
      EXPECT_NE(refused(text, {x}, options).find("it is 5, and 6 to 8 is wanted"), std::string::npos) << text;
      sizes[1] = 2;
    }
  }
}

// A function of the text that is called twice: what its extern function returns has a size of its own in each call.
TEST_F(ProgramSizes, EachCallOfAFunctionHasItsOwnRows) {
  const std::string text =
      "def kept(x):\n    rows = call_extern(\"positive_rows\", x, out=\"f32[k, 4]\", form=\"alloc\")\n"
      "    return sum(rows * 2.0, dim=0) + sum(ones(k, 4), dim=0) + sum(reshape(rows, (\"k\", 4)), dim=0)\n\n"
      "def f(x: f32[\"n\", 4], y: f32[\"m\", 4]):\n    a = kept(x)\n    b = kept(y)\n    return a, b\n";
  RunOptions options;
  options.externs = {{"positive_rows", positive_rows, nullptr}};
  oracle::OracleOptions truth;
  truth.sizes = {{"k", 2}, {"k_2", 1}};
  truth.functions["positive_rows"] = [](std::span<const TensorView> in,
                                        std::span<const TensorView> out) -> Result<void> {
    const auto* from = static_cast<const float*>(in[0].data());
    auto* to = static_cast<float*>(out[0].data());
    for (int64_t row = 0; row < in[0].size(0); ++row) {
      if (from[row * 4] > 0) to = std::copy(from + row * 4, from + row * 4 + 4, to);
    }
    return {};
  };
  const auto outcome = run(text,
                           {values_input("x", DType::f32, {3, 4}, {1, 2, 3, 4, -1, 5, 6, 7, 2, 8, 9, 10}),
                            values_input("y", DType::f32, {2, 4}, {-5, 1, 1, 1, 3, 4, 5, 6})},
                           truth, options);
  EXPECT_TRUE(outcome.checked);
  EXPECT_EQ(static_cast<const float*>(outcome.outputs[0].view().data())[0], 3.0F * 3 + 2);
  EXPECT_EQ(static_cast<const float*>(outcome.outputs[1].view().data())[0], 3.0F * 3 + 1);
}

// What texts of sizes mean in a call of a function, in functions that it calls, and in its branches.
TEST_F(ProgramSizes, NamesOfSizesAreThoseOfTheCall) {
  const auto plan_of = [](const std::string& text) {
    const auto program = Program::parse(text, "p.py");
    return program ? program->emit(Stage::Graph).value() : program.error().render();
  };
  const std::string kept =
      "def kept(x):\n    rows = call_extern(\"rows_of\", x, out=\"f32[k, 4]\", form=\"alloc\")\n    return rows\n\n";
  const std::string branches =
      "def scaled(x): return call_extern(\"scale\", x, out=\"f32[k, 4]\")\n"
      "def scaled2(x): return call_extern(\"scale2\", x, out=\"f32[k, 4]\")\n"
      "def chosen(x, flag):\n    rows = call_extern(\"rows_of\", x, out=\"f32[k, 4]\", form=\"alloc\")\n"
      "    return sum(cond(flag, scaled, scaled2, rows), dim=0) + sum(scaled(rows), dim=0)\n"
      "def f(x: f32[\"n\", 4], y: f32[\"m\", 4], flag: bool[()]):\n"
      "    a = chosen(x, flag)\n    b = chosen(y, flag)\n    return a, b\n";
  const std::string two = plan_of(branches);
  EXPECT_EQ(two.find("error"), std::string::npos) << two;
  const size_t second = two.find("f32[k_2, 4]");
  ASSERT_NE(second, std::string::npos) << two;
  EXPECT_EQ(two.find("f32[k, 4]", second), std::string::npos) << "the second call has no size of the first\n" << two;
  // A size that a value gives is no new one.
  const std::string given = plan_of(
      "def f(x: f32[\"n\", 4], count: i64[()]):\n"
      "    rows = call_extern(\"first_rows\", x, out=\"f32[count, 4]\", form=\"alloc\")\n"
      "    y = sum(rows + x[:count], dim=0)\n    return y\n");
  EXPECT_EQ(given.find("error"), std::string::npos) << given;
  EXPECT_EQ(given.find("count_2"), std::string::npos) << given;
  // A value of this function comes before a size of another one.
  const std::string own =
      plan_of(kept +
              "def f(x: f32[\"n\", 4], j: i64[()]):\n    a = sum(kept(x), dim=0)\n    k = j + 1\n"
              "    y = sum(call_extern(\"first\", x, out=\"f32[k, 4]\") + zeros(k, 4), dim=0)\n    return a, y\n");
  EXPECT_NE(own.find("f32[k_2, 4] = call_extern(symbol=\"first\""), std::string::npos) << own;
  // Names that are made up are none of the text's.
  const std::string apart =
      plan_of(kept +
              "def both(x):\n    p, q = call_extern(\"two\", x, out=(\"f32[k, 4]\", \"f32[k_2, 4]\"), form=\"alloc\")\n"
              "    return sum(p, dim=0), sum(q, dim=0)\n\n"
              "def f(x: f32[\"n\", 4]):\n    a = sum(kept(x), dim=0)\n    b, c = both(x)\n    return a, b, c\n");
  EXPECT_EQ(apart.find("error"), std::string::npos) << apart;
  EXPECT_NE(apart.find("f32[k_3, 4]"), std::string::npos) << apart;
  EXPECT_NE(apart.find("f32[k_2, 4]"), std::string::npos) << apart;
}

TEST_F(ProgramSizes, ANumberBeyondSizesIsToldAsItIs) {
  const std::string text = "def f(x: f32[\"n\", 4], k: u64[()]):\n    y = sum(x[:k], dim=0)\n    return y\n";
  ProgramInput k = values_input("k", DType::u64, {}, {0});
  *static_cast<uint64_t*>(k.view().data()) = UINT64_MAX - 1;
  EXPECT_EQ(refused(text, {random_input("x", DType::f32, {8, 4}, 1), k}),
            "error[E0610]: k is too large\n"
            "  --> p.py:1:23\n"
            "1 | def f(x: f32[\"n\", 4], k: u64[()]):\n"
            "  |                       ^\n"
            "note: k is 18446744073709551614, and sizes are up to 9223372036854775807\n"
            "help: pass values that give a smaller size\n");
}

TEST_F(ProgramSizes, ASizeThatIsDividedByIsZero) {
  const std::string text =
      "def f(x: f32[\"n\", 4], z: f32[\"m\", 4]):\n    y = zeros(n // m, 4) + sum(x, dim=0) + sum(z, dim=0)\n"
      "    return y\n";
  const std::string said =
      refused(text, {random_input("x", DType::f32, {8, 4}, 1), random_input("z", DType::f32, {0, 4}, 2)});
  EXPECT_NE(said.find("error[E0221]: size n // m of output y cannot be"), std::string::npos) << said;
  EXPECT_NE(said.find("division by zero"), std::string::npos) << said;
  const std::string inner =
      "def f(x: f32[\"n\", 4], z: f32[\"m\", 4]):\n"
      "    y = sum(zeros(n // m, 4), dim=0) + sum(x, dim=0) + sum(z, dim=0)\n    return y\n";
  EXPECT_EQ(refused(inner, {random_input("x", DType::f32, {8, 4}, 1), random_input("z", DType::f32, {0, 4}, 2)}),
            "error[E0610]: the number of rows has no value\n"
            "note: n // m: division by zero, with m = 0, n = 8\n"
            "help: bind tensors of sizes for which it has one\n");
}

TEST_F(ProgramSizes, NamesAreAsLongAsThoseOfVariables) {
  const auto said = [&](size_t length) {
    const std::string name(length, 'n');
    return refused(
        "def f(x: f32[\"" + name + " // 2\", 4], z: f32[\"" + name + "\"]):\n    y = relu(x) + sum(z)\n    return y\n",
        {random_input("x", DType::f32, {2, 4}, 1), random_input("z", DType::f32, {4}, 2)});
  };
  EXPECT_EQ(said(255), "ran");
  for (const size_t length : {256, 5000}) {
    const std::string text = said(length);
    EXPECT_EQ(text.rfind("error[E0144]: the size " + std::string(32, 'n') + "... has a name of " +
                             std::to_string(length) + " characters\n",
                         0),
              0U)
        << text;
    EXPECT_NE(text.find("names have at most 255 characters"), std::string::npos) << text;
  }
  ProgramBuilder b("f");
  b.output("y", call("relu", {b.input("x", DType::f32, {std::string(256, 'n')})}));
  const auto built = b.finish();
  ASSERT_FALSE(built);
  EXPECT_NE(built.error().render().find("has a name of 256 characters"), std::string::npos) << built.error().render();
}

TEST_F(ProgramSizes, AnIndexThatWasFoldedIsToldWhereItIsRead) {
  const std::string said =
      refused("def f(x: f32[\"n\", 4]):\n    k = full(100, 3, dtype=i64)\n    y = take(x, k)\n    return y\n",
              {random_input("x", DType::f32, {8, 4}, 1)});
  EXPECT_EQ(said.rfind("error[E0618]: index 100 is out of range for the size 8\n  --> p.py:2:9\n", 0), 0U) << said;
}

TEST_F(ProgramSizes, AnIndexOfALoopOrABranchIsToldWhereItIsRead) {
  const std::string loop =
      "def more(i, x, y):\n    return i < 5\n\n"
      "def step(i, x, y):\n    r = take(x, reshape(i, (1,)))\n    return i + 1, x, y + r\n\n"
      "def f(x: f32[\"n\", 4]):\n    i, a, y = while_loop(more, step, 0, x, zeros(1, 4))\n    return y\n";
  const std::string carried = refused(loop, {random_input("x", DType::f32, {3, 4}, 1)});
  EXPECT_EQ(carried.rfind("error[E0618]: index 3 is out of range for the size 3\n  --> p.py:5:9\n", 0), 0U) << carried;
  const std::string branch =
      "def up(x, k):\n    j = k * 2\n    return take(x, j)\n\ndef down(x, k):\n    return x[:1]\n\n"
      "def f(x: f32[\"n\", 4], k: i64[1], p: bool):\n    y = cond(p, up, down, x, k)\n    return y\n";
  const std::vector<ProgramInput> inputs{random_input("x", DType::f32, {3, 4}, 1),
                                         values_input("k", DType::i64, {1}, {4}), number_input("p", true)};
  const std::string inside = refused(branch, inputs);
  EXPECT_EQ(inside.rfind("error[E0618]: index 8 is out of range for the size 3\n  --> p.py:2:9\n", 0), 0U) << inside;
  EXPECT_NE(inside.find("it stands at [0] of j"), std::string::npos) << inside;
}

// Of a slice that a run checks, in steps.
TEST_F(ProgramSizes, AStepThroughTheRestOfADim) {
  const std::string rest = "def f(x: f32[\"n\", 4]):\n    y = relu(x[2:][::3])\n    return y\n",
                    pairs = "def f(x: f32[\"n\", 4], z: f32[\"2*n\", 4]):\n    y = z[1:][::2] + x\n    return y\n";
  for (const int64_t n : {2, 3, 5, 8}) {
    EXPECT_TRUE(run(rest, {random_input("x", DType::f32, {n, 4}, 1)}).checked);
    const std::vector<ProgramInput> two{random_input("x", DType::f32, {n, 4}, 1),
                                        random_input("z", DType::f32, {2 * n, 4}, 2)};
    EXPECT_TRUE(run(pairs, two).checked);
  }
  const std::string said = refused(rest, {random_input("x", DType::f32, {1, 4}, 1)});
  EXPECT_NE(said.find("error[E0"), std::string::npos) << said;
}

// Floors of floors show nothing, but every third element of all there are lies inside.
TEST_F(ProgramSizes, AStepThroughWhatAStepTook) {
  const std::string steps =
      "def f(x: f32[\"n\", 4], w: f32[4, 8]):\n    y = (x[::3][::2] @ w)[::2][::2]\n    return y\n";
  for (const int64_t n : {0, 1, 5, 6, 7, 25})
    EXPECT_TRUE(
        run(steps, {random_input("x", DType::f32, {n, 4}, 1), random_input("w", DType::f32, {4, 8}, 2)}).checked)
        << n;
}

// So that a run with random values is not refused for those.
TEST_F(ProgramSizes, WhatIsDrawnForASizeIsAllowed) {
  const auto drawn = [](const std::string& parameters, const std::string& value,
                        const std::vector<NamedArgument>& given = {}) {
    const auto program =
        Program::parse("def f(x: f32[\"n\", 4], " + parameters + "):\n    y = " + value + "\n    return y\n", "p.py");
    EXPECT_TRUE(program) << program.error().render();
    std::vector<std::pair<int64_t, int64_t>> ranges;
    const auto missing = program->missing(given, {{"n", 10}}, 16);
    EXPECT_TRUE(missing) << missing.error().render();
    for (size_t i = 1; i < missing->size(); ++i)
      ranges.emplace_back((*missing)[i].index_least, (*missing)[i].index_limit);
    return ranges;
  };
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(drawn("k: i64", "relu(x[:k])"), (Ranges{{0, 11}}));
  EXPECT_EQ(drawn("k: i64[()]", "relu(x[k - 2:])"), (Ranges{{2, 13}}));
  EXPECT_EQ(drawn("k: i32", "relu(x[:2 * k])"), (Ranges{{0, 6}}));
  EXPECT_EQ(drawn("a: i64, b: i64", "relu(x[a:b])"), (Ranges{{0, 6}, {5, 11}}));
  EXPECT_EQ(drawn("a: i64, b: i64", "relu(x[a:a + b])"), (Ranges{{0, 6}, {0, 6}})) << "both fit, whatever they are";
  EXPECT_EQ(drawn("a: i64, b: i32", "relu(x[a:a + 2 * b])"), (Ranges{{0, 4}, {0, 4}}));
  EXPECT_EQ(drawn("l: i64[2]", "relu(x[l[0] + l[1]:])"), (Ranges{{0, 6}}));
  EXPECT_EQ(drawn("a: i64, b: i64", "relu(x[a - b:a])"), (Ranges{{0, 1}, {0, 1}}));
  EXPECT_EQ(drawn("a: i64, b: i64", "relu(x[a:a + b])", {{"a", 7}}), (Ranges{{0, 4}}));
  EXPECT_EQ(drawn("k: i64", "zeros(n - k, 4) * sum(x)"), (Ranges{{0, 11}}));
  EXPECT_EQ(drawn("k: i64", "zeros(k, 4) * sum(x)"), (Ranges{{0, 17}}));
  EXPECT_EQ(drawn("k: i64", "relu(x[:k - 20])"), (Ranges{{20, 31}})) << "where no small one is allowed";
  EXPECT_EQ(drawn("k: i64", "zeros(k - 100, 4) * sum(x)"), (Ranges{{100, 117}}));
  EXPECT_EQ(drawn("k: i64", "relu(x[:k - 2000])"), (Ranges{{0, 17}})) << "the run says why none will do";
  // Of a type that holds less.
  EXPECT_EQ(drawn("i: i8[5], w: f32[200, 4]", "take(w, i, 0) * sum(x)")[0], std::pair(int64_t{0}, int64_t{128}));
  EXPECT_EQ(drawn("i: u8[5], w: f32[300, 4]", "take(w, i, 0) * sum(x)")[0], std::pair(int64_t{0}, int64_t{256}));
  EXPECT_EQ(drawn("i: i16[5], w: f32[300, 4]", "take(w, i, 0) * sum(x)")[0], std::pair(int64_t{0}, int64_t{300}));
  EXPECT_EQ(drawn("a: i8, b: i8, w: f32[400, 4]", "w[a:b] * sum(x)"), (Ranges{{0, 128}, {127, 128}, {0, 0}}));
}

// Through what hands indices on, chooses between them, or moves them by a number.
TEST_F(ProgramSizes, WhatIsDrawnForAnIndexIsInRange) {
  const auto drawn = [](const std::string& parameters, const std::string& value) {
    const auto program =
        Program::parse("def f(x: f32[\"n\", 4], " + parameters + "):\n    y = " + value + "\n    return y\n", "p.py");
    EXPECT_TRUE(program) << program.error().render();
    std::vector<std::pair<int64_t, int64_t>> ranges;
    const auto missing = program->missing({}, {{"n", 10}}, 16);
    EXPECT_TRUE(missing) << missing.error().render();
    for (size_t i = 1; i < missing->size(); ++i)
      ranges.emplace_back((*missing)[i].index_least, (*missing)[i].index_limit);
    return ranges;
  };
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(drawn("i: i64[5], m: bool[5]", "take(x, where(m, i, 0))"), (Ranges{{0, 10}, {0, 0}}));
  EXPECT_EQ(drawn("i: i64[5], j: i64[5]", "take(x, where(i < j, minimum(i, 3), j))"), (Ranges{{0, 10}, {0, 10}}));
  EXPECT_EQ(drawn("i: i32[5]", "take(x, cast(clamp(i, 0, 3), i64))"), (Ranges{{0, 10}}));
  EXPECT_EQ(drawn("i: i64[5]", "take(x, i - 1)"), (Ranges{{1, 11}}));
  EXPECT_EQ(drawn("i: i64[5]", "take(x, 2 + i)"), (Ranges{{-2, 8}}));
  EXPECT_EQ(drawn("i: u8[5]", "take(x, i + 1)"), (Ranges{{0, 9}})) << "of its type, too";
  EXPECT_EQ(drawn("i: i64[5]", "take(x, i + 20)"), (Ranges{{0, 0}})) << "the run says what will do";
  EXPECT_EQ(drawn("i: i64[5]", "take(x, 3 * i + 1)"), (Ranges{{0, 3}}));
  EXPECT_EQ(drawn("i: i32[5]", "take(x, (i - 8) // 4)"), (Ranges{{8, 48}}));
  EXPECT_EQ(drawn("i: i64[5]", "take(x, 12 - i)"), (Ranges{{3, 13}}));
  EXPECT_EQ(drawn("p: i64[7], i: i64[3]", "take(x, take(p, i))"), (Ranges{{0, 10}, {0, 7}}));
  EXPECT_EQ(drawn("a: i64[2], b: i64[3]", "take(x, concat(a, b, dim=0))"), (Ranges{{0, 10}, {0, 10}}));
  EXPECT_EQ(drawn("p: i64[6], i: i64[2], v: i64[2]", "take(x, index_put(p, i, v))"),
            (Ranges{{0, 10}, {0, 6}, {0, 10}}));
  // Through a chain in which each step may move it: its paths are too many to go each of them.
  std::string chain = "i";
  for (int k = 0; k < 30; ++k) chain = "twice(" + chain + ", m, " + std::to_string(1 << k) + ")";
  const auto stepped = Program::parse(
      "def twice(a, m, by):\n    return where(m, a, a + by)\n\ndef f(x: f32[\"n\", 4], i: i64[5], m: bool[5]):\n"
      "    y = take(x, " +
          chain + ")\n    return y\n",
      "p.py");
  ASSERT_TRUE(stepped) << stepped.error().render();
  const auto missing = stepped->missing({}, {{"n", 10}}, 16);
  ASSERT_TRUE(missing) << missing.error().render();
  EXPECT_EQ(std::pair((*missing)[1].index_least, (*missing)[1].index_limit), std::pair(int64_t{0}, int64_t{1}));
  // Lengths and labels.
  EXPECT_EQ(drawn("l: i64[3]", "cast(arange(n) < unsqueeze(l, 1), f32) @ x"), (Ranges{{1, 11}}));
  EXPECT_EQ(drawn("l: i32[3]", "cast(unsqueeze(l, 1) >= arange(n), f32) @ x"), (Ranges{{0, 11}}));
  EXPECT_EQ(drawn("t: i64[3]", "cast(unsqueeze(t, 1) == arange(n), f32) @ x"), (Ranges{{0, 10}}));
}

TEST_F(ProgramSizes, ATypeInATextNamesValuesOfItsOwnFunction) {
  const std::string text =
      "def head(x, k):\n    y = call_extern(\"first\", x, out=\"f32[k]\")\n"
      "    return sum(y * 2.0, keepdim=False) + sum(reshape(y, (\"k\", 1)), keepdim=False)\n\n"
      "def f(x: f32[\"n\"], lengths: i64[2]):\n"
      "    a = head(x, lengths[0])\n    b = head(x, lengths[1])\n    return a, b\n";
  RunOptions options;
  const auto first = [](void*, const CodettaTensor* inputs, int, CodettaTensor* outputs, int) {
    std::copy_n(static_cast<const float*>(inputs[0].data), outputs[0].shape[0], static_cast<float*>(outputs[0].data));
    return 0;
  };
  options.externs = {{"first", first, nullptr}};
  oracle::OracleOptions truth;
  truth.functions["first"] = [](std::span<const TensorView> in, std::span<const TensorView> out) -> Result<void> {
    std::copy_n(static_cast<const float*>(in[0].data()), out[0].size(0), static_cast<float*>(out[0].data()));
    return {};
  };
  const auto outcome =
      run(text, {values_input("x", DType::f32, {4}, {1, 2, 4, 8}), values_input("lengths", DType::i64, {2}, {3, 1})},
          truth, options);
  ASSERT_TRUE(outcome.checked);
  EXPECT_EQ(outcome.outputs[0].view().as<float>()[0], 21);
  EXPECT_EQ(outcome.outputs[1].view().as<float>()[0], 3);
}

TEST_F(ProgramSizes, TheSameExpressionIsTheSameSize) {
  const std::string text =
      "def f(x: f32[\"n\", 4], y: f32[\"n\", 4], lengths: i64[2], keep: bool[\"n\"]):\n"
      "    a = sum(x[:lengths[0]] + y[:lengths[0]], dim=0)\n"
      "    b = sum(x[:sum(cast(keep, i64), keepdim=False)] * y[:sum(cast(keep, i64), keepdim=False)], dim=0)\n"
      "    return a, b\n";
  const auto outcome = run(text, {random_input("x", DType::f32, {6, 4}, 1), random_input("y", DType::f32, {6, 4}, 2),
                                  values_input("lengths", DType::i64, {2}, {3, 5}),
                                  values_input("keep", DType::boolean, {6}, {1, 0, 1, 1, 1, 0})});
  EXPECT_TRUE(outcome.checked);
  // Another element is another size.
  EXPECT_EQ(refused("def f(x: f32[\"n\"], lengths: i64[2]):\n    y = x[:lengths[0]] + x[:lengths[1]]\n"
                    "    z = sum(y)\n    return z\n",
                    {})
                .substr(0, 12),
            "error[E0207]");
}

ir::Graph graph_of(const std::string& text) {
  const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", text));
  return ir::bind_program(*function).value();
}

TEST(Sizes, GraphsAndTextsAreReadBackAsTheyArePrinted) {
  opt::RunOptions verified;
  verified.verify = true;
  const std::string texts[] = {
      ragged,
      "def f(x: f32[\"n\", 4], n: i64, keep: bool[\"n\"]):\n    a = sum(x[:n], dim=0)\n"
      "    b = sum(x[:sum(cast(keep, i32), keepdim=False)], dim=0)\n    return a, b\n",
      "def head(x, k):\n    part = x[:k]\n    return sum(part, dim=0)\n\n"
      "def f(x: f32[\"n\", 4], lengths: i64[2]):\n    a = head(x, lengths[0])\n    b = head(x, lengths[1] // 2)\n"
      "    return a, b\n",
      "def f(x: f32[\"n\", 4]):\n    y = call_extern(\"g\", x, out=(\"f32[k, 4]\", \"f32[m]\"), form=\"alloc\")[0:1]\n"
      "    return y\n",
  };
  for (size_t i = 0; i < 3; ++i) {
    const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", texts[i]));
    ASSERT_TRUE(function) << function.error().render();
    const std::string printed = ir::print(*function);
    const auto again = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", printed));
    ASSERT_TRUE(again) << again.error().render() << printed;
    EXPECT_TRUE(ir::equivalent(*function, *again)) << printed;
    EXPECT_EQ(ir::print(*again), printed);
    const ir::Graph graph = graph_of(texts[i]);
    const auto read = ir::parse_graph(std::make_shared<const diag::SourceText>("g", ir::print(graph)));
    ASSERT_TRUE(read) << read.error().render();
    EXPECT_TRUE(*read == graph) << ir::print(graph);
    const auto optimized = opt::optimize(graph, verified);
    ASSERT_TRUE(optimized) << optimized.error().render();
  }
}

TEST(Sizes, AGraphWithoutItsSourceOrWithTwoIsNone) {
  const auto said = [](const std::string& text) {
    const auto read = ir::parse_graph(std::make_shared<const diag::SourceText>("g", text));
    return read ? std::string("fine") : read.error().diagnostics()[0].headline;
  };
  const std::string inputs = "%0:f32[n] = input \"x\"\n%1:i64[] = input \"k\"\n";
  EXPECT_EQ(said(inputs + "%2:i64[] = size_value(symbol=k) %1\n"
                          "%3:f32[k] = slice(dim=0, start=0, count=k, step=1, checked) %0\n"
                          "%4:f32[1] = reduce_sum(dims=[0]) %3\noutput \"y\": f32 = %4\n"),
            "fine");
  EXPECT_EQ(
      said(inputs + "%2:i64[] = size_value(symbol=k) %1\n%3:i64[] = add %1, %1\n%4:i64[] = size_value(symbol=k) %3\n"
                    "%5:f32[k] = slice(dim=0, start=0, count=k, step=1, checked) %0\n"
                    "%6:i64[] = add %4, %2\noutput \"y\": f32 = %5\noutput \"z\": i64 = %6\n"),
      "size k has a value already");
  EXPECT_EQ(said(inputs + "%2:i64[] = size_value(symbol=k) %1\n"
                          "%3:f32[k] = slice(dim=0, start=0, count=k, step=1) %0\noutput \"y\": f32 = %3\n"),
            "the attribute of slice is not in normal form");
  EXPECT_EQ(said(inputs + "%2:f32[n] = slice(dim=0, start=0, count=n, step=1, checked) %0\noutput \"y\": f32 = %2\n"),
            "a slice is checked in a run");
  EXPECT_EQ(said(inputs + "%2:i64[] = size_value(symbol=3) %1\noutput \"y\": i64 = %2\n"), "a size has no name");
  EXPECT_EQ(said(inputs + "%2:i64[] = size_value(symbol=k) %0\noutput \"y\": i64 = %2\n"), "x cannot be a size");
  EXPECT_EQ(said(inputs + "%2:f32[k] = slice(dim=0, start=0, count=k, step=2, checked) %0\noutput \"y\": f32 = %2\n"),
            "the slice has a step, and starts at 0, but dim 0 of x has the size n");
}

TEST(Sizes, OfTheBuilderAreThoseOfTexts) {
  ProgramBuilder b("ragged");
  const auto x = b.input("x", DType::f32, {"n", 16});
  const auto lengths = b.input("lengths", DType::i64, {2});
  const auto k = call("squeeze", {lengths.slice(0, 0, 1), 0});
  const auto y = x.slice(0, 0, k);
  b.output("y", call("concat", {y, b.call("zeros", {Size("n") - Size(k), 16})}, {{"dim", 0}}));
  const auto program = b.finish();
  ASSERT_TRUE(program) << program.error().render();
  EXPECT_EQ(program->outputs()[0].type, "f32[n, 16]");
  ProgramBuilder wrong("f");
  const auto z = wrong.input("z", DType::f32, {"n", 16});
  wrong.output("y", call("sum", {z.slice(0, 0, z)}));
  const auto refused = wrong.finish();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().diagnostics()[0].headline, "the value cannot be a size");
}

}  // namespace
}  // namespace codetta::test
