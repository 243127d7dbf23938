// SPDX-License-Identifier: Apache-2.0
// Programs that are watched on a device, for the tests of every kind of device: their tensors here and there, and what
// bisect() and the trap have to find.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "codetta/codetta.hpp"

namespace codetta::test {

// Random tensors and poisoned outputs, here and there; behind the numbers that are given.
struct BoundProgram {
  std::vector<Tensor> host;
  std::vector<DeviceTensor> there;
  std::vector<NamedArgument> here_arguments, arguments;
};
inline BoundProgram bound_on(const Device& device, const Program& program,
                             const std::vector<std::pair<std::string, int64_t>>& sizes,
                             const std::vector<NamedArgument>& numbers = {}, double scale = 1) {
  BoundProgram made;
  made.here_arguments = made.arguments = numbers;
  const auto add = [&](const std::string& name, Tensor tensor) {
    made.host.push_back(std::move(tensor));
    made.there.push_back(DeviceTensor::copy_of(device, made.host.back()).value());
    made.here_arguments.push_back({name, made.host.back().view()});
    made.arguments.push_back({name, made.there.back().view()});
  };
  const std::vector<ProgramInput> inputs = program.missing(numbers, sizes, 8).value();
  for (const ProgramInput& input : inputs) {
    Tensor tensor = Tensor::make(input.dtype, input.shape).value();
    fill_random(tensor, made.host.size() + 1, Distribution::Normal, scale);
    add(input.name, std::move(tensor));
  }
  const ProgramShapes shapes = program.shapes(made.here_arguments).value();
  for (const ProgramShapes::Output& output : shapes.outputs) {
    Tensor tensor = Tensor::make(output.dtype, output.shape).value();
    fill_poison(tensor);
    add(output.name, std::move(tensor));
  }
  return made;
}

inline RunOptions observed(StepObserver observer, Observed what = Observed::values) {
  RunOptions options;
  options.observer = std::move(observer);
  options.observed = what;
  return options;
}

// Where no pass and no step is wrong: the elements that were compared, and the report's text. Fails the test elsewhere.
inline std::pair<int64_t, std::string> compared_right(const Program& program, const BoundProgram& data,
                                                      const Target& target, Context& context) {
  const auto found = bisect(program, data.arguments, target, {}, {}, context);
  EXPECT_TRUE(found) << found.error().render();
  if (!found) return {};
  EXPECT_EQ(found->pass, "");
  EXPECT_EQ(found->first_wrong, -1) << found->text;
  int64_t compared = 0;
  for (const BisectedStep& step : found->steps) {
    for (const OutputCheck& value : step.values) compared += value.checked;
  }
  return {compared, found->text};
}

// A product behind a product: m x inputs, inputs x hidden, hidden x outputs.
inline Program two_layers(int inputs, int hidden, int outputs) {
  const std::string in = std::to_string(inputs), mid = std::to_string(hidden), out = std::to_string(outputs);
  return Program::parse("def mlp(x: f32[\"m\", " + in + "], w: f32[" + in + ", " + mid + "], v: f32[" + mid + ", " +
                            out + "]):\n    h = relu(x @ w)\n    y = h @ v\n    return y\n",
                        "mlp.py")
      .value();
}
// What an observer writes into the results of one of its launches goes back: bisect() names that step, and verify()
// sees outputs that are made of it.
inline void expect_found_wrong_there(const Program& layers, const BoundProgram& data, int wrong, float by,
                                     Observed looked_at, const Target& target, Context& context) {
  BisectOptions options;
  int launch = 0;
  options.run.observed = looked_at;
  options.run.observer = [&](const StepRecord& record) -> Result<void> {
    if (!record.kernel.empty() && launch++ == wrong) record.written.at(0).view.as<float>()[3] += by;
    return {};
  };
  const auto found = bisect(layers, data.arguments, target, {}, options, context);
  ASSERT_TRUE(found) << found.error().render();
  ASSERT_GE(found->first_wrong, 0) << found->text;
  const BisectedStep& step = found->steps[static_cast<size_t>(found->first_wrong)];
  EXPECT_EQ(step.step.origins.at(0), wrong == 0 ? "mlp.py:2: h = relu(x @ w)" : "mlp.py:3: y = h @ v");
  EXPECT_EQ(step.values.at(0).wrong, 1);
  EXPECT_NE(step.values.at(0).worst.find("[0, 3]"), std::string::npos) << step.values.at(0).worst;
  const auto checked = verify(layers, data.arguments, target, {.poisoned = true}, context);
  EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Fail) << "the change went back to the device";
}

// h = log(x @ w), y = exp(h @ v), whose first line gives NaN at [1, 0] where the last element of x is negative enough,
// and whose second one gives infinities else.
inline Program logarithms() {
  return Program::parse(
             "def f(x: f32[2, 4], w: f32[4, 4], v: f32[4, 4]):\n    h = log(x @ w)\n"
             "    y = exp(h @ v)\n    return y\n",
             "logs.py")
      .value();
}
inline void fill_logarithms(BoundProgram& data, float last) {
  std::fill_n(data.host[0].view().as<float>(), 8, 2.0F);
  data.host[0].view().as<float>()[7] = last;
  std::fill_n(data.host[1].view().as<float>(), 16, 1.0F);
  std::fill_n(data.host[2].view().as<float>(), 16, 100.0F);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(data.there[i].upload(data.host[i]));
}
inline void expect_trapped_logarithm(const Result<void>& ran) {
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code(), 619);
  const std::string& reason = ran.error().diagnostics().front().reason;
  EXPECT_NE(reason.find("wrote NaN at [1, 0]"), std::string::npos) << reason;
  EXPECT_NE(reason.find("logs.py:2: h = log(x @ w)"), std::string::npos) << reason;
}

}  // namespace codetta::test
