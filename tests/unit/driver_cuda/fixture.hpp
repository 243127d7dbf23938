// SPDX-License-Identifier: Apache-2.0
// A context over the pretended driver and compiler, and a small problem in its device memory.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files.hpp"
#include "codetta/codetta.hpp"
#include "device/gpu/abi.h"
#include "diag/diagnostic.hpp"
#include "runtime/cuda/driver.hpp"
#include "unit/driver_cuda/fake_nvrtc.hpp"
#include "unit/runtime_cuda/fake_driver.hpp"

namespace codetta {

class CudaApi : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_.reset();
    fake_.parameter_bytes = sizeof(gpu::Params<0, 1, 1, 0>);
    fake_.computes = true;
    nvrtc_.reset();
    folder_.emplace(*base::TemporaryDirectory::make("/tmp"));
  }
  ContextOptions options() {
    ContextOptions made;
    made.cache_dir = folder_->path() + "/cache";
    made.threads = 1;
    made.cuda_driver = CODETTA_FAKE_DRIVER;
    made.nvrtc = CODETTA_FAKE_NVRTC;
    made.vendor = false;  // one that is installed here would want the true driver
    made.log = [this](std::string_view line) { log_.emplace_back(line); };
    return made;
  }
  Context context() { return Context::make(options()).value(); }

  // [m, k] x [k, n] -> D on the device, outputs poisoned.
  struct Problem {
    std::vector<DeviceTensor> tensors;
    GemmArguments arguments;
  };
  static Problem problem(Context& context, DType dtype = f32, const std::string& text = plain, int64_t rows = m,
                         int64_t cols = n, int64_t depth = k) {
    const Device device = Device::open(context).value();
    const Dims shapes[] = {{rows, depth}, {depth, cols}, {rows, cols}};
    Problem made;
    for (uint64_t i = 0; i < 3; ++i) {
      const Tensor host = Tensor::make(dtype, shapes[i]).value();
      if (i < 2) {
        fill_random(host, i + 1);
      } else {
        fill_poison(host);
      }
      made.tensors.push_back(DeviceTensor::copy_of(device, host).value());
    }
    made.arguments.A = made.tensors[0];
    made.arguments.B = made.tensors[1];
    std::vector<NamedArgument> bound{{"D", made.tensors[2].view()}};
    if (text.find("bias") != std::string::npos) {
      made.tensors.push_back(DeviceTensor::copy_of(device, Tensor::make(f32, {cols}).value()).value());
      bound.push_back({"bias", made.tensors.back().view()});
    }
    if (text.find("total") != std::string::npos) {
      made.tensors.push_back(DeviceTensor::copy_of(device, Tensor::make(f32, {rows, 1}).value()).value());
      bound.push_back({"total", made.tensors.back().view()});
    }
    made.arguments.out = made.tensors[2].view();
    made.arguments.epilogue = EpilogueArguments::make(text, bound).value();
    return made;
  }
  static KernelList kernels(const Problem& of, Context& context, const Target& target = {Backend::cuda, {}, ""}) {
    return find_kernels(of.arguments, target, {}, context).value();
  }
  template <class T>
  static void expect(const Result<T>& result, diag::Code code, std::string_view part) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), static_cast<uint16_t>(code)) << result.error().render();
    EXPECT_NE(result.error().render().find(part), std::string::npos) << result.error().render();
    EXPECT_NE(result.error().render().find("help: "), std::string::npos) << result.error().render();
  }
  [[nodiscard]] size_t logged(std::string_view part) const {
    size_t count = 0;
    for (const std::string& line : log_) count += line.find(part) != std::string::npos ? 1 : 0;
    return count;
  }

  static constexpr int64_t m = 33, n = 20, k = 17;
  static inline const std::string plain = "def plain(accum):\n    D = accum\n    return D\n";
  static inline const std::string reducing =
      "def reducing(accum):\n    D = accum\n    total = sum(accum, dim=-1)\n    return D, total\n";
  test::FakeDriver& fake_ = test::fake_driver(CODETTA_FAKE_DRIVER);
  test::FakeNvrtc& nvrtc_ = test::fake_nvrtc(CODETTA_FAKE_NVRTC);
  std::optional<base::TemporaryDirectory> folder_;
  std::vector<std::string> log_;
};

}  // namespace codetta
