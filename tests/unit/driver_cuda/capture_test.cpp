// SPDX-License-Identifier: Apache-2.0
// Streams under capture: what may be done, what is refused, and that the capture survives either.
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

using diag::Code;
using runtime::cuda::GraphHandle;
using runtime::cuda::Status;

class CudaCapture : public CudaApi {};

TEST_F(CudaCapture, RunsAreCapturedAndReplayed) {
  Context c = context();
  const Problem p = problem(c);
  const DeviceStream stream = DeviceStream::make(Device::open(c).value()).value();
  Execution execution = kernels(p, c).prepare(p.arguments).value();
  fake_.launches.clear();
  begin(stream);
  fake_.calls.clear();
  ASSERT_TRUE(execution.run(stream));
  for (const char* forbidden : {"cuMemAlloc_v2", "cuStreamSynchronize", "cuModuleLoadData", "cuMemFree_v2"})
    EXPECT_EQ(fake_.count(forbidden), 0U) << forbidden;
  EXPECT_TRUE(fake_.launches.empty());
  replay(stream);
  EXPECT_EQ(fake_.launches.size(), 1U);
  EXPECT_EQ(verify(p.arguments, {}, {Backend::cuda, {}, ""}, 1, c)->verdict, VerifyReport::Verdict::Pass);
}

TEST_F(CudaCapture, E0535NothingIsCompiledDuringACapture) {
  Context c = context();
  const Problem p = problem(c);
  const DeviceStream stream = DeviceStream::make(Device::open(c).value()).value();
  const KernelList found = kernels(p, c);
  begin(stream);
  expect(found[0].run(p.arguments, stream), Code::compile_in_capture, "the capture is still valid");
  EXPECT_EQ(nvrtc_.compiles, 0);
  EXPECT_TRUE(fake_.invalidated.empty());
  replay(stream);
  // What is compiled already may be captured without being prepared.
  ASSERT_TRUE(found[0].compile());
  begin(stream);
  ASSERT_TRUE(found[0].run(p.arguments, stream));
  replay(stream);
  EXPECT_EQ(fake_.launches.size(), 1U);
}

TEST_F(CudaCapture, E0646WorkspacesMustOutliveTheGraph) {
  Context c = context();
  const Problem p = problem(c, f32, reducing, m, 136);
  const DeviceStream stream = DeviceStream::make(Device::open(c).value()).value();
  const KernelList found = kernels(p, c);
  ASSERT_TRUE(found[0].run(p.arguments, stream));
  const size_t alive = fake_.allocations.size();
  begin(stream);
  expect(found[0].run(p.arguments, stream), Code::capture_active, "needs a workspace of");
  EXPECT_TRUE(fake_.invalidated.empty());
  EXPECT_EQ(fake_.allocations.size(), alive);
  replay(stream);
}

TEST_F(CudaCapture, E0646AlsoThoseOfFurtherDevices) {
  Context c = context();
  const Program program = Program::parse(
                              "def f(x: f32[32, 16], w: f32[16, 24]):\n"
                              "    s = relu(x)\n    y = to_device(x, 1) @ to_device(w, 1)\n    return s, y\n",
                              "f.py")
                              .value();
  const CompiledProgram compiled = compile(program, {Backend::cuda, {}, ""}, {}, c).value();
  const Device first = Device::open(Backend::cuda, 0, c).value(), second = Device::open(Backend::cuda, 1, c).value();
  const DeviceTensor x = DeviceTensor::make(first, f32, {32, 16}).value(),
                     w = DeviceTensor::make(second, f32, {16, 24}).value(),
                     s = DeviceTensor::make(first, f32, {32, 16}).value(),
                     y = DeviceTensor::make(second, f32, {32, 24}).value();
  const std::vector<NamedArgument> arguments = {{"x", x.view()}, {"w", w.view()}, {"s", s.view()}, {"y", y.view()}};
  {
    const Execution execution = compiled.prepare(arguments).value();
    ASSERT_EQ(execution.workspace_size(), 0);
    ASSERT_GT(execution.workspace_size(1), 0) << "where x is brought to";
  }
  const DeviceStream stream = DeviceStream::make(first).value();
  begin(stream);
  expect(compiled.run(arguments, stream), Code::capture_active, "needs a workspace of");
  EXPECT_TRUE(fake_.invalidated.empty());
  replay(stream);
}

