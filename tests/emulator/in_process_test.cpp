// SPDX-License-Identifier: Apache-2.0
// Products and programs on an AMD GPU that is none; what comes out is judged by the oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "emulator/hip_context.hpp"
#include "support/device_arguments.hpp"
#include "support/random_program.hpp"
#include "support/slice.hpp"

namespace codetta {
namespace {

class HipInProcess : public EmulatedHip {
 protected:
  // A program over random tensors is what the oracle says.
  void expect_pass(const std::string& text, const std::vector<std::pair<std::string, int64_t>>& sizes = {}) {
    const Program program = Program::parse(text).value();
    SCOPED_TRACE(text);
    expect_pass(program, compile(program, hip_, {}, *context_).value(), sizes);
  }
  // Of these sizes, whichever it was compiled for.
  void expect_pass(const Program& program, const CompiledProgram& compiled,
                   const std::vector<std::pair<std::string, int64_t>>& sizes) {
    const Device device = Device::open(Backend::hip, *context_).value();
    const auto made = test::device_arguments(program, sizes, device, 3).value();
    ASSERT_TRUE(made);
    std::string of;
    for (const auto& [symbol, size] : sizes) of += fmt::format("{} = {} ", symbol, size);
    SCOPED_TRACE(of);
    const auto ran = compiled.run(made->arguments);
    ASSERT_TRUE(ran) << ran.error().render();
    const auto checked = verify(program, made->arguments, hip_, made->how, *context_);
    ASSERT_TRUE(checked) << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
  }
};

TEST_F(HipInProcess, ProductsWithEpilogues) {
  const Device device = Device::open(Backend::hip, *context_).value();
  const char* const gfx = std::getenv("CODETTA_EMULATED_GFX");
  const std::string arch = gfx != nullptr ? gfx : "gfx942", unit = arch.starts_with("gfx9") ? "mfma" : "wmma";
  EXPECT_EQ(device.info().arch, arch);
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
    bool& tried = kernel.metadata().family == unit ? matrix : simt;
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

TEST_F(HipInProcess, WhatOutlivesAProductWithoutRows) {
  const Device device = Device::open(Backend::hip, *context_).value();
  constexpr int64_t n = 5, k = 8;
  const DeviceTensor a = DeviceTensor::make(device, f32, {0, k}).value();
  const DeviceTensor b = DeviceTensor::copy_of(device, random(f32, {k, n}, 1)).value();
  Tensor columns = Tensor::make(f32, {1, n}).value(), all = Tensor::make(f32, {1, 1}).value();
  fill_poison(columns), fill_poison(all);
  const DeviceTensor sums = DeviceTensor::copy_of(device, columns).value();
  const DeviceTensor total = DeviceTensor::copy_of(device, all).value();
  GemmArguments arguments{.A = a, .B = b};
  const auto prepared = [&](const char* text, std::vector<NamedArgument> views) {
    arguments.epilogue = EpilogueArguments::make(text, std::move(views)).value();
    const KernelList kernels = find_kernels(arguments, hip_, {}, *context_).value();
    return kernels.begin()->prepare(arguments);
  };
  auto over_nothing =
      prepared("def f(accum):\n    sums = sum(accum, axis=\"column\")\n    return sums\n", {{"sums", sums.view()}});
  ASSERT_TRUE(over_nothing) << over_nothing.error().render();
  const DeviceStream stream = DeviceStream::make(device).value();
  ASSERT_TRUE(over_nothing->run(stream));
  ASSERT_TRUE(stream.synchronize());
  const auto checked = verify(arguments, hip_, {.poisoned = true}, *context_);
  ASSERT_TRUE(checked) << checked.error().render();
  EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;

  // A sum over rows that are summed first, and a value that does not depend on the product: there is no row that the
  // product's kernel would compute them in. Others do, where they may be compiled.
  const DeviceTensor bias = DeviceTensor::copy_of(device, random(f32, {n}, 2)).value();
  const char* const text =
      "def f(accum, bias):\n    s = exp(sum(accum, axis=\"column\"))\n    total = sum(s)\n    sums = bias * 2.0\n"
      "    return total, sums\n";
  arguments.epilogue =
      EpilogueArguments::make(text, {{"bias", bias.view()}, {"total", total.view()}, {"sums", sums.view()}}).value();
  ASSERT_TRUE(find_kernels(arguments, hip_, {}, *context_).value().begin()->compile());
  ContextOptions options = test::hip_options(*folder_, CODETTA_EMULATED_HIP);
  options.no_jit = true;
  Context compiles_nothing = Context::make(options).value();
  const auto refused = find_kernels(arguments, hip_, {}, compiles_nothing).value().begin()->prepare(arguments);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 610) << refused.error().render();
  EXPECT_NE(refused.error().render().find("with each row, and there is none"), std::string::npos)
      << refused.error().render();
  EXPECT_NE(refused.error().render().find("let other kernels be compiled"), std::string::npos);
  for (Context* context : {&*context_, &compiles_nothing}) {  // whose cache has them then
    ASSERT_TRUE(sums.upload(columns) && total.upload(all));
    auto others = find_kernels(arguments, hip_, {}, *context).value().begin()->prepare(arguments);
    ASSERT_TRUE(others) << others.error().render();
    EXPECT_GT(others->kernels().size(), 1U);
    ASSERT_TRUE(others->run(stream));
    ASSERT_TRUE(stream.synchronize());
    const auto made = verify(arguments, hip_, {.poisoned = true}, *context);
    ASSERT_TRUE(made) << made.error().render();
    EXPECT_EQ(made->verdict, VerifyReport::Verdict::Pass) << made->text;
  }
}

// One element an item, of no items: there is nowhere to store it.
TEST_F(HipInProcess, ResultsOfNoItems) {
  const Device device = Device::open(Backend::hip, *context_).value();
  constexpr int64_t m = 5, k = 8;
  const DeviceTensor a = DeviceTensor::copy_of(device, random(f32, {m, k}, 1)).value();
  const DeviceTensor b = DeviceTensor::make(device, f32, {0, k, 1}).value();
  const DeviceTensor d = DeviceTensor::make(device, f32, {0, 1, 1}).value();
  const DeviceTensor t = DeviceTensor::make(device, f32, {1, 1, 1}).value();
  GemmArguments arguments{.A = a, .B = b};
  arguments.epilogue = EpilogueArguments::make(
                           "def f(accum):\n    rows = sum(accum, axis=\"row\")\n"
                           "    s = sum(exp(rows - max(rows, axis=\"column\")), axis=\"column\")\n    D = s * 2\n"
                           "    t = sum(accum, dim=(-3, -2, -1))\n    return D, t\n",
                           {{"D", d.view()}, {"t", t.view()}})
                           .value();
  const KernelList kernels = find_kernels(arguments, hip_, {}, *context_).value();
  auto execution = kernels.begin()->prepare(arguments);
  ASSERT_TRUE(execution) << execution.error().render();
  const DeviceStream stream = DeviceStream::make(device).value();
  ASSERT_TRUE(execution->run(stream));
  const auto done = stream.synchronize();
  ASSERT_TRUE(done) << done.error().render();
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

// Of one row an item or where items lie one behind the other their rows are those of one product.
TEST_F(HipInProcess, NumbersOf64Bits) {
  const Device device = Device::open(Backend::hip, *context_).value();
  const Program program =
      Program::parse("def f(x: u64[\"m\", 3], a: u64):\n    y = a - x // 2\n    return y\n").value();
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  const Tensor x = random(DType::u64, {5, 3}, 7), y = Tensor::make(DType::u64, {5, 3}).value();
  const DeviceTensor there = DeviceTensor::copy_of(device, x).value(),
                     result = DeviceTensor::make(device, DType::u64, {5, 3}).value();
  for (const uint64_t a : {uint64_t{3}, uint64_t{1} << 63, UINT64_MAX - 5}) {
    const auto ran = compiled.run({{"x", there.view()}, {"a", a}, {"y", result.view()}});
    ASSERT_TRUE(ran) << ran.error().render();
    ASSERT_TRUE(result.download(y));
    for (int i = 0; i < 15; ++i)
      EXPECT_EQ(y.view().as<uint64_t>()[i], a - x.view().as<uint64_t>()[i] / 2) << a << " " << i;
  }
}

TEST_F(HipInProcess, ItemsOfABatch) {
  const Device device = Device::open(Backend::hip, *context_).value();
  const Program program =
      Program::parse(
          "def f(x: f16[\"b\", \"s\", 32], w: f16[32, 64], r: f32[\"b\", \"s\", 64], t: f32[\"s\", 16]):\n"
          "    p = x @ w\n    y = relu(p) + r\n    m = max(p, dim=-1)\n"
          "    z = permute(reshape(x @ transpose(transpose(w)), (b, s, 4, 16)), (0, 2, 1, 3)) * t\n"
          "    return y, m, z\n")
          .value();
  const CompiledProgram compiled = compile(program, hip_, {{"b", 8}, {"s", 1}}, *context_).value();
  for (const auto& [b, s] : {std::pair<int64_t, int64_t>{8, 1}, {3, 7}, {1, 5}, {2, 1}}) {
    SCOPED_TRACE(testing::Message() << b << " x " << s);
    std::vector<DeviceTensor> tensors;
    std::vector<NamedArgument> arguments;
    const auto bind = [&](const char* name, DType dtype, const Dims& shape, bool result) {
      const Tensor host = random(dtype, shape, tensors.size() + 7);
      tensors.push_back(DeviceTensor::copy_of(device, host).value());
      EXPECT_TRUE(!result || tensors.back().fill_bytes(0xff));
      arguments.push_back({name, tensors.back().view()});
    };
    bind("x", f16, {b, s, 32}, false), bind("w", f16, {32, 64}, false), bind("r", f32, {b, s, 64}, false);
    bind("t", f32, {s, 16}, false), bind("y", f32, {b, s, 64}, true), bind("m", f32, {b, s, 1}, true);
    bind("z", f32, {b, 4, s, 16}, true);
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

// Reads by indices: an error as on a CPU, with the caller's name for the tensor; or the nearest element, without
// checks.
TEST_F(HipInProcess, IndicesOutOfRange) {
  const Device device = Device::open(Backend::hip, *context_).value();
  const Program program =
      Program::parse(
          "def f(x: f32[\"m\", 4], i: i64[3], u: u64[3, 4], e: f32[6, 4]):\n    y = take(x, i, dim=0)\n"
          "    z = gather(x, u, dim=0)\n    w = take(e, i + 1, dim=0)\n    return y, z, w\n")
          .value();
  const CompiledProgram on_gpu = compile(program, hip_, {}, *context_).value(),
                        on_cpu = compile(program, {Backend::cpu, CpuIsa::generic, {}}, {}, *context_).value();
  const Tensor x = random(f32, {5, 4}, 1), e = random(f32, {6, 4}, 2);
  const Tensor i = Tensor::make(i64, {3}).value(), u = Tensor::make(u64, {3, 4}).value();
  const DeviceTensor dx = DeviceTensor::copy_of(device, x).value(), de = DeviceTensor::copy_of(device, e).value();
  const auto run = [&](const CompiledProgram& compiled, bool checked, std::vector<Tensor>& results) {
    const bool gpu = &compiled == &on_gpu;
    std::vector<DeviceTensor> there;
    results.clear();
    std::vector<NamedArgument> arguments{{"x", gpu ? dx.view() : x.view()}, {"e", gpu ? de.view() : e.view()}};
    there.push_back(DeviceTensor::copy_of(device, i).value());
    there.push_back(DeviceTensor::copy_of(device, u).value());
    arguments.push_back({"i", gpu ? there[0].view() : i.view()});
    arguments.push_back({"u", gpu ? there[1].view() : u.view()});
    for (const char* name : {"y", "z", "w"}) {
      results.push_back(Tensor::make(f32, {3, 4}).value());
      fill_poison(results.back());
      there.push_back(DeviceTensor::copy_of(device, results.back()).value());
      arguments.push_back({name, gpu ? there.back().view() : results.back().view()});
    }
    RunOptions options;
    options.checked = checked;
    const Result<void> ran = compiled.run(arguments, {}, options);
    for (size_t r = 0; gpu && r < 3; ++r) EXPECT_TRUE(there[r + 2].download(results[r]));
    if (ran) return std::string("ran");
    const Diagnostic& first = ran.error().diagnostics().front();
    return std::to_string(first.code) + " " + first.headline + ": " + first.reason;
  };
  std::vector<Tensor> here, there;
  const auto both = [&](const std::string& place, const std::string& told) {
    EXPECT_EQ(run(on_gpu, true, there),
              "618 index " + told + ": it stands at " + place + ", in a run that was enqueued before");
    EXPECT_EQ(run(on_cpu, true, here), "618 index " + told + ": it stands at " + place);
    ASSERT_EQ(run(on_gpu, false, there), "ran");
    ASSERT_EQ(run(on_cpu, false, here), "ran");
    for (size_t r = 0; r < 3; ++r)
      EXPECT_EQ(std::memcmp(here[r].view().data(), there[r].view().data(), 48), 0) << "result " << r << ", " << told;
  };
  std::fill_n(u.view().as<uint64_t>(), 12, uint64_t{4});
  std::fill_n(i.view().as<int64_t>(), 3, int64_t{0});
  ASSERT_EQ(run(on_gpu, true, there), "ran");
  ASSERT_EQ(run(on_cpu, true, here), "ran");
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(std::memcmp(here[r].view().data(), there[r].view().data(), 48), 0);
  u.view().as<uint64_t>()[5] = 9223372036854775813ull;
  both("[1, 1] of u", "9223372036854775813 is out of range for the size 5");
  u.view().as<uint64_t>()[5] = 3;
  i.view().as<int64_t>()[2] = -1;
  both("[2] of i", "-1 is out of range for the size 5");
}

// Writes at indices take tensors as they lie, and tell the caller's names; a scatter without lanes reads no index.
TEST_F(HipInProcess, WritesAtIndices) {
  const Device device = Device::open(Backend::hip, *context_).value();
  const Program program = Program::parse(
                              "def f(x: f32[\"m\", \"n\"], i: i64[\"k\", \"n\"], v: f32[\"k\", \"n\"], j: i32[2], "
                              "w: f32[2, 3], a: f32[4, 3]):\n"
                              "    y = scatter(x, i, v, dim=0, reduce=\"sum\")\n"
                              "    z = index_put(a * 3.0 - 1.0, j, w)\n    return y, z\n")
                              .value();
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  const std::string plan = compiled.emit(Stage::Plan).value();
  EXPECT_EQ(plan.find("Copy{"), std::string::npos) << plan;
  for (const int64_t n : {3, 0}) {
    std::vector<DeviceTensor> there;
    std::vector<NamedArgument> arguments;
    const auto give = [&](const char* name, const Tensor& tensor) {
      there.push_back(DeviceTensor::copy_of(device, tensor).value());
      arguments.push_back({name, there.back().view()});
    };
    // x and y lie transposed.
    const auto turned = [&](const char* name, uint64_t seed) {
      there.push_back(DeviceTensor::copy_of(device, random(f32, {n, 4}, seed)).value());
      arguments.push_back({name, TensorView::make(there.back().data(), f32, {4, n}, {1, 4}).value()});
    };
    turned("x", 1), turned("y", 2);
    const Tensor i = Tensor::make(i64, {3, n}).value(), j = Tensor::make(i32, {2}).value();
    for (int64_t e = 0; e < 3 * n; ++e) i.view().as<int64_t>()[e] = e % 4;
    j.view().as<int32_t>()[0] = 3, j.view().as<int32_t>()[1] = 1;
    give("i", i), give("v", random(f32, {3, n}, 3)), give("j", j), give("w", random(f32, {2, 3}, 4));
    give("a", random(f32, {4, 3}, 5)), give("z", random(f32, {4, 3}, 6));
    const auto ran = compiled.run(arguments);
    ASSERT_TRUE(ran) << n << "\n" << ran.error().render();
    const auto checked = verify(program, arguments, hip_, {.poisoned = true}, *context_);
    ASSERT_TRUE(checked) << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
    if (n == 0) continue;
    i.view().as<int64_t>()[4] = -7;
    ASSERT_TRUE(there[2].upload(i));
    const auto refused = compiled.run(arguments);
    ASSERT_FALSE(refused);
    const Diagnostic& first = refused.error().diagnostics().front();
    EXPECT_EQ(first.code, 618);
    EXPECT_EQ(first.headline, "index -7 is out of range for the size 4");
    EXPECT_EQ(first.reason, "it stands at [1, 1] of i, in a run that was enqueued before");
  }
}

TEST_F(HipInProcess, DeviceMemoryLiesAtMultiplesOf256Bytes) {
  const Device device = Device::open(Backend::hip, *context_).value();
  for (const int64_t bytes : {1, 37, 255, 4000}) {
    const DeviceTensor made = DeviceTensor::make(device, DType::u8, {bytes}).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(made.view().data()) % 256, 0U) << bytes;
  }
}

// What is read by indices and is the same along a row or everywhere: stored by itself, or with each column.
TEST_F(HipInProcess, ReadsByIndicesOfWholeRows) {
  const std::pair<const char*, std::vector<std::pair<std::string, int64_t>>> programs[] = {
      {"def f(x: f32[\"m\", 8], w: f32[8, 70], i: i32[1], j: i32[\"m\", 1]):\n    v = x @ w\n    y = softmax(v)\n"
       "    z = take(v, i, dim=1)\n    u = y - gather(v, j, dim=1)\n    return y, z, u\n",
       {{"m", 7}}},
      {"def f(x: bf16[3, 1, 8], s: f32[1], i: i32[3]):\n    y = x @ transpose(x) * 0.125\n"
       "    z = clamp(x, -2.0, 2.0)\n    w = take(s, i, dim=0)[1:2]\n    return y, z, w\n",
       {}}};
  for (const auto& [text, sizes] : programs) expect_pass(text, sizes);
}

// The largest of a row, written with the sum of exponents whose state has it: over several pieces, whole ones among
// them, where rows are nothing but -inf, and with NaN.
TEST_F(HipInProcess, LargestElementsBesideSumsOfExponents) {
  uint64_t which = 0;
  for (const char* scores :
       {"h * 30.0", "where(c * r > 0.0, h, -inf)", "where(r > 0.0, -inf, h)", "where(c * r > 3.0, nan, h)"}) {
    for (const auto& [m, n] : {std::pair(70, 150), {128, 256}}) {
      const uint64_t turn = which++;
      if (!test::commit_takes(turn + turn / 2, 2)) continue;
      const std::string text = fmt::format(
          "def f(x: bf16[{0}, 16], w: bf16[16, {1}], c: f32[{1}], r: f32[{0}, 1], v: f32[{1}, 8]):\n"
          "    h = cast(x @ w, f32)\n    y = softmax({2} + c * 0.0 + r * 0.0) @ v\n    return y\n",
          m, n, scores);
      expect_pass(text);
    }
  }
}

// Rows of a symbolic number that are taken apart by constants, where they are stored and read.
TEST_F(HipInProcess, HeadsThatShareAreRows) {
  const char* const text =
      "def f(x: f32[\"b\", \"s\", 8], wq: f32[8, 12], wk: f32[8, 3], wh: f32[2, 8, 5]):\n"
      "    q = permute(reshape(x @ wq, (b, s, 4, 3)), (0, 2, 1, 3))\n    k = unsqueeze(x @ wk, 1)\n"
      "    p = softmax(q @ transpose(k))\n    y = reshape(permute(p @ k, (0, 2, 1, 3)), (b, s, 12))\n"
      "    h = relu(unsqueeze(x, 1) @ wh)\n    return y, h\n";
  const Program program = Program::parse(text).value();
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  for (const int64_t s : {1, 5}) expect_pass(program, compiled, {{"b", 2}, {"s", s}});
}

// Products of one A that differ in columns, which are symbols': one compiled program for many of them, none among them.
TEST_F(HipInProcess, ProductsOfOneAThatDifferInColumns) {
  const Program program = Program::parse(
                              "def f(x: f16[\"m\", 64], q: f16[64, \"n\"], k: f16[64, \"o\"], v: f16[64, 24], b: "
                              "f32[\"n\"]):\n    y = relu(x @ q + b)\n    z = cast(x @ k, f16) + cast(arange(o), "
                              "f16)\n    w = x @ v\n    return y, z, w\n")
                              .value();
  const CompiledProgram compiled = compile(program, hip_, {{"m", 4}, {"n", 128}, {"o", 32}}, *context_).value();
  const std::array<int64_t, 3> sizes[] = {{4, 128, 32}, {1, 1, 17}, {70, 129, 1}, {3, 40, 0}, {5, 0, 0}, {0, 16, 8}};
  for (const auto& [m, n, o] : sizes) expect_pass(program, compiled, {{"m", m}, {"n", n}, {"o", o}});
}

// Slices of one row or one column that share their A: the index that is always 0 is one all the same.
TEST_F(HipInProcess, ProductsOfOneAWithSlicesOfOneRowOrColumn) {
  for (const char* const shapes :
       {"x: f32[3, 1], g: f32[3, 1, 12], u: f32[3, 1, 12]", "x: f32[40, 1], g: f32[3, 1, 12], u: f32[3, 1, 12]",
        "x: f32[3, 5], g: f32[3, 5, 1], u: f32[3, 5, 1]"})
    expect_pass(fmt::format("def f({}):\n    y = silu(x @ g[0]) * (x @ u[2])\n    return y\n", shapes));
}

// Slices and the tensor that they are of, which one product takes from its first element on, or what makes A reads.
TEST_F(HipInProcess, ProductsOfOneAWithSlicesInAnyOrder) {
  for (const char* const body :
       {"y = (x @ g[1]) * (x @ g[2]) + x @ g[0]", "h = relu(x + g[0])\n    y = (h @ g[1]) * (h @ g[2])",
        "h = relu(x + g[0])\n    y = (h @ g[2]) * (h @ g[0]) + h @ g[1]"})
    expect_pass(fmt::format("def f(x: f32[16, 16], g: f32[3, 16, 16]):\n    {}\n    return y\n", body));
}

// A program that is compiled for one head runs with several, each of which is split: no load of several columns crosses
// from one to the next.
TEST_F(HipInProcess, PartsOfMoreHeadsThanWereLikely) {
  const Program program = Program::parse(
                              "def f(x: f16[\"m\", 64], w: f16[64, \"h\", 200]):\n"
                              "    z = reshape(x @ reshape(w, (64, h * 200)), (m, h, 200))\n"
                              "    a, b = split(z, 2, dim=-1)\n    r = join(a - b, b + a, dim=-1)\n    return r\n")
                              .value();
  const CompiledProgram compiled = compile(program, hip_, {{"m", 4096}, {"h", 1}}, *context_).value();
  for (const int64_t heads : {1, 2}) expect_pass(program, compiled, {{"m", 33}, {"h", heads}});
}

// What a run resolves behind a size that it computes is looked at before: other kernels take over where those of the
// hinted sizes do not take rows that are aligned less, or no rows at all.
TEST_F(HipInProcess, OtherKernelsTakeOverBehindComputedSizes) {
  const Program program = Program::parse(
                              "def f(x: f16[\"m\", 64], u: f16[\"m\", 64]):\n"
                              "    k = sum(cast(max(x, dim=1, keepdim=False) > 0.0, i64), keepdim=False)\n"
                              "    a = cast(x @ transpose(x) * 0.125, f16)\n"
                              "    b = cast(a * sum(tanh(x[:k]), keepdim=False), f16)\n"
                              "    y = b @ u\n"
                              "    t = sum(cast(max(a, dim=0, keepdim=False) > 0.0, f32), keepdim=False)\n"
                              "    return y, a, t\n")
                              .value();
  const CompiledProgram compiled = compile(program, hip_, {{"m", 64}}, *context_).value();
  for (const int64_t rows : {64, 30, 1, 0}) expect_pass(program, compiled, {{"m", rows}});
}

// What such a size alone decides, no kernel relies on: rows of so many columns that no 16 bytes divide them, and none.
TEST_F(HipInProcess, KernelsRelyOnNoGuessOfAComputedSize) {
  const Device device = Device::open(Backend::hip, *context_).value();
  for (const char* const least : {"0.0", "2.3", "99.0"}) {
    const Program program =
        Program::parse(fmt::format("def f(x: f16[\"m\", 64], d: donated[f32[\"m\", 8]]):\n"
                                   "    h = d * 2.0\n"
                                   "    k = sum(cast(max(x, dim=1, keepdim=False) > {}, i64), keepdim=False)\n"
                                   "    p = cast(x @ transpose(x[:k]) * 0.125, f16)\n"
                                   "    y = p @ x[:k]\n"
                                   "    z = transpose(p) @ x\n"
                                   "    s = sum(sigmoid(sum(x[:k] @ transpose(x), dim=0)))\n"
                                   "    t = sum(z)\n"
                                   "    return h, y, t, s\n",
                                   least))
            .value();
    const CompiledProgram compiled = compile(program, hip_, {{"m", 64}}, *context_).value();
    for (const int64_t rows : {64, 30, 1, 0}) {
      const auto made = test::device_arguments(program, {{"m", rows}}, device, 3).value();
      ASSERT_TRUE(made);
      const auto ran = compiled.run(made->arguments);
      ASSERT_TRUE(ran) << least << ", " << rows << ran.error().render();
      const auto checked = verify(program, made->arguments, hip_, made->how, *context_);
      ASSERT_TRUE(checked) << checked.error().render();
      EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << least << ", " << rows << checked->text;
    }
  }
}

// Each turn reads its sizes anew, and a branch that is not taken none.
TEST_F(HipInProcess, SizesOfBranchesAndLoops) {
  const Device device = Device::open(Backend::hip, *context_).value();
  const std::string text =
      "def some(x, k):\n    return concat(relu(x[:k - 2]), x[k - 2:] * 0.5, dim=0)\n\n"
      "def none(x, k):\n    return x - 1.0\n\n"
      "def more(i, x, k, w, y):\n    return i < 3\n\n"
      "def turn(i, x, k, w, y):\n"
      "    j = i * 2\n"
      "    z = concat(x[:j] @ w, zeros(n - j, 8), dim=0)\n"
      "    return i + 1, x, k, w, y + cond(k > j, some, none, z, k)\n\n"
      "def f(x: f32[\"n\", 8], k: i64[()], w: f32[8, 8]):\n"
      "    i, a, b, c, y = while_loop(more, turn, 0, x, k, w, x)\n    return y\n";
  for (const int64_t n : {4, 9}) expect_pass(text, {{"n", n}});
  const Program program = Program::parse(text).value();
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  const auto made = test::device_arguments(program, {{"n", 3}}, device, 3).value();
  const auto refused = compiled.run(made->arguments);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().render().find("`x[:j]`, line 12, column 16"), std::string::npos)
      << refused.error().render();
}

// What a branch that is not taken would need is not prepared.
TEST_F(HipInProcess, SizesOutOfRangeInABranchThatIsNotTaken) {
  const std::string text =
      "def up(x, a, w):\n"
      "    y = (zeros(n - m, 8) + take(x, arange(n - m), dim=0)) @ w\n"
      "    return concat(a * 2.0, relu(y) @ w + y, dim=0)\n\n"
      "def down(x, a, w):\n    return x\n\n"
      "def f(x: f32[\"n\", 8], a: f32[\"m\", 8], w: f32[8, 8]):\n"
      "    b = relu(x @ w)\n"
      "    z = cond(sum(ones(m), keepdim=False) <= sum(ones(n), keepdim=False), up, down, b, a, w)\n"
      "    y = z @ w + b\n"
      "    return y\n";
  for (const int64_t m : {3, 5, 90}) expect_pass(text, {{"n", 5}, {"m", m}});
  std::string always = text;
  always.replace(always.find("<= sum(ones(n), keepdim=False)"), 30, ">= 0.0");
  const Device device = Device::open(Backend::hip, *context_).value();
  const Program program = Program::parse(always).value();
  const CompiledProgram compiled = compile(program, hip_, {}, *context_).value();
  const auto made = test::device_arguments(program, {{"n", 5}, {"m", 90}}, device, 3).value();
  for (const bool checked : {true, false}) {
    RunOptions options;
    options.checked = checked;
    const auto refused = compiled.run(made->arguments, {}, options);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().render().find("error[E0610]: -m + n must be at least 0"), std::string::npos)
        << refused.error().render();
  }
}

// Random programs with branches, loops and writes at indices: as a CPU runs them, also where a size is 0.
TEST_F(HipInProcess, RandomPrograms) {
  const Device device = Device::open(Backend::hip, *context_).value();
  ContextOptions interpreted;
  interpreted.cache_enabled = false;
  interpreted.no_compiler = true;
  interpreted.threads = 1;
  Context reference = Context::make(interpreted).value();
  // A commit picks three of the full suite's.
  const uint64_t all = 60, count = CODETTA_TEST_FULL ? all : 3;
  const uint64_t first = CODETTA_TEST_FULL ? 1 : 1 + test::commit_slice() % (all / count) * count;
  uint64_t ran = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    test::RandomProgramOptions options;
    options.operations = 3;
    options.control = options.inner_counts = true;
    options.composites = false;
    options.products = seed % 2 == 0;
    options.items = seed % 2 == 1;
    options.donated = 40;
    const test::RandomProgram made = test::random_program(seed, options);
    const Program program = Program::parse(made.text).value();
    // Those of a hint rely on what it says, and others take over.
    const auto on_gpu = compile(program, hip_, seed % 4 < 2 ? made.sizes : decltype(made.sizes)(), *context_);
    const auto on_cpu = compile(program, {Backend::cpu, CpuIsa::generic, {}}, {}, reference);
    ASSERT_TRUE(on_cpu) << made.text << on_cpu.error().render();
    ASSERT_TRUE(on_gpu) << made.text << on_gpu.error().render();
    for (const int64_t less : {int64_t{0}, int64_t{1}, INT64_MAX}) {
      std::vector<std::pair<std::string, int64_t>> sizes;
      for (const auto& [symbol, size] : made.sizes) sizes.emplace_back(symbol, size - std::min(less, size));
      const bool empty = less == INT64_MAX;
      auto on_device = test::device_arguments(program, sizes, device, seed);
      ASSERT_TRUE(on_device) << on_device.error().render();
      if (!*on_device) continue;  // no sizes of that program
      const test::DeviceArguments& there = **on_device;
      std::vector<NamedArgument> here = there.inputs;
      for (size_t i = there.parameters; i < there.host.size(); ++i)
        here.push_back({there.arguments[here.size()].name, there.host[i].view()});
      const std::string what = "seed " + std::to_string(seed) +
                               (empty      ? ", empty\n"
                                : less > 0 ? ", less\n"
                                           : "\n") +
                               made.text;
      const auto expected = on_cpu->run(here), got = on_gpu->run(there.arguments);
      ASSERT_EQ(bool(expected), bool(got)) << what << (got ? expected : got).error().render();
      if (!got) {
        EXPECT_EQ(got.error().code(), expected.error().code()) << what << got.error().render();
        continue;
      }
      ++ran;
      const auto checked = verify(program, there.arguments, hip_, there.how, *context_);
      ASSERT_TRUE(checked) << what << checked.error().render();
      EXPECT_NE(checked->verdict, VerifyReport::Verdict::Fail) << what << checked->text;
    }
  }
  EXPECT_GT(ran, count / 2);
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
