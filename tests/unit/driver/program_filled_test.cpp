// SPDX-License-Identifier: Apache-2.0
// Outputs whose sizes a run computes: the room that the caller gives, what is filled of it, and what is told.
#include <gtest/gtest.h>

#include "codetta/extern.h"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

class ProgramFilled : public ::testing::Test {
 protected:
  ProgramOutcome run(const std::string& text, const std::vector<ProgramInput>& inputs,
                     const oracle::OracleOptions& truth = {}, const RunOptions& options = {}) {
    return run_checked(text, inputs, context_, truth, options);
  }
  CompiledProgram compiled(const std::string& text) {
    return compile(Program::parse(text, "p.py").value(), Target::host(), {}, context_).value();
  }
  static std::string said(const Result<Execution>& prepared) {
    if (!prepared) return prepared.error().render();
    Execution execution = *prepared;
    const auto ran = execution.run();
    return ran ? "ran" : ran.error().render();
  }

  Context context_ = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
};

ProgramInput size_input(const std::string& name, int64_t value) {
  return values_input(name, DType::i64, {}, {static_cast<double>(value)});
}

constexpr const char* head =
    "def head(x: f32[\"n\", 4], k: i64[()], w: f32[4, 8]):\n"
    "    y = relu(x[:k] @ w)\n"
    "    return y\n";

TEST_F(ProgramFilled, OutputsHaveAsManyRowsAsTheRunComputes) {
  for (const int64_t k : {5, 0, 8, 1}) {
    const auto outcome = run(
        head, {random_input("x", DType::f32, {8, 4}, 1), size_input("k", k), random_input("w", DType::f32, {4, 8}, 2)});
    ASSERT_TRUE(outcome.checked) << k;
    EXPECT_EQ(outcome.filled[0].shape(), (Dims{k, 8}));
    EXPECT_EQ(outcome.outputs[0].view().shape(), (Dims{8, 8}));  // there may be n
    // What lies behind is as it was.
    Tensor poison = Tensor::make(DType::f32, {8, 8}).value();
    fill_poison(poison.view());
    const auto tail = static_cast<size_t>((8 - k) * 8 * 4);
    const auto* made = outcome.outputs[0].view().as<char>() + k * 32;
    EXPECT_TRUE(tail == 0 || std::memcmp(made, poison.view().as<char>() + k * 32, tail) == 0) << k;
    EXPECT_NE(outcome.plan.find("output y: f32[y_capacity, 8], of which it fills [k, 8]\n"), std::string::npos)
        << outcome.plan;
  }
}

TEST_F(ProgramFilled, SizesAreExpressionsAndSeveralDimsOfAnOutputAreComputed) {
  const std::string text =
      "def f(x: f32[\"n\", \"c\"], lengths: i64[3]):\n"
      "    a = lengths[0]\n"
      "    b = lengths[1]\n"
      "    s = lengths[2]\n"
      "    part = x[:a, :b] * 2.0\n"
      "    rest = x[a:]\n"
      "    both = concat(x[:a], x[:s], dim=0)\n"
      "    ids = arange(2 * s)\n"
      "    return part, rest, both, ids\n";
  for (const auto& [a, b, s] : {std::tuple(3, 2, 4), std::tuple(0, 5, 1), std::tuple(6, 5, 0)}) {
    const double values[] = {static_cast<double>(a), static_cast<double>(b), static_cast<double>(s)};
    const auto outcome = run(text, {random_input("x", DType::f32, {6, 5}, 1),
                                    values_input("lengths", DType::i64, {3}, {values, values + 3})});
    ASSERT_TRUE(outcome.checked);
    EXPECT_EQ(outcome.filled[0].shape(), (Dims{a, b}));
    EXPECT_EQ(outcome.filled[1].shape(), (Dims{6 - a, 5}));
    EXPECT_EQ(outcome.filled[2].shape(), (Dims{a + s, 5}));
    EXPECT_EQ(outcome.filled[3].shape(), (Dims{2 * s}));
    EXPECT_EQ(outcome.outputs[2].view().shape(), (Dims{12, 5}));
    EXPECT_EQ(outcome.outputs[3].view().shape(), (Dims{12}));
  }
}

