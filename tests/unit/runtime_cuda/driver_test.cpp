// SPDX-License-Identifier: Apache-2.0
// Loading the driver, and what its failures become.
#include "runtime/cuda/driver.hpp"

#include <gtest/gtest.h>

#include "unit/runtime_cuda/fake_driver.hpp"

namespace codetta::runtime::cuda {
namespace {

using diag::Code;

class CudaDriver : public ::testing::Test {
 protected:
  void SetUp() override { fake_.reset(); }
  static void expect(const Error& error, Code code, std::string_view part) {
    EXPECT_EQ(error.code(), static_cast<uint16_t>(code)) << error.render();
    EXPECT_NE(error.render().find(part), std::string::npos) << error.render();
    EXPECT_NE(error.render().find("help: "), std::string::npos) << error.render();
  }
  test::FakeDriver& fake_ = test::fake_driver(CODETTA_FAKE_DRIVER);
};

TEST_F(CudaDriver, Loads) {
  const auto driver = Driver::load(CODETTA_FAKE_DRIVER).value();
  EXPECT_EQ(driver->version(), 13000);
  EXPECT_EQ(version_text(12080), "CUDA 12.8");
  EXPECT_EQ(driver->error_name(Status::OutOfMemory), "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(fake_.calls.front(), "cuInit");
}

TEST_F(CudaDriver, IsMissing) {
  const auto driver = Driver::load("/nonexistent/libcuda.so.1");
  ASSERT_FALSE(driver);
  expect(driver.error(), Code::driver_missing, "/nonexistent/libcuda.so.1");
}

TEST_F(CudaDriver, IsOnlyTheStub) {
  fake_.fail["cuInit"] = Status::StubLibrary;
  const auto driver = Driver::load(CODETTA_FAKE_DRIVER);
  ASSERT_FALSE(driver);
  expect(driver.error(), Code::driver_missing, "stub");
}

TEST_F(CudaDriver, CannotStart) {
  fake_.fail["cuInit"] = Status::Unknown;
  const auto driver = Driver::load(CODETTA_FAKE_DRIVER);
  ASSERT_FALSE(driver);
  expect(driver.error(), Code::driver_missing, "cuInit");
}

TEST_F(CudaDriver, IsTooOld) {
  const auto driver = Driver::load(CODETTA_FAKE_OLD_DRIVER);
  ASSERT_FALSE(driver);
  expect(driver.error(), Code::driver_old, "lacks cuTensorMapEncodeTiled");
  EXPECT_NE(driver.error().render().find("CUDA 12.0"), std::string::npos) << driver.error().render();
}

TEST_F(CudaDriver, PartsDoNotFit) {
  fake_.fail["cuInit"] = Status::SystemDriverMismatch;
  const auto driver = Driver::load(CODETTA_FAKE_DRIVER);
  ASSERT_FALSE(driver);
  expect(driver.error(), Code::driver_old, "do not fit each other");
}

TEST_F(CudaDriver, FindsNoDevice) {
  fake_.devices = 0;
  const auto driver = Driver::load(CODETTA_FAKE_DRIVER);
  ASSERT_FALSE(driver);
  expect(driver.error(), Code::device_missing, "CUDA_VISIBLE_DEVICES");
}

TEST_F(CudaDriver, FailuresNameCallArgumentAndText) {
  const auto driver = Driver::load(CODETTA_FAKE_DRIVER).value();
  const Error error = driver->failure(Status::OutOfMemory, "cuMemAlloc", "bytes = 4096");
  expect(error, Code::device_memory, "cuMemAlloc(bytes = 4096) gave CUDA_ERROR_OUT_OF_MEMORY: out of memory");
}

TEST_F(CudaDriver, FailuresHaveTheirCodes) {
  const auto driver = Driver::load(CODETTA_FAKE_DRIVER).value();
  const std::pair<Status, Code> table[] = {
      {Status::OutOfMemory, Code::device_memory},
      {Status::IllegalAddress, Code::device_failed},
      {Status::LaunchFailed, Code::device_failed},
      {Status::EccUncorrectable, Code::device_failed},
      {Status::NoBinaryForGpu, Code::architecture_mismatch},
      {Status::InvalidImage, Code::module_load},
      {Status::UnsupportedPtxVersion, Code::driver_old},
      {Status::InvalidDevice, Code::device_missing},
      {Status::InvalidContext, Code::context_wrong},
      {Status::InvalidHandle, Code::context_wrong},
      {Status::CaptureUnsupported, Code::capture_active},
      {Status::CaptureImplicit, Code::capture_active},
      {Status::LaunchOutOfResources, Code::launch_limits},
      {Status::InvalidValue, Code::driver_call},
      {Status::Unknown, Code::driver_call},
  };
  for (const auto& [status, code] : table) expect(driver->failure(status, "cuSomething", "x = 1"), code, "x = 1");
  EXPECT_TRUE(is_sticky(Status::IllegalAddress));
  EXPECT_FALSE(is_sticky(Status::OutOfMemory));
}

// The driver of this machine, where there is one.
TEST(CudaDriverHere, Loads) {
  const auto driver = Driver::load();
  if (!driver) {
    EXPECT_EQ(driver.error().family(), ErrorFamily::Environment) << driver.error().render();
    GTEST_SKIP() << driver.error().message();
  }
  EXPECT_GE((*driver)->version(), 12000);
}

}  // namespace
}  // namespace codetta::runtime::cuda
