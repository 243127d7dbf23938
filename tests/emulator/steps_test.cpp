// SPDX-License-Identifier: Apache-2.0
// Host steps on elements: random packages of writes at indices, copies of views and fills, run by runtime/cuda on the
// emulated driver, give the bits of runs on a CPU.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

#include "emit/gpu_steps.hpp"
#include "emulator/compile.hpp"
#include "emulator/driver.hpp"
#include "runtime/cuda/execution.hpp"
#include "runtime/cuda/stream.hpp"
#include "types/dtype.hpp"
#include "unit/runtime/step_program.hpp"

namespace codetta::emulator {
namespace {

using package::ScatterReduce;
using runtime::test::constant;
using runtime::test::StepProgram;

constexpr DType all_types[] = {DType::boolean, DType::i8,  DType::i16,  DType::i32, DType::i64,
                               DType::u8,      DType::u16, DType::u32,  DType::u64, DType::f8e4m3,
                               DType::f8e5m2,  DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType index_types[] = {DType::i8, DType::i16, DType::i32, DType::i64,
                                 DType::u8, DType::u16, DType::u32, DType::u64};

// The device and the kernel of all steps, compiled once for the host.
class EmulatedSteps : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    device_ = new runtime::cuda::DeviceRef(open_device({}).value());
    const package::Kernel kernel = emit::emit_steps_kernel({Backend::cuda, CpuIsa::generic, (*device_)->facts().arch});
    const auto object = Compiler::find().value().compile(kernel.source, kernel.nvrtc_flags);
    ASSERT_TRUE(object) << object.error().render();
    module_ = new runtime::cuda::ModuleRef(runtime::cuda::Module::load(*device_, *object, kernel.name).value());
  }
  static void TearDownTestSuite() {
    delete module_;
    delete device_;
  }

  static Result<runtime::cuda::Execution> prepare(const StepProgram& program, runtime::cuda::GpuOptions options = {}) {
    package::Package package = program.package;
    package.target = {Backend::cuda, CpuIsa::generic, (*device_)->facts().arch};
    emit::add_steps_kernel(package);
    const std::vector<runtime::cuda::ModuleRef> modules(package.kernels.size(), *module_);
    return runtime::cuda::Execution::make(std::make_shared<const package::Package>(std::move(package)), modules,
                                          program.bindings, std::move(options));
  }
  static Result<void> run(const StepProgram& program, runtime::cuda::GpuOptions options = {}) {
    CODETTA_TRY(runtime::cuda::Execution execution, prepare(program, std::move(options)));
    CODETTA_TRY(const runtime::cuda::OwnedStream stream, runtime::cuda::OwnedStream::make(*device_));
    CODETTA_CHECK_OK(execution.run(stream.get()));
    return execution.check();
  }
  // Bytes of `buffer` behind a run on the CPU, and behind one here, from the same beginning.
  static void expect_same(StepProgram& program, uint32_t buffer, const std::string& what) {
    const TensorView& view = program.bindings.tensors[buffer];
    const auto bytes = static_cast<size_t>(view.element_count() * dtype_size(view.dtype()));
    const std::string before(view.as<char>(), bytes);
    const auto on_cpu = program.run();
    ASSERT_TRUE(on_cpu) << what << on_cpu.error().render();
    const std::string expected(view.as<char>(), bytes);
    std::memcpy(view.data(), before.data(), bytes);
    const auto here = run(program);
    ASSERT_TRUE(here) << what << here.error().render();
    EXPECT_EQ(std::string(view.as<char>(), bytes) == expected, true) << what;
  }

