// SPDX-License-Identifier: Apache-2.0
// Packages over several devices on this machine's GPUs: over one that is two devices, and over two where they are
// there. Skipped without a driver. Steps that need no kernel; tests/cuda_device has those that do.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>

#include "runtime/cuda/execution.hpp"
#include "runtime/cuda/stream.hpp"
#include "unit/runtime/step_program.hpp"

namespace codetta::runtime::cuda {
namespace {

using namespace package;
using runtime::test::constant;

class CudaDevicesHere : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const auto driver = Driver::load();
    if (!driver) GTEST_SKIP() << driver.error().message();
    const int there = Device::count(**driver).value();
    if (there <= GetParam()) GTEST_SKIP() << there << " devices are there";
    driver_ = *driver;
    for (const int ordinal : {0, GetParam()}) devices_.push_back(Device::open(driver_, ordinal).value());
    stream_.emplace(OwnedStream::make(devices_[0]).value());
    p_.package.target = {Backend::cuda, CpuIsa::generic, devices_[0]->facts().arch};
    p_.package.device_count = 2;
  }
  uint32_t bound(uint32_t device, const std::string& name, int64_t count, bool output) {
    const std::vector<Dim> shape{constant(count)};
    p_.package.buffers.push_back(
        {name, output ? Buffer::Role::Output : Buffer::Role::Argument, DType::i32, false, shape, {}});
    p_.package.buffers.back().device = device;
    memory_.push_back(DeviceBuffer::make(devices_[device], static_cast<size_t>(count) * 4).value());
    p_.bindings.tensors.push_back(
        TensorView::make(reinterpret_cast<void*>(memory_.back().address()), DType::i32, {count}).value());
    p_.bindings.scalars.emplace_back();
    return static_cast<uint32_t>(p_.package.buffers.size() - 1);
  }
  uint32_t temporary(uint32_t device, const std::string& name, int64_t count) {
    const uint32_t made = p_.temporary(name, DType::i32, {constant(count)});
    p_.package.buffers[made].device = device;
    return made;
  }
  Result<Execution> prepare(bool graph = false) {
    GpuOptions options{.device = devices_[0], .graph = graph};
    options.further.push_back({devices_[1]});
    return Execution::make(std::make_shared<const package::Package>(p_.package),
                           std::vector<ModuleRef>(p_.package.kernels.size()), p_.bindings, std::move(options));
  }
  void upload(uint32_t buffer, const std::vector<int32_t>& values) {
    const uint32_t device = p_.package.buffers[buffer].device;
    ASSERT_TRUE(devices_[device]->upload(address(buffer), values.data(), values.size() * 4, nullptr));
    ASSERT_TRUE(devices_[device]->synchronize());
  }
  std::vector<int32_t> download(uint32_t buffer) {
    const uint32_t device = p_.package.buffers[buffer].device;
    std::vector<int32_t> values(static_cast<size_t>(p_.bindings.tensors[buffer].element_count()));
    EXPECT_TRUE(devices_[device]->download(values.data(), address(buffer), values.size() * 4, nullptr));
    EXPECT_TRUE(devices_[device]->synchronize());
    return values;
  }
  DeviceAddress address(uint32_t buffer) const {
    return reinterpret_cast<DeviceAddress>(p_.bindings.tensors[buffer].data());
  }
  // x of device 0 goes to and fro through temporaries, whose memory others take over at once, and ends in y and z. What
  // is filled in between shows where something does not wait.
  void to_and_fro(int64_t count, int turns) {
    x_ = bound(0, "x", count, false);
    y_ = bound(0, "y", count, true);
    z_ = bound(1, "z", count, true);
    uint32_t from = x_;
    for (int turn = 0; turn < turns; ++turn) {
      const uint32_t there = temporary(1, "there" + std::to_string(turn), count);
      const uint32_t back = temporary(0, "back" + std::to_string(turn), count);
      p_.put(EnterDevice{1}, Allocate{there}, Fill{there}, ExitDevice{}, Copy{from, there}, Allocate{back}, Fill{back},
             Copy{there, back});
      if (from != x_) p_.put(Fill{from}, Free{from});
      p_.put(EnterDevice{1}, Fill{there}, Free{there}, ExitDevice{});
      from = back;
    }
    p_.put(Copy{from, y_}, Copy{from, z_}, Return{});
  }
  std::vector<int32_t> fresh(int64_t count) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    for (int32_t& value : values) value = static_cast<int32_t>(random_());
    return values;
  }

  DriverRef driver_;
  std::vector<DeviceRef> devices_;
  std::optional<OwnedStream> stream_;
  runtime::test::StepProgram p_;
  std::vector<DeviceBuffer> memory_;
  std::mt19937 random_{std::random_device{}()};
  uint32_t x_ = 0, y_ = 0, z_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Ordinals, CudaDevicesHere, ::testing::Values(0, 1),
                         [](const auto& param) { return param.param == 0 ? "OneGpuTwice" : "TwoGpus"; });

