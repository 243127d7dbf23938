// SPDX-License-Identifier: Apache-2.0
// Packages over several devices on pretended drivers, which refuse a launch in the wrong context, memory of another
// device and streams of other contexts, and write down what every piece of work is behind.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "device/gpu/step_abi.h"
#include "runtime/cuda/execution.hpp"
#include "runtime/cuda/stream.hpp"
#include "runtime/hip/driver.hpp"
#include "support/code_object.hpp"
#include "unit/runtime/step_program.hpp"
#include "unit/runtime_cuda/fake_hip.hpp"

namespace codetta::runtime::cuda {
namespace {

using namespace package;
using codetta::test::FakeWork;
using runtime::test::constant;
using From = DefineSymbol::From;

class CudaDevices : public ::testing::TestWithParam<Api> {
 protected:
  void SetUp() override {
    fake_.reset();
    fake_.devices = 3;
    fake_.moves = fake_.looks = true;
    fake_.parameter_bytes = sizeof(codetta::gpu::MoveParams);
    if (GetParam() == Api::Hip) codetta::test::fake_hip(CODETTA_FAKE_HIP).reset();
    driver_ = GetParam() == Api::Hip ? hip::load(CODETTA_FAKE_HIP).value() : Driver::load(CODETTA_FAKE_DRIVER).value();
    std::string image =
        "\x7f"
        "ELFgemm:64 codetta_step_put codetta_step_move codetta_step_look";
    image.resize(256);
    if (GetParam() == Api::Hip) image = codetta::test::make_code_object({{"gemm"}}, image);
    for (int ordinal = 0; ordinal < 3; ++ordinal) {
      devices_.push_back(Device::open(driver_, ordinal).value());
      modules_.push_back(Module::load(devices_.back(), image, "test").value());
    }
    stream_.emplace(OwnedStream::make(devices_[0]).value());
    p_.package.target = {GetParam() == Api::Hip ? Backend::hip : Backend::cuda, CpuIsa::generic,
                         GetParam() == Api::Hip ? "gfx942" : "sm_90a"};
    p_.package.device_count = 3;
    p_.package.kernels.push_back(steps_kernel());
  }
  // What the driver noticed: a context, memory or order that is wrong.
  void TearDown() override { EXPECT_EQ(fake_.wrong, std::vector<std::string>()); }
  static package::Kernel steps_kernel() {
    package::Kernel kernel;
    kernel.name = "steps";
    kernel.config = GpuMapConfig{};
    for (const char* name : {"codetta_step_put", "codetta_step_move", "codetta_step_look"})
      kernel.entries.push_back({GpuEntry::Kind::Phase, static_cast<uint32_t>(kernel.entries.size()), name, 256, 0, 1});
    return kernel;
  }
  // The fake of what the driver stands on.
  codetta::test::FakeDriver& fake_ =
      codetta::test::fake_driver(GetParam() == Api::Hip ? CODETTA_FAKE_LIBCUDA : CODETTA_FAKE_DRIVER);

