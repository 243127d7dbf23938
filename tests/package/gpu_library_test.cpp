// SPDX-License-Identifier: Apache-2.0
// Programs for a GPU in process and as libraries built ahead of time, over a pretended driver: the same launches,
// grids, attributes and parameter bytes. CODETTA_LAUNCH_PROGRAMS says how many random programs (36),
// CODETTA_LAUNCH_SEED which.
#include <cstdlib>

#include "package/gpu_library.hpp"
#include "support/random_program.hpp"
#include "support/slice.hpp"
#include "unit/runtime_cuda/fake_hip.hpp"

namespace codetta::test {
namespace {

constexpr const char* architectures[] = {"cuda:sm_90a",  "hip:gfx942",  "cuda:sm_80",
                                         "cuda:sm_100a", "hip:gfx1100", "cuda:sm_89"};

// Libraries for AMD GPUs run over HIP's names of the pretended driver; in process it stands for one without clusters.
void set_architecture(FakeDriver& fake, const Target& target) {
  if (target.backend == Backend::hip) {
    fake_hip(CODETTA_FAKE_HIP);
    fake.major = 8;
    return;
  }
  const int number = std::atoi(target.arch.c_str() + 3);
  fake.major = number / 10;
  fake.minor = number % 10;
}

// One program with what it is called with.
struct Case {
  std::string text;
  package::PackageRef package;
  std::vector<Sizes> sizes;
};

// Shapes of the package's arguments and outputs, or nothing where a size has no value.
std::optional<std::vector<std::pair<DType, Dims>>> forms_of(const package::Package& package, const Sizes& sizes) {
  std::vector<std::pair<DType, Dims>> forms;
  for (const package::Buffer& buffer : package.buffers) {
    if (buffer.role != package::Buffer::Role::Argument && buffer.role != package::Buffer::Role::Output) continue;
    Dims shape;
    for (const types::Dim& dim : buffer.shape) {
      const auto size = dim.evaluate(sizes);
      if (!size || *size < 0) return std::nullopt;
      shape.push_back(*size);
    }
    forms.emplace_back(buffer.dtype, shape);
  }
  return forms;
}

// Both ways, in the same memory. An account of what differs.
std::string compare(const Case& one, const GpuLibrary& library, FakeGpu& gpu, int64_t& launches) {
  for (const Sizes& sizes : one.sizes) {
    const auto forms = forms_of(*one.package, sizes);
    if (!forms) continue;
    std::vector<TensorView> views;
    for (const auto& [dtype, shape] : *forms) views.push_back(gpu.tensor(dtype, shape));
    auto execution = gpu.prepare(one.package, views);
    const std::string& name = one.package->name;
    if (!execution) {
      // What the library says has the same code.
      const int status = library.call(name, views);
      const std::string code = "E0" + std::to_string(execution.error().code());
      if (status == 0 || library.error().rfind(code, 0) != 0)
        return "in process: " + execution.error().render() + "\nlibrary: " + (status == 0 ? "works" : library.error());
      continue;
    }
    const int64_t bytes = execution->workspace_size();
    const auto workspace = runtime::cuda::DeviceBuffer::make(gpu.device, static_cast<size_t>(bytes + 256)).value();
    auto* memory = reinterpret_cast<void*>(workspace.address());
    if (const auto set = execution->set_workspace(memory, bytes); !set) return set.error().render();
    gpu.fake.launches.clear();
    if (const auto ran = execution->run(nullptr); !ran) return ran.error().render();
    const std::vector<FakeLaunch> expected = std::move(gpu.fake.launches);
    gpu.fake.launches.clear();
    if (library.call(name, views, memory, bytes) != 0) return "the library: " + library.error();
    if (std::string account = difference(expected, gpu.fake.launches); !account.empty()) return account;
    if (bytes > 0 && library.call(name, views, memory, bytes - 1) != -5)
      return "a workspace that is a byte too small is taken";
    launches += static_cast<int64_t>(expected.size());
    if (library.call(name, views) != 0) return "with a workspace of its own: " + library.error();
  }
  return {};
}

int64_t number_of(const char* variable, int64_t usual) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::atoll(value) : usual;
}

void run_batch(const std::string& target_name, uint64_t seed, int64_t first, int64_t count, int64_t& launches) {
  FakeGpu gpu;
  const Target target = Target::parse(target_name).value();
  Context context = uncached();
  std::vector<Case> cases;
  std::vector<package::PackageRef> packages;
  for (int64_t i = first; i < first + count; ++i) {
    const uint64_t drawn = seed * 1000003 + static_cast<uint64_t>(i);
    RandomProgramOptions how = drawn_options(drawn);
    how.operations = 3 + static_cast<int>(drawn % 10);
    how.control = how.counts = how.parts = how.inner_counts = false;  // the pretended GPU computes nothing
    how.devices = 1;
    how.name = "program_" + std::to_string(i);
    const RandomProgram made = random_program(drawn, how);
    const auto program = Program::parse(made.text, "program.py");
    ASSERT_TRUE(program) << program.error().render();
    auto package = planned(*program, target, {{"n", 5}, {"m", 7}}, context);
    if (!package) continue;
    Case one{made.text, std::make_shared<const package::Package>(*std::move(package)), {made.sizes}};
    if (!made.sizes.empty()) {
      Sizes other = made.sizes;
      static constexpr int64_t sizes[] = {1, 2, 3, 8, 12, 0};
      for (size_t s = 0; s < other.size(); ++s) other[s].second = sizes[(drawn / 7 + s) % std::size(sizes)];
      one.sizes.push_back(other);
    }
    packages.push_back(one.package);
    cases.push_back(std::move(one));
  }
  ASSERT_GE(cases.size(), static_cast<size_t>(count) / 2) << "the planner has become too strict";
  set_architecture(gpu.fake, target);
  gpu.device = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 0).value();
  GpuLibrary library;
  ASSERT_EQ(library.build("batch", packages), "");
  ASSERT_EQ(library.load(), "");
  for (const Case& one : cases)
    EXPECT_EQ(compare(one, library, gpu, launches), "") << target_name << ", seed " << seed << "\n" << one.text;
}

