// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's on a GPU, over the pretended driver and compiler: everything that reaches the driver, and what
// does not.
#include <algorithm>
#include <array>
#include <cstring>

#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

using diag::Code;
using runtime::cuda::LaunchAttribute;
namespace abi = codetta::cuda_driver;

class CudaUser : public CudaApi {
 protected:
  void SetUp() override {
    CudaApi::SetUp();
    fake_.parameter_bytes = 0;  // they are no Params of Codetta's
    fake_.computes = false;
  }
  static constexpr const char* text =
      "def f(x: f32[\"m\", \"n\"], decay: f32):\n"
      "    y = user_kernel(\"scale\", x, decay, out=\"f32[m, n]\")\n"
      "    return y\n";
  static constexpr const char* parameters = "#pragma codetta kernel(x: f32[m, n], decay: f32, out y: f32[m, n])\n";
  static constexpr const char* body =
      "extern \"C\" __global__ void __launch_bounds__(128) scale(const float* x, float decay, float* y) {}\n";

  static std::string source(const std::string& pragmas) { return parameters + pragmas + body; }
  static Program program(const std::string& kernel, const std::string& program_text = text) {
    return Program::parse(program_text, "p.py")
        .value()
        .with_kernels({{"scale", kernel, UserKernel::Language::cuda, "scale.cu"}})
        .value();
  }
  // Compiled and run once with these tensors.
  Result<void> run(Context& context, const Program& of, const std::vector<NamedArgument>& arguments) {
    CODETTA_TRY(const CompiledProgram compiled, compile(of, {Backend::cuda, {}, ""}, {}, context));
    CODETTA_TRY(Execution execution, compiled.prepare(arguments));
    return execution.run();
  }
  struct Bound {
    DeviceTensor x, y;
    std::vector<NamedArgument> arguments;
  };
  static Bound bound(Context& context, int64_t rows = 6, int64_t cols = 10) {
    const Device device = Device::open(context).value();
    Bound made{DeviceTensor::make(device, f32, {rows, cols}).value(),
               DeviceTensor::make(device, f32, {rows, cols}).value(),
               {}};
    made.arguments = {{"x", made.x.view()}, {"decay", 0.25}, {"y", made.y.view()}};
    return made;
  }
  size_t launches() const {
    size_t count = 0;
    for (const test::FakeLaunch& one : fake_.launches) count += one.function == "scale" ? 1 : 0;
    return count;
  }
  // The one of the user's kernel. Where the output does not lie as that takes it, one of Codetta's then stores it.
  const test::FakeLaunch& launch() {
    EXPECT_EQ(launches(), 1U);
    EXPECT_EQ(fake_.launches.at(0).function, "scale");
    return fake_.launches.at(0);
  }
  template <class T>
  T value(size_t i) {
    T read{};
    std::memcpy(&read, launch().each.at(i).data(), sizeof read);
    return read;
  }
  const LaunchAttribute* attribute(int id) {
    for (const LaunchAttribute& one : launch().attributes) {
      if (one.id == id) return &one;
    }
    return nullptr;
  }
  Error refused(const std::string& pragmas, const std::string& program_text = text) {
    Context c = context();
    const auto compiled = compile(program(source(pragmas), program_text), {Backend::cuda, {}, "sm_90a"}, {}, c);
    EXPECT_FALSE(compiled) << pragmas;
    return compiled ? Error(Diagnostic{}) : compiled.error();
  }
  void expect_refused(const std::string& pragmas, std::string_view part) {
    const Error error = refused(pragmas);
    EXPECT_EQ(error.code(), static_cast<uint16_t>(Code::kernel_launch)) << error.render();
    EXPECT_NE(error.render().find(part), std::string::npos) << pragmas << "\n" << error.render();
    EXPECT_NE(error.render().find("scale.cu:"), std::string::npos) << error.render();
    EXPECT_NE(error.render().find("help: "), std::string::npos) << error.render();
  }
};

TEST_F(CudaUser, WhatReachesTheDriver) {
  const std::string kernel =
      std::string(parameters) +
      "#pragma codetta sizes(m, 2 * n: i32, stride(x, 0)) config(ROWS = 2, COLS = 32) \\\n"
      "                config(ROWS = 4, COLS = 8)  // the first is taken\n"
      "#pragma codetta block(COLS, ROWS) grid(ceil_div(n, COLS), m / ROWS, (m + 1) % 4) shared(8 * n * ROWS)\n"
      "extern \"C\" __global__ void __launch_bounds__(128) scale(const float* x, float decay, float* y, int64_t m,\n"
      "                                                     int n2, int64_t row) {}\n";
  fake_.parameter_sizes["scale"] = {8, 4, 8, 8, 4, 8};
  Context c = context();
  const Device device = Device::open(c).value();
  const DeviceTensor wide = DeviceTensor::make(device, f32, {6, 64}).value(),
                     y = DeviceTensor::make(device, f32, {6, 40}).value();
  const TensorView x = TensorView::make(wide.data(), f32, {6, 40}, {64, 1}).value();
  const auto ran = run(c, program(kernel), {{"x", x}, {"decay", 0.25}, {"y", y.view()}});
  ASSERT_TRUE(ran) << ran.error().render();
  const auto& config = launch().config;
  EXPECT_EQ(launch().function, "scale");
  EXPECT_EQ(config.grid_x, 2U);
  EXPECT_EQ(config.grid_y, 3U);
  EXPECT_EQ(config.grid_z, 3U);
  EXPECT_EQ(config.block_x, 32U);
  EXPECT_EQ(config.block_y, 2U);
  EXPECT_EQ(config.block_z, 1U);
  EXPECT_EQ(config.dynamic_shared, 640U);
  EXPECT_EQ(fake_.dynamic_shared["scale"], 640);
  EXPECT_TRUE(launch().attributes.empty());
  EXPECT_EQ(value<const void*>(0), x.data());
  EXPECT_EQ(value<float>(1), 0.25F);
  EXPECT_EQ(value<const void*>(2), y.data()) << "the output itself";
  EXPECT_EQ(fake_.launches.size(), 1U);
  EXPECT_EQ(value<int64_t>(3), 6);
  EXPECT_EQ(value<int32_t>(4), 80);
  EXPECT_EQ(value<int64_t>(5), 64);
}

