// SPDX-License-Identifier: Apache-2.0
// Writes at indices, branches and loops, one by one: values against the oracle, plans, and what is refused.
#include <cmath>
#include <fstream>
#include <iterator>

#include "driver/program_state.hpp"
#include "driver/verification.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

class ProgramControl : public ::testing::Test {
 protected:
  ProgramOutcome run(const std::string& text, const std::vector<ProgramInput>& inputs) {
    return run_checked(text, inputs, context_);
  }
  Error run_error(const std::string& text, const std::vector<ProgramInput>& inputs, const RunOptions& options = {}) {
    const auto program = Program::parse(text, "p.py");
    if (!program) return program.error();
    const auto compiled = compile(*program, Target::host(), {}, context_);
    if (!compiled) return compiled.error();
    std::vector<NamedArgument> arguments;
    std::vector<Tensor> outputs;
    for (const ProgramInput& input : inputs) arguments.push_back({input.name, input.view()});
    const auto shapes = compiled->shapes(arguments);
    if (!shapes) return shapes.error();
    for (const auto& output : shapes->outputs) {
      outputs.push_back(Tensor::make(output.dtype, output.shape).value());
      arguments.push_back({output.name, outputs.back().view()});
    }
    const auto ran = compiled->run(arguments, {}, options);
    EXPECT_FALSE(ran);
    return ran ? Error(Diagnostic{}) : ran.error();
  }
  static size_t count(const std::string& text, const std::string& word) {
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
  }
  static std::string steps(const ProgramOutcome& outcome) {
    const size_t begin = outcome.plan.find("steps:\n");
    return outcome.plan.substr(begin, outcome.plan.find("memory:\n") - begin);
  }

  Context context_ = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
};

// GPUs split K where it is long, which adds roundings, wherever in the program the product is.
TEST_F(ProgramControl, ProductsInsideOfBranchesAndLoopsAreJudgedByTheirLength) {
  const char* programs[] = {
      "def f(x: f32[8, \"k\"], w: f32[\"k\", 8]):\n    y = x @ w\n    return y\n",
      "def yes(x, w):\n    return x @ w\n\ndef no(x, w):\n    return zeros(8, 8)\n\n"
      "def f(x: f32[8, \"k\"], w: f32[\"k\", 8], flag: bool):\n    y = cond(flag, yes, no, x, w)\n    return y\n",
      "def more(i, y, x, w):\n    return i < 2\n\ndef step(i, y, x, w):\n    return i + 1, y + x @ w, x, w\n\n"
      "def f(x: f32[8, \"k\"], w: f32[\"k\", 8]):\n    i, y, x2, w2 = while_loop(more, step, 0, zeros(8, 8), x, w)\n"
      "    return y\n",
  };
  for (const char* text : programs) {
    const auto program = Program::parse(text, "p.py");
    ASSERT_TRUE(program) << program.error().render();
    const ir::Graph& graph = Program::Access::state(*program)->graph;
    const Target target = Target::parse("cuda:sm_90a").value();
    const oracle::OracleOptions options = driver::program_options(target, graph, {}, {{"k", 640}});
    ASSERT_TRUE(options.accumulation);
    EXPECT_EQ(options.accumulation->extra_roundings, driver::gpu_options(target, 640).accumulation->extra_roundings)
        << text;
    EXPECT_GT(options.accumulation->extra_roundings, 0) << text;
  }
}

// Where products finish rows, exponentials are judged by what those state of theirs.
TEST_F(ProgramControl, ExponentialsAreJudgedByTheArchitecture) {
  const auto program = Program::parse("def f(x: f32[8]):\n    y = exp(x)\n    return y\n", "p.py");
  ASSERT_TRUE(program) << program.error().render();
  const auto row_of = [&](const char* target) {
    const oracle::OracleOptions options =
        driver::program_options(Target::parse(target).value(), Program::Access::state(*program)->graph, {}, {});
    return *std::find_if(options.ulp.begin(), options.ulp.end(),
                         [](const oracle::UlpRow& row) { return row.op == types::Op::exp; });
  };
  EXPECT_EQ(row_of("cuda:sm_90a").f32_ln, 0.05);
  EXPECT_EQ(row_of("cuda:sm_90a").f32_ulp, 3);
  for (const char* other : {"cuda:sm_80", "cuda:sm_100a", "hip:gfx942", "cpu"})
    EXPECT_EQ(row_of(other).f32_ln, 0) << other;
}