TEST(GpuLibraries, RandomProgramsLaunchWhatRunsInProcessLaunch) {
  const int64_t count = number_of("CODETTA_LAUNCH_PROGRAMS", 36);
  const auto seed = static_cast<uint64_t>(number_of("CODETTA_LAUNCH_SEED", 1));
  int64_t launches = 0, programs = 0;
  for (int64_t first = 0, batch = 0; first < count; first += 12, ++batch) {
    if (!commit_takes(static_cast<uint64_t>(batch), 3)) continue;
    const int64_t size = std::min<int64_t>(12, count - first);
    const char* const target = architectures[static_cast<size_t>(batch) % std::size(architectures)];
    std::printf("programs %lld to %lld of seed %llu for %s\n", static_cast<long long>(first),
                static_cast<long long>(first + size - 1), static_cast<unsigned long long>(seed), target);
    run_batch(target, seed, first, size, launches);
    if (::testing::Test::HasFatalFailure()) return;
    programs += size;
  }
  EXPECT_GT(launches, programs);
  std::printf("%lld programs, %lld launches\n", static_cast<long long>(programs), static_cast<long long>(launches));
}

// Large products: tensor maps, clusters, persistence, splits of K, packed factors, copies by the copy engine.
void products_launch(bool registered) {
  const struct {
    const char* text;
    std::vector<Sizes> sizes;
  } programs[] = {
      {"def f(x: bf16['m', 1024], w: bf16[1024, 3584], b: bf16[3584]):\n    y = gelu(x @ w + b)\n    return y\n",
       {{{"m", 4096}}, {{"m", 8}}, {{"m", 1}}, {{"m", 0}}, {{"m", 1000}}}},
      {"def f(x: bf16['m', 1024], g: bf16[1024, 2752], u: bf16[1024, 2752]):\n    y = silu(x @ g) * (x @ u)\n"
       "    return y\n",
       {{{"m", 2048}}, {{"m", 16}}}},
      {"def f(x: f16['m', 16384], w: f16[16384, 256], r: f16['m', 256]):\n    y = x @ w + r\n    return y\n",
       {{{"m", 128}}, {{"m", 512}}}},
      {"def f(x: bf16['m', 1001], w: bf16[1001, 333]):\n    y = softmax(x @ w)\n    return y\n",
       {{{"m", 500}}, {{"m", 0}}}},
      // factors that the product makes, and further ones
      {"def f(x: f32['m', 1024], q: i8[1024, 512], s: bf16[512], v: bf16[512, 1024]):\n"
       "    h = cast(relu(x * 0.5), bf16) @ cast(cast(q, bf16) * s, bf16)\n"
       "    y = cast(h, bf16) @ v\n    return h, y\n",
       {{{"m", 4}}, {{"m", 100}}, {{"m", 0}}}},
      {"def f(x: bf16['m', 256], q: bf16[128, 256], k: bf16[128, 256], v: bf16[128, 256]):\n"
       "    y = x @ permute(q, [1, 0])\n    z = x @ permute(k, [1, 0])\n    w = x @ permute(v, [1, 0])\n"
       "    return y, z, w\n",
       {{{"m", 2048}}, {{"m", 4}}}},
      // that differ in columns, one of a symbol's, and slices of one matrix
      {"def f(x: bf16['m', 256], q: bf16[256, 512], k: bf16[256, 'n'], v: bf16[256, 64], b: f32[512]):\n"
       "    y = x @ q + b\n    z = x @ k\n    w = cast(x @ v, f16)\n    return y, z, w\n",
       {{{"m", 1}, {"n", 128}}, {{"m", 5}, {"n", 24}}, {{"m", 3}, {"n", 0}}, {{"m", 0}, {"n", 64}}}},
      // the same by the copy engine, and as parts of one tensor
      {"def f(x: bf16['m', 1024], q: bf16[1024, 2048], k: bf16[1024, 'n'], r: bf16['m', 'n']):\n"
       "    y = cast(x @ q, bf16)\n    z = cast(x @ k, bf16) + r\n    return y, z\n",
       {{{"m", 512}, {"n", 512}}, {{"m", 512}, {"n", 0}}, {{"m", 700}, {"n", 72}}, {{"m", 0}, {"n", 64}}}},
      {"def f(x: bf16['m', 1024], q: bf16[1024, 2048], k: bf16[1024, 512], v: bf16[1024, 512]):\n"
       "    y = concat(cast(x @ q, bf16), cast(x @ k, bf16) * 2.0, cast(x @ v, bf16), dim=1)\n    return y\n",
       {{{"m", 512}}, {{"m", 3}}, {{"m", 0}}}},
      {"def f(x: bf16['m', 256], w: bf16[256, 768]):\n    y = x @ w[:, :512]\n    z = relu(x @ w[:, 512:])\n"
       "    return y, z\n",
       {{{"m", 2}}, {{"m", 40}}}},
      {"def f(x: f32['b', 'm', 64], w: f32['b', 64, 'n']):\n    y = x @ w\n    s = sum(y, dim=-1)\n    t = max(y)\n"
       "    return y, s, t\n",
       {{{"b", 3}, {"m", 200}, {"n", 100}}, {{"b", 1}, {"m", 1}, {"n", 1}}, {{"b", 2}, {"m", 0}, {"n", 5}}}},
  };
  uint64_t which = 0;
  for (const char* architecture :
       {"cuda:sm_90a", "cuda:sm_80", "cuda:sm_100a", "hip:gfx942", "hip:gfx90a", "hip:gfx1100"}) {
    if (!commit_takes(which++, 3)) continue;  // one of NVIDIA's, one of AMD's
    FakeGpu gpu;
    gpu.fake.memory_limit = size_t{1} << 40;
    const Target target = Target::parse(architecture).value();
    if (registered && target.backend != Backend::cuda) continue;
    ContextOptions options;
    options.cache_enabled = false;
    Context context = *Context::make(options);
    std::vector<Case> cases;
    std::vector<package::PackageRef> packages;
    // All of them by NVRTC for NVIDIA's; of the others every second one.
    const bool half = registered || target.backend != Backend::cuda;
    uint64_t turn = which + (registered ? 1 : 0);
    for (const auto& program : programs) {
      if (half && !commit_takes(turn++, 2)) continue;
      const auto parsed = Program::parse(program.text, "program.py").value();
      auto package = planned(parsed, target, program.sizes[0], context);
      ASSERT_TRUE(package) << package.error().render();
      package->name = "f" + std::to_string(cases.size());
      packages.push_back(std::make_shared<const package::Package>(*std::move(package)));
      cases.push_back({program.text, packages.back(), program.sizes});
    }
    set_architecture(gpu.fake, target);
    gpu.device = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 0).value();
    GpuLibrary library;
    library.registered = registered;
    ASSERT_EQ(library.build("products", packages), "");
    ASSERT_EQ(library.load(), "");
    int64_t launches = 0;
    for (const Case& one : cases)
      EXPECT_EQ(compare(one, library, gpu, launches), "") << architecture << "\n" << one.text;
    EXPECT_GE(launches, half ? 4 : 10);
  }
}
TEST(GpuLibraries, ProductsLaunchWhatRunsInProcessLaunch) { products_launch(false); }
TEST(GpuLibraries, ProductsLaunchTheSameWhereNvccCompilesTheKernels) { products_launch(true); }

