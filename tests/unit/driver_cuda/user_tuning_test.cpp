// SPDX-License-Identifier: Apache-2.0
// Configurations of kernels of the user's on a GPU, over the pretended driver and compiler: which one is compiled and
// how it is launched.
#include "driver/user_tuning.hpp"

#include <algorithm>

#include "driver/program_state.hpp"
#include "support/tune_own.hpp"
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

class CudaUserTuning : public CudaApi {
 protected:
  void SetUp() override {
    CudaApi::SetUp();
    fake_.parameter_bytes = 0;  // they are no Params of Codetta's
    fake_.computes = false;
  }
  static constexpr const char* source =
      "#pragma codetta kernel(x: f32[m, n], decay: f32, out y: f32[m, n])\n"
      "#pragma codetta config(ROWS = 2) config(ROWS = 3) config(ROWS = 6)\n"
      "#pragma codetta block(32, ROWS) grid(ceil_div(m, ROWS)) shared(4 * n * ROWS)\n"
      "extern \"C\" __global__ void __launch_bounds__(128) scale(const float* x, float decay, float* y) {}\n";
  static Program program(const std::string& kernel = source) {
    return Program::parse(
               "def f(x: f32[\"m\", \"n\"], decay: f32):\n"
               "    y = user_kernel(\"scale\", x, decay, out=\"f32[m, n]\")\n"
               "    return y\n",
               "p.py")
        .value()
        .with_kernels({{"scale", kernel, UserKernel::Language::cuda, "scale.cu"}})
        .value();
  }
  struct Bound {
    DeviceTensor x, y;
    std::vector<NamedArgument> arguments;
  };
  static Bound bound(Context& context, int64_t rows = 6, int64_t cols = 10) {
    const Device device = Device::open(context).value();
    Bound made{DeviceTensor::make(device, f32, {rows, cols}).value(),
               DeviceTensor::make(device, f32, {rows, cols}).value(),
               {}};
    made.arguments = {{"x", made.x.view()}, {"decay", 0.25}, {"y", made.y.view()}};
    return made;
  }
  // Threads along the second dim, blocks, shared memory: what a configuration decides.
  std::vector<unsigned> launched(Context& context, int64_t rows = 6, int64_t cols = 10) {
    fake_.launches.clear();
    const Bound b = bound(context, rows, cols);
    const auto compiled = compile(program(), {Backend::cuda, {}, ""}, {{"m", rows}, {"n", cols}}, context);
    EXPECT_TRUE(compiled) << compiled.error().render();
    if (!compiled) return {};
    const auto ran = compiled->run(b.arguments);
    EXPECT_TRUE(ran) << ran.error().render();
    for (const test::FakeLaunch& one : fake_.launches) {
      if (one.function == "scale") return {one.config.block_y, one.config.grid_x, one.config.dynamic_shared};
    }
    return {};
  }
  using Launched = std::vector<unsigned>;
};

TEST_F(CudaUserTuning, WhatIsKeptDecidesTheLaunch) {
  Context c = context();
  EXPECT_EQ(launched(c), (Launched{2, 3, 80}));
  const Target resolved = {Backend::cuda, {}, "sm_90a"};
  const std::string call = " of scale(f32[6, 10], f32) -> f32[6, 10]";
  driver::keep_user_times(*c.shared_state(), Program::Access::state(program())->user_sources.front(), resolved,
                          {{"ROWS=2" + call, 3.0}, {"ROWS=6" + call, 1.0}, {"ROWS=3" + call, 2.0}});
  EXPECT_EQ(launched(c), (Launched{6, 1, 240}));
  EXPECT_EQ(launched(c), (Launched{6, 1, 240})) << "from the cache";
  EXPECT_EQ(launched(c, 12), (Launched{2, 6, 80})) << "other sizes";
  ASSERT_FALSE(nvrtc_.sources.empty());
  const auto compiled_with = [&](const std::string& line) {
    return std::count_if(nvrtc_.sources.begin(), nvrtc_.sources.end(),
                         [&](const std::string& one) { return one.find(line) != std::string::npos; });
  };
  EXPECT_EQ(compiled_with("#define ROWS 2\n"), 1);
  EXPECT_EQ(compiled_with("#define ROWS 3\n"), 0);
  EXPECT_EQ(compiled_with("#define ROWS 6\n"), 1);
  // Another driver is another machine.
  fake_.version = 12080;
  Context later = context();
  EXPECT_EQ(launched(later), (Launched{2, 3, 80}));
}

