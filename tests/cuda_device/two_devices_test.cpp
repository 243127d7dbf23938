// SPDX-License-Identifier: Apache-2.0
// Two GPUs in one process: each has contexts, modules and memory of its own, and what belongs to the other is refused.
// Skipped where fewer are there.
#include <algorithm>
#include <atomic>
#include <thread>

#include "cuda_device/fixture.hpp"
#include "runtime/cuda/device.hpp"

namespace codetta {
namespace {

namespace cu = runtime::cuda;

class TwoDevices : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!device_) return;
    const auto count = device_count(*context_);
    if (!count || *count < 2) GTEST_SKIP() << (count ? *count : 0) << " devices are there, and two are needed";
    ContextOptions second = options();
    second.device = 1;
    second_.emplace(Context::make(second).value());
    other_.emplace(Device::open(*second_).value());
    driver_ = cu::Driver::load().value();
  }

  struct Held {
    std::vector<DeviceTensor> tensors;
    GemmArguments arguments;
  };
  // The same numbers on either device, outputs poisoned.
  static Held held(const Device& device, const std::string& text, int64_t m, int64_t n, int64_t k, uint64_t seed) {
    Held made;
    std::vector<NamedArgument> bound;
    const auto add = [&](const char* name, DType dtype, const Dims& shape, bool output) {
      const Tensor host = Tensor::make(dtype, shape).value();
      output ? fill_poison(host) : fill_random(host, seed++);
      made.tensors.push_back(DeviceTensor::copy_of(device, host).value());
      if (output) bound.push_back({name, made.tensors.back().view()});
    };
    add("A", bf16, {m, k}, false);
    add("B", bf16, {k, n}, false);
    add("D", bf16, {m, n}, true);
    if (text == reducing) add("total", f32, {m, 1}, true);
    made.arguments.A = made.tensors[0];
    made.arguments.B = made.tensors[1];
    made.arguments.out = made.tensors[2].view();
    made.arguments.epilogue = EpilogueArguments::make(text, bound).value();
    return made;
  }
  void expect_pass(const Held& of, Context& context, const std::string& what) {
    const auto checked = verify(of.arguments, {}, cuda, 3, context);
    ASSERT_TRUE(checked) << what << "\n" << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << what << "\n" << checked->text;
  }
  template <class T>
  static uint16_t code_of(const Result<T>& result) {
    return result ? uint16_t{0} : result.error().code();
  }
  cu::ContextHandle current() const {
    cu::ContextHandle now = nullptr;
    EXPECT_EQ(driver_->call().context_get_current(&now), cu::Status::Success);
    return now;
  }
  static inline const std::string reducing =
      "def f(accum):\n    D = relu(accum)\n    total = sum(accum, dim=-1)\n    return D, total\n";
  std::optional<Context> second_;
  std::optional<Device> other_;
  cu::DriverRef driver_;
};

TEST_F(TwoDevices, AreTwo) {
  EXPECT_EQ(device_->info().ordinal, 0);
  EXPECT_EQ(other_->info().ordinal, 1);
  EXPECT_NE(device_->info().uuid, other_->info().uuid);
}

TEST_F(TwoDevices, EachLoadsItsOwnModules) {
  for (const std::string& text : {plain, reducing}) {
    const Held first = held(*device_, text, 300, 256, 192, 7), second = held(*other_, text, 300, 256, 192, 7);
    Execution one = find_kernels(first.arguments, cuda, {}, *context_).value().prepare(first.arguments).value();
    Execution two = find_kernels(second.arguments, cuda, {}, *second_).value().prepare(second.arguments).value();
    ASSERT_TRUE(one.run());
    ASSERT_TRUE(two.run());
    ASSERT_TRUE(device_->synchronize());
    ASSERT_TRUE(other_->synchronize());
    expect_pass(first, *context_, "device 0");
    expect_pass(second, *second_, "device 1");
  }
}

