// SPDX-License-Identifier: Apache-2.0
// Watching programs over the pretended driver, which computes plain products: what is copied when, and what can fail.
#include <algorithm>

#include "support/observed_program.hpp"
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

using diag::Code;
using runtime::cuda::Status;
using test::BoundProgram;
using test::observed;

class CudaObserved : public CudaApi {
 protected:
  static constexpr const char* text =
      "def f(x: f32[\"m\", 17], w: f32[17, 20], v: f32[20, 9]):\n    h = x @ w\n    y = h @ v\n    return y\n";
  static BoundProgram bound(Context& context, int64_t rows = 33) {
    return test::bound_on(Device::open(context).value(), program(), {{"m", rows}});
  }
  static CompiledProgram compiled(Context& context, const Program& program) {
    return compile(program, {Backend::cuda, {}, ""}, {}, context).value();
  }
  static Program program() { return Program::parse(text, "two.py").value(); }
};

TEST_F(CudaObserved, ValuesAreInHostMemory) {
  Context c = context();
  // Each run is told of with the steps of the kernels that it takes.
  const CompiledProgram two = compile(program(), {Backend::cuda, {}, ""}, {{"m", 33}, {"m", 1}}, c).value();
  for (const int64_t rows : {33, 1, 0}) {
    const BoundProgram b = bound(c, rows);
    std::vector<std::string> seen;
    const auto ran = two.run(b.arguments, {}, observed([&](const StepRecord& record) -> Result<void> {
                               for (const StepRecord::Value& value : record.written) {
                                 seen.push_back(value.name);
                                 EXPECT_EQ(value.view.size(0), rows);
                                 for (const auto& [base, bytes] : fake_.allocations) {
                                   const auto at = reinterpret_cast<uintptr_t>(value.view.data());
                                   EXPECT_TRUE(rows == 0 || at < base || at >= base + bytes) << "memory of the device";
                                 }
                               }
                               return {};
                             }));
    ASSERT_TRUE(ran) << ran.error().render();
    EXPECT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen.back(), "y");
  }
  const BoundProgram b = bound(c);
  const auto found = bisect(program(), b.arguments, {Backend::cuda, {}, ""}, {}, {}, c);
  ASSERT_TRUE(found) << found.error().render();
  EXPECT_EQ(found->first_wrong, -1) << found->text;
  EXPECT_EQ(found->steps.size(), 2U);
  fake_.computes = false;  // what a kernel leaves that does nothing
  const auto wrong = bisect(program(), b.arguments, {Backend::cuda, {}, ""}, {}, {}, c);
  ASSERT_TRUE(wrong) << wrong.error().render();
  EXPECT_EQ(wrong->first_wrong, 0) << wrong->text;
  EXPECT_NE(wrong->text.find("two.py:2: h = x @ w"), std::string::npos) << wrong->text;
}

// Where tensors decide which kernels run, bisect compares those: two products of one A, which are apart where A lies
// anywhere.
TEST_F(CudaObserved, BisectComparesTheKernelsThatRun) {
  fake_.computes = false;
  Context c = context();
  const Device device = Device::open(c).value();
  const auto both =
      Program::parse(
          "def f(x: bf16[\"m\", 512], w: bf16[512, 512], v: bf16[512, 512], c: bf16[\"m\", 512]):\n    a = x @ w\n"
          "    b = x @ v\n    y = silu(a) * b + c\n    return y\n",
          "f.py")
          .value();
  const DeviceTensor x = DeviceTensor::make(device, bf16, {512 * 512 + 1}).value(),
                     w = DeviceTensor::make(device, bf16, {512, 512}).value(),
                     y = DeviceTensor::make(device, f32, {512, 512}).value(),
                     added = DeviceTensor::make(device, bf16, {512, 512}).value();
  for (const int64_t shift : {0, 1}) {
    auto* const data = static_cast<std::byte*>(x.view().data()) + 2 * shift;
    const auto found = bisect(both,
                              {{"x", TensorView::make(data, bf16, {512, 512}).value()},
                               {"w", w.view()},
                               {"v", w.view()},
                               {"c", added.view()},
                               {"y", y.view()}},
                              {Backend::cuda, {}, "sm_90a"}, {{"m", 512}}, {}, c);
    ASSERT_TRUE(found) << found.error().render();
    EXPECT_EQ(found->steps.size(), shift == 0 ? 1U : 2U) << found->text;
    for (const BisectedStep& step : found->steps) EXPECT_EQ(step.unchecked, "") << found->text;
  }
}

