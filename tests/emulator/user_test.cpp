// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's on an AMD GPU that is none: HIP sources compiled and run by the emulator, against the same sums
// on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "emulator/hip_context.hpp"
#include "support/tune_own.hpp"
#include "types/convert.hpp"

namespace codetta {
namespace {

class HipUser : public EmulatedHip {
 protected:
  [[nodiscard]] CompiledProgram compiled(const std::string& text, const std::string& name, const std::string& source) {
    const Program program = Program::parse(text, "p.py")
                                .value()
                                .with_kernels({{name, source, UserKernel::Language::hip, name + ".hip"}})
                                .value();
    return compile(program, hip_, {}, *context_).value();
  }
  [[nodiscard]] DeviceTensor there(const Tensor& host) const { return DeviceTensor::copy_of(*device_, host).value(); }
};

// The example, between two kernels of Codetta's, and on rows that lie apart.
TEST_F(HipUser, TheExample) {
  const std::string source = *base::read_file(CODETTA_SOURCE_DIR "/examples/user_kernel/running_sums.hip", 1 << 16);
  const CompiledProgram sums = compiled(
      "def f(x: f32[\"m\", \"n\"], decay: f32):\n    y = user_kernel(\"running_sums\", x, decay, out=\"f32[m, n]\")\n"
      "    z = y * 2.0\n    return y, z\n",
      "running_sums", source);
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{6, 40}, {1, 1}, {9, 100}, {4, 32}}) {
    const int64_t apart = cols + 5;
    const Tensor host = random(f32, {rows, apart}, static_cast<uint64_t>(rows * 100 + cols));
    const DeviceTensor x = there(host), y = DeviceTensor::make(*device_, f32, {rows, cols}).value(),
                       z = DeviceTensor::make(*device_, f32, {rows, cols}).value();
    ASSERT_TRUE(y.fill_bytes(0xff) && z.fill_bytes(0xff));
    const auto ran = sums.run({{"x", TensorView::make(x.data(), f32, {rows, cols}, {apart, 1}).value()},
                               {"decay", 0.75},
                               {"y", y.view()},
                               {"z", z.view()}});
    ASSERT_TRUE(ran) << ran.error().render();
    Tensor got = Tensor::make(f32, {rows, cols}).value(), twice = Tensor::make(f32, {rows, cols}).value();
    ASSERT_TRUE(y.download(got) && z.download(twice));
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0, size = 0;
      for (int64_t c = 0; c < cols; ++c) {
        const double element = host.view().as<float>()[r * apart + c];
        sum = element + 0.75 * sum;
        size = std::fabs(element) + 0.75 * size;
        const float value = got.view().as<float>()[r * cols + c];
        ASSERT_NEAR(value, sum, size * 64 * 0x1p-24) << rows << " x " << cols << " at " << r << ", " << c;
        ASSERT_EQ(twice.view().as<float>()[r * cols + c], 2 * value);
      }
    }
  }
}

