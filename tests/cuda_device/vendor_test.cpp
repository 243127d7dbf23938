// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's kernels on a real GPU, every proposal against the oracle; skipped where the library is not there.
#include <cmath>
#include <cstdio>
#include <limits>

#include "cuda_device/fixture.hpp"
#include "runtime/cuda/cublaslt.hpp"
#include "runtime/cuda/stream.hpp"

namespace codetta {
namespace {

namespace cu = runtime::cuda;

class DeviceVendor : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!device_) return;
    const auto library = cu::CublasLt::load({});
    if (!library) GTEST_SKIP() << library.error().render();
    static const bool told = [&] {
      std::printf("cuBLASLt %s, %s\n", (*library)->version_text().c_str(), (*library)->path().c_str());
      return true;
    }();
    (void)told;
  }
  std::vector<Kernel> vendors(const Problem& of, std::string* why = nullptr) {
    std::vector<Kernel> result;
    const KernelList list = find_kernels(of.arguments, cuda, {}, *context_).value();
    for (const Kernel& kernel : list) {
      if (kernel.metadata().family == "vendor") result.push_back(kernel);
    }
    for (const Rejection& rejection : list.rejections()) {
      if (why != nullptr && rejection.kernel == "cuda_vendor") *why = rejection.text;
    }
    return result;
  }
  // Every proposal; at least one.
  void expect_all_right(const Problem& of, const std::string& what) {
    std::string why;
    const auto kernels = vendors(of, &why);
    ASSERT_FALSE(kernels.empty()) << what << ": " << why;
    double worst = 0;
    for (const Kernel& kernel : kernels) {
      poison(of);
      auto execution = kernel.prepare(of.arguments);
      ASSERT_TRUE(execution) << what << " " << kernel.metadata().name << "\n" << execution.error().render();
      EXPECT_GE(execution->workspace_size(), kernel.metadata().workspace_bytes);
      ASSERT_TRUE(execution->run());
      const auto checked = verify(of.arguments, {}, cuda, 5, *context_);
      ASSERT_TRUE(checked) << what << "\n" << checked.error().render();
      EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << what << " " << kernel.metadata().name << "\n"
                                                               << checked->text;
      for (const OutputCheck& output : checked->outputs) worst = std::max(worst, output.max_error_ratio);
    }
    std::printf("%-40s %zu proposals, worst error %.3f of the bound\n", what.c_str(), kernels.size(), worst);
  }
};

TEST_F(DeviceVendor, PlainProductsOfEveryTypeAndLayout) {
  const struct {
    DType dtype, out;
    MathMode math;
  } cases[] = {{bf16, bf16, MathMode::Strict}, {bf16, f32, MathMode::Strict}, {f16, f16, MathMode::Strict},
               {f16, f32, MathMode::Strict},   {f32, f32, MathMode::Strict},  {f32, f32, MathMode::Tf32},
               {f64, f64, MathMode::Strict}};
  for (const auto& c : cases) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        Shape shape{256, 192, 320};
        shape.transpose_a = a, shape.transpose_b = b;
        Problem p = problem(c.dtype, c.dtype, shape, plain, {{"D", c.out, {256, 192}, true}});
        p.arguments.math = c.math;
        expect_all_right(p, std::string(dtype_name(c.dtype)) + " into " + std::string(dtype_name(c.out)) + " " +
                                std::string(math_mode_name(c.math)) + (a ? " A^T" : "") + (b ? " B^T" : ""));
      }
    }
  }
}

TEST_F(DeviceVendor, LongSumsBatchesAndRaggedSizes) {
  expect_all_right(product(64, 128, 16384, bf16), "bf16 64 x 128 x 16384");
  expect_all_right(product(16, 4096, 4096, bf16), "bf16 16 x 4096 x 4096");
  expect_all_right(product(1, 1000, 777, f32), "f32 1 x 1000 x 777");
  expect_all_right(product(77, 129, 63, f32), "f32 77 x 129 x 63");
  Shape batched{96, 64, 128};
  batched.batch = 5;
  expect_all_right(problem(bf16, bf16, batched, plain, {{"D", bf16, {5, 96, 64}, true}}), "batch of 5");
}

TEST_F(DeviceVendor, TheMenu) {
  const Shape s{128, 256, 192};
  const Operand d{"D", bf16, {128, 256}, true};
  expect_all_right(
      problem(bf16, bf16, s, "def f(accum, bias):\n    D = accum + bias\n    return D\n", {{"bias", bf16, {256}}, d}),
      "bias");
  expect_all_right(problem(bf16, bf16, s, "def f(accum, C):\n    D = accum * 0.5 + C * -2.0\n    return D\n",
                           {{"C", bf16, {128, 256}}, d}),
                   "alpha and beta");
  for (const DType dtype : {bf16, f16}) {
    expect_all_right(problem(dtype, dtype, s, "def f(accum, bias):\n    D = relu(accum + bias)\n    return D\n",
                             {{"bias", dtype, {256}}, {"D", dtype, {128, 256}, true}}),
                     "relu of a bias");
  }
}