TEST_F(CudaObserved, OnlyWhatIsLookedAtIsCopied) {
  Context c = context();
  const CompiledProgram two = compiled(c, program());
  const BoundProgram b = bound(c);
  size_t told = 0;
  const auto count = [&](const StepRecord& record) -> Result<void> {
    told += record.written.size();
    EXPECT_EQ(record.written.at(0).view.rank(), 2) << "forms are told all the same";
    return {};
  };
  for (const auto& [what, copies] : {std::pair{Observed::steps, 0U}, {Observed::results, 0U}, {Observed::values, 2U}}) {
    Execution execution = two.prepare(b.arguments, observed(count, what)).value();
    fake_.calls.clear();
    told = 0;
    ASSERT_TRUE(execution.run());
    EXPECT_EQ(told, 2U);
    EXPECT_EQ(fake_.count("cuMemcpyDtoHAsync_v2"), copies);
    EXPECT_EQ(fake_.count("cuMemcpyHtoDAsync_v2"), 0U) << "nothing was changed";
    EXPECT_GE(fake_.count("cuStreamSynchronize"), 2U);
  }
  Execution plain = two.prepare(b.arguments).value();
  fake_.calls.clear();
  ASSERT_TRUE(plain.run());
  for (const char* none : {"cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuStreamIsCapturing", "cuMemAlloc_v2"})
    EXPECT_EQ(fake_.count(none), 0U) << none;
}

TEST_F(CudaObserved, WhatAnObserverChangesGoesBack) {
  Context c = context();
  const CompiledProgram two = compiled(c, program());
  const BoundProgram b = bound(c);
  const DeviceStream stream = DeviceStream::make(Device::open(c).value()).value();
  const auto zero = [](const StepRecord& record) -> Result<void> {
    const TensorView& view = record.written.at(0).view;
    if (record.written[0].name != "y") std::fill_n(view.as<float>(), view.element_count(), 0.0F);
    return {};
  };
  ASSERT_TRUE(two.run(b.arguments, stream, observed(zero)));
  ASSERT_TRUE(b.there[3].download(b.host[3]));
  for (int64_t i = 0; i < 33 * 9; ++i) ASSERT_EQ(b.host[3].view().as<float>()[i], 0) << "made of zeros";
}

TEST_F(CudaObserved, CopiesThatFailSayWhichStep) {
  Context c = context();
  const CompiledProgram two = compiled(c, program());
  const BoundProgram b = bound(c);
  size_t told = 0;
  Execution execution = two.prepare(b.arguments, observed([&](const StepRecord& record) -> Result<void> {
                                      ++told;
                                      record.written.at(0).view.as<float>()[0] += 1;
                                      return {};
                                    }))
                            .value();
  fake_.fail["cuMemcpyDtoHAsync_v2"] = Status::IllegalAddress;
  expect(execution.run(), Code::device_failed, "(launch_kernel) wrote is copied for the observer of the run");
  EXPECT_EQ(told, 0U);
  fake_.fail.clear();
  fake_.fail["cuMemcpyHtoDAsync_v2"] = Status::InvalidValue;
  expect(execution.run(), Code::driver_call, "(launch_kernel) wrote is copied for the observer of the run");
  EXPECT_EQ(told, 1U);
  fake_.fail.clear();
  fake_.fail["cuStreamSynchronize"] = Status::LaunchFailed;
  expect(execution.run(), Code::device_failed, "seen behind step ");
  expect(execution.run(), Code::device_failed, "kernel codetta_");
  EXPECT_EQ(told, 1U);
  fake_.fail.clear();
  EXPECT_TRUE(execution.run());
  EXPECT_EQ(told, 3U);
}

TEST_F(CudaObserved, E0646NoCaptureIsObserved) {
  Context c = context();
  const CompiledProgram two = compiled(c, program());
  const BoundProgram b = bound(c);
  const DeviceStream stream = DeviceStream::make(Device::open(c).value()).value();
  const auto handle = static_cast<runtime::cuda::StreamHandle>(stream.get().handle);
  size_t told = 0;
  const RunOptions options = observed([&](const StepRecord&) -> Result<void> {
    ++told;
    return {};
  });
  Execution execution = two.prepare(b.arguments, options).value();
  const runtime::cuda::DriverRef driver = runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value();
  ASSERT_EQ(driver->call().stream_begin_capture(handle, 0), Status::Success);
  expect(execution.run(stream), Code::capture_active, "a run that is observed can not be captured");
  expect(two.run(b.arguments, stream, options), Code::capture_active, "a run that is observed can not be captured");
  EXPECT_EQ(told, 0U);
  // Without the observer it is captured; who launches the graph is told nothing.
  Execution plain = two.prepare(b.arguments).value();
  ASSERT_TRUE(plain.run(stream));
  runtime::cuda::GraphHandle graph = nullptr;
  ASSERT_EQ(driver->call().stream_end_capture(handle, &graph), Status::Success) << "the capture is valid";
  (void)driver->call().graph_destroy(graph);
  ASSERT_TRUE(execution.run(stream));
  EXPECT_EQ(told, 2U);
}

}  // namespace
}  // namespace codetta
