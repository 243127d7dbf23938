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

}  // namespace
}  // namespace codetta