// The kernel's result is the output where that lies as a temporary would, or has the strides that are asked for; else a
// kernel of Codetta's stores what it has written.
TEST_F(CudaUser, OutputsAreWrittenWhereTheyLie) {
  Context c = context();
  const Device device = Device::open(c).value();
  const DeviceTensor x = DeviceTensor::make(device, f32, {6, 40}).value(),
                     memory = DeviceTensor::make(device, f32, {32, 64}).value();
  const auto view = [&](int64_t offset, const Dims& strides) {
    return TensorView::make(static_cast<float*>(memory.data()) + offset, f32, {6, 40}, strides).value();
  };
  const struct {
    const char* what;
    TensorView y;
    bool rows, strides, map;  // whether a kernel writes it: one that takes row-major tensors, any strides, a map
  } cases[] = {{"row-major", view(0, {40, 1}), true, true, true},
               {"at 16 bytes", view(4, {40, 1}), true, true, true},
               {"at 4 bytes", view(1, {40, 1}), false, true, false},
               {"rows apart", view(0, {64, 1}), false, true, true},
               {"rows at 4 bytes", view(0, {65, 1}), false, true, false},
               {"columns", view(0, {1, 8}), false, true, false},
               {"rows from the last", view(1000, {-40, 1}), false, false, false}};
  const char* const clauses[] = {"", "sizes(stride(y, 0), stride(y, 1)) ", "map(y, box(1, 8)) "};
  for (size_t kind = 0; kind < 3; ++kind) {
    const std::vector<size_t> sizes[] = {{8, 4, 8}, {8, 4, 8, 8, 8}, {8, 4, 128}};
    fake_.parameter_sizes["scale"] = sizes[kind];
    const auto compiled =
        compile(program(source(std::string("#pragma codetta ") + clauses[kind] + "block(64) grid(m)\n")),
                {Backend::cuda, {}, ""}, {}, c);
    ASSERT_TRUE(compiled) << compiled.error().render();
    for (const auto& one : cases) {
      for (const bool checked : {true, false}) {
        fake_.launches.clear();
        RunOptions options;
        options.checked = checked;
        auto execution = compiled->prepare({{"x", x.view()}, {"decay", 0.25}, {"y", one.y}}, options);
        ASSERT_TRUE(execution) << clauses[kind] << one.what << "\n" << execution.error().render();
        ASSERT_TRUE(execution->run());
        const bool writes = kind == 0 ? one.rows : kind == 1 ? one.strides : one.map;
        EXPECT_EQ(launches(), 1U) << clauses[kind] << one.what;
        EXPECT_EQ(fake_.launches.size(), writes ? 1U : 2U) << clauses[kind] << one.what;
        EXPECT_EQ(execution->workspace_size() == 0, writes) << clauses[kind] << one.what;
        EXPECT_EQ(kind == 2 || value<const void*>(2) == one.y.data(), kind == 2 || writes) << clauses[kind] << one.what;
      }
    }
  }
}

// Under capture, what stores such outputs is no more compiled than anything else; prepared before, it runs there.
TEST_F(CudaUser, OutputsThatLieOtherwiseUnderCapture) {
  Context c = context();
  const Device device = Device::open(c).value();
  const DeviceStream stream = DeviceStream::make(device).value();
  const DeviceTensor x = DeviceTensor::make(device, f32, {6, 40}).value(),
                     memory = DeviceTensor::make(device, f32, {32, 64}).value();
  const auto y = TensorView::make(static_cast<float*>(memory.data()), f32, {6, 40}, {64, 1}).value();
  const CompiledProgram compiled =
      compile(program(source("#pragma codetta block(64) grid(m)\n")), {Backend::cuda, {}, ""}, {}, c).value();
  const std::vector<NamedArgument> arguments{{"x", x.view()}, {"decay", 0.25}, {"y", y}};
  begin(stream);
  expect(compiled.run(arguments, stream), Code::compile_in_capture, "the capture is still valid");
  EXPECT_TRUE(fake_.invalidated.empty());
  replay(stream);
  EXPECT_TRUE(fake_.launches.empty());
  Execution execution = compiled.prepare(arguments).value();
  EXPECT_EQ(execution.workspace_size(), 1024);
  begin(stream);
  ASSERT_TRUE(execution.run(stream));
  expect(compiled.run(arguments, stream), Code::capture_active, "needs a workspace of 1024 bytes");
  replay(stream);
  EXPECT_EQ(fake_.launches.size(), 2U);
}