TEST_F(ProgramControl, IndexPutAlongEveryDim) {
  for (const int dim : {0, 1, 2}) {
    for (const bool accumulate : {false, true}) {
      Dims shape{4, 5, 6}, values{4, 5, 6};
      values[dim] = 3;
      const std::string text = "def f(x: f32[4, 5, 6], i: i32[3], v: f32[" + std::to_string(values[0]) + ", " +
                               std::to_string(values[1]) + ", " + std::to_string(values[2]) +
                               "]):\n    y = index_put(x, i, v, dim=" + std::to_string(dim) +
                               (accumulate ? ", accumulate=True" : "") + ")\n    z = y * 2.0 + x\n    return y, z\n";
      run(text, {random_input("x", f32, shape, 1), index_input("i", i32, {3}, shape[dim], 2),
                 random_input("v", f32, values, 3)});
    }
  }
}

TEST_F(ProgramControl, IndexPutWithIndicesOfAnyRank) {
  run("def f(x: bf16[\"n\", 3], i: i64[2, 2], v: bf16[2, 2, 3]):\n    y = index_put(x, i, v, accumulate=True)\n"
      "    return y\n",
      {random_input("x", bf16, {5, 3}, 1), index_input("i", i64, {2, 2}, 5, 2), random_input("v", bf16, {2, 2, 3}, 3)});
  run("def f(x: f32[4, 7, 2], i: i64[2, 3], v: f32[4, 2, 3, 2]):\n    y = index_put(x, i, v, dim=1)\n    return y\n",
      {random_input("x", f32, {4, 7, 2}, 1), index_input("i", i64, {2, 3}, 7, 2),
       random_input("v", f32, {4, 2, 3, 2}, 3)});
  run("def f(x: f32[7], v: f32[()]):\n    y = index_put(x, 3, v)\n    return y\n",
      {random_input("x", f32, {7}, 1), random_input("v", f32, {}, 3)});
  run("def f(x: f32[7], i: i64, v: f32):\n    y = index_put(x * 2.0, i, v)\n    return y\n",
      {random_input("x", f32, {7}, 1), number_input("i", int64_t{5}), number_input("v", 3.5)});
}

TEST_F(ProgramControl, ScatterBetweenProducts) {
  for (const char* reduce : {"none", "sum", "max", "min"}) {
    const ProgramOutcome outcome =
        run(std::string("def f(x: f32[\"m\", 8], w: f32[8, 6], i: i64[\"m\", 4], v: f32[\"m\", 4], u: f32[6, 5]):\n"
                        "    h = relu(x @ w)\n    s = scatter(h, i, v, dim=1, reduce=\"") +
                reduce + "\")\n    y = tanh(s @ u)\n    return y\n",
            {random_input("x", f32, {9, 8}, 1), random_input("w", f32, {8, 6}, 2), index_input("i", i64, {9, 4}, 6, 3),
             random_input("v", f32, {9, 4}, 4), random_input("u", f32, {6, 5}, 5)});
    // h ends there: it is updated where it lies.
    EXPECT_EQ(count(steps(outcome), "reuse"), 1U) << steps(outcome);
    EXPECT_EQ(count(steps(outcome), "copy"), 0U) << steps(outcome);
  }
  const ProgramOutcome kept =
      run("def f(x: f32[\"m\", 8], w: f32[8, 6], i: i64[\"m\", 4], v: f32[\"m\", 4]):\n    h = relu(x @ w)\n"
          "    s = scatter(h, i, v, dim=1)\n    y = s * h\n    return y\n",
          {random_input("x", f32, {9, 8}, 1), random_input("w", f32, {8, 6}, 2), index_input("i", i64, {9, 4}, 6, 3),
           random_input("v", f32, {9, 4}, 4)});
  EXPECT_EQ(count(steps(kept), "reuse"), 0U) << steps(kept);
  EXPECT_EQ(count(steps(kept), "copy"), 1U) << steps(kept);
}

