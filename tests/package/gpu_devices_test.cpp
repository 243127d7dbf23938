// SPDX-License-Identifier: Apache-2.0
// Libraries whose programs use two devices, over the pretended driver, which looks at what is done on which device and
// in what order.
#include <functional>
#include <thread>

#include "package/gpu_devices.hpp"
#include "runtime/cuda/stream.hpp"
#include "unit/runtime_cuda/fake_hip.hpp"

namespace codetta::test {
namespace {

using namespace package;  // NOLINT: all kinds of steps
using runtime::cuda::Status;
using types::Dim;
using Role = Buffer::Role;
constexpr auto f32 = DType::f32;

class GpuDevices : public ::testing::Test {
 protected:
  GpuDevices() {
    gpu_.fake.looks = gpu_.fake.moves = true;
    second_.device = device(1);
    second_.fake.looks = second_.fake.moves = true;
  }
  static runtime::cuda::DeviceRef device(int ordinal) {
    return runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), ordinal).value();
  }
  void load(const std::string& name, const PackageRef& package, bool registered = false) {
    library_.registered = registered;
    ASSERT_EQ(library_.build(name, {package}), "");
    ASSERT_EQ(library_.load(), "");
  }
  // Of a tensor of each argument and output of a package, on its device.
  std::vector<TensorView> tensors(const Package& package, const Sizes& sizes = {}) {
    std::vector<TensorView> views;
    for (const Buffer& buffer : package.buffers) {
      if (buffer.role != Role::Argument && buffer.role != Role::Output) continue;
      Dims shape;
      for (const Dim& dim : buffer.shape) shape.push_back(dim.evaluate(sizes).value());
      views.push_back((buffer.device == 0 ? gpu_ : second_).tensor(buffer.dtype, shape));
    }
    return views;
  }
  static void fill(const TensorView& view, float first) {
    for (int64_t i = 0; i < view.element_count(); ++i) view.as<float>()[i] = first + static_cast<float>(i);
  }
  static std::string differs(const TensorView& a, const TensorView& b) {
    for (int64_t i = 0; i < a.element_count(); ++i) {
      if (a.as<float>()[i] != b.as<float>()[i]) return "element " + std::to_string(i);
    }
    return {};
  }
  // What is alive in the driver.
  auto alive() {
    FakeDriver& f = gpu_.fake;
    return std::tuple(f.allocations.size(), f.modules, f.retained, f.streams.size(), f.events, f.pinned,
                      f.contexts().size());
  }
  [[nodiscard]] std::string wrong() const {
    std::string all;
    for (const std::string& one : gpu_.fake.wrong) all += one + "\n";
    return all;
  }
  int set_further(std::vector<int32_t> ordinals) {
    return library_.symbol<int (*)(const int32_t*, int32_t)>("_set_further_devices")(
        ordinals.data(), static_cast<int32_t>(ordinals.size()));
  }

  FakeGpu gpu_, second_;
  GpuLibrary library_;
};

// The model itself: it notices what these tests would have it notice.
TEST_F(GpuDevices, ThePretendedDriverNoticesWhatIsWrong) {
  const auto one = runtime::cuda::OwnedStream::make(gpu_.device).value(),
             two = runtime::cuda::OwnedStream::make(second_.device).value();
  const auto address = [](const TensorView& view) { return reinterpret_cast<uint64_t>(view.data()); };
  const uint64_t here = address(gpu_.tensor(f32, {8})), there = address(second_.tensor(f32, {8})),
                 more = address(gpu_.tensor(f32, {8}));
  ASSERT_TRUE(gpu_.device->copy(here, more, 32, one.get()));
  EXPECT_EQ(wrong(), "");
  ASSERT_TRUE(second_.device->copy(there, here, 32, two.get()));
  EXPECT_NE(wrong().find("a copy within a device on device 1 uses memory of device 0"), std::string::npos) << wrong();
  EXPECT_NE(wrong().find("does not wait for a copy within a device of another stream"), std::string::npos) << wrong();
  gpu_.fake.wrong.clear();
  ASSERT_TRUE(gpu_.device->copy(here, more, 32, two.get()));
  EXPECT_NE(wrong().find("the stream is of device 1, and the thread is on device 0"), std::string::npos) << wrong();
  gpu_.fake.wrong.clear();
  ASSERT_TRUE(gpu_.device->synchronize(one.get()));
  ASSERT_TRUE(second_.device->synchronize(two.get()));
  ASSERT_TRUE(gpu_.device->copy(here, more, 32, one.get()));
  EXPECT_EQ(wrong(), "") << "the host has waited for both";
}

