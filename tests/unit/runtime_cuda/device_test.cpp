// SPDX-License-Identifier: Apache-2.0
// Devices, memory, streams and modules over the pretended driver: results, order of calls, every failure.
#include "runtime/cuda/device.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "package/image.hpp"
#include "runtime/cuda/stream.hpp"
#include "support/expect_error.hpp"
#include "unit/runtime_cuda/fake_driver.hpp"

namespace codetta::runtime::cuda {
namespace {

using diag::Code;

class CudaDevice : public ::testing::Test, public codetta::test::ExpectsErrors {
 protected:
  void SetUp() override {
    fake_.reset();
    driver_ = Driver::load(CODETTA_FAKE_DRIVER).value();
    device_ = Device::open(driver_, 0).value();
  }
  static std::string image(const std::string& kernels) {
    std::string bytes =
        "\x7f"
        "ELF" +
        kernels;
    bytes.resize(256);
    return bytes;
  }
  test::FakeDriver& fake_ = test::fake_driver(CODETTA_FAKE_DRIVER);
  DriverRef driver_;
  DeviceRef device_;
};

TEST_F(CudaDevice, Facts) {
  const DeviceFacts& facts = device_->facts();
  EXPECT_EQ(facts.name, "Pretended GPU 0");
  EXPECT_EQ(facts.uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_EQ(facts.arch, "sm_90a");
  EXPECT_EQ(facts.multiprocessors, 132);
  EXPECT_EQ(facts.shared_per_block_optin, 232448);
  EXPECT_EQ(facts.max_grid[0], 2147483647);
  EXPECT_EQ(facts.max_grid[1], 65535);
  EXPECT_NEAR(facts.memory_bandwidth, 3.352e12, 1e9);  // the datasheet of the H100 SXM says 3.35 TB/s
  EXPECT_TRUE(facts.clusters && facts.tensor_maps);
  EXPECT_EQ(device_->memory().value().first, int64_t{70} << 30);
}

TEST_F(CudaDevice, ArchitectureOfACapability) {
  EXPECT_EQ(arch_of(8, 0), "sm_80");
  EXPECT_EQ(arch_of(8, 9), "sm_89");
  EXPECT_EQ(arch_of(9, 0), "sm_90a");
  EXPECT_EQ(arch_of(10, 0), "sm_100a");
  EXPECT_EQ(arch_of(10, 3), "sm_103a");
  EXPECT_EQ(arch_of(12, 0), "sm_120a");
}

TEST_F(CudaDevice, OrdinalsThatAreNotThere) {
  expect(Device::open(driver_, 2), Code::device_missing, "the devices 0 to 1");
  expect(Device::open(driver_, -1), Code::device_missing, "no CUDA device -1");
  fake_.devices = 1;
  expect(Device::open(driver_, 1), Code::device_missing, "one device, which is 0");
}

TEST_F(CudaDevice, PrimaryContextIsReleased) {
  EXPECT_EQ(fake_.retained, 1);
  {
    const auto second = Device::open(driver_, 1).value();
    EXPECT_EQ(fake_.retained, 2);
  }
  EXPECT_EQ(fake_.retained, 1);
}

TEST_F(CudaDevice, ThreadsHaveContextsOfTheirOwn) {
  const auto other = Device::open(driver_, 1).value();
  std::vector<std::vector<DeviceAddress>> made(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < made.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto& device = t % 2 == 0 ? device_ : other;
      for (int i = 0; i < 50; ++i) {
        made[t].push_back(device->allocate(64).value());
        device->free(device->allocate(4096).value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_.count("cuMemAlloc_v2"), 400U);
  EXPECT_EQ(fake_.allocations.size(), 200U);
  for (size_t t = 0; t < made.size(); ++t) {
    for (const DeviceAddress address : made[t]) {
      EXPECT_EQ(fake_.owners[address], static_cast<int>(t % 2));
      (t % 2 == 0 ? device_ : other)->free(address);
    }
  }
}

TEST_F(CudaDevice, CurrentContextIsRestored) {
  const auto other = Device::open(driver_, 1).value();
  const ContextGuard outer = other->enter().value();
  ASSERT_EQ(fake_.contexts().back(), static_cast<void*>(other->context()));
  const DeviceAddress memory = device_->allocate(1024).value();
  EXPECT_EQ(fake_.contexts().back(), static_cast<void*>(other->context()));
  EXPECT_EQ(fake_.owners[memory], 0);
  device_->free(memory);
  fake_.fail["cuMemAlloc_v2"] = Status::OutOfMemory;
  EXPECT_FALSE(device_->allocate(1024));
  EXPECT_EQ(fake_.contexts().size(), 1U) << "a failing call leaves the former context current, too";
  // Entering what is current pushes nothing.
  const size_t pushes = fake_.count("cuCtxPushCurrent_v2");
  const ContextGuard again = other->enter().value();
  EXPECT_EQ(fake_.count("cuCtxPushCurrent_v2"), pushes);
}

TEST_F(CudaDevice, OutOfMemory) {
  expect(device_->allocate(size_t{1} << 40), Code::device_memory, "bytes = 1099511627776");
}

TEST_F(CudaDevice, EveryFailingCallIsReported) {
  struct Row {
    const char* symbol;
    std::function<bool()> works;
  };
  char byte = 0;
  const DeviceAddress memory = device_->allocate(64).value();
  const auto stream = OwnedStream::make(device_).value();
  const auto event = OwnedEvent::make(device_).value();
  const std::vector<Row> rows = {
      {"cuMemcpyHtoDAsync_v2", [&] { return device_->upload(memory, &byte, 1, nullptr).has_value(); }},
      {"cuMemcpyDtoHAsync_v2", [&] { return device_->download(&byte, memory, 1, nullptr).has_value(); }},
      {"cuMemcpyDtoDAsync_v2", [&] { return device_->copy(memory + 8, memory, 1, nullptr).has_value(); }},
      {"cuMemsetD8Async", [&] { return device_->fill(memory, 1, 1, nullptr).has_value(); }},
      {"cuPointerGetAttributes", [&] { return device_->place_of(&byte).has_value(); }},
      {"cuMemGetInfo_v2", [&] { return device_->memory().has_value(); }},
      {"cuStreamSynchronize", [&] { return device_->synchronize(stream.get()).has_value(); }},
      {"cuCtxSynchronize", [&] { return device_->synchronize().has_value(); }},
      {"cuStreamGetCtx", [&] { return device_->check_stream(stream.get()).has_value(); }},
      {"cuStreamIsCapturing", [&] { return device_->capturing(stream.get()).has_value(); }},
      {"cuCtxGetCurrent", [&] { return device_->enter().has_value(); }},
      {"cuCtxPushCurrent_v2", [&] { return device_->enter().has_value(); }},
      {"cuStreamCreate", [&] { return OwnedStream::make(device_).has_value(); }},
      {"cuEventCreate", [&] { return OwnedEvent::make(device_).has_value(); }},
      {"cuEventRecord", [&] { return event.record(stream.get()).has_value(); }},
      {"cuEventSynchronize", [&] { return event.synchronize().has_value(); }},
      {"cuEventElapsedTime", [&] { return event.milliseconds_since(event).has_value(); }},
      {"cuModuleLoadData", [&] { return Module::load(device_, image("k"), "test").has_value(); }},
      {"cuDeviceGetUuid", [&] { return Device::open(driver_, 1).has_value(); }},
      {"cuDeviceGetAttribute", [&] { return Device::open(driver_, 1).has_value(); }},
      {"cuDevicePrimaryCtxRetain", [&] { return Device::open(driver_, 1).has_value(); }},
      {"cuDeviceGetCount", [&] { return Device::open(driver_, 1).has_value(); }},
  };
  for (const Row& row : rows) {
    EXPECT_TRUE(row.works()) << row.symbol;
    fake_.fail[row.symbol] = Status::IllegalAddress;
    EXPECT_FALSE(row.works()) << row.symbol;
    fake_.fail.clear();
    EXPECT_TRUE(fake_.contexts().empty()) << row.symbol << " left a context current";
  }
  device_->free(memory);
}

TEST_F(CudaDevice, ErrorsOfAnEarlierKernelAreSticky) {
  fake_.fail["cuStreamSynchronize"] = Status::IllegalAddress;
  expect(device_->synchronize(nullptr), Code::device_failed, "cuStreamSynchronize(stream = ");
}

TEST_F(CudaDevice, CopiesGoThereAndBack) {
  std::vector<int> numbers(1000), back(1000);
  std::iota(numbers.begin(), numbers.end(), 7);
  const auto buffer = DeviceBuffer::make(device_, 4000).value(), other = DeviceBuffer::make(device_, 4000).value();
  ASSERT_TRUE(device_->upload(buffer.address(), numbers.data(), 4000, nullptr));
  ASSERT_TRUE(device_->copy(other.address(), buffer.address(), 4000, nullptr));
  ASSERT_TRUE(device_->fill(buffer.address(), 0xFF, 4000, nullptr));
  ASSERT_TRUE(device_->download(back.data(), other.address(), 4000, nullptr));
  EXPECT_EQ(back, numbers);
  ASSERT_TRUE(device_->download(back.data(), buffer.address(), 4000, nullptr));
  EXPECT_EQ(back[999], -1);
  EXPECT_TRUE(device_->upload(0, nullptr, 0, nullptr)) << "nothing to copy needs no driver";
}

TEST_F(CudaDevice, BuffersAreFreedOnce) {
  {
    DeviceBuffer a = DeviceBuffer::make(device_, 128).value();
    DeviceBuffer b = std::move(a);
    DeviceBuffer c = DeviceBuffer::make(device_, 64).value();
    c = std::move(b);
    EXPECT_EQ(c.bytes(), 128U);
    EXPECT_EQ(DeviceBuffer::make(device_, 0).value().address(), 0U);
  }
  EXPECT_TRUE(fake_.allocations.empty());
}

TEST_F(CudaDevice, WherePointersLie) {
  const auto other = Device::open(driver_, 1).value();
  const auto here = DeviceBuffer::make(device_, 128).value(), there = DeviceBuffer::make(other, 128).value();
  int host = 0;
  const auto place = [&](uint64_t address) {
    return device_->place_of(reinterpret_cast<const void*>(address)).value();
  };
  EXPECT_EQ(place(here.address() + 100).device, 0);
  EXPECT_EQ(place(here.address()).kind, PointerPlace::Kind::Device);
  EXPECT_EQ(place(there.address()).device, 1);
  EXPECT_EQ(device_->place_of(&host).value().kind, PointerPlace::Kind::Unknown);
}

TEST_F(CudaDevice, StreamsOfAnotherContext) {
  const auto other = Device::open(driver_, 1).value();
  const auto here = OwnedStream::make(device_).value(), there = OwnedStream::make(other).value();
  EXPECT_TRUE(device_->check_stream(here.get()));
  EXPECT_TRUE(device_->check_stream(nullptr));
  expect(device_->check_stream(there.get()), Code::context_wrong, "primary context of device 0");
}

TEST_F(CudaDevice, StreamsAndEventsEnd) {
  {
    OwnedStream stream = OwnedStream::make(device_).value();
    OwnedStream moved = std::move(stream);
    OwnedEvent event = OwnedEvent::make(device_).value();
    OwnedEvent later = std::move(event);
    EXPECT_EQ(later.milliseconds_since(later).value(), 0.25);
    EXPECT_EQ(fake_.streams.size(), 1U);
    EXPECT_EQ(fake_.events, 1);
  }
  EXPECT_TRUE(fake_.streams.empty());
  EXPECT_EQ(fake_.events, 0);
}

TEST_F(CudaDevice, Capturing) {
  const auto stream = OwnedStream::make(device_).value();
  EXPECT_FALSE(device_->capturing(stream.get()).value());
  EXPECT_FALSE(device_->capturing(nullptr).value());
  fake_.capturing.insert(stream.get());
  EXPECT_TRUE(device_->capturing(stream.get()).value());
  fake_.implicit_capture = true;
  EXPECT_TRUE(device_->capturing(nullptr).value());
}

TEST_F(CudaDevice, ModulesAndTheirKernels) {
  {
    const ModuleRef module = Module::load(device_, image("first second"), "test").value();
    const Function function = module->function("first", 200000, 2).value();
    EXPECT_EQ(function.facts.registers, 168);
    EXPECT_EQ(function.facts.max_threads, 384);
    EXPECT_EQ(function.facts.static_shared, 1024);
    EXPECT_EQ(fake_.dynamic_shared["first"], 200000);
    (void)module->function("first", 1000, 2).value();
    EXPECT_EQ(fake_.dynamic_shared["first"], 200000) << "never lowered: a kernel may be running";
    EXPECT_EQ(fake_.count("cuFuncSetAttribute"), 1U);
    (void)module->function("second", 0, 16).value();
    EXPECT_EQ(fake_.count("cuFuncSetAttribute"), 2U) << "large clusters are allowed one by one";
    expect(module->function("third", 0, 1), Code::module_digest, "no kernel third");
    expect(module->function("first", 231425, 1), Code::launch_limits, "231425 bytes of dynamic shared memory");
    EXPECT_TRUE(module->function("first", 231424, 1)) << "the limit less the static bytes";
  }
  EXPECT_EQ(fake_.modules, 0);
  EXPECT_EQ(fake_.capture_mode, 0) << "the thread's capture mode is as before";
  EXPECT_EQ(fake_.count("cuThreadExchangeStreamCaptureMode") % 2, 0U);
}

TEST_F(CudaDevice, ModulesOfSeveralFiles) {
  const std::string both = package::image_of({image("first"), image("second")});
  {
    const ModuleRef module = Module::load(device_, both, "test").value();
    EXPECT_EQ(fake_.modules, 2);
    EXPECT_TRUE(module->function("first", 0, 1));
    EXPECT_TRUE(module->function("second", 0, 1));
    expect(module->function("third", 0, 1), Code::module_digest, "no kernel third");
  }
  EXPECT_EQ(fake_.modules, 0);
  expect(Module::load(device_, package::image_of({image("first"), "text"}), "test"), Code::module_load, "no ELF file");
  expect(Module::load(device_, both.substr(0, both.size() - 1), "test"), Code::module_load, "no ELF file");
  EXPECT_EQ(fake_.count("cuModuleLoadData"), 2U) << "the driver never sees such bytes";
}

TEST_F(CudaDevice, ModulesThatCannotBeLoaded) {
  expect(Module::load(device_, "text", "test"), Code::module_load, "4 bytes are no ELF file");
  EXPECT_EQ(fake_.count("cuModuleLoadData"), 0U) << "the driver never sees such bytes";
  fake_.fail["cuModuleLoadData"] = Status::NoBinaryForGpu;
  expect(Module::load(device_, image("k"), "test"), Code::architecture_mismatch, "device 0 of sm_90a");
  fake_.fail["cuModuleLoadData"] = Status::InvalidImage;
  expect(Module::load(device_, image("k"), "test"), Code::module_load, "test, 256 bytes");
  fake_.fail["cuModuleLoadData"] = Status::UnsupportedPtxVersion;
  expect(Module::load(device_, image("k"), "test"), Code::driver_old, "CUDA 13.0");
}

}  // namespace
}  // namespace codetta::runtime::cuda
