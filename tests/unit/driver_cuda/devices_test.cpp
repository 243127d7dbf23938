// SPDX-License-Identifier: Apache-2.0
// Programs over several GPUs through the public interface, over the pretended driver: which GPUs they are, and what is
// refused. tests/unit/runtime_cuda/devices_test.cpp says what a run does.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

class CudaProgramDevices : public CudaApi {
 protected:
  void SetUp() override {
    CudaApi::SetUp();
    fake_.parameter_bytes = 0;
    fake_.computes = false;
    fake_.looks = true;
  }
  void TearDown() override { EXPECT_EQ(fake_.wrong, std::vector<std::string>()); }
  ContextOptions on(std::vector<int> devices) {
    ContextOptions made = options();
    if (!devices.empty()) made.device = devices[0];
    made.devices = std::move(devices);
    return made;
  }
  static std::string outcome(const Error& error) {
    const Diagnostic& d = error.diagnostics().front();
    EXPECT_FALSE(d.help.empty());
    return "E0" + std::to_string(d.code) + " " + d.headline + ": " + d.reason;
  }
  template <class T>
  static std::string outcome(const Result<T>& result) {
    return result ? "ran" : outcome(result.error());
  }
  // x on device 0, w and y on device 1 of the program, each where the context has it.
  Result<void> run(Context& context, int place_of_w = 1) {
    const Program program = Program::parse(
                                "def f(x: f32[32, 16], w: f32[16, 24]):\n"
                                "    h = relu(x)\n    y = to_device(h, 1) @ to_device(w, 1)\n    return y\n",
                                "f.py")
                                .value();
    auto compiled = compile(program, {Backend::cuda, {}, ""}, {}, context);
    if (!compiled) return compiled.error();
    std::vector<DeviceTensor> tensors;
    std::vector<NamedArgument> arguments;
    const auto add = [&](const char* name, const Dims& shape, uint32_t place) -> Result<void> {
      auto device = Device::open(Backend::cuda, place, context);
      if (!device) return device.error();
      auto made = DeviceTensor::make(*device, f32, shape);
      if (!made) return made.error();
      tensors.push_back(*std::move(made));
      arguments.push_back({name, tensors.back().view()});
      return {};
    };
    for (const auto& added :
         {add("x", {32, 16}, 0), add("w", {16, 24}, static_cast<uint32_t>(place_of_w)), add("y", {32, 24}, 1)}) {
      if (!added) return added.error();
    }
    auto execution = compiled->prepare(arguments);
    if (!execution) return execution.error();
    EXPECT_EQ(execution->workspace_size(0), execution->workspace_size());
    EXPECT_GT(execution->workspace_size(1), 0) << "where h is brought to";
    EXPECT_EQ(execution->workspace_size(2), 0);
    if (auto ran = execution->run(); !ran) return ran.error();
    return Device::open(Backend::cuda, 0, context)->synchronize();
  }
};

TEST_F(CudaProgramDevices, TheNextOneAndThoseThatAreNamed) {
  for (const std::vector<int>& devices : {std::vector<int>{}, {0, 1}, {1, 0}, {0, 0}}) {
    Context c = Context::make(on(devices)).value();
    fake_.launches.clear();
    EXPECT_EQ(outcome(run(c)), "ran");
    EXPECT_GE(fake_.launches.size(), 2U) << "one on each device at least";
    const int second = devices.empty() ? 1 : devices[1];
    EXPECT_EQ(Device::open(Backend::cuda, 1, c)->info().ordinal, second);
  }
}

