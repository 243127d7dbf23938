// SPDX-License-Identifier: Apache-2.0
// What run() costs the host above the driver's own launch of the same kernel, and that it allocates nothing. The times
// are printed, and never decide.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "cuda_device/fixture.hpp"
#include "driver/kernel_state.hpp"
#include "driver/program_state.hpp"
#include "runtime/cuda/device.hpp"

namespace {
thread_local bool counting = false;
thread_local long allocations = 0;
}  // namespace

// Counts what this thread takes from the heap while it counts. Not inlined, because a compiler that sees the one but
// not the other takes them for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;  // NOLINT(cppcoreguidelines-no-malloc)
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}  // NOLINT(cppcoreguidelines-no-malloc)
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}  // NOLINT(cppcoreguidelines-no-malloc)

namespace codetta {
namespace {

namespace cu = runtime::cuda;
using Clock = std::chrono::steady_clock;

class DeviceOverhead : public OnGpu {
 protected:
  template <class Run>
  static double microseconds(int times, Run&& run) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) run();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / times;
  }
  static double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  }
};

TEST_F(DeviceOverhead, OfRunAboveABareLaunch) {
  const auto driver = cu::Driver::load().value();
  const auto device = cu::Device::open(driver, 0).value();
  std::string image_name;
  for (const std::string family : {"sm90", "stream", "sm80", "simt", "vendor"}) {
    const Problem p = product(16, 64, 64, bf16);  // short, so that the device never holds the host up
    const KernelList list = kernels(p);
    const auto at = std::find_if(list.begin(), list.end(),
                                 [&](const Kernel& kernel) { return kernel.metadata().family == family; });
    if (at == list.end()) continue;
    const DeviceStream stream = DeviceStream::make(*device_).value();
    auto prepared = (*at).prepare(p.arguments);
    if (!prepared) continue;
    Execution& execution = *prepared;
    for (const bool current : {false, true}) {
      std::optional<cu::ContextGuard> guard;
      if (current) guard.emplace(device->enter().value());
      constexpr int burst = 200;  // fits the stream's queue
      std::vector<double> ours;
      bool fine = true;
      counting = true;
      allocations = 0;
      fine = execution.run(stream).has_value() && fine;
      counting = false;
      EXPECT_EQ(allocations, 0) << family << ": run() allocates nothing";
      for (int round = 0; round < 60; ++round) {
        ours.push_back(microseconds(burst, [&] { fine = execution.run(stream).has_value() && fine; }));
        ASSERT_TRUE(stream.synchronize());
      }
      EXPECT_TRUE(fine);
      std::printf("run() of %-8s %s: %.2f us a call\n", family.c_str(),
                  current ? "context current    " : "context not current", median(ours));
    }
  }
}

