// SPDX-License-Identifier: Apache-2.0
// Watching programs run on an AMD GPU that is none: what observers are told is what the kernels left, held to the
// oracle and to what a CPU's run tells.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "emulator/hip_context.hpp"
#include "support/observed_program.hpp"
#include "types/convert.hpp"

namespace codetta {
namespace {

using test::BoundProgram;
using test::observed;

class HipObserve : public EmulatedHip {
 protected:
  using Sizes = std::vector<std::pair<std::string, int64_t>>;
  BoundProgram bound(const Program& program, const Sizes& sizes, const std::vector<NamedArgument>& numbers = {}) const {
    return test::bound_on(*device_, program, sizes, numbers);
  }
  static std::vector<double> values_of(const TensorView& view) {
    std::vector<double> values;
    const auto walk = [&](const auto& self, int dim, int64_t offset) -> void {
      if (dim == view.rank()) {
        values.push_back(types::load_f64(view.as<std::byte>() + offset * dtype_size(view.dtype()), view.dtype()));
        return;
      }
      for (int64_t i = 0; i < view.size(dim); ++i) self(self, dim + 1, offset + i * view.stride(dim));
    };
    walk(walk, 0, 0);
    return values;
  }
  // Of every launch: what it wrote, by name, in order.
  using Written = std::vector<std::pair<std::string, std::vector<double>>>;
  static StepObserver writes(Written& into) {
    return [&into](const StepRecord& record) -> Result<void> {
      for (const StepRecord::Value& value : record.written) {
        if (!record.kernel.empty()) into.emplace_back(value.name, values_of(value.view));
      }
      return {};
    };
  }
};

// Every product writes where the one before the last lies: copies that come too late would be of others.
TEST_F(HipObserve, EveryValueIsThatOfTheOracle) {
  const Program program = Program::parse(
                              "def chain(x: f32[\"m\", 12], w: f32[12, 12]):\n"
                              "    a = tanh(x @ w)\n    b = tanh(a @ w)\n    c = tanh(b @ w)\n    d = tanh(c @ w)\n"
                              "    y = d @ w\n    return y\n",
                              "chain.py")
                              .value();
  for (const int64_t m : {33, 1}) {
    const BoundProgram data = bound(program, {{"m", m}});
    const CompiledProgram compiled = compile(program, hip_, {{"m", m}}, *context_).value();
    const int64_t workspace = compiled.prepare(data.arguments).value().workspace_size();
    EXPECT_LT(workspace, m * 12 * 4 * 3 + 1024) << "not one place for each of four";
    const auto [compared, text] = test::compared_right(program, data, hip_, *context_);
    EXPECT_EQ(compared, 5 * m * 12) << text;
    EXPECT_NE(text.find("chain.py:4: c = tanh(b @ w)"), std::string::npos) << text;
  }
}

// What an observer writes goes back: later steps read it, and the comparison sees it.
TEST_F(HipObserve, BisectNamesTheStepThatIsWrong) {
  const Program program = test::two_layers(8, 16, 8);
  for (const int wrong : {0, 1})
    test::expect_found_wrong_there(program, bound(program, {{"m", 5}}), wrong, 1, Observed::steps, hip_, *context_);
}

TEST_F(HipObserve, TrapNamesStepLineAndElement) {
  const Program program = test::logarithms();
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  BoundProgram data = bound(program, {});
  const auto run = [&](float last, bool infinities) {
    test::fill_logarithms(data, last);
    return compiled.run(data.arguments, {}, observed(trap_numbers(infinities)));
  };
  test::expect_trapped_logarithm(run(-20, false));
  EXPECT_TRUE(run(2, false));
  const auto infinite = run(2, true);
  ASSERT_FALSE(infinite);
  EXPECT_NE(infinite.error().diagnostics().front().reason.find("logs.py:3"), std::string::npos);
}

// As a CPU tells of them: by name and turn, within the rounding of a few operations.
TEST_F(HipObserve, LoopsAndBranches) {
  const Program program = Program::parse(
                              "def more(i, x):\n    return i < 3\n"
                              "def body(i, x):\n    return i + 1, x * 2.0 + 1.0\n"
                              "def less(x):\n    return x - 5.0\n"
                              "def same(x):\n    return x * 3.0\n"
                              "def f(x: f32[\"n\"], flag: bool[1]):\n    i, y = while_loop(more, body, 0, x)\n"
                              "    z = cond(flag, less, same, y)\n    return z\n",
                              "loop.py")
                              .value();
  const CompiledProgram on_gpu = compile(program, hip_, {}, *context_).value(),
                        on_cpu = compile(program, {Backend::cpu, CpuIsa::generic, {}}, {}, *context_).value();
  for (const bool taken : {true, false}) {
    BoundProgram data = bound(program, {{"n", 6}});
    for (size_t i = 0; i < data.host.size(); ++i) {
      if (data.host[i].view().dtype() != boolean) continue;
      *data.host[i].view().as<bool>() = taken;
      ASSERT_TRUE(data.there[i].upload(data.host[i]));
    }
    Written here, there;
    size_t nested = 0;
    bool loop = false;
    const auto ran = on_gpu.run(data.arguments, {}, observed([&](const StepRecord& record) -> Result<void> {
                                  nested += record.step.rfind("list ", 0) == 0 && !record.kernel.empty();
                                  loop = loop || record.step.find("(while)") != std::string::npos;
                                  return writes(there)(record);
                                }));
    ASSERT_TRUE(ran) << ran.error().render();
    ASSERT_TRUE(on_cpu.run(data.here_arguments, {}, observed(writes(here))));
    EXPECT_TRUE(loop);
    EXPECT_GE(nested, 4U);
    // And each is what the oracle makes of that which the turn, or the branch, begins with.
    const auto found = bisect(program, data.arguments, hip_, {}, {}, *context_);
    ASSERT_TRUE(found) << found.error().render();
    EXPECT_EQ(found->first_wrong, -1) << found->text;
    const auto compared = std::count_if(found->steps.begin(), found->steps.end(), [](const BisectedStep& step) {
      return step.step.step.starts_with("list ") && !step.values.empty();
    });
    EXPECT_EQ(static_cast<size_t>(compared), nested) << found->text;
    EXPECT_NE(found->text.find(", turn 3  "), std::string::npos) << found->text;
    // Kernels of the two targets may hold more or less; a value that both write, both write as often.
    std::map<std::string, std::vector<std::vector<double>>> left, right;
    for (auto& [name, values] : here) left[name].push_back(values);
    for (auto& [name, values] : there) right[name].push_back(values);
    ASSERT_TRUE(right.contains("z"));
    size_t common = 0;
    for (const auto& [name, turns] : left) {
      if (!right.contains(name)) continue;
      ASSERT_EQ(turns.size(), right[name].size()) << name;
      for (size_t turn = 0; turn < turns.size(); ++turn, ++common) {
        ASSERT_EQ(turns[turn].size(), right[name][turn].size());
        for (size_t e = 0; e < turns[turn].size(); ++e)
          EXPECT_NEAR(turns[turn][e], right[name][turn][e], 1e-4) << name << ", turn " << turn << ", " << e;
      }
    }
    EXPECT_GE(common, 4U);
  }
}

TEST_F(HipObserve, ChecksTakeResultsOfUserKernelsAsGiven) {
  const std::string folder = CODETTA_SOURCE_DIR "/examples/user_kernel/";
  for (const bool hooked : {false, true}) {
    const Program text =
        Program::parse(*base::read_file(folder + (hooked ? "hooked.py" : "program.py"), 1 << 16), "p.py")
            .value()
            .with_kernels(
                {{"running_sums", *base::read_file(folder + (hooked ? "hooked_sums.hip" : "running_sums.hip"), 1 << 16),
                  UserKernel::Language::hip, "sums.hip"}})
            .value();
    for (const bool keeps : {true, false}) {
      if (!hooked && !keeps) continue;
      const Program program = keeps ? text.with_hooked_results() : text;
      const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
      const BoundProgram data = bound(program, hooked ? Sizes{{"m", 5}, {"n", 24}} : Sizes{{"m", 5}}, {{"decay", 0.5}});
      KeptResults kept;
      std::vector<std::string> functions;
      const auto ran = compiled.run(data.arguments, {},
                                    observed(keep_results(kept,
                                                          [&](const StepRecord& record) -> Result<void> {
                                                            if (!record.function.empty())
                                                              functions.push_back(record.function);
                                                            return {};
                                                          }),
                                             Observed::results));
      ASSERT_TRUE(ran) << ran.error().render();
      EXPECT_EQ(functions, std::vector<std::string>{"running_sums"});
      ASSERT_EQ(kept.calls.size(), keeps ? 1U : 0U);
      VerifyOptions how;
      how.given = kept.calls;
      how.poisoned = true;
      const auto checked = verify(program, data.arguments, hip_, how, *context_);
      if (!keeps) {
        EXPECT_EQ(checked.error().code(), 311);
        continue;
      }
      ASSERT_TRUE(checked) << checked.error().render();
      EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
      EXPECT_EQ(checked->given, std::vector<std::string>{"running_sums"});
      kept.calls[0].results[0].as<float>()[7] += 4;
      EXPECT_EQ(verify(program, data.arguments, hip_, how, *context_)->verdict, VerifyReport::Verdict::Fail);
    }
  }
}

// An output over its own operand: what the step wrote, not what stood there.
TEST_F(HipObserve, ResultsInPlaceAndRowsThatLieApart) {
  const Program program = Program::parse(
                              "def f(x: f32[\"m\", 6]):\n    y = x * 2.0\n    z = sum(y, dim=-1)\n"
                              "    return y, z\n")
                              .value();
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  const Tensor host = Tensor::make(f32, {4, 10}).value();
  fill_random(host, 3);
  const DeviceTensor wide = DeviceTensor::copy_of(*device_, host).value(),
                     sums = DeviceTensor::make(*device_, f32, {4, 1}).value();
  const TensorView x = TensorView::make(wide.data(), f32, {4, 6}, {10, 1}).value();
  Written there;
  const auto ran = compiled.run({{"x", x}, {"y", x}, {"z", sums.view()}}, {},
                                observed([&](const StepRecord& record) -> Result<void> {
                                  for (const StepRecord::Value& value : record.written) {
                                    EXPECT_TRUE(value.name != "y" || value.view.strides() == (Dims{10, 1}));
                                  }
                                  return writes(there)(record);
                                }));
  ASSERT_TRUE(ran) << ran.error().render();
  const auto y = std::find_if(there.begin(), there.end(), [](const auto& one) { return one.first == "y"; });
  ASSERT_NE(y, there.end());
  for (int64_t i = 0; i < 24; ++i)
    EXPECT_EQ(y->second[static_cast<size_t>(i)], 2 * host.view().as<float>()[i / 6 * 10 + i % 6]) << i;
  // What lies between the rows is as it was, also where an observer writes.
  const auto marked = compiled.run({{"x", x}, {"y", x}, {"z", sums.view()}}, {},
                                   observed([&](const StepRecord& record) -> Result<void> {
                                     for (const StepRecord::Value& value : record.written) {
                                       if (value.name == "y") value.view.as<float>()[10] = 77;
                                     }
                                     return {};
                                   }));
  ASSERT_TRUE(marked) << marked.error().render();
  const Tensor after = Tensor::make(f32, {4, 10}).value();
  ASSERT_TRUE(wide.download(after));
  EXPECT_EQ(after.view().as<float>()[10], 77);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t c = 6; c < 10; ++c)
      EXPECT_EQ(after.view().as<float>()[row * 10 + c], host.view().as<float>()[row * 10 + c]);
  }
}