  // Memory on a device, bound to a buffer of that one.
  uint32_t bound(uint32_t device, const std::string& name, runtime::test::Role role, const Dims& sizes,
                 int ordinal = -1) {
    const uint32_t index =
        role == runtime::test::Role::Output ? p_.output(name, DType::f32, sizes) : p_.argument(name, DType::f32, sizes);
    p_.package.buffers[index].device = device;
    const DeviceRef& on = devices_[ordinal < 0 ? device : static_cast<size_t>(ordinal)];
    TensorView& view = p_.bindings.tensors[index];
    memory_.push_back(DeviceBuffer::make(on, static_cast<size_t>(view.element_count()) * 4).value());
    view = TensorView::make(reinterpret_cast<void*>(memory_.back().address()), DType::f32, sizes).value();
    return index;
  }
  uint32_t in(uint32_t device, const std::string& name, const Dims& sizes = {4, 4}) {
    const uint32_t index = bound(device, name, runtime::test::Role::Argument, sizes);
    std::vector<double> values;
    for (int64_t i = 0; i < p_.bindings.tensors[index].element_count(); ++i) values.push_back(double(i) + 1);
    p_.set(index, values);
    return index;
  }
  uint32_t out(uint32_t device, const std::string& name, const Dims& sizes = {4, 4}) {
    return bound(device, name, runtime::test::Role::Output, sizes);
  }
  uint32_t temporary(uint32_t device, const std::string& name, std::vector<Dim> shape = {constant(4), constant(4)}) {
    const uint32_t index = p_.temporary(name, DType::f32, std::move(shape));
    p_.package.buffers[index].device = device;
    return index;
  }
  // On a device, in the scope that it stands in.
  LaunchKernel kernel(uint32_t x, uint32_t y) {
    LaunchKernel step = p_.copy_kernel(x, y, constant(4), constant(4));
    package::Kernel& kernel = p_.package.kernels.back();
    kernel.config = GpuMapConfig{};
    kernel.entries = {{GpuEntry::Kind::Phase, 0, "gemm", 256, 0, 1}};
    return step;
  }
  template <class... S>
  void on(uint32_t device, S... steps) {
    p_.put(EnterDevice{device}, std::move(steps)..., ExitDevice{});
  }
  Result<Execution> prepare(GpuOptions options = {}, std::vector<int> ordinals = {0, 1, 2}) {
    package_ = std::make_shared<const package::Package>(p_.package);
    const auto of = [&](int ordinal) {
      return std::vector<ModuleRef>(p_.package.kernels.size(), modules_[static_cast<size_t>(ordinal)]);
    };
    options.outside = {p_.options.externs, p_.options.weights};
    for (size_t i = 1; i < ordinals.size(); ++i)
      options.further.push_back({devices_[static_cast<size_t>(ordinals[i])], of(ordinals[i])});
    return Execution::make(package_, of(ordinals[0]), p_.bindings, std::move(options));
  }
  static std::string outcome(const Result<void>& result) {
    if (result) return "ran";
    const Diagnostic& d = result.error().diagnostics().front();
    EXPECT_FALSE(d.help.empty());
    return "E0" + std::to_string(d.code) + " " + d.headline + ": " + d.reason;
  }
  template <class T>
  static std::string refused(const Result<T>& result) {
    return result ? "prepared" : outcome(result.error());
  }
  // Work of the caller's before and behind what `runs` enqueues. Steps of one device, and a copy and the steps of its
  // two devices, keep the order of the list.
  void expect_order(Execution& execution, int runs = 2) {
    codetta::test::FakeLog& order = fake_.log;
    const auto mark = [&] {
      const auto here = DeviceBuffer::make(devices_[0], 256).value();
      ASSERT_TRUE(devices_[0]->fill(here.address(), 0, 256, stream_->get()));
    };
    const size_t first = order.all.size();
    mark();
    for (int run = 0; run < runs; ++run) {
      const auto ran = execution.run(stream_->get());
      ASSERT_TRUE(ran) << ran.error().render();
    }
    mark();
    const size_t last = order.all.size() - 1;
    for (size_t i = first; i <= last; ++i) {
      EXPECT_TRUE(i == first || order.ordered(first, i)) << order.all[i].what << " begins in front of the run";
      EXPECT_TRUE(i == last || order.ordered(i, last)) << order.all[i].what << " is not waited for";
      for (size_t j = i + 1; j <= last; ++j) {
        const FakeWork &earlier = order.all[i], &later = order.all[j];
        const bool share = std::any_of(earlier.devices.begin(), earlier.devices.end(),
                                       [&](int device) { return later.devices.count(device) != 0; });
        EXPECT_TRUE(!share || order.ordered(i, j)) << i << " " << earlier.what << ", " << j << " " << later.what;
      }
    }
  }
  std::vector<float> floats(uint32_t buffer) const {
    const TensorView& view = p_.bindings.tensors[buffer];
    std::vector<float> all(static_cast<size_t>(view.element_count()));
    std::memcpy(all.data(), view.data(), all.size() * sizeof(float));
    return all;
  }

