// SPDX-License-Identifier: Apache-2.0
// The public interface on an AMD GPU that is none: the runtime and compiler that a context loads are emulated, and what
// comes out is judged by the oracle.
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "codetta/codetta.hpp"

namespace codetta {
namespace {

class HipInProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.emplace(*base::TemporaryDirectory::make("/tmp"));
    ContextOptions options;
    options.cache_dir = folder_->path() + "/cache";
    options.threads = 1;
    options.hip_runtime = CODETTA_EMULATED_HIP;
    options.hiprtc = CODETTA_EMULATED_HIP;
    context_.emplace(Context::make(options).value());
  }

  static Tensor random(DType dtype, const Dims& shape, uint64_t seed) {
    Tensor made = Tensor::make(dtype, shape).value();
    fill_random(made, seed);
    return made;
  }

  std::optional<base::TemporaryDirectory> folder_;
  std::optional<Context> context_;
  const Target hip_{Backend::hip, {}, ""};
};

TEST_F(HipInProcess, ProductsWithEpilogues) {
  const Device device = Device::open(Backend::hip, *context_).value();
  EXPECT_EQ(device.info().arch, "gfx942");
  constexpr int64_t m = 70, n = 48, k = 40;
  const DeviceTensor a = DeviceTensor::copy_of(device, random(bf16, {m, k}, 1)).value();
  const DeviceTensor b = DeviceTensor::copy_of(device, random(bf16, {k, n}, 2)).value();
  const DeviceTensor bias = DeviceTensor::copy_of(device, random(f32, {n}, 3)).value();
  Tensor poison = Tensor::make(bf16, {m, n}).value(), sums = Tensor::make(f32, {m, 1}).value();
  fill_poison(poison), fill_poison(sums);
  const DeviceTensor d = DeviceTensor::copy_of(device, poison).value();
  const DeviceTensor total = DeviceTensor::copy_of(device, sums).value();
  GemmArguments arguments{.A = a, .B = b, .out = d.view()};
  arguments.epilogue = EpilogueArguments::make(
                           "def f(accum, bias):\n    D = gelu(accum + bias)\n    total = sum(D, dim=-1)\n"
                           "    return D, total\n",
                           {{"bias", bias.view()}, {"D", d.view()}, {"total", total.view()}})
                           .value();
  const KernelList kernels = find_kernels(arguments, hip_, {}, *context_).value();
  ASSERT_FALSE(kernels.empty());
  bool matrix = false, simt = false;
  for (const Kernel& kernel : kernels) {
    bool& tried = kernel.metadata().family == "mfma" ? matrix : simt;
    if (std::exchange(tried, true)) continue;  // one of each family: compiling takes the host's compiler a while
    ASSERT_TRUE(d.fill_bytes(0xff)) << "poison";
    ASSERT_TRUE(total.fill_bytes(0xff));
    auto execution = kernel.prepare(arguments);
    ASSERT_TRUE(execution) << execution.error().render();
    EXPECT_GT(execution->compile_seconds(), 0);
    const DeviceStream stream = DeviceStream::make(device).value();
    ASSERT_TRUE(execution->run(stream));
    ASSERT_TRUE(stream.synchronize());
    const auto checked = verify(arguments, hip_, {.poisoned = true}, *context_);
    ASSERT_TRUE(checked) << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << kernel.metadata().name << "\n" << checked->text;
  }
  EXPECT_TRUE(matrix && simt);
}

TEST_F(HipInProcess, Programs) {
  const Device device = Device::open(Backend::hip, *context_).value();
  const Program program = Program::parse(
                              "def mlp(x: f16[\"rows\", 32], w: f16[32, 64], v: f16[64, 16], scale: f32):\n"
                              "    h = relu(x @ w)\n    y = softmax((h @ v) * scale, dim=-1)\n    return y\n")
                              .value();
  const CompiledProgram compiled = compile(program, hip_, {{"rows", 24}}, *context_).value();
  for (const int64_t rows : {24, 5}) {
    const DeviceTensor x = DeviceTensor::copy_of(device, random(f16, {rows, 32}, 4)).value();
    const DeviceTensor w = DeviceTensor::copy_of(device, random(f16, {32, 64}, 5)).value();
    const DeviceTensor v = DeviceTensor::copy_of(device, random(f16, {64, 16}, 6)).value();
    const DeviceTensor y = DeviceTensor::make(device, f32, {rows, 16}).value();
    ASSERT_TRUE(y.fill_bytes(0xff));
    const std::vector<NamedArgument> arguments{
        {"x", x.view()}, {"w", w.view()}, {"v", v.view()}, {"scale", 0.5}, {"y", y.view()}};
    const auto ran = compiled.run(arguments);
    ASSERT_TRUE(ran) << ran.error().render();
    const auto checked = verify(program, arguments, hip_, {.poisoned = true}, *context_);
    ASSERT_TRUE(checked) << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
  }
}

// Kernels of 32 threads, less than a wave of gfx942; the host reads what decides about the next turn.
TEST_F(HipInProcess, Loops) {
  const Device device = Device::open(Backend::hip, *context_).value();
  const auto text = base::read_file(CODETTA_SOURCE_DIR "/examples/programs/conjugate_gradient.py", 1 << 16);
  const Program program = Program::parse(*text, "conjugate_gradient.py").value();
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  std::vector<DeviceTensor> tensors;
  std::vector<NamedArgument> arguments{{"tolerance", 0.0}, {"most", int64_t{2}}};
  const std::vector<ProgramInput> inputs = program.missing(arguments, {{"n", 16}}, 16).value();
  for (const ProgramInput& input : inputs) {
    tensors.push_back(DeviceTensor::copy_of(device, random(input.dtype, input.shape, tensors.size() + 1)).value());
    arguments.push_back({input.name, tensors.back().view()});
  }
  const ProgramShapes shapes = program.shapes(arguments).value();
  for (const ProgramShapes::Output& output : shapes.outputs) {
    tensors.push_back(DeviceTensor::make(device, output.dtype, output.shape).value());
    ASSERT_TRUE(tensors.back().fill_bytes(0xff));
    arguments.push_back({output.name, tensors.back().view()});
  }
  const auto ran = compiled.run(arguments);
  ASSERT_TRUE(ran) << ran.error().render();
  const auto checked = verify(program, arguments, hip_, {.poisoned = true}, *context_);
  ASSERT_TRUE(checked) << checked.error().render();
  EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
}

TEST_F(HipInProcess, HostMemoryIsRefused) {
  const Tensor a = random(f32, {8, 8}, 1), b = random(f32, {8, 8}, 2);
  Tensor d = Tensor::make(f32, {8, 8}).value();
  GemmArguments arguments{.A = a, .B = b, .out = d};
  arguments.epilogue = EpilogueArguments::make("def f(accum):\n    D = accum\n    return D\n", {{"D", d}}).value();
  const KernelList kernels = find_kernels(arguments, hip_, {}, *context_).value();
  const auto refused = kernels[0].run(arguments);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 648) << refused.error().render();
  EXPECT_NE(refused.error().render().find("hipMalloc"), std::string::npos) << refused.error().render();
}

}  // namespace
}  // namespace codetta