// What a step makes is read behind a product that does not need it.
TEST_F(ProgramControl, AScatteredOperandIsFused) {
  const ProgramOutcome outcome =
      run("def f(x: f32[\"m\", 8], w: f32[8, 6], c: f32[\"m\", 6], i: i64[\"m\", 2], v: f32[\"m\", 2]):\n"
          "    y = relu(x @ w + scatter(c, i, v, dim=1))\n    return y\n",
          {random_input("x", f32, {9, 8}, 1), random_input("w", f32, {8, 6}, 2), random_input("c", f32, {9, 6}, 3),
           index_input("i", i64, {9, 2}, 6, 4), random_input("v", f32, {9, 2}, 5)});
  EXPECT_EQ(count(outcome.plan, "\nkernel "), 1U) << outcome.plan;
}

TEST_F(ProgramControl, BranchesAndWhatTheyPassThrough) {
  const std::string text =
      "def yes(x, w, c):\n    h = relu(x @ w)\n    return h, x, c * 2.0\n"
      "def no(x, w, c):\n    return c, x + 1.0, c\n"
      "def f(p: i32[1], x: f32[\"m\", 4], w: f32[4, 4], c: f32[\"m\", 4]):\n"
      "    a, b, d = cond(p > 0, yes, no, x * 0.5, w, c)\n    y = a @ w + b\n    return y, d, b\n";
  for (const double p : {0.0, 1.0}) {
    run(text, {values_input("p", i32, {1}, {p}), random_input("x", f32, {6, 4}, 1), random_input("w", f32, {4, 4}, 2),
               random_input("c", f32, {6, 4}, 3)});
  }
  for (const bool p : {false, true}) {
    run("def yes(x):\n    return -x\ndef no(x):\n    return x * x\n"
        "def f(p: bool, x: f32[7]):\n    y = cond(p, yes, no, x)\n    return y\n",
        {number_input("p", p), random_input("x", f32, {7}, 1)});
  }
}

TEST_F(ProgramControl, LoopsOfAnyLength) {
  const std::string text =
      "def more(i, n, x, w):\n    return i < n\n"
      "def step(i, n, x, w):\n    return i + 1, n, tanh(x @ w) + x * 0.5, w\n"
      "def f(n: i32, x: f32[\"m\", 5], w: f32[5, 5]):\n    i, n2, y, w2 = while_loop(more, step, 0, n, x, w)\n"
      "    return y, i\n";
  for (const int64_t n : {0, 1, 2, 7}) {
    const ProgramOutcome outcome =
        run(text, {number_input("n", n), random_input("x", f32, {4, 5}, 1), random_input("w", f32, {5, 5}, 2)});
    // What stays as it is isn't copied.
    EXPECT_EQ(count(steps(outcome), "copy w"), 0U) << steps(outcome);
  }
}

TEST_F(ProgramControl, LiteralsThatTheUsualTypeDoesNotHold) {
  run("def more(i, x):\n    return i < 4294967300\ndef step(i, x):\n    return i + 1, x * 2.0\n"
      "def f(x: f32[4]):\n    i, y = while_loop(more, step, 2**32, x)\n    return i, y\n",
      {random_input("x", f32, {4}, 1)});
  run("def a(x):\n    return x + 1\ndef b(x):\n    return 2**8 + 3\n"
      "def f(p: bool, x: u8):\n    y = cond(p, a, b, x)\n    return y\n",
      {number_input("p", false), number_input("x", int64_t{9})});
  run("def f(x: u8[5]):\n    y = index_put(x, 3, 2**8 + 7)\n    return y\n", {random_input("x", u8, {5}, 1)});
}

TEST_F(ProgramControl, CarriedValuesThatChangePlaces) {
  run("def more(i, a, b, c):\n    return i < 3\n"
      "def turn(i, a, b, c):\n    return i + 1, b, a + c, c * 0.5\n"
      "def f(x: f32[3, 4], z: f32[3, 4]):\n    i, a, b, c = while_loop(more, turn, 0, x, x, z)\n"
      "    return a, b, c, i\n",
      {random_input("x", f32, {3, 4}, 1), random_input("z", f32, {3, 4}, 2)});
}