TEST_F(CudaUserTuning, TunesWhatThisDeviceRuns) {
  Context c = context();
  const Bound b = bound(c);
  // The last one has 640 threads, more than this device runs.
  const std::string four = std::string(source) + "#pragma codetta config(ROWS = 20)\n";
  const auto report = tune(program(four), b.arguments, {Backend::cuda, {}, ""}, {.budget_seconds = 300}, c);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_TRUE(report->complete);
  EXPECT_EQ(report->note,
            "no process for trials (there is no codetta command beside the library): a configuration that crashes or "
            "hangs is "
            "not stopped");
  ASSERT_EQ(report->results.size(), 4U);
  for (const TuneResult& result : report->results) EXPECT_EQ(result.call, "scale(f32[6, 10], f32) -> f32[6, 10]");
  EXPECT_EQ(report->results[3].kernel, "user_scale_ROWS_20");
  EXPECT_EQ(report->results[3].failure.find("E0650: "), 0U) << report->results[3].failure;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(report->results[i].failure, "");
    EXPECT_GT(report->results[i].microseconds, 0);
  }
  // What is timed copies nothing to where a caller wants results: what follows the kernel there has one block.
  ASSERT_FALSE(fake_.captured.empty());
  size_t timed = 0;
  for (const test::FakeLaunch& one : fake_.captured) {
    if (one.function == "scale") {
      ++timed;
    } else {
      EXPECT_EQ(one.config.grid_x * one.config.grid_y * one.config.grid_z, 1U);
    }
  }
  EXPECT_GT(timed, 0U);
  fake_.launches.clear();
  const auto compiled = compile(program(four), {Backend::cuda, {}, ""}, {{"m", 6}, {"n", 10}}, c);
  ASSERT_TRUE(compiled) << compiled.error().render();
  ASSERT_TRUE(compiled->run(b.arguments));
  EXPECT_EQ("user_scale_ROWS_" + std::to_string(fake_.launches.at(0).config.block_y), report->results[0].kernel);
}

// The call is timed where the program has it run.
TEST_F(CudaUserTuning, TunesAKernelOfAnotherDevice) {
  fake_.looks = true;
  Context c = context();
  const Program far = Program::parse(
                          "def f(x: f32[\"m\", \"n\"], decay: f32):\n"
                          "    y = user_kernel(\"scale\", to_device(relu(x), 1), decay, out=\"f32[m, n]\")\n"
                          "    return y\n",
                          "p.py")
                          .value()
                          .with_kernels({{"scale", source, UserKernel::Language::cuda, "scale.cu"}})
                          .value();
  const Device first = Device::open(Backend::cuda, 0, c).value(), second = Device::open(Backend::cuda, 1, c).value();
  const DeviceTensor x = DeviceTensor::make(first, f32, {6, 10}).value(),
                     y = DeviceTensor::make(second, f32, {6, 10}).value();
  const std::vector<NamedArgument> arguments{{"x", x.view()}, {"decay", 0.25}, {"y", y.view()}};
  const auto report = tune(far, arguments, {Backend::cuda, {}, ""}, {.budget_seconds = 300}, c);
  ASSERT_TRUE(report) << report.error().render();
  ASSERT_EQ(report->results.size(), 3U);
  for (const TuneResult& result : report->results) {
    EXPECT_EQ(result.failure, "");
    EXPECT_GT(result.microseconds, 0);
  }
  EXPECT_EQ(fake_.wrong, std::vector<std::string>());
  fake_.launches.clear();
  const auto compiled = compile(far, {Backend::cuda, {}, ""}, {{"m", 6}, {"n", 10}}, c);
  ASSERT_TRUE(compiled) << compiled.error().render();
  ASSERT_TRUE(compiled->run(arguments));
  ASSERT_FALSE(fake_.launches.empty());
  const test::FakeLaunch& last = fake_.launches.back();
  EXPECT_EQ(last.function, "scale");
  EXPECT_EQ("user_scale_ROWS_" + std::to_string(last.config.block_y), report->results[0].kernel);
  EXPECT_EQ(fake_.wrong, std::vector<std::string>());
}

TEST_F(CudaUserTuning, ALostContextEndsItAndKeepsWhatWasMeasured) {
  Context c = context();
  const Bound b = bound(c);
  TuneOptions options;
  options.progress = [&](const TuneProgress& progress) {
    if (progress.done == 1) fake_.fail["cuLaunchKernelEx"] = runtime::cuda::Status::IllegalAddress;
    return true;
  };
  const auto report = test::tune_own(program(), b.arguments, {Backend::cuda, {}, ""}, options, c);
  expect(report, diag::Code::device_failed, "");
  fake_.fail.clear();
  const auto record = driver::load_user_record(
      *c.shared_state(), Program::Access::state(program())->user_sources.front(), {Backend::cuda, {}, "sm_90a"});
  ASSERT_EQ(record.medians.size(), 1U);
  EXPECT_EQ(record.medians[0].first, "ROWS=2 of scale(f32[6, 10], f32) -> f32[6, 10]");
}

TEST_F(CudaUserTuning, WhereThereIsNoDevice) {
  fake_.devices = 0;
  Context c = context();
  const Tensor x = Tensor::make(f32, {6, 10}).value();
  expect(tune(program(), {{"x", x.view()}, {"decay", 0.5}}, {Backend::cuda, {}, "sm_90a"}, {}, c),
         diag::Code::device_missing, "");
  EXPECT_TRUE(compile(program(), {Backend::cuda, {}, "sm_90a"}, {{"m", 6}, {"n", 10}}, c)) << "the first";
}

}  // namespace
}  // namespace codetta