TEST_F(GpuDevices, TensorsGoThereAndBack) {
  DevicesPackage p = there_and_back();
  const PackageRef package = p.done();
  load("back", package);
  const std::vector<TensorView> views = tensors(*package);
  const auto stream = runtime::cuda::OwnedStream::make(gpu_.device).value();
  const auto before = alive();
  std::optional<decltype(alive())> steady;
  for (int turn = 0; turn < 4; ++turn) {
    fill(views[0], static_cast<float>(100 * turn));
    fill(views[1], static_cast<float>(-100 * turn));
    ASSERT_EQ(library_.call("f", views, nullptr, 0, stream.get()), 0) << library_.error();
    EXPECT_EQ(wrong(), "");
    EXPECT_EQ(differs(views[0], views[2]), "");
    EXPECT_EQ(differs(views[1], views[3]), "");
    if (turn == 1) steady = alive();
    if (turn > 1) {
      EXPECT_EQ(alive(), *steady) << "what a call needs is there for the next one";
    }
  }
  EXPECT_EQ(gpu_.fake.peers.size(), 2U) << "each reaches the other's memory";
  // The first copy waits for what gathers h, the second one for the first; and one event at the begin and the end.
  gpu_.fake.calls.clear();
  ASSERT_EQ(library_.call("f", views, nullptr, 0, stream.get()), 0) << library_.error();
  EXPECT_EQ(gpu_.fake.count("cuEventRecord"), 3U + 2);
  EXPECT_EQ(gpu_.fake.count("cuMemcpyAsync"), 2U);
  EXPECT_EQ(gpu_.fake.count("cuStreamSynchronize"), 0U) << "nothing waits";
  library_.unload();
  EXPECT_EQ(alive(), before) << "unloading gives all of it back";
}

TEST_F(GpuDevices, BytesOfEachDevice) {
  DevicesPackage p = there_and_back();
  const PackageRef package = p.done();
  load("bytes", package);
  const auto on = library_.symbol<int64_t (*)(int32_t)>("_f_workspace_size_on");
  const auto size_of = library_.symbol<int64_t (*)()>("_f_workspace_size");
  ASSERT_NE(on, nullptr);
  EXPECT_EQ(on(0), 4 * 256) << "h, back, and a piece for each, as they lie in columns";
  EXPECT_EQ(on(0), size_of());
  EXPECT_EQ(on(1), 3 * 256) << "rows, turned, and a piece";
  EXPECT_EQ(on(2), -1);
  EXPECT_EQ(library_.error(), "E0701: 2 is no device of the program, which uses 2");
  const std::vector<TensorView> views = tensors(*package);
  const TensorView workspace = gpu_.tensor(DType::u8, {1024});
  ASSERT_EQ(library_.call("f", views, workspace.data(), 1024), 0) << library_.error();
  EXPECT_EQ(wrong(), "");
  EXPECT_EQ(library_.call("f", views, workspace.data(), 1023), -5);
  EXPECT_EQ(library_.error(), "E0611: the workspace is too small: 1023 bytes are given, 1024 are needed on device 0");
}

TEST_F(GpuDevices, ProductsAreLaunchedWhereTheirTensorsLie) {
  Context context = uncached();
  for (const bool registered : {false, true}) {
    for (const int64_t k : {256, 16384}) {  // the latter in slices, with counters
      const auto package = two_stages("cuda:sm_90a", k, context);
      ASSERT_TRUE(package) << package.error().render();
      load("stages" + std::to_string(k), *package, registered);
      const auto before = alive();
      ASSERT_EQ(library_.init(), 0) << library_.error();
      const std::vector<TensorView> views = tensors(**package, {{"m", 64}});
      const auto stream = runtime::cuda::OwnedStream::make(gpu_.device).value();
      for (int turn = 0; turn < 2; ++turn) {
        gpu_.fake.launches.clear();
        ASSERT_EQ(library_.call("f", views, nullptr, 0, stream.get()), 0) << library_.error();
        EXPECT_EQ(wrong(), "");
        ASSERT_GE(gpu_.fake.launches.size(), 2U);
        EXPECT_EQ(gpu_.fake.launches.front().config.stream, stream.get());
        EXPECT_NE(gpu_.fake.launches.back().config.stream, stream.get());
        EXPECT_NE(gpu_.fake.launches.back().config.stream, nullptr);
      }
      EXPECT_TRUE(gpu_.fake.contexts().empty()) << "the thread has its context back";
      library_.unload();
      const auto after = alive();
      EXPECT_EQ(std::get<1>(after), std::get<1>(before));
      EXPECT_EQ(std::get<2>(after), std::get<2>(before));
      EXPECT_EQ(std::get<4>(after), std::get<4>(before));
    }
  }
}