// The same entry with the same parameters by the driver alone, in turn with run().
TEST_F(DeviceOverhead, InTurnWithTheDriver) {
  const auto driver = cu::Driver::load().value();
  const auto device = cu::Device::open(driver, 0).value();
  const Problem p = product(16, 64, 64, bf16);
  const KernelList list = kernels(p);
  for (const Kernel& kernel : list) {
    if (kernel.metadata().family != "simt" && kernel.metadata().family != "sm80") continue;
    auto prepared = kernel.prepare(p.arguments);
    if (!prepared) continue;
    const auto package = driver::KernelState::of(kernel).package().value();
    const package::Kernel& emitted = package->kernels[0];
    if (emitted.entries.size() != 1) continue;
    const auto loaded = context_->shared_state()->cuda.load(emitted).value();
    const cu::Function function =
        loaded.module->function(emitted.entries[0].symbol, emitted.entries[0].shared_bytes, 1).value();
    // Parameters of zeros: a problem without rows, which every block leaves at once.
    alignas(64) static std::byte parameters[4096] = {};
    void* pointers[] = {parameters};
    const DeviceStream stream = DeviceStream::make(*device_).value();
    const auto guard = device->enter().value();
    cu::LaunchAttribute attribute{};
    attribute.id = cu::launch_programmatic_serialization;
    attribute.value.flag = 1;
    cu::LaunchConfig config{};
    config.grid_x = config.grid_y = config.grid_z = 1;
    config.block_x = static_cast<unsigned>(emitted.entries[0].threads);
    config.block_y = config.block_z = 1;
    config.dynamic_shared = static_cast<unsigned>(emitted.entries[0].shared_bytes);
    config.stream = static_cast<cu::StreamHandle>(stream.get().handle);
    config.attributes = &attribute;
    config.attribute_count = device->facts().major >= 9 ? 1 : 0;
    constexpr int burst = 200;
    std::vector<double> bare, ours, above;
    bool fine = true;
    for (int round = 0; round < 101; ++round) {
      bare.push_back(microseconds(burst, [&] {
        fine = driver->call().launch_kernel(&config, function.handle, pointers, nullptr) == cu::Status::Success && fine;
      }));
      ASSERT_TRUE(stream.synchronize());
      ours.push_back(microseconds(burst, [&] { fine = prepared->run(stream).has_value() && fine; }));
      ASSERT_TRUE(stream.synchronize());
      above.push_back(ours.back() - bare.back());
    }
    EXPECT_TRUE(fine);
    std::printf("%s: bare cuLaunchKernelEx %.3f us, run() %.3f us, above it %.3f us (median of %zu pairs)\n",
                kernel.metadata().name.c_str(), median(bare), median(ours), median(above), above.size());
    EXPECT_LE(median(above), 2.0) << "microseconds above a bare launch";
    return;
  }
  GTEST_SKIP() << "no kernel of one entry";
}