  DriverRef driver_;
  std::vector<DeviceRef> devices_;
  std::vector<ModuleRef> modules_;
  std::optional<OwnedStream> stream_;
  runtime::test::StepProgram p_;
  package::PackageRef package_;
  std::vector<DeviceBuffer> memory_;
};
INSTANTIATE_TEST_SUITE_P(Drivers, CudaDevices, ::testing::Values(Api::Cuda, Api::Hip),
                         [](const auto& param) { return param.param == Api::Hip ? "Hip" : "Cuda"; });

TEST_P(CudaDevices, ACopyBringsTheElements) {
  const uint32_t x = in(0, "x"), y = out(1, "y"), z = out(2, "z");
  p_.put(Copy{x, y}, Copy{y, z});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  expect_order(*execution);
  EXPECT_EQ(floats(y), floats(x));
  EXPECT_EQ(floats(z), floats(x));
}

// Gathered, scattered, both, and into memory whose neighbours stay as they are.
TEST_P(CudaDevices, ACopyOfStridedViews) {
  const uint32_t x = in(0, "x", {6, 8}), y = out(1, "y", {6, 8}), back = out(0, "back", {8, 6});
  const auto view = [&](uint32_t device, const std::string& name, uint32_t of, std::vector<Dim> shape, int64_t row,
                        int64_t col) {
    const uint32_t made = temporary(device, name, std::move(shape));
    p_.package.buffers[made].strides = {constant(row), constant(col)};
    on(device, Reinterpret{of, made});
    return made;
  };
  const uint32_t columns = view(0, "columns", x, {constant(8), constant(6)}, 1, 8);  // x transposed
  const uint32_t half = view(1, "half", y, {constant(6), constant(4)}, 8, 2);        // every other column of y
  const uint32_t some = view(0, "some", x, {constant(6), constant(4)}, 8, 1);        // the first four of x
  p_.put(Copy{some, half});
  const uint32_t there = temporary(1, "there", {constant(8), constant(6)});
  on(1, Allocate{there});
  p_.put(Copy{columns, there}, Copy{there, back});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  std::memset(p_.bindings.tensors[y].data(), 0, 6 * 8 * 4);
  expect_order(*execution);
  for (size_t i = 0; i < 6; ++i) {
    for (size_t j = 0; j < 8; ++j) {
      const float value = float(i * 8 + j) + 1;
      EXPECT_EQ(floats(y)[i * 8 + j], j % 2 == 0 ? float(i * 8 + j / 2) + 1 : 0) << i << " " << j;
      EXPECT_EQ(floats(back)[j * 6 + i], value) << i << " " << j;
    }
  }
}

TEST_P(CudaDevices, RandomStepsKeepTheirOrder) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    p_.package.steps.clear();
    p_.package.step_lists.clear();
    p_.package.buffers.clear();
    p_.package.kernels.resize(1);
    memory_.clear();
    p_.bindings = {};
    std::vector<std::vector<uint32_t>> of(3);
    for (uint32_t device = 0; device < 3; ++device) {
      for (int i = 0; i < 3; ++i) of[device].push_back(out(device, "d" + std::to_string(device) + std::to_string(i)));
    }
    const uint32_t flag = p_.scalar("flag", DType::boolean, 1);
    const auto steps = [&](int count, StepList& list) {
      for (int i = 0; i < count; ++i) {
        const uint32_t device = below(3), other = below(3);
        const uint32_t a = of[device][below(3)], b = of[other][below(3)];
        if (below(2) == 0 && a != b) {
          list.emplace_back(Copy{a, b});
          continue;
        }
        list.emplace_back(EnterDevice{device});
        if (below(2) == 0) {
          list.emplace_back(Fill{a});
        } else {
          list.emplace_back(kernel(of[device][0], of[device][1]));
        }
        list.emplace_back(ExitDevice{});
      }
    };
    steps(5, p_.package.steps);
    StepList child;
    steps(4, child);
    const uint32_t taken = p_.list(std::move(child)), none = p_.list({});
    on(below(3), If{flag, taken, none});
    steps(5, p_.package.steps);
    auto execution = prepare();
    ASSERT_TRUE(execution) << execution.error().render();
    const int records = fake_.log.records;
    const auto copies =
        static_cast<int>(std::count_if(p_.package.steps.begin(), p_.package.steps.end(),
                                       [&](const Step& s) { return std::holds_alternative<Copy>(s); }) +
                         std::count_if(p_.package.step_lists[taken].begin(), p_.package.step_lists[taken].end(),
                                       [&](const Step& s) { return std::holds_alternative<Copy>(s); }));
    expect_order(*execution, 1);
    EXPECT_LE(fake_.log.records - records, 1 + 2 + 2 * copies) << "the run's begin and end, and two a copy";
  }
}

