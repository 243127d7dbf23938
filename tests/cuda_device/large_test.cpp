// SPDX-License-Identifier: Apache-2.0
// More than 2^31 elements in one tensor: as a result, as a factor and as an operand of the epilogue, and items of a
// batch that lie so far apart.
#include <cstdio>

#include "cuda_device/fixture.hpp"

namespace codetta {
namespace {

class DeviceLarge : public OnGpu {
 protected:
  static constexpr int64_t rows = 70001, columns = 30720, least = int64_t{1} << 31;
  static_assert(rows * columns > least);

  void SetUp() override {
    OnGpu::SetUp();
    if (!device_) return;
    const int64_t needed = 2 * rows * columns * 2;
    const int64_t free = device_->free_bytes().value();
    if (free < needed) GTEST_SKIP() << free << " bytes of device memory are free, and " << needed << " are needed";
  }
  DeviceTensor random(const Dims& shape, uint64_t seed) const {
    const Tensor host = Tensor::make(bf16, shape).value();
    fill_random(host, seed);
    return DeviceTensor::copy_of(*device_, host).value();
  }
  // Each family's best kernel, into `out`, which is poisoned before.
  void expect_right(const TensorView& a, const TensorView& b, const std::string& text,
                    std::vector<NamedArgument> operands, const DeviceTensor& out, const std::string& what) {
    operands.push_back({"D", out.view()});
    const GemmArguments arguments{
        .A = a, .B = b, .out = out.view(), .epilogue = EpilogueArguments::make(text, operands).value()};
    const KernelList found = find_kernels(arguments, cuda, {}, *context_).value();
    std::string families;
    for (const Kernel& kernel : found) {
      const KernelMetadata& metadata = kernel.metadata();
      if (families.find(metadata.family + " ") != std::string::npos) continue;
      families += metadata.family + " ";
      ASSERT_TRUE(out.fill_bytes(0xFF));
      auto execution = kernel.prepare(arguments);
      ASSERT_TRUE(execution) << what << " " << metadata.name << "\n" << execution.error().render();
      ASSERT_TRUE(execution->run());
      const auto checked = verify(arguments, cuda, {.seed = 5, .poisoned = true}, *context_);
      ASSERT_TRUE(checked) << what << " " << metadata.name << "\n" << checked.error().render();
      EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << what << " " << metadata.name << "\n" << checked->text;
    }
    std::printf("%s: %s\n", what.c_str(), families.c_str());
    EXPECT_FALSE(families.empty());
  }
};

TEST_F(DeviceLarge, ResultFactorOperandAndItems) {
  const DeviceTensor large = DeviceTensor::make(*device_, bf16, {rows, columns}).value();
  const DeviceTensor a = random({rows, 32}, 1), b = random({32, columns}, 2);
  expect_right(a, b, plain, {}, large, "a result");
  // It holds random values now. Of all its rows the last columns: what the reference has to read stays small.
  constexpr int64_t few = 64;
  const TensorView strip =
      TensorView::make(large.view().as<uint16_t>() + columns - few, bf16, {rows, few}, Dims{columns, 1}).value();
  const DeviceTensor out = DeviceTensor::make(*device_, bf16, {rows, few}).value();
  expect_right(strip, random({few, few}, 3), plain, {}, out, "a factor");
  expect_right(a, random({32, few}, 4), "def f(accum, C):\n    D = accum + C\n    return D\n", {{"C", strip}}, out,
               "an operand");
  // Two items whose first elements are 2^31 + 64 elements apart.
  constexpr int64_t m = 300, k = 256, row_stride = 512;
  static_assert(least + 64 + m * row_stride < rows * columns);
  const TensorView items = TensorView::make(large.data(), bf16, {2, m, k}, Dims{least + 64, row_stride, 1}).value();
  expect_right(items, random({2, k, 96}, 5), plain, {}, DeviceTensor::make(*device_, bf16, {2, m, 96}).value(),
               "items");
}

}  // namespace
}  // namespace codetta
