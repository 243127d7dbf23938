// SPDX-License-Identifier: Apache-2.0
// Sizes that values give inside of branches and loops: runs against the oracle, plans, and what is refused.
#include <gtest/gtest.h>

#include "codetta/extern.h"
#include "ir/print.hpp"
#include "support/inner_sizes.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

class InnerSizes : public ::testing::Test {
 protected:
  ProgramOutcome run(const std::string& text, const std::vector<ProgramInput>& inputs) {
    const auto program = Program::parse(text, "p.py");
    EXPECT_TRUE(program) << (program ? "" : program.error().render());
    return program ? run_checked(*program, text, inputs, context_) : ProgramOutcome{};
  }
  // What parsing, binding or the run says.
  std::string refused(const std::string& text, const std::vector<ProgramInput>& inputs = {},
                      const RunOptions& options = {}) {
    return said_of(text, inputs, context_, options);
  }

  // x of n rows, a of m, and the predicate where there is one.
  static std::vector<ProgramInput> rows_of(int64_t n, int64_t m, std::optional<bool> p = {}) {
    std::vector<ProgramInput> inputs{random_input("x", DType::f32, {n, 4}, 1),
                                     random_input("a", DType::f32, {m, 4}, 2)};
    if (p) inputs.push_back(number_input("p", *p));
    return inputs;
  }

  Context context_ = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
};

constexpr const char* prefixes =
    "def more(i, x, y):\n    return i < 5\n\n"
    "def step(i, x, y):\n    return i + 1, x, y + sum(x[:i], dim=0)\n\n"
    "def f(x: f32[\"n\", 4]):\n"
    "    i, a, y = while_loop(more, step, 0, x, zeros(1, 4))\n"
    "    return y\n";

TEST_F(InnerSizes, EachTurnOfALoopHasItsOwn) {
  for (const int64_t n : {5, 9}) {
    const auto outcome = run(prefixes, {random_input("x", DType::f32, {n, 4}, 1)});
    EXPECT_TRUE(outcome.checked) << outcome.plan;
    const size_t defined = outcome.plan.find("define i");
    EXPECT_NE(defined, std::string::npos) << outcome.plan;
  }
}

TEST_F(InnerSizes, TemporariesOfSuchSizesAreThoseOfTheirTurn) {
  const std::string text =
      "def more(i, x, w, y):\n    return i < 4\n\n"
      "def step(i, x, w, y):\n"
      "    k = i * 3\n"
      "    z = relu(x[:k] @ w)\n"
      "    norm = z * rsqrt(mean(z * z, dim=-1) + 0.5)\n"
      "    whole = concat(norm, zeros(n - k, 8), dim=0)\n"
      "    return i + 1, x, w, y + whole @ transpose(w, 0, 1)\n\n"
      "def f(x: f32[\"n\", 16], w: f32[16, 8]):\n"
      "    i, a, b, y = while_loop(more, step, 0, x, w, x)\n"
      "    return y\n";
  for (const int64_t n : {9, 30}) {
    const auto outcome =
        run(text, {random_input("x", DType::f32, {n, 16}, 3), random_input("w", DType::f32, {16, 8}, 4)});
    EXPECT_TRUE(outcome.checked) << outcome.plan;
  }
}

TEST_F(InnerSizes, ABranchHasItsOwnAndTheOtherMayHaveNone) {
  const std::string text =
      "def some(x, keep):\n"
      "    count = sum(cast(keep, i64), keepdim=False)\n"
      "    y = relu(x[:count])\n"
      "    return concat(y, zeros(n - count, 4), dim=0), count\n\n"
      "def none(x, keep):\n    return x * 0.5, n\n\n";
  const std::string main =
      "def f(x: f32[\"n\", 4], keep: bool[\"n\"], p: bool):\n"
      "    y, c = cond(p, some, none, x, keep)\n"
      "    return y, c\n";
  std::string with_cast = text;
  with_cast.replace(with_cast.find("* 0.5, n"), 8, "* 0.5, cast(sum(ones(n), keepdim=False), i64)");
  for (const bool p : {true, false}) {
    for (const int64_t n : {0, 1, 12}) {
      const auto outcome =
          run(with_cast + main, {random_input("x", DType::f32, {n, 4}, 1),
                                 index_input("keep", DType::boolean, {n}, 2, 7), number_input("p", p)});
      EXPECT_TRUE(outcome.checked) << outcome.plan;
    }
  }
}