TEST_F(TwoDevices, TheCallersContextStaysCurrent) {
  const auto mine = cu::Device::open(driver_, 0).value();
  const auto entered = mine->enter().value();
  ASSERT_EQ(current(), mine->context());
  const Held second = held(*other_, reducing, 128, 96, 64, 3);
  ASSERT_EQ(current(), mine->context()) << "after allocating and copying on device 1";
  Execution execution = find_kernels(second.arguments, cuda, {}, *second_).value().prepare(second.arguments).value();
  ASSERT_EQ(current(), mine->context()) << "after prepare";
  ASSERT_TRUE(execution.run());
  ASSERT_EQ(current(), mine->context()) << "after run";
  ASSERT_TRUE(other_->synchronize());
  expect_pass(second, *second_, "device 1, while device 0 is current");
  ASSERT_EQ(current(), mine->context()) << "after verify";
  const Held misplaced = held(*device_, plain, 64, 64, 64, 3);
  EXPECT_FALSE(find_kernels(misplaced.arguments, cuda, {}, *second_).value().prepare(misplaced.arguments));
  EXPECT_EQ(current(), mine->context()) << "after a refusal";
}

TEST_F(TwoDevices, WhatLiesOnTheOtherIsRefused) {
  const Held first = held(*device_, plain, 96, 64, 32, 1), second = held(*other_, plain, 96, 64, 32, 1);
  // All tensors of the other device; and one output among operands of the right one.
  const auto all = find_kernels(first.arguments, cuda, {}, *second_).value().prepare(first.arguments);
  EXPECT_EQ(code_of(all), 648) << "E0648";
  ASSERT_FALSE(all);
  EXPECT_NE(all.error().render().find("memory of device 0"), std::string::npos) << all.error().render();
  GemmArguments mixed = first.arguments;
  mixed.out = second.arguments.out;
  mixed.epilogue = EpilogueArguments::make(plain, {{"D", *second.arguments.out}}).value();
  EXPECT_EQ(code_of(find_kernels(mixed, cuda, {}, *context_).value().prepare(mixed)), 648);
  // A stream of the other device.
  const DeviceStream stream = DeviceStream::make(*other_).value();
  EXPECT_EQ(code_of(find_kernels(first.arguments, cuda, {}, *context_).value()[0].run(first.arguments, stream)), 645)
      << "E0645";
  // A workspace of the other device.
  const Held sums = held(*device_, reducing, 200, 136, 64, 5);
  Execution execution = find_kernels(sums.arguments, cuda, {}, *context_).value().prepare(sums.arguments).value();
  ASSERT_GT(execution.workspace_size(), 0);
  const DeviceTensor memory = DeviceTensor::make(*other_, u8, {execution.workspace_size()}).value();
  EXPECT_EQ(code_of(execution.set_workspace(memory.data(), memory.byte_size())), 648);
  // What was refused has harmed nothing.
  ASSERT_TRUE(execution.run());
  ASSERT_TRUE(device_->synchronize());
  expect_pass(sums, *context_, "after the refusals");
}

TEST_F(TwoDevices, BothAtOnceFromManyThreads) {
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const bool here = t % 2 == 0;
      Context& context = here ? *context_ : *second_;
      const Device& device = here ? *device_ : *other_;
      const Held p =
          held(device, t % 4 < 2 ? plain : reducing, 128 + 32 * (t % 3), 192, 160, 20 + static_cast<uint64_t>(t));
      const DeviceStream stream = DeviceStream::make(device).value();
      auto execution = find_kernels(p.arguments, cuda, {}, context).value().prepare(p.arguments);
      if (!execution) {
        ++failures;
        return;
      }
      for (int round = 0; round < 50; ++round) {
        if (!execution->run(stream)) ++failures;
      }
      if (!stream.synchronize()) ++failures;
      const auto checked = verify(p.arguments, {}, cuda, 1, context);
      if (!checked || checked->verdict != VerifyReport::Verdict::Pass) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0);
}

// One thread that goes from device to device, as a scheduler would.
TEST_F(TwoDevices, InTurnFromOneThread) {
  const Held first = held(*device_, reducing, 256, 128, 96, 9), second = held(*other_, reducing, 256, 128, 96, 9);
  const DeviceStream s1 = DeviceStream::make(*device_).value(), s2 = DeviceStream::make(*other_).value();
  Execution one = find_kernels(first.arguments, cuda, {}, *context_).value().prepare(first.arguments).value();
  Execution two = find_kernels(second.arguments, cuda, {}, *second_).value().prepare(second.arguments).value();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(one.run(s1));
    ASSERT_TRUE(two.run(s2));
  }
  ASSERT_TRUE(s1.synchronize());
  ASSERT_TRUE(s2.synchronize());
  expect_pass(first, *context_, "device 0");
  expect_pass(second, *second_, "device 1");
}

