// SPDX-License-Identifier: Apache-2.0
// Libraries for AMD GPUs where the HIP runtime is missing, too old, or lacks a device; and what they ask of it.
#include "package/gpu_library.hpp"
#include "unit/runtime_cuda/fake_hip.hpp"

namespace codetta::test {
namespace {

using runtime::cuda::Status;

class HipLibrary : public OneGpuLibrary<HipLibrary> {
 public:
  static constexpr const char* target = "hip:gfx942";

 protected:
  void SetUp() override {
    hip = FakeHip();
    OneGpuLibrary::SetUp();
  }
  FakeHip& hip = fake_hip(CODETTA_FAKE_HIP);
};

TEST_F(HipLibrary, RuntimesThatCanNotBeUsed) {
  hip.version = 50700000;
  expect(-6, "E0654: the HIP runtime is too old: it is version 5.7, and 6.0 is needed");
  hip.version = 60200000;
  gpu.fake.devices = 0;
  expect(-6, "E0642: the HIP runtime finds no device");
  gpu.fake.devices = 2;
  gpu.fake.fail["cuInit"] = Status::Unknown;
  expect(-6, "E0654: the HIP runtime can not be started");
  gpu.fake.fail.clear();
  EXPECT_EQ(library->call("f", views), 0) << "a failure leaves all as it was: " << library->error();
}

TEST_F(HipLibrary, AnotherArchitectureIsFoundWhenKernelsAreLoaded) {
  gpu.fake.fail["cuModuleLoadData"] = Status::NoBinaryForGpu;
  expect(-6, "E0430: the kernels are compiled for another architecture than the device's: loading codetta_");
}

TEST_F(HipLibrary, ItAsksOnlyForWhatHipHas) {
  ASSERT_EQ(library->init(), 0) << library->error();
  EXPECT_EQ(library->call("f", views), 0) << library->error();
  EXPECT_FALSE(gpu.fake.launches.empty());
  for (const FakeLaunch& launch : gpu.fake.launches) EXPECT_TRUE(launch.attributes.empty());
  EXPECT_EQ(gpu.fake.count("cuFuncSetAttribute"), 0U);
  EXPECT_EQ(gpu.fake.count("cuTensorMapEncodeTiled"), 0U);
  EXPECT_NE(library->header().find("a hipStream_t that the work is enqueued on"), std::string::npos);
}

TEST_F(HipLibrary, ItRunsOnTheDeviceOfTheStreamAndGivesTheThreadItsOwnBack) {
  EXPECT_EQ(library->call("f", views), 0) << library->error();
  hip.device = 1;
  runtime::cuda::StreamHandle stream = nullptr;
  const auto create = reinterpret_cast<Status (*)(runtime::cuda::StreamHandle*, unsigned)>(
      ::dlsym(::dlopen(CODETTA_FAKE_HIP, RTLD_NOW), "hipStreamCreateWithFlags"));
  ASSERT_EQ(create(&stream, 1), Status::Success);
  hip.device = 0;
  gpu.device = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 1).value();
  EXPECT_EQ(library->call("f", views, nullptr, 0, stream), -1) << "tensors of another device than the stream's";
  EXPECT_NE(library->error().find("E0648"), std::string::npos) << library->error();
  EXPECT_EQ(hip.device, 0);
  views = new_views();
  EXPECT_EQ(library->call("f", views, nullptr, 0, stream), 0) << library->error();
  ASSERT_FALSE(gpu.fake.launches.empty());
  EXPECT_EQ(gpu.fake.launches.back().config.stream, stream);
  EXPECT_EQ(hip.device, 0) << "as it was";
  hip.device = 1;
  library->symbol<void (*)()>("_release_memory")();
  EXPECT_EQ(hip.device, 1) << "as it was";
}

// Kernels of the user's: what reaches the runtime, and what a device can not launch.
TEST(HipLibraries, KernelsOfTheUser) {
  const struct {
    const char* clauses;
    const char* refused;  // part of what is said; null: it is launched
  } cases[] = {
      {"block(32, 2) grid(m, n) shared(8 * n) cooperative", nullptr},
      {"block(64) grid(m) shared(16 * n)", nullptr},
      {"block(64) grid(1000 * m) cooperative", "of its 6000 x 1 x 1 blocks at the same time"},
      {"block(64) grid(m) shared(20000 * m)", "a block of Pretended GPU 0 has 65536"},
      {"block(1024) grid(1000000 * m)", "takes 4294967295 threads"},
  };
  FakeGpu gpu;
  fake_hip(CODETTA_FAKE_HIP).reset();
  Context context = uncached();
  std::vector<package::PackageRef> packages;
  for (const auto& one : cases) {
    const std::string source = std::string("#pragma codetta kernel(x: f32[m, n], a: f32, out y: f32[m, n])\n") +
                               "#pragma codetta sizes(m, n: i32) " + one.clauses + "\n";
    auto package = planned(Program::parse("def f(x: f32['m', 'n'], a: f32):\n"
                                          "    y = user_kernel('mix', x, a, out='f32[m, n]')\n    return y\n",
                                          "p.py")
                               .value()
                               .with_kernels({{"mix", source, UserKernel::Language::hip, "mix.hip"}})
                               .value(),
                           Target::parse("hip:gfx942").value(), {}, context);
    ASSERT_TRUE(package) << package.error().render();
    package->name = "f" + std::to_string(packages.size());
    packages.push_back(std::make_shared<const package::Package>(*std::move(package)));
  }
  GpuLibrary library;
  ASSERT_EQ(library.build("user_of_hip", packages), "");
  ASSERT_EQ(library.load(), "");
  gpu.fake.parameter_sizes["mix"] = {8, 4, 8, 8, 4};
  const TensorView x = gpu.tensor(DType::f32, {6, 10}), y = gpu.tensor(DType::f32, {6, 10});
  for (size_t c = 0; c < std::size(cases); ++c) {
    SCOPED_TRACE(cases[c].clauses);
    gpu.fake.launches.clear();
    const auto call =
        library.symbol<int (*)(const void*, float, void*, int64_t, int64_t, void*)>("_f" + std::to_string(c));
    const int status = call(x.data(), 0.5F, y.data(), 6, 10, nullptr);
    if (cases[c].refused != nullptr) {
      EXPECT_LT(status, 0);
      EXPECT_NE(library.error().find(cases[c].refused), std::string::npos) << library.error();
      EXPECT_EQ(library.error().rfind("E0650: ", 0), 0U) << library.error();
      EXPECT_TRUE(gpu.fake.launches.empty());
      continue;
    }
    ASSERT_EQ(status, 0) << library.error();
    ASSERT_FALSE(gpu.fake.launches.empty());
    const FakeLaunch& launch = gpu.fake.launches[0];
    EXPECT_EQ(launch.function, "mix");
    const bool together = std::string_view(cases[c].clauses).find("cooperative") != std::string_view::npos;
    EXPECT_EQ(launch.attributes.size(), together ? 1U : 0U);
    EXPECT_EQ(launch.config.grid_y, together ? 10U : 1U);
    EXPECT_EQ(launch.config.dynamic_shared, together ? 80U : 160U);
    int32_t n = 0;
    ASSERT_EQ(launch.each.size(), 5U);
    std::memcpy(&n, launch.each[4].data(), sizeof n);
    EXPECT_EQ(n, 10);
  }
  EXPECT_EQ(gpu.fake.count("cuFuncSetAttribute"), 0U);
}

}  // namespace

}  // namespace codetta::test