TEST_F(CudaCapture, PreparingLeavesCapturesValid) {
  Context c = context();
  const Problem p = problem(c, f32, reducing, m, 136);
  const DeviceStream stream = DeviceStream::make(Device::open(c).value()).value();
  begin(stream);
  fake_.implicit_capture = true;  // as if it were one that the default stream waits for
  Execution execution = kernels(p, c).prepare(p.arguments).value();
  EXPECT_TRUE(fake_.invalidated.empty());
  EXPECT_EQ(fake_.capture_mode, 0) << "the thread's mode is as before";
  ASSERT_TRUE(execution.run(stream));
  fake_.implicit_capture = false;
  replay(stream);
  EXPECT_GE(fake_.launches.size(), 2U) << "the product, and what combines its sums";
}

// Tensors that are aligned less than the hinted sizes have other kernels. A capture compiles none, and takes those that
// a run before has made.
TEST_F(CudaCapture, KernelsForLessAlignmentAreTakenOnceTheyAreThere) {
  fake_.computes = false;
  Context c = context();
  const Device device = Device::open(c).value();
  const auto program =
      Program::parse("def f(x: bf16[\"m\", \"k\"], w: bf16[\"k\", 512]):\n    y = x @ w\n    return y\n", "f.py")
          .value();
  const auto compiled = compile(program, {Backend::cuda, {}, "sm_90a"}, {{"m", 4}, {"k", 512}}, c).value();
  const DeviceTensor x = DeviceTensor::make(device, bf16, {4, 512}).value(),
                     w = DeviceTensor::make(device, bf16, {512, 512}).value(),
                     y = DeviceTensor::make(device, f32, {4, 512}).value();
  const auto of_size = [&](int64_t k) {
    return std::vector<NamedArgument>{{"x", TensorView::make(x.view().data(), bf16, {4, k}).value()},
                                      {"w", TensorView::make(w.view().data(), bf16, {k, 512}).value()},
                                      {"y", y.view()}};
  };
  const std::vector<NamedArgument> aligned = of_size(512), odd = of_size(33);
  const DeviceStream stream = DeviceStream::make(device).value();
  const auto launched = [&] {
    std::vector<std::pair<std::string, unsigned>> found;
    for (const test::FakeLaunch& launch : fake_.launches) found.emplace_back(launch.function, launch.config.block_x);
    fake_.launches.clear();
    return found;
  };
  ASSERT_TRUE(compiled.run(aligned));
  const auto hinted = launched();
  const int compiles = nvrtc_.compiles;
  begin(stream);
  expect(compiled.run(odd, stream), Code::compile_in_capture, "66 bytes, no multiple of");
  EXPECT_TRUE(fake_.invalidated.empty());
  EXPECT_EQ(nvrtc_.compiles, compiles);
  replay(stream);
  EXPECT_TRUE(launched().empty()) << "nothing was captured";
  ASSERT_TRUE(compiled.run(odd));
  EXPECT_EQ(nvrtc_.compiles, compiles + 1);
  const auto warm = launched();
  ASSERT_FALSE(warm.empty());
  EXPECT_NE(warm, hinted);
  begin(stream);
  // They copy what lies askew first, to a workspace that has to outlive the graph.
  expect(compiled.run(odd, stream), Code::capture_active, "needs a workspace of");
  Execution execution = compiled.prepare(odd).value();
  const auto captured = execution.run(stream);
  ASSERT_TRUE(captured) << captured.error().render();
  EXPECT_TRUE(launched().empty()) << "nothing runs yet";
  replay(stream);
  EXPECT_EQ(launched(), warm);
  EXPECT_EQ(nvrtc_.compiles, compiles + 1);
  begin(stream);
  ASSERT_TRUE(compiled.run(aligned, stream));
  replay(stream);
  EXPECT_EQ(launched(), hinted) << "tensors that are aligned go on as before";
}

// What is decided in the run can not be captured. That is found behind launches, which the graph then holds: whoever
// launches it all the same has donated tensors written over. What is refused in front of them uses nothing up.
TEST_F(CudaCapture, WhatARefusedCaptureHoldsUsesDonatedTensorsUp) {
  fake_.computes = false;
  Context c = context();
  const Device device = Device::open(c).value();
  const DeviceTensor x = DeviceTensor::make(device, f32, {8, 64}).value(),
                     p = DeviceTensor::make(device, DType::boolean, {1}).value(),
                     y = DeviceTensor::make(device, f32, {8, 64}).value();
  const auto program =
      Program::parse(
          "def yes(h):\n    return h * 2.0\ndef no(h):\n    return h + 1.0\n"
          "def f(x: donated[f32[\"m\", 64]], p: bool[1]):\n    y = cond(p, yes, no, softmax(x))\n    return y\n",
          "f.py")
          .value();
  const auto compiled = compile(program, {Backend::cuda, {}, ""}, {}, c).value();
  const std::vector<NamedArgument> arguments{{"x", x.view()}, {"p", p.view()}, {"y", y.view()}};
  const DeviceStream stream = DeviceStream::make(device).value();
  RunOptions watched;
  watched.observer = [](const StepRecord&) -> Result<void> { return {}; };
  for (const bool behind : {false, true}) {
    Execution execution = compiled.prepare(arguments, behind ? RunOptions{} : watched).value();
    fake_.launches.clear();
    begin(stream);
    expect(execution.run(stream), Code::capture_active, behind ? "p is read on the host" : "that is observed");
    EXPECT_TRUE(fake_.invalidated.empty());
    replay(stream);
    EXPECT_EQ(fake_.launches.empty(), !behind);
    if (behind) {
      expect(execution.run(), Code::donated_spent, "donated x is used again");
      execution.donate_again();
    }
    EXPECT_TRUE(execution.run()) << behind;
    expect(execution.run(), Code::donated_spent, "donated x is used again");
  }
}