// Steps that are several functions, each in a file of its own: layers, a branch and a loop with many of them, and what
// is behind a size that the call reads.
TEST(GpuLibraries, StepsOfALargeProgramLaunchWhatRunsInProcessLaunch) {
  const auto layers = [](int count, std::string h, const std::string& name) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      const std::string out = name + (i + 1 < count ? "_" + std::to_string(i) : "_last");
      text += "    " + out + "a = cast(softmax(gelu(" + h + " @ w + b)), bf16)\n    " + out + " = cast(" + out +
              "a @ v + " + h + ", bf16)\n";
      h = out;
    }
    return text;
  };
  const std::string text = "def some(z, w, v, b):\n" + layers(14, "z", "t") +
                           "    return t_last\ndef none(z, w, v, b):\n    return z\n"
                           "def f(x: bf16['m', 64], w: bf16[64, 128], v: bf16[128, 64], b: f32[128], p: bool[()]):\n" +
                           layers(14, "x", "h") + "    rows = h_last[:m // 2]\n" + layers(12, "rows", "r") +
                           "    y = cond(p, some, none, h_last, w, v, b)\n"
                           "    z = sum(r_last, dim=0)\n    return y, z\n";
  uint64_t which = 0;
  for (const char* architecture : {"cuda:sm_90a", "hip:gfx942"}) {
    if (!commit_takes(which++, 2)) continue;
    FakeGpu gpu;
    const Target target = Target::parse(architecture).value();
    ContextOptions options;
    options.cache_enabled = false;
    Context context = *Context::make(options);
    const auto program = Program::parse(text, "program.py");
    ASSERT_TRUE(program) << program.error().render();
    auto package = planned(*program, target, {{"m", 256}}, context);
    ASSERT_TRUE(package) << package.error().render();
    const Case one{text, std::make_shared<const package::Package>(*std::move(package)), {{{"m", 256}}, {{"m", 0}}}};
    set_architecture(gpu.fake, target);
    gpu.device = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 0).value();
    GpuLibrary library;
    ASSERT_EQ(library.build("large", {one.package}), "");
    EXPECT_GE(library.files, 6U);
    ASSERT_EQ(library.load(), "");
    int64_t launches = 0;
    EXPECT_EQ(compare(one, library, gpu, launches), "");
    EXPECT_GT(launches, 28);
  }
}

