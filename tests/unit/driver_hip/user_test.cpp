// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's on an AMD GPU, over the pretended runtime and compiler: what reaches the runtime, and what does
// not. tests/emulator runs such kernels.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "base/files.hpp"
#include "codetta/codetta.hpp"
#include "diag/diagnostic.hpp"
#include "support/expect_error.hpp"
#include "support/gpu_problem.hpp"
#include "unit/runtime_cuda/fake_hip.hpp"

namespace codetta {
namespace {

using diag::Code;

class HipUser : public ::testing::Test, public test::ExpectsErrors {
 protected:
  void SetUp() override {
    fake_.reset();
    fake_.parameter_bytes = 0;  // they are no Params of Codetta's
    hip_.reset();
    folder_.emplace(*base::TemporaryDirectory::make("/tmp"));
    begin();
  }
  void begin() { context_.emplace(Context::make(test::hip_options(*folder_, CODETTA_FAKE_HIP)).value()); }
  static constexpr const char* text =
      "def f(x: f32[\"m\", \"n\"], decay: f32):\n"
      "    y = user_kernel(\"scale\", x, decay, out=\"f32[m, n]\")\n"
      "    return y\n";
  [[nodiscard]] Result<CompiledProgram> compiled(const std::string& pragmas,
                                                 UserKernel::Language language = UserKernel::Language::hip,
                                                 const Target& target = {Backend::hip, {}, ""}) {
    const std::string source =
        "#pragma codetta kernel(x: f32[m, n], decay: f32, out y: f32[m, n])\n" + pragmas +
        "\nextern \"C\" __global__ void __launch_bounds__(128) scale(const float* x, float decay, float* y) {}\n";
    return compile(
        Program::parse(text, "p.py").value().with_kernels({{"scale", source, language, "scale.hip"}}).value(), target,
        {}, *context_);
  }
  [[nodiscard]] Result<void> run(const std::string& pragmas, int64_t rows = 6, int64_t cols = 10) {
    const auto program = compiled(pragmas);
    if (!program) return program.error();
    const Device device = Device::open(Backend::hip, *context_).value();
    const DeviceTensor x = DeviceTensor::make(device, f32, {rows, cols}).value(),
                       y = DeviceTensor::make(device, f32, {rows, cols}).value();
    return program->run({{"x", x.view()}, {"decay", 0.25}, {"y", y.view()}});
  }
  const test::FakeLaunch* launch() {
    for (const test::FakeLaunch& one : fake_.launches) {
      if (one.function == "scale") return &one;
    }
    return nullptr;
  }
  test::FakeDriver& fake_ = test::fake_driver(CODETTA_FAKE_LIBCUDA);
  test::FakeHip& hip_ = test::fake_hip(CODETTA_FAKE_HIP);
  std::optional<base::TemporaryDirectory> folder_;
  std::optional<Context> context_;
};

TEST_F(HipUser, WhatReachesTheRuntime) {
  fake_.parameter_sizes["scale"] = {8, 4, 8, 8, 4};
  const auto ran =
      run("#pragma codetta sizes(m, 2 * n: i32) config(ROWS = 2)\n"
          "#pragma codetta block(32, ROWS) grid(ceil_div(n, 32), m / ROWS) shared(8 * n * ROWS)");
  ASSERT_TRUE(ran) << ran.error().render();
  ASSERT_NE(launch(), nullptr);
  const test::FakeLaunch& one = *launch();
  EXPECT_EQ(one.config.grid_x, 1U);
  EXPECT_EQ(one.config.grid_y, 3U);
  EXPECT_EQ(one.config.block_x, 32U);
  EXPECT_EQ(one.config.block_y, 2U);
  EXPECT_EQ(one.config.dynamic_shared, 160U);
  EXPECT_TRUE(one.attributes.empty());
  int64_t rows = 0;
  int32_t twice = 0;
  float decay = 0;
  std::memcpy(&decay, one.each.at(1).data(), sizeof decay);
  std::memcpy(&rows, one.each.at(3).data(), sizeof rows);
  std::memcpy(&twice, one.each.at(4).data(), sizeof twice);
  EXPECT_EQ(decay, 0.25F);
  EXPECT_EQ(rows, 6);
  EXPECT_EQ(twice, 20);
  EXPECT_EQ(hip_.flags.front(), "--offload-arch=gfx942");
}

TEST_F(HipUser, AllBlocksAtTheSameTime) {
  const auto ran = run("#pragma codetta block(64) grid(m) cooperative");
  ASSERT_TRUE(ran) << ran.error().render();
  ASSERT_NE(launch(), nullptr);
  ASSERT_EQ(launch()->attributes.size(), 1U);
  EXPECT_EQ(launch()->attributes[0].id, runtime::cuda::launch_cooperative);
  fake_.launches.clear();
  fake_.cooperative = false;
  begin();  // devices are asked once
  expect(run("#pragma codetta block(64) grid(m) cooperative"), Code::launch_limits, "launches no such kernels");
  EXPECT_EQ(launch(), nullptr);
}

TEST_F(HipUser, E0231WhatAnAmdGpuDoesNotHave) {
  const std::pair<const char*, const char*> cases[] = {
      {"cluster(2)", "clusters are of NVIDIA GPUs, and the target is gfx942"},
      {"dependent", "launches that overlap with the kernel in front are of NVIDIA GPUs"},
      {"window(x)", "windows of L2 are of NVIDIA GPUs"},
      {"map(x, box(1, 10))", "tensor maps are of NVIDIA GPUs"},
      {"shared(65537)", "a block has 65537 bytes of dynamic shared memory"}};
  for (const auto& [clause, reason] : cases) {
    const auto refused = compiled(std::string("#pragma codetta block(64) grid(m) ") + clause);
    expect(refused, Code::kernel_launch, reason);
    EXPECT_NE(refused.error().render().find("scale.hip:2"), std::string::npos) << refused.error().render();
  }
  EXPECT_EQ(launch(), nullptr);
}

TEST_F(HipUser, E0311SourcesOfAnotherLanguage) {
  const std::string plain = "#pragma codetta block(64) grid(m)";
  expect(compiled(plain, UserKernel::Language::cuda), Code::target_lacks,
         "the source of scale is CUDA C++, and the target is an AMD GPU, which takes HIP");
  expect(compiled(plain, UserKernel::Language::hip, {Backend::cpu, CpuIsa::generic, ""}), Code::target_lacks,
         "the source of scale is HIP, and the target is a CPU, which takes C++");
  expect(compiled(plain, UserKernel::Language::hip, {Backend::metal, {}, "apple9"}), Code::target_lacks,
         "kernels of the user's run on CPUs, as C++, on NVIDIA GPUs, as CUDA C++, and on AMD GPUs, as HIP");
}

TEST_F(HipUser, E0650WhatADeviceCanNotLaunch) {
  expect(run("#pragma codetta block(64) grid(m) shared(20000 * m)"), Code::launch_limits,
         "a block of Pretended GPU 0 has 65536");
  expect(run("#pragma codetta block(1024) grid(1000000 * m)"), Code::launch_limits,
         "its grid has 6000000 blocks of 1024 threads along a dim; Pretended GPU 0 takes 4294967295 threads");
  EXPECT_EQ(launch(), nullptr);
}

// Configurations are timed, those that this device cannot launch lose alone, and the fastest is launched.
TEST_F(HipUser, ConfigurationsAreTuned) {
  const std::string source =
      "#pragma codetta kernel(x: f32[m, n], decay: f32, out y: f32[m, n]) config(ROWS = 2) config(ROWS = 3)\n"
      "#pragma codetta config(ROWS = 6) block(32, ROWS) grid(ceil_div(m, ROWS)) shared(20000 * m) if(ROWS == 6)\n"
      "extern \"C\" __global__ void __launch_bounds__(128) scale(const float* x, float decay, float* y) {}\n";
  const Program program = Program::parse(text, "p.py")
                              .value()
                              .with_kernels({{"scale", source, UserKernel::Language::hip, "scale.hip"}})
                              .value();
  const Device device = Device::open(Backend::hip, *context_).value();
  const DeviceTensor x = DeviceTensor::make(device, f32, {6, 10}).value(),
                     y = DeviceTensor::make(device, f32, {6, 10}).value();
  const std::vector<NamedArgument> arguments{{"x", x.view()}, {"decay", 0.25}, {"y", y.view()}};
  const Target hip{Backend::hip, {}, ""};
  const auto report = tune(program, arguments, hip, {.budget_seconds = 300}, *context_);
  ASSERT_TRUE(report) << report.error().render();
  ASSERT_EQ(report->results.size(), 3U);
  EXPECT_EQ(report->results[2].kernel, "user_scale_ROWS_6");
  EXPECT_EQ(report->results[2].failure.find("E0650: "), 0U) << report->results[2].failure;
  EXPECT_EQ(report->results[0].failure + report->results[1].failure, "");
  fake_.launches.clear();
  begin();  // another context finds what is kept
  const Device again = Device::open(Backend::hip, *context_).value();
  const auto compiled = compile(program, hip, {{"m", 6}, {"n", 10}}, *context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const auto ran = compiled->run(arguments);
  ASSERT_TRUE(ran) << ran.error().render();
  ASSERT_NE(launch(), nullptr);
  EXPECT_EQ("user_scale_ROWS_" + std::to_string(launch()->config.block_y), report->results[0].kernel);
}

}  // namespace
}  // namespace codetta