TEST_F(ProgramFilled, BoundsAreToldWhereRunsCheckThem) {
  const auto program = Program::parse(
      "def f(x: f32[\"n\", 4], k: i64[()], m: i64[()], y_capacity: f32):\n"
      "    y = x[:k] * y_capacity\n"
      "    z = zeros(m, 4) + sum(x, dim=0)\n"
      "    return y, z\n",
      "p.py");
  ASSERT_TRUE(program);
  EXPECT_EQ(program->outputs()[0].type, "f32[k, 4]");
  const Tensor x = Tensor::make(DType::f32, {6, 4}).value(), k = Tensor::make(DType::i64, {}).value();
  const auto shapes =
      program->shapes({{"x", x.view()}, {"k", k.view()}, {"m", k.view()}, {"y_capacity", ArgumentValue(1.0)}});
  ASSERT_TRUE(shapes) << shapes.error().render();
  EXPECT_EQ(shapes->outputs[0].shape, (Dims{6, 4}));
  EXPECT_EQ(shapes->outputs[0].rooms, (std::vector<std::string>{"y_capacity_", ""}));  // the other name is taken
  EXPECT_TRUE(shapes->outputs[0].computed(0));
  EXPECT_FALSE(shapes->outputs[0].computed(1));
  EXPECT_EQ(shapes->outputs[1].shape, (Dims{0, 4}));  // nothing bounds m
  EXPECT_EQ(shapes->outputs[1].rooms[0], "z_capacity");
}

TEST_F(ProgramFilled, TheRoomLiesAnywhere) {
  const CompiledProgram program = compiled(head);
  const ProgramInput x = random_input("x", DType::f32, {8, 4}, 1), k = size_input("k", 5),
                     w = random_input("w", DType::f32, {4, 8}, 2);
  const auto run_into = [&](const TensorView& y) {
    auto execution = program.prepare({{"x", x.view()}, {"k", k.view()}, {"w", w.view()}, {"y", y}});
    EXPECT_TRUE(execution) << execution.error().render();
    const auto ran = execution->run();
    EXPECT_TRUE(ran) << ran.error().render();
    EXPECT_EQ(execution->output_shape("y").value(), (Dims{5, 8}));
  };
  Tensor plain = Tensor::make(DType::f32, {5, 8}).value();
  run_into(plain.view());
  // More rows than there can be, gaps between elements and rows, and columns side by side.
  for (const Dims& strides : {Dims{8, 1}, Dims{40, 3}, Dims{1, 16}}) {
    Tensor memory = Tensor::make(DType::f32, {512}).value();
    fill_poison(memory.view());
    Tensor before = Tensor::make(DType::f32, {512}).value();
    fill_poison(before.view());
    run_into(TensorView::make(memory.view().data(), DType::f32, {12, 8}, strides).value());
    auto* wanted = before.view().as<float>();
    for (int64_t r = 0; r < 5; ++r) {
      for (int64_t c = 0; c < 8; ++c) wanted[r * strides[0] + c * strides[1]] = plain.view().as<float>()[r * 8 + c];
    }
    EXPECT_EQ(std::memcmp(memory.view().data(), wanted, 512 * 4), 0) << to_string(strides);
  }
}

TEST_F(ProgramFilled, TooLittleRoomAndWrongTensorsAreToldBeforeAnythingIsWritten) {
  const CompiledProgram program = compiled(head);
  const ProgramInput x = random_input("x", DType::f32, {8, 4}, 1), k = size_input("k", 5),
                     w = random_input("w", DType::f32, {4, 8}, 2);
  const auto told = [&](const TensorView& y, bool checked = true) {
    RunOptions options;
    options.checked = checked;
    return said(program.prepare({{"x", x.view()}, {"k", k.view()}, {"w", w.view()}, {"y", y}}, options));
  };
  Tensor small = Tensor::make(DType::f32, {4, 8}).value(), other = Tensor::make(DType::f32, {8, 7}).value(),
         flat = Tensor::make(DType::f32, {64}).value(), half = Tensor::make(DType::f16, {8, 8}).value();
  fill_poison(small.view());
  const std::string before(small.view().as<char>(), small.byte_size());
  EXPECT_EQ(told(small.view()),
            "error[E0610]: k must be 0 to y_capacity\n"
            "note: it is 5, and 0 to 4 is wanted; room in dim 0 of output y\n"
            "help: pass values that give a size in this range; slices are never clamped\n");
  // Without checks nothing is written beside it, either.
  EXPECT_NE(told(small.view(), false).find("error[E0610]: y_part does not fit into y"), std::string::npos)
      << told(small.view(), false);
  EXPECT_EQ(std::string(small.view().as<char>(), small.byte_size()), before);
  EXPECT_NE(told(other.view()).find("error[E0610]"), std::string::npos) << told(other.view());
  EXPECT_NE(told(flat.view()).find("error[E06"), std::string::npos) << told(flat.view());
  EXPECT_NE(told(half.view()).find("y is f16 but the program declares f32"), std::string::npos) << told(half.view());
  float backwards[64];
  const auto reversed = TensorView::make(static_cast<void*>(backwards + 56), DType::f32, {8, 8}, {-8, 1}).value();
  EXPECT_NE(told(reversed).find("is negative"), std::string::npos) << told(reversed);
  // Memory that is read has no room in it, not even as the identical view.
  const CompiledProgram same = compiled("def f(x: f32[\"n\", 4], k: i64[()]):\n    y = x[:k] + 1.0\n    return y\n");
  EXPECT_NE(said(same.prepare({{"x", x.view()}, {"k", k.view()}, {"y", x.view()}})).find("error[E0613]"),
            std::string::npos);
}

