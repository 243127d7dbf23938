// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's in process and in libraries built ahead of time, over a pretended driver: the same launches
// with the same attributes and parameters, and the same refusals.
#include <algorithm>
#include <cstring>

#include "device/host/user_launch.h"
#include "emit/host/steps.hpp"
#include "package/gpu_library.hpp"
#include "package/user_cases.hpp"
#include "support/slice.hpp"

namespace codetta::test {
namespace {

void users_launch(bool registered) {
  std::vector<UserCase> cases;  // where nvcc compiles them every second one beside the first
  for (size_t i = 0; i < user_cases().size(); ++i) {
    if (!registered || i == 0 || commit_takes(i, 2)) cases.push_back(user_cases()[i]);
  }
  const Target target = Target::parse("cuda:sm_90a").value();
  Context context = uncached();
  FakeGpu gpu;
  std::vector<package::PackageRef> packages;
  for (const UserCase& one : cases) {
    const auto program = Program::parse(program_text, "p.py")
                             .value()
                             .with_kernels({{"mix", source_of(one.clauses), UserKernel::Language::cuda, "mix.cu"}})
                             .value();
    auto package = planned(program, target, {}, context);
    ASSERT_TRUE(package) << package.error().render();
    package->name = "f" + std::to_string(packages.size());
    packages.push_back(std::make_shared<const package::Package>(*std::move(package)));
  }
  GpuLibrary library;
  library.registered = registered;
  ASSERT_EQ(library.build("user", packages), "");
  ASSERT_EQ(library.load(), "");
  const Number numbers[] = {{DType::f32, 0.1}, {DType::bf16, 1.7}, {DType::i32, -5}, {DType::f64, 1e300}};
  for (size_t c = 0; c < cases.size(); ++c) {
    const UserCase& one = cases[c];
    gpu.fake.parameter_sizes["mix"] = parameter_sizes(one);
    SCOPED_TRACE(one.clauses);
    const std::vector<TensorView> views = {gpu.tensor(DType::f32, {one.m, one.n}),
                                           gpu.tensor(DType::f32, {one.m, one.n}), gpu.tensor(DType::f16, {one.m})};
    const package::PackageRef& package = packages[c];
    std::vector<runtime::cuda::ModuleRef> modules;
    for (const package::Kernel& kernel : package->kernels)
      modules.push_back(runtime::cuda::Module::load(gpu.device, kernel.binary, kernel.name).value());
    runtime::Bindings bindings;
    bindings.tensors.resize(package->buffers.size());
    bindings.scalars.resize(package->buffers.size());
    std::vector<HostTensor> tensors;
    size_t next = 0, number = 0;
    for (size_t b = 0; b < package->buffers.size(); ++b) {
      const package::Buffer& buffer = package->buffers[b];
      if (buffer.role == package::Buffer::Role::Temporary) continue;
      if (!buffer.is_scalar) {
        bindings.tensors[b] = views[next++];
        tensors.push_back(host_tensor(bindings.tensors[b]));
        continue;
      }
      const Number& value = numbers[number++];
      HostTensor made;
      made.data = const_cast<std::byte*>(value.bytes);
      made.dtype = static_cast<int32_t>(value.dtype == DType::bf16 ? DType::f32 : value.dtype);
      tensors.push_back(made);
      if (value.dtype == DType::i32) std::memcpy(&bindings.scalars[b].i, value.bytes, 4), bindings.scalars[b].i = -5;
      if (value.dtype == DType::f32 || value.dtype == DType::bf16) std::memcpy(&bindings.scalars[b].f, value.bytes, 4);
      if (value.dtype == DType::f64) std::memcpy(&bindings.scalars[b].d, value.bytes, 8);
    }
    ASSERT_EQ(number, 4U);
    using Function = int (*)(const HostTensor*, int32_t, void*, int64_t, void*);
    const auto call = library.symbol<Function>("_f" + std::to_string(c) + "_tensors");
    auto execution = runtime::cuda::Execution::make(package, std::move(modules), std::move(bindings));
    gpu.fake.launches.clear();
    if (one.refused != nullptr) {
      ASSERT_FALSE(execution);
      EXPECT_NE(execution.error().render().find(one.refused), std::string::npos) << execution.error().render();
      EXPECT_LT(call(tensors.data(), 7, nullptr, 0, nullptr), 0);
      EXPECT_NE(library.error().find(one.refused), std::string::npos) << library.error();
      EXPECT_EQ(library.error().rfind("E0" + std::to_string(execution.error().code()) + ": ", 0), 0U)
          << library.error();
      EXPECT_TRUE(gpu.fake.launches.empty());
      continue;
    }
    ASSERT_TRUE(execution) << execution.error().render();
    const int64_t bytes = execution->workspace_size();
    const auto workspace = runtime::cuda::DeviceBuffer::make(gpu.device, static_cast<size_t>(bytes + 256)).value();
    auto* memory = reinterpret_cast<void*>(workspace.address());
    ASSERT_TRUE(execution->set_workspace(memory, bytes));
    ASSERT_TRUE(execution->run(nullptr));
    const std::vector<FakeLaunch> expected = std::move(gpu.fake.launches);
    gpu.fake.launches.clear();
    ASSERT_EQ(call(tensors.data(), 7, memory, bytes, nullptr), 0) << library.error();
    EXPECT_EQ(difference(expected, gpu.fake.launches), "");
    tensors[0].strides[0] = -one.n;
    // From its last row, so that it is the same memory.
    if (one.m > 0) tensors[0].data = static_cast<std::byte*>(tensors[0].data) + (one.m - 1) * one.n * 4;
    EXPECT_LT(call(tensors.data(), 7, memory, bytes, nullptr), 0);
    EXPECT_NE(library.error().find("E0610: the stride of dim 0 of x is negative: it is -"), std::string::npos)
        << library.error();
    EXPECT_EQ(std::count_if(expected.begin(), expected.end(), [](const FakeLaunch& l) { return l.function == "mix"; }),
              one.m == 0 ? 0 : 1);
  }
  gpu.fake.fail["cuLaunchKernelEx"] = runtime::cuda::Status::LaunchOutOfResources;
  const TensorView x = gpu.tensor(DType::f32, {6, 10}), y = gpu.tensor(DType::f32, {6, 10}),
                   z = gpu.tensor(DType::f16, {6});
  using Plain = int (*)(const void*, float, float, int32_t, double, void*, void*, int64_t, int64_t, void*);
  EXPECT_EQ(library.symbol<Plain>("_f0")(x.data(), 1, 1, 1, 1, y.data(), z.data(), 6, 10, nullptr), -8);
  EXPECT_NE(library.error().find("Failed to launch kernel codetta_mix_"), std::string::npos) << library.error();
  EXPECT_NE(library.error().find("a grid of 6 x 1 x 1 blocks of 64 x 1 x 1 threads"), std::string::npos);
  gpu.fake.fail.clear();
  // What the device and the function allow was asked for by the first launch.
  const size_t device_facts = gpu.fake.count("cuDeviceGetAttribute"), facts = gpu.fake.count("cuFuncGetAttribute");
  EXPECT_GT(device_facts, 0U);
  EXPECT_GT(facts, 0U);
  gpu.fake.launches.clear();
  ASSERT_EQ(library.symbol<Plain>("_f0")(x.data(), 1, 1, 1, 1, y.data(), z.data(), 6, 10, nullptr), 0)
      << library.error();
  EXPECT_FALSE(gpu.fake.launches.empty());
  EXPECT_EQ(gpu.fake.count("cuDeviceGetAttribute"), device_facts);
  EXPECT_EQ(gpu.fake.count("cuFuncGetAttribute"), facts);
}

TEST(GpuLibraries, KernelsOfTheUserLaunchWhatRunsInProcessLaunch) { users_launch(false); }
// All have one name in their sources, and others among the files that are linked.
TEST(GpuLibraries, KernelsOfTheUserLaunchTheSameWhereNvccCompilesThem) { users_launch(true); }

TEST(GpuLibraries, KernelsOfTheUserThatTheDriverRefuses) {
  const auto with_sizes = [](std::string clauses) {
    std::string source = source_of(clauses);
    return source.replace(source.find("sizes(m,"), 8, "sizes(4611686018427387904 * m,");
  };
  const struct {
    std::string source;
    const char* message;
  } cases[] = {
      {source_of("block(64) grid(m) cooperative"), "launches no such kernels"},
      {source_of("block(64) grid(m) shared(1024)"),
       "E0647: Failed to set the allowed dynamic shared memory size to 1024 with error"},
      {source_of("block(64) grid(16) cluster(16)"), "allowing large clusters"},
      {source_of("block(64) grid(4611686018427387904 * m)"), "E0610: a size of the launch of"},
      {source_of("block(64) grid(m) shared(4611686018427387904 * m)"), "E0610: a size of the launch of"},
      {source_of("block(64) grid(m) window(x, bytes = 4611686018427387904 * m)"), "E0610: a size of the launch of"},
      {with_sizes("block(64) grid(m)"), "E0610: size 0 of"},
  };
  Context context = uncached();
  FakeGpu gpu;
  gpu.fake.cooperative = false;
  std::vector<package::PackageRef> packages;
  for (const auto& one : cases) {
    auto package = planned(Program::parse(program_text, "p.py")
                               .value()
                               .with_kernels({{"mix", one.source, UserKernel::Language::cuda, "mix.cu"}})
                               .value(),
                           Target::parse("cuda:sm_90a").value(), {}, context);
    ASSERT_TRUE(package) << package.error().render();
    package->name = "f" + std::to_string(packages.size());
    packages.push_back(std::make_shared<const package::Package>(*std::move(package)));
  }
  GpuLibrary library;
  ASSERT_EQ(library.build("refused", packages), "");
  ASSERT_EQ(library.load(), "");
  gpu.fake.parameter_sizes["mix"] = {8, 4, 2, 4, 8, 8, 8, 8, 4, 8, 4};
  gpu.fake.fail["cuFuncSetAttribute"] = runtime::cuda::Status::LaunchOutOfResources;
  const TensorView x = gpu.tensor(DType::f32, {6, 10}), y = gpu.tensor(DType::f32, {6, 10}),
                   z = gpu.tensor(DType::f16, {6});
  using Plain = int (*)(const void*, float, float, int32_t, double, void*, void*, int64_t, int64_t, void*);
  for (size_t c = 0; c < std::size(cases); ++c) {
    const auto call = library.symbol<Plain>("_f" + std::to_string(c));
    EXPECT_LT(call(x.data(), 1, 1, 1, 1, y.data(), z.data(), 6, 10, nullptr), 0) << cases[c].source;
    EXPECT_NE(library.error().find(cases[c].message), std::string::npos) << cases[c].source << library.error();
  }
  EXPECT_TRUE(gpu.fake.launches.empty());
  gpu.fake.fail.clear();
}

TEST(GpuLibraries, KernelsOfTheUserTakeSoManyValues) {
  package::Package package;
  package.target.backend = Backend::cuda;
  package::Kernel kernel;
  kernel.name = "mix";
  package::LaunchKernel step;
  EXPECT_EQ(emit::host::lacking_in_user(package, step, kernel), "mix is no kernel for a GPU");
  kernel.config = package::GpuUserConfig{};
  step.arguments.resize(gpu::host::most_user_values - 2);
  step.options.sizes.assign(2, types::Dim::constant(1));
  EXPECT_EQ(emit::host::lacking_in_user(package, step, kernel), "");
  step.arguments.push_back(0);
  EXPECT_EQ(emit::host::lacking_in_user(package, step, kernel), "mix takes more than 256 values");
  step.arguments.pop_back();
  step.options.maps.resize(gpu::host::most_user_maps);
  EXPECT_EQ(emit::host::lacking_in_user(package, step, kernel), "");
  step.options.maps.emplace_back();
  EXPECT_EQ(emit::host::lacking_in_user(package, step, kernel), "mix takes more than 24 tensor maps");
}

// A package for 9.0 is not loaded on an older device; what would be said there, all the same.
TEST(GpuLibraries, ClustersOnOlderDevices) {
  gpu::host::UserShape shape;
  gpu::host::UserLimits limits{"a device", {9, 9, 9}, {9, 9, 9}, 9, 0, 99, 8, true, 0, true};
  gpu::host::Trouble trouble;
  EXPECT_TRUE(gpu::host::check_user_launch("mix", shape, limits, trouble));
  shape.cluster[0] = 2;
  shape.grid[0] = 4;
  EXPECT_FALSE(gpu::host::check_user_launch("mix", shape, limits, trouble));
  EXPECT_NE(std::string(trouble.reason).find("has compute capability 8; clusters need 9.0"), std::string::npos);
  limits.major = 9;
  EXPECT_TRUE(gpu::host::check_user_launch("mix", shape, limits, trouble));
  limits.cooperative = false;
  shape.cooperative = true;
  EXPECT_FALSE(gpu::host::check_user_launch("mix", shape, limits, trouble));
  EXPECT_NE(std::string(trouble.reason).find("launches no such kernels"), std::string::npos);
  limits.cooperative = true;
  shape.maps = true;
  EXPECT_TRUE(gpu::host::check_user_launch("mix", shape, limits, trouble));
  limits.tensor_maps = false;
  EXPECT_FALSE(gpu::host::check_user_launch("mix", shape, limits, trouble));
  EXPECT_NE(std::string(trouble.reason).find("it takes tensor maps, and a device of compute capability 9 has none"),
            std::string::npos);
}

}  // namespace
}  // namespace codetta::test
