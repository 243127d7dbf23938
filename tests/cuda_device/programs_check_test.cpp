// SPDX-License-Identifier: Apache-2.0
// Programs on a GPU held to the oracle, as `codetta run --check` does it; and reads by indices out of what has none.
#include <fstream>
#include <sstream>

#include "cuda_device/fixture.hpp"

namespace codetta {
namespace {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

class DeviceProgramsChecked : public OnGpu {
 protected:
  // What is not said is random; indices are in range.
  void expect_pass(const std::string& text, const Sizes& sizes) {
    const auto program = Program::parse(text, "program.py");
    ASSERT_TRUE(program) << program.error().render();
    const auto compiled = compile(*program, cuda, sizes, *context_);
    ASSERT_TRUE(compiled) << compiled.error().render();
    std::vector<Tensor> host;
    std::vector<DeviceTensor> copies;
    std::vector<NamedArgument> here, there;
    const auto inputs = program->missing({}, sizes, 16);
    ASSERT_TRUE(inputs) << inputs.error().render();
    uint64_t seed = 1;
    const auto add = [&](const std::string& name, Tensor tensor) {
      host.push_back(std::move(tensor));
      copies.push_back(DeviceTensor::copy_of(*device_, host.back()).value());
      here.push_back({name, host.back().view()});
      there.push_back({name, copies.back().view()});
    };
    for (const ProgramInput& input : *inputs) {
      if (input.is_number) {
        here.push_back({input.name, 0.5});
        there.push_back({input.name, 0.5});
        continue;
      }
      Tensor tensor = Tensor::make(input.dtype, input.shape).value();
      fill_random(tensor, seed++, Distribution::Normal, 0.25);
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
    const auto ran = compiled->run(there);
    ASSERT_TRUE(ran) << ran.error().render();
    VerifyOptions how;
    how.poisoned = true;
    const auto checked = verify(*program, there, cuda, how, *context_);
    ASSERT_TRUE(checked) << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << text << checked->text;
  }
  static std::string example(const std::string& name) {
    for (const char* root : {"", CODETTA_SOURCE_DIR "/"}) {
      std::ifstream file(root + ("examples/programs/" + name));
      std::stringstream text;
      if (file && text << file.rdbuf()) return text.str();
    }
    ADD_FAILURE() << "no examples/programs/" << name;
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

TEST_F(DeviceProgramsChecked, Examples) {
  expect_pass(example("swiglu.py"), {{"m", 6}});
  expect_pass(example("lora.py"), {{"batch", 9}});
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