TEST_F(CudaUser, ClustersCooperationAndDependence) {
  Context c = context();
  Bound b = bound(c, 8, 10);
  const std::string waits = "__device__ void wait() { asm volatile(\"griddepcontrol.wait;\" ::: \"memory\"); }\n";
  const auto ran =
      run(c, program(source("#pragma codetta block(64) grid(m) cluster(2, 1) cooperative dependent\n") + waits),
          b.arguments);
  ASSERT_TRUE(ran) << ran.error().render();
  ASSERT_NE(attribute(abi::launch_cluster_dimension), nullptr);
  EXPECT_EQ(attribute(abi::launch_cluster_dimension)->value.cluster.x, 2U);
  EXPECT_EQ(attribute(abi::launch_cluster_dimension)->value.cluster.y, 1U);
  ASSERT_NE(attribute(abi::launch_cooperative), nullptr);
  EXPECT_EQ(attribute(abi::launch_cooperative)->value.flag, 1);
  ASSERT_NE(attribute(abi::launch_programmatic_serialization), nullptr);
  EXPECT_EQ(attribute(abi::launch_programmatic_serialization)->value.flag, 1);
  EXPECT_EQ(launch().attributes.size(), 3U);
  EXPECT_EQ(fake_.count("cuOccupancyMaxActiveClusters"), 1U);
}

TEST_F(CudaUser, CooperativeKernelsFitTheDevice) {
  Context c = context();
  Bound b = bound(c, 133, 10);  // a block a multiprocessor fits the pretended device, which has 132
  const Program cooperative = program(source("#pragma codetta block(64) grid(m) cooperative\n"));
  expect(run(c, cooperative, b.arguments), Code::launch_limits, "holds 132 of its 133 x 1 x 1 blocks");
  fake_.cooperative = false;
  Context other = context();
  Bound small = bound(other);
  expect(run(other, cooperative, small.arguments), Code::launch_limits, "launches no such kernels");
  EXPECT_EQ(launches(), 0U);
}

TEST_F(CudaUser, WindowOfL2) {
  Context c = context();
  Bound b = bound(c);
  ASSERT_TRUE(run(c, program(source("#pragma codetta block(64) grid(m) window(x, bytes = 4 * n, percent = 60)\n")),
                  b.arguments));
  const LaunchAttribute* window = attribute(abi::launch_access_policy_window);
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(window->value.window.base, b.x.data());
  EXPECT_EQ(window->value.window.bytes, 40U);
  EXPECT_FLOAT_EQ(window->value.window.hit_ratio, 0.6F);
  EXPECT_EQ(window->value.window.hit_property, 2);
  EXPECT_EQ(window->value.window.miss_property, 1);
  // The whole tensor; more than it has or the device allows is not asked for.
  const Program whole = program(source("#pragma codetta block(64) grid(m) window(x)\n"));
  const Program more = program(source("#pragma codetta block(64) grid(m) window(x, bytes = 4096)\n"));
  for (const Program& one : {whole, more}) {
    fake_.launches.clear();
    ASSERT_TRUE(run(c, one, b.arguments));
    EXPECT_EQ(attribute(abi::launch_access_policy_window)->value.window.bytes, 240U);
    EXPECT_EQ(attribute(abi::launch_access_policy_window)->value.window.hit_ratio, 1.0F);
  }
  fake_.launches.clear();
  fake_.window_bytes = 100;
  Context limited = context();
  ASSERT_TRUE(run(limited, whole, b.arguments));
  EXPECT_EQ(attribute(abi::launch_access_policy_window)->value.window.bytes, 100U);
  fake_.launches.clear();
  fake_.window_bytes = 0;
  Context without = context();
  ASSERT_TRUE(run(without, whole, b.arguments));
  EXPECT_TRUE(launch().attributes.empty());
}

TEST_F(CudaUser, TheMostSpecificGridCounts) {
  Context c = context();
  const std::string grids =
      "#pragma codetta grid(1) grid(m) if(ROWS == 4) grid(m, n) if(ROWS == 4 && COLS > 8) block(64)\n";
  const std::pair<const char*, unsigned> cases[] = {
      {"config(ROWS = 2, COLS = 8)", 1}, {"config(ROWS = 4, COLS = 8)", 6}, {"config(ROWS = 4, COLS = 16)", 60}};
  for (const auto& [config, blocks] : cases) {
    fake_.launches.clear();
    Bound b = bound(c);
    ASSERT_TRUE(run(c, program(source(grids + "#pragma codetta " + config + "\n")), b.arguments)) << config;
    EXPECT_EQ(launch().config.grid_x * launch().config.grid_y, blocks) << config;
  }
  expect_refused("#pragma codetta block(64) config(A = 1) grid(m) if(A > 0) grid(n) if(A < 2)\n",
                 "two clauses grid with 1 conditions hold for A=1");
}

