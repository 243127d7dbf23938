// SPDX-License-Identifier: Apache-2.0
// Programs take tensors of the caller's however they lie, and write nothing beside them.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include <fmt/format.h>

#include "base/files.hpp"
#include "support/layouts.hpp"
#include "support/random_program.hpp"
#include "support/slice.hpp"

namespace codetta {
namespace {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

class ProgramLayouts : public ::testing::Test {
 protected:
  static Context context(bool compiles) {
    return Context::make({.cache_enabled = false, .no_compiler = !compiles, .threads = 2}).value();
  }

  // One run with tensors that lie somewhere.
  static void check(const Program& program, const CompiledProgram& compiled, const Sizes& sizes, uint64_t seed,
                    Context& context, const std::string& what) {
    std::mt19937_64 random(seed);
    std::vector<NamedArgument> arguments;
    std::vector<test::Laid> inputs, outputs;
    std::string layouts;
    const auto told = [&](const std::string& name, const TensorView& view) {
      layouts += fmt::format("{} {} strides {}\n", name, view.describe(), to_string(view.strides()));
    };
    const auto missing = program.missing({}, sizes, 4);
    ASSERT_TRUE(missing) << missing.error().render();
    for (const ProgramInput& input : *missing) {
      if (input.is_number) {
        arguments.push_back({input.name, 0.5});
        continue;
      }
      Tensor dense = Tensor::make(input.dtype, input.shape).value();
      const bool number = input.dtype == f16 || input.dtype == bf16 || input.dtype == f32 || input.dtype == f64;
      const int64_t limit = input.index_limit;
      if (number || (limit == 0 && dtype_size(input.dtype) == 1)) {
        fill_random(dense, random());
      } else if (input.dtype == i64) {
        for (int64_t e = 0; e < dense.view().element_count(); ++e)
          dense.view().as<int64_t>()[e] = (e * 7 + 3) % std::max<int64_t>(limit, 1);
      }
      inputs.push_back(test::laid(input.dtype, input.shape, random, true));
      test::copy_elements(dense, inputs.back().view);
      arguments.push_back({input.name, inputs.back().view});
      told(input.name, inputs.back().view);
    }
    const auto shapes = program.shapes(arguments);
    ASSERT_TRUE(shapes) << what << shapes.error().render();
    for (const ProgramShapes::Output& output : shapes->outputs) {
      outputs.push_back(test::laid(output.dtype, output.shape, random, false));
      arguments.push_back({output.name, outputs.back().view});
      told(output.name, outputs.back().view);
    }
    for (const bool guarded : {true, false}) {
      RunOptions options;
      options.checked = guarded;
      for (const test::Laid& output : outputs) fill_poison(output.memory);
      const auto ran = compiled.run(arguments, {}, options);
      ASSERT_TRUE(ran) << what << layouts << ran.error().render();
      const auto verdict = verify(program, arguments, Target::host(), {.poisoned = true}, context);
      ASSERT_TRUE(verdict) << what << verdict.error().render();
      EXPECT_NE(verdict->verdict, VerifyReport::Verdict::Fail) << what << layouts << verdict->text;
      for (const test::Laid& output : outputs) EXPECT_TRUE(output.gaps_untouched()) << what << layouts;
    }
  }
};

TEST_F(ProgramLayouts, EveryKernelTakesThem) {
  for (const bool compiles : {true, false}) {
    Context here = context(compiles);
    uint64_t which = 0;
    for (const test::LayoutProgram& one : test::layout_programs()) {
      if (compiles && !test::commit_takes(which++, 3)) continue;  // interpreted they all run
      const Program program = Program::parse(one.text, "p.py").value();
      const auto compiled = compile(program, Target::host(), {}, here);
      ASSERT_TRUE(compiled) << one.text << compiled.error().render();
      for (uint64_t seed = 1; seed <= 12; ++seed)
        check(program, *compiled, one.sizes, seed, here, fmt::format("seed {}\n{}", seed, one.text));
    }
  }
}

TEST_F(ProgramLayouts, RandomPrograms) {
  Context here = context(false);
  for (uint64_t seed = 1; seed <= (CODETTA_TEST_FULL ? 400u : 40u); ++seed) {
    test::RandomProgramOptions options = test::drawn_options(seed);
    options.operations = 6;
    options.control = true;
    options.donated = 0;  // the oracle reads them behind the run
    options.parts = false;
    options.devices = 1;
    const test::RandomProgram made = test::random_program(seed, options);
    const Program program = Program::parse(made.text).value();
    if (const auto inputs = program.missing({}, made.sizes, 4); !inputs) continue;
    const auto compiled = compile(program, Target::host(), {}, here);
    ASSERT_TRUE(compiled) << made.text << compiled.error().render();
    check(program, *compiled, made.sizes, seed, here, fmt::format("seed {}\n{}", seed, made.text));
  }
}

// Parts of joins that are parts of other joins are stored in these, but where others need the inner one.
TEST_F(ProgramLayouts, PartsOfJoinsInsideOfJoins) {
  Context here = context(false);
  const std::string made =
      "def f(x: f32[\"n\", 24], a: f32[24, 16], b: f32[24, 8], c: f32[24, 24]):\n    p = relu(x @ a)\n"
      "    q = x @ b\n    r = gelu(x @ c)\n    s = sum(p, dim=1) + sum(q, dim=1) + sum(r, dim=1)\n    ";
  for (const std::string body :
       {"y = concat(concat(p, q, dim=1), r, concat(q * 2.0, p, dim=1), dim=0)\n    return s, y\n",
        "y = join(concat(p, q, dim=1), r, dim=1, interleave=True)\n    return s, y\n",
        "y = join(r, concat(q, join(q, q + 1.0, dim=1, interleave=True), dim=1), dim=0, "
        "interleave=True)\n    return s, y\n",
        "t = concat(p, q, dim=1)\n    y = concat(t, r, dim=0)\n    return s, y, t\n",
        "t = concat(p, q, dim=1)\n    y = concat(x, concat(t, concat(r, x, t, dim=0), dim=0), "
        "x, dim=0)\n    z = t @ c\n    return s, y, z\n",
        "y = concat(concat(concat(p, q, dim=1), r, dim=0), concat(x, tanh(r), dim=0), dim=1) "
        "@ concat(c, c, dim=0)\n    return s, y\n",
        "y = sum(concat(concat(p, q, dim=1), r, x, dim=0), dim=0)\n    z = concat(concat(q, "
        "x, dim=1), zeros(n, 3), dim=1)\n    return s, y, z\n"}) {
    const Program program = Program::parse(made + body, "p.py").value();
    const auto compiled = compile(program, Target::host(), {}, here);
    ASSERT_TRUE(compiled) << body << compiled.error().render();
    for (const int64_t n : {1, 7, 40}) {
      for (uint64_t seed = 1; seed <= 3; ++seed)
        check(program, *compiled, {{"n", n}}, seed, here, fmt::format("n {}, seed {}\n{}", n, seed, body));
    }
  }
}

// Outputs have gaps, or are turned, while what they hold is read across its dims.
TEST_F(ProgramLayouts, OutputsThatAreReadAcrossTheirDims) {
  Context here = context(false);
  const Program program = Program::parse(
                              "def one(y):\n    a = y * 2.0\n    return a, reshape(a, (11, n))\n"
                              "def other(y):\n    a = y - 1.0\n    return a, exp(reshape(a, (11, n)))\n"
                              "def f(x: f32[\"n\", 16], w: f32[16, 11], p: i32[1]):\n"
                              "    y = x @ w\n    z = tanh(reshape(y, (11, n)))\n    u = relu(x)\n"
                              "    v = sum(reshape(u, (4, \"4*n\")), dim=0)\n"
                              "    a, b = cond(p > 0, one, other, y)\n    return y, z, u, v, a, b\n",
                              "p.py")
                              .value();
  const auto compiled = compile(program, Target::host(), {}, here);
  ASSERT_TRUE(compiled) << compiled.error().render();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    for (const int64_t n : {1, 6, 24}) check(program, *compiled, {{"n", n}}, seed, here, fmt::format("seed {}", seed));
  }
}

// Rows of merged dims are counted in a dim that has more than one element for all sizes; items are told apart whatever
// dims of size 1 stand around them; and what has no elements is reshaped as what has some.
TEST_F(ProgramLayouts, DimsOfOneElementAndOfNone) {
  Context here = context(false);
  const struct {
    std::string text;
    std::vector<Sizes> sizes;
  } cases[] = {
      {"def f(x: f32[\"b\", \"c\", 3, 3]):\n    y = tanh(reshape(x, (b*c, 9)))\n"
       "    z = softmax(reshape(x, (c, 1, b, 9)))\n    u = sum(reshape(y, (b, c, 3, 3)), dim=-1)\n    return y, z, u\n",
       {{{"b", 5}, {"c", 1}}, {{"b", 1}, {"c", 5}}, {{"b", 1}, {"c", 1}}, {{"b", 2}, {"c", 3}}}},
      {"def f(x: f32[\"b\", 3, 2, \"c\"]):\n    y = tanh(reshape(x, (6*b*c,)))\n"
       "    z = reshape(x, (b, 1, c, 6)) - reshape(exp(reshape(x, (6*b*c,))), (b, 1, c, 6))\n"
       "    u = sum(reshape(relu(x), (6*b*c,)), dim=0)\n    return y, z, u\n",
       {{{"b", 5}, {"c", 1}}, {{"b", 1}, {"c", 4}}, {{"b", 3}, {"c", 7}}}},
      {"def f(x: f32[1, \"a\", 1, \"b\", 4], w: f32[1, \"a\", 1, 4, 5]):\n    y = relu(x) @ w\n"
       "    z = reshape(y, (a, b, 5)) + 1.0\n    u = sum(y, dim=-1)\n    return y, z, u\n",
       {{{"a", 3}, {"b", 7}}, {{"a", 1}, {"b", 2}}}},
      {"def f(x: f32[4, 1, 0], v: f32[4, 1, 5], w: f32[0, 3], u: f32[5, 0], t: f32[6, 0, 5]):\n"
       "    y = relu(x) @ w\n    z = relu(v) @ u\n    p = relu(reshape(x, (4, 0))) @ w\n"
       "    q = sum(relu(reshape(t, (2, 3, 0, 5))), dim=2) + 1.0\n    return y, z, p, q\n",
       {{}}},
      {"def f(x: f32[3, 1, 5], w: f32[5, 0], t: i8[2, 0, \"b\"], u: bool[4, 1, 0]):\n    v = relu(x) @ w\n"
       "    y = sum(v, dim=-1)\n    z = sum(reshape(v, (0, 7)) + 1.0, dim=0)\n    p = reshape(t, (b, 0, 3))\n"
       "    q = max(where(reshape(relu(t), (0,)) > 0, 1.0, 2.0), dim=0)\n    r = where(reshape(u, (0, 9)), 3.0, 4.0)\n"
       "    return y, z, p, q, r\n",
       {{{"b", 3}}, {{"b", 0}}}},
      {"def f(x: f32[\"b\", \"c\", 1, 4], w: f32[4, 5]):\n    v = x @ w\n    y = relu(v)\n"
       "    z = reshape(v, (b*c, 5)) * 2.0\n    return y, z\n",
       {{{"b", 3}, {"c", 5}}, {{"b", 1}, {"c", 1}}, {{"b", 0}, {"c", 2}}}},
      {"def f(x: f32[\"b\", 0, 2, 3], w: f32[\"b\", 1, 2, 3]):\n    y = x * w\n    z = sum(y, dim=1)\n    u = max(x, "
       "dim=-1)\n"
       "    return y, z, u\n",
       {{{"b", 3}}, {{"b", 0}}}},
      {"def f(x: f32[\"b\", \"c\", \"d\", 0], w: f32[\"c\", 0, 3]):\n    y = x @ w\n    return y\n",
       {{{"b", 2}, {"c", 3}, {"d", 2}}, {{"b", 1}, {"c", 0}, {"d", 4}}}},
      {"def f(x: f32[0, 6, 4], w: f32[4, 2]):\n    y = reshape(x @ w, (4, 0, 3))\n    return y\n", {{}}},
      {"def f(x: f32[4, 3], w: f32[3, 0]):\n    v = x @ w\n    y = reshape(v, (0,)) + 1.0\n"
       "    z = sum(reshape(v, (0, 5)), dim=0)\n    u = max(reshape(v, (2, 0, 7)), dim=-1)\n    return y, z, u\n",
       {{}}},
      {"def f(x: f32[\"b\", 4, 3], w: f32[3, 0]):\n    v = relu(x @ w)\n    y = reshape(v, (b, 0, 7))\n"
       "    z = reshape(permute(v, (2, 1, 0)), (0,))\n    return y, z, v\n",
       {{{"b", 3}}, {{"b", 0}}}},
  };
  for (const auto& [text, all] : cases) {
    const Program program = Program::parse(text, "p.py").value();
    const auto compiled = compile(program, Target::host(), {}, here);
    ASSERT_TRUE(compiled) << text << compiled.error().render();
    for (const Sizes& sizes : all) {
      for (uint64_t seed = 1; seed <= 4; ++seed) check(program, *compiled, sizes, seed, here, text);
    }
  }
}

// Several dims of items count as one, whatever their sizes and however they lie; what is the same for some of them is
// repeated, and one B serves all rows.
TEST_F(ProgramLayouts, ItemsOfSeveralSymbolicDims) {
  Context here = context(false);
  const std::string texts[] = {
      "def f(x: f32[\"b\", \"c\", 2, 8], w: f32[8, 5]):\n    y = x @ w\n    return y\n",
      "def f(x: f32[\"b\", \"c\", 4, 8], w: f32[\"b\", \"c\", 8, 5]):\n    y = x @ w\n    return y\n",
      "def f(x: bf16[\"b\", \"c\", 4, 8], w: bf16[\"c\", 8, 5], v: f32[\"b\", 1, 1, 5], s: f32[\"b\", \"c\", 4, 1]):\n"
      "    y = x @ w\n    z = relu(y + v) * s\n    u = sum(z, dim=-1)\n    return y, z, u\n",
      "def f(x: f32[\"b\", \"c\", 3, 8], w: f32[\"b\", 1, 5, 8], v: f32[\"b\", \"c\", 5, 8]):\n"
      "    p = softmax(x @ transpose(w) * 0.5)\n    y = p @ v\n    return y, p\n",
      "def f(x: f32[\"b\", \"c\", 3, 8]):\n    y = relu(x) @ transpose(x)\n    return y\n",
      "def f(x: f32[4, 3], w: f32[\"b\", 2, \"c\", 3, 5]):\n    y = x @ w\n    return y\n",
      "def f(x: f32[\"b\", 1, 2, \"c\"], w: f32[1, \"c\", \"c\", 3]):\n    y = x @ w\n    return y\n",
  };
  for (const std::string& text : texts) {
    const Program program = Program::parse(text, "p.py").value();
    const auto compiled = compile(program, Target::host(), {}, here);
    ASSERT_TRUE(compiled) << text << compiled.error().render();
    for (const auto& [b, c] : {std::pair{3, 5}, {1, 4}, {6, 1}, {1, 1}, {0, 2}, {2, 0}}) {
      const Sizes sizes{{"b", b}, {"c", c}};
      for (uint64_t seed = 1; seed <= 6; ++seed) check(program, *compiled, sizes, seed, here, text);
    }
  }
}

// What a kernel has no axes for is merged, or copied where it is turned, whatever the sizes and however it lies.
TEST_F(ProgramLayouts, MoreSymbolicDimsThanAxes) {
  Context here = context(false);
  const std::string texts[] = {
      "def f(x: f32[\"b\", \"h\", \"s\", \"d\"], g: f32[\"d\"], z: f32[\"h\", 1, 1]):\n"
      "    y = relu(x) * z\n    u = rms_norm(x, g)\n    return y, u\n",
      "def f(x: f32[\"b\", \"h\", \"s\", \"d\"]):\n    y = permute(x, (0, 2, 1, 3))\n    z = relu(permute(x, (1, 3, 0, "
      "2)))\n"
      "    u = permute(x, (1, 0, 2, 3)) + 1.0\n    v = permute(x, (3, 2, 1, 0))\n    return y, z, u, v\n",
      "def f(x: bf16[\"b\", \"h\", \"s\", \"d\"]):\n    y = sum(x, dim=1)\n    z = max(x, dim=(0, 3))\n"
      "    u = mean(x, dim=(1, 2), keepdim=False)\n    v = x[:, :, :, d // 2:]\n    return y, z, u, v\n",
      "def f(q: f32[\"b\", \"h\", \"s\", \"d\"], k: f32[\"b\", \"h\", \"t\", \"d\"]):\n    p = softmax(q @ "
      "transpose(k) * 0.5)\n"
      "    y = p @ k\n    z = reshape(permute(y, (0, 2, 1, 3)), (b, s, h*d))\n    return z, p\n",
      "def f(x: f32[\"b\", \"h\", \"s\", \"d\"], w: f32[\"d\", \"t\"]):\n    y = x @ w\n    z = concat(x, x * 0.5, "
      "dim=2)\n"
      "    return y, z\n",
      "def f(x: f32[\"b\", \"h\", 8], z: f32[\"b\", \"s\", 8]):\n"
      "    y = sum(tanh(x[:, :, None, :] + z[:, None, :, :]), dim=-1, keepdim=False)\n    u = mean(x, dim=(0, 1))\n"
      "    return y, u\n",
      // A dim of one element is no neighbour: 2 and b are not of one operand.
      "def f(x: f32[2, 1, 1, \"h\", \"s\"], w: f32[\"b\", \"h\", \"s\"]):\n    y = relu(x) * w\n    return y\n",
      "def more(i, x):\n    return i < 2\ndef step(i, x):\n    return i + 1, tanh(x)\ndef one(x):\n    return relu(x)\n"
      "def other(x):\n    return x\n"
      "def f(x: f32[\"b\", \"h\", \"s\", \"d\"], p: f32[1]):\n    i, y = while_loop(more, step, 0, x)\n"
      "    z = cond(sum(p) > 0.0, one, other, x)\n    return y, z\n",
  };
  for (const std::string& text : texts) {
    const Program program = Program::parse(text, "p.py").value();
    const auto compiled = compile(program, Target::host(), {}, here);
    ASSERT_TRUE(compiled) << text << compiled.error().render();
    for (const std::vector<int64_t>& n : {std::vector<int64_t>{3, 5, 4, 6}, {1, 4, 1, 5}, {4, 1, 3, 1}, {2, 3, 0, 4}}) {
      Sizes sizes{{"b", n[0]}, {"h", n[1]}, {"s", n[2]}};
      if (text.find("\"d\"") != std::string::npos) sizes.emplace_back("d", n[3]);
      if (text.find("\"t\"") != std::string::npos) sizes.emplace_back("t", 7);
      if (n[2] == 0 && text.find("max(x") != std::string::npos) continue;
      for (uint64_t seed = 1; seed <= 4; ++seed) check(program, *compiled, sizes, seed, here, text);
    }
  }
}

// Where nothing may be compiled and nothing is in the cache, the error says what would help.
TEST_F(ProgramLayouts, WithoutKernelsForThem) {
  const auto folder = *base::TemporaryDirectory::make("/tmp");
  const Program program =
      Program::parse("def f(x: f32[\"m\", \"n\"]):\n    y = exp(x)\n    return y\n", "p.py").value();
  Tensor x = Tensor::make(f32, {3, 5}).value(), y = Tensor::make(f32, {5, 3}).value();
  fill_random(x, 1);
  const std::vector<NamedArgument> turned{{"x", TensorView::make(x.data(), f32, {5, 3}, {1, 5}).value()},
                                          {"y", y.view()}};
  ContextOptions options{.cache_dir = folder.path(), .threads = 1};
  Context first = Context::make(options).value();
  ASSERT_TRUE(compile(program, Target::host(), {}, first));
  options.no_jit = true;
  Context second = Context::make(options).value();
  const auto cached = compile(program, Target::host(), {}, second);
  ASSERT_TRUE(cached) << cached.error().render();
  const auto refused = cached->run(turned);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 610);
  const std::string text = refused.error().render();
  EXPECT_NE(text.find("x must be contiguous in its last dimension"), std::string::npos) << text;
  EXPECT_NE(text.find("a program takes other kernels"), std::string::npos) << text;
  ASSERT_TRUE(compile(program, Target::host(), {}, first)->run(turned));
  const auto there = compile(program, Target::host(), {}, second)->run(turned);  // by now they are in the cache
  EXPECT_TRUE(there) << there.error().render();
  EXPECT_FLOAT_EQ(y.view().as<float>()[1], std::exp(x.view().as<float>()[5]));
}

}  // namespace
}  // namespace codetta
