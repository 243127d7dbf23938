// SPDX-License-Identifier: Apache-2.0
// Checks of contents, over the pretended driver: what is launched for them, when they are left out, and that whatever a
// run has enqueued is over before its memory goes.
#include <algorithm>
#include <cstring>

#include "codetta/contents.hpp"
#include "device/gpu/step_abi.h"
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

using diag::Code;
using runtime::cuda::Status;

// Device memory of the driver's, with its giving back among the driver's calls.
struct Recorded : Allocator {
  explicit Recorded(test::FakeDriver& fake) : fake_(fake) {}
  void* allocate(size_t bytes, size_t) override {
    runtime::cuda::DeviceAddress address = 0;
    (void)call().mem_alloc(&address, bytes);
    return reinterpret_cast<void*>(address);
  }
  void free(void* memory, size_t, size_t) override {
    fake_.calls.emplace_back("given back");
    (void)call().mem_free(reinterpret_cast<uintptr_t>(memory));
  }
  const runtime::cuda::DriverTable& call() { return driver_->call(); }
  test::FakeDriver& fake_;
  runtime::cuda::DriverRef driver_ = runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value();
};

class CudaContents : public CudaApi {
 protected:
  void SetUp() override {
    CudaApi::SetUp();
    fake_.parameter_bytes = 0;
    fake_.computes = false;
  }
  static Program taking() {
    return Program::parse("def f(x: f32[\"m\", 8], i: i64[\"k\"]):\n    y = take(x, i, dim=0)\n    return y\n", "p.py")
        .value();
  }
  static CompiledProgram compiled(Context& context, const Program& program) {
    return compile(program, {Backend::cuda, {}, ""}, {}, context).value();
  }
  struct Bound {
    std::vector<DeviceTensor> tensors;
    std::vector<NamedArgument> arguments;
  };
  static Bound bound(Context& context) {
    const Device device = Device::open(context).value();
    Bound made;
    made.tensors.push_back(DeviceTensor::make(device, f32, {5, 8}).value());
    made.tensors.push_back(DeviceTensor::make(device, i64, {3}).value());
    made.tensors.push_back(DeviceTensor::make(device, f32, {3, 8}).value());
    const char* names[] = {"x", "i", "y"};
    for (size_t t = 0; t < 3; ++t) made.arguments.push_back({names[t], made.tensors[t].view()});
    return made;
  }
  [[nodiscard]] size_t looked() const {
    return static_cast<size_t>(std::count_if(fake_.launches.begin(), fake_.launches.end(), [](const auto& launch) {
      return launch.function == "codetta_step_look";
    }));
  }
};

TEST_F(CudaContents, IndicesOfTakeAreLookedAt) {
  fake_.parameter_bytes = sizeof(gpu::LookParams);
  Context c = context();
  const CompiledProgram program = compiled(c, taking());
  const Bound b = bound(c);
  Execution execution = program.prepare(b.arguments).value();
  EXPECT_EQ(fake_.pinned, 1);
  ASSERT_TRUE(execution.run());
  ASSERT_EQ(fake_.launches.size(), 2U);
  ASSERT_EQ(fake_.launches[0].function, "codetta_step_look") << "in front of what reads by them";
  gpu::LookParams look{};
  std::memcpy(&look, fake_.launches[0].parameters.data(), sizeof look);
  EXPECT_EQ(look.data, b.tensors[1].data()) << "where they lie";
  EXPECT_EQ(look.count, 3);
  EXPECT_EQ(look.limit, 5);
  *look.fault.fault = {2, static_cast<uint32_t>(look.fault.number), 0, 0, 1, 9, 5};
  expect(check_contents(execution), Code::index_range, "index 9 is out of range for the size 5");
  EXPECT_TRUE(check_contents(execution)) << "once";
  *look.fault.fault = {2, static_cast<uint32_t>(look.fault.number), 0, 1, 1, -11, 5};
  expect(execution.run(), Code::index_range, "index 18446744073709551605 is out of range");
  *look.fault.fault = {2, static_cast<uint32_t>(look.fault.number), 0, 0, 1, 9, 5};
  expect(check_contents(execution), Code::index_range, "it stands at [1] of i");
}

// What an earlier run found wrong is told instead of a run, which then has used up nothing.
TEST_F(CudaContents, ARefusedRunUsesNothingUp) {
  fake_.parameter_bytes = sizeof(gpu::LookParams);
  Context c = context();
  const CompiledProgram program =
      compiled(c, Program::parse("def f(x: donated[f32[\"m\", 8]], i: i64[\"k\"]):\n    y = take(x, i, dim=0)\n"
                                 "    return y\n",
                                 "p.py")
                      .value());
  const Bound b = bound(c);
  Execution execution = program.prepare(b.arguments).value();
  ASSERT_TRUE(execution.run());
  gpu::LookParams look{};
  std::memcpy(&look, fake_.launches[0].parameters.data(), sizeof look);
  *look.fault.fault = {2, static_cast<uint32_t>(look.fault.number), 0, 0, 1, 9, 5};
  expect(execution.run(), Code::donated_spent, "donated x is used again");
  execution.donate_again();
  fake_.launches.clear();
  expect(execution.run(), Code::index_range, "index 9 is out of range");
  EXPECT_TRUE(fake_.launches.empty());
  EXPECT_TRUE(execution.run()) << "x is as it was given";
  expect(execution.run(), Code::donated_spent, "donated x is used again");
  // The driver refuses the first launch.
  execution.donate_again();
  fake_.fail["cuLaunchKernelEx"] = Status::InvalidHandle;
  ASSERT_FALSE(execution.run());
  fake_.fail.clear();
  EXPECT_TRUE(execution.run());
}