TEST_F(GpuDevices, WhichGpusTheyAre) {
  DevicesPackage p = there_and_back();
  const PackageRef package = p.done();
  load("which", package);
  std::vector<TensorView> views = tensors(*package);
  gpu_.fake.devices = 1;
  EXPECT_EQ(library_.call("f", views), -6);
  EXPECT_EQ(library_.error(),
            "E0642: too few GPUs: the program uses 2 devices, and from device 0 on there are 1; name others, or one "
            "several times, with which_set_further_devices()");
  EXPECT_EQ(set_further({1}), -1);
  EXPECT_EQ(library_.error(), "E0701: 1 is no ordinal of a GPU, of which there are 1");
  EXPECT_EQ(set_further({-1}), -1);
  EXPECT_EQ(set_further(std::vector<int32_t>(64, 0)), -1);
  EXPECT_EQ(library_.error(), "E0701: 64 is no number of further devices: 0 to 63 are possible");
  EXPECT_EQ(library_.symbol<int (*)(const int32_t*, int32_t)>("_set_further_devices")(nullptr, 1), -1);
  EXPECT_EQ(library_.error(), "E0604: the list of devices is null");
  // Both on one GPU, whose memory all of it is.
  ASSERT_EQ(set_further({0}), 0) << library_.error();
  EXPECT_EQ(library_.call("f", views), -1) << "bias lies on another one";
  EXPECT_NE(library_.error().find("E0648: bias does not lie on device 0: its address "), std::string::npos)
      << library_.error();
  views[1] = gpu_.tensor(f32, {4, 6});
  views[3] = gpu_.tensor(f32, {4, 6});
  fill(views[0], 3);
  fill(views[1], 7);
  ASSERT_EQ(library_.call("f", views), 0) << library_.error();
  EXPECT_EQ(wrong(), "");
  EXPECT_EQ(differs(views[0], views[2]), "");
  EXPECT_EQ(differs(views[1], views[3]), "");
  // The other way round: the call is of device 1.
  gpu_.fake.devices = 2;
  gpu_.fake.contexts().push_back(second_.device->context());
  EXPECT_EQ(library_.call("f", views), -1) << library_.error();
  std::swap(views[0], views[1]), std::swap(views[2], views[3]);
  for (size_t i = 0; i < 4; ++i) views[i] = (i % 2 == 0 ? second_ : gpu_).tensor(f32, {4, 6});
  fill(views[0], 3);
  ASSERT_EQ(library_.call("f", views), 0) << library_.error();
  EXPECT_EQ(wrong(), "");
  EXPECT_EQ(differs(views[0], views[2]), "");
  ASSERT_EQ(set_further({}), 0) << library_.error();
  EXPECT_EQ(library_.call("f", views), -6) << "none follows device 1";
  EXPECT_EQ(gpu_.fake.contexts().size(), 1U);
  gpu_.fake.contexts().clear();
}

TEST_F(GpuDevices, TensorsOfTheWrongDevice) {
  DevicesPackage p = there_and_back();
  const PackageRef package = p.done();
  load("places", package);
  std::vector<TensorView> views = tensors(*package);
  views[0] = second_.tensor(f32, {4, 6});
  EXPECT_EQ(library_.call("f", views), -1);
  EXPECT_NE(library_.error().find("E0648: x does not lie on device 0: its address "), std::string::npos)
      << library_.error();
  EXPECT_NE(library_.error().find(" is memory of device 1"), std::string::npos) << library_.error();
  views = tensors(*package);
  views[3] = gpu_.tensor(f32, {4, 6});
  EXPECT_EQ(library_.call("f", views), -1);
  EXPECT_NE(library_.error().find("E0648: kept does not lie on device 1"), std::string::npos) << library_.error();
  EXPECT_TRUE(gpu_.fake.launches.empty());
}