TEST_P(CudaDevices, DevicesRunAtTheSameTime) {
  const uint32_t x = out(0, "x"), y = out(1, "y"), z = out(2, "z");
  on(0, Fill{x});
  on(1, Fill{y});
  p_.put(Copy{x, y});
  on(2, Fill{z});
  on(0, Fill{x});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  codetta::test::FakeLog& order = fake_.log;
  const size_t first = order.all.size();
  const int records = order.records, waits = order.waits;
  ASSERT_TRUE(execution->run(stream_->get()));
  ASSERT_EQ(order.all.size(), first + 5);
  const auto apart = [&](size_t i, size_t j) {
    return !order.ordered(first + i, first + j) && !order.ordered(first + j, first + i);
  };
  EXPECT_TRUE(apart(0, 1));
  EXPECT_TRUE(order.ordered(first, first + 2) && order.ordered(first + 1, first + 2) &&
              order.ordered(first + 2, first + 4));
  EXPECT_TRUE(apart(0, 3) && apart(2, 3) && apart(3, 4)) << "device 2 has no part in the copy";
  EXPECT_EQ(order.records - records, 1 + 2 + 2);
  EXPECT_EQ(order.waits - waits, 2 + 2 + 2);
}

TEST_P(CudaDevices, CopiesInARowWaitOnce) {
  const uint32_t a = in(0, "a"), b = in(0, "b"), c = out(1, "c"), d = out(1, "d"), e = out(0, "e");
  p_.put(Copy{a, c}, Copy{b, d}, Copy{c, e});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  const int records = fake_.log.records;
  ASSERT_TRUE(execution->run(stream_->get()));
  EXPECT_EQ(fake_.log.records - records, 1 + 2 + 2) << "what comes back waits for both, and is waited for";
  expect_order(*execution);
  EXPECT_EQ(floats(e), floats(a));
}

TEST_P(CudaDevices, OneDeviceNeedsNoEvent) {
  p_.package.device_count = 1;
  const uint32_t x = in(0, "x"), y = out(0, "y");
  p_.put(Copy{x, y}, Fill{y}, kernel(x, y));
  auto execution = prepare({}, {0});
  ASSERT_TRUE(execution) << execution.error().render();
  const size_t streams = fake_.streams.size();
  const int events = fake_.events;
  fake_.calls.clear();
  ASSERT_TRUE(execution->run(stream_->get()));
  EXPECT_EQ(fake_.log.records + fake_.log.waits, 0);
  EXPECT_EQ(events, 0);
  EXPECT_EQ(streams, 1U) << "the test's own";
  EXPECT_TRUE(fake_.peers.empty());
}

// Of one GPU each of the program's devices has a stream.
TEST_P(CudaDevices, OneGpuMayBeSeveral) {
  const uint32_t x = in(0, "x"), y = bound(1, "y", runtime::test::Role::Output, {4, 4}, 0);
  const uint32_t z = bound(2, "z", runtime::test::Role::Output, {4, 4}, 0);
  on(1, Fill{y});
  p_.put(Copy{x, y}, Copy{y, z});
  auto execution = prepare({}, {0, 0, 0});
  ASSERT_TRUE(execution) << execution.error().render();
  fake_.log.all.clear();
  ASSERT_TRUE(execution->run(stream_->get()));
  EXPECT_EQ(floats(z), floats(x));
  ASSERT_EQ(fake_.log.all.size(), 3U);
  EXPECT_TRUE(fake_.log.ordered(0, 1) && fake_.log.ordered(1, 2));
  EXPECT_NE(fake_.log.all[1].stream, fake_.log.all[2].stream);
  EXPECT_TRUE(fake_.peers.empty());
}