// Lanes of a whole wave and of parts of it, atomics, meta-parameters, floats of 16 bits, numbers and sizes.
TEST_F(HipUser, WhatTheLanguageHas) {
  const std::string source =
      "#pragma codetta kernel(x: f16[n], shift: i32, scale: f64, out y: bf16[n], out sums: f32[4], out seen: i32[6])\n"
      "#pragma codetta sizes(n, 2 * n: i32) config(GROUP = 16) config(GROUP = 8)\n"
      "#pragma codetta block(16, 8) if(GROUP == 16) grid(ceil_div(n, 128))\n"
      "#pragma codetta block(128) if(GROUP != 16)\n"
      "extern \"C\" __global__ void __launch_bounds__(128, 2) mix(const float16* x, int shift, double scale,\n"
      "                                                        bfloat16* y, float* sums, int* seen, int64_t n, int n2) "
      "{\n"
      "  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;\n"
      "  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x * blockDim.y + thread;\n"
      "  const float value = i < n ? static_cast<float>(x[i]) : 0.0f;\n"
      "  const float other = __shfl_xor(value, 3, GROUP) + __shfl(value, 1, GROUP) + __shfl_up(value, 2, GROUP) +\n"
      "                      __shfl_down(value, 2, GROUP);\n"
      "  if (i < n) y[i] = static_cast<float>(other * scale + shift);\n"
      "  if (blockIdx.x == 0 && thread < 4) sums[thread] = 0;\n"
      "  if (blockIdx.x == 0 && thread < 6) seen[thread] = thread == 2 ? 1000 : 0;\n"
      "  __syncthreads();\n"
      "  if (blockIdx.x != 0) return;\n"
      "  __threadfence();\n"
      "  atomicAdd(&sums[thread % 4], 1);\n"
      "  atomicAdd(&seen[0], 2);\n"
      "  atomicMax(&seen[1], static_cast<int>(thread));\n"
      "  atomicMin(&seen[2], static_cast<int>(thread) + 7);\n"
      "  if (thread == 5) atomicExch(&seen[3], n2 + gridDim.x);\n"
      "  atomicCAS(&seen[4], 0, 42);\n"
      "  if (thread == 0) seen[5] = min(warpSize, 1000L) + max(1, 2);\n"
      "}\n";
  const CompiledProgram mix = compiled(
      "def f(x: f16[\"n\"], shift: i32, scale: f64):\n    y, sums, seen = user_kernel(\"mix\", x, shift, scale, "
      "out=(\"bf16[n]\", \"f32[4]\", \"i32[6]\"))\n    return y, sums, seen\n",
      "mix", source);
  constexpr int64_t n = 300;
  const Tensor host = random(f16, {n}, 5);
  const DeviceTensor x = there(host), y = DeviceTensor::make(*device_, bf16, {n}).value(),
                     sums = DeviceTensor::make(*device_, f32, {4}).value(),
                     seen = DeviceTensor::make(*device_, i32, {6}).value();
  const auto ran = mix.run({{"x", x.view()},
                            {"shift", int64_t{3}},
                            {"scale", 0.5},
                            {"y", y.view()},
                            {"sums", sums.view()},
                            {"seen", seen.view()}});
  ASSERT_TRUE(ran) << ran.error().render();
  Tensor got = Tensor::make(bf16, {n}).value(), total = Tensor::make(f32, {4}).value(),
         found = Tensor::make(i32, {6}).value();
  ASSERT_TRUE(y.download(got) && sums.download(total) && seen.download(found));
  const auto element = [&](int64_t i) {
    return i < n ? static_cast<float>(types::load_f64(host.view().as<std::byte>() + i * 2, f16)) : 0.0F;
  };
  for (int64_t i = 0; i < n; ++i) {
    const int64_t group = i / 16 * 16, place = i % 16;
    const float other =
        element(i ^ 3) + element(group + 1) + element(place < 2 ? i : i - 2) + element(place + 2 >= 16 ? i : i + 2);
    const double wanted = static_cast<double>(other) * 0.5 + 3;
    const double value = types::load_f64(got.view().as<std::byte>() + i * 2, bf16);
    ASSERT_NEAR(value, wanted, std::fabs(wanted) * 0x1p-8) << i;
  }
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(total.view().as<float>()[i], 32);
  const int32_t lanes = device_->info().arch.starts_with("gfx9") ? 64 : 32;
  const int32_t wanted[] = {256, 127, 7, 2 * n + 3, 42, lanes + 2};
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(found.view().as<int32_t>()[i], wanted[i]) << i;
}

// What follows runs inside of it, also over operands whose rows lie apart and a number, and nothing of it is launched.
TEST_F(HipUser, HandsItsResultOver) {
  const std::string folder = CODETTA_SOURCE_DIR "/examples/user_kernel/";
  const CompiledProgram hooked = compiled(*base::read_file(folder + "hooked.py", 1 << 16), "running_sums",
                                          *base::read_file(folder + "hooked_sums.hip", 1 << 16));
  const std::string plan = hooked.emit(Stage::Plan).value();
  EXPECT_EQ(plan.find("  launch "), plan.rfind("  launch ")) << plan;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{6, 40}, {1, 1}, {9, 100}}) {
    const int64_t apart = cols + 3;
    const Tensor host = random(f32, {rows, cols}, 1), gates = random(f32, {rows, apart}, 2),
                 added = random(f32, {cols}, 3);
    const DeviceTensor x = there(host), gate = there(gates), bias = there(added),
                       y = DeviceTensor::make(*device_, f32, {rows, cols}).value();
    ASSERT_TRUE(y.fill_bytes(0xff));
    const auto ran = hooked.run({{"x", x.view()},
                                 {"decay", 0.75},
                                 {"gate", TensorView::make(gate.data(), f32, {rows, cols}, {apart, 1}).value()},
                                 {"bias", bias.view()},
                                 {"y", y.view()}});
    ASSERT_TRUE(ran) << ran.error().render();
    Tensor got = Tensor::make(f32, {rows, cols}).value();
    ASSERT_TRUE(y.download(got));
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0, size = 1;
      for (int64_t c = 0; c < cols; ++c) {
        sum = host.view().as<float>()[r * cols + c] + 0.75 * sum;
        size = std::fabs(host.view().as<float>()[r * cols + c]) + 0.75 * size;
        const double in = sum + added.view().as<float>()[c], factor = gates.view().as<float>()[r * apart + c];
        ASSERT_NEAR(got.view().as<float>()[r * cols + c], in / (1 + std::exp(-in)) * factor,
                    (size + std::fabs(in)) * std::fabs(factor) * 128 * 0x1p-24)
            << rows << " x " << cols << " at " << r << ", " << c;
      }
    }
  }
}