TEST_F(CudaUser, TheOrderOfClausesIsNoDifference) {
  const std::string base = "#pragma codetta config(A = 1, B = 2) block(64) ";
  std::array<std::string, 3> grids = {"grid(m) if(A == 1) ", "grid(n) if(B == 2) ", "grid(m, n) if(A == 1 && B == 2) "};
  std::sort(grids.begin(), grids.end());
  do {
    Context c = context();
    Bound b = bound(c);
    fake_.launches.clear();
    const auto ran = run(c, program(source(base + grids[0] + grids[1] + grids[2] + "\n")), b.arguments);
    ASSERT_TRUE(ran) << grids[0] << grids[1] << grids[2] << ran.error().render();
    EXPECT_EQ(launch().config.grid_x * launch().config.grid_y, 60U);
  } while (std::next_permutation(grids.begin(), grids.end()));
  // Those that are as specific as the best have to agree.
  const std::string third = "grid(n, m) if(B == 2 && A == 1) ";
  for (const std::string& order : {grids[0] + third + grids[1] + grids[2], third + grids[0] + grids[1] + grids[2]})
    expect_refused(base + order + "\n", "two clauses grid with 2 conditions hold for A=1, B=2");
  std::array<std::string, 3> maps = {"map(x, box(1, 4)) if(A == 1) ", "map(x, box(2, 4)) if(B == 2) ",
                                     "map(x, box(4, 8)) if(A == 1 && B == 2) "};
  std::sort(maps.begin(), maps.end());
  do {
    Context c = context();
    const auto compiled = compile(program(source(base + "grid(m) " + maps[0] + maps[1] + maps[2] + "\n")),
                                  {Backend::cuda, {}, "sm_90a"}, {}, c);
    EXPECT_TRUE(compiled) << maps[0] << maps[1] << maps[2] << compiled.error().render();
  } while (std::next_permutation(maps.begin(), maps.end()));
}

TEST_F(CudaUser, ConfigurationsAreTakenApart) {
  const std::string tail = " block(64) grid(m)\n";
  // A value may use those in front of it, of its own configuration.
  Context c = context();
  Bound b = bound(c);
  ASSERT_TRUE(run(c, program(source("#pragma codetta config(A = 3, B = A * 2) block(B) grid(m)\n")), b.arguments));
  EXPECT_EQ(launch().config.block_x, 6U);
  expect_refused("#pragma codetta config(A = 4) config(B = A * 2)" + tail,
                 "A is no size of the kernel and no meta-parameter");
  expect_refused("#pragma codetta config(B = A * 2, A = 4)" + tail, "A is no size of the kernel and no meta-parameter");
  // Later ones are checked like the first.
  expect_refused("#pragma codetta config(A = 4) config(A = 8, B = A * 2) block(A) grid(m / (A - 8))\n",
                 "division by zero");
  expect_refused("#pragma codetta config(A = 4) config(A = 2048) grid(m) block(A)\n",
                 "a block of 2048 x 1 x 1 threads");
  std::string many;
  for (int i = 0; i < 257; ++i) many += " config(A = " + std::to_string(i) + ")";
  expect_refused("#pragma codetta" + many + tail, "there are more than 256 configurations");
  expect_refused("#pragma codetta config(A = 1) if(1 == 1)" + tail, "a configuration has no condition");
  expect_refused("#pragma codetta config()" + tail, "a meta-parameter and its value are expected here");
}

TEST_F(CudaUser, NamesOfMetaParameters) {
  const std::string tail = " block(64) grid(m)\n";
  for (const char* name : {"float", "defined", "codetta", "__shared__", "_T", "a__b", "xor_eq", "alignas"})
    expect_refused("#pragma codetta config(" + std::string(name) + " = 2)" + tail,
                   std::string(name) + " is a word of C++ or reserved for compilers");
  for (const char* name : {"Tensor", "Hook", "int64_t", "bfloat16", "threadIdx", "std", "CODETTA_ROWS"})
    expect_refused("#pragma codetta config(" + std::string(name) + " = 2)" + tail,
                   std::string(name) + " cannot name a meta-parameter: ");
  expect_refused("#pragma codetta config(scale = 2)" + tail, "scale is the kernel's name");
  // Macros end where the source does: names of Codetta's check stand behind it.
  Context c = context();
  ASSERT_TRUE(compile(program(source("#pragma codetta config(Number = 4, takes = 1, _n = 2)" + tail)),
                      {Backend::cuda, {}, "sm_90a"}, {}, c));
  const auto own = std::find_if(nvrtc_.sources.begin(), nvrtc_.sources.end(), [](const std::string& source) {
    return source.find("the user's kernel scale") != std::string::npos;
  });
  ASSERT_NE(own, nvrtc_.sources.end());
  const std::string& whole = *own;
  for (const char* name : {"Number", "takes", "_n"}) {
    const size_t body_at = whole.find("extern \"C\" __global__ void"),
                 undefined = whole.find("#undef " + std::string(name));
    ASSERT_NE(undefined, std::string::npos) << name;
    EXPECT_LT(whole.find("#define " + std::string(name)), body_at);
    EXPECT_GT(undefined, body_at);
    EXPECT_LT(undefined, whole.find("static_assert(codetta::user::takes"));
  }
}