TEST_P(CudaDevices, DevicesReachEachOtherOnce) {
  const uint32_t x = in(0, "x"), y = out(1, "y");
  p_.put(Copy{x, y});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(prepare());
  EXPECT_EQ(fake_.peers, (std::set<std::pair<int, int>>{{1, 0}})) << "the copy's device, the source's memory";
  EXPECT_EQ(fake_.count("cuCtxEnablePeerAccess"), 1U);
}

TEST_P(CudaDevices, WhoIsNotReachedIsAskedAgain) {
  fake_.fail["cuCtxEnablePeerAccess"] = Status::OutOfMemory;
  devices_[1]->reach(*devices_[0]);
  EXPECT_TRUE(fake_.peers.empty());
  fake_.fail.clear();
  for (int i = 0; i < 3; ++i) devices_[1]->reach(*devices_[0]);
  EXPECT_EQ(fake_.peers, (std::set<std::pair<int, int>>{{1, 0}}));
  EXPECT_EQ(fake_.count("cuCtxEnablePeerAccess"), 2U) << "one that failed, and one that did not";
}

// HIP keeps errors for who asks next: that the process has asked for it before is none of the caller's.
TEST_P(CudaDevices, WhoIsReachedAlreadyIsNoError) {
  devices_[1]->reach(*devices_[0]);
  Device::open(driver_, 1).value()->reach(*devices_[0]);
  EXPECT_EQ(fake_.count("cuCtxEnablePeerAccess"), 2U);
  if (GetParam() == Api::Hip) {
    EXPECT_EQ(codetta::test::fake_hip(CODETTA_FAKE_HIP).last_error, Status::Success);
  }
}

TEST_P(CudaDevices, CopiesNeedNoReach) {
  fake_.can_reach = false;
  const uint32_t x = in(0, "x"), y = out(1, "y");
  p_.put(Copy{x, y});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  ASSERT_TRUE(execution->run(stream_->get()));
  EXPECT_TRUE(fake_.peers.empty());
  EXPECT_EQ(floats(y), floats(x));
}

TEST_P(CudaDevices, MemoryLiesWhereItsBufferSays) {
  const uint32_t x = in(0, "x"), t = temporary(1, "t"), u = temporary(2, "u"), y = out(1, "y");
  Buffer weight{"w", Buffer::Role::Constant, DType::f32, false, {constant(4), constant(4)}, std::string(64, '\1')};
  weight.device = 2;
  p_.package.buffers.push_back(weight);
  const auto w = static_cast<uint32_t>(p_.package.buffers.size() - 1);
  p_.package.pools = {{1, constant(64), 64}};
  p_.put(LoadConstant{w});
  on(1, AllocateFromPool{t, 0, {}}, Fill{t, ZeroMode::Once});
  on(2, Allocate{u}, kernel(w, u));
  p_.put(Copy{x, t}, Copy{u, y});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_EQ(execution->workspace_size(0), 0);
  EXPECT_EQ(execution->workspace_size(1), 256);
  EXPECT_EQ(execution->workspace_size(2), 256);
  EXPECT_EQ(execution->workspace_size(3), 0);
  expect_order(*execution);
  // The caller's is the first one's; there is nothing that it would be for. It comes when nothing is at work.
  ASSERT_TRUE(devices_[0]->synchronize(stream_->get()));
  EXPECT_EQ(outcome(execution->set_workspace(nullptr, 0)), "ran");
  expect_order(*execution);
}