// Nothing stands between launches that overlap: one call clears the counters of all kernels, or the map that comes
// first.
TEST(GpuLibraries, CountersOfAllKernelsAreClearedTogether) {
  const struct {
    const char* text;
    bool by_map;
  } cases[] = {
      {"def f(x: f16[128, 16384], w: f16[16384, 256], z: f16[128, 16384], v: f16[16384, 512]):\n"
       "    a = x @ w\n    b = z @ v\n    return a, b\n",
       false},
      {"def f(x: f16[128, 16384], w: f16[16384, 256], z: f16[128, 16384], v: f16[16384, 512], g: f16[16384]):\n"
       "    a = cast(rms_norm(x, g), f16) @ w\n    b = z @ v\n    return a, b\n",
       true},
  };
  int number = 0;
  for (const auto& [text, by_map] : cases) {
    SCOPED_TRACE(text);
    FakeGpu gpu;
    gpu.fake.memory_limit = size_t{1} << 40;
    ContextOptions options;
    options.cache_enabled = false;
    Context context = *Context::make(options);
    const Target target = Target::parse("cuda:sm_90a").value();
    const auto program = Program::parse(text, "program.py");
    ASSERT_TRUE(program) << program.error().render();
    auto package = planned(*program, target, {}, context);
    ASSERT_TRUE(package) << package.error().render();
    package->name = "f";
    const auto kept = std::make_shared<const package::Package>(*std::move(package));
    size_t splits = 0;
    for (const package::Kernel& kernel : kept->kernels)
      splits += !package::is_map(kernel.config) && package::gpu(kernel.config).k_split > 1 ? 1 : 0;
    ASSERT_EQ(splits, 2U);
    set_architecture(gpu.fake, target);
    gpu.device = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 0).value();
    GpuLibrary library;
    ASSERT_EQ(library.build("splits" + std::to_string(number++), {kept}), "");
    ASSERT_EQ(library.load(), "");
    std::vector<TensorView> views;
    const auto forms = forms_of(*kept, {});
    ASSERT_TRUE(forms);
    for (const auto& [dtype, shape] : *forms) views.push_back(gpu.tensor(dtype, shape));
    gpu.fake.calls.clear();
    gpu.fake.launches.clear();
    ASSERT_EQ(library.call("f", views), 0) << library.error();
    EXPECT_EQ(gpu.fake.count("cuMemsetD8Async"), by_map ? 0U : 1U);
    if (!by_map) continue;
    // What the map clears holds the counters of both products.
    size_t launch = 0, inside = 0;
    gpu::Problem first;
    for (const package::Step& step : kept->steps) {
      const auto* one = std::get_if<package::LaunchKernel>(&step);
      if (one == nullptr) continue;
      const package::Kernel& kernel = kept->kernels[one->kernel];
      gpu::Problem problem;
      std::memcpy(&problem,
                  gpu.fake.launches[launch].parameters.data() +
                      std::max<size_t>(kernel.maps.size(), 1) * sizeof(gpu::TensorMap),
                  sizeof problem);
      if (launch == 0) first = problem;
      launch += kernel.entries.size();
      EXPECT_EQ(problem.clears > 0, launch == kernel.entries.size()) << "the first alone clears";
      if (package::is_map(kernel.config)) continue;
      EXPECT_GE(problem.counters, first.counters);
      EXPECT_LE(problem.counters + problem.tiles_m * problem.tiles_n, first.counters + first.clears);
      ++inside;
    }
    EXPECT_EQ(inside, 2U);
  }
}

}  // namespace
}  // namespace codetta::test