TEST_F(CudaContents, RunsWithoutChecksHaveNone) {
  Context c = context();
  const CompiledProgram program = compiled(c, taking());
  const Bound b = bound(c);
  RunOptions unchecked;
  unchecked.checked = false;
  Execution execution = program.prepare(b.arguments, unchecked).value();
  ASSERT_TRUE(execution.run());
  ASSERT_TRUE(program.run(b.arguments, {}, unchecked));
  EXPECT_EQ(fake_.pinned, 0) << "no word to tell in";
  EXPECT_EQ(fake_.launches.size(), 2U);
  EXPECT_EQ(looked(), 0U);
  // Nor of anything else that is checked.
  std::vector<NamedArgument> overlapping = b.arguments;
  overlapping[2].value = TensorView::make(b.tensors[0].data(), f32, {3, 8}).value();
  expect(program.prepare(overlapping), Code::overlap, "overlap");
  EXPECT_TRUE(program.prepare(overlapping, unchecked));
  ASSERT_TRUE(program.run(b.arguments));
  EXPECT_EQ(looked(), 1U);
}

TEST_F(CudaContents, CapturesStayWhatTheyWere) {
  Context c = context();
  const CompiledProgram program = compiled(c, taking());
  const Bound b = bound(c);
  const DeviceStream stream = DeviceStream::make(Device::open(c).value()).value();
  // Run once into a graph: nobody is left to be told.
  begin(stream);
  ASSERT_TRUE(program.run(b.arguments, stream));
  EXPECT_EQ(fake_.pinned, 0);
  replay(stream);
  EXPECT_EQ(fake_.launches.size(), 1U);
  EXPECT_EQ(looked(), 0U);
  // An execution that outlives the graph: every replay looks.
  Execution execution = program.prepare(b.arguments).value();
  begin(stream);
  fake_.calls.clear();
  ASSERT_TRUE(execution.run(stream));
  for (const char* forbidden : {"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamSynchronize", "cuModuleLoadData"})
    EXPECT_EQ(fake_.count(forbidden), 0U) << forbidden;
  fake_.launches.clear();
  replay(stream);
  EXPECT_EQ(fake_.launches.size(), 2U);
  EXPECT_EQ(looked(), 1U);
}

TEST_F(CudaContents, E0646SizesOfTheRunAreNotCaptured) {
  Context c = context();
  const Program sized = Program::parse(
                            "def f(x: f32[8]):\n    h = call_extern(\"make\", x, out=\"f32[8]\", form=\"alloc\")\n"
                            "    y = h * 2.0\n    return y\n",
                            "p.py")
                            .value();
  const CompiledProgram program = compiled(c, sized);
  const Device device = Device::open(c).value();
  const DeviceTensor x = DeviceTensor::make(device, f32, {8}).value(), y = DeviceTensor::make(device, f32, {8}).value();
  RunOptions options;
  const auto make = [](void*, const CodettaTensor*, int, CodettaTensor*, int) { return 1; };
  options.externs = {{"make", make, nullptr}};
  const DeviceStream stream = DeviceStream::make(device).value();
  begin(stream);
  expect(program.run({{"x", x.view()}, {"y", y.view()}}, stream, options), Code::capture_active,
         "sizes are found in the run");
  replay(stream);
  EXPECT_TRUE(fake_.launches.empty()) << "nothing was captured";
}

TEST_F(CudaContents, ARunThatFailsIsWaitedForBeforeItsMemoryGoes) {
  Recorded memory(fake_);
  ContextOptions made = options();
  made.device_allocator = &memory;
  Context c = Context::make(made).value();
  const Program calling = Program::parse(
                              "def f(x: f32[8]):\n    h = x * 2.0\n    y = call_extern(\"look\", h, out=\"f32[8]\")\n"
                              "    return y\n",
                              "p.py")
                              .value();
  const CompiledProgram program = compiled(c, calling);
  const Device device = Device::open(c).value();
  const DeviceTensor x = DeviceTensor::make(device, f32, {8}).value(), y = DeviceTensor::make(device, f32, {8}).value();
  RunOptions options;
  options.externs = {{"look", [](void*, const CodettaTensor*, int, CodettaTensor*, int) { return 7; }, nullptr}};
  fake_.calls.clear();
  expect(program.run({{"x", x.view()}, {"y", y.view()}}, {}, options), Code::extern_failed, "it returned 7");
  ASSERT_EQ(fake_.launches.size(), 1U) << "which may still be at work";
  const auto at = [&](const char* call) {
    return std::find(fake_.calls.rbegin(), fake_.calls.rend(), call) - fake_.calls.rbegin();
  };
  EXPECT_EQ(fake_.count("given back"), 1U);
  EXPECT_LT(at("given back"), at("cuStreamSynchronize"));
  EXPECT_LT(at("cuStreamSynchronize"), at("cuLaunchKernelEx"));
  // What the wait says does not take the place of what came first.
  fake_.fail["cuStreamSynchronize"] = Status::LaunchFailed;
  expect(program.run({{"x", x.view()}, {"y", y.view()}}, {}, options), Code::extern_failed, "it returned 7");
}

}  // namespace
}  // namespace codetta