// Branches, loops and sizes: what decides is read where it lies.
TEST_F(GpuDevices, WhatDecidesIsReadWhereItLies) {
  DevicesPackage p;
  const Dim n = Dim::symbol("n");
  const uint32_t count = p.buffer("count", Role::Argument, 1, DType::i32, {}),
                 flag = p.buffer("flag", Role::Argument, 0, DType::boolean, {}),
                 x = p.buffer("x", Role::Argument, 0, f32, {size(8)}),
                 y = p.buffer("y", Role::Output, 0, f32, {size(8)}), z = p.buffer("z", Role::Output, 1, f32, {size(8)}),
                 late = p.buffer("late", Role::Temporary, 1, DType::i32, {}),
                 moved = p.buffer("moved", Role::Temporary, 1, DType::boolean, {}),
                 part = p.buffer("part", Role::Temporary, 0, f32, {n}),
                 there = p.buffer("there", Role::Temporary, 1, f32, {n}),
                 end = p.buffer("end", Role::Temporary, 1, f32, {n}),
                 inner = p.buffer("inner", Role::Temporary, 1, f32, {size(8)});
  p.made.pools = {{1, size(256), 64}, {1, n * size(4), 64}};
  p.made.step_lists = {{EnterDevice{1}, Allocate{inner}, Fill{inner, ZeroMode::PerCall, 0x40400000}, ExitDevice{},
                        Copy{inner, y}, Free{inner}},
                       {Copy{x, y}},
                       {},
                       {EnterDevice{1}, Fill{moved, ZeroMode::PerCall, 0}, ExitDevice{}}};
  p.put_on_one(AllocateFromPool{late, 0, {}}, Copy{count, late}, AllocateFromPool{moved, 0, size(64)},
               Fill{z, ZeroMode::PerCall, 0}, DefineSymbol{"n", late, 0, DefineSymbol::From::Value});
  p.put(Check{RangeGuard{n, size(0), size(8), "`x[:n]`"}}, Reinterpret{x, part});
  p.put_on_one(AllocateFromPool{there, 1, {}});
  p.put(Copy{part, there});
  p.put_on_one(Reinterpret{z, end}, Copy{there, end}, Free{there});
  p.put(Copy{flag, moved});
  p.put_on_one(If{moved, 0, 1});
  p.put_on_one(While{2, moved, 3});
  p.put_on_one(Free{late}, Free{moved});
  p.put(Return{});
  const PackageRef package = p.done();
  load("decides", package);
  const std::vector<TensorView> views = tensors(*package);
  fill(views[2], 11);
  for (const int32_t wanted : {3, 8, 0}) {
    *views[0].as<int32_t>() = wanted;
    *views[1].as<bool>() = wanted == 8;
    ASSERT_EQ(library_.call("f", views), 0) << library_.error();
    EXPECT_EQ(wrong(), "");
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(views[4].as<float>()[i], i < wanted ? static_cast<float>(i + 11) : 0) << i;
      EXPECT_EQ(views[3].as<float>()[i], wanted == 8 ? 3 : static_cast<float>(i + 11)) << i;
    }
  }
  *views[0].as<int32_t>() = 9;
  EXPECT_EQ(library_.call("f", views), -2);
  EXPECT_EQ(library_.error(), "E0610: n is 9, outside of 0 to 8; `x[:n]`");
  EXPECT_TRUE(gpu_.fake.contexts().empty());
}