TEST_F(CudaUser, WithoutElementsNothingIsLaunched) {
  Context c = context();
  Bound b = bound(c, 0, 10);
  ASSERT_TRUE(run(c, program(source("#pragma codetta block(64) grid(m)\n")), b.arguments));
  EXPECT_EQ(launches(), 0U);
  // Known when the program is compiled.
  const std::string fixed =
      "def f(x: f32[0, 10], decay: f32):\n"
      "    y = user_kernel(\"scale\", x, decay, out=\"f32[0, 10]\")\n"
      "    return y\n";
  const auto ran =
      run(c, program(source("#pragma codetta config(R = 4) block(32, R) grid(ceil_div(m, R))\n"), fixed), b.arguments);
  ASSERT_TRUE(ran) << ran.error().render();
  EXPECT_EQ(launches(), 0U);
  const Error negative = refused("#pragma codetta block(64) grid(m - 1)\n", fixed);
  EXPECT_NE(negative.render().find("dim 0 of the grid is -1"), std::string::npos) << negative.render();
  expect_refused("#pragma codetta block(64) grid(0)\n", "dim 0 of the grid is 0");
}

TEST_F(CudaUser, WhatTheDeviceCannotLaunch) {
  const std::tuple<const char*, Code, const char*> cases[] = {
      {"block(64) grid(m - 6)", Code::launch_limits, "its grid is 0 x 1 x 1 blocks, and a result has elements"},
      {"block(64) grid(1, m - 8)", Code::launch_limits, "its grid is 1 x -2 x 1 blocks"},
      {"block(64) grid(1, 70000 * m)", Code::launch_limits, "its grid is 1 x 420000 x 1 blocks"},
      {"block(m - 6) grid(1)", Code::launch_limits, "its blocks have 0 x 1 x 1 threads"},
      {"block(1, 1, 16 * m) grid(1)", Code::launch_limits, "its blocks have 1 x 1 x 96 threads"},
      {"block(64, m + 1) grid(1)", Code::launch_limits, "its blocks have 448 threads and registers for 384"},
      {"block(64) grid(1) shared(40000 * m)", Code::launch_limits,
       "Failed to set the allowed dynamic shared memory size to 240000"},
      {"block(64) grid(1) shared(m - 7)", Code::launch_limits, "dynamic shared memory size to -1"},
      {"block(64) grid(m + 1) cluster(2)", Code::launch_limits, "has 7 blocks, no multiple of the 2 of a cluster"},
      {"block(64) grid(1) sizes(9000000000 * m: i32)", Code::launch_limits, "its size 0 is 54000000000"}};
  for (const auto& [clauses, code, part] : cases) {
    Context c = context();
    Bound b = bound(c);
    std::string kernel = source(std::string("#pragma codetta ") + clauses + "\n");
    expect(run(c, program(kernel), b.arguments), code, part);
  }
  EXPECT_EQ(launches(), 0U);
}

TEST_F(CudaUser, ClustersAreForNinePointZero) {
  Context c = context();
  const Program one = program(source("#pragma codetta block(64) grid(2) cluster(2)\n"));
  expect(compile(one, Target::parse("cuda:sm_80").value(), {}, c), Code::kernel_launch,
         "clusters need compute capability 9.0, and the target is sm_80");
  ASSERT_TRUE(compile(one, Target::parse("cuda:sm_90a").value(), {}, c));
  fake_.major = 8;
  Context old = context();
  expect(compile(one, {Backend::cuda, {}, ""}, {}, old), Code::kernel_launch, "clusters need compute capability 9.0");
}

TEST_F(CudaUser, StridesThatTheKernelDoesNotTakeAreChecked) {
  Context c = context();
  Bound b = bound(c);
  const DeviceTensor wide = DeviceTensor::make(Device::open(c).value(), f32, {6, 64}).value();
  b.arguments[0].value = TensorView::make(wide.data(), f32, {6, 10}, {64, 1}).value();
  expect(run(c, program(source("#pragma codetta block(64) grid(m)\n")), b.arguments), Code::guard_failed, "64");
  // Given the stride of its rows, the kernel still relies on adjacent columns.
  const Program strided = program(source("#pragma codetta block(64) grid(m) sizes(stride(x, 0))\n"));
  ASSERT_TRUE(run(c, strided, b.arguments));
  b.arguments[0].value = TensorView::make(wide.data(), f32, {6, 10}, {64, 2}).value();
  expect(run(c, strided, b.arguments), Code::guard_failed, "x");
  // Negative ones are refused by their own name.
  const auto descending = TensorView::make(static_cast<float*>(wide.data()) + 5 * 64, f32, {6, 10}, {-64, 1});
  ASSERT_TRUE(descending);
  b.arguments[0].value = *descending;
  const auto negative = run(c, strided, b.arguments);
  expect(negative, Code::guard_failed, "the stride of dim 0 of x is negative");
  expect(negative, Code::guard_failed, "it is -64 elements");
  // A stride that a configuration does not take is checked, though another one takes it.
  b.arguments[0].value = TensorView::make(wide.data(), f32, {6, 10}, {64, 1}).value();
  fake_.launches.clear();
  expect(run(c, program(source("#pragma codetta block(64) grid(m) sizes(stride(x, D)) config(D = 1) config(D = 0)\n")),
             b.arguments),
         Code::guard_failed, "64");
  EXPECT_EQ(launches(), 0U);
}

