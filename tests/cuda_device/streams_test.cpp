// SPDX-License-Identifier: Apache-2.0
// Streams, threads, graphs, and what is refused, on a real GPU.
#include <atomic>
#include <cstdio>
#include <thread>

#include "cuda_device/fixture.hpp"
#include "runtime/cuda/device.hpp"

namespace codetta {
namespace {

namespace cu = runtime::cuda;

class DeviceStreams : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!device_) return;
    driver_ = cu::Driver::load().value();
    // The calls of this test, like those of any user of the driver, need the context current; Codetta's do not.
    primary_ = cu::Device::open(driver_, 0).value();
    current_.emplace(primary_->enter().value());
  }
  static cu::StreamHandle handle(const DeviceStream& stream) {
    return static_cast<cu::StreamHandle>(stream.get().handle);
  }
  void begin(const DeviceStream& stream) {
    ASSERT_EQ(driver_->call().stream_begin_capture(handle(stream), 0), cu::Status::Success);
  }
  cu::GraphExecHandle end(const DeviceStream& stream) {
    cu::GraphHandle graph = nullptr;
    EXPECT_EQ(driver_->call().stream_end_capture(handle(stream), &graph), cu::Status::Success)
        << "the capture is valid";
    cu::GraphExecHandle executable = nullptr;
    EXPECT_EQ(driver_->call().graph_instantiate(&executable, graph, 0), cu::Status::Success);
    (void)driver_->call().graph_destroy(graph);
    return executable;
  }
  static uint16_t code_of(const Result<void>& result) { return result ? uint16_t{0} : result.error().code(); }
  cu::DriverRef driver_;
  cu::DeviceRef primary_;
  std::optional<cu::ContextGuard> current_;
  // A workspace is needed: partial sums of rows.
  const std::string reducing_ =
      "def f(accum):\n    D = relu(accum)\n    total = sum(accum, dim=-1)\n    return D, total\n";
  Problem reducing(int64_t m, int64_t n, int64_t k) const {
    return problem(bf16, bf16, {m, n, k}, reducing_, {{"D", bf16, {m, n}, true}, {"total", f32, {m, 1}, true}});
  }
};

TEST_F(DeviceStreams, TwoAtOnce) {
  const Problem first = product(300, 200, 100), second = reducing(200, 300, 150);
  const DeviceStream s1 = DeviceStream::make(*device_).value(), s2 = DeviceStream::make(*device_).value();
  Execution e1 = kernels(first).prepare(first.arguments).value();
  Execution e2 = kernels(second).prepare(second.arguments).value();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(e1.run(s1));
    ASSERT_TRUE(e2.run(s2));
  }
  ASSERT_TRUE(s1.synchronize());
  ASSERT_TRUE(s2.synchronize());
  check(first, "first stream");
  check(second, "second stream");
}

TEST_F(DeviceStreams, ManyThreads) {
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Problem p = reducing(64 + 16 * (t % 3), 128, 96);  // some threads share a kernel
      const DeviceStream stream = DeviceStream::make(*device_).value();
      auto execution = find_kernels(p.arguments, cuda, {}, *context_).value().prepare(p.arguments);
      if (!execution) {
        ++failures;
        return;
      }
      for (int round = 0; round < 20; ++round) {
        if (!execution->run(stream)) ++failures;
      }
      if (!stream.synchronize()) ++failures;
      const auto checked = verify(p.arguments, {}, cuda, 1, *context_);
      if (!checked || checked->verdict != VerifyReport::Verdict::Pass) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0);
}

TEST_F(DeviceStreams, CapturedAndReplayed) {
  for (const Problem& p : {product(256, 192, 128, bf16), reducing(130, 256, 64)}) {
    const DeviceStream stream = DeviceStream::make(*device_).value();
    Execution execution = kernels(p).prepare(p.arguments).value();
    begin(stream);
    ASSERT_TRUE(execution.run(stream));
    const cu::GraphExecHandle executable = end(stream);
    for (int i = 0; i < 500; ++i) {
      if (i % 250 == 0) poison(p);
      ASSERT_EQ(driver_->call().graph_launch(executable, handle(stream)), cu::Status::Success);
      if (i % 250 == 249) {
        ASSERT_TRUE(stream.synchronize());
        check(p, "replay " + std::to_string(i));
      }
    }
    (void)driver_->call().graph_exec_destroy(executable);
  }
}