TEST_F(GpuDevices, ConstantsAndChecksOfEachDevice) {
  DevicesPackage p;
  const uint32_t x = p.buffer("x", Role::Argument, 0, DType::i64, {size(4)}),
                 near = p.buffer("near", Role::Output, 0, DType::i64, {size(4)}),
                 far = p.buffer("far", Role::Output, 1, DType::i64, {size(4)}),
                 one = p.buffer("one", Role::Constant, 0, DType::i64, {size(4)}),
                 two = p.buffer("two", Role::Constant, 1, DType::i64, {size(4)}),
                 there = p.buffer("there", Role::Temporary, 1, DType::i64, {size(4)});
  const int64_t values[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  p.made.buffers[one].constant.assign(reinterpret_cast<const char*>(values[0]), sizeof values[0]);
  p.made.buffers[two].constant.assign(reinterpret_cast<const char*>(values[1]), sizeof values[1]);
  p.put(LoadConstant{one}, Copy{one, near});
  p.put_on_one(LoadConstant{two}, Copy{two, far}, Allocate{there});
  p.put(Copy{x, there});
  Step look(std::in_place_type<Check>);
  std::get_if<Check>(&look)->guard.emplace<IndexGuard>(IndexGuard{there, size(4)});
  p.put_on_one(look);
  p.put(Return{});
  const PackageRef package = p.done();
  load("constants", package);
  std::vector<TensorView> views = tensors(*package);
  ASSERT_EQ(library_.call("f", views), 0) << library_.error();
  EXPECT_EQ(wrong(), "");
  EXPECT_EQ(std::memcmp(views[1].data(), values[0], sizeof values[0]), 0);
  EXPECT_EQ(std::memcmp(views[2].data(), values[1], sizeof values[1]), 0);
  ASSERT_EQ(gpu_.fake.launches.back().function, "codetta_step_look");
  gpu::LookParams params{};
  std::memcpy(&params, gpu_.fake.launches.back().parameters.data(), sizeof params);
  *params.fault.fault = {2, static_cast<uint32_t>(params.fault.number), 0, 0, 1, 9, 4};
  EXPECT_EQ(library_.symbol<int (*)(void*)>("_f_check_contents")(nullptr), -1);
  EXPECT_EQ(library_.error(),
            "E0618: index 9 is out of range for the size 4; it stands 1 elements behind the first of there, in an "
            "earlier call");
  *params.fault.fault = {2, static_cast<uint32_t>(params.fault.number), 0, 0, 1, 9, 4};
  EXPECT_EQ(library_.call("f", views), -1) << "or by the next call";
  EXPECT_EQ(library_.call("f", views), 0) << library_.error();
  // Both on one GPU have constants of their own, too.
  ASSERT_EQ(set_further({0}), 0);
  views[2] = gpu_.tensor(DType::i64, {4});
  ASSERT_EQ(library_.call("f", views), 0) << library_.error();
  EXPECT_EQ(std::memcmp(views[2].data(), values[1], sizeof values[1]), 0);
  EXPECT_EQ(wrong(), "");
}

// Whatever fails, the thread has its context back, later calls work, and unloading leaves nothing.
TEST_F(GpuDevices, CallsOfTheDriverThatFail) {
  DevicesPackage p = there_and_back();
  const PackageRef package = p.done();
  load("fails", package);
  const std::vector<TensorView> views = tensors(*package);
  library_.unload();
  const auto before = alive();
  size_t failed = 0, on_one = 0;
  for (const char* symbol : {"cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuEventCreate",
                             "cuStreamCreate", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyAsync", "cuMemAlloc_v2",
                             "cuModuleLoadData", "cuLaunchKernelEx", "cuPointerGetAttributes", "cuCtxGetDevice"}) {
    for (size_t works = 0;; ++works) {
      SCOPED_TRACE(std::string(symbol) + " works " + std::to_string(works) + " times");
      ASSERT_EQ(library_.load(), "");
      gpu_.fake.wrong.clear();
      gpu_.fake.fail[symbol] = Status::Unknown;
      gpu_.fake.works_before[symbol] = works;
      const int status = library_.call("f", views);
      gpu_.fake.fail.clear();
      EXPECT_TRUE(gpu_.fake.contexts().empty());
      gpu_.fake.contexts().clear();
      failed += status != 0 ? 1 : 0;
      on_one +=
          library_.error().find("on device 1 of the program, which is Pretended GPU 1, device 1") != std::string::npos
              ? 1
              : 0;
      fill(views[0], static_cast<float>(works));
      EXPECT_EQ(library_.call("f", views), 0) << library_.error();
      EXPECT_EQ(differs(views[0], views[2]), "");
      EXPECT_EQ(wrong(), "");
      library_.unload();
      ASSERT_EQ(alive(), before);
      if (status == 0) break;
      ASSERT_LT(works, 100U);
    }
  }
  EXPECT_GT(failed, 40U);
  EXPECT_GT(on_one, 5U);
}

// Also in a part behind a size that the call computes, which lies in the others.
TEST_F(GpuDevices, AFailureNamesItsDeviceOnce) {
  DevicesPackage p;
  const Dim n = Dim::symbol("n");
  const uint32_t count = p.buffer("count", Role::Argument, 1, DType::i32, {}),
                 late = p.buffer("late", Role::Temporary, 1, DType::i32, {}),
                 there = p.buffer("there", Role::Temporary, 1, f32, {n});
  p.put_on_one(Allocate{late}, Copy{count, late}, DefineSymbol{"n", late, 0, DefineSymbol::From::Value},
               Allocate{there}, Fill{there}, Free{there}, Free{late});
  p.put(Return{});
  const PackageRef package = p.done();
  load("once", package);
  const std::vector<TensorView> views = tensors(*package);
  *views[0].as<int32_t>() = 3;
  gpu_.fake.fail["cuMemsetD8Async"] = Status::Unknown;
  EXPECT_EQ(library_.call("f", views), -8);
  const std::string told = library_.error(),
                    device = "; on device 1 of the program, which is Pretended GPU 1, device 1";
  EXPECT_EQ(told.find("; on device"), told.size() - device.size()) << told;
  EXPECT_TRUE(told.ends_with(device)) << told;
  gpu_.fake.fail.clear();
  EXPECT_EQ(library_.call("f", views), 0) << library_.error();
}

// Copies are right without it; what has failed is tried again.
TEST_F(GpuDevices, WhoIsNotReachedIsAskedAgain) {
  DevicesPackage p = there_and_back();
  const PackageRef package = p.done();
  load("reaches", package);
  const std::vector<TensorView> views = tensors(*package);
  gpu_.fake.fail["cuCtxEnablePeerAccess"] = Status::OutOfMemory;
  ASSERT_EQ(library_.call("f", views), 0) << library_.error();
  EXPECT_TRUE(gpu_.fake.peers.empty());
  gpu_.fake.fail.clear();
  gpu_.fake.calls.clear();
  for (int turn = 0; turn < 3; ++turn) ASSERT_EQ(library_.call("f", views), 0) << library_.error();
  EXPECT_EQ(gpu_.fake.peers.size(), 2U);
  EXPECT_EQ(gpu_.fake.count("cuCtxEnablePeerAccess"), 2U) << "once each way";
}

// A call that fails where the other device would begin leaves the capture of its stream valid.
TEST_F(GpuDevices, AForkThatFailsInACapture) {
  DevicesPackage p;
  const uint32_t x = p.buffer("x", Role::Argument, 0, f32, {size(8)}),
                 y = p.buffer("y", Role::Output, 1, f32, {size(8)});
  p.put(Copy{x, y}, Return{});
  const PackageRef package = p.done();
  load("forks", package);
  const std::vector<TensorView> views = tensors(*package);
  const auto stream = runtime::cuda::OwnedStream::make(gpu_.device).value();
  ASSERT_EQ(library_.call("f", views, nullptr, 0, stream.get()), 0) << library_.error();
  const auto graph = runtime::cuda::OwnedGraph::capture(stream, [&](runtime::cuda::StreamHandle on) -> Result<void> {
    gpu_.fake.fail["cuStreamWaitEvent"] = Status::Unknown;
    gpu_.fake.fails_only["cuStreamWaitEvent"] = 1;
    EXPECT_EQ(library_.call("f", views, nullptr, 0, on), -8);
    gpu_.fake.fail.clear();
    gpu_.fake.fails_only.clear();
    return {};
  });
  EXPECT_NE(library_.error().find("waiting for another device"), std::string::npos) << library_.error();
  EXPECT_TRUE(graph) << graph.error().render();
  EXPECT_EQ(library_.call("f", views, nullptr, 0, stream.get()), 0) << library_.error();
}

TEST_F(GpuDevices, LoadsLeaveNothing) {
  DevicesPackage p = there_and_back();
  const PackageRef package = p.done();
  load("leaves", package);
  const std::vector<TensorView> views = tensors(*package);
  library_.unload();
  const auto before = alive();
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(library_.load(), "");
    if (i % 2 == 0) {
      ASSERT_EQ(library_.init(), 0) << library_.error();
    }
    ASSERT_EQ(library_.call("f", views), 0) << library_.error();
    if (i % 3 == 0) library_.symbol<void (*)()>("_release_memory")();
    library_.unload();
    ASSERT_EQ(alive(), before) << "after load " << i;
  }
}