// Found by a kernel, told at its step and not in the next run.
TEST_F(HipObserve, IndicesOutOfRangeEndTheRunWhereTheyAreMet) {
  const Program program = Program::parse(
                              "def f(x: f32[\"m\", 4], i: i64[3]):\n    y = take(x, i, dim=0)\n    z = y * 2.0\n"
                              "    return z\n",
                              "p.py")
                              .value();
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  const DeviceTensor x = DeviceTensor::make(*device_, f32, {5, 4}).value(),
                     z = DeviceTensor::make(*device_, f32, {3, 4}).value();
  const Tensor indices = Tensor::make(i64, {3}).value();
  std::fill_n(indices.view().as<int64_t>(), 3, int64_t{1});
  indices.view().as<int64_t>()[2] = 9;
  const DeviceTensor i = DeviceTensor::copy_of(*device_, indices).value();
  size_t launches = 0;
  auto execution = compiled
                       .prepare({{"x", x.view()}, {"i", i.view()}, {"z", z.view()}},
                                observed([&](const StepRecord& record) -> Result<void> {
                                  launches += !record.kernel.empty();
                                  return {};
                                }))
                       .value();
  const auto refused = execution.run();
  ASSERT_FALSE(refused);
  const Diagnostic& first = refused.error().diagnostics().front();
  EXPECT_EQ(first.code, 618);
  EXPECT_EQ(first.reason, "it stands at [2] of i");
  EXPECT_EQ(first.where.line, 1U) << "i in the text";
  EXPECT_NE(refused.error().render().find("seen behind step "), std::string::npos) << refused.error().render();
  EXPECT_EQ(launches, 0U) << "what reads by them is behind it";
  indices.view().as<int64_t>()[2] = 4;
  ASSERT_TRUE(i.upload(indices));
  EXPECT_TRUE(execution.run()) << "nothing is left to be told";
  EXPECT_EQ(launches, 1U);
}