  int64_t any(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  template <class T, size_t n>
  T one_of(const T (&list)[n]) {
    return list[static_cast<size_t>(any(0, n - 1))];
  }
  std::vector<double> numbers(DType dtype, const Dims& sizes) {
    int64_t count = 1;
    for (int i = 0; i < sizes.rank(); ++i) count *= sizes[i];
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(any(types::is_signed(dtype) || types::is_float(dtype) ? -40 : 0, 90));
      values.push_back(dtype == DType::boolean  ? static_cast<double>(any(0, 1))
                       : types::is_float(dtype) ? value / 16
                                                : value);
    }
    return values;
  }
  std::vector<double> places(const Dims& sizes, int64_t size) {
    std::vector<double> values = numbers(DType::i32, sizes);
    for (double& value : values) value = static_cast<double>(any(0, size - 1));
    return values;
  }
  Dims sizes(int rank, int64_t most) {
    Dims result;
    for (int i = 0; i < rank; ++i) result.push_back(any(1, most));
    return result;
  }

  static runtime::cuda::DeviceRef* device_;
  static runtime::cuda::ModuleRef* module_;
  std::mt19937 random_{20};
};
runtime::cuda::DeviceRef* EmulatedSteps::device_ = nullptr;
runtime::cuda::ModuleRef* EmulatedSteps::module_ = nullptr;

TEST_F(EmulatedSteps, IndexPutGivesTheBitsOfTheCpu) {
  for (int round = 0; round < 120; ++round) {
    StepProgram p;
    const DType dtype = all_types[round % 15];
    const int rank = static_cast<int>(any(1, 4)), count = static_cast<int>(any(1, std::min(rank, 3)));
    // Some with more elements than a launch has threads, and some with few of them and many indices.
    const Dims target = sizes(rank, round % 10 == 0 ? 40 : 6), positions = sizes(static_cast<int>(any(1, 2)), 9);
    Dims values = positions;
    for (int i = count; i < rank; ++i) values.push_back(target[i]);
    const uint32_t y = p.output("y", dtype, target);
    p.set(y, numbers(dtype, target));
    std::vector<uint32_t> indices;
    for (int n = 0; n < count; ++n)
      indices.push_back(
          p.argument("i" + std::to_string(n), one_of(index_types), positions, places(positions, target[n])));
    const uint32_t x = p.argument("x", dtype, values, numbers(dtype, values));
    const bool adds = any(0, 1) == 1;
    p.put(package::IndexPut{y, indices, x, adds});
    expect_same(p, y, "round " + std::to_string(round) + " " + std::string(dtype_name(dtype)) + (adds ? " +=" : " ="));
    if (HasFatalFailure()) return;
  }
}

TEST_F(EmulatedSteps, ScatterGivesTheBitsOfTheCpu) {
  for (int round = 0; round < 150; ++round) {
    StepProgram p;
    const DType dtype = all_types[round % 15];
    const int rank = static_cast<int>(any(1, 4)), dim = static_cast<int>(any(0, rank - 1));
    const Dims target = sizes(rank, 7);
    Dims index, source;
    for (int i = 0; i < rank; ++i) {
      index.push_back(any(1, i == dim ? 20 : target[i]));
      source.push_back(index[i] + any(0, 2));
    }
    const uint32_t y = p.output("y", dtype, target);
    p.set(y, numbers(dtype, target));
    const uint32_t i = p.argument("i", one_of(index_types), index, places(index, target[dim]));
    const uint32_t x = p.argument("x", dtype, source, numbers(dtype, source));
    const auto reduce = static_cast<ScatterReduce>(round / 15 % 5);
    p.put(package::Scatter{y, i, x, dim, reduce});
    expect_same(p, y,
                "round " + std::to_string(round) + " " + std::string(dtype_name(dtype)) + " how " +
                    std::to_string(static_cast<int>(reduce)));
    if (HasFatalFailure()) return;
  }
}

TEST_F(EmulatedSteps, ExtremesPropagateNan) {
  for (const DType dtype : {DType::f8e4m3, DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const ScatterReduce reduce : {ScatterReduce::Min, ScatterReduce::Max}) {
      StepProgram p;
      const uint32_t y = p.output("y", dtype, {3});
      p.set(y, {1, std::nan(""), 2});
      const uint32_t i = p.argument("i", DType::i32, {4}, {0, 1, 2, 2});
      const uint32_t x = p.argument("x", dtype, {4}, {std::nan(""), 1, 3, 1});
      p.put(package::Scatter{y, i, x, 0, reduce});
      ASSERT_TRUE(run(p));
      const std::vector<double> got = p.values(y);
      EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[1]));
      EXPECT_EQ(got[2], reduce == ScatterReduce::Min ? 1 : 3);
    }
  }
}

