// SPDX-License-Identifier: Apache-2.0
// Executions as one graph, over the pretended driver: captured by prepare() and by set_workspace(), launched by runs,
// refused where what runs is decided or found by a run.
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/runtime_cuda/step_fixture.hpp"

namespace codetta::runtime::cuda {
namespace {

using namespace package;
using runtime::test::constant;
using From = DefineSymbol::From;

class CudaGraph : public OnPretendedDevice {
 protected:
  void SetUp() override {
    OnPretendedDevice::SetUp();
    std::string image =
        "\x7f"
        "ELFgemm";
    image.resize(256);
    module_ = Module::load(device_, image, "test").value();
  }
  // y = x by `count` kernels, the ones in the middle between temporaries of a pool.
  void chain(int count) {
    const Dim four = constant(4);
    uint32_t from = p_.argument("x", DType::f32, {4, 4});
    const uint32_t y = p_.output("y", DType::f32, {4, 4});
    for (int i = 0; i < count; ++i) {
      uint32_t to = y;
      if (i + 1 < count) {
        to = p_.temporary("t" + std::to_string(i), DType::f32, {four, four});
        p_.put(Allocate{to});
      }
      LaunchKernel step = p_.copy_kernel(from, to, four, four);
      package::Kernel& kernel = p_.package.kernels.back();
      kernel.config = GpuMapConfig{};
      kernel.entries = {{GpuEntry::Kind::Phase, 0, "gemm", 256, 0, 1}};
      p_.put(step);
      from = to;
    }
    p_.put(Return{});
  }
  Result<Execution> prepare(bool graph = true, Observer observer = {}) {
    package_ = std::make_shared<const package::Package>(p_.package);
    FromOutside outside{p_.options.externs, p_.options.weights};
    std::vector<ModuleRef> modules(std::max<size_t>(p_.package.kernels.size(), 1), module_);
    return Execution::make(package_, std::move(modules), p_.bindings,
                           {.outside = std::move(outside), .graph = graph, .observer = std::move(observer)});
  }
  static std::string outcome(const Result<void>& result) {
    if (result) return "ran";
    const Diagnostic& d = result.error().diagnostics().front();
    EXPECT_FALSE(d.help.empty());
    return "E0" + std::to_string(d.code) + " " + d.headline + ": " + d.reason;
  }
  void clear() {
    p_.package.steps.clear();
    p_.package.step_lists.clear();
  }
  std::string refused() {
    const int before = fake_.executables;
    const auto execution = prepare();
    EXPECT_EQ(fake_.executables, before);
    EXPECT_TRUE(fake_.capturing.empty()) << "the capture has ended";
    return execution ? "prepared" : outcome(execution.error());
  }
  // The launches since this was asked last.
  std::vector<codetta::test::FakeLaunch> launches() { return std::exchange(fake_.launches, {}); }
};

TEST_F(CudaGraph, ARunIsOneLaunchOfWhatItWouldEnqueue) {
  chain(20);
  auto plain = prepare(false);
  ASSERT_TRUE(plain) << plain.error().render();
  auto own = DeviceBuffer::make(device_, static_cast<size_t>(plain->workspace_size())).value();
  auto* memory = reinterpret_cast<void*>(own.address());
  ASSERT_TRUE(plain->set_workspace(memory, plain->workspace_size()));
  ASSERT_EQ(outcome(plain->run(stream_->get())), "ran");
  const auto expected = launches();
  ASSERT_EQ(expected.size(), 20U);
  const size_t streams = fake_.streams.size();
  {
    auto execution = prepare();
    ASSERT_TRUE(execution) << execution.error().render();
    EXPECT_TRUE(fake_.launches.empty()) << "it is captured, not run";
    EXPECT_EQ(fake_.executables, 1);
    EXPECT_EQ(fake_.graphs, 0);
    EXPECT_EQ(fake_.streams.size(), streams) << "that of the capture is gone";
    ASSERT_TRUE(execution->set_workspace(memory, execution->workspace_size()));
    EXPECT_EQ(fake_.executables, 1) << "captured anew, in the place of the other";
    const OwnedStream other = OwnedStream::make(device_).value();
    for (const StreamHandle stream : {stream_->get(), other.get(), StreamHandle{}}) {
      fake_.calls.clear();
      EXPECT_EQ(outcome(execution->run(stream)), "ran");
      EXPECT_TRUE(execution->wrote());
      EXPECT_EQ(fake_.count("cuGraphLaunch"), 1U);
      EXPECT_EQ(fake_.count("cuLaunchKernelEx") + fake_.count("cuMemAlloc_v2") + fake_.count("cuStreamSynchronize"),
                0U);
      const auto ran = launches();
      ASSERT_EQ(ran.size(), expected.size());
      for (size_t i = 0; i < ran.size(); ++i) {
        EXPECT_EQ(ran[i].function, expected[i].function);
        EXPECT_EQ(ran[i].parameters, expected[i].parameters) << "launch " << i;
        EXPECT_EQ(ran[i].config.grid_x, expected[i].config.grid_x);
      }
    }
    fake_.fail["cuGraphLaunch"] = Status::LaunchOutOfResources;
    EXPECT_EQ(outcome(execution->run(stream_->get())).substr(0, 5), "E0650");
    EXPECT_FALSE(execution->wrote());
    fake_.fail.clear();
  }
  EXPECT_EQ(fake_.executables, 0) << "freed with the execution";
}

// A stream that the caller captures gets the steps themselves.
TEST_F(CudaGraph, WithinACaptureTheStepsAreEnqueued) {
  chain(3);
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  fake_.capturing.insert(stream_->get());
  fake_.captured.clear();
  fake_.calls.clear();
  EXPECT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(fake_.count("cuGraphLaunch"), 0U);
  EXPECT_EQ(fake_.captured.size(), 3U);
  fake_.capturing.clear();
  // Of another stream: it stays valid while this one is prepared.
  const OwnedStream other = OwnedStream::make(device_).value();
  fake_.capturing.insert(other.get());
  EXPECT_TRUE(prepare());
  EXPECT_TRUE(fake_.invalidated.empty());
  fake_.capturing.clear();
  EXPECT_EQ(fake_.capture_mode, 0) << "the thread's mode is as before";
}

int count_calls(void* context, const CodettaTensor*, int, CodettaTensor*, int) {
  return ++*static_cast<int*>(context), 0;
}
int fails(void*, const CodettaTensor*, int, CodettaTensor*, int) { return 7; }

TEST_F(CudaGraph, FunctionsOfTheCallersAreCalledWhileItIsCaptured) {
  int calls = 0;
  const uint32_t x = p_.argument("x", DType::f32, {4}), y = p_.output("y", DType::f32, {4});
  p_.provide("count", count_calls, &calls);
  p_.put(CallExtern{"count", {x}, CallExtern::Form::Out, {y}, 0, 0}, Return{});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_EQ(calls, 1);
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(calls, 1);
  p_.options.externs[0].function = fails;
  EXPECT_EQ(refused(), "E0617 external function count failed: it returned 7");
}

TEST_F(CudaGraph, E0646WhatCanNotBeOneGraph) {
  const uint32_t count = p_.argument("count", DType::i32, {1}, {3}),
                 flag = p_.argument("flag", DType::boolean, {1}, {0}), y = p_.output("y", DType::f32, {8});
  const uint32_t part = p_.temporary("part", DType::f32, {Dim::symbol("n")});
  p_.put(DefineSymbol{"n", count, 0, From::Value}, Reinterpret{y, part}, Fill{part}, Return{});
  EXPECT_EQ(refused(), "E0646 the program can not be one graph: the size n is read from device memory");
  clear();
  p_.put(If{flag, p_.list({Fill{y}}), p_.list({})}, Return{});
  EXPECT_EQ(refused(), "E0646 a branch can not be captured: flag is read on the host to decide what runs");
  clear();
  p_.put(While{p_.list({}), flag, p_.list({Fill{y}}), 1}, Return{});
  EXPECT_EQ(refused(), "E0646 a branch can not be captured: flag is read on the host to decide what runs");
  clear();
  const uint32_t left = p_.temporary("left", DType::f32, {Dim::symbol("m")}),
                 right = p_.temporary("right", DType::f32, {Dim::symbol("k")}),
                 other = p_.argument("other", DType::i32, {1}, {3});
  const auto late_list = [&](const char* symbol = "m") {
    const uint32_t made = *symbol == 'm' ? left : right;
    return p_.list({DefineSymbol{symbol, other, 0, DefineSymbol::From::Value}, Reinterpret{y, made}, Fill{made}});
  };
  const std::string late = "E0646 the program can not be one graph: the size m is read from device memory";
  p_.put(If{flag, p_.list({}), late_list()}, Return{});
  EXPECT_EQ(refused(), late) << "it may be run";
  clear();
  p_.put(While{late_list(), flag, p_.list({}), 1}, Return{});
  EXPECT_EQ(refused(), late);
  // A number of the caller's has decided: what is captured waits for nothing.
  for (const int64_t taken : {0, 1}) {
    clear();
    const uint32_t decides = p_.scalar("decides", DType::boolean, taken);
    p_.put(If{decides, late_list(), p_.list({If{decides, late_list("k"), p_.list({Fill{y}})}})}, Return{});
    if (taken != 0) {
      EXPECT_EQ(refused(), late);
      continue;
    }
    auto execution = prepare();
    ASSERT_TRUE(execution) << execution.error().render();
    fake_.calls.clear();
    ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
    EXPECT_EQ(fake_.count("cuGraphLaunch"), 1U);
    EXPECT_EQ(fake_.count("cuStreamSynchronize"), 0U);
  }
  clear();
  p_.put(Fill{y}, Return{});
  const auto watched = prepare(true, [](const StepEvent&, const Device&, StreamHandle) { return Result<void>(); });
  ASSERT_FALSE(watched);
  EXPECT_EQ(outcome(watched.error()),
            "E0646 the program can not be one graph: it is observed: each step is waited for");
  // Decided by a number, which is what it is when the program is prepared.
  clear();
  const uint32_t number = p_.scalar("number", DType::boolean, 1);
  p_.put(If{number, p_.list({Fill{y}}), p_.list({})}, Return{});
  EXPECT_TRUE(prepare());
}

TEST_F(CudaGraph, WhatTheDriverRefuses) {
  chain(2);
  for (const char* name : {"cuStreamCreate", "cuStreamBeginCapture_v2", "cuLaunchKernelEx", "cuStreamEndCapture",
                           "cuGraphInstantiateWithFlags"}) {
    SCOPED_TRACE(name);
    fake_.fail[name] = Status::OutOfMemory;
    const auto execution = prepare();
    ASSERT_FALSE(execution);
    const std::string without_version = std::string(name).substr(0, std::string(name).find("_v2"));
    EXPECT_NE(execution.error().render().find(without_version), std::string::npos) << execution.error().render();
    fake_.fail.clear();
    fake_.capturing.clear();  // where the end failed
    EXPECT_EQ(fake_.executables, 0);
    EXPECT_EQ(fake_.graphs, 0);
  }
}

}  // namespace
}  // namespace codetta::runtime::cuda