// Several executions of one program, each on a stream of its own, in turn.
TEST_F(HipObserve, StreamsOfTheirOwn) {
  const Program program = test::two_layers(8, 16, 8);
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  std::vector<DeviceStream> streams;
  std::vector<BoundProgram> data;
  std::vector<Execution> executions;
  std::vector<Written> seen(2);
  for (size_t n = 0; n < 2; ++n) {
    streams.push_back(DeviceStream::make(*device_).value());
    data.push_back(bound(program, {{"m", n == 0 ? 3 : 9}}));
    executions.push_back(compiled.prepare(data[n].arguments, observed(writes(seen[n]))).value());
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t n = 0; n < 2; ++n) ASSERT_TRUE(executions[n].run(streams[n]));
  }
  for (size_t n = 0; n < 2; ++n) {
    ASSERT_EQ(seen[n].size(), 4U) << "two layers, twice";
    EXPECT_EQ(seen[n][1].first, "y");
    EXPECT_EQ(seen[n][1].second.size(), static_cast<size_t>(8 * (n == 0 ? 3 : 9)));
    EXPECT_EQ(seen[n][1], seen[n][3]);
    const auto checked = verify(program, data[n].arguments, hip_, {.poisoned = true}, *context_);
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
    ASSERT_TRUE(data[n].there.back().download(data[n].host.back()));
    EXPECT_EQ(seen[n][3].second, values_of(data[n].host.back().view()));
  }
}

}  // namespace
}  // namespace codetta
