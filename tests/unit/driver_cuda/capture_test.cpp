// SPDX-License-Identifier: Apache-2.0
// Streams under capture: what may be done, what is refused, and that the capture survives either.
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

using diag::Code;
using runtime::cuda::GraphExecHandle;
using runtime::cuda::GraphHandle;
using runtime::cuda::Status;

class CudaCapture : public CudaApi {
 protected:
  void begin(const DeviceStream& stream) { ASSERT_EQ(call().stream_begin_capture(handle(stream), 0), Status::Success); }
  // Ends the capture, which must be valid, and replays it once.
  void replay(const DeviceStream& stream) {
    GraphHandle graph = nullptr;
    ASSERT_EQ(call().stream_end_capture(handle(stream), &graph), Status::Success) << "the capture is valid";
    GraphExecHandle executable = nullptr;
    ASSERT_EQ(call().graph_instantiate(&executable, graph, 0), Status::Success);
    ASSERT_EQ(call().graph_launch(executable, handle(stream)), Status::Success);
    (void)call().graph_exec_destroy(executable);
    (void)call().graph_destroy(graph);
  }
  static runtime::cuda::StreamHandle handle(const DeviceStream& stream) {
    return static_cast<runtime::cuda::StreamHandle>(stream.get().handle);
  }
  const runtime::cuda::DriverTable& call() { return driver_->call(); }
  runtime::cuda::DriverRef driver_ = runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value();
};

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
  const Problem p = problem(c, f32, reducing);
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

TEST_F(CudaCapture, PreparingLeavesCapturesValid) {
  Context c = context();
  const Problem p = problem(c, f32, reducing);
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
