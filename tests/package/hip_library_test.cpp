// SPDX-License-Identifier: Apache-2.0
// Libraries for AMD GPUs where the HIP runtime is missing, too old, or lacks a device; and what they ask of it.
#include "package/gpu_library.hpp"
#include "unit/runtime_cuda/fake_hip.hpp"

namespace codetta::test {
namespace {

using runtime::cuda::Status;

class HipLibrary : public OneGpuLibrary<HipLibrary> {
 public:
  static constexpr const char* target = "hip:gfx942";

 protected:
  void SetUp() override {
    hip = FakeHip();
    OneGpuLibrary::SetUp();
  }
  FakeHip& hip = fake_hip(CODETTA_FAKE_HIP);
};

TEST_F(HipLibrary, RuntimesThatCanNotBeUsed) {
  hip.version = 50700000;
  expect(-6, "E0654: the HIP runtime is too old: it is version 5.7, and 6.0 is needed");
  hip.version = 60200000;
  gpu.fake.devices = 0;
  expect(-6, "E0642: the HIP runtime finds no device");
  gpu.fake.devices = 2;
  gpu.fake.fail["cuInit"] = Status::Unknown;
  expect(-6, "E0654: the HIP runtime can not be started");
  gpu.fake.fail.clear();
  EXPECT_EQ(library->call("f", views), 0) << "a failure leaves all as it was: " << library->error();
}

TEST_F(HipLibrary, AnotherArchitectureIsFoundWhenKernelsAreLoaded) {
  gpu.fake.fail["cuModuleLoadData"] = Status::NoBinaryForGpu;
  expect(-6, "E0430: the kernels are compiled for another architecture than the device's: loading codetta_");
}

TEST_F(HipLibrary, ItAsksOnlyForWhatHipHas) {
  ASSERT_EQ(library->init(), 0) << library->error();
  EXPECT_EQ(library->call("f", views), 0) << library->error();
  EXPECT_FALSE(gpu.fake.launches.empty());
  for (const FakeLaunch& launch : gpu.fake.launches) EXPECT_TRUE(launch.attributes.empty());
  EXPECT_EQ(gpu.fake.count("cuFuncSetAttribute"), 0U);
  EXPECT_EQ(gpu.fake.count("cuTensorMapEncodeTiled"), 0U);
  EXPECT_NE(library->header().find("a hipStream_t that the work is enqueued on"), std::string::npos);
}

TEST_F(HipLibrary, ItRunsOnTheDeviceOfTheStreamAndGivesTheThreadItsOwnBack) {
  EXPECT_EQ(library->call("f", views), 0) << library->error();
  hip.device = 1;
  runtime::cuda::StreamHandle stream = nullptr;
  const auto create = reinterpret_cast<Status (*)(runtime::cuda::StreamHandle*, unsigned)>(
      ::dlsym(::dlopen(CODETTA_FAKE_HIP, RTLD_NOW), "hipStreamCreateWithFlags"));
  ASSERT_EQ(create(&stream, 1), Status::Success);
  hip.device = 0;
  gpu.device = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 1).value();
  EXPECT_EQ(library->call("f", views, nullptr, 0, stream), -1) << "tensors of another device than the stream's";
  EXPECT_NE(library->error().find("E0648"), std::string::npos) << library->error();
  EXPECT_EQ(hip.device, 0);
  views = new_views();
  EXPECT_EQ(library->call("f", views, nullptr, 0, stream), 0) << library->error();
  ASSERT_FALSE(gpu.fake.launches.empty());
  EXPECT_EQ(gpu.fake.launches.back().config.stream, stream);
  EXPECT_EQ(hip.device, 0) << "as it was";
  hip.device = 1;
  library->symbol<void (*)()>("_release_memory")();
  EXPECT_EQ(hip.device, 1) << "as it was";
}

}  // namespace

}  // namespace codetta::test