TEST_F(DeviceVendor, EightBits) {
  Shape s{128, 256, 512};
  s.transpose_b = true;
  const std::string scaled = "def f(accum, sa, sb):\n    D = accum * sa * sb\n    return D\n";
  // Sums keep so few bits that their bound tells nothing of terms that cancel.
  const auto make_positive = [&](Problem& of) {
    for (size_t i = 0; i < 2; ++i) {
      const TensorView factor = i == 0 ? of.arguments.A : of.arguments.B.transposed();
      const Tensor host = Tensor::make(factor.dtype(), factor.shape()).value();
      fill_random(host, 21 + i);
      auto* const bytes = static_cast<uint8_t*>(host.data());
      for (int64_t at = 0; at < host.view().element_count(); ++at) bytes[at] &= 0x7f;
      of.tensors.push_back(DeviceTensor::copy_of(*device_, host).value());
      const TensorView view = of.tensors.back();
      (i == 0 ? of.arguments.A : of.arguments.B) = i == 0 ? view : view.transposed();
    }
  };
  for (const MathMode math : {MathMode::Fp8FastAccumulation, MathMode::Fp8TwoLevelAccumulation}) {
    for (const DType second : {f8e4m3, f8e5m2}) {
      const std::string what = std::string(dtype_name(second)) + " " + std::string(math_mode_name(math));
      Problem p = problem(f8e4m3, second, s, plain, {{"D", bf16, {128, 256}, true}});
      p.arguments.math = math;
      make_positive(p);
      expect_all_right(p, "fp8 " + what);
      Problem q =
          problem(f8e4m3, second, s, scaled, {{"sa", f32, {1, 1}}, {"sb", f32, {1, 1}}, {"D", f32, {128, 256}, true}});
      q.arguments.math = math;
      make_positive(q);
      expect_all_right(q, "fp8 scaled " + what);
    }
  }
  expect_all_right(problem(i8, i8, s, plain, {{"D", i32, {128, 256}, true}}), "i8");
}

TEST_F(DeviceVendor, InPlaceAndCaptured) {
  const Problem p = problem(bf16, bf16, {256, 256, 128}, "def f(accum, bias):\n    D = accum + bias\n    return D\n",
                            {{"bias", bf16, {256}}, {"D", bf16, {256, 256}, true}});
  const auto kernels = vendors(p);
  ASSERT_FALSE(kernels.empty());
  Execution execution = kernels[0].prepare(p.arguments).value();
  const auto device = cu::Device::open(cu::Driver::load().value(), 0).value();
  const auto stream = cu::OwnedStream::make(device).value();
  const auto graph =
      cu::OwnedGraph::capture(stream, [&](cu::StreamHandle on) { return execution.run(Stream::from_cuda(on)); });
  ASSERT_TRUE(graph) << graph.error().render();
  poison(p);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(graph->launch(stream.get()));
  ASSERT_TRUE(device->synchronize());
  check(p, "a captured product, replayed");
}

// What relu of the library does to NaN, by proposal: some of its kernels of f32 give 0, none of 16 bits may.
TEST_F(DeviceVendor, WhatReluDoesToNan) {
  const auto device = cu::Device::open(cu::Driver::load().value(), 0).value();
  const auto handle = cu::CublasLtHandle::make(cu::CublasLt::load({}).value(), device).value();
  int kept = 0, lost = 0, lost_of_16_bits = 0;
  for (const DType dtype : {bf16, f16, f32}) {
    for (const int64_t size : {64, 256, 1024, 4096}) {
      const int64_t rows = size == 4096 ? 16 : size;
      Problem p = product(rows, size, size, dtype);
      ASSERT_TRUE(p.tensors[0].fill_bytes(0xFF));  // NaN in every type
      package::VendorProblem problem;
      problem.config.a_dtype = problem.config.b_dtype = dtype;
      problem.config.activation = package::CudaVendorConfig::Activation::Relu;
      problem.m = rows, problem.n = problem.k = size;
      problem.a_row = problem.b_k = problem.d_row = size;
      problem.d_dtype = problem.bias_dtype = problem.aux_dtype = dtype;
      auto product = cu::VendorProduct::make(handle, problem).value();
      for (size_t i = 0; i < product.proposals().size(); ++i) {
        const auto workspace = cu::DeviceBuffer::make(device, package::max_vendor_workspace).value();
        cu::VendorProduct::Addresses at;
        at.a = p.tensors[0].data(), at.b = p.tensors[1].data(), at.d = p.tensors[2].data();
        ASSERT_TRUE(product.bind(i, at, 1, 0));
        const auto entered = device->enter().value();
        ASSERT_TRUE(p.tensors[2].fill_bytes(0));
        ASSERT_EQ(product.run(reinterpret_cast<void*>(workspace.address()), nullptr), cu::lt::Status::Success);
        const Tensor host = Tensor::make(dtype, {rows, size}).value();
        ASSERT_TRUE(p.tensors[2].download(host));
        const bool zero = dtype == f32 ? host.view().as<float>()[1] == 0 : host.view().as<uint16_t>()[1] == 0;
        (zero ? lost : kept)++;
        if (zero && dtype != f32) ++lost_of_16_bits;
      }
    }
  }
  std::printf("relu of NaN: %d proposals keep it, %d give 0\n", kept, lost);
  EXPECT_GT(kept + lost, 0);
  EXPECT_EQ(lost_of_16_bits, 0);
}

}  // namespace
}  // namespace codetta