// A program as one graph: the bits of its steps one by one, on several streams in turn, over another workspace, and in
// a capture of the caller's.
TEST_F(DeviceStreams, AProgramAsOneGraph) {
  const auto program =
      Program::parse(
          "def f(x: bf16[\"m\", 256], w: bf16[256, 512], b: f32[512], v: bf16[512, 64]):\n"
          "    h = cast(gelu(x @ w + b), bf16)\n    y = softmax(h @ v)\n    s = sum(y, dim=0)\n    return y, s\n",
          "program.py")
          .value();
  const CompiledProgram compiled = compile(program, cuda, {{"m", 130}}, *context_).value();
  std::vector<DeviceTensor> tensors;
  std::vector<NamedArgument> arguments;
  const auto add = [&](const char* name, DType dtype, const Dims& shape, uint64_t seed) {
    const Tensor host = Tensor::make(dtype, shape).value();
    if (seed != 0) fill_random(host, seed, Distribution::Normal, 0.25);
    tensors.push_back(DeviceTensor::copy_of(*device_, host).value());
    arguments.push_back({name, tensors.back().view()});
  };
  add("x", bf16, {130, 256}, 1);
  add("w", bf16, {256, 512}, 2);
  add("b", f32, {512}, 3);
  add("v", bf16, {512, 64}, 4);
  add("y", f32, {130, 64}, 0);
  add("s", f32, {64}, 0);
  const DeviceStream stream = DeviceStream::make(*device_).value(), other = DeviceStream::make(*device_).value();
  const auto results = [&] {
    std::vector<std::byte> bytes;
    for (size_t i = 4; i < tensors.size(); ++i) {
      const Tensor host = Tensor::make(f32, tensors[i].view().shape()).value();
      EXPECT_TRUE(tensors[i].download(host));
      bytes.insert(bytes.end(), host.view().as<std::byte>(), host.view().as<std::byte>() + host.byte_size());
      EXPECT_TRUE(tensors[i].fill_bytes(0xFF));
    }
    EXPECT_TRUE(device_->synchronize());
    return bytes;
  };
  Execution plain = compiled.prepare(arguments).value();
  (void)results();
  ASSERT_TRUE(plain.run(stream));
  ASSERT_TRUE(stream.synchronize());
  const std::vector<std::byte> expected = results();
  RunOptions how;
  how.graph = true;
  auto execution = compiled.prepare(arguments, how);
  ASSERT_TRUE(execution) << execution.error().render();
  for (const DeviceStream* on : {&stream, &other, &stream}) {
    ASSERT_TRUE(execution->run(*on));
    ASSERT_TRUE(on->synchronize());
    EXPECT_EQ(results(), expected);
  }
  const int64_t bytes = execution->workspace_size();
  const DeviceTensor workspace = DeviceTensor::make(*device_, u8, {bytes + 256}).value();
  ASSERT_TRUE(execution->set_workspace(const_cast<void*>(static_cast<const void*>(workspace.data())), bytes));
  ASSERT_TRUE(execution->run(stream));
  ASSERT_TRUE(stream.synchronize());
  EXPECT_EQ(results(), expected);
  begin(stream);
  ASSERT_TRUE(execution->run(stream));
  const cu::GraphExecHandle executable = end(stream);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(driver_->call().graph_launch(executable, handle(stream)), cu::Status::Success);
    ASSERT_TRUE(stream.synchronize());
    EXPECT_EQ(results(), expected);
  }
  (void)driver_->call().graph_exec_destroy(executable);
  const auto decided = Program::parse(
                           "def left(x):\n    return relu(x)\ndef right(x):\n    return x * 2.0\n"
                           "def f(x: f32[\"n\"], flag: bool[1]):\n    y = cond(flag, left, right, x)\n    return y\n",
                           "p.py")
                           .value();
  const DeviceTensor x = DeviceTensor::make(*device_, f32, {8}).value(),
                     y = DeviceTensor::make(*device_, f32, {8}).value(),
                     flag = DeviceTensor::make(*device_, boolean, {1}).value();
  const auto refused = compile(decided, cuda, {}, *context_)
                           .value()
                           .prepare({{"x", x.view()}, {"flag", flag.view()}, {"y", y.view()}}, how);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 646) << refused.error().render();
}