TEST_F(CudaUser, SizesMayHaveTheNamesOfStrides) {
  Context c = context();
  const std::string named =
      "def f(x: f32[\"x_stride_0\", \"n\"], decay: f32):\n"
      "    y = user_kernel(\"scale\", x, decay, out=\"f32[x_stride_0, n]\")\n"
      "    return y\n";
  Bound b = bound(c);
  fake_.parameter_sizes["scale"] = {8, 4, 8, 8, 8};
  const auto ran =
      run(c, program(source("#pragma codetta block(64) grid(m) sizes(m, stride(x, 0))\n"), named), b.arguments);
  ASSERT_TRUE(ran) << ran.error().render();
  EXPECT_EQ(value<int64_t>(3), 6);
  EXPECT_EQ(value<int64_t>(4), 10);
}

TEST_F(CudaUser, WhatIsNotCompiledSaysNothing) {
  Context c = context();
  Bound b = bound(c);
  const std::string kernel = source(
      "#pragma codetta block(64) /* grid(1) */ grid(m)\n"
      "/* \n#pragma codetta grid(n) nonsense\n*/\n"
      "#if 0\n#pragma codetta grid(2)\n#if 1\n#pragma codetta grid(3)\n#endif\n#pragma codetta grid(4)\n"
      "#else\n#pragma codetta shared(m // 4)\n#endif\n"
      "const char* a = \"/*\", b = '\"', c = '\\'', *d = R\"x(/* )\" )x\"; int e = 1'000; // it's \\\n /*\n"
      "#pragma codetta cluster(2) /* \" */\n");
  const auto ran = run(c, program(kernel), b.arguments);
  ASSERT_TRUE(ran) << ran.error().render();
  EXPECT_EQ(launch().config.grid_x, 6U);
  EXPECT_EQ(launch().config.dynamic_shared, 1U);
  ASSERT_NE(attribute(abi::launch_cluster_dimension), nullptr);

  const std::string waiting = "#pragma codetta block(64) grid(m) dependent\n";
  for (const char* comment :
       {"// griddepcontrol.wait\n", "/* cudaGridDependencySynchronize(); */\n",
        "#if 0\n__device__ void f() { griddepcontrol_wait(); }\n#endif\n", "// one \\\n griddepcontrol.wait\n"})
    expect_refused(waiting + comment, "the source never waits for the kernel in front");
  for (const char* code : {"__device__ void f() { cuda::ptx::griddepcontrol_wait(); }\n",
                           "__device__ void f() { cudaGridDependencySynchronize(); }\n",
                           "__device__ void f() { asm volatile(\"griddepcontrol.wait;\" ::: \"memory\"); }\n"})
    EXPECT_TRUE(compile(program(source(waiting + code)), {Backend::cuda, {}, "sm_90a"}, {}, c)) << code;
}

TEST_F(CudaUser, AFailedLaunchSaysWhatWasAsked) {
  Context c = context();
  Bound b = bound(c);
  const Program one = program(source("#pragma codetta block(64) grid(m)\n"));
  fake_.fail["cuLaunchKernelEx"] = runtime::cuda::Status::LaunchOutOfResources;
  expect(run(c, one, b.arguments), Code::launch_limits, "Failed to launch kernel codetta_scale_");
  fake_.fail.clear();
  fake_.fail["cuFuncSetAttribute"] = runtime::cuda::Status::InvalidValue;
  expect(run(c, program(source("#pragma codetta block(64) grid(m) shared(64)\n")), b.arguments), Code::driver_call,
         "dynamic shared memory = 64");
}

TEST_F(CudaUser, OneKernelForEqualCallsAndOneForEachConfiguration) {
  Context c = context();
  const std::string twice =
      "def f(x: f32[\"m\", \"n\"], decay: f32):\n"
      "    y = user_kernel(\"scale\", user_kernel(\"scale\", x, decay, out=\"f32[m, n]\"), 2.0 * decay, "
      "out=\"f32[m, n]\")\n"
      "    return y\n";
  // A computed number lies on the device, so that the second call passes another kind of parameter.
  const auto mixed =
      compile(program(source("#pragma codetta block(64) grid(m)\n"), twice), {Backend::cuda, {}, ""}, {}, c);
  expect(mixed, Code::kernel_launch, "decay is a number, and the call passes a tensor");
  const std::string same =
      "def f(x: f32[\"m\", \"n\"], decay: f32):\n"
      "    y = user_kernel(\"scale\", user_kernel(\"scale\", x, decay, out=\"f32[m, n]\"), decay, out=\"f32[m, n]\")\n"
      "    return y\n";
  Bound b = bound(c);
  const int before = nvrtc_.compiles;
  ASSERT_TRUE(run(c, program(source("#pragma codetta block(64) grid(m)\n"), same), b.arguments));
  EXPECT_EQ(launches(), 2U);
  EXPECT_EQ(nvrtc_.compiles, before + 1) << "that of the user's, which stores the output";
}

