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
#include "support/expect_error.hpp"
#include "support/gpu_problem.hpp"
#include "unit/driver_cuda/fake_nvrtc.hpp"
#include "unit/runtime_cuda/fake_driver.hpp"

namespace codetta {

class CudaApi : public ::testing::Test, public test::ExpectsErrors, public test::GpuProblems {
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

  static Problem problem(Context& context, DType dtype = f32, const std::string& text = plain, int64_t rows = m,
                         int64_t cols = n, int64_t depth = k) {
    return problem_on(Device::open(context).value(), dtype, text, rows, cols, depth);
  }
  static KernelList kernels(const Problem& of, Context& context, const Target& target = {Backend::cuda, {}, ""}) {
    return find_kernels(of.arguments, target, {}, context).value();
  }
  // Streams under capture: begun, and ended, which it must be valid for, with one launch of the graph.
  void begin(const DeviceStream& stream) {
    ASSERT_EQ(call().stream_begin_capture(handle(stream), 0), runtime::cuda::Status::Success);
  }
  void replay(const DeviceStream& stream) {
    using runtime::cuda::Status;
    runtime::cuda::GraphHandle graph = nullptr;
    ASSERT_EQ(call().stream_end_capture(handle(stream), &graph), Status::Success) << "the capture is valid";
    runtime::cuda::GraphExecHandle executable = nullptr;
    ASSERT_EQ(call().graph_instantiate(&executable, graph, 0), Status::Success);
    ASSERT_EQ(call().graph_launch(executable, handle(stream)), Status::Success);
    (void)call().graph_exec_destroy(executable);
    (void)call().graph_destroy(graph);
  }
  static runtime::cuda::StreamHandle handle(const DeviceStream& stream) {
    return static_cast<runtime::cuda::StreamHandle>(stream.get().handle);
  }
  const runtime::cuda::DriverTable& call() {
    if (driver_ == nullptr) driver_ = runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value();
    return driver_->call();
  }
  [[nodiscard]] size_t logged(std::string_view part) const {
    size_t count = 0;
    for (const std::string& line : log_) count += line.find(part) != std::string::npos ? 1 : 0;
    return count;
  }

  test::FakeDriver& fake_ = test::fake_driver(CODETTA_FAKE_DRIVER);
  test::FakeNvrtc& nvrtc_ = test::fake_nvrtc(CODETTA_FAKE_NVRTC);
  runtime::cuda::DriverRef driver_;  // of call()
  std::optional<base::TemporaryDirectory> folder_;
  std::vector<std::string> log_;
};

}  // namespace codetta