// Where the old value has no reader left, the new one is written over it.
TEST_F(ProgramControl, CarriedValuesAreUpdatedInPlace) {
  const ProgramOutcome outcome =
      run("def more(i, x, r):\n    return i < 5\n"
          "def turn(i, x, r):\n    return i + 1, x + r, r * 0.5\n"
          "def f(b: f32[6, 9]):\n    i, x, r = while_loop(more, turn, 0, b * 0.25, b * 2.0)\n    return x, r\n",
          {random_input("b", f32, {6, 9}, 1)});
  const std::string text = steps(outcome);
  EXPECT_EQ(count(text.substr(text.find("while")), "copy"), 0U) << text;
}

// A cache that a loop writes to, a row a turn, lies in one place.
TEST_F(ProgramControl, ACacheWrittenInALoop) {
  const ProgramOutcome outcome =
      run("def more(i, x, cache, w):\n    return i < 4\n"
          "def turn(i, x, cache, w):\n    k = x @ w\n    c = index_put(cache, reshape(i, (1,)), k)\n"
          "    return i + 1, tanh(x + sum(c, dim=0)), c, w\n"
          "def f(x: f32[1, 6], w: f32[6, 6]):\n"
          "    i, y, cache, w2 = while_loop(more, turn, 0, x, zeros(8, 6), w)\n    return y, cache\n",
          {random_input("x", f32, {1, 6}, 1), random_input("w", f32, {6, 6}, 2)});
  EXPECT_NE(steps(outcome).find("put t"), std::string::npos) << steps(outcome);
}

TEST_F(ProgramControl, NestedLoopsAndBranches) {
  const std::string text =
      "def less(j, s, k):\n    return j < k\n"
      "def add(j, s, k):\n    return j + 1, s * 0.5 + 1.0, k\n"
      "def even(i, x):\n    j, s, k = while_loop(less, add, 0, x, i)\n    return s\n"
      "def odd(i, x):\n    return relu(x) - 0.25\n"
      "def more(i, x, w):\n    return (i < 4) & (sum(x * x) > 0.0)\n"
      "def turn(i, x, w):\n    y = cond(i % 2 == 0, even, odd, i, x @ w)\n    return i + 1, y, w\n"
      "def f(x: f32[\"m\", 3], w: f32[3, 3]):\n    i, y, w2 = while_loop(more, turn, 0, x, w)\n"
      "    z = y @ w2\n    return z, i\n";
  run(text, {random_input("x", f32, {5, 3}, 1), random_input("w", f32, {3, 3}, 2)});
}

TEST_F(ProgramControl, ALoopOverRowsBySizesAndNumbers) {
  run("def more(i, s, x, a):\n    return i < 6\n"
      "def turn(i, s, x, a):\n    return i + 1, s + take(x, i) * a, x, a\n"
      "def f(x: f32[6, \"n\"], a: f32):\n    i, s, x2, a2 = while_loop(more, turn, 0, zeros(n), x, a)\n    return s\n",
      {random_input("x", f32, {6, 5}, 1), number_input("a", 0.5)});
}