TEST_F(CudaUser, WhatIsSaidWrongly) {
  expect_refused("#pragma codetta blocks(64)\n", "did you mean block?");
  expect_refused("#pragma codetta block(64)\n", "there is no grid that holds");
  expect_refused("#pragma codetta grid(m)\n", "there is no block that holds");
  expect_refused("#pragma codetta block(64) grid(m\n", "the parenthesis is not closed");
  expect_refused("#pragma codetta block(64) grid(m ? 1)\n", "nothing here is written with this sign");
  expect_refused("#pragma codetta block(64) grid(rows)\n", "rows is no size of the kernel and no meta-parameter");
  expect_refused("#pragma codetta block(64) grid(m / 0)\n", "division by zero");
  expect_refused("#pragma codetta block(64) grid(9223372036854775807 + 1)\n", "overflow");
  expect_refused("#pragma codetta block(64) grid(-3)\n", "dim 0 of the grid is -3");
  expect_refused("#pragma codetta block(32, 33) grid(m)\n", "a block of 32 x 33 x 1 threads");
  expect_refused("#pragma codetta block(64) grid(m, n, m, n)\n", "grid has at most 3 values");
  expect_refused("#pragma codetta block(64) grid(m) if()\n", "a number, a size or a meta-parameter is expected here");
  expect_refused("#pragma codetta block(64) grid(m) if(m == 4)\n", "a condition is a number");
  expect_refused("#pragma codetta block(64) grid(m) if(1)\n", "a comparison is expected here");
  expect_refused("#pragma codetta block(64) grid(m) shared(2097152)\n", "2097152 bytes of dynamic shared memory");
  expect_refused("#pragma codetta block(64) grid(m) cluster(32)\n", "dim 0 of the cluster is 32");
  expect_refused("#pragma codetta block(64) grid(m) cluster(m)\n", "dim 0 of the cluster is m");
  expect_refused("#pragma codetta block(64) grid(m) config(m = 4)\n", "m is a parameter or a size of the kernel, too");
  expect_refused("#pragma codetta block(64) grid(m) config(A = 4, A = 5)\n", "A has two values");
  expect_refused("#pragma codetta block(64) grid(m) dependent\n", "the source never waits for the kernel in front");
  expect_refused("#pragma codetta block(64) grid(m) window(decay)\n", "decay is a number");
  expect_refused("#pragma codetta block(64) grid(m) window(x, percent = 101)\n", "101 percent of accesses");
  expect_refused("#pragma codetta block(64) grid(m) sizes(m: f32)\n", "a size is i32 or i64, not f32");
  expect_refused("#pragma codetta block(64) grid(stride(x, 0))\n", "a stride is not known here");
  expect_refused("#pragma codetta block(64) grid(size(x, 2))\n", "x has 2 dims, and no dim 2");
  expect_refused("#pragma codetta block(64) grid(99999999999999999999)\n", "the number does not fit 64 bits");
  expect_refused("#pragma codetta kernel(x: f32[m, n], decay: f32, out y: f32[m, n])\n", "declared twice");
}

TEST_F(CudaUser, NestingEndsSomewhere) {
  const auto nested = [](const std::string& open, const std::string& inner, const std::string& close, size_t count) {
    std::string front, back;
    for (size_t i = 0; i < count; ++i) front += open, back += close;
    return "#pragma codetta block(64) grid(" + front + inner + back + ")\n";
  };
  constexpr size_t deep = 100000;
  expect_refused(nested("size(x, ", "0", ")", deep), "nested too deeply");
  expect_refused(nested("(", "1", ")", deep), "nested too deeply");
  expect_refused(nested("-", "1", "", deep), "nested too deeply");
  expect_refused(nested("min(1, ", "1", ")", deep), "nested too deeply");
  Context c = context();
  EXPECT_TRUE(compile(program(source(nested("(", "m", ")", 60))), {Backend::cuda, {}, "sm_90a"}, {}, c));
}

TEST_F(CudaUser, ValuesThatDoNotFit) {
  const std::string head = "#pragma codetta block(64) grid(m) ";
  const char* most = "9223372036854775807";
  for (const std::string& value : {std::string(most) + " + 1", "-" + std::string(most) + " - 2",
                                   "-(-" + std::string(most) + " - 1)", std::string(most) + " * 2"}) {
    expect_refused(head + "shared(" + value + ")\n", "overflow");
    expect_refused(head + "sizes(" + value + ")\n", "overflow");
    expect_refused(head + "window(x, bytes = " + value + ")\n", "overflow");
  }
}