TEST_F(ProgramFilled, ShapesAreToldBehindRunsThatSucceed) {
  const CompiledProgram program = compiled(head);
  const ProgramInput x = random_input("x", DType::f32, {8, 4}, 1), k = size_input("k", 3),
                     w = random_input("w", DType::f32, {4, 8}, 2);
  Tensor y = Tensor::make(DType::f32, {6, 8}).value();
  Execution execution = program.prepare({{"x", x.view()}, {"k", k.view()}, {"w", w.view()}, {"y", y.view()}}).value();
  EXPECT_EQ(execution.output_shape("y").error().render(),
            "error[E0608]: the shape of output y is not known\n"
            "note: no run has succeeded since the execution was prepared, or the last one failed\n"
            "help: ask for it behind a run\n");
  auto& size = *static_cast<int64_t*>(k.view().data());
  for (const int64_t now : {3, 6, 0}) {
    size = now;
    ASSERT_TRUE(execution.run());
    EXPECT_EQ(execution.output_shape("y").value(), (Dims{now, 8}));
  }
  size = 7;
  EXPECT_FALSE(execution.run());
  EXPECT_EQ(execution.output_shape("y").error().code(), 608);
  EXPECT_EQ(execution.output_shape("x").error().render(),
            "error[E0209]: there is no output x\nnote: outputs are y\nhelp: name an output\n");
  EXPECT_EQ(Execution().output_shape("y").error().code(), 608);
  // Of a program that computes no sizes it is what is bound.
  const CompiledProgram plain = compiled("def f(x: f32[\"n\", 4]):\n    y = x + 1.0\n    return y\n");
  Tensor z = Tensor::make(DType::f32, {8, 4}).value();
  Execution fixed = plain.prepare({{"x", x.view()}, {"y", z.view()}}).value();
  ASSERT_TRUE(fixed.run());
  EXPECT_EQ(fixed.output_shape("y").value(), (Dims{8, 4}));
}

TEST_F(ProgramFilled, WhatABranchOrALoopMakesOfOne) {
  const std::string text =
      "def more(i, y):\n    return i < 3\n\n"
      "def step(i, y):\n    return i + 1, y * 2.0\n\n"
      "def up(y):\n    return y + 1.0\n\n"
      "def down(y):\n    return y - 1.0\n\n"
      "def f(x: f32[\"n\", 4], k: i64[()]):\n"
      "    i, z = while_loop(more, step, 0, x[:k] + 1.0)\n"
      "    y = cond(sum(z, keepdim=False) > 0.0, up, down, z)\n"
      "    total = sum(y, dim=0)\n"
      "    t = transpose(y)\n"
      "    return y, total, z, t\n";
  for (const int64_t k : {0, 3, 8})
    EXPECT_TRUE(run(text, {random_input("x", DType::f32, {8, 4}, 1), size_input("k", k)}).checked) << k;
}

// As many rows as the first element says, each its number.
int counted_rows(void*, const CodettaTensor* inputs, int, CodettaTensor* outputs, int count) {
  const auto rows = static_cast<int64_t>(*static_cast<const float*>(inputs[0].data));
  auto* memory = new float[static_cast<size_t>(rows * 4 + 1)];
  for (int64_t i = 0; i < rows * 4; ++i) memory[i] = static_cast<float>(i / 4);
  outputs[0].data = outputs[0].owner = memory;
  outputs[0].dtype = static_cast<int32_t>(DType::f32);
  outputs[0].rank = 2;
  outputs[0].shape[0] = rows;
  outputs[0].shape[1] = outputs[0].strides[0] = 4;
  outputs[0].strides[1] = 1;
  outputs[0].release = [](CodettaTensor* tensor) { delete[] static_cast<float*>(tensor->owner); };
  if (count == 2) {
    outputs[1].dtype = static_cast<int32_t>(DType::u8);
    outputs[1].rank = 1;
    outputs[1].strides[0] = 1;
  }
  return 0;
}