TEST_F(EmulatedSteps, CopiesOfViewsAndFillsGiveTheBitsOfTheCpu) {
  for (int round = 0; round < 60; ++round) {
    StepProgram p;
    const DType dtype = all_types[round % 15];
    const Dims sizes{any(1, 9), any(1, 5), any(1, 9)};
    const uint32_t x = p.argument("x", dtype, sizes, numbers(dtype, sizes));
    const uint32_t y = p.output("y", dtype, {sizes[2], sizes[0], sizes[1]});
    const uint32_t part = p.output("part", dtype, sizes);
    const uint32_t turned = p.temporary("turned", dtype, {constant(sizes[2]), constant(sizes[0]), constant(sizes[1])});
    p.package.buffers[turned].strides = {constant(1), constant(sizes[1] * sizes[2]), constant(sizes[2])};
    const uint32_t row = p.temporary("row", dtype, {constant(sizes[0]), constant(sizes[2])});
    p.package.buffers[row].strides = {constant(sizes[1] * sizes[2]), constant(1)};
    p.package.buffers[row].offset = constant(sizes[2] * (sizes[1] - 1) * dtype_size(dtype));
    const uint64_t all = static_cast<uint64_t>(any(1, 1 << 30)) * 0x12345u;
    const uint64_t bits = dtype_size(dtype) == 8 ? all : all & ((uint64_t{1} << (8 * dtype_size(dtype))) - 1);
    p.put(package::Reinterpret{x, turned}, package::Copy{turned, y});
    p.put(package::Fill{part, package::ZeroMode::PerCall, 0}, package::Reinterpret{part, row},
          package::Fill{row, package::ZeroMode::PerCall, dtype == DType::boolean ? 1 : bits});
    expect_same(p, y, "copy, round " + std::to_string(round));
    expect_same(p, part, "fill, round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

// "E0618 headline: reason" of the first diagnostic.
std::string text_of(const Result<void>& result) {
  if (result) return "fine";
  const Diagnostic& d = result.error().diagnostics().front();
  return "E0" + std::to_string(d.code) + " " + d.headline + ": " + d.reason;
}

TEST_F(EmulatedSteps, AnEmptySpaceWritesNothing) {
  StepProgram p;
  const uint32_t y = p.output("y", DType::f32, {3, 0});
  const uint32_t i = p.argument("i", DType::i64, {2}, {0, 1});
  const uint32_t x = p.argument("x", DType::f32, {2, 0});
  p.put(package::IndexPut{y, {i}, x, true});
  EXPECT_TRUE(run(p));
  StepProgram none;
  const uint32_t z = none.output("y", DType::f16, {3});
  none.set(z, {1, 2, 3});
  const uint32_t k = none.argument("i", DType::i64, {0});
  const uint32_t v = none.argument("x", DType::f16, {0});
  none.put(package::Scatter{z, k, v, 0, ScatterReduce::Sum});
  EXPECT_TRUE(run(none));
  EXPECT_EQ(none.values(z), (std::vector<double>{1, 2, 3}));
}

TEST_F(EmulatedSteps, AnIndexTensorWithoutElementsIsNotRead) {
  for (const int dim : {0, 1}) {
    StepProgram p;
    const Dims empty = dim == 0 ? Dims{3, 0} : Dims{0, 3}, target = dim == 0 ? Dims{4, 0} : Dims{0, 4};
    const uint32_t y = p.output("y", DType::f32, target);
    const uint32_t i = p.argument("i", DType::i64, empty), x = p.argument("x", DType::f32, empty);
    for (const uint32_t buffer : {y, i, x})
      p.bindings.tensors[buffer] =
          TensorView::make(nullptr, p.package.buffers[buffer].dtype, buffer == y ? target : empty).value();
    p.put(package::Scatter{y, i, x, dim, ScatterReduce::Sum});
    EXPECT_EQ(text_of(run(p)), "fine") << "dim " << dim;
  }
}

TEST_F(EmulatedSteps, AnIndexOutOfRangeIsToldOnceAndTakenAsTheNearest) {
  StepProgram p;
  const uint32_t y = p.output("y", DType::f32, {3, 2});
  p.set(y, {0, 0, 0, 0, 0, 0});
  const uint32_t i = p.argument("i", DType::i32, {2, 2}, {0, 1, 7, 2});
  const uint32_t x = p.argument("x", DType::f32, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  p.put(package::IndexPut{y, {i}, x, true});
  auto execution = prepare(p);
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_TRUE(execution->looks());
  const auto stream = runtime::cuda::OwnedStream::make(*device_).value();
  ASSERT_TRUE(execution->run(stream.get())) << "a run only enqueues";
  const std::string told =
      "E0618 index 7 is out of range for the size 3: it stands at [1, 0] of i, in a run that was enqueued before";
  EXPECT_EQ(p.values(y), (std::vector<double>{1, 2, 3, 4, 12, 14}));
  EXPECT_EQ(text_of(execution->run(stream.get())), told) << "the next run tells it, and enqueues nothing";
  EXPECT_EQ(p.values(y), (std::vector<double>{1, 2, 3, 4, 12, 14}));
  EXPECT_EQ(text_of(execution->check()), "fine") << "once";
  p.set(i, {0, 1, 2, -1});
  ASSERT_TRUE(execution->run(stream.get()));
  EXPECT_EQ(text_of(execution->check()),
            "E0618 index -1 is out of range for the size 3: it stands at [1, 1] of i, in a run that was enqueued "
            "before");
  p.set(i, {0, 1, 2, 2});
  ASSERT_TRUE(execution->run(stream.get()));
  EXPECT_EQ(text_of(execution->check()), "fine");
}

TEST_F(EmulatedSteps, BoundViewsMayHaveFewerOrMoreDimsOfSize1) {
  StepProgram p;
  const uint32_t y = p.output("y", DType::f32, {2, 3}), i = p.argument("i", DType::i64, {1, 3}, {1, 0, 1});
  const uint32_t x = p.argument("x", DType::f32, {1, 3}, {4, 5, 6});
  p.set(y, {0, 0, 0, 0, 0, 0});
  const auto bind = [&](uint32_t buffer, const Dims& sizes) {
    TensorView& view = p.bindings.tensors[buffer];
    view = TensorView::make(view.data(), view.dtype(), sizes).value();
  };
  bind(y, {1, 2, 3}), bind(i, {3}), bind(x, {1, 1, 1, 3});
  p.put(package::Scatter{y, i, x, 0, ScatterReduce::None});
  EXPECT_EQ(text_of(run(p)), "fine");
  EXPECT_EQ(p.values(y), (std::vector<double>{0, 5, 0, 4, 0, 6}));
  bind(y, {2, 1, 3});
  EXPECT_EQ(text_of(run(p)).substr(0, 5), "E0610");
}

TEST_F(EmulatedSteps, IndicesBeyond63BitsAreToldAsTheyAre) {
  for (const bool scatter : {false, true}) {
    StepProgram p;
    const uint32_t y = p.output("y", DType::f32, {3});
    p.set(y, {0, 0, 0});
    const uint32_t i = p.argument("i", DType::u64, {2}, {0, 1}), x = p.argument("x", DType::f32, {2}, {4, 5});
    p.bindings.tensors[i].as<uint64_t>()[1] = 9223372036854775813u;
    if (scatter) {
      p.put(package::Scatter{y, i, x, 0, ScatterReduce::None});
    } else {
      p.put(StepProgram::check(package::IndexGuard{i, constant(3)}));
    }
    EXPECT_EQ(
        text_of(run(p)),
        "E0618 index 9223372036854775813 is out of range for the size 3: it stands at [1] of i, in a run that was "
        "enqueued before");
    EXPECT_EQ(p.values(y), (scatter ? std::vector<double>{4, 0, 5} : std::vector<double>{0, 0, 0}))
        << "the nearest is the last";
  }
}

// A size lies in device memory: what stands behind it is made in the run, and tells as the rest does.
TEST_F(EmulatedSteps, WhatKernelsBehindASizeFindIsTold) {
  StepProgram p;
  const uint32_t count = p.argument("count", DType::i32, {1}, {2}), y = p.output("y", DType::f32, {8});
  const uint32_t i = p.argument("i", DType::i64, {2}, {0, 9}), x = p.argument("x", DType::f32, {2}, {5, 6});
  const uint32_t part = p.temporary("part", DType::f32, {types::Dim::symbol("n")});
  p.put(package::DefineSymbol{"n", count, 0, package::DefineSymbol::From::Value}, package::Reinterpret{y, part},
        package::IndexPut{part, {i}, x, false});
  auto execution = prepare(p);
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_TRUE(execution->sizes_in_run());
  const auto stream = runtime::cuda::OwnedStream::make(*device_).value();
  const std::string told =
      "E0618 index 9 is out of range for the size 2: it stands at [1] of i, in a run that was enqueued before";
  ASSERT_EQ(text_of(execution->run(stream.get())), "fine");
  EXPECT_EQ(text_of(execution->check()), told);
  EXPECT_EQ(text_of(execution->check()), "fine") << "once";
  ASSERT_EQ(text_of(execution->run(stream.get())), "fine");
  EXPECT_EQ(text_of(execution->run(stream.get())), told) << "by the next run";
  // Another workspace ends what was made; another size makes it anew.
  ASSERT_EQ(text_of(execution->run(stream.get())), "fine");
  alignas(256) std::array<std::byte, 256> memory{};
  ASSERT_TRUE(execution->set_workspace(memory.data(), memory.size()));
  EXPECT_EQ(text_of(execution->check()), told);
  ASSERT_EQ(text_of(execution->run(stream.get())), "fine");
  ASSERT_TRUE(execution->set_workspace(memory.data(), memory.size()));
  EXPECT_EQ(text_of(execution->run(stream.get())), told);
  p.set(count, {3});
  ASSERT_EQ(text_of(execution->run(stream.get())), "fine");
  p.set(count, {4});
  EXPECT_EQ(text_of(execution->run(stream.get())),
            "E0618 index 9 is out of range for the size 3: it stands at [1] of i, in a run that was enqueued before");
  p.set(i, {0, 3});
  ASSERT_EQ(text_of(execution->run(stream.get())), "fine");
  EXPECT_EQ(text_of(execution->check()), "fine");
  EXPECT_EQ(p.values(y)[3], 6);
}

TEST_F(EmulatedSteps, WhatDoesNotFit) {
  StepProgram wide;  // sums of bf16 are formed in a place of their own
  const uint32_t y = wide.output("y", DType::bf16, {1, 1}), i = wide.argument("i", DType::i64, {1}, {0});
  const uint32_t x =
      wide.bound("x", runtime::test::Role::Argument, DType::bf16, {constant(1), types::Dim::symbol("n")}, {1, 1});
  constexpr int64_t much = int64_t{1} << 30;
  wide.package.buffers[y].shape = {types::Dim::symbol("m"), types::Dim::symbol("n")};
  wide.bindings.tensors[y] =
      TensorView::make(wide.bindings.tensors[y].data(), DType::bf16, {much, much}, {0, 0}).value();
  wide.bindings.tensors[x] = TensorView::make(wide.bindings.tensors[x].data(), DType::bf16, {1, much}, {0, 0}).value();
  wide.put(package::DefineSymbol{"m", y, 0, package::DefineSymbol::From::Size},
           package::DefineSymbol{"n", y, 1, package::DefineSymbol::From::Size}, package::IndexPut{y, {i}, x, true});
  EXPECT_EQ(text_of(run(wide, {.checked = false})).substr(0, 5), "E0603");
  StepProgram other;
  const uint32_t z = other.output("z", DType::f32, {4}), j = other.argument("j", DType::i64, {2}, {0, 1});
  const uint32_t v = other.bound("v", runtime::test::Role::Argument, DType::f32, {types::Dim::symbol("k")}, {3});
  other.put(package::DefineSymbol{"k", v, 0, package::DefineSymbol::From::Size}, package::IndexPut{z, {j}, v, false});
  EXPECT_EQ(text_of(run(other)),
            "E0610 v has the wrong shape: what is put at j into z has its shape and that of the rest");
  StepProgram size;
  const uint32_t k =
      size.bound("k", runtime::test::Role::Argument, DType::i64, {types::Dim::symbol("n")}, {3}, {0, 0, 0});
  size.put(package::DefineSymbol{"n", k, 0, package::DefineSymbol::From::Size},
           StepProgram::check(package::IndexGuard{k, types::Dim::symbol("n") * constant(int64_t{1} << 62)}));
  EXPECT_EQ(text_of(run(size)), "E0610 the size that k indexes has no value: it is 4611686018427387904*n");
}

TEST_F(EmulatedSteps, WithoutLanesIndicesAreStillLookedAt) {
  StepProgram p;
  const uint32_t y = p.output("y", DType::f32, {3, 0});
  const uint32_t i = p.argument("i", DType::i64, {2}, {0, 5});
  const uint32_t x = p.argument("x", DType::f32, {2, 0});
  p.put(package::IndexPut{y, {i}, x, true});
  EXPECT_EQ(text_of(run(p)),
            "E0618 index 5 is out of range for the size 3: it stands at [1] of i, in a run that was enqueued before");
}

TEST_F(EmulatedSteps, ChecksOfContents) {
  for (const DType dtype : {DType::f8e5m2, DType::f16, DType::bf16, DType::f32, DType::f64}) {
    StepProgram p;
    const uint32_t x = p.argument("x", dtype, {2, 3}, {1, 2, 3, 4, 5, 6});
    p.put(StepProgram::check(package::NanGuard{x, true, "step 4"}));
    EXPECT_EQ(text_of(run(p)), "fine");
    p.set(x, {1, 2, 3, 4, std::nan(""), 6});
    EXPECT_EQ(text_of(run(p)),
              "E0619 x holds NaN: it stands at [1, 1], in a run that was enqueued before; made by step 4");
    if (dtype == DType::f8e5m2) continue;  // stores saturate
    p.set(x, {1, 2, -INFINITY, 4, 5, 6});
    EXPECT_EQ(text_of(run(p)),
              "E0619 x holds an infinity: it stands at [0, 2], in a run that was enqueued before; made by step 4");
    p.package.steps.clear();
    p.put(StepProgram::check(package::NanGuard{x, false, ""}));
    EXPECT_EQ(text_of(run(p)), "fine") << "an infinity is allowed";
  }
  for (const DType dtype : index_types) {
    StepProgram p;
    const uint32_t i = p.argument("i", dtype, {5}, {0, 1, 2, 3, 4});
    p.put(StepProgram::check(package::IndexGuard{i, constant(5)}));
    EXPECT_EQ(text_of(run(p)), "fine");
    p.package.steps.clear();
    p.put(StepProgram::check(package::IndexGuard{i, constant(4)}));
    EXPECT_EQ(text_of(run(p)),
              "E0618 index 4 is out of range for the size 4: it stands at [4] of i, in a run that was enqueued before");
  }
}

}  // namespace
}  // namespace codetta::emulator