// A program of twenty kernels by run(), by the driver's own launches of the same entries, and as one CUDA graph. Each
// reads what the one in front wrote, as layers do.
TEST_F(DeviceOverhead, OfAProgramOfTwentyKernels) {
  constexpr int layers = 20;
  const auto driver = cu::Driver::load().value();
  const auto device = cu::Device::open(driver, 0).value();
  for (const DType dtype : {f32, bf16}) {
    const std::string type(dtype_name(dtype));
    std::string text = "def f(x: " + type + "[\"m\", 64], w: " + type + "[64, 64]):\n    h0 = relu(x @ w)\n";
    for (int i = 1; i < layers; ++i) {
      const std::string result = i + 1 == layers ? "y" : "h" + std::to_string(i);
      text += "    " + result + " = relu(cast(h" + std::to_string(i - 1) + ", " + type + ") @ w)\n";
    }
    const auto program = Program::parse(text + "    return y\n", "layers.py").value();
    const CompiledProgram compiled = compile(program, cuda, {{"m", 72}}, *context_).value();
    const auto& package = *CompiledProgram::Access::state(compiled).package;
    std::vector<const package::Kernel*> launched;
    for (const package::Step& step : package.steps) {
      if (const auto* launch = std::get_if<package::LaunchKernel>(&step))
        launched.push_back(&package.kernels[launch->kernel]);
    }
    // Of these families parameters of zeros are a problem without rows, which every block leaves at once.
    const bool leave_at_once = std::all_of(launched.begin(), launched.end(), [](const package::Kernel* kernel) {
      const auto* product = std::get_if<package::GpuGemmConfig>(&kernel->config);
      return kernel->entries.size() == 1 && product != nullptr &&
             (product->family == package::GpuFamily::Simt || product->family == package::GpuFamily::Sm80);
    });
    if (launched.size() != layers || !leave_at_once) {
      std::printf("%s: no %d kernels of one entry that leave at once\n", type.c_str(), layers);
      continue;
    }
    const DeviceTensor
        x = DeviceTensor::make(*device_, dtype, {72, 64}).value(),
        w = DeviceTensor::make(*device_, dtype, {64, 64}).value(),
        y = DeviceTensor::make(*device_, program.outputs()[0].type.starts_with("bf16") ? bf16 : f32, {72, 64}).value();
    Execution execution = compiled.prepare({{"x", x.view()}, {"w", w.view()}, {"y", y.view()}}).value();
    const DeviceStream stream = DeviceStream::make(*device_).value();
    const auto handle = static_cast<cu::StreamHandle>(stream.get().handle);
    const auto guard = device->enter().value();
    alignas(64) static std::byte parameters[4096] = {};
    void* pointers[] = {parameters};
    cu::LaunchAttribute attribute{};
    attribute.id = cu::launch_programmatic_serialization;
    attribute.value.flag = 1;
    std::vector<std::pair<cu::LaunchConfig, cu::FunctionHandle>> entries;
    for (const package::Kernel* kernel : launched) {
      const package::GpuEntry& entry = kernel->entries[0];
      const auto loaded = context_->shared_state()->cuda.load(*kernel).value();
      cu::LaunchConfig config{};
      config.grid_x = config.grid_y = config.grid_z = 1;
      config.block_x = static_cast<unsigned>(entry.threads);
      config.block_y = config.block_z = 1;
      config.dynamic_shared = static_cast<unsigned>(entry.shared_bytes);
      config.stream = handle;
      config.attributes = &attribute;
      config.attribute_count = device->facts().major >= 9 ? 1 : 0;
      entries.emplace_back(config, loaded.module->function(entry.symbol, entry.shared_bytes, 1).value().handle);
    }
    bool fine = execution.run(stream).has_value();
    counting = true;
    allocations = 0;
    fine = execution.run(stream).has_value() && fine;
    counting = false;
    EXPECT_EQ(allocations, 0) << "run() allocates nothing";
    ASSERT_EQ(driver->call().stream_begin_capture(handle, 0), cu::Status::Success);
    fine = execution.run(stream).has_value() && fine;
    cu::GraphHandle graph = nullptr;
    ASSERT_EQ(driver->call().stream_end_capture(handle, &graph), cu::Status::Success);
    cu::GraphExecHandle executable = nullptr;
    ASSERT_EQ(driver->call().graph_instantiate(&executable, graph, 0), cu::Status::Success);
    (void)driver->call().graph_destroy(graph);
    RunOptions as_graph;
    as_graph.graph = true;
    const auto begin = Clock::now();
    Execution one_graph = compiled.prepare({{"x", x.view()}, {"w", w.view()}, {"y", y.view()}}, as_graph).value();
    const double prepared_us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    fine = one_graph.run(stream).has_value() && fine;
    counting = true;
    allocations = 0;
    fine = one_graph.run(stream).has_value() && fine;
    counting = false;
    EXPECT_EQ(allocations, 0) << "run() of a graph allocates nothing";
    constexpr int burst = 10;  // fits the stream's queue
    std::vector<double> bare, ours, above, graphs, as_one, ratio;
    for (int round = 0; round < 201; ++round) {
      bare.push_back(microseconds(burst, [&] {
        for (auto& [config, function] : entries)
          fine = driver->call().launch_kernel(&config, function, pointers, nullptr) == cu::Status::Success && fine;
      }));
      ASSERT_TRUE(stream.synchronize());
      ours.push_back(microseconds(burst, [&] { fine = execution.run(stream).has_value() && fine; }));
      ASSERT_TRUE(stream.synchronize());
      graphs.push_back(microseconds(
          burst, [&] { fine = driver->call().graph_launch(executable, handle) == cu::Status::Success && fine; }));
      ASSERT_TRUE(stream.synchronize());
      as_one.push_back(microseconds(burst, [&] { fine = one_graph.run(stream).has_value() && fine; }));
      ASSERT_TRUE(stream.synchronize());
      above.push_back((ours.back() - bare.back()) / layers);
      ratio.push_back(ours.back() / as_one.back());
    }
    EXPECT_TRUE(fine);
    (void)driver->call().graph_exec_destroy(executable);
    std::printf(
        "%s, %d kernels as one graph (RunOptions::graph): run() %.2f us, one of %.1f without; prepare() %.0f us\n",
        type.c_str(), layers, median(as_one), median(ratio), prepared_us);
    std::printf(
        "%s, %d kernels (%s): bare launches %.2f us, run() %.2f us, %.3f us a launch above them; one graph %.2f us\n",
        type.c_str(), layers, launched.back()->name.c_str(), median(bare), median(ours), median(above), median(graphs));
  }
}

}  // namespace
}  // namespace codetta
