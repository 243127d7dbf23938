// SPDX-License-Identifier: Apache-2.0
// Programs on a GPU held to the oracle, as `codetta run --check` does it; and reads by indices out of what has none.
#include <cmath>
#include <fstream>
#include <sstream>

#include "cuda_device/fixture.hpp"
#include "support/inner_sizes.hpp"

namespace codetta {
namespace {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

class DeviceProgramsChecked : public OnGpu {
 protected:
  // What is not given is random; indices are in range, and numbers 0.5. `given`: numbers, and tensors in host memory.
  // `graph`: as one launch, twice.
  void expect_pass(const std::string& text, const Sizes& sizes, const std::vector<NamedArgument>& given = {},
                   bool graph = false) {
    SCOPED_TRACE(text);
    const auto program = Program::parse(text, "program.py");
    ASSERT_TRUE(program) << program.error().render();
    const auto compiled = compile(*program, cuda, sizes, *context_);
    ASSERT_TRUE(compiled) << compiled.error().render();
    std::vector<Tensor> host;
    std::vector<DeviceTensor> copies;
    std::vector<NamedArgument> here, there;
    const auto inputs = program->missing(given, sizes, 16);
    ASSERT_TRUE(inputs) << inputs.error().render();
    uint64_t seed = 1;
    const auto copy = [&](const std::string& name, const TensorView& view) {
      copies.push_back(DeviceTensor::copy_of(*device_, view).value());
      here.push_back({name, view});
      there.push_back({name, copies.back().view()});
    };
    const auto add = [&](const std::string& name, Tensor tensor) {
      host.push_back(std::move(tensor));
      copy(name, host.back().view());
    };
    for (const NamedArgument& argument : given) {
      if (const TensorView* view = argument.value.tensor(); view != nullptr) {
        copy(argument.name, *view);
      } else {
        here.push_back(argument);
        there.push_back(argument);
      }
    }
    for (const ProgramInput& input : *inputs) {
      if (input.is_number) {
        here.push_back({input.name, 0.5});
        there.push_back({input.name, 0.5});
        continue;
      }
      Tensor tensor = Tensor::make(input.dtype, input.shape).value();
      // Factors so that sums of products stay about as large as what is summed, and bounds of layers below their
      // values.
      fill_random(tensor, seed++, Distribution::Normal,
                  input.terms > 0 ? 1 / std::sqrt(static_cast<double>(input.terms)) : 0.25);
      if (input.index_limit > 0 && input.dtype == i64) {
        for (int64_t i = 0; i < tensor.view().element_count(); ++i)
          tensor.view().as<int64_t>()[i] = (i * 7 + 3) % input.index_limit;
      }
      add(input.name, std::move(tensor));
    }
    const auto shapes = program->shapes(here);
    ASSERT_TRUE(shapes) << shapes.error().render();
    for (const auto& output : shapes->outputs) {
      Tensor tensor = Tensor::make(output.dtype, output.shape).value();
      fill_poison(tensor);
      add(output.name, std::move(tensor));
    }
    RunOptions run_options;
    run_options.graph = graph;
    auto execution = compiled->prepare(there, run_options);
    ASSERT_TRUE(execution) << execution.error().render();
    for (int pass = 0; pass < (graph ? 2 : 1); ++pass) {
      const auto ran = execution->run();
      ASSERT_TRUE(ran) << ran.error().render();
    }
    ASSERT_TRUE(device_->synchronize());
    VerifyOptions how;
    how.poisoned = true;
    const auto checked = verify(*program, there, cuda, how, *context_);
    ASSERT_TRUE(checked) << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
  }
  static std::string example(const std::string& name) {
    for (const char* root : {"", CODETTA_SOURCE_DIR "/"}) {
      std::ifstream file(root + ("examples/" + name));
      std::stringstream text;
      if (file && text << file.rdbuf()) return text.str();
    }
    ADD_FAILURE() << "no examples/" << name;
    return {};
  }
};

TEST_F(DeviceProgramsChecked, ProductsAndWhatFollows) {
  expect_pass("def f(x: bf16[\"m\", 64], w: bf16[64, 96], b: f32[96]):\n    y = relu(x @ w + b)\n    return y\n",
              {{"m", 50}});
  expect_pass(
      "def f(x: f32[\"m\", 32], w: f32[32, 48]):\n    h = x @ w\n    s = softmax(h, dim=-1)\n    t = sum(h, dim=0)\n"
      "    return s, t\n",
      {{"m", 21}});
}

// All of examples/ that are programs, but the solver below; as a decoder's step, and with more rows than a tile has.
TEST_F(DeviceProgramsChecked, Examples) {
  for (const int64_t rows : {1, 6, 130}) {
    const Sizes m{{"m", rows}};
    for (const char* name : {"norm_mlp.py", "swiglu.py", "weight_only_fp8.py", "weight_only_int4.py",
                             "weight_only_int8.py", "mixture_of_experts.py", "cross_entropy.py"})
      expect_pass(example("programs/" + std::string(name)), m);
    expect_pass(example("programs/lora.py"), {{"batch", rows}});
    expect_pass(example("digits/classifier.py"), {{"batch", rows}});
  }
  for (const int64_t s : {1, 33}) {
    expect_pass(example("programs/attention.py"), {{"heads", 3}, {"s", s}, {"t", 2 * s + 3}});
    expect_pass(example("programs/cache.py"), {{"s", 7 * s}});
    expect_pass(example("programs/decode.py"), {{"b", 3}, {"t", 7 * s}});
    expect_pass(example("programs/lstm.py"), {{"s", 5}, {"b", s}});
    expect_pass(example("programs/ragged.py"), {{"n", 7 * s}});
    expect_pass(example("programs/causal_attention.py"), {{"heads", 3}, {"s", s}});
    expect_pass(example("programs/grouped_query_attention.py"), {{"b", 2}, {"s", s}});
    expect_pass(example("programs/llama_block.py"), {{"b", 2}, {"s", s}});
  }
}

TEST_F(DeviceProgramsChecked, ExamplesAsOneGraph) {
  expect_pass(example("programs/llama_block.py"), {{"b", 2}, {"s", 33}}, {}, true);
  expect_pass(example("programs/cache.py"), {{"s", 40}}, {}, true);
  expect_pass(example("programs/grouped_query_attention.py"), {{"b", 1}, {"s", 5}}, {}, true);
}

// Loops that values decide: the example, of a matrix that it is for, and the one of docs/language.md.
TEST_F(DeviceProgramsChecked, Solvers) {
  for (const int64_t n : {1, 16, 70}) {
    const Tensor A = Tensor::make(f32, {n, n}).value();
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < n; ++c)
        A.view().as<float>()[r * n + c] = (r == c ? 2.0F : 0.0F) + 0.01F * static_cast<float>((r + c) % 7);
    }
    for (const int64_t most : {0, 1, 3})
      expect_pass(example("programs/conjugate_gradient.py"), {{"n", n}},
                  {{"A", A.view()}, {"tolerance", 0.0}, {"most", most}});
  }
  const std::string refine =
      "def more(i, x, r):\n    return (i < 20) & (sum(r * r) > 1e-10)\n"
      "def step(i, x, r):\n    return i + 1, x + r, r * 0.5\n"
      "def refine(b: f32[\"n\", 1], w: f32[\"n\", \"n\"]):\n"
      "    i, x, r = while_loop(more, step, 0, zeros(n, 1), w @ b)\n    return x, r\n";
  for (const int64_t n : {1, 40}) expect_pass(refine, {{"n", n}});
}