TEST_F(InnerSizes, NestedOnesRestOnThoseAround) {
  const std::string text(sizes_in_sizes);
  const auto outcome = run(text, {random_input("x", DType::f32, {6, 4}, 1)});
  EXPECT_TRUE(outcome.checked) << outcome.plan;
}

TEST_F(InnerSizes, OneFunctionTwiceAndOneValueInsideAndOutside) {
  const std::string text(sizes_of_one_function);
  for (const double k : {0, 3, 7}) {
    const auto outcome = run(text, {random_input("x", DType::f32, {8, 4}, 1), values_input("k", DType::i64, {}, {k})});
    EXPECT_TRUE(outcome.checked) << outcome.plan;
  }
}

TEST_F(InnerSizes, WhatIsOutOfRangeIsToldWithItsPlace) {
  const std::string text(prefixes);
  EXPECT_EQ(refused(text, {random_input("x", DType::f32, {3, 4}, 1)}),
            "error[E0610]: i must be 0 to n\n"
            "note: it is 4, and 0 to 3 is wanted; `x[:i]`, line 5, column 30\n"
            "help: pass values that give a size in this range; slices are never clamped\n");
  const std::string below =
      "def up(x, k):\n    return sum(x[:k - 5], dim=0)\n\n"
      "def down(x, k):\n    return sum(x, dim=0)\n\n"
      "def f(x: f32[\"n\", 4], k: i64[()]):\n"
      "    y = cond(k > 2, up, down, x, k)\n"
      "    return y\n";
  const auto told = [&](double k) {
    return refused(below, {random_input("x", DType::f32, {3, 4}, 1), values_input("k", DType::i64, {}, {k})});
  };
  EXPECT_EQ(told(2), "ran");  // the other branch has no size
  EXPECT_EQ(told(8), "ran");
  EXPECT_NE(told(3).find("error[E0610]"), std::string::npos) << told(3);
  EXPECT_NE(told(9).find("error[E0610]"), std::string::npos) << told(9);
}

TEST_F(InnerSizes, GraphsArePrintedAndRead) {
  const std::string text =
      "def up(x, k):\n    return sum(x[:k], dim=0)\n\n"
      "def down(x, k):\n    return sum(x[k:], dim=0)\n\n"
      "def f(x: f32[\"n\", 4], k: i64[()]):\n"
      "    y = cond(k > 2, up, down, x, k) + sum(x[:k], dim=0)\n"
      "    return y\n";
  const Program program = Program::parse(text, "p.py").value();
  const ir::Graph& graph = Program::Access::state(program)->graph;
  const std::string printed = ir::print(graph);
  for (const char* symbol : {"symbol=k)", "symbol=k_2)", "symbol=k_3)"})
    EXPECT_NE(printed.find(symbol), std::string::npos) << printed;
  const auto read = [](const std::string& of) {
    return ir::parse_graph(std::make_shared<diag::SourceText>("<graph>", of));
  };
  const auto again = read(printed);
  ASSERT_TRUE(again) << again.error().render() << printed;
  EXPECT_EQ(*again, graph);
  // Each graph has symbols of its own.
  std::string twice = printed;
  for (size_t at = twice.find("k_2"); at != std::string::npos; at = twice.find("k_2")) twice.replace(at, 3, "k_3");
  const auto refused_graph = read(twice);
  ASSERT_FALSE(refused_graph);
  EXPECT_NE(refused_graph.error().render().find("size k_3 of a branch or loop has a value already"), std::string::npos)
      << refused_graph.error().render();
}

