// SPDX-License-Identifier: Apache-2.0
// Programs over several devices on a CPU, whose devices are all the host: results, and where parameters and results
// lie.
#include <fstream>
#include <iterator>

#include "codetta/observe.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

Context cpu() { return Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value(); }

const std::string two_stages =
    "def stage(x, g, up, down):\n    h = silu(rms_norm(x, g) @ up)\n    y = x + h @ down\n    return y\n"
    "def f(x: f32[\"m\", 16], g0: f32[16], u0: f32[16, 24], d0: f32[24, 16], g1: f32[16], u1: f32[16, 24],"
    " d1: f32[24, 16]):\n"
    "    a0 = stage(x[:m // 2], g0, u0, d0)\n    b0 = stage(x[m // 2:], g0, u0, d0)\n"
    "    g = to_device(g1, 1)\n    u = to_device(u1, 1)\n    d = to_device(d1, 1)\n"
    "    a1 = stage(to_device(a0, 1), g, u, d)\n    b1 = stage(to_device(b0, 1), g, u, d)\n"
    "    y = concat(a1, b1, dim=0)\n    return y, a0\n";

TEST(ProgramDevices, TwoStages) {
  Context context = cpu();
  std::vector<ProgramInput> inputs{random_input("x", DType::f32, {9, 16}, 1)};
  for (const char* suffix : {"0", "1"}) {
    inputs.push_back(random_input(std::string("g") + suffix, DType::f32, {16}, 2));
    inputs.push_back(random_input(std::string("u") + suffix, DType::f32, {16, 24}, 3));
    inputs.push_back(random_input(std::string("d") + suffix, DType::f32, {24, 16}, 4));
  }
  const ProgramOutcome outcome = run_checked(two_stages, inputs, context);
  EXPECT_TRUE(outcome.checked);
  EXPECT_NE(outcome.plan.find("enter device 1"), std::string::npos) << outcome.plan;
}

TEST(ProgramDevices, TheExample) {
  Context context = cpu();
  std::ifstream file(std::string(CODETTA_SOURCE_DIR) + "/examples/programs/two_devices.py");
  const auto program = Program::parse({std::istreambuf_iterator<char>(file), {}});
  ASSERT_TRUE(program) << program.error().render();
  std::vector<ProgramInput> inputs{random_input("x", DType::f32, {5, 256}, 1)};
  for (const char* suffix : {"0", "1"}) {
    inputs.push_back(random_input(std::string("g") + suffix, DType::f32, {256}, 2));
    inputs.push_back(random_input(std::string("up") + suffix, DType::f32, {256, 768}, 3));
    inputs.push_back(random_input(std::string("down") + suffix, DType::f32, {768, 256}, 4));
  }
  for (const ProgramParameter& parameter : program->parameters())
    EXPECT_EQ(parameter.device, parameter.name.ends_with("1") ? 1 : 0) << parameter.name;
  const ProgramOutcome outcome = run_checked(*program, "two_devices.py", inputs, context);
  EXPECT_TRUE(outcome.checked);
}

TEST(ProgramDevices, ParametersAndResultsSayWhereTheyLie) {
  const auto program = Program::parse(two_stages);
  ASSERT_TRUE(program) << program.error().render();
  std::string devices;
  for (const ProgramParameter& parameter : program->parameters()) devices += std::to_string(parameter.device);
  EXPECT_EQ(devices, "0000111");
  ASSERT_EQ(program->outputs().size(), 2U);
  EXPECT_EQ(program->outputs()[0].device, 1);
  EXPECT_EQ(program->outputs()[1].device, 0);
}