TEST_F(ProgramControl, IndicesOutOfRangeAreNamed) {
  const std::string put = "def f(x: f32[4, 3], i: i64[2], v: f32[2, 3]):\n    y = index_put(x, i, v)\n    return y\n";
  const std::vector<ProgramInput> put_inputs = {random_input("x", f32, {4, 3}, 1), values_input("i", i64, {2}, {1, 4}),
                                                random_input("v", f32, {2, 3}, 2)};
  const Error error = run_error(put, put_inputs);
  EXPECT_EQ(error.code(), 618) << error.render();
  EXPECT_NE(error.render().find("index 4 is out of range for the size 4"), std::string::npos) << error.render();
  const std::string take = "def f(t: f32[7, 3], i: i32[\"n\"]):\n    y = take(t, i) * 2.0\n    return y\n";
  for (const double bad : {-1.0, 7.0}) {
    const Error taken = run_error(take, {random_input("t", f32, {7, 3}, 1), values_input("i", i32, {3}, {0, bad, 6})});
    EXPECT_EQ(taken.code(), 618) << taken.render();
    EXPECT_NE(taken.render().find("stands at [1] of i"), std::string::npos) << taken.render();
  }
  const Error computed = run_error("def f(t: f32[7, 3], i: i32[\"n\"]):\n    y = take(t, i + 1) * 2.0\n    return y\n",
                                   {random_input("t", f32, {7, 3}, 1), values_input("i", i32, {3}, {0, 6, 5})});
  EXPECT_EQ(computed.code(), 618) << computed.render();
  // Not looked at when it isn't asked for: the nearest one.
  oracle::OracleOptions nearest;
  nearest.clamp_indices = true;
  RunOptions unchecked;
  unchecked.checked = false;
  for (const double bad : {-1.0, 7.0}) {
    run_checked(take, {random_input("t", f32, {7, 3}, 1), values_input("i", i32, {3}, {0, bad, 6})}, context_, nearest,
                unchecked);
  }
  run_checked(put, put_inputs, context_, nearest, unchecked);
}

TEST_F(ProgramControl, BranchesThatDiffer) {
  const Error dtype = run_error(
      "def yes(x):\n    return x\ndef no(x):\n    return cast(x, bf16)\n"
      "def f(p: bool[1], x: f32[4]):\n    y = cond(p, yes, no, x)\n    return y\n",
      {});
  EXPECT_EQ(dtype.code(), 226) << dtype.render();
}

// Extern functions: out-form, alloc-form with several results, and numbers.
int scale_out(void* context, const CodettaTensor* inputs, int input_count, CodettaTensor* outputs, int output_count) {
  if (input_count != 2 || output_count != 1 || inputs[1].rank != 0) return 3;
  ++*static_cast<int*>(context);
  const float by = *static_cast<const float*>(inputs[1].data);
  for (int64_t r = 0; r < inputs[0].shape[0]; ++r) {
    for (int64_t c = 0; c < inputs[0].shape[1]; ++c) {
      const float x = static_cast<const float*>(inputs[0].data)[r * inputs[0].strides[0] + c * inputs[0].strides[1]];
      static_cast<float*>(outputs[0].data)[r * outputs[0].strides[0] + c * outputs[0].strides[1]] = x * by;
    }
  }
  return 0;
}
// Two results of its own, the first one lying column by column.
int halves(void* context, const CodettaTensor* inputs, int input_count, CodettaTensor* outputs, int output_count) {
  if (input_count != 1 || output_count != 2) return 4;
  ++*static_cast<int*>(context);
  const int64_t rows = inputs[0].shape[0], cols = inputs[0].shape[1];
  for (int o = 0; o < 2; ++o) {
    auto* data = new float[static_cast<size_t>(rows * cols) + 1];
    outputs[o].data = data;
    outputs[o].rank = 2;
    outputs[o].dtype = static_cast<int32_t>(f32);
    outputs[o].shape[0] = rows;
    outputs[o].shape[1] = cols;
    outputs[o].strides[0] = o == 0 ? 1 : cols;
    outputs[o].strides[1] = o == 0 ? rows : 1;
    outputs[o].release = [](CodettaTensor* tensor) { delete[] static_cast<float*>(tensor->data); };
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const float x = static_cast<const float*>(inputs[0].data)[r * inputs[0].strides[0] + c * inputs[0].strides[1]];
        data[r * outputs[o].strides[0] + c * outputs[o].strides[1]] = o == 0 ? x * 0.5F : x - 1.0F;
      }
    }
  }
  return 0;
}
int fails(void*, const CodettaTensor*, int, CodettaTensor*, int) { return 77; }