// RunOptions::graph: one launch of the graph a run, with the same results.
TEST_F(CudaCapture, AProgramAsOneGraph) {
  Context c = context();
  const Device device = Device::open(c).value();
  const auto program = Program::parse(
                           "def two(x: f32[\"rows\", 17], v: f32[17, 20], w: f32[20, 8]):\n    y = (x @ v) @ w\n"
                           "    return y\n",
                           "two.py")
                           .value();
  const auto compiled = compile(program, {Backend::cuda, {}, "sm_90a"}, {{"rows", 33}}, c).value();
  std::vector<DeviceTensor> tensors;
  for (const Dims& shape : {Dims{33, 17}, Dims{17, 20}, Dims{20, 8}, Dims{33, 8}})
    tensors.push_back(DeviceTensor::make(device, f32, shape).value());
  const std::vector<NamedArgument> bound{
      {"x", tensors[0].view()}, {"v", tensors[1].view()}, {"w", tensors[2].view()}, {"y", tensors[3].view()}};
  RunOptions how;
  how.graph = true;
  const DeviceStream stream = DeviceStream::make(device).value();
  {
    fake_.launches.clear();
    Execution execution = compiled.prepare(bound, how).value();
    EXPECT_TRUE(fake_.launches.empty());
    EXPECT_EQ(fake_.executables, 1);
    for (int run = 0; run < 3; ++run) {
      fake_.calls.clear();
      ASSERT_TRUE(execution.run(stream));
      EXPECT_EQ(fake_.count("cuGraphLaunch"), 1U);
      EXPECT_EQ(fake_.count("cuLaunchKernelEx"), 0U);
    }
    EXPECT_EQ(fake_.launches.size(), 6U);
  }
  EXPECT_EQ(fake_.executables, 0);
  fake_.calls.clear();
  ASSERT_TRUE(compiled.run(bound, stream, how)) << "for one run there is none";
  EXPECT_EQ(fake_.count("cuGraphLaunch"), 0U);
  // What a tensor decides is told at its place in the text.
  const auto decided = Program::parse(
                           "def yes(h):\n    return h * 2.0\ndef no(h):\n    return h + 1.0\n"
                           "def f(x: f32[\"m\", 64], p: bool[1]):\n    y = cond(p, yes, no, x)\n    return y\n",
                           "f.py")
                           .value();
  const DeviceTensor x = DeviceTensor::make(device, f32, {8, 64}).value(),
                     p = DeviceTensor::make(device, DType::boolean, {1}).value(),
                     y = DeviceTensor::make(device, f32, {8, 64}).value();
  const std::vector<NamedArgument> arguments{{"x", x.view()}, {"p", p.view()}, {"y", y.view()}};
  const auto two = compile(decided, {Backend::cuda, {}, ""}, {}, c).value();
  expect(two.prepare(arguments, how), Code::capture_active, "p is read on the host to decide what runs");
  EXPECT_TRUE(two.prepare(arguments));
  // On a CPU there is nothing to capture.
  const Tensor hx = Tensor::make(f32, {8, 64}).value(), hp = Tensor::make(DType::boolean, {1}).value(),
               hy = Tensor::make(f32, {8, 64}).value();
  const auto here = compile(decided, Target::host(), {}, c).value();
  EXPECT_TRUE(here.run({{"x", hx.view()}, {"p", hp.view()}, {"y", hy.view()}}, {}, how));
}

TEST_F(CudaCapture, WaitingIsRefused) {
  Context c = context();
  const Device device = Device::open(c).value();
  const DeviceStream stream = DeviceStream::make(device).value();
  begin(stream);
  expect(stream.synchronize(), Code::capture_active, "cuStreamSynchronize");
  GraphHandle graph = nullptr;
  EXPECT_EQ(call().stream_end_capture(handle(stream), &graph), Status::CaptureInvalidated)
      << "the pretended driver spoils captures as the real one does";
}

}  // namespace
}  // namespace codetta