// A captured call forks to the other device and is joined; memory of the library's own would not live as long.
TEST_F(GpuDevices, Captures) {
  DevicesPackage p;
  const uint32_t x = p.buffer("x", Role::Argument, 0, f32, {size(8)}),
                 y = p.buffer("y", Role::Output, 1, f32, {size(8)});
  p.put(Copy{x, y}, Return{});
  const PackageRef package = p.done();
  load("captured", package);
  std::vector<TensorView> views = tensors(*package);
  const auto stream = runtime::cuda::OwnedStream::make(gpu_.device).value();
  ASSERT_EQ(library_.call("f", views, nullptr, 0, stream.get()), 0) << library_.error();
  size_t parts = 0;
  const auto graph = runtime::cuda::OwnedGraph::capture(stream, [&](runtime::cuda::StreamHandle on) -> Result<void> {
    EXPECT_EQ(library_.call("f", views, nullptr, 0, on), 0) << library_.error();
    parts = gpu_.fake.capturing.size();
    return {};
  });
  EXPECT_TRUE(graph) << "the other stream is joined: " << graph.error().render();
  EXPECT_EQ(parts, 2U) << "the stream of device 1 is part of it";
  EXPECT_TRUE(gpu_.fake.capturing.empty());
  EXPECT_EQ(wrong(), "");
  library_.unload();
  DevicesPackage q = there_and_back();
  load("uncaptured", q.done());
  views = tensors(q.made);
  const TensorView workspace = gpu_.tensor(DType::u8, {1024});
  ASSERT_EQ(library_.call("f", views, workspace.data(), 1024, stream.get()), 0) << library_.error();
  const auto refused = runtime::cuda::OwnedGraph::capture(stream, [&](runtime::cuda::StreamHandle on) -> Result<void> {
    EXPECT_EQ(library_.call("f", views, workspace.data(), 1024, on), -1);
    return {};
  });
  EXPECT_EQ(library_.error().substr(0, 6), "E0646:") << library_.error();
  EXPECT_TRUE(refused) << "the capture stays valid: " << refused.error().render();
}