// What a size bounds is checked behind it in its list.
TEST_F(InnerSizes, AreCheckedBehindTheirDefinition) {
  const std::string text =
      "def more(i, x, y):\n    return i < 5\n\n"
      "def step(i, x, y):\n"
      "    k = i * (4 - i)\n"
      "    z = softmax(x[:k] @ transpose(x, 0, 1))\n"
      "    return i + 1, x, y + sum(z @ x, dim=0)\n\n"
      "def f(x: f32[\"n\", 64]):\n"
      "    i, a, y = while_loop(more, step, 0, x, zeros(1, 64))\n"
      "    return y\n";
  const auto outcome = run(text, {random_input("x", DType::f32, {40, 64}, 1)});
  EXPECT_TRUE(outcome.checked) << outcome.plan;
  const size_t defined = outcome.plan.find("define k = ");
  ASSERT_NE(defined, std::string::npos) << outcome.plan;
  EXPECT_NE(outcome.plan.find("check 0 <= k <= n", defined), std::string::npos) << outcome.plan;
}

// The rows in front of the first that begins with a negative number, where they lie.
int leading_rows(void*, const CodettaTensor* inputs, int, CodettaTensor* outputs, int) {
  outputs[0] = inputs[0];
  const auto* row = static_cast<const float*>(inputs[0].data);
  int64_t& rows = outputs[0].shape[0];
  for (rows = 0; rows < inputs[0].shape[0] && row[rows * inputs[0].strides[0]] >= 0;) ++rows;
  outputs[0].release = [](CodettaTensor*) {};
  return 0;
}