TEST_F(ProgramControl, ExternFunctions) {
  int calls = 0;
  RunOptions options;
  options.externs = {{"scale", scale_out, &calls}, {"halves", halves, &calls}};
  oracle::OracleOptions meaning;
  meaning.functions["scale"] = [](std::span<const TensorView> in, std::span<const TensorView> out) -> Result<void> {
    for (int64_t i = 0; i < in[0].element_count(); ++i)
      out[0].as<float>()[i] = in[0].as<float>()[i] * *in[1].as<float>();
    return {};
  };
  meaning.functions["halves"] = [](std::span<const TensorView> in, std::span<const TensorView> out) -> Result<void> {
    for (int64_t i = 0; i < in[0].element_count(); ++i) {
      out[0].as<float>()[i] = in[0].as<float>()[i] * 0.5F;
      out[1].as<float>()[i] = in[0].as<float>()[i] - 1.0F;
    }
    return {};
  };
  const std::string text =
      "def f(x: f32[\"m\", 4], w: f32[4, 4], a: f32):\n"
      "    s = call_extern(\"scale\", x, a, out=\"f32[m, 4]\")\n"
      "    h, k = call_extern(\"halves\", s, out=(\"f32[m, 4]\", \"f32[m, 4]\"), form=\"alloc\")\n"
      "    y = relu(h @ w) + k\n    return y, h, s\n";
  run_checked(text, {random_input("x", f32, {5, 4}, 1), random_input("w", f32, {4, 4}, 2), number_input("a", 2.0)},
              context_, meaning, options);
  EXPECT_EQ(calls, 4);
  // In a loop, and one of two results that nobody needs.
  const std::string loop =
      "def more(i, x):\n    return i < 3\n"
      "def turn(i, x):\n    h, k = call_extern(\"halves\", x, out=(\"f32[m, 4]\", \"f32[m, 4]\"), form=\"alloc\")\n"
      "    return i + 1, k + call_extern(\"scale\", x, 0.5, out=\"f32[m, 4]\")\n"
      "def f(x: f32[\"m\", 4]):\n    i, y = while_loop(more, turn, 0, x)\n    return y\n";
  run_checked(loop, {random_input("x", f32, {5, 4}, 1)}, context_, meaning, options);

  const std::vector<ProgramInput> inputs = {random_input("x", f32, {5, 4}, 1)};
  const std::string one =
      "def f(x: f32[\"m\", 4]):\n    y = call_extern(\"scale\", x, 2.0, out=\"f32[m, 4]\")\n    return y\n";
  const Error missing = run_error(one, inputs);
  EXPECT_EQ(missing.code(), 616);
  EXPECT_NE(missing.render().find("external function scale is not provided"), std::string::npos) << missing.render();
  EXPECT_EQ(missing.diagnostics().front().where.line, 2U) << missing.render();
  RunOptions failing;
  failing.externs = {{"scale", fails, nullptr}};
  const Error failed = run_error(one, inputs, failing);
  EXPECT_EQ(failed.code(), 617);
  EXPECT_NE(failed.render().find("it returned 77"), std::string::npos) << failed.render();
}