TEST_F(DeviceStreams, CompilingDuringACaptureIsRefusedAndTheCaptureSurvives) {
  const Problem prepared = product(128, 64, 32), fresh = product(120, 72, 40, f16);
  const Problem summed = reducing(64, 1024, 64);  // more columns than a piece has, so that their sums need a workspace
  const DeviceStream stream = DeviceStream::make(*device_).value();
  Execution execution = kernels(prepared).prepare(prepared.arguments).value();
  const KernelList other = kernels(fresh), sums = kernels(summed);
  const auto ready = sums.prepare(summed.arguments);
  ASSERT_TRUE(ready);
  ASSERT_GT(ready->workspace_size(), 0);
  begin(stream);
  EXPECT_EQ(code_of(other[0].run(fresh.arguments, stream)), 535);  // E0535
  EXPECT_EQ(code_of(sums[0].run(summed.arguments, stream)), 646);  // E0646
  ASSERT_TRUE(execution.run(stream));
  const cu::GraphExecHandle executable = end(stream);
  poison(prepared);
  ASSERT_EQ(driver_->call().graph_launch(executable, handle(stream)), cu::Status::Success);
  ASSERT_TRUE(stream.synchronize());
  check(prepared, "captured before and after the refusals");
  (void)driver_->call().graph_exec_destroy(executable);
}

TEST_F(DeviceStreams, PreparingLeavesACaptureValid) {
  const Problem p = reducing(100, 64, 48);
  const DeviceStream stream = DeviceStream::make(*device_).value();
  begin(stream);
  Execution execution = kernels(p).prepare(p.arguments).value();
  ASSERT_TRUE(execution.run(stream));
  const cu::GraphExecHandle executable = end(stream);
  poison(p);
  ASSERT_EQ(driver_->call().graph_launch(executable, handle(stream)), cu::Status::Success);
  ASSERT_TRUE(stream.synchronize());
  check(p, "prepared while its stream was captured");
  (void)driver_->call().graph_exec_destroy(executable);
}

TEST_F(DeviceStreams, TheCallersWorkspace) {
  const Problem p = reducing(150, 136, 64);
  Execution execution = kernels(p).prepare(p.arguments).value();
  ASSERT_GT(execution.workspace_size(), 0);
  const DeviceTensor memory = DeviceTensor::make(*device_, u8, {execution.workspace_size()}).value();
  ASSERT_TRUE(memory.fill_bytes(0xA5));
  ASSERT_TRUE(device_->synchronize());
  ASSERT_TRUE(execution.set_workspace(memory.data(), memory.byte_size()));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(execution.run());
  check(p, "in the caller's workspace");
  EXPECT_EQ(code_of(execution.set_workspace(memory.data(), 16)), 611);  // E0611
}

TEST_F(DeviceStreams, HostPointersAreRefused) {
  const Problem p = product(32, 48, 64);
  GemmArguments mixed = p.arguments;
  const Tensor host = Tensor::make(f32, {64, 48}).value();
  mixed.B = host;
  const auto refused = kernels(p)[0].prepare(mixed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 648);  // E0648
}

TEST_F(DeviceStreams, AnotherArchitectureIsRefused) {
  const Problem p = product(32, 48, 64);
  const KernelList found = find_kernels(p.arguments, {Backend::cuda, {}, "sm_75"}, {}, *context_).value();
  ASSERT_FALSE(found.empty());
  const auto refused = found[0].prepare(p.arguments);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 430);  // E0430
}

TEST_F(DeviceStreams, TheSameBitsEveryTime) {
  const Problem p = reducing(333, 257, 190);
  Execution execution = kernels(p).prepare(p.arguments).value();
  std::vector<std::string> runs;
  for (int i = 0; i < 2; ++i) {
    poison(p);
    ASSERT_TRUE(execution.run());
    ASSERT_TRUE(device_->synchronize());
    std::string bytes;
    for (const size_t at : {size_t{2}, size_t{3}}) {
      const DeviceTensor& tensor = p.tensors[at];
      const Tensor host = Tensor::make(tensor.view().dtype(), tensor.view().shape()).value();
      ASSERT_TRUE(tensor.download(host));
      bytes.append(host.view().as<char>(), host.byte_size());
    }
    runs.push_back(std::move(bytes));
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST_F(DeviceStreams, TimesAreTaken) {
  const Problem p = product(1024, 1024, 1024, bf16);
  Execution execution = kernels(p).prepare(p.arguments).value();
  const Timing timing = measure(execution, 0.2).value();
  std::printf("1024^3 bf16: %.2f us (%s)\n", timing.median_us, kernels(p)[0].metadata().name.c_str());
  EXPECT_GT(timing.median_us, 1);
}

}  // namespace
}  // namespace codetta