TEST_F(CudaUser, WhatIsSaidWronglyOfLaunches) {
  const std::string head = "#pragma codetta block(64) grid(m) ";
  for (const char* word : {"cooperative", "dependent"}) {
    for (const char* value : {"0", "no", "false", "1"})
      expect_refused(head + word + "(" + value + ")\n", std::string(word) + " takes no value");
  }
  std::string sizes = "m";
  for (int i = 0; i < 31; ++i) sizes += ", m";
  expect_refused(head + "sizes(" + sizes + ")\n", "more than 31 sizes");
  expect_refused(head + "sizes(m) sizes(n)\n", "the sizes are declared twice");
  expect_refused(head + "sizes(m) if(1 == 1)\n", "there are no sizes");
  expect_refused(head + "sizes(m n)\n", "a comma is expected here");
  expect_refused(head + "shared(ceil_div(m))\n", "ceil_div of 1 values is no function here");
  expect_refused(head + "shared(ceil_div(m, n, m))\n", "ceil_div of 3 values is no function here");
  expect_refused(head + "window\n", "the window names no tensor");
  expect_refused(head + "window()\n", "a tensor of the kernel is expected here");
  expect_refused(head + "window(z)\n", "a tensor of the kernel is expected here");
  expect_refused(head + "window(x y)\n", "a comma is expected here");
  expect_refused(head + "window(x, )\n", "bytes or percent and a value are expected here");
  expect_refused(head + "window(x, bytes)\n", "bytes or percent and a value are expected here");
  expect_refused(head + "window(x, ratio = 3)\n", "a window has bytes and percent, no ratio");
  expect_refused(head + "window(x, percent = 0)\n", "0 percent of accesses");
  expect_refused(head + "window(x, percent = m)\n", "the part of accesses is a number");
  expect_refused(head + "window(x) window(y)\n", "two clauses window with 0 conditions hold");
}

TEST_F(CudaUser, PlacesFollowLineDirectives) {
  const Error error =
      refused("#line 40 \"helpers.cuh\"\nint a;\n#line 3 \"scale.cu\"\n\n#pragma codetta grid(rows) block(1)\n");
  EXPECT_NE(error.render().find("scale.cu:4:22"), std::string::npos) << error.render();
  const Error inner = refused("#line 40 \"helpers.cuh\"\n#pragma codetta grid(rows) block(1)\n");
  EXPECT_NE(inner.render().find("helpers.cuh:40:22"), std::string::npos) << inner.render();
}

TEST_F(CudaUser, WhatTheCallDoesNotPass) {
  const auto refused_with = [&](const std::string& declaration, std::string_view part) {
    Context c = context();
    const auto compiled = compile(program("#pragma codetta kernel(" + declaration + ") block(64) grid(1)\n" + body),
                                  {Backend::cuda, {}, ""}, {}, c);
    expect(compiled, Code::kernel_launch, part);
  };
  refused_with("x: f32[m, n], decay: f32", "it declares 2 parameters, and the call has 3");
  refused_with("x: f32[m, n], decay: f32, out y: f32[m, n], out z: f32[m, n]", "z is parameter 4");
  refused_with("x: bf16[m, n], decay: f32, out y: f32[m, n]", "x is bf16, and the call passes f32");
  refused_with("x: real[m, n], decay: f32, out y: f32[m, n]", "real is no element type");
  refused_with("x: f32[m, n], decay: f32[], out y: f32[m, n]", "decay is a tensor, and the call passes a number");
  refused_with("x: f32[m], decay: f32, out y: f32[m, n]", "x is declared with 1 dims, and the call passes 2");
  refused_with("x: f32[m, n, k], decay: f32, out y: f32[m, n]", "x is declared with more dims, and the call passes 2");
  refused_with("x: f32[m, m], decay: f32, out y: f32[m, n]", "dim 1 of x is m, and the call passes n");
  refused_with("x: f32[m, 10], decay: f32, out y: f32[m, n]", "dim 1 of x is 10, and the call passes n");
  refused_with("out x: f32[m, n], decay: f32, out y: f32[m, n]", "x is declared as a result");
  refused_with("x: f32[m, n], x: f32, out y: f32[m, n]", "x is declared twice");
  refused_with("x f32[m, n]", "a colon and a type are expected here");
  Context c = context();
  expect(compile(program(body), {Backend::cuda, {}, ""}, {}, c), Code::kernel_launch,
         "the source does not declare the kernel's parameters");
}

TEST_F(CudaUser, SourcesWithoutAFileAreNamedByTheirLanguage) {
  Context c = context();
  auto named =
      Program::parse(text, "p.py")
          .value()
          .with_kernels({{"scale", source("#pragma codetta grid(rows) block(1)\n"), UserKernel::Language::cuda, ""}});
  expect(compile(named.value(), {Backend::cuda, {}, ""}, {}, c), Code::kernel_launch, "scale.cu:2:");
}

TEST_F(CudaUser, OtherLanguagesAndTargets) {
  Context c = context();
  const Program cuda_source = program(source("#pragma codetta block(64) grid(m)\n"));
  expect(compile(cuda_source, Target::parse("hip:gfx942").value(), {}, c), Code::target_lacks,
         "the source of scale is CUDA C++, and the target is an AMD GPU, which takes HIP");
  expect(compile(cuda_source, Target::host(), {}, c), Code::target_lacks, "the target is a CPU, which takes C++");
  const Program other = Program::parse(text, "p.py").value().with_kernels({{"scale", "void scale() {}"}}).value();
  expect(compile(other, {Backend::cuda, {}, ""}, {}, c), Code::target_lacks,
         "the source of scale is C++, and the target is an NVIDIA GPU, which takes CUDA C++");
}

}  // namespace
}  // namespace codetta