std::string example(const std::string& name) {
  std::ifstream file(std::string(CODETTA_SOURCE_DIR) + "/examples/programs/" + name + ".py");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_F(ProgramControl, ExampleLora) {
  const ProgramOutcome outcome =
      run(example("lora"),
          {random_input("x", f32, {3, 256}, 1), random_input("w", f32, {256, 512}, 2),
           random_input("down", f32, {256, 8}, 3), random_input("up", f32, {8, 512}, 4), number_input("scale", 0.5)});
  EXPECT_EQ(count(outcome.plan, "\nkernel "), 3U) << outcome.plan;  // no element-wise one
}

// Each side lacks another batch dim; sizes of 1 and of 0 at the symbolic ones, too.
TEST_F(ProgramControl, FactorsThatLackSomeBatchDims) {
  for (const int64_t b : {2, 1, 0}) {
    run("def f(q: f32[\"b\", 1, 3, 5, 8], k: f32[2, 1, 8, 4]):\n    y = q @ k\n    return y\n",
        {random_input("q", f32, {b, 1, 3, 5, 8}, 1), random_input("k", f32, {2, 1, 8, 4}, 2)});
    run("def f(q: f32[\"b\", 2, 4, \"s\", 8], k: f32[\"b\", 2, 1, \"t\", 8], v: f32[\"b\", 2, 1, \"t\", 8]):\n"
        "    y = softmax(q @ transpose(k) * 0.35) @ v\n    return y\n",
        {random_input("q", f32, {b, 2, 4, 6, 8}, 1), random_input("k", f32, {b, 2, 1, 7, 8}, 2),
         random_input("v", f32, {b, 2, 1, 7, 8}, 3)});
  }
}

TEST_F(ProgramControl, ExampleGroupedQueryAttention) {
  for (const auto& [b, s] : {std::pair(2, 9), std::pair(1, 1)}) {
    run(example("grouped_query_attention"),
        {random_input("x", f32, {b, s, 256}, 1), random_input("wq", f32, {256, 256}, 2),
         random_input("wk", f32, {256, 64}, 3), random_input("wv", f32, {256, 64}, 4),
         random_input("wo", f32, {256, 256}, 5), random_input("cosines", f32, {s, 1, 16}, 6),
         random_input("sines", f32, {s, 1, 16}, 7)});
  }
}

TEST_F(ProgramControl, ExampleWeightOnlyFp8) {
  run(example("weight_only_fp8"),
      {random_input("x", f32, {5, 256}, 1), random_input("gate", f8e4m3, {768, 256}, 2),
       random_input("gate_scale", f32, {768, 1}, 3), random_input("up", f8e4m3, {768, 256}, 4),
       random_input("up_scale", f32, {768, 1}, 5), random_input("down", f8e5m2, {256, 768}, 6),
       random_input("down_scale", f32, {256, 1}, 7)});
}

TEST_F(ProgramControl, ExampleCache) {
  run(example("cache"),
      {random_input("x", f32, {1, 64}, 1), values_input("place", i64, {1}, {5}), random_input("wq", f32, {64, 64}, 2),
       random_input("wk", f32, {64, 64}, 3), random_input("wv", f32, {64, 64}, 4),
       random_input("keys", f32, {9, 64}, 5), random_input("values", f32, {9, 64}, 6)});
}

// A x = b within the tolerance, as a product in double says, in far fewer turns than there are unknowns.
TEST_F(ProgramControl, ExampleConjugateGradient) {
  const auto program = Program::parse(example("conjugate_gradient"), "conjugate_gradient.py");
  ASSERT_TRUE(program) << program.error().render();
  const auto compiled = compile(*program, Target::host(), {}, context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  for (const int64_t n : {1, 7, 120}) {
    const ProgramInput m = random_input("m", f32, {n, n}, 11), b = random_input("b", f32, {n, 1}, 12);
    Tensor a = Tensor::make(f32, {n, n}).value(), x = Tensor::make(f32, {n, 1}).value(),
           turns = Tensor::make(i32, {}).value(), left = Tensor::make(f32, {1, 1}).value();
    const auto* from = m.view().as<float>();
    auto* to = a.view().as<float>();
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = i == j ? 2.0 : 0.0;
        for (int64_t k = 0; k < n; ++k)
          sum += double{from[i * n + k]} * double{from[j * n + k]} / (4.0 * static_cast<double>(n));
        to[i * n + j] = static_cast<float>(sum);
      }
    }
    fill_poison(x.view());
    const auto ran = compiled->run({{"A", a.view()},
                                    {"b", b.view()},
                                    {"tolerance", 1e-8},
                                    {"most", int64_t{100}},
                                    {"x", x.view()},
                                    {"turns", turns.view()},
                                    {"left", left.view()}});
    ASSERT_TRUE(ran) << ran.error().render();
    double worst = 0;
    for (int64_t i = 0; i < n; ++i) {
      double sum = -double{b.view().as<float>()[i]};
      for (int64_t j = 0; j < n; ++j) sum += double{to[i * n + j]} * double{x.view().as<float>()[j]};
      worst = std::max(worst, std::abs(sum));
    }
    EXPECT_LT(worst, 1e-3) << n;
    EXPECT_LE(*turns.view().as<int32_t>(), std::min<int64_t>(n, 30)) << n;
    EXPECT_GE(*turns.view().as<int32_t>(), 1) << n;
  }
  const auto plan = compiled->emit(Stage::Plan);
  ASSERT_TRUE(plan);
  const std::string loop = plan->substr(plan->find("while loop"));
  EXPECT_EQ(count(loop.substr(0, loop.find("memory:")), "copy A"), 0U) << loop;
}

}  // namespace
}  // namespace codetta::test