TEST_P(CudaDevices, TheCallersContextStaysCurrent) {
  const uint32_t x = in(0, "x"), y = out(1, "y");
  p_.put(Copy{x, y});
  on(1, Fill{y});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  const auto mine = devices_[2]->enter().value();
  const auto current = [&] {
    ContextHandle now = nullptr;
    EXPECT_EQ(driver_->call().context_get_current(&now), Status::Success);
    return now;
  };
  ASSERT_EQ(current(), devices_[2]->context());
  ASSERT_TRUE(execution->run(stream_->get()));
  EXPECT_EQ(current(), devices_[2]->context());
  fake_.fail_on[1] = Status::LaunchFailed;
  on(1, kernel(y, y));
  auto fails = prepare();
  ASSERT_TRUE(fails) << fails.error().render();
  EXPECT_FALSE(fails->run(stream_->get()));
  EXPECT_EQ(current(), devices_[2]->context());
}

TEST_P(CudaDevices, Refusals) {
  const uint32_t x = in(0, "x"), y = out(1, "y");
  p_.put(Copy{x, y});
  EXPECT_EQ(refused(prepare({}, {0, 1})), "E0642 the program runs on 3 devices: it is given 2");
  const uint32_t z = bound(2, "z", runtime::test::Role::Output, {4, 4}, 1);
  const std::string misplaced = refused(prepare());
  EXPECT_NE(misplaced.find("E0648 z does not lie on device 2, which is device 2 of the program"), std::string::npos)
      << misplaced;
  EXPECT_NE(misplaced.find("memory of device 1"), std::string::npos) << misplaced;
  p_.bindings.tensors[z] = TensorView();
  p_.package.buffers.pop_back();
  p_.bindings.tensors.pop_back();
  // Memory of one device alone is short.
  const uint32_t large = temporary(1, "large", {constant(1024), constant(1024)});
  on(1, Allocate{large}, Fill{large});
  fake_.memory_limit_of[1] = 4096;
  const std::string full = refused(prepare());
  EXPECT_NE(full.find("E0643"), std::string::npos) << full;
  EXPECT_NE(full.find("device = 1"), std::string::npos) << full;
  fake_.memory_limit_of.clear();
  // A stream of another device: nothing is enqueued.
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  const OwnedStream other = OwnedStream::make(devices_[1]).value();
  const size_t before = fake_.log.all.size();
  EXPECT_EQ(outcome(execution->run(other.get())).substr(0, 5), "E0645");
  EXPECT_EQ(fake_.log.all.size(), before);
  EXPECT_FALSE(execution->wrote());
  EXPECT_EQ(std::exchange(fake_.wrong, {}).size(), 1U) << "an event of one device on a stream of another";
  ASSERT_TRUE(execution->run(stream_->get()));
}

TEST_P(CudaDevices, CopyOfAnotherShape) {
  const uint32_t x = in(0, "x", {4, 4}), y = out(1, "y", {2, 8});
  p_.put(Copy{x, y});
  EXPECT_EQ(refused(prepare()).substr(0, 28), "E0610 x has the wrong shape:");
}

TEST_P(CudaDevices, AFailureNamesItsDevice) {
  const uint32_t x = in(1, "x"), y = out(1, "y");
  on(1, kernel(x, y));
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  fake_.fail_on[1] = Status::IllegalAddress;
  const std::string told = outcome(execution->run(stream_->get()));
  EXPECT_EQ(told.substr(0, 5), "E0644") << told;
  EXPECT_NE(told.find("device = 1"), std::string::npos) << told;
}

