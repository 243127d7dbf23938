// SPDX-License-Identifier: Apache-2.0
// Watching programs run on a real GPU: what observers are told is what kernels have left when their step is over, of
// every pass of a loop and of memory that later steps take.
#include <algorithm>
#include <cmath>

#include "cuda_device/fixture.hpp"
#include "runtime/cuda/device.hpp"

namespace codetta {
namespace {

class DeviceObserve : public OnGpu {
 protected:
  using Sizes = std::vector<std::pair<std::string, int64_t>>;
  // Random tensors and poisoned outputs, here and there.
  struct Bound {
    std::vector<Tensor> host;
    std::vector<DeviceTensor> there;
    std::vector<NamedArgument> here_arguments, arguments;
  };
  Bound bound(const Program& program, const Sizes& sizes, const std::vector<NamedArgument>& numbers = {}) const {
    Bound made;
    made.here_arguments = made.arguments = numbers;
    const auto add = [&](const std::string& name, Tensor tensor) {
      made.host.push_back(std::move(tensor));
      made.there.push_back(DeviceTensor::copy_of(*device_, made.host.back()).value());
      made.here_arguments.push_back({name, made.host.back().view()});
      made.arguments.push_back({name, made.there.back().view()});
    };
    const std::vector<ProgramInput> inputs = program.missing(numbers, sizes, 8).value();
    for (const ProgramInput& input : inputs) {
      Tensor tensor = Tensor::make(input.dtype, input.shape).value();
      fill_random(tensor, made.host.size() + 1, Distribution::Normal, 0.25);
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
  static RunOptions observed(StepObserver observer, Observed what = Observed::values) {
    RunOptions options;
    options.observer = std::move(observer);
    options.observed = what;
    return options;
  }
};

// Temporaries take each other's places; kernels of every family, some with products of several blocks.
TEST_F(DeviceObserve, EveryValueIsThatOfTheOracle) {
  for (const char* dtype : {"f32", "bf16"}) {
    const std::string of(dtype);
    const Program program =
        Program::parse("def chain(x: " + of + "[\"m\", 128], w: " + of + "[128, 128]):\n    a = cast(tanh(x @ w), " +
                           of + ")\n    b = cast(tanh(a @ w), " + of + ")\n    c = cast(tanh(b @ w), " + of +
                           ")\n    s = softmax(c, dim=-1)\n    y = cast(s, " + of + ") @ w\n    return y\n",
                       "chain.py")
            .value();
    for (const int64_t m : {1, 7, 300}) {
      const Bound data = bound(program, {{"m", m}});
      const auto found = bisect(program, data.arguments, cuda, {}, {}, *context_);
      ASSERT_TRUE(found) << found.error().render();
      EXPECT_EQ(found->pass, "");
      EXPECT_EQ(found->first_wrong, -1) << found->text;
      int64_t compared = 0;
      for (const BisectedStep& step : found->steps) {
        for (const OutputCheck& value : step.values) compared += value.checked;
      }
      EXPECT_GE(compared, 4 * m * 128) << found->text;
    }
  }
}

TEST_F(DeviceObserve, WhatAnObserverChangesIsFoundWrongThere) {
  const Program program = Program::parse(
                              "def mlp(x: f32[\"m\", 40], w: f32[40, 64], v: f32[64, 48]):\n    h = relu(x @ w)\n"
                              "    y = h @ v\n    return y\n",
                              "mlp.py")
                              .value();
  for (const int wrong : {0, 1}) {
    const Bound data = bound(program, {{"m", 33}});
    BisectOptions options;
    int launch = 0;
    options.run.observer = [&](const StepRecord& record) -> Result<void> {
      if (!record.kernel.empty() && launch++ == wrong) record.written.at(0).view.as<float>()[3] += 10;
      return {};
    };
    const auto found = bisect(program, data.arguments, cuda, {}, options, *context_);
    ASSERT_TRUE(found) << found.error().render();
    ASSERT_GE(found->first_wrong, 0) << found->text;
    const BisectedStep& step = found->steps[static_cast<size_t>(found->first_wrong)];
    EXPECT_EQ(step.step.origins.at(0), wrong == 0 ? "mlp.py:2: h = relu(x @ w)" : "mlp.py:3: y = h @ v");
    EXPECT_NE(step.values.at(0).worst.find("[0, 3]"), std::string::npos) << step.values.at(0).worst;
    const auto checked = verify(program, data.arguments, cuda, {.poisoned = true}, *context_);
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Fail) << "the change went back to the device";
  }
}

TEST_F(DeviceObserve, TrapNamesStepLineAndElement) {
  const Program program = Program::parse(
                              "def f(x: f32[2, 4], w: f32[4, 4], v: f32[4, 4]):\n    h = log(x @ w)\n"
                              "    y = exp(h @ v)\n    return y\n",
                              "logs.py")
                              .value();
  const CompiledProgram compiled = compile(program, cuda, {}, *context_).value();
  Bound data = bound(program, {});
  std::fill_n(data.host[0].view().as<float>(), 8, 2.0F);
  data.host[0].view().as<float>()[7] = -20;
  std::fill_n(data.host[1].view().as<float>(), 16, 1.0F);
  for (size_t i = 0; i < 2; ++i) ASSERT_TRUE(data.there[i].upload(data.host[i]));
  const DeviceStream stream = DeviceStream::make(*device_).value();
  const auto nan = compiled.run(data.arguments, stream, observed(trap_numbers()));
  ASSERT_FALSE(nan);
  EXPECT_EQ(nan.error().code(), 619);
  const std::string& reason = nan.error().diagnostics().front().reason;
  EXPECT_NE(reason.find("wrote NaN at [1, 0]"), std::string::npos) << reason;
  EXPECT_NE(reason.find("logs.py:2: h = log(x @ w)"), std::string::npos) << reason;
}

TEST_F(DeviceObserve, EveryPassOfALoopIsTold) {
  const Program program = Program::parse(
                              "def more(i, x):\n    return i < 3\n"
                              "def body(i, x):\n    return i + 1, x * 2.0 + 1.0\n"
                              "def f(x: f32[\"n\"]):\n    i, y = while_loop(more, body, 0, x)\n    return y\n",
                              "loop.py")
                              .value();
  const CompiledProgram compiled = compile(program, cuda, {}, *context_).value();
  const Bound data = bound(program, {{"n", 1000}});
  std::vector<float> seventh;
  bool loop = false;
  const auto ran = compiled.run(data.arguments, {}, observed([&](const StepRecord& record) -> Result<void> {
                                  loop = loop || record.step.find("(while)") != std::string::npos;
                                  for (const StepRecord::Value& value : record.written) {
                                    const bool carried = value.view.dtype() == f32 && value.view.rank() == 1;
                                    if (record.step.rfind("list ", 0) == 0 && carried)
                                      seventh.push_back(value.view.as<float>()[7]);
                                  }
                                  return {};
                                }));
  ASSERT_TRUE(ran) << ran.error().render();
  EXPECT_TRUE(loop);
  float x = data.host[0].view().as<float>()[7];
  for (int pass = 0; pass < 3; ++pass) {
    x = x * 2 + 1;
    const auto near = [&](float value) { return std::abs(value - x) <= 1e-5F * std::max(1.0F, std::abs(x)); };
    EXPECT_TRUE(std::any_of(seventh.begin(), seventh.end(), near)) << "pass " << pass << ": " << x;
  }
}

constexpr const char* summed_rows =
    "#pragma codetta kernel(x: f32[m, n], decay: f32, out sums: f32[m, n]) HOOK\n"
    "#pragma codetta sizes(m: i32, n: i32) block(1) grid(m)\n"
    "extern \"C\" __global__ void sums_of_rows(const float* x, float decay, TARGET, int m, int n) {\n"
    "  float sum = 0;\n"
    "  for (int c = 0; c < n; ++c) {\n"
    "    sum = x[blockIdx.x * n + c] + decay * sum;\n"
    "    STORE;\n"
    "  }\n"
    "}\n";
std::string with_words(std::string text, const char* hook, const char* target, const char* store) {
  for (const auto& [word, put] : {std::pair{"HOOK", hook}, {"TARGET", target}, {"STORE", store}})
    text.replace(text.find(word), std::string_view(word).size(), put);
  return text;
}

// As `codetta run --check` does it: what the kernel computed is taken as given, everything made of it is compared.
TEST_F(DeviceObserve, ChecksTakeResultsOfUserKernelsAsGiven) {
  const std::string text =
      "def f(x: f32[\"m\", 24], decay: f32, w: f32[24, 24], b: f32[24]):\n    h = relu(x @ w)\n"
      "    s = user_kernel(\"sums_of_rows\", h, decay, out=\"f32[m, 24]\")\n    y = silu(s + b) * h\n    return y\n";
  for (const bool hooked : {false, true}) {
    const std::string source =
        hooked ? with_words(summed_rows, "hook(sums)", "Hook<float, 2> sums", "sums.store(int(blockIdx.x), c, sum)")
               : with_words(summed_rows, "", "float* sums", "sums[blockIdx.x * n + c] = sum");
    const Program program = Program::parse(text, "p.py")
                                .value()
                                .with_kernels({{"sums_of_rows", source, UserKernel::Language::cuda, "sums.cu"}})
                                .value()
                                .with_hooked_results();
    const auto compiled = compile(program, cuda, {}, *context_);
    ASSERT_TRUE(compiled) << compiled.error().render();
    const Bound data = bound(program, {{"m", 35}}, {{"decay", 0.5}});
    KeptResults kept;
    const DeviceStream stream = DeviceStream::make(*device_).value();
    const auto ran = compiled->run(data.arguments, stream, observed(keep_results(kept), Observed::results));
    ASSERT_TRUE(ran) << ran.error().render();
    ASSERT_EQ(kept.calls.size(), 1U);
    VerifyOptions how;
    how.given = kept.calls;
    how.poisoned = true;
    const auto checked = verify(program, data.arguments, cuda, how, *context_);
    ASSERT_TRUE(checked) << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
    // Of all: where h is 0, y is whatever the sums are.
    for (int i = 0; i < 35 * 24; ++i) kept.calls[0].results[0].as<float>()[i] += 4;
    EXPECT_EQ(verify(program, data.arguments, cuda, how, *context_)->verdict, VerifyReport::Verdict::Fail);
  }
}

TEST_F(DeviceObserve, IndicesOutOfRangeEndTheRunWhereTheyAreMet) {
  const Program program =
      Program::parse("def f(x: f32[\"m\", 4], i: i64[3]):\n    y = take(x, i, dim=0)\n    return y\n", "p.py").value();
  const CompiledProgram compiled = compile(program, cuda, {}, *context_).value();
  Bound data = bound(program, {{"m", 5}});
  std::fill_n(data.host[1].view().as<int64_t>(), 3, int64_t{1});
  data.host[1].view().as<int64_t>()[2] = 9;
  ASSERT_TRUE(data.there[1].upload(data.host[1]));
  Execution execution =
      compiled.prepare(data.arguments, observed([](const StepRecord&) -> Result<void> { return {}; })).value();
  const auto refused = execution.run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 618);
  EXPECT_EQ(refused.error().diagnostics().front().reason, "it stands at [2] of i");
  EXPECT_NE(refused.error().render().find("seen behind step "), std::string::npos) << refused.error().render();
  data.host[1].view().as<int64_t>()[2] = 4;
  ASSERT_TRUE(data.there[1].upload(data.host[1]));
  EXPECT_TRUE(execution.run());
}

TEST_F(DeviceObserve, CapturesAreRefusedAndThoseOfOthersGoOn) {
  const Program program =
      Program::parse("def f(x: f32[\"m\", 40], w: f32[40, 64]):\n    y = relu(x @ w)\n    return y\n").value();
  const CompiledProgram compiled = compile(program, cuda, {}, *context_).value();
  const Bound first = bound(program, {{"m", 33}}), second = bound(program, {{"m", 9}});
  size_t told = 0;
  Execution watched = compiled
                          .prepare(first.arguments, observed([&](const StepRecord&) -> Result<void> {
                                     ++told;
                                     return {};
                                   }))
                          .value();
  Execution plain = compiled.prepare(second.arguments).value();
  const DeviceStream captured = DeviceStream::make(*device_).value(), other = DeviceStream::make(*device_).value();
  const auto handle = static_cast<runtime::cuda::StreamHandle>(captured.get().handle);
  const runtime::cuda::DriverRef driver = runtime::cuda::Driver::load().value();
  const runtime::cuda::DeviceRef primary = runtime::cuda::Device::open(driver, 0).value();
  const runtime::cuda::ContextGuard current = primary->enter().value();
  ASSERT_EQ(driver->call().stream_begin_capture(handle, 0), runtime::cuda::Status::Success);
  const auto refused = watched.run(captured);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 646) << refused.error().render();
  EXPECT_EQ(told, 0U);
  const auto beside = watched.run(other);
  EXPECT_TRUE(beside) << beside.error().render();
  EXPECT_GE(told, 1U);
  EXPECT_TRUE(plain.run(captured));
  runtime::cuda::GraphHandle graph = nullptr;
  ASSERT_EQ(driver->call().stream_end_capture(handle, &graph), runtime::cuda::Status::Success)
      << "the capture is valid";
  runtime::cuda::GraphExecHandle executable = nullptr;
  ASSERT_EQ(driver->call().graph_instantiate(&executable, graph, 0), runtime::cuda::Status::Success);
  (void)driver->call().graph_destroy(graph);
  ASSERT_EQ(driver->call().graph_launch(executable, handle), runtime::cuda::Status::Success);
  ASSERT_TRUE(captured.synchronize());
  (void)driver->call().graph_exec_destroy(executable);
  for (const Bound* data : {&first, &second}) {
    const auto checked = verify(program, data->arguments, cuda, {.poisoned = true}, *context_);
    ASSERT_TRUE(checked) << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
  }
}

}  // namespace
}  // namespace codetta