// Results that differ, sources that do not compile and blocks that cannot be launched lose alone.
TEST_F(HipUser, ConfigurationsAreTuned) {
  const std::string source =
      "#pragma codetta kernel(x: f32[m, n], by: f32, out y: f32[m, n]) config(W = 1) config(W = 2) config(W = 3)\n"
      "#pragma codetta config(W = 4) config(W = 5) grid(m) block(64 * W) block(32) if(W == 5)\n"
      "#pragma codetta shared(1000 * n) if(W == 4) sizes(n)\n"
      "extern \"C\" __global__ void scale(const float* x, float by, float* y, int64_t n) {\n"
      "  for (int64_t c = threadIdx.x; c < n; c += blockDim.x)\n"
      "    y[blockIdx.x * n + c] = x[blockIdx.x * n + c] * by + (W == 2 && c == 3 ? 1.0f : 0.0f);\n"
      "#if W == 3\n"
      "  there_is_no_such_function();\n"
      "#endif\n"
      "}\n";
  const Program program = Program::parse(
                              "def f(x: f32[\"m\", \"n\"], by: f32):\n    h = x + 1.0\n"
                              "    y = user_kernel(\"scale\", h, by, out=\"f32[m, n]\")\n    return y\n",
                              "p.py")
                              .value()
                              .with_kernels({{"scale", source, UserKernel::Language::hip, "scale.hip"}})
                              .value();
  const DeviceTensor x = there(random(f32, {3, 70}, 5)), y = DeviceTensor::make(*device_, f32, {3, 70}).value();
  const std::vector<NamedArgument> arguments{{"x", x.view()}, {"by", 0.5}, {"y", y.view()}};
  const auto report = test::tune_own(program, arguments, hip_, {.budget_seconds = 300}, *context_);
  ASSERT_TRUE(report) << report.error().render();
  ASSERT_EQ(report->results.size(), 5U);
  std::map<std::string, std::string> failures;
  for (const TuneResult& result : report->results) failures[result.kernel] = result.failure;
  // Those that agree are timed, by graphs, which the emulator does not have: tests/unit/driver_hip goes on from there.
  EXPECT_EQ(failures["user_scale_W_1"].find("E0646: "), 0U) << failures["user_scale_W_1"];
  EXPECT_EQ(failures["user_scale_W_5"].find("E0646: "), 0U) << failures["user_scale_W_5"];
  EXPECT_EQ(failures["user_scale_W_2"].find("its results are not those of user_scale_W_1: [0, 3] is "), 0U)
      << failures["user_scale_W_2"];
  EXPECT_NE(failures["user_scale_W_2"].find("3 of 210 elements differ"), std::string::npos);
  EXPECT_EQ(failures["user_scale_W_3"].find("E0313: "), 0U) << failures["user_scale_W_3"];
  EXPECT_EQ(failures["user_scale_W_4"].find("E0650: "), 0U) << failures["user_scale_W_4"];
  const std::string plan = compile(program, hip_, {{"m", 3}, {"n", 70}}, *context_).value().emit(Stage::Plan).value();
  EXPECT_NE(plan.find("* user_scale_W_1 "), std::string::npos) << plan;
  const auto ran = compile(program, hip_, {{"m", 3}, {"n", 70}}, *context_).value().run(arguments);
  ASSERT_TRUE(ran) << ran.error().render();
}

// What a program is made of is timed on a GPU over the caller's tensors there, and what wins is right by the oracle.
TEST_F(HipUser, ProgramsAreTuned) {
  const Program program = Program::parse(
                              "def f(x: f32[\"m\", 64], a: f32[64, 32], b: f32[64, 32], w: f32[32, 16]):\n"
                              "    h = relu(x @ a) * (x @ b)\n    y = softmax(h @ w, dim=-1)\n    return y\n",
                              "p.py")
                              .value();
  const DeviceTensor x = there(random(f32, {12, 64}, 5)), a = there(random(f32, {64, 32}, 6)),
                     b = there(random(f32, {64, 32}, 7)), w = there(random(f32, {32, 16}, 8)),
                     y = DeviceTensor::make(*device_, f32, {12, 16}).value();
  const std::vector<NamedArgument> arguments{
      {"x", x.view()}, {"a", a.view()}, {"b", b.view()}, {"w", w.view()}, {"y", y.view()}};
  const auto report = tune(program, arguments, hip_, {.budget_seconds = 60, .max_candidates = 2}, *context_);
  ASSERT_TRUE(report) << report.error().render();
  ASSERT_FALSE(report->results.empty()) << report->note;
  for (const TuneResult& result : report->results) {
    EXPECT_EQ(result.failure, "") << result.call << ", " << result.kernel;
    EXPECT_GT(result.microseconds, 0) << result.call;
  }
  const auto compiled = compile(program, hip_, {{"m", 12}}, *context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  ASSERT_TRUE(compiled->run(arguments));
  const auto checked = verify(program, arguments, hip_, {}, *context_);
  ASSERT_TRUE(checked) << checked.error().render();
  EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
}

}  // namespace
}  // namespace codetta