// More streams than are kept for: what is part of a capture is not taken by calls of other streams.
TEST_F(GpuDevices, CapturesOfManyStreams) {
  DevicesPackage p;
  const uint32_t x = p.buffer("x", Role::Argument, 0, f32, {size(8)}),
                 y = p.buffer("y", Role::Output, 1, f32, {size(8)});
  p.put(Copy{x, y}, Return{});
  const PackageRef package = p.done();
  load("many", package);
  const auto driver = runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value();
  const runtime::cuda::DriverTable& call = driver->call();
  std::vector<runtime::cuda::OwnedStream> streams;
  std::vector<std::vector<TensorView>> views;
  for (int i = 0; i < 20; ++i) {
    streams.push_back(runtime::cuda::OwnedStream::make(gpu_.device).value());
    views.push_back(tensors(*package));
  }
  const auto another = runtime::cuda::OwnedStream::make(gpu_.device).value();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(call.stream_begin_capture(streams[i].get(), runtime::cuda::capture_mode_relaxed), Status::Success);
    ASSERT_EQ(library_.call("f", views[i], nullptr, 0, streams[i].get()), 0) << i << library_.error();
  }
  EXPECT_EQ(gpu_.fake.capturing.size(), 40U);
  for (const auto& stream : streams) {
    runtime::cuda::GraphHandle graph = nullptr;
    EXPECT_EQ(call.stream_end_capture(stream.get(), &graph), Status::Success);
    if (graph != nullptr) (void)call.graph_destroy(graph);
  }
  // Then they are taken again.
  const size_t kept = gpu_.fake.streams.size();
  ASSERT_EQ(library_.call("f", views[0], nullptr, 0, another.get()), 0) << library_.error();
  EXPECT_EQ(gpu_.fake.streams.size(), kept);
  EXPECT_EQ(wrong(), "");
}