// Streams of the other devices join the caller's capture, also where a run fails in it.
TEST_P(CudaDevices, ACaptureHoldsAllDevices) {
  const uint32_t x = in(1, "x"), y = out(1, "y"), z = out(0, "z");
  on(1, kernel(x, y));
  p_.put(Copy{y, z});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  const DriverTable& call = driver_->call();
  for (const bool fails : {false, true}) {
    if (fails) fake_.fail_on[1] = Status::LaunchOutOfResources;
    ASSERT_EQ(call.stream_begin_capture(stream_->get(), capture_mode_relaxed), Status::Success);
    const std::string told = outcome(execution->run(stream_->get()));
    EXPECT_EQ(told.substr(0, 5), fails ? "E0650" : "ran") << told;
    GraphHandle graph = nullptr;
    EXPECT_EQ(call.stream_end_capture(stream_->get(), &graph), Status::Success) << "it is still valid";
    EXPECT_EQ(fake_.captured.size(), fails ? 0U : 1U);
    EXPECT_TRUE(fake_.capturing.empty());
    if (graph != nullptr) (void)call.graph_destroy(graph);
  }
  fake_.fail_on.clear();
  expect_order(*execution);
}

// Devices that have begun are joined where the next one does not begin.
TEST_P(CudaDevices, AForkThatFailsInACapture) {
  const uint32_t x = in(0, "x"), y = out(1, "y"), z = out(2, "z");
  p_.put(Copy{x, y}, Copy{x, z});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  const DriverTable& call = driver_->call();
  for (const size_t works : {0U, 1U}) {
    ASSERT_EQ(call.stream_begin_capture(stream_->get(), capture_mode_relaxed), Status::Success);
    fake_.fail["cuStreamWaitEvent"] = Status::Unknown;
    fake_.works_before["cuStreamWaitEvent"] = works;
    fake_.fails_only["cuStreamWaitEvent"] = 1;
    EXPECT_NE(outcome(execution->run(stream_->get())), "ran");
    fake_.fail.clear();
    GraphHandle graph = nullptr;
    EXPECT_EQ(call.stream_end_capture(stream_->get(), &graph), Status::Success) << "it is still valid";
    EXPECT_TRUE(fake_.capturing.empty());
    if (graph != nullptr) (void)call.graph_destroy(graph);
  }
  fake_.works_before.clear();
  fake_.fails_only.clear();
  expect_order(*execution);
}

TEST_P(CudaDevices, OneGraph) {
  const uint32_t x = in(1, "x"), y = out(1, "y"), z = out(0, "z");
  on(1, kernel(x, y));
  p_.put(Copy{y, z}, kernel(z, z));
  auto execution = prepare({.graph = true});
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_TRUE(fake_.capturing.empty());
  fake_.launches.clear();
  const int records = fake_.log.records;
  ASSERT_TRUE(execution->run(stream_->get()));
  EXPECT_EQ(fake_.launches.size(), 2U);
  EXPECT_EQ(fake_.log.records, records) << "the graph has the order inside";
}

// Read on the device that has it, behind what wrote it there.
TEST_P(CudaDevices, SizesAndPredicatesOfAnyDevice) {
  uint32_t one = 0, flag = 0;
  for (const auto& [index, dtype] : {std::pair{&one, DType::i64}, {&flag, DType::boolean}}) {
    *index = p_.argument(dtype == DType::i64 ? "one" : "flag", dtype, {1});
    p_.package.buffers[*index].device = 1;
    memory_.push_back(DeviceBuffer::make(devices_[1], 8).value());
    const uint64_t value = 1;
    std::memcpy(reinterpret_cast<void*>(memory_.back().address()), &value, 8);
    p_.bindings.tensors[*index] =
        TensorView::make(reinterpret_cast<void*>(memory_.back().address()), dtype, {1}).value();
  }
  const uint32_t x = in(0, "x"), y = out(2, "y"), t = temporary(1, "t", {Dim::symbol("n") * constant(4), constant(4)});
  const uint32_t taken = p_.list({Copy{x, y}}), none = p_.list({});
  p_.put(EnterDevice{1}, If{flag, taken, none}, DefineSymbol{"n", one, 0, From::Value}, Allocate{t}, Fill{t},
         EnterDevice{2}, Fill{y}, ExitDevice{}, Free{t}, ExitDevice{}, Copy{x, y});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  expect_order(*execution);
  EXPECT_EQ(floats(y), floats(x));
  EXPECT_EQ(fake_.count("cuMemcpyDtoHAsync_v2"), 4U) << "one predicate and one size a run";
}

