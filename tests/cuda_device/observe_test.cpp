// SPDX-License-Identifier: Apache-2.0
// Watching programs run on a real GPU: what observers are told is what kernels have left when their step is over, of
// every pass of a loop and of memory that later steps take.
#include <algorithm>
#include <cmath>

#include "cuda_device/fixture.hpp"
#include "runtime/cuda/device.hpp"
#include "support/observed_program.hpp"

namespace codetta {
namespace {

using test::BoundProgram;
using test::observed;

class DeviceObserve : public OnGpu {
 protected:
  BoundProgram bound(const Program& program, const std::vector<std::pair<std::string, int64_t>>& sizes,
                     const std::vector<NamedArgument>& numbers = {}) const {
    return test::bound_on(*device_, program, sizes, numbers, 0.25);
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
      const BoundProgram data = bound(program, {{"m", m}});
      const auto [compared, text] = test::compared_right(program, data, cuda, *context_);
      EXPECT_GE(compared, 4 * m * 128) << text;
    }
  }
}

TEST_F(DeviceObserve, WhatAnObserverChangesIsFoundWrongThere) {
  const Program program = test::two_layers(40, 64, 48);
  for (const int wrong : {0, 1})
    test::expect_found_wrong_there(program, bound(program, {{"m", 33}}), wrong, 10, Observed::values, cuda, *context_);
}

TEST_F(DeviceObserve, TrapNamesStepLineAndElement) {
  const Program program = test::logarithms();
  const CompiledProgram compiled = compile(program, cuda, {}, *context_).value();
  BoundProgram data = bound(program, {});
  test::fill_logarithms(data, -20);
  const DeviceStream stream = DeviceStream::make(*device_).value();
  test::expect_trapped_logarithm(compiled.run(data.arguments, stream, observed(trap_numbers())));
}

TEST_F(DeviceObserve, EveryPassOfALoopIsTold) {
  const Program program = Program::parse(
                              "def more(i, x):\n    return i < 3\n"
                              "def body(i, x):\n    return i + 1, x * 2.0 + 1.0\n"
                              "def f(x: f32[\"n\"]):\n    i, y = while_loop(more, body, 0, x)\n    return y\n",
                              "loop.py")
                              .value();
  const CompiledProgram compiled = compile(program, cuda, {}, *context_).value();
  const BoundProgram data = bound(program, {{"n", 1000}});
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
    const BoundProgram data = bound(program, {{"m", 35}}, {{"decay", 0.5}});
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
  BoundProgram data = bound(program, {{"m", 5}});
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
  const BoundProgram first = bound(program, {{"m", 33}}), second = bound(program, {{"m", 9}});
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
  for (const BoundProgram* data : {&first, &second}) {
    const auto checked = verify(program, data->arguments, cuda, {.poisoned = true}, *context_);
    ASSERT_TRUE(checked) << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
  }
}

}  // namespace
}  // namespace codetta