// Sizes that values give inside of branches and loops: each turn resolves what is behind one, also where a later turn's
// is larger, as large as one before, or 0.
TEST_F(DeviceProgramsChecked, SizesComputedInBranchesAndLoops) {
  const std::string loop =
      "def more(i, x, w, y):\n    return i < 5\n\n"
      "def step(i, x, w, y):\n"
      "    k = i * (4 - i)\n"
      "    z = relu(x[:k] @ w)\n"
      "    norm = z * rsqrt(mean(z * z, dim=-1) + 0.5)\n"
      "    whole = concat(norm, zeros(n - k, 64), dim=0)\n"
      "    p = softmax(x[:k] @ transpose(x, 0, 1))\n"
      "    return i + 1, x, w, y + whole @ transpose(w, 0, 1) + sum(p @ x, dim=0)\n\n"
      "def f(x: bf16[\"n\", 96], w: bf16[96, 64]):\n"
      "    i, a, b, y = while_loop(more, step, 0, x, w, zeros(n, 96))\n"
      "    return y\n";
  for (const int64_t n : {4, 9, 150}) expect_pass(loop, {{"n", n}});
  expect_pass(test::sizes_in_sizes, {{"n", 6}});
  for (const int64_t count : {0, 3, 7}) {
    const Tensor k = Tensor::make(i64, {}).value();
    *k.view().as<int64_t>() = count;
    expect_pass(test::sizes_of_one_function, {{"n", 8}}, {{"k", k.view()}});
  }
}

TEST_F(DeviceProgramsChecked, ReadsByIndices) {
  expect_pass("def f(x: f32[\"m\", 20], i: i64[\"n\"]):\n    y = take(x, i, 0) * 2.0\n    return y\n",
              {{"m", 11}, {"n", 30}});
  expect_pass(
      "def f(x: f32[\"m\", 32], w: f32[32, 24], i: i64[\"n\"]):\n    h = relu(x @ w)\n    y = take(h, i, 0)\n    "
      "return y\n",
      {{"m", 17}, {"n", 40}});
}

TEST_F(DeviceProgramsChecked, AnEmptyTableIsRefusedAndEmptyPartsReadNothing) {
  const std::string text = "def f(x: f32[\"m\", 20], i: i64[\"n\"]):\n    y = take(x, i, 0)\n    return y\n";
  const auto program = Program::parse(text, "program.py").value();
  const auto compiled = compile(program, cuda, {{"m", 4}, {"n", 4}}, *context_).value();
  const auto with = [&](int64_t m, int64_t n) -> Result<void> {
    const Tensor x = Tensor::make(f32, {m, 20}).value(), i = Tensor::make(i64, {n}).value();
    for (int64_t e = 0; e < n; ++e) i.view().as<int64_t>()[e] = 0;
    const DeviceTensor dx = DeviceTensor::copy_of(*device_, x).value(), di = DeviceTensor::copy_of(*device_, i).value(),
                       dy = DeviceTensor::make(*device_, f32, {n, 20}).value();
    auto ran = compiled.run({{"x", dx.view()}, {"i", di.view()}, {"y", dy.view()}});
    if (!ran) return ran;
    return device_->synchronize();
  };
  const auto refused = with(0, 5);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 618) << refused.error().render();
  EXPECT_TRUE(with(0, 0)) << "nothing is read";
  EXPECT_TRUE(with(3, 5));
  // A part without elements of what is joined.
  expect_pass("def f(x: f32[\"m\", 8], z: f32[\"n\", 8]):\n    y = concat(x, z, dim=0) + 1.0\n    return y\n",
              {{"m", 5}, {"n", 0}});
}

}  // namespace
}  // namespace codetta