TEST_P(CudaDevices, ChecksOfContentsOnTheirDevice) {
  const uint32_t x = in(0, "x"), y = in(1, "y");
  fake_.parameter_bytes = sizeof(codetta::gpu::LookParams);
  p_.put(runtime::test::StepProgram::check(NanGuard{x, false, ""}));
  on(1, runtime::test::StepProgram::check(NanGuard{y, false, ""}));
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  ASSERT_TRUE(execution->looks());
  fake_.launches.clear();
  ASSERT_TRUE(execution->run(stream_->get()));
  ASSERT_EQ(fake_.launches.size(), 2U);
  codetta::gpu::LookParams looks[2];
  for (size_t i = 0; i < 2; ++i) std::memcpy(&looks[i], fake_.launches[i].parameters.data(), sizeof looks[i]);
  EXPECT_NE(looks[0].fault.fault, looks[1].fault.fault);
  EXPECT_EQ(looks[1].data, p_.bindings.tensors[y].data());
  codetta::gpu::Fault& fault = *looks[1].fault.fault;
  fault.value = 1;
  fault.size = -1;
  fault.step = static_cast<uint32_t>(looks[1].fault.number);
  fault.state = 2;
  EXPECT_EQ(outcome(execution->check()).substr(0, 17), "E0619 y holds NaN");
}

// Told in the order of the list, with the device and its stream at rest.
TEST_P(CudaDevices, ObserversSeeAllDevices) {
  const uint32_t x = in(0, "x"), y = out(1, "y"), z = out(2, "z");
  p_.put(Copy{x, y});
  on(2, Fill{z});
  on(1, Fill{y});
  std::string told;
  auto execution =
      prepare({.observer = [&](const StepEvent& event, const Device& device, StreamHandle stream) -> Result<void> {
        told += std::string(name_of(*event.step)) + " " + std::to_string(device.facts().ordinal) + "; ";
        EXPECT_EQ(outcome(device.check_stream(stream)), "ran");
        return {};
      }});
  ASSERT_TRUE(execution) << execution.error().render();
  ASSERT_TRUE(execution->run(stream_->get()));
  EXPECT_EQ(told, "copy 1; fill 2; fill 1; ");
}

struct Called {
  StreamHandle stream = nullptr;
  int ordinal = -1;
};
int note(void* context, const CodettaTensor* inputs, int, CodettaTensor*, int) {
  auto& called = *static_cast<Called*>(context);
  called.stream = static_cast<StreamHandle>(inputs[0].owner);
  called.ordinal = inputs[0].device;
  return 0;
}
TEST_P(CudaDevices, FunctionsGetTheStreamOfTheirDevice) {
  const uint32_t x = in(1, "x"), y = out(1, "y");
  CallExtern call;
  call.name = "note";
  call.inputs = {x};
  call.outputs = {y};
  on(1, call);
  Called called;
  p_.provide("note", note, &called);
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  ASSERT_TRUE(execution->run(stream_->get()));
  ASSERT_NE(called.stream, stream_->get());
  EXPECT_EQ(outcome(devices_[1]->check_stream(called.stream)), "ran");
}

// What it has made is gone with it, on every device.
TEST_P(CudaDevices, NothingIsLeft) {
  const uint32_t x = in(0, "x"), t = temporary(1, "t");
  on(1, Allocate{t});
  p_.put(Copy{x, t});
  const size_t streams = fake_.streams.size(), pieces = fake_.allocations.size();
  {
    auto execution = prepare();
    ASSERT_TRUE(execution) << execution.error().render();
    ASSERT_TRUE(execution->run(stream_->get()));
    EXPECT_EQ(fake_.streams.size(), streams + 2);
    EXPECT_EQ(fake_.events, 3);
  }
  EXPECT_EQ(fake_.streams.size(), streams);
  EXPECT_EQ(fake_.allocations.size(), pieces);
  EXPECT_EQ(fake_.events, 0);
}

}  // namespace
}  // namespace codetta::runtime::cuda