TEST_F(InnerSizes, WhatAFunctionReturnsInABranchAndInEachTurn) {
  const std::string text =
      "def up(x, w):\n"
      "    kept = call_extern(\"leading_rows\", x, out=\"f32[k, 4]\", form=\"alloc\")\n"
      "    return sum(kept @ w, dim=0) + sum(ones(k, 8), dim=0)\n\n"
      "def down(x, w):\n"
      "    kept = call_extern(\"leading_rows\", x * -1.0, out=\"f32[k, 4]\", form=\"alloc\")\n"
      "    return sum(kept @ w, dim=0) - sum(ones(k, 8), dim=0)\n\n"
      "def more(i, x, w, y):\n    return i < 2\n\n"
      "def step(i, x, w, y):\n    return i + 1, x - 2.0, w, y + cond(i < 2, up, down, x, w)\n\n"
      "def f(x: f32[3, 4], w: f32[4, 8]):\n"
      "    i, a, b, y = while_loop(more, step, 0, x, w, zeros(1, 8))\n"
      "    return y\n";
  const Program program = Program::parse(text, "p.py").value();
  const auto compiled = compile(program, Target::host(), {}, context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const ProgramInput x = values_input("x", DType::f32, {3, 4}, {4, 1, 1, 1, 1, 2, 2, 2, -1, 3, 3, 3}),
                     w = values_input("w", DType::f32, {4, 8}, std::vector<double>(32, 1.0));
  Tensor y = Tensor::make(DType::f32, {1, 8}).value();
  RunOptions options;
  options.externs = {{"leading_rows", leading_rows, nullptr}};
  for (int turn = 0; turn < 2; ++turn) {
    fill_poison(y.view());
    const auto ran = compiled->run({{"x", x.view()}, {"w", w.view()}, {"y", y.view()}}, {}, options);
    ASSERT_TRUE(ran) << ran.error().render();
    // Two rows, each of sum 7; of what is 2 less one row, of sum -1.
    for (int c = 0; c < 8; ++c) EXPECT_EQ(y.view().as<float>()[c], 14.0F + 2.0F - 1.0F + 1.0F) << c;
  }
}

// A size of around a branch, and not the tensor that has it.
TEST_F(InnerSizes, ThoseOfAroundAreNamedWithoutTheirTensors) {
  const std::string branches =
      "def up(x):\n    return concat(x[:k] * 2.0, zeros(n - k, 4), dim=0) + sum(ones(k, 4), dim=0)\n\n"
      "def down(x):\n    return x\n\n";
  const std::string text = branches +
                           "def f(x: f32[\"n\", 4], p: bool):\n"
                           "    kept = call_extern(\"leading_rows\", x, out=\"f32[k, 4]\", form=\"alloc\")\n"
                           "    y = cond(p, up, down, x)\n    return y\n";
  const Program program = Program::parse(text, "p.py").value();
  const auto compiled = compile(program, Target::host(), {}, context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const ProgramInput x = values_input("x", DType::f32, {3, 4}, {1, 1, 1, 1, 2, 2, 2, 2, -1, 3, 3, 3});
  Tensor y = Tensor::make(DType::f32, {3, 4}).value();
  RunOptions options;
  options.externs = {{"leading_rows", leading_rows, nullptr}};
  for (const bool p : {true, false}) {
    fill_poison(y.view());
    const auto ran = compiled->run({{"x", x.view()}, {"p", p}, {"y", y.view()}}, {}, options);
    ASSERT_TRUE(ran) << ran.error().render();
    for (int i = 0; i < 12; ++i) {
      const float value = x.view().as<float>()[i];
      EXPECT_EQ(y.view().as<float>()[i], p ? (i < 8 ? 2 * value : 0) + 2 : value) << i;
    }
  }
  // Of a value, which a text of a branch names as a symbol, through a loop and a branch inside of it.
  const std::string nested =
      "def up(x):\n    return x + sum(ones(\"count\", 4), dim=0) + sum(x[:\"count\"], dim=0)\n\n"
      "def down(x):\n    return x * 0.5\n\n"
      "def more(i, x):\n    return i < 3\n\n"
      "def step(i, x):\n    y = cond(i == 1, up, down, x)\n    return i + 1, y\n\n"
      "def f(x: f32[\"n\", 4], c: i64):\n"
      "    count = c + 1\n    whole = sum(ones(count, 4), dim=0)\n"
      "    i, y = while_loop(more, step, 0, x)\n    z = y * whole\n    return z\n";
  for (const int64_t c : {-1, 2, 4}) {
    const auto outcome = run(nested, {random_input("x", DType::f32, {5, 4}, 1), number_input("c", c)});
    EXPECT_TRUE(outcome.checked) << outcome.plan;
  }
  const std::string said = refused(nested, {random_input("x", DType::f32, {5, 4}, 1), number_input("c", 5)});
  EXPECT_NE(said.find("it is 6, and 0 to 5 is wanted; `x[:\"count\"]`, line 2"), std::string::npos) << said;
  // One that nobody computes has no value.
  const std::string none =
      refused(branches + "def f(x: f32[\"n\", 4], p: bool):\n    y = cond(p, up, down, x)\n    return y\n");
  EXPECT_NE(none.find("E01"), std::string::npos) << none;
}

TEST_F(InnerSizes, ThoseOfAroundAreNamedInCpp) {
  using Values = std::vector<GraphValue>;
  ProgramBuilder b("f");
  const GraphValue x = b.input("x", DType::f32, {"n", 4}), k = b.input("k", DType::i64, {});
  const Size count(k + 1);
  const auto up = [&](Values v) { return Values{v[0] + call("sum", {v[0].slice(0, 0, count)}, {{"dim", 0}})}; };
  const auto down = [](Values v) { return Values{v[0] * 2.0}; };
  b.output("y", cond(call("max", {x}, {{"keepdim", false}}) > -1e9, up, down, {x})[0]);
  const auto program = b.finish();
  ASSERT_TRUE(program) << program.error().render();
  const auto outcome = run_checked(
      *program, "C++", {random_input("x", DType::f32, {5, 4}, 1), values_input("k", DType::i64, {}, {3})}, context_);
  EXPECT_TRUE(outcome.checked) << outcome.plan;
}

// What a function returns in a branch has the size of around it, or is refused: that keeps its value.
TEST_F(InnerSizes, WhatAFunctionReturnsInABranchGivesNoSizeOfAroundAnotherValue) {
  const std::string text =
      "def up(s):\n    kept = call_extern(\"leading_rows\", s, out=\"f32[n, 4]\", form=\"alloc\")\n"
      "    return sum(kept, dim=0)\n\n"
      "def down(s):\n    return sum(s, dim=0)\n\n"
      "def f(x: f32[\"n\", 4], s: f32[3, 4], p: bool):\n"
      "    y = cond(p, up, down, s) + sum(ones(n, 4), dim=0) + sum(x, dim=0)\n    return y\n";
  const ProgramInput s = values_input("s", DType::f32, {3, 4}, {1, 1, 1, 1, 2, 2, 2, 2, -1, 3, 3, 3});
  RunOptions options;
  options.externs = {{"leading_rows", leading_rows, nullptr}};
  const auto told = [&](int64_t n) {
    return refused(text,
                   {values_input("x", DType::f32, {n, 4}, std::vector<double>(static_cast<size_t>(4 * n), 1)), s,
                    number_input("p", true)},
                   options);
  };
  EXPECT_EQ(told(2), "ran");
  EXPECT_NE(told(3).find("E0610"), std::string::npos) << told(3);
}

// One name in both branches and behind them is a size of its own each time, as in texts.
TEST_F(InnerSizes, OfTwoBranchesInCppEachNamesItsOwn) {
  using Values = std::vector<GraphValue>;
  ProgramBuilder b("f");
  const GraphValue x = b.input("x", DType::f32, {"n", 4}), p = b.number("p", DType::boolean);
  const auto rows_of = [](const GraphValue& value, const char* type) {
    return call_all("call_extern", {"leading_rows", value}, {{"out", type}, {"form", "alloc"}})[0];
  };
  // Of an inner branch, too, in which the size of the branch around it is said.
  const auto summed = [&](double factor) {
    return [&rows_of, factor](Values v) {
      const GraphValue rows = rows_of(v[0] * factor, "f32[k, 4]");
      const auto more = [](Values w) {
        return Values{call("sum", {call("expand", {w[0], Argument(Size("k")), Argument(Size(4))})}, {{"dim", 0}})};
      };
      const auto fewer = [&rows_of](Values w) {
        return Values{call("sum", {rows_of(w[0] * 100.0, "f32[k_2, 4]")}, {{"dim", 0}})};
      };
      const GraphValue one = v[0].slice(0, 0, 1) * 0.0 + 1.0;
      return Values{call("sum", {rows}, {{"dim", 0}}) + cond(call("max", {one}) > 0.5, more, fewer, {one})[0]};
    };
  };
  const GraphValue y = cond(p, summed(1), summed(-1), {x})[0], z = rows_of(x * 2.0, "f32[k, 4]");
  b.output("y", y);
  b.output("z", call("sum", {z}, {{"dim", 0}}));
  const auto program = b.finish();
  ASSERT_TRUE(program) << program.error().render();
  const auto compiled = compile(*program, Target::host(), {}, context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const ProgramInput in = values_input("x", DType::f32, {3, 4}, {4, 1, 1, 1, 1, 2, 2, 2, -1, 3, 3, 3});
  Tensor out = Tensor::make(DType::f32, {1, 4}).value(), twice = Tensor::make(DType::f32, {1, 4}).value();
  RunOptions options;
  options.externs = {{"leading_rows", leading_rows, nullptr}};
  for (const bool first : {true, false}) {
    fill_poison(out.view());
    fill_poison(twice.view());
    const auto ran =
        compiled->run({{"x", in.view()}, {"p", first}, {"y", out.view()}, {"z", twice.view()}}, {}, options);
    ASSERT_TRUE(ran) << ran.error().render();
    // Two rows begin at 0 or above, and none of the negated ones.
    EXPECT_EQ(out.view().as<float>()[0], first ? 5.0F + 2.0F : 0.0F);
    EXPECT_EQ(twice.view().as<float>()[0], 10.0F);
  }
}

// A size of a value around the function may be made in it.
TEST_F(InnerSizes, OfAValueAroundAFunctionInCpp) {
  using Values = std::vector<GraphValue>;
  ProgramBuilder b("f");
  const GraphValue x = b.input("x", DType::f32, {"n", 4}), k = b.input("k", DType::i64, {});
  const auto turn = [&](Values v) {
    const Size around(k + 1), own(v[0]);  // of the program, and of the turn
    return Values{v[0] + 1, v[1] + call("sum", {v[1].slice(0, 0, around)}, {{"dim", 0}}) +
                                call("sum", {v[1].slice(0, own, own + 1)}, {{"dim", 0}})};
  };
  const auto goes_on = [](Values v) { return Values{v[0] < 2}; };
  b.output("y", while_loop(goes_on, turn, {b.constant(0), x})[1]);
  const auto program = b.finish();
  ASSERT_TRUE(program) << program.error().render();
  for (const double at : {0.0, 2.0, 4.0}) {
    const auto outcome = run_checked(
        *program, "C++", {random_input("x", DType::f32, {5, 4}, 1), values_input("k", DType::i64, {}, {at})}, context_);
    EXPECT_TRUE(outcome.checked) << outcome.plan;
  }
  const auto beyond = compile(*program, Target::host(), {}, context_);
  ASSERT_TRUE(beyond) << beyond.error().render();
  const ProgramInput in = random_input("x", DType::f32, {5, 4}, 1), size = values_input("k", DType::i64, {}, {5});
  const Tensor y = Tensor::make(DType::f32, {5, 4}).value();
  const auto ran = beyond->run({{"x", in.view()}, {"k", size.view()}, {"y", y.view()}});
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code(), 610) << ran.error().render();
}

// What joins behind a part that is too large would begin in front of its memory, and the part ends behind it.
TEST_F(InnerSizes, DifferencesOfSizesAroundThemAreChecked) {
  const std::string plain =
      "def f(x: f32[\"n\", 4], a: f32[\"m\", 4]):\n"
      "    z = concat(a * 2.0, zeros(n - m, 4), dim=0) + x\n"
      "    return z\n";
  const std::string branch =
      "def up(x, a):\n    return concat(a * 2.0, zeros(n - m, 4), dim=0)\n\n"
      "def down(x, a):\n    return x\n\n"
      "def f(x: f32[\"n\", 4], a: f32[\"m\", 4], p: bool):\n"
      "    z = cond(p, up, down, x, a)\n"
      "    return z\n";
  EXPECT_EQ(refused(plain, rows_of(6, 3)), "ran");
  EXPECT_EQ(refused(branch, rows_of(6, 3, true)), "ran");
  EXPECT_EQ(refused(branch, rows_of(3, 6, false)), "ran") << "what is not run may be out of range";
  for (const std::string& said : {refused(plain, rows_of(3, 6)), refused(branch, rows_of(3, 6, true))}) {
    EXPECT_NE(said.find("error[E0610]: -m + n must be at least 0"), std::string::npos) << said;
    EXPECT_NE(said.find("it is -3"), std::string::npos) << said;
  }
  // Of what a function returned in front of the branch.
  const std::string returned =
      "def up(x, a):\n    return concat(a * 2.0, zeros(n - k, 4), dim=0)\n\n"
      "def down(x, a):\n    return x\n\n"
      "def f(x: f32[\"n\", 4], p: bool):\n"
      "    a = call_extern(\"five_rows\", x, out=\"f32[k, 4]\", form=\"alloc\")\n"
      "    z = cond(p, up, down, x, a)\n"
      "    return z\n";
  static float rows[20];
  RunOptions options;
  options.externs = {{"five_rows",
                      [](void*, const CodettaTensor* inputs, int, CodettaTensor* outputs, int) {
                        outputs[0] = inputs[0];
                        outputs[0].data = rows;
                        outputs[0].shape[0] = 5;
                        outputs[0].release = [](CodettaTensor*) {};
                        return 0;
                      },
                      nullptr}};
  const auto called = [&](int64_t n, bool p) {
    return refused(returned, {random_input("x", DType::f32, {n, 4}, 1), number_input("p", p)}, options);
  };
  EXPECT_EQ(called(5, true), "ran");
  EXPECT_EQ(called(3, false), "ran");
  EXPECT_NE(called(3, true).find("error[E0610]: -k + n must be at least 0"), std::string::npos) << called(3, true);
}

// Temporaries of a branch that is not taken lie among others that are needed: those take no memory away.
TEST_F(InnerSizes, TemporariesOfABranchThatIsNotTakenMayBeOutOfRange) {
  const std::string text =
      "def up(x, a, w):\n"
      "    y = (zeros(n - m, 4) + take(x, arange(n - m), dim=0)) @ w\n"
      "    z = relu(y) @ w\n"
      "    return concat(a * 2.0, z @ w + y, dim=0)\n\n"
      "def down(x, a, w):\n    return x\n\n"
      "def f(x: f32[\"n\", 4], a: f32[\"m\", 4], w: f32[4, 4], p: bool):\n"
      "    b = relu(x @ w)\n"
      "    c = b @ w\n"
      "    z = cond(p, up, down, c, a, w)\n"
      "    y = z @ w + c + b\n"
      "    return y\n";
  const auto with = [](int64_t n, int64_t m, bool p) {
    return std::vector<ProgramInput>{random_input("x", DType::f32, {n, 4}, 1), random_input("a", DType::f32, {m, 4}, 2),
                                     random_input("w", DType::f32, {4, 4}, 3), number_input("p", p)};
  };
  for (const auto& [n, m, p] : {std::tuple(3, 6, false), {30, 600, false}, {0, 1, false}, {6, 3, false}, {9, 4, true}})
    EXPECT_TRUE(run(text, with(n, m, p)).checked) << n << ", " << m;
  for (const bool checked : {true, false}) {
    RunOptions options;
    options.checked = checked;
    const std::string said = refused(text, with(30, 600, true), options);
    EXPECT_NE(said.find("error[E0610]: -m + n must be at least 0"), std::string::npos) << said;
  }
}

TEST_F(InnerSizes, DifferencesInResultsOfFunctionsAreChecked) {
  const std::string plain =
      "def f(x: f32[\"n\", 4], a: f32[\"m\", 4]):\n"
      "    z = concat(a * 2.0, call_extern(\"rows\", where(x > 0.5, x, x * 0.5), out=\"f32[n - m, 4]\"), dim=0)\n"
      "    return z\n";
  const std::string branch =
      "def up(x, a):\n    return concat(a * 2.0, call_extern(\"rows\", x, out=\"f32[n - m, 4]\"), dim=0)\n\n"
      "def down(x, a):\n    return x\n\n"
      "def f(x: f32[\"n\", 4], a: f32[\"m\", 4], p: bool):\n    z = cond(p, up, down, x, a)\n    return z\n";
  RunOptions options;
  int calls = 0;
  options.externs = {{"rows",
                      [](void* context, const CodettaTensor*, int, CodettaTensor* outputs, int) {
                        ++*static_cast<int*>(context);
                        return outputs[0].shape[0] < 0 ? 1 : 0;
                      },
                      &calls}};
  EXPECT_EQ(refused(plain, rows_of(6, 3), options), "ran");
  EXPECT_EQ(refused(branch, rows_of(6, 3, true), options), "ran");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(refused(branch, rows_of(3, 6, false), options), "ran");
  for (const auto& [text, place] :
       {std::pair(refused(plain, rows_of(3, 6), options), "; an expression, line 2, column 25\n"),
        {refused(branch, rows_of(3, 6, true), options), "out=\"f32[n - m, 4]\")`, line 2, column 28\n"}}) {
    EXPECT_NE(text.find("error[E0610]: -m + n must be at least 0"), std::string::npos) << text;
    EXPECT_NE(text.find(place), std::string::npos) << text;
  }
  EXPECT_EQ(calls, 2);
}

TEST_F(InnerSizes, WhatLeavesABranchOrLoopHasASizeThatIsKnownAround) {
  const std::string branch =
      "def up(x, k):\n    return x[:k]\n\n"
      "def down(x, k):\n    return x\n\n"
      "def f(x: f32[\"n\", 4], k: i64[()]):\n"
      "    y = cond(k > 2, up, down, x, k)\n"
      "    return y\n";
  EXPECT_EQ(refused(branch),
            "error[E0233]: result 0 of the first branch has the size k\n"
            "  --> p.py:8:9\n"
            "8 |     y = cond(k > 2, up, down, x, k)\n"
            "  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "note: it is f32[k, 4], and k is computed inside of the first branch: around it nobody knows it\n"
            "help: return a size that is known outside, with zeros behind what counts: concat(y, zeros(n - k, 8), "
            "dim=0)\n");
  std::string other = branch;
  other.replace(other.find("return x[:k]"), 12, "return x");
  other.replace(other.find("return x\n\ndef f"), 8, "return x[k:]");
  EXPECT_NE(refused(other).find("result 0 of the second branch has the size -k + n"), std::string::npos)
      << refused(other);
  const std::string loop =
      "def more(i, x):\n    return i < 3\n\n"
      "def step(i, x):\n    return i + 1, x[:i]\n\n"
      "def f(x: f32[\"n\", 4]):\n"
      "    i, y = while_loop(more, step, 0, x)\n"
      "    return y\n";
  EXPECT_NE(refused(loop).find("result 1 of the loop's body has the size i"), std::string::npos) << refused(loop);
}

}  // namespace
}  // namespace codetta::test
