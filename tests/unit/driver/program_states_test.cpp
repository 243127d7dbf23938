// SPDX-License-Identifier: Apache-2.0
// Results that the caller binds to a parameter's own memory: caches of which a run writes one row, weights and states
// of an optimizer. They are what they are apart, to the last bit, and nothing else may lie there.
#include <gtest/gtest.h>

#include <cstring>

#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

// Results by the parameters in whose memory they lie.
using States = std::vector<std::pair<std::string, std::string>>;

class ProgramStates : public ::testing::Test {
 protected:
  // The results as bytes, in order; one text where the run is refused.
  std::vector<std::string> run(const CompiledProgram& program, const std::vector<ProgramInput>& inputs,
                               const States& states, int times = 1) {
    std::vector<NamedArgument> arguments;
    std::vector<Tensor> copies;
    for (const ProgramInput& input : inputs) {
      if (input.number) {
        arguments.push_back({input.name, *input.number});
        continue;
      }
      const TensorView given = input.view();
      copies.push_back(Tensor::make(given.dtype(), given.shape()).value());
      std::memcpy(copies.back().view().data(), given.data(), copies.back().byte_size());
      arguments.push_back({input.name, copies.back().view()});
    }
    std::vector<TensorView> results;
    const ProgramShapes shapes = program.shapes(arguments).value();
    for (const ProgramShapes::Output& output : shapes.outputs) {
      std::string place;
      for (const auto& [result, parameter] : states) {
        if (result == output.name) place = parameter;
      }
      if (place.empty()) {
        copies.push_back(Tensor::make(output.dtype, output.shape).value());
        fill_poison(copies.back().view());
        results.push_back(copies.back().view());
      } else {
        size_t at = 0;
        for (size_t i = 0; i < inputs.size() && inputs[i].name != place; ++i) at += inputs[i].number ? 0 : 1;
        results.push_back(copies[at].view());
      }
      arguments.push_back({output.name, results.back()});
    }
    for (int i = 0; i < times; ++i) {
      const auto ran = program.run(arguments);
      if (!ran) return {ran.error().render()};
    }
    std::vector<std::string> bytes;
    for (const TensorView& result : results) {
      bytes.emplace_back(static_cast<const char*>(result.data()),
                         static_cast<size_t>(result.element_count() * dtype_size(result.dtype())));
    }
    return bytes;
  }
  CompiledProgram compiled(const std::string& text) {
    return codetta::compile(Program::parse(text, "p.py").value(), Target::host(), {}, context_).value();
  }
  void expect_same(const std::string& text, const std::vector<ProgramInput>& inputs, const States& states) {
    const CompiledProgram program = compiled(text);
    const auto apart = run(program, inputs, {}), together = run(program, inputs, states);
    ASSERT_EQ(together.size(), apart.size()) << together[0] << text;
    for (size_t i = 0; i < apart.size(); ++i) EXPECT_EQ(together[i], apart[i]) << i << text;
  }
  std::string refused(const std::string& text, const std::vector<ProgramInput>& inputs, const States& states) {
    const auto said = run(compiled(text), inputs, states);
    return said.size() == 1 ? said[0] : "ran";
  }

  Context context_ = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
};

constexpr const char* decode =
    "def decode(x: f32[\"b\", 32], place: i64[1], keys: f32[\"b\", \"t\", 2, 16], values: f32[\"b\", \"t\", 2, 16],\n"
    "           wq: f32[32, 32], wk: f32[32, 32]):\n"
    "    q = reshape(x @ wq, (b, 2, 1, 16))\n"
    "    k = reshape(x @ wk, (b, 1, 2, 16))\n"
    "    new_keys = index_put(keys, place, k, dim=1)\n"
    "    new_values = index_put(values, place, k * 0.5, dim=1)\n"
    "    weights = softmax(q @ permute(new_keys, (0, 2, 3, 1)) * 0.25)\n"
    "    y = reshape(weights @ permute(new_values, (0, 2, 1, 3)), (b, 32))\n"
    "    return y, new_keys, new_values\n";

std::vector<ProgramInput> decode_inputs(int64_t b, int64_t t) {
  return {random_input("x", DType::f32, {b, 32}, 1),
          values_input("place", DType::i64, {1}, {static_cast<double>(t / 2)}),
          random_input("keys", DType::f32, {b, t, 2, 16}, 2),
          random_input("values", DType::f32, {b, t, 2, 16}, 3),
          random_input("wq", DType::f32, {32, 32}, 4),
          random_input("wk", DType::f32, {32, 32}, 5)};
}

