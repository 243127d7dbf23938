// SPDX-License-Identifier: Apache-2.0
// Sizes of 0 on an AMD GPU that is none: outputs that have elements all the same are made, by other kernels of the
// program where its own compute them with elements that are not there.
#include <gtest/gtest.h>

#include "emulator/hip_context.hpp"
#include "support/random_program.hpp"
#include "support/slice.hpp"

namespace codetta {
namespace {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

class HipEmpty : public EmulatedHip {
 protected:
  // Runs with outputs that are poisoned first, and holds them against the oracle.
  void check(const Program& program, const CompiledProgram& compiled, const Sizes& sizes, const std::string& what) {
    const auto missing = program.missing({}, sizes, 4);
    ASSERT_TRUE(missing) << what << missing.error().render();
    std::vector<NamedArgument> arguments;
    std::vector<DeviceTensor> there;
    const auto add = [&](const std::string& name, const Tensor& host) {
      there.push_back(DeviceTensor::copy_of(*device_, host.view()).value());
      arguments.push_back({name, there.back().view()});
    };
    for (const ProgramInput& input : *missing) {
      Tensor host = Tensor::make(input.dtype, input.shape).value();
      if (input.dtype == f32 || input.dtype == bf16 || input.dtype == f16) fill_random(host, there.size() + 1);
      add(input.name, host);
    }
    const auto shapes = program.shapes(arguments);
    ASSERT_TRUE(shapes) << what << shapes.error().render();
    for (const ProgramShapes::Output& output : shapes->outputs) {
      Tensor host = Tensor::make(output.dtype, output.shape).value();
      fill_poison(host);
      add(output.name, host);
    }
    const auto ran = compiled.run(arguments);
    ASSERT_TRUE(ran) << what << ran.error().render();
    const auto verdict = verify(program, arguments, hip_, {.poisoned = true}, *context_);
    ASSERT_TRUE(verdict) << what << verdict.error().render();
    EXPECT_NE(verdict->verdict, VerifyReport::Verdict::Fail) << what << verdict->text;
  }

  void check_without(const std::string& text, const Sizes& usual) {
    const Program program = Program::parse(text, "p.py").value();
    const auto compiled = compile(program, hip_, usual, *context_);
    ASSERT_TRUE(compiled) << text << compiled.error().render();
    for (uint64_t without = 0; without < uint64_t{1} << usual.size(); ++without) {
      Sizes sizes = usual;
      std::string what = text;
      for (size_t i = 0; i < sizes.size(); ++i) {
        if ((without >> i & 1) != 0) sizes[i].second = 0;
        what += sizes[i].first + " = " + std::to_string(sizes[i].second) + " ";
      }
      check(program, *compiled, sizes, what);
    }
  }
};

// What reductions over no rows give, and reductions of that.
constexpr const char* reduced_twice =
    "def f(x: f32[\"m\", \"k\"], w: f32[\"k\", \"n\"], r: f32[\"n\"]):\n    y = x @ w\n    c = sum(y, dim=0) + r\n"
    "    t = sum(exp(c))\n    s = sum(y, dim=1)\n    return y, c, t, s\n";

TEST_F(HipEmpty, ProgramsMakeAllTheirOutputs) {
  check_without(reduced_twice, {{"m", 3}, {"k", 5}, {"n", 7}});
  // Maps that store beside a batch.
  check_without(
      "def f(x: f32[\"b\", \"m\", \"n\"], r: f32[\"m\", \"n\"]):\n    y = x + r\n    q = r * 2.0\n    e = exp(q)\n"
      "    s = sum(sum(e, dim=1), dim=0)\n    return y, q, s\n",
      {{"b", 2}, {"m", 3}, {"n", 4}});
}

// They are compiled when a run needs them, and for no other run.
TEST_F(HipEmpty, OtherKernelsAreCompiledThen) {
  const Program program = Program::parse(reduced_twice, "p.py").value();
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  ContextOptions options = test::hip_options(*folder_, CODETTA_EMULATED_HIP);
  options.no_jit = true;
  Context compiles_nothing = Context::make(options).value();
  const CompiledProgram found = compile(program, hip_, {}, compiles_nothing).value();
  const auto arguments = [&](int64_t rows, std::vector<DeviceTensor>& there) {
    std::vector<NamedArgument> made;
    const std::pair<const char*, Dims> wanted[] = {{"x", {rows, 5}}, {"w", {5, 7}}, {"r", {7}},      {"y", {rows, 7}},
                                                   {"c", {1, 7}},    {"t", {1, 1}}, {"s", {rows, 1}}};
    for (const auto& [name, shape] : wanted) {
      there.push_back(DeviceTensor::make(*device_, f32, shape).value());
      made.emplace_back(name, there.back().view());
    }
    return made;
  };
  std::vector<DeviceTensor> some, none;
  const auto with_rows = arguments(3, some), without = arguments(0, none);
  const auto refused = found.prepare(without);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 610) << refused.error().render();
  EXPECT_NE(refused.error().render().find("with each row, and there is none"), std::string::npos);
  const auto usual = compiled.prepare(with_rows), others = compiled.prepare(without);
  ASSERT_TRUE(usual) << usual.error().render();
  ASSERT_TRUE(others) << others.error().render();
  EXPECT_EQ(usual->kernels().size(), 1U);
  EXPECT_GT(others->kernels().size(), 1U);
}

// Rows are taken from what has none only where the loop, or the branch, is run.
TEST_F(HipEmpty, WhatIsNotRunTakesNothing) {
  const std::string text =
      "def more(t, n, h, x):\n    return t < n\n\ndef turn(t, n, h, x):\n"
      "    return t + 1, n, h + take(x, t) + sum(take(x, t)), x\n\ndef first(h, x):\n    return h + take(x, "
      "sum(arange(1), "
      "keepdim=False))\n\ndef none(h, x):\n    return h\n\ndef f(x: f32[\"l\", 4]):\n"
      "    n = sum(ones(l, dtype=i64), keepdim=False)\n    _, _, h, _ = while_loop(more, turn, cast(0, i64), n, "
      "zeros(4), "
      "x)\n    y = cond(n > 0, first, none, h, x)\n    return y\n";
  check_without(text, {{"l", 3}});
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    const Program program = Program::parse(changed, "p.py").value();
    const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
    std::vector<DeviceTensor> there;
    there.push_back(DeviceTensor::make(*device_, f32, {0, 4}).value());
    there.push_back(DeviceTensor::make(*device_, f32, {4}).value());
    const auto ran = compiled.run({{"x", there[0].view()}, {"y", there[1].view()}});
    ASSERT_FALSE(ran) << changed;
    EXPECT_EQ(ran.error().message(), "error[E0618]: elements of x are taken by indices, and it has none") << changed;
  };
  refused("t < n", "t < n + 1");
  refused("n > 0", "n < 1");
}

TEST_F(HipEmpty, RandomPrograms) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    if (!test::commit_takes(seed, 8)) continue;
    test::RandomProgramOptions options = test::drawn_options(seed);
    options.operations = 3 + static_cast<int>(seed % 5);
    options.indices = false;  // of nothing: E0618
    options.donated = 0;      // verify() wants what was there before
    options.parts = false;
    options.devices = 1;
    const test::RandomProgram made = test::random_program(seed, options);
    check_without(made.text, made.sizes);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace codetta
