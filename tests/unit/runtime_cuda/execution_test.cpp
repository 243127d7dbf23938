// SPDX-License-Identifier: Apache-2.0
// Packages with CUDA kernels prepared and run over the pretended driver: grids, parameters, tensor maps, workspace,
// order of calls, and every refusal.
#include "runtime/cuda/execution.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>

#include "device/gpu/abi.h"
#include "runtime/cuda/stream.hpp"
#include "runtime/cuda/tensor_map.hpp"
#include "support/expect_error.hpp"
#include "support/plain_store.hpp"
#include "unit/runtime_cuda/fake_driver.hpp"

namespace codetta::runtime::cuda {
namespace {

using diag::Code;
using package::GpuEntry;
using types::Dim;
using Params = codetta::gpu::Params<0, 1, 1, 0>;

class CudaExecution : public ::testing::Test, public codetta::test::ExpectsErrors {
 protected:
  void SetUp() override {
    fake_.reset();
    fake_.parameter_bytes = sizeof(Params);
    device_ = Device::open(Driver::load(CODETTA_FAKE_DRIVER).value(), 0).value();
    std::string image =
        "\x7f"
        "ELFgemm combine phase";
    image.resize(256);
    module_ = Module::load(device_, image, "test").value();
  }

  // D = A @ B, [m, k] x [k, n] in f32 with one output operand.
  package::Package make_package(int64_t m, int64_t n, int64_t k) {
    package::Package package;
    package.name = "test";
    package.target = {Backend::cuda, CpuIsa::generic, "sm_90a"};
    const auto buffer = [&](const char* name, package::Buffer::Role role, int64_t rows, int64_t cols) {
      package::Buffer made;
      made.name = name;
      made.role = role;
      made.shape = {Dim::constant(rows), Dim::constant(cols)};
      package.buffers.push_back(made);
    };
    buffer("A", package::Buffer::Role::Argument, m, k);
    buffer("B", package::Buffer::Role::Argument, k, n);
    buffer("D", package::Buffer::Role::Output, m, n);
    package::Kernel kernel;
    kernel.name = "codetta_test";
    package::GpuGemmConfig config;
    config.tile_m = config.tile_n = 128;
    config.tile_k = 32;
    config.piece_rows = 64;
    config.piece_cols = 32;
    kernel.config = config;
    kernel.epilogue = codetta::test::plain_store(DType::f32, DType::f32, Dim::constant(m), Dim::constant(n));
    kernel.entries.push_back({GpuEntry::Kind::Gemm, 0, "gemm", 256, 65536, 1});
    package.kernels.push_back(kernel);
    package::LaunchKernel launch;
    package::Product& product = launch.product.emplace();
    product.b = 1;
    launch.m = Dim::constant(m);
    launch.n = Dim::constant(n);
    product.k = Dim::constant(k);
    launch.arguments = {2};
    package.steps.emplace_back(launch);
    return package;
  }
  static package::GpuGemmConfig& config(package::Package& package) {
    return *std::get_if<package::GpuGemmConfig>(&package.kernels[0].config);
  }
  TensorView tensor(const Dims& shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    memory_.push_back(DeviceBuffer::make(device_, static_cast<size_t>(std::max<int64_t>(count, 1) * 4)).value());
    return TensorView::make(reinterpret_cast<void*>(memory_.back().address()), DType::f32, shape).value();
  }
  Bindings bind(int64_t m, int64_t n, int64_t k) {
    Bindings bindings;
    bindings.tensors = {tensor({m, k}), tensor({k, n}), tensor({m, n})};
    return bindings;
  }
  Result<Execution> prepare(const package::Package& package, Bindings bindings) {
    return Execution::make(std::make_shared<const package::Package>(package), {module_}, std::move(bindings));
  }
  test::FakeDriver& fake_ = test::fake_driver(CODETTA_FAKE_DRIVER);
  DeviceRef device_;
  ModuleRef module_;
  std::vector<DeviceBuffer> memory_;
};

TEST_F(CudaExecution, GridAndParameters) {
  const auto package = make_package(300, 200, 70);
  Bindings bindings = bind(300, 200, 70);
  const TensorView a = bindings.tensors[0], d = bindings.tensors[2];
  Execution execution = prepare(package, std::move(bindings)).value();
  EXPECT_EQ(execution.workspace_size(), 0);
  const auto stream = OwnedStream::make(device_).value();
  fake_.calls.clear();
  ASSERT_TRUE(execution.run(stream.get()));
  const std::vector<std::string> expected = {"cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuLaunchKernelEx",
                                             "cuCtxPopCurrent_v2"};
  EXPECT_EQ(fake_.calls, expected) << "a run only enqueues";
  ASSERT_EQ(fake_.launches.size(), 1U);
  const test::FakeLaunch& launch = fake_.launches[0];
  EXPECT_EQ(launch.function, "gemm");
  EXPECT_EQ(launch.config.grid_x, 3U * 2U);
  EXPECT_EQ(launch.config.block_x, 256U);
  EXPECT_EQ(launch.config.dynamic_shared, 65536U);
  EXPECT_EQ(launch.config.stream, stream.get());
  ASSERT_EQ(launch.attributes.size(), 1U);
  EXPECT_EQ(launch.attributes[0].id, launch_programmatic_serialization);
  EXPECT_EQ(fake_.dynamic_shared["gemm"], 65536);
  // No maps and no reductions: one unused entry each, as in device/gpu/abi.h.
  Params params{};
  std::memcpy(&params, launch.parameters.data(), sizeof params);
  EXPECT_EQ(params.problem.a, a.data());
  EXPECT_EQ(params.problem.a_row, 70);
  EXPECT_EQ(params.problem.a_k, 1);
  EXPECT_EQ(params.problem.b_k, 200);
  EXPECT_EQ(params.problem.m, 300);
  EXPECT_EQ(params.problem.cols, 200);
  EXPECT_EQ(params.problem.chunk, 200);
  EXPECT_EQ(params.problem.tiles_m, 3);
  EXPECT_EQ(params.problem.pieces_n, 7);
  EXPECT_EQ(params.problem.k_split, 1);
  EXPECT_EQ(params.problem.k_slice, 96);
  EXPECT_EQ(params.problem.counters, nullptr);
  EXPECT_EQ(params.operand[0].data, d.data());
  EXPECT_EQ(params.operand[0].stride[1], 200);
  EXPECT_EQ(params.operand[0].stride[2], 1);
}

// D = A @ B over items of which each has `rows` rows; A and D have `gap` elements between the items.
TEST_F(CudaExecution, ItemsWithOneBAreFurtherRows) {
  struct Case {
    int64_t items, rows, gap;
    bool folds;
  };
  for (const Case& one : {Case{8, 1, 0, true}, Case{8, 1, 64, true}, Case{4, 37, 0, true}, Case{4, 37, 64, false},
                          Case{1, 37, 0, false}}) {
    SCOPED_TRACE(testing::Message() << one.items << " x " << one.rows << ", gap " << one.gap);
    auto package = make_package(one.rows, 200, 70);
    for (const size_t buffer : {0, 2})
      package.buffers[buffer].shape.insert(package.buffers[buffer].shape.begin(), Dim::constant(one.items));
    auto& launch = *std::get_if<package::LaunchKernel>(&package.steps[0]);
    launch.batch = Dim::constant(one.items);
    package::EpilogueProgram& epilogue = package.kernels[0].epilogue;
    epilogue.arguments[0].shape.insert(epilogue.arguments[0].shape.begin(), Dim::constant(one.items));
    epilogue.operands[0].terms.push_back({package::Axis::Batch, 1, 0, 2, Dim::constant(1)});
    const auto apart = [&](int64_t cols) {
      const int64_t item = one.rows * cols + one.gap;
      const TensorView memory = tensor({one.items * item});
      return TensorView::make(memory.data(), DType::f32, Dims{one.items, one.rows, cols}, Dims{item, cols, 1}).value();
    };
    Bindings bindings;
    bindings.tensors = {apart(70), tensor({70, 200}), apart(200)};
    Execution execution = prepare(package, std::move(bindings)).value();
    fake_.launches.clear();
    ASSERT_TRUE(execution.run(nullptr));
    ASSERT_EQ(fake_.launches.size(), 1U);
    Params params{};
    std::memcpy(&params, fake_.launches[0].parameters.data(), sizeof params);
    const auto& p = params.problem;
    const int64_t items = one.folds ? 1 : one.items, rows = one.folds ? one.items * one.rows : one.rows;
    EXPECT_EQ(p.batches, items);
    EXPECT_EQ(p.m, rows);
    EXPECT_EQ(p.rows, rows);
    EXPECT_EQ(fake_.launches[0].config.grid_x, static_cast<unsigned>(items * ((rows + 127) / 128) * 2));
    // Where an element of A and D lies did not change.
    const auto& d = params.operand[0];
    using Strides = std::array<int64_t, 3>;  // of the batch, of rows; columns
    for (const auto& [batch, row, cols] : {Strides{p.a_batch, p.a_row, 70}, Strides{d.stride[0], d.stride[1], 200}}) {
      for (int64_t i = 0; i < one.items * one.rows; ++i) {
        const int64_t item = i / rows, at = item * batch + i % rows * row;
        EXPECT_EQ(at, i / one.rows * (one.rows * cols + one.gap) + i % one.rows * cols) << i;
      }
    }
  }
}

// Launches run one after the other: what each needs while it runs lies at one place, its counters at its own.
TEST_F(CudaExecution, LaunchesShareWhatTheyNeedWhileTheyRun) {
  auto package = make_package(256, 128, 100);
  config(package).k_split = 3;
  const auto launch = std::find_if(package.steps.begin(), package.steps.end(), [](const package::Step& step) {
    return std::holds_alternative<package::LaunchKernel>(step);
  });
  ASSERT_NE(launch, package.steps.end());
  const package::Step again = *launch;
  package.steps.insert(launch + 1, again);
  Execution execution = prepare(package, bind(256, 128, 100)).value();
  EXPECT_EQ(execution.workspace_size(), 2 * 256 + 2 * 2 * 128 * 128 * 4);
  ASSERT_TRUE(execution.run(nullptr));
  ASSERT_EQ(fake_.launches.size(), 2U);
  Params first{}, second{};
  std::memcpy(&first, fake_.launches[0].parameters.data(), sizeof first);
  std::memcpy(&second, fake_.launches[1].parameters.data(), sizeof second);
  EXPECT_EQ(first.problem.slices, second.problem.slices);
  EXPECT_EQ(
      reinterpret_cast<std::byte*>(second.problem.counters) - reinterpret_cast<std::byte*>(first.problem.counters),
      256);
  EXPECT_EQ(static_cast<std::byte*>(first.problem.slices), reinterpret_cast<std::byte*>(second.problem.counters) + 256);
}

TEST_F(CudaExecution, SplitKHasZeroedCounters) {
  auto package = make_package(256, 128, 100);
  config(package).k_split = 3;
  Execution execution = prepare(package, bind(256, 128, 100)).value();
  // Two tiles of 128 x 128 in two slices of f32 (a third would be empty), and a counter each.
  EXPECT_EQ(execution.workspace_size(), 256 + 2 * 2 * 128 * 128 * 4);
  ASSERT_TRUE(execution.run(nullptr));
  EXPECT_EQ(fake_.launches[0].config.grid_x, 2U * 2U) << "slices are multiples of tile_k: 64 + 36";
  Params seen{};
  std::memcpy(&seen, fake_.launches[0].parameters.data(), sizeof seen);
  EXPECT_EQ(seen.problem.k_split, 2);
  EXPECT_EQ(seen.problem.k_slice, 64);
  ASSERT_NE(seen.problem.counters, nullptr);
  EXPECT_EQ(seen.problem.counters[0] | seen.problem.counters[1], 0U);
  EXPECT_EQ(static_cast<std::byte*>(seen.problem.slices), reinterpret_cast<std::byte*>(seen.problem.counters) + 256);

  const auto own = DeviceBuffer::make(device_, 1 << 20).value();
  auto* memory = reinterpret_cast<void*>(own.address());
  expect(execution.set_workspace(memory, 100), Code::workspace_small, "100 bytes are given");
  expect(execution.set_workspace(nullptr, 1 << 20), Code::tensor_null, "bytes are needed");
  expect(execution.set_workspace(reinterpret_cast<void*>(own.address() + 64), 1 << 19), Code::tensor_misaligned,
         "64 modulo 256");
  alignas(256) static char host[1 << 20];
  expect(execution.set_workspace(host, 1 << 20), Code::pointer_place, "the workspace does not lie on device 0");
  ASSERT_TRUE(execution.set_workspace(memory, 1 << 20));
  ASSERT_TRUE(execution.run(nullptr));
  std::memcpy(&seen, fake_.launches[1].parameters.data(), sizeof seen);
  EXPECT_EQ(seen.problem.counters, memory);
  EXPECT_EQ(seen.problem.counters[0], 0U);
}

// A factor that is packed: the copy's rows begin at multiples of 16 bytes, and the product reads the copy.
TEST_F(CudaExecution, PackedFactors) {
  auto package = make_package(30, 20, 70);
  config(package).pack_a = true;
  config(package).a_k_major = true;
  package.kernels[0].entries.insert(package.kernels[0].entries.begin(),
                                    {GpuEntry::Kind::Pack, 0, "combine", 256, 0, 1});
  const Bindings bindings = bind(30, 20, 70);
  const void* a = bindings.tensors[0].data();
  Execution execution = prepare(package, bindings).value();
  EXPECT_GE(execution.workspace_size(), 30 * 72 * 4);
  fake_.parameter_bytes = sizeof(codetta::gpu::PackParams);
  ASSERT_TRUE(execution.run(nullptr));
  ASSERT_EQ(fake_.launches.size(), 2U);
  codetta::gpu::PackParams packing{};
  std::memcpy(&packing, fake_.launches[0].parameters.data(), sizeof packing);
  const codetta::gpu::Packing& f = packing.factor[0];
  EXPECT_EQ(f.from, a);
  EXPECT_EQ(f.batches, 1);
  EXPECT_EQ(f.slow, 30);
  EXPECT_EQ(f.fast, 70);
  EXPECT_EQ(f.slow_stride, 70);
  EXPECT_EQ(f.fast_stride, 1);
  EXPECT_EQ(f.packed_stride, 72);
  EXPECT_EQ(fake_.launches[0].config.grid_x, 4U);  // 8 rows a block
  EXPECT_EQ(fake_.launches[0].config.grid_y, 1U);
  const void* read = nullptr;
  std::memcpy(&read, fake_.launches[1].parameters.data() + sizeof(codetta::gpu::TensorMap), sizeof read);
  EXPECT_EQ(read, f.to);
}

TEST_F(CudaExecution, ClustersAndPersistence) {
  auto package = make_package(128 * 35, 128 * 7, 64);
  config(package).cluster_m = 2;
  config(package).persistent = true;
  Execution execution = prepare(package, bind(128 * 35, 128 * 7, 64)).value();
  ASSERT_TRUE(execution.run(nullptr));
  EXPECT_EQ(fake_.launches[0].config.grid_x, 66U * 2U) << "as many clusters as fit";
  ASSERT_EQ(fake_.launches[0].attributes.size(), 2U);
  EXPECT_EQ(fake_.launches[0].attributes[0].id, launch_cluster_dimension);
  EXPECT_EQ(fake_.launches[0].attributes[0].value.cluster.x, 2U);
  config(package).persistent = false;
  execution = prepare(package, bind(128 * 35, 128 * 7, 64)).value();
  ASSERT_TRUE(execution.run(nullptr));
  EXPECT_EQ(fake_.launches[1].config.grid_x, 36U * 7U) << "whole clusters";
}

TEST_F(CudaExecution, ReductionsGetTheirBuffersAndKernels) {
  auto package = make_package(100, 70, 64);
  package::Kernel& kernel = package.kernels[0];
  kernel.epilogue.reductions.push_back(
      {package::ReduceKind::LogSumExp, package::ReduceAxis::Row, false, 1, DType::f32, 0, 0});
  kernel.entries.push_back({GpuEntry::Kind::Combine, 0, "combine", 128, 0, 16});
  kernel.entries.push_back({GpuEntry::Kind::Phase, 1, "phase", 128, 0, 1});
  Execution execution = prepare(package, bind(100, 70, 64)).value();
  fake_.parameter_bytes = sizeof(codetta::gpu::Params<0, 1, 1, 1>);
  // Partials: 3 pieces of 100 rows with two values; results: 100. Each on a multiple of 256 bytes.
  EXPECT_EQ(execution.workspace_size(), 2560 + 512);
  ASSERT_TRUE(execution.run(nullptr));
  ASSERT_EQ(fake_.launches.size(), 3U);
  EXPECT_EQ(fake_.launches[1].function, "combine");
  EXPECT_EQ(fake_.launches[1].config.grid_x, 7U);
  EXPECT_EQ(fake_.launches[1].config.grid_y, 1U);
  EXPECT_EQ(fake_.launches[2].function, "phase");
  EXPECT_EQ(fake_.launches[2].config.grid_x, 3U);
  EXPECT_EQ(fake_.launches[2].config.grid_y, 2U);
  codetta::gpu::Params<0, 1, 1, 1> params{};
  ASSERT_EQ(fake_.launches[0].parameters.size(), sizeof params);
  std::memcpy(&params, fake_.launches[0].parameters.data(), sizeof params);
  EXPECT_EQ(static_cast<std::byte*>(params.reduction[0].results),
            static_cast<std::byte*>(params.reduction[0].partials) + 2560);
}

// What is the same for all rows is read before it is seen that there is none.
TEST_F(CudaExecution, AResultOfNoRowsHasRoom) {
  auto package = make_package(0, 70, 64);
  package::Kernel& kernel = package.kernels[0];
  kernel.epilogue.reductions.push_back(
      {package::ReduceKind::Sum, package::ReduceAxis::Row, false, 1, DType::f32, 0, 0});
  kernel.entries.push_back({GpuEntry::Kind::Combine, 0, "combine", 128, 0, 16});
  kernel.entries.push_back({GpuEntry::Kind::Phase, 1, "phase", 128, 0, 1});
  const auto execution = prepare(package, bind(0, 70, 64));
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_EQ(execution->workspace_size(), 256);
}

TEST_F(CudaExecution, TensorMaps) {
  auto package = make_package(256, 384, 64);
  package::GpuGemmConfig& c = config(package);
  c.family = package::GpuFamily::Sm90;
  c.alignment = 16;
  c.b_k_major = false;
  package.kernels[0].maps = {{package::CudaTensorMap::Source::A, 0, 32, 128, 128},
                             {package::CudaTensorMap::Source::B, 0, 32, 32, 128}};
  Execution execution = prepare(package, bind(256, 384, 64)).value();
  fake_.parameter_bytes = sizeof(codetta::gpu::Params<2, 1, 1, 0>);
  ASSERT_EQ(fake_.tensor_maps.size(), 2U);
  EXPECT_EQ(fake_.tensor_maps[0].sizes, (std::vector<uint64_t>{64, 256, 1}));
  EXPECT_EQ(fake_.tensor_maps[0].strides[0], 256U);
  EXPECT_EQ(fake_.tensor_maps[0].box, (std::vector<uint32_t>{32, 128, 1}));
  EXPECT_EQ(fake_.tensor_maps[0].swizzle, 3);
  EXPECT_EQ(fake_.tensor_maps[0].dtype, 7);
  EXPECT_EQ(fake_.tensor_maps[1].sizes, (std::vector<uint64_t>{384, 64, 1}));
  ASSERT_TRUE(execution.run(nullptr));
  codetta::gpu::Params<2, 1, 1, 0> params{};
  std::memcpy(&params, fake_.launches[0].parameters.data(), sizeof params);
  EXPECT_EQ(params.map[1].opaque[0], reinterpret_cast<uintptr_t>(params.problem.b));

  // What the kernel relies on is checked.
  Bindings odd = bind(256, 384, 64);
  odd.tensors[0] = TensorView::make(static_cast<std::byte*>(odd.tensors[0].data()) + 4, DType::f32, {256, 64}).value();
  expect(prepare(package, odd), Code::guard_failed, "no multiple of 16 bytes");
  Bindings strided = bind(256, 384, 64);
  strided.tensors[0] = TensorView::make(tensor({256 * 65}).data(), DType::f32, {256, 64}, {65, 1}).value();
  expect(prepare(package, strided), Code::guard_failed, "its stride in the slower dim is 260 bytes");
  for (const int64_t rows : {int64_t{0}, int64_t{-64}, int64_t{1} << 38}) {  // before the driver is asked
    Bindings one = bind(256, 384, 64);
    one.tensors[0] = TensorView::make(tensor({256 * 64}).data(), DType::f32, {256, 64}, {rows, 1}).value();
    expect(prepare(package, one), Code::guard_failed, "a stride is " + std::to_string(rows * 4) + " bytes");
  }
  Bindings apart = bind(256, 384, 64);
  apart.tensors[1] = TensorView::make(apart.tensors[1].data(), DType::f32, {64, 384}, {1, 64}).value();
  expect(prepare(package, apart), Code::guard_failed, "reads them side by side");
}

// Rows of a column-major result are the fast dim of its map; that they lie side by side is looked at.
TEST_F(CudaExecution, TensorMapsOfColumnMajorTensors) {
  auto package = make_package(256, 384, 64);
  package::GpuGemmConfig& c = config(package);
  c.family = package::GpuFamily::Sm90;
  c.alignment = 16;
  c.b_k_major = false;
  const auto& operands = package.kernels[0].epilogue.operands;
  const auto stored = static_cast<uint32_t>(
      std::find_if(operands.begin(), operands.end(), [](const auto& o) { return o.is_store; }) - operands.begin());
  ASSERT_LT(stored, operands.size());
  package.kernels[0].maps = {{package::CudaTensorMap::Source::Operand, stored, 16, 64, 64, true}};
  const auto out = [](Bindings& bindings) -> TensorView& { return bindings.tensors.back(); };
  Bindings columns = bind(256, 384, 64);
  out(columns) = TensorView::make(out(columns).data(), DType::f32, {256, 384}, {1, 256}).value();
  ASSERT_TRUE(prepare(package, columns));
  ASSERT_EQ(fake_.tensor_maps.size(), 1U);
  EXPECT_EQ(fake_.tensor_maps[0].sizes, (std::vector<uint64_t>{256, 384, 1}));
  EXPECT_EQ(fake_.tensor_maps[0].strides[0], 1024U);
  EXPECT_EQ(fake_.tensor_maps[0].box, (std::vector<uint32_t>{16, 64, 1}));
  EXPECT_EQ(fake_.tensor_maps[0].swizzle, 2);
  expect(prepare(package, bind(256, 384, 64)), Code::guard_failed, "its rows are 384 elements apart");
  auto of_255 = make_package(255, 384, 64);
  config(of_255) = c;
  of_255.kernels[0].maps = package.kernels[0].maps;
  Bindings odd = bind(255, 384, 64);
  out(odd) = TensorView::make(out(odd).data(), DType::f32, {255, 384}, {1, 256}).value();
  expect(prepare(of_255, odd), Code::guard_failed, "its columns have 1020 bytes");
}

TEST_F(CudaExecution, TensorMapConstraintsAreNamed) {
  const Driver& driver = device_->driver();
  const ContextGuard guard = device_->enter().value();
  TensorMap map{};
  bool unaligned = false;
  const TiledView good{"A", static_cast<gpu::u8>(DType::bf16), 4096, 64, 128, 2, 128, 16384, 64, 128, 128};
  EXPECT_TRUE(encode_tiled(driver, good, map, unaligned));
  const auto check = [&](auto change, std::string_view part, bool only_unaligned = false) {
    TiledView view = good;
    change(view);
    unaligned = false;
    expect(encode_tiled(driver, view, map, unaligned), Code::tensor_map, part);
    EXPECT_EQ(unaligned, only_unaligned) << part;
  };
  check([](TiledView& v) { v.address = 4104; }, "8 modulo 16", true);
  check([](TiledView& v) { v.slow_stride = 130; }, "130 bytes; strides are positive multiples of 16", true);
  check([](TiledView& v) { v.slow_stride = 0; }, "strides are positive", true);
  check([](TiledView& v) { v.batch_stride = int64_t{1} << 40; }, "below 2^40", true);
  check([](TiledView& v) { v.fast = (int64_t{1} << 32) + 1; }, "1 to 2^32");
  check([](TiledView& v) { v.slow = 0; }, "0 elements");
  check([](TiledView& v) { v.box_slow = 257; }, "boxes have 1 to 256");
  check([](TiledView& v) { v.box_fast = 4; }, "multiples of 16 bytes");
  check([](TiledView& v) { v.swizzle_bytes = 64; }, "more than the swizzle's 64");
  TiledView single = good;
  single.slow = single.batches = 1;
  single.slow_stride = single.batch_stride = 3;
  EXPECT_TRUE(encode_tiled(driver, single, map, unaligned)) << "strides that are never taken do not matter";
}

TEST_F(CudaExecution, TensorsElsewhere) {
  const auto package = make_package(64, 64, 64);
  Bindings host = bind(64, 64, 64);
  static float numbers[64 * 64];
  host.tensors[1] = TensorView::make(numbers, DType::f32, {64, 64}).value();
  expect(prepare(package, host), Code::pointer_place, "B does not lie on device 0");
  const auto other = Device::open(Driver::load(CODETTA_FAKE_DRIVER).value(), 1).value();
  const auto there = DeviceBuffer::make(other, 64 * 64 * 4).value();
  Bindings foreign = bind(64, 64, 64);
  foreign.tensors[2] = TensorView::make(reinterpret_cast<void*>(there.address()), DType::f32, {64, 64}).value();
  expect(prepare(package, foreign), Code::pointer_place, "memory of device 1");
}

TEST_F(CudaExecution, EmptyProblemsLaunchNothing) {
  Execution execution = prepare(make_package(0, 64, 64), bind(0, 64, 64)).value();
  ASSERT_TRUE(execution.run(nullptr));
  EXPECT_TRUE(fake_.launches.empty());
  execution = prepare(make_package(64, 64, 0), bind(64, 64, 0)).value();
  ASSERT_TRUE(execution.run(nullptr));
  EXPECT_EQ(fake_.launches.size(), 1U) << "without K the epilogue still runs";
}

TEST_F(CudaExecution, Refusals) {
  auto package = make_package(64, 64, 64);
  Bindings wrong = bind(64, 64, 64);
  wrong.tensors[2] = tensor({64, 65});
  expect(prepare(package, wrong), Code::guard_failed, "D does not fit the kernel");
  package.kernels[0].entries[0].symbol = "nothing";
  expect(prepare(package, bind(64, 64, 64)), Code::module_digest, "no kernel nothing");
  package.kernels[0].entries[0].symbol = "gemm";
  package.kernels[0].entries[0].threads = 512;
  expect(prepare(package, bind(64, 64, 64)), Code::launch_limits, "512 threads and registers for 384");
  package.kernels[0].entries[0].threads = 256;
  config(package).k_split = 2;
  fake_.memory_limit = 1000;
  memory_.clear();
  Bindings small;
  small.tensors = {tensor({1, 64}), tensor({64, 1}), tensor({1, 1})};
  auto tiny = make_package(1, 1, 64);
  config(tiny).k_split = 2;
  expect(prepare(tiny, small), Code::device_memory, "cuMemAlloc(bytes = ");
}

// y = x, then -1, through temporaries; the flag decides what w is.
TEST_F(CudaExecution, HostSteps) {
  using namespace package;
  Package p;
  p.name = "steps";
  p.target = {Backend::cuda, CpuIsa::generic, "sm_90a"};
  const auto four = Dim::constant(4);
  p.buffers = {{"x", Buffer::Role::Argument, DType::f32, false, {four}, {}},
               {"y", Buffer::Role::Output, DType::f32, false, {four}, {}},
               {"w", Buffer::Role::Output, DType::f32, false, {four}, {}},
               {"flag", Buffer::Role::Output, DType::boolean, false, {Dim::constant(1)}, {}}};
  for (const char* name : {"a", "b", "c", "d"})
    p.buffers.push_back({name, Buffer::Role::Temporary, DType::f32, false, {four}, {}});
  p.buffers[6].shape = {Dim::constant(2)};
  p.buffers[6].offset = Dim::constant(8);
  p.pools = {{0, Dim::constant(300), 64}};
  p.stream_count = p.event_count = 2;
  p.kernels = make_package(4, 4, 4).kernels;
  p.step_lists = {{Copy{0, 2}}, {Fill{2}}, {}, {Fill{3}}};
  p.steps = {AllocateFromPool{4, 0, Dim::constant(256)},
             Fill{4, ZeroMode::Once, 0xFFFFFFFF},
             Allocate{5},
             EnterStream{1},
             Copy{0, 5},
             ExitStream{},
             RecordEvent{0},
             WaitEvent{0},
             Reuse{5, 7},
             Copy{7, 1},
             Reinterpret{7, 6},
             Fill{6},
             If{3, 0, 1},
             While{2, 3, 3, 5},
             Free{7},
             Free{4},
             Return{}};
  Bindings bindings;
  bindings.tensors = {tensor({4}), tensor({4}), tensor({4}), tensor({4})};
  bindings.tensors[3] = TensorView::make(bindings.tensors[3].data(), DType::boolean, {1}).value();
  auto* x = bindings.tensors[0].as<float>();
  auto* flag = bindings.tensors[3].as<unsigned char>();
  std::iota(x, x + 4, 1.0F);
  const std::vector<float> ones{1, 2, 3, 4};
  Execution execution = prepare(p, bindings).value();
  EXPECT_EQ(execution.workspace_size(), 512 + 256);
  const auto stream = OwnedStream::make(device_).value();
  *flag = 1;
  ASSERT_TRUE(execution.run(stream.get()));
  EXPECT_EQ(std::vector<float>(bindings.tensors[1].as<float>(), bindings.tensors[1].as<float>() + 4), ones);
  EXPECT_EQ(std::vector<float>(bindings.tensors[2].as<float>(), bindings.tensors[2].as<float>() + 4), ones);
  EXPECT_EQ(*flag, 0) << "the loop has run once";
  ASSERT_TRUE(execution.run(stream.get()));
  EXPECT_EQ(bindings.tensors[2].as<float>()[3], 0);
  p.step_lists[3] = {};
  p.steps[13] = While{2, 3, 3, 5};
  *flag = 1;
  execution = prepare(p, bindings).value();
  expect(execution.run(stream.get()), Code::loop_endless, "the loop still runs after 5 iterations");
  fake_.capturing.insert(stream.get());
  expect(execution.run(stream.get()), Code::capture_active, "flag is read on the host");
  fake_.capturing.clear();

  const auto refused = [&](Step step) {
    Package changed = p;
    changed.steps.insert(changed.steps.end() - 3, std::move(step));
    changed.result_count = 1;
    const auto made = prepare(changed, bindings);
    if (made) return std::string("runs");
    EXPECT_EQ(made.error().code(), static_cast<uint16_t>(Code::step_unsupported)) << made.error().render();
    return made.error().diagnostics()[0].headline;
  };
  const auto check = [](auto guard) {
    Step step(std::in_place_type<Check>);
    std::get_if<Check>(&step)->guard.emplace<decltype(guard)>(guard);
    return step;
  };
  EXPECT_EQ(refused(check(NanGuard{0})), "step 14 (check) can not run on cuda:sm_90a");
  EXPECT_EQ(refused(Fill{1, ZeroMode::PerCall, 0x3F800000}), "step 14 (fill) can not run on cuda:sm_90a");
  p.buffers[0].dtype = p.buffers[1].dtype = p.buffers[7].dtype = p.buffers[5].dtype = p.buffers[2].dtype = DType::i32;
  for (const size_t b : {size_t{0}, size_t{1}, size_t{2}})
    bindings.tensors[b] = TensorView::make(bindings.tensors[b].data(), DType::i32, {4}).value();
  EXPECT_EQ(refused(IndexPut{1, {0}, 2, false}), "step 14 (index_put) can not run on cuda:sm_90a");
  EXPECT_EQ(refused(Scatter{1, 0, 2, 0}), "step 14 (scatter) can not run on cuda:sm_90a");
  EXPECT_EQ(refused(check(IndexGuard{0, four})), "step 14 (check) can not run on cuda:sm_90a");
  p.device_count = 2;
  expect(prepare(p, bindings), Code::device_missing, "it is given 1");
}

TEST_F(CudaExecution, LaunchOptionsAreRefused) {
  auto package = make_package(64, 64, 64);
  std::get<package::LaunchKernel>(package.steps[0]).options.cluster = {2, 1, 1};
  expect(prepare(package, bind(64, 64, 64)), Code::step_unsupported,
         "step 0 (launch_kernel) can not run on cuda:sm_90a");
}

TEST_F(CudaExecution, FailedLaunchesAreReported) {
  Execution execution = prepare(make_package(64, 64, 64), bind(64, 64, 64)).value();
  fake_.fail["cuLaunchKernelEx"] = Status::IllegalAddress;
  expect(execution.run(nullptr), Code::device_failed, "cuLaunchKernelEx(codetta_test, stream = ");
  EXPECT_TRUE(fake_.contexts().empty());
}

// A kernel with several launches has written when one of them was made, even if the next one could not be.
TEST_F(CudaExecution, WhatARunThatFailedHasWritten) {
  auto package = make_package(100, 70, 64);
  package::Kernel& kernel = package.kernels[0];
  kernel.epilogue.reductions.push_back(
      {package::ReduceKind::Sum, package::ReduceAxis::Row, false, 1, DType::f32, 0, 0});
  kernel.entries.push_back({GpuEntry::Kind::Combine, 0, "combine", 128, 0, 16});
  kernel.entries.push_back({GpuEntry::Kind::Phase, 1, "phase", 128, 0, 1});
  Execution execution = prepare(package, bind(100, 70, 64)).value();
  fake_.fail["cuLaunchKernelEx"] = Status::OutOfMemory;
  for (const size_t made : {size_t{0}, size_t{1}, size_t{2}, size_t{0}}) {
    SCOPED_TRACE(made);
    fake_.works_before["cuLaunchKernelEx"] = made;
    fake_.launches.clear();
    EXPECT_FALSE(execution.run(nullptr));
    EXPECT_EQ(fake_.launches.size(), made);
    EXPECT_EQ(execution.wrote(), made > 0);
  }
}

}  // namespace
}  // namespace codetta::runtime::cuda