TEST_F(ProgramFilled, WhatAFunctionReturnsIsReturned) {
  const std::string text =
      "def f(x: f32[1]):\n"
      "    rows = call_extern(\"counted_rows\", x, out=\"f32[k, 4]\", form=\"alloc\")\n"
      "    y = rows * 2.0\n"
      "    return rows, y\n";
  RunOptions options;
  options.externs = {{"counted_rows", counted_rows, nullptr}};
  for (const int64_t k : {3, 0, 17}) {
    oracle::OracleOptions truth;
    truth.sizes = {{"k", k}};
    truth.functions["counted_rows"] = [](std::span<const TensorView>, std::span<const TensorView> out) -> Result<void> {
      for (int64_t i = 0; i < out[0].element_count(); ++i) out[0].as<float>()[i] = static_cast<float>(i / 4);
      return {};
    };
    const auto outcome = run(text, {values_input("x", DType::f32, {1}, {static_cast<double>(k)})}, truth, options);
    ASSERT_TRUE(outcome.checked);
    EXPECT_EQ(outcome.filled[0].shape(), (Dims{k, 4}));
    EXPECT_EQ(outcome.filled[1].shape(), (Dims{k, 4}));
  }
}

// A check takes what functions have allocated, and the sizes that only their results have, as the run left them.
TEST_F(ProgramFilled, ChecksTakeResultsOfFunctionsWithTheirSizes) {
  const auto program = Program::parse(
      "def f(x: f32[\"n\"], w: f32[4, 8]):\n"
      "    rows, unused = call_extern(\"counted_rows\", x, out=(\"f32[k, 4]\", \"u8[m]\"), form=\"alloc\")\n"
      "    y = relu(rows @ w) + sum(ones(k, 8), dim=0)\n"
      "    z = sum(x[:k])\n"
      "    return y, z\n",
      "p.py");
  ASSERT_TRUE(program) << program.error().render();
  const auto made = compile(*program, Target::host(), {}, context_);
  ASSERT_TRUE(made) << made.error().render();
  const ProgramInput x = values_input("x", DType::f32, {5}, {3, 1, 4, 1, 5}),
                     w = random_input("w", DType::f32, {4, 8}, 2);
  Tensor y = Tensor::make(DType::f32, {6, 8}).value(), z = Tensor::make(DType::f32, {1}).value();
  fill_poison(y.view());
  KeptResults kept;
  RunOptions options;
  options.externs = {{"counted_rows", counted_rows, nullptr}};
  options.observer = keep_results(kept);
  auto execution = made->prepare({{"x", x.view()}, {"w", w.view()}, {"y", y.view()}, {"z", z.view()}}, options).value();
  ASSERT_TRUE(execution.run());
  ASSERT_EQ(kept.calls.size(), 1u);
  ASSERT_EQ(kept.calls[0].results.size(), 2u);
  EXPECT_EQ(kept.calls[0].function, "counted_rows");
  EXPECT_EQ(kept.calls[0].results[0].shape(), (Dims{3, 4}));
  EXPECT_TRUE(kept.calls[0].results[1].empty());
  const auto filled = TensorView::make(y.view().data(), DType::f32, execution.output_shape("y").value()).value();
  const std::vector<NamedArgument> arguments{{"x", x.view()}, {"w", w.view()}, {"y", filled}, {"z", z.view()}};
  VerifyOptions taken;
  taken.given = kept.calls;
  const auto checked = verify(*program, arguments, Target::host(), taken, context_);
  ASSERT_TRUE(checked) << checked.error().render();
  EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
  EXPECT_NE(checked->text.find("counted_rows: its results are taken as the run left them"), std::string::npos);
  BisectOptions steps;
  steps.given = kept.calls;
  steps.run.externs = options.externs;
  const auto compared = bisect(*program, {{"x", x.view()}, {"w", w.view()}, {"y", y.view()}, {"z", z.view()}},
                               Target::host(), {}, steps, context_);
  ASSERT_TRUE(compared) << compared.error().render();
  EXPECT_EQ(compared->first_wrong, -1) << compared->text;
  // Another number of rows than was given is told, and so is a wrong element.
  const auto fewer = TensorView::make(y.view().data(), DType::f32, {2, 8}).value();
  const auto wrong_shape = verify(*program, {{"x", x.view()}, {"w", w.view()}, {"y", fewer}, {"z", z.view()}},
                                  Target::host(), taken, context_);
  ASSERT_FALSE(wrong_shape);
  EXPECT_NE(wrong_shape.error().render().find("y is f32[2, 8] but [3, 8] is expected"), std::string::npos)
      << wrong_shape.error().render();
  y.view().as<float>()[9] += 1;
  EXPECT_EQ(verify(*program, arguments, Target::host(), taken, context_)->verdict, VerifyReport::Verdict::Fail);
  const auto without = verify(*program, arguments, Target::host(), {}, context_);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code(), 311);
}

}  // namespace
}  // namespace codetta::test