// Calls of several threads, each on a stream of its own, have streams of device 1 of their own.
TEST_F(GpuDevices, CallsOfSeveralThreads) {
  DevicesPackage p = there_and_back();
  const PackageRef package = p.done();
  load("threads", package);
  ASSERT_EQ(library_.init(), 0) << library_.error();
  constexpr int count = 3;
  std::vector<std::vector<TensorView>> views;
  std::vector<runtime::cuda::OwnedStream> streams;
  for (int t = 0; t < count; ++t) {
    views.push_back(tensors(*package));
    streams.push_back(runtime::cuda::OwnedStream::make(gpu_.device).value());
  }
  std::vector<std::thread> threads;
  std::vector<std::string> errors(count);
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      for (int turn = 0; turn < 50 && errors[t].empty(); ++turn) {
        fill(views[t][0], static_cast<float>(1000 * t + turn));
        if (library_.call("f", views[t], nullptr, 0, streams[t].get()) != 0) errors[t] = library_.error();
        if (errors[t].empty()) errors[t] = differs(views[t][0], views[t][2]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(wrong(), "");
}

struct Called {
  std::vector<int32_t> devices;
  std::vector<void*> streams;
  void* context = nullptr;
};
struct CalledTensor {  // CodettaTensor
  void* data;
  int64_t shape[8], strides[8];
  int32_t rank, dtype, device, reserved;
  void (*release)(CalledTensor* tensor);
  void* owner;
};
FakeDriver* asked = nullptr;
int look_where(void* context, const CalledTensor* inputs, int, CalledTensor* outputs, int) {
  Called& called = *static_cast<Called*>(context);
  called.devices = {inputs[0].device, outputs[0].device};
  called.streams = {inputs[0].owner, outputs[0].owner};
  called.context = asked->contexts().empty() ? nullptr : asked->contexts().back();
  return 0;
}
TEST_F(GpuDevices, FunctionsOfTheCallersAreCalledOnTheirDevice) {
  DevicesPackage p;
  const uint32_t x = p.buffer("x", Role::Argument, 1, f32, {size(8)}),
                 y = p.buffer("y", Role::Output, 1, f32, {size(8)});
  p.put_on_one(CallExtern{"where", {x}, CallExtern::Form::Out, {y}, 0, 0});
  p.put(Return{});
  const PackageRef package = p.done();
  load("calls", package);
  Called called;
  asked = &gpu_.fake;
  using Set = int (*)(int (*)(void*, const CalledTensor*, int, CalledTensor*, int), void*);
  ASSERT_EQ(library_.symbol<Set>("_set_extern_where")(look_where, &called), 0);
  ASSERT_EQ(library_.call("f", tensors(*package)), 0) << library_.error();
  EXPECT_EQ(called.devices, (std::vector<int32_t>{1, 1}));
  EXPECT_NE(called.streams[0], nullptr) << "a stream of device 1";
  EXPECT_EQ(called.context, second_.device->context());
  EXPECT_NE(library_.header().find("int32_t device; /* as the program counts devices */"), std::string::npos);
}

TEST_F(GpuDevices, TheHeaderSaysWhereTensorsLie) {
  DevicesPackage p = there_and_back();
  load("said", p.done());
  for (const char* part :
       {"  bias: read, f32 [4, 6], row-major, on device 1", "  y: written, f32 [4, 6], row-major, on device 0",
        "int said_set_further_devices(const int32_t* ordinals, int32_t count);",
        "int64_t said_f_workspace_size_on(int32_t device);", "The program uses 2 devices."})
    EXPECT_NE(library_.header().find(part), std::string::npos) << part << "\n" << library_.header();
}

class HipDevices : public GpuDevices {
 protected:
  void SetUp() override { hip_.reset(); }
  FakeHip& hip_ = fake_hip(CODETTA_FAKE_HIP);
};
TEST_F(HipDevices, TheSameOverHip) {
  DevicesPackage p = there_and_back("hip:gfx942");
  const PackageRef package = p.done();
  load("hip_back", package);
  std::vector<TensorView> views = tensors(*package);
  const auto before = alive();
  for (int turn = 0; turn < 3; ++turn) {
    fill(views[0], static_cast<float>(turn));
    ASSERT_EQ(library_.call("f", views), 0) << library_.error();
    EXPECT_EQ(wrong(), "");
    EXPECT_EQ(differs(views[0], views[2]), "");
    EXPECT_EQ(hip_.device, 0) << "as it was";
  }
  EXPECT_EQ(gpu_.fake.peers.size(), 2U);
  gpu_.fake.devices = 1;
  EXPECT_EQ(library_.call("f", views), -6);
  EXPECT_EQ(library_.error().substr(0, 6), "E0642:") << library_.error();
  ASSERT_EQ(set_further({0}), 0) << library_.error();
  for (TensorView& view : views) view = gpu_.tensor(f32, {4, 6});
  ASSERT_EQ(library_.call("f", views), 0) << library_.error();
  EXPECT_EQ(wrong(), "");
  gpu_.fake.devices = 2;
  gpu_.fake.fail["cuStreamWaitEvent"] = Status::Unknown;
  EXPECT_EQ(library_.call("f", views), -8);
  gpu_.fake.fail.clear();
  EXPECT_EQ(hip_.device, 0);
  library_.unload();
  const auto after = alive();
  EXPECT_EQ(std::get<1>(after), std::get<1>(before));
  EXPECT_EQ(std::get<3>(after), std::get<3>(before));
  EXPECT_EQ(std::get<4>(after), std::get<4>(before));
}
TEST_F(HipDevices, ProductsOverHip) {
  Context context = uncached();
  const auto package = two_stages("hip:gfx942", 256, context);
  ASSERT_TRUE(package) << package.error().render();
  load("hip_stages", *package);
  ASSERT_EQ(library_.init(), 0) << library_.error();
  ASSERT_EQ(library_.call("f", tensors(**package, {{"m", 64}})), 0) << library_.error();
  EXPECT_EQ(wrong(), "");
  EXPECT_GE(gpu_.fake.launches.size(), 2U);
}

}  // namespace
}  // namespace codetta::test