TEST_P(CudaDevicesHere, CopiesWaitForWhatIsInFront) {
  for (const int64_t count : {int64_t{257}, int64_t{1} << 20, int64_t{12} << 20}) {
    p_.package.steps.clear();
    p_.package.buffers.clear();
    p_.bindings = {};
    memory_.clear();
    to_and_fro(count, 3);
    auto execution = prepare();
    ASSERT_TRUE(execution) << execution.error().render();
    EXPECT_GT(execution->workspace_size(0), 0);
    EXPECT_GT(execution->workspace_size(1), 0);
    for (int round = 0; round < 20; ++round) {
      const std::vector<int32_t> values = fresh(count);
      upload(x_, values);
      ASSERT_TRUE(execution->run(stream_->get()));
      ASSERT_TRUE(execution->run(stream_->get())) << "behind the run in front";
      ASSERT_TRUE(devices_[0]->synchronize(stream_->get())) << "the caller's stream waits for both";
      ASSERT_EQ(download(y_), values);
      ASSERT_EQ(download(z_), values);
    }
  }
}

TEST_P(CudaDevicesHere, OneGraph) {
  to_and_fro(4096, 3);
  auto execution = prepare(true);
  ASSERT_TRUE(execution) << execution.error().render();
  for (int round = 0; round < 10; ++round) {
    const std::vector<int32_t> values = fresh(4096);
    upload(x_, values);
    ASSERT_TRUE(execution->run(stream_->get()));
    ASSERT_TRUE(devices_[0]->synchronize(stream_->get()));
    ASSERT_EQ(download(y_), values);
    ASSERT_EQ(download(z_), values);
  }
}

TEST_P(CudaDevicesHere, TheCallersCapture) {
  to_and_fro(4096, 2);
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  auto graph = OwnedGraph::capture(*stream_, [&](StreamHandle stream) { return execution->run(stream); });
  ASSERT_TRUE(graph) << graph.error().render();
  for (int round = 0; round < 10; ++round) {
    const std::vector<int32_t> values = fresh(4096);
    upload(x_, values);
    ASSERT_TRUE(graph->launch(stream_->get()));
    ASSERT_TRUE(devices_[0]->synchronize(stream_->get()));
    ASSERT_EQ(download(y_), values);
    ASSERT_EQ(download(z_), values);
  }
}

TEST_P(CudaDevicesHere, WhatLiesElsewhereIsRefused) {
  if (GetParam() == 0) GTEST_SKIP() << "one GPU has no other one";
  to_and_fro(64, 1);
  {
    auto execution = prepare();
    ASSERT_TRUE(execution) << execution.error().render();
    const OwnedStream other = OwnedStream::make(devices_[1]).value();
    const auto ran = execution->run(other.get());
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code(), 645) << ran.error().render();
    ASSERT_TRUE(execution->run(stream_->get()));
    ASSERT_TRUE(devices_[0]->synchronize(stream_->get()));
  }
  std::swap(p_.bindings.tensors[x_], p_.bindings.tensors[z_]);
  const auto refused = prepare();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 648) << refused.error().render();
}

// What a run costs the host, and what a copy reaches: told, not judged.
TEST_P(CudaDevicesHere, CostIsTold) {
  const int64_t count = int64_t{64} << 20;  // 256 MiB
  const auto seconds = [&](Execution& execution, int runs) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(execution.run(stream_->get()));
    EXPECT_TRUE(devices_[0]->synchronize(stream_->get()));
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) EXPECT_TRUE(execution.run(stream_->get()));
    const auto enqueued = std::chrono::steady_clock::now();
    EXPECT_TRUE(devices_[0]->synchronize(stream_->get()));
    const auto end = std::chrono::steady_clock::now();
    return std::pair{std::chrono::duration<double>(enqueued - start).count() / runs,
                     std::chrono::duration<double>(end - start).count() / runs};
  };
  const uint32_t a = bound(0, "a", count, false), b = bound(1, "b", count, true);
  p_.put(Copy{a, b}, Return{});
  auto large = prepare();
  ASSERT_TRUE(large) << large.error().render();
  std::printf("256 MiB: %.1f GB/s\n", static_cast<double>(count) * 4e-9 / seconds(*large, 20).second);
  p_.package.steps.clear();
  const uint32_t c = bound(0, "c", 64, true), d = bound(1, "d", 64, true);
  for (const int copies : {0, 1, 4}) {
    p_.package.steps.clear();
    p_.put(Fill{c}, EnterDevice{1}, Fill{d}, ExitDevice{});
    for (int i = 0; i < copies; ++i) p_.put(Copy{c, d}, EnterDevice{1}, Fill{d}, ExitDevice{});
    p_.put(Return{});
    auto execution = prepare();
    ASSERT_TRUE(execution) << execution.error().render();
    std::printf("%d copies: %.2f us of the host a run\n", copies, seconds(*execution, 500).first * 1e6);
    auto graph = prepare(true);
    ASSERT_TRUE(graph) << graph.error().render();
    std::printf("%d copies as one graph: %.2f us of the host a run\n", copies, seconds(*graph, 500).first * 1e6);
  }
}

}  // namespace
}  // namespace codetta::runtime::cuda