TEST(ProgramDevices, ExplainSaysWhereAndHowMuch) {
  Context context = cpu();
  const auto program = Program::parse(two_stages);
  ASSERT_TRUE(program) << program.error().render();
  const auto text = explain(*program, Target::host(), {{"m", 8}}, false, context);
  ASSERT_TRUE(text) << text.error().render();
  EXPECT_NE(text->find("devices: 2\n"), std::string::npos) << *text;
  EXPECT_NE(text->find("  1        g1, u1 and d1; returns y\n"), std::string::npos) << *text;
  EXPECT_NE(text->find("  0 to 1   a0, 64*(m // 2) = 256 bytes\n"), std::string::npos) << *text;
  EXPECT_NE(text->find(", on device 1\n"), std::string::npos) << *text;
  const auto json = explain(*program, Target::host(), {{"m", 8}}, true, context);
  ASSERT_TRUE(json) << json.error().render();
  EXPECT_NE(json->find("\"count\": 2"), std::string::npos) << *json;
  const auto one = explain(Program::parse("def f(x: f32[4]):\n    y = x * 2.0\n    return y\n").value(), Target::host(),
                           {}, false, context);
  ASSERT_TRUE(one) << one.error().render();
  EXPECT_EQ(one->find("device"), std::string::npos) << *one;
}

TEST(ProgramDevices, BisectAndVerifySeeAllDevices) {
  Context context = cpu();
  const Program program = Program::parse(two_stages).value();
  std::vector<ProgramInput> inputs{random_input("x", DType::f32, {8, 16}, 1)};
  for (const char* suffix : {"0", "1"}) {
    inputs.push_back(random_input(std::string("g") + suffix, DType::f32, {16}, 2));
    inputs.push_back(random_input(std::string("u") + suffix, DType::f32, {16, 24}, 3));
    inputs.push_back(random_input(std::string("d") + suffix, DType::f32, {24, 16}, 4));
  }
  const Tensor y = Tensor::make(DType::f32, {8, 16}).value(), a0 = Tensor::make(DType::f32, {4, 16}).value();
  fill_poison(y.view());
  fill_poison(a0.view());
  std::vector<NamedArgument> arguments{{"y", y.view()}, {"a0", a0.view()}};
  for (const ProgramInput& input : inputs) arguments.push_back({input.name, input.view()});
  const auto found = bisect(program, arguments, Target::host(), {}, {}, context);
  ASSERT_TRUE(found) << found.error().render();
  EXPECT_EQ(found->first_wrong, -1) << found->text;
  EXPECT_TRUE(found->pass.empty()) << found->pass;
  const auto checked = verify(program, arguments, Target::host(), VerifyOptions{.poisoned = true}, context);
  ASSERT_TRUE(checked) << checked.error().render();
  EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
  const auto shapes = compile(program, Target::host(), {}, context)->shapes(arguments);
  ASSERT_TRUE(shapes) << shapes.error().render();
  EXPECT_EQ(shapes->outputs[0].device, 1);
  EXPECT_EQ(shapes->outputs[1].device, 0);
}

// A strided source, a transposed one, a loop that goes back and forth, a predicate on the other device.
TEST(ProgramDevices, WhatIsCopiedMayLieAnyhow) {
  Context context = cpu();
  const std::string text =
      "def yes(x):\n    return to_device(relu(to_device(transpose(x), 0)), 1)\n"
      "def no(x):\n    return transpose(x) - 1.0\n"
      "def more(i, x):\n    return i < 3\n"
      "def turn(i, x):\n    h = to_device(tanh(x), 0) @ to_device(x, 0)\n    return i + 1, to_device(h, 1)\n"
      "def f(p: i32[1], x: f32[6, 6], n: f32):\n"
      "    t = to_device(transpose(x)[1:5, 1:5], 1) * n\n    y = cond(p > 0, yes, no, t)\n"
      "    _, z = while_loop(more, turn, 0, y)\n    s = to_device(x, 2)\n    return z, s\n";
  for (const int64_t limit : {1, 2}) {
    const ProgramOutcome outcome = run_checked(text,
                                               {index_input("p", DType::i32, {1}, limit, 5),
                                                random_input("x", DType::f32, {6, 6}, 6), number_input("n", 0.5F)},
                                               context);
    EXPECT_TRUE(outcome.checked);
  }
}

}  // namespace
}  // namespace codetta::test