// What two devices read of the library's own lies on both, in the library once; what a call passes is copied.
TEST_F(CudaProgramDevices, AConstantLiesOnEachDeviceThatReadsIt) {
  Context c = context();
  const Program program = Program::parse(
                              "def f(x: f32[32, 16], w: f32[16, 24]):\n"
                              "    y = x @ w\n    z = to_device(x, 1) @ to_device(w, 1)\n    return y, z\n",
                              "f.py")
                              .value();
  const Tensor w = Tensor::make(f32, {16, 24}).value();
  const auto count = [](const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  size_t copies[2] = {};
  for (const bool constant : {false, true}) {
    BuildOptions options;
    options.name = "two";
    if (constant) options.constants = {{"w", w.view()}};
    const auto text = host_text({program}, {Backend::cuda, {}, "sm_90a"}, options, c);
    ASSERT_TRUE(text) << text.error().render();
    copies[constant ? 1 : 0] = count(*text, "CODETTA_OK(copy_between(");
    EXPECT_EQ(count(*text, "\"w on device 1\"") > 0, constant) << *text;
    EXPECT_EQ(count(*text, "codetta_constant_1"), 0U) << "its bytes are there once";
  }
  EXPECT_GT(copies[1], 0U) << "x is copied";
  EXPECT_EQ(copies[0], 2 * copies[1]) << "and w, where it is no constant";
}

// Loaded and launched where its operands lie, behind what brings them there.
TEST_F(CudaProgramDevices, AKernelOfTheUsersOnTheOther) {
  Context c = context();
  const char* source =
      "#pragma codetta kernel(x: f32[m, n], out y: f32[m, n]) block(128) grid(m)\n"
      "extern \"C\" __global__ void __launch_bounds__(128) scale(const float* x, float* y) {}\n";
  const Program program = Program::parse(
                              "def f(x: f32[32, 16]):\n    h = relu(x)\n"
                              "    y = user_kernel(\"scale\", to_device(h, 1), out=\"f32[32, 16]\")\n    return y\n",
                              "f.py")
                              .value()
                              .with_kernels({{"scale", source, UserKernel::Language::cuda, "scale.cu"}})
                              .value();
  const int before = fake_.modules;
  const auto compiled = compile(program, {Backend::cuda, {}, ""}, {}, c);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const DeviceTensor x = DeviceTensor::make(Device::open(Backend::cuda, 0, c).value(), f32, {32, 16}).value(),
                     y = DeviceTensor::make(Device::open(Backend::cuda, 1, c).value(), f32, {32, 16}).value();
  auto execution = compiled->prepare({{"x", x.view()}, {"y", y.view()}});
  ASSERT_TRUE(execution) << execution.error().render();
  const int loaded = fake_.modules - before;
  fake_.launches.clear();
  ASSERT_TRUE(execution->run());
  const auto launch = std::find_if(fake_.launches.begin(), fake_.launches.end(),
                                   [](const test::FakeLaunch& one) { return one.function == "scale"; });
  ASSERT_NE(launch, fake_.launches.end());
  EXPECT_NE(launch->config.stream, nullptr) << "device 1's own; the caller's is the default one";
  std::set<std::string> launched;
  for (const test::FakeLaunch& one : fake_.launches) launched.insert(one.function);
  EXPECT_EQ(static_cast<size_t>(loaded), launched.size()) << "each where it is launched";
  ASSERT_TRUE(Device::open(Backend::cuda, 0, c)->synchronize());
}

TEST_F(CudaProgramDevices, TooFew) {
  fake_.devices = 1;
  Context alone = context();
  EXPECT_EQ(outcome(run(alone)), "E0642 the program runs on 2 devices: the driver sees one");
  fake_.devices = 3;
  Context named = Context::make(on({2})).value();
  EXPECT_EQ(outcome(run(named)), "E0642 the program runs on 2 devices: one is named, and the driver sees 3");
  ContextOptions last = options();
  last.device = 2;
  Context behind = Context::make(last).value();
  EXPECT_EQ(outcome(run(behind)),
            "E0642 the program runs on 2 devices: the driver sees 3, and the program's first is 2");
}

TEST_F(CudaProgramDevices, WhatLiesOnTheOther) {
  Context c = context();
  const std::string told = outcome(run(c, 0));
  EXPECT_EQ(told.substr(0, 74), "E0648 w does not lie on device 1, which is device 1 of the program: its ad") << told;
}

TEST_F(CudaProgramDevices, OptionsOutOfRange) {
  const auto refused = [&](std::vector<int> devices, int device) {
    ContextOptions wanted = options();
    wanted.devices = std::move(devices);
    wanted.device = device;
    return outcome(Context::make(wanted));
  };
  EXPECT_EQ(refused({0, -1}, 0), "E0703 there is no device -1: the driver counts its devices from 0");
  EXPECT_EQ(refused(std::vector<int>(65), 0), "E0703 65 devices are too many: a program runs on 64 devices at most");
  EXPECT_EQ(refused({1, 0}, 2),
            "E0703 the first of `devices` is 1, and `device` is 2: what runs on one device runs on the first of them");
  EXPECT_EQ(refused({1, 0}, 1), "ran");
}

// Without `device`: what runs on one device runs on the first of them.
TEST_F(CudaProgramDevices, DevicesAlone) {
  ContextOptions wanted = options();
  wanted.devices = {1, 0};
  auto c = Context::make(wanted);
  ASSERT_TRUE(c) << c.error().render();
  EXPECT_EQ(c->options().device, 1);
  EXPECT_EQ(Device::open(Backend::cuda, 0, *c)->info().ordinal, 1);
  EXPECT_EQ(Device::open(Backend::cuda, 1, *c)->info().ordinal, 0);
  EXPECT_EQ(outcome(run(*c)), "ran");
}

}  // namespace
}  // namespace codetta