TEST_F(ProgramStates, ACacheIsWrittenWhereItLies) {
  const States states{{"new_keys", "keys"}, {"new_values", "values"}};
  for (const auto& [b, t] : {std::pair<int64_t, int64_t>{3, 9}, {1, 1}, {2, 40}}) {
    expect_same(decode, decode_inputs(b, t), states);
    expect_same(decode, decode_inputs(b, t), {{"new_values", "values"}});
  }
  // Nothing but the rows is written: no step copies a cache, and none is kept beside it.
  const std::string plan = compiled(decode).emit(Stage::Plan).value();
  EXPECT_NE(plan.find("check new_keys does not overlap keys, or is the same view"), std::string::npos) << plan;
  EXPECT_NE(plan.find("  copy keys to new_keys\n"), std::string::npos) << plan;
  EXPECT_EQ(plan.find("copy keys to t"), std::string::npos) << plan;
}

TEST_F(ProgramStates, OnlyTheStatesOwnMemory) {
  const auto inputs = decode_inputs(2, 6);
  // One of the two is read when the other one's result is begun.
  for (const States& states :
       {States{{"new_keys", "values"}, {"new_values", "keys"}}, States{{"new_keys", "keys"}, {"new_values", "keys"}}}) {
    EXPECT_EQ(refused(decode, inputs, states).rfind("error[E0613]", 0), 0U) << refused(decode, inputs, states);
  }
  expect_same(decode, inputs, {{"y", "x"}});  // which is read at the beginning alone
}

TEST_F(ProgramStates, WeightsAreUpdatedWhereProductsHaveReadThem) {
  const std::string text =
      "def sgd(x: f32[\"m\", 16], target: f32[\"m\", 8], w: f32[16, 8], momentum: f32[16, 8], rate: f32):\n"
      "    error = x @ w - target\n"
      "    next_momentum = 0.9 * momentum + transpose(x) @ error\n"
      "    next_w = w - rate * next_momentum\n"
      "    loss = mean(error * error)\n"
      "    return next_w, next_momentum, loss\n";
  const std::vector<ProgramInput> inputs{random_input("x", DType::f32, {20, 16}, 1),
                                         random_input("target", DType::f32, {20, 8}, 2),
                                         random_input("w", DType::f32, {16, 8}, 3),
                                         random_input("momentum", DType::f32, {16, 8}, 4), number_input("rate", 0.01F)};
  expect_same(text, inputs, {{"next_w", "w"}, {"next_momentum", "momentum"}});
  // A second step goes on from where the first one ended.
  const CompiledProgram program = compiled(text);
  const States states{{"next_w", "w"}, {"next_momentum", "momentum"}};
  const auto once = run(program, inputs, states), twice = run(program, inputs, states, 2);
  ASSERT_EQ(twice.size(), 3U) << twice[0];
  EXPECT_NE(twice[2], once[2]);
}

// Whoever reads the parameter behind what writes the result, or at other places than it writes, reads what was there.
TEST_F(ProgramStates, WhatIsStillReadStaysAsItIs) {
  const std::vector<ProgramInput> inputs{random_input("s", DType::f32, {6, 6}, 1),
                                         values_input("at", DType::i64, {1}, {2}),
                                         random_input("v", DType::f32, {1, 6}, 2)};
  const std::string head = "def f(s: f32[\"n\", \"n\"], at: i64[1], v: f32[1, \"n\"]):\n";
  for (const char* body : {"    y = index_put(s, at, v)\n    z = index_put(s, at, 2.0 * v)\n    return y, z\n",
                           "    y = index_put(s, at, v)\n    z = y @ s\n    return y, z\n",
                           "    y = index_put(s, at, s[3:4] * v)\n    z = v + cast(at, f32)\n    return y, z\n",
                           "    y = index_put(transpose(s), at, v)\n    z = v + cast(at, f32)\n    return y, z\n",
                           "    y = s + transpose(s) * v\n    z = v + cast(at, f32)\n    return y, z\n",
                           "    y = s @ s + v\n    z = v + cast(at, f32)\n    return y, z\n"}) {
    const auto apart = run(compiled(head + body), inputs, {});
    const auto together = run(compiled(head + body), inputs, {{"y", "s"}});
    ASSERT_EQ(apart.size(), 2U);
    if (together.size() == 1) {
      EXPECT_EQ(together[0].rfind("error[E0613]", 0), 0U) << together[0] << body;
    } else {
      EXPECT_EQ(together, apart) << body;
    }
  }
}

// A loop's turns may read again what an earlier one has written.
TEST_F(ProgramStates, LoopsAndBranchesKeepTheirOperands) {
  const std::string text =
      "def more(i, y, s):\n    return i < 3\n\n"
      "def turn(i, y, s):\n    return i + 1, y + s, s\n\n"
      "def f(s: f32[\"n\", 4]):\n    i, y, t = while_loop(more, turn, 0, s, s)\n    return y\n";
  EXPECT_EQ(refused(text, {random_input("s", DType::f32, {6, 4}, 1)}, {{"y", "s"}}).rfind("error[E0613]", 0), 0U);
}

}  // namespace
}  // namespace codetta::test