// Programs over two devices: over one GPU that is both, and over two where they are there.
class ProgramsOverDevices : public OnGpu, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!device_) return;
    const auto count = device_count(*context_);
    if (!count || *count <= GetParam()) GTEST_SKIP() << (count ? *count : 0) << " devices are there";
    ContextOptions both = options();
    both.devices = {0, GetParam()};
    both_.emplace(Context::make(both).value());
  }
  // Every parameter and output where it lies, outputs poisoned; several runs behind each other, and the oracle's word.
  void expect_right(const std::string& text, const std::vector<std::pair<std::string, Dims>>& parameters,
                    const RunOptions& how = {}) {
    const Program program = Program::parse(text, "program.py").value();
    std::vector<DeviceTensor> tensors;
    std::vector<NamedArgument> arguments, here;
    std::vector<Tensor> host;
    const auto add = [&](const std::string& name, const Dims& shape, int place, bool output) {
      host.push_back(Tensor::make(f32, shape).value());
      output ? fill_poison(host.back()) : fill_random(host.back(), seed_++, Distribution::Normal);
      const Device device = Device::open(Backend::cuda, static_cast<uint32_t>(place), *both_).value();
      tensors.push_back(DeviceTensor::copy_of(device, host.back()).value());
      arguments.push_back({name, tensors.back().view()});
      here.push_back({name, host.back().view()});
    };
    for (const ProgramParameter& parameter : program.parameters()) {
      const auto at = std::find_if(parameters.begin(), parameters.end(),
                                   [&](const auto& one) { return one.first == parameter.name; });
      ASSERT_NE(at, parameters.end()) << parameter.name;
      add(parameter.name, at->second, parameter.device, false);
    }
    const ProgramShapes shapes = program.shapes(here).value();
    for (const ProgramShapes::Output& output : shapes.outputs) add(output.name, output.shape, output.device, true);
    const auto compiled = compile(program, cuda, shapes.symbols, *both_);
    ASSERT_TRUE(compiled) << compiled.error().render();
    auto execution = compiled->prepare(arguments, how);
    ASSERT_TRUE(execution) << execution.error().render();
    const DeviceStream stream = DeviceStream::make(Device::open(Backend::cuda, *both_).value()).value();
    for (int round = 0; round < 5; ++round) ASSERT_TRUE(execution->run(stream));
    ASSERT_TRUE(stream.synchronize());
    const auto checked = verify(program, arguments, cuda, VerifyOptions{}, *both_);
    ASSERT_TRUE(checked) << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
  }
  std::optional<Context> both_;
  uint64_t seed_ = 11;
};
INSTANTIATE_TEST_SUITE_P(Ordinals, ProgramsOverDevices, ::testing::Values(0, 1),
                         [](const auto& param) { return param.param == 0 ? "OneGpuTwice" : "TwoGpus"; });

TEST_P(ProgramsOverDevices, TwoStages) {
  const std::string text =
      "def stage(x, up, down):\n    h = silu(x @ up)\n    y = x + h @ down\n    return y\n"
      "def f(x: f32[\"m\", 96], u0: f32[96, 160], d0: f32[160, 96], u1: f32[96, 160], d1: f32[160, 96]):\n"
      "    a0 = stage(x[:m // 2], u0, d0)\n    b0 = stage(x[m // 2:], u0, d0)\n"
      "    u = to_device(u1, 1)\n    d = to_device(d1, 1)\n"
      "    a1 = stage(to_device(a0, 1), u, d)\n    b1 = stage(to_device(b0, 1), u, d)\n"
      "    y = concat(a1, b1, dim=0)\n    return y, a0\n";
  const std::vector<std::pair<std::string, Dims>> parameters{
      {"x", {130, 96}}, {"u0", {96, 160}}, {"d0", {160, 96}}, {"u1", {96, 160}}, {"d1", {160, 96}}};
  expect_right(text, parameters);
  RunOptions graph;
  graph.graph = true;
  expect_right(text, parameters, graph);
}

// Gathered where it is read and scattered where it is written: copies of views that lie in pieces.
TEST_P(ProgramsOverDevices, StridedCopies) {
  expect_right(
      "def f(x: f32[70, 50]):\n    t = to_device(transpose(x)[3:40, 5:60], 1)\n    y = relu(t) + 1.0\n"
      "    z = to_device(y, 0) * 2.0\n    return y, z\n",
      {{"x", {70, 50}}});
}

}  // namespace
}  // namespace codetta
