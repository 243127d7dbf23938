// SPDX-License-Identifier: Apache-2.0
// Programs for CUDA as Python modules over a pretended cuda.bindings: the launches of runs in process, but for the
// addresses, which are those of the same tensors.
#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "device/host/engine.h"
#include "package/gpu_call.hpp"
#include "package/gpu_python.hpp"
#include "support/random_program.hpp"

namespace codetta::test {
namespace {

TEST_F(CudaPython, LaunchesWhatRunsInProcessLaunch) {
  FakeGpu gpu;
  Context context = uncached();
  struct Case {
    std::string text;
    std::vector<TensorView> views;
    std::vector<FakeLaunch> launches;
    uint64_t workspace = 0, bytes = 0;
  };
  std::vector<Case> cases;
  std::vector<runtime::cuda::DeviceBuffer> kept;
  std::string list;
  const auto add = [&](const std::string& text, const Sizes& sizes) {
    const auto package = package_of(text, sizes, context);
    if (package == nullptr) return;
    Case one{text, {}, {}};
    for (const package::Buffer& buffer : package->buffers) {
      if (buffer.role != package::Buffer::Role::Argument && buffer.role != package::Buffer::Role::Output) continue;
      Dims shape;
      for (const types::Dim& dim : buffer.shape) shape.push_back(dim.evaluate(sizes).value());
      one.views.push_back(gpu.tensor(buffer.dtype, shape));
    }
    auto execution = gpu.prepare(package, one.views);
    if (!execution) return;
    one.bytes = static_cast<uint64_t>(execution->workspace_size());
    kept.push_back(runtime::cuda::DeviceBuffer::make(gpu.device, one.bytes + 256).value());
    one.workspace = kept.back().address();
    ASSERT_TRUE(execution->set_workspace(reinterpret_cast<void*>(one.workspace), static_cast<int64_t>(one.bytes)));
    gpu.fake.launches.clear();
    ASSERT_TRUE(execution->run(nullptr));
    one.launches = std::move(gpu.fake.launches);
    gpu.fake.launches.clear();
    list += write("case_" + std::to_string(cases.size()), *package, one.views);
    cases.push_back(std::move(one));
  };
  add("def f(x: bf16['m', 1024], w: bf16[1024, 3584], b: bf16[3584]):\n    y = gelu(x @ w + b)\n    return y\n",
      {{"m", 1024}});
  add("def f(x: bf16['m', 1024], g: bf16[1024, 512], u: bf16[1024, 512]):\n    y = silu(x @ g) * (x @ u)\n"
      "    return y\n",
      {{"m", 8}});
  add("def f(x: f32['m', 1024], q: i8[1024, 512], s: bf16[512], v: bf16[512, 1024]):\n"
      "    h = cast(relu(x * 0.5), bf16) @ cast(cast(q, bf16) * s, bf16)\n"
      "    y = cast(h, bf16) @ v\n    return h, y\n",
      {{"m", 4}});
  add("def f(x: bf16['m', 256], q: bf16[128, 256], k: bf16[128, 256], v: bf16[128, 256]):\n"
      "    y = x @ permute(q, [1, 0])\n    z = x @ permute(k, [1, 0])\n    w = x @ permute(v, [1, 0])\n"
      "    return y, z, w\n",
      {{"m", 2048}});
  add("def f(x: bf16['m', 256], q: bf16[256, 512], k: bf16[256, 'n'], v: bf16[256, 64], b: f32[512]):\n"
      "    y = x @ q + b\n    z = x @ k\n    w = cast(x @ v, f16)\n    return y, z, w\n",
      {{"m", 1}, {"n", 128}});
  for (const int64_t n : {512, 0}) {
    add("def f(x: bf16['m', 1024], q: bf16[1024, 2048], k: bf16[1024, 'n'], r: bf16['m', 'n']):\n"
        "    y = cast(x @ q, bf16)\n    z = cast(x @ k, bf16) + r\n    return y, z\n",
        {{"m", 512}, {"n", n}});
  }
  add("def f(x: bf16['m', 1024], q: bf16[1024, 2048], k: bf16[1024, 512], v: bf16[1024, 512]):\n"
      "    y = concat(cast(x @ q, bf16), cast(x @ k, bf16) * 2.0, cast(x @ v, bf16), dim=1)\n    return y\n",
      {{"m", 512}});
  add("def f(x: bf16['m', 256], w: bf16[256, 768]):\n    y = x @ w[:, :512]\n    z = relu(x @ w[:, 512:])\n"
      "    return y, z\n",
      {{"m", 2}});
  add("def f(x: bf16['m', 1001], w: bf16[1001, 333]):\n    y = softmax(x @ w)\n    return y\n", {{"m", 500}});
  add("def f(x: f32['b', 'm', 64], w: f32['b', 64, 'n']):\n    y = x @ w\n    s = sum(y, dim=-1)\n    t = max(y)\n"
      "    return y, s, t\n",
      {{"b", 3}, {"m", 200}, {"n", 100}});
  add("def f(x: f16['m', 16384], w: f16[16384, 256], r: f16['m', 256]):\n    y = x @ w + r\n    return y\n",
      {{"m", 128}});
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    RandomProgramOptions how = drawn_options(seed);
    how.operations = 3 + static_cast<int>(seed % 8);
    how.control = how.counts = how.parts = how.inner_counts = false;  // the pretended GPU computes nothing
    how.devices = 1;
    const RandomProgram made = random_program(seed, how);
    add(made.text, made.sizes);
  }
  ASSERT_GE(cases.size(), 12U);
  if (!run(list)) GTEST_SKIP() << "no numpy";
  size_t launches = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    EXPECT_EQ(compare(one.launches, one.views, one.workspace, one.bytes,
                      read_run(file("case_" + std::to_string(i) + ".out"))),
              "")
        << one.text;
    launches += one.launches.size();
  }
  EXPECT_GT(launches, cases.size());
}

TEST_F(CudaPython, SaysWhatIsWrong) {
  FakeGpu gpu;
  Context context = uncached();
  const auto package = package_of("def f(x: bf16['m', 256], w: bf16[256, 512]):\n    y = relu(x @ w)\n    return y\n",
                                  {{"m", 4096}}, context);
  const auto form = [&](int64_t m, int64_t n) {
    return std::vector<TensorView>{gpu.tensor(DType::bf16, {m, 256}), gpu.tensor(DType::bf16, {256, n}),
                                   gpu.tensor(DType::f32, {m, 512})};
  };
  const std::string good = write("good", *package, form(4096, 512)), wrong = write("wrong", *package, form(4096, 511));
  const struct {
    std::string list, failing, wanted;
  } cases[] = {
      {good, "cuFuncSetAttribute=1", "Failed to set the allowed dynamic shared memory size to "},
      {good, "cuLaunchKernelEx=701", "Failed to launch kernel codetta_"},
      {good, "cuTensorMapEncodeTiled=1", "Failed to initialize the TMA descriptor of x with error: "},
      {good, "cuMemcpyHtoD=0", "0"},
      {good, "capability=80",
       "E0430: the kernels are compiled for sm_90a, and Pretended GPU 0 has compute capability 8.0"},
      {wrong, "cuMemcpyHtoD=0", "w does not fit"},
  };
  for (const auto& one : cases) {
    if (!run(one.list, {one.failing})) GTEST_SKIP() << "no numpy";
    const std::string name = one.list == good ? "good.out" : "wrong.out";
    EXPECT_NE(read_run(file(name)).result.find(one.wanted), std::string::npos) << read_run(file(name)).result;
  }
}

// What a first call loads and allocates leaves the capture of its stream valid, and what would wait is refused.
TEST_F(CudaPython, AFirstCallInACapture) {
  FakeGpu gpu;
  Context context = uncached();
  const auto rows = package_of(
      "def f(table: f32[10, 64], ids: i32[8]):\n    h = embedding(table, ids)\n    y = exp(h - max(h))\n    return y\n",
      {}, context);
  const auto branch = package_of(
      "def up(x):\n    return x * 2.0\n\ndef down(x):\n    return x + 1.0\n\n"
      "def f(x: f32[64], p: bool[()]):\n    y = cond(p, up, down, x)\n    return y\n",
      {}, context);
  ASSERT_TRUE(rows != nullptr && branch != nullptr);
  const std::string list =
      write("rows", *rows) + " f32:10,64, i32:8, f32:8,64,\n" + write("branch", *branch) + " f32:64, bool: f32:64,\n";
  if (!run(list, {"within=3001"})) GTEST_SKIP() << "no numpy";
  const PythonRun captured = read_run(file("rows.out")), refused = read_run(file("branch.out"));
  EXPECT_EQ(captured.result, "0");
  EXPECT_EQ(captured.wrong, "");
  EXPECT_GE(captured.launches.size(), 1U);
  EXPECT_EQ(refused.result, "-1 E0646: a branch can not be captured: p is read on the host to decide what runs");
  EXPECT_EQ(refused.wrong, "");
}

// Copies without tensor maps stand in front of the launch that is refused.
TEST_F(CudaPython, ARefusedCallHasEnqueuedNothing) {
  FakeGpu gpu;
  Context context = uncached();
  const auto package = package_of(
      "def f(q: f32['m', 512], x: bf16['m', 256], w: bf16[256, 512]):\n    h = softmax(q)\n    y = relu(x @ w) * h\n"
      "    return h, y\n",
      {{"m", 4096}}, context);
  ASSERT_EQ(package->kernels.size(), 2U);
  const auto form = [&](DType dtype, int64_t columns) { return gpu.tensor(dtype, {4096, columns}); };
  const std::string list = write("two", *package,
                                 {form(DType::f32, 512), form(DType::bf16, 256), gpu.tensor(DType::bf16, {256, 512}),
                                  form(DType::f32, 512), form(DType::f32, 512)});
  if (!run(list, {"cuTensorMapEncodeTiled=1"})) GTEST_SKIP() << "no numpy";
  const PythonRun refused = read_run(file("two.out"));
  EXPECT_NE(refused.result.find("-1 E0647: Failed to initialize the TMA descriptor of "), std::string::npos)
      << refused.result;
  EXPECT_TRUE(refused.launches.empty());
  ASSERT_TRUE(run(list));
  EXPECT_EQ(read_run(file("two.out")).result, "0");
  const PythonRun good = read_run(file("two.out"));
  ASSERT_EQ(good.launches.size(), 2U);
  const auto first = std::find_if(package->kernels.begin(), package->kernels.end(),
                                  [](const package::Kernel& kernel) { return kernel.maps.empty(); });
  ASSERT_NE(first, package->kernels.end());  // what needs no tensor map is launched in front of what does
  EXPECT_EQ(good.launches[0].function, first->entries[0].symbol);
}

// The first program of a module whose kernels take a call's tensors is launched, and nothing of those in front of it.
TEST_F(CudaPython, TakesTensorsThatLieAnywhere) {
  FakeGpu gpu;
  Context context = uncached();
  const Program program = Program::parse(
                              "def f(x: bf16['m', 'k'], w: bf16['k', 512], b: f32[512]):\n"
                              "    h = exp(b) * 2.0\n    y = x @ w + b\n    return h, y\n",
                              "program.py")
                              .value();
  std::vector<package::Package> packages;
  for (const auto alignment : {plan::Alignment::Hinted, plan::Alignment::Proven, plan::Alignment::Any})
    packages.push_back(
        planned(program, Target::parse("cuda:sm_90a").value(), {{"m", 4096}, {"k", 512}}, context, alignment).value());
  const auto module = emit::host::emit_python(packages[0], {CODETTA_TEST_HOST, {}, true, {&packages[1], &packages[2]}});
  ASSERT_TRUE(module) << module.error().render();
  std::ofstream(file("any.py")) << *module;
  const struct {
    std::string forms;
    size_t program;  // 3: none
  } cases[] = {
      {"bf16:4096,512, bf16:512,512, f32:512, f32:512, f32:4096,512,", 0},
      {"bf16:4096,33, bf16:33,512, f32:512, f32:512, f32:4096,512,", 1},
      {"bf16:4096,512,+2 bf16:512,512, f32:512, f32:512, f32:4096,512,", 2},
      {"bf16:4096,512,^1,4096 bf16:512,512, f32:512, f32:512, f32:4096,512,", 2},
      {"bf16:4096,512, bf16:512,512, f32:512,^0 f32:512, f32:4096,512,", 2},
      {"bf16:4096,512, bf16:512,512, f32:512, f32:512, f32:4096,512,^1,4096", 2},
      {"bf16:4096,512, bf16:512,511, f32:512, f32:512, f32:4096,512,", 3},
  };
  std::string list;
  for (size_t i = 0; i < std::size(cases); ++i)
    list += file("any.py") + " " + file("any" + std::to_string(i) + ".out") + " " + cases[i].forms + "\n";
  if (!run(list)) GTEST_SKIP() << "no numpy";
  for (size_t i = 0; i < std::size(cases); ++i) {
    const PythonRun ran = read_run(file("any" + std::to_string(i) + ".out"));
    if (cases[i].program == 3) {
      EXPECT_NE(ran.result.find("-1 E0610: w does not fit"), std::string::npos) << ran.result;
      EXPECT_TRUE(ran.launches.empty());
      continue;
    }
    EXPECT_EQ(ran.result.substr(0, 1), "0") << cases[i].forms << ": " << ran.result;
    // By function, threads and shared memory, which the three products differ in.
    std::set<std::string> entries;
    for (const package::Kernel& kernel : packages[cases[i].program].kernels) {
      for (const package::GpuEntry& entry : kernel.entries)
        entries.insert(fmt::format("{} {} {}", entry.symbol, entry.threads, entry.shared_bytes));
    }
    EXPECT_FALSE(ran.launches.empty()) << cases[i].forms;
    for (const PythonLaunch& launch : ran.launches) {
      std::istringstream numbers(launch.numbers);
      std::vector<std::string> words{std::istream_iterator<std::string>(numbers), {}};
      ASSERT_GT(words.size(), 6U);
      EXPECT_TRUE(entries.contains(launch.function + " " + words[3] + " " + words[6])) << cases[i].forms;
    }
  }
}

// Behind a size that the call computes, too: it is known before any of the call is enqueued, which would be too late in
// this program, for what is donated is written over then.
TEST_F(CudaPython, LooksAtWhatIsBehindAComputedSize) {
  FakeGpu gpu;
  ContextOptions options;
  options.cache_enabled = false;
  Context context = *Context::make(options);
  const Program program = Program::parse(
                              "def f(x: bf16['m', 'k'], w: bf16['k', 512], d: donated[f32['m', 8]]):\n    h = d * 2.0\n"
                              "    c = cast(sum(cast(max(d, dim=1, keepdim=False) > 0.0, i32), keepdim=False), u8)\n"
                              "    y = sum(cast(x[:c] @ w, f32), dim=0)\n    return h, y\n",
                              "program.py")
                              .value();
  std::vector<package::Package> packages;
  for (const auto alignment : {plan::Alignment::Hinted, plan::Alignment::Proven, plan::Alignment::Any})
    packages.push_back(
        planned(program, Target::parse("cuda:sm_90a").value(), {{"m", 4096}, {"k", 512}}, context, alignment).value());
  const auto module = emit::host::emit_python(packages[0], {CODETTA_TEST_HOST, {}, true, {&packages[1], &packages[2]}});
  ASSERT_TRUE(module) << module.error().render();
  std::ofstream(file("late.py")) << *module;
  const std::string cases[] = {"bf16:4096,512,", "bf16:4096,33,", "bf16:4096,512,+2"};  // by program
  std::string list;
  for (size_t i = 0; i < std::size(cases); ++i)
    list += fmt::format("{} {} {} bf16:{},512, f32:4096,8, f32:4096,8, f32:1,512,\n", file("late.py"),
                        file("late" + std::to_string(i)), cases[i], i == 1 ? 33 : 512);
  if (!run(list)) GTEST_SKIP() << "no numpy";
  for (size_t i = 0; i < std::size(cases); ++i) {
    const PythonRun ran = read_run(file("late" + std::to_string(i)));
    EXPECT_EQ(ran.result.substr(0, 1), "0") << cases[i] << ": " << ran.result;
    const auto product = std::find_if(packages[i].kernels.begin(), packages[i].kernels.end(), [](const auto& kernel) {
      return std::holds_alternative<package::GpuGemmConfig>(kernel.config);
    });
    ASSERT_NE(product, packages[i].kernels.end());
    size_t products = 0, first = 0;
    for (const PythonLaunch& launch : ran.launches) {
      std::istringstream numbers(launch.numbers);
      std::vector<std::string> words{std::istream_iterator<std::string>(numbers), {}};
      ASSERT_GT(words.size(), 6U);
      first += launch.function == ran.launches[0].function && launch.numbers == ran.launches[0].numbers ? 1 : 0;
      if (launch.function != "codetta_gemm") continue;
      ++products;
      const auto entry = std::find_if(product->entries.begin(), product->entries.end(),
                                      [](const auto& one) { return one.symbol == "codetta_gemm"; });
      ASSERT_NE(entry, product->entries.end());
      EXPECT_EQ(words[3] + " " + words[6], fmt::format("{} {}", entry->threads, entry->shared_bytes)) << cases[i];
    }
    EXPECT_EQ(products, 1U) << cases[i];
    EXPECT_EQ(first, 1U) << cases[i] << ": nothing ran before";
  }
}

// Of sizes of 0 a program takes over that makes what the kernels of the first compute with elements that are not there.
TEST_F(CudaPython, MakesWhatHasElementsOfSizesOf0) {
  FakeGpu gpu;
  Context context = uncached();
  const Program program = Program::parse(
                              "def f(x: f32['m', 64], w: f32[64, 32]):\n    y = x @ w\n"
                              "    t = sum(exp(sum(y, dim=0)))\n    return y, t\n",
                              "program.py")
                              .value();
  std::vector<package::Package> packages;
  for (const auto alignment : {plan::Alignment::Hinted, plan::Alignment::Empty})
    packages.push_back(planned(program, Target::parse("cuda:sm_90a").value(), {{"m", 64}}, context, alignment).value());
  ASSERT_TRUE(package::misses_stores(packages[0]));
  ASSERT_FALSE(package::misses_stores(packages[1]));
  const auto module = emit::host::emit_python(packages[0], {CODETTA_TEST_HOST, {}, true, {&packages[1]}});
  ASSERT_TRUE(module) << module.error().render();
  std::ofstream(file("empty.py")) << *module;
  std::string list;
  for (const char* rows : {"64", "0"})
    list += fmt::format("{0} {1} f32:{2},64, f32:64,32, f32:{2},32, f32:1,1,\n", file("empty.py"),
                        file(std::string("empty") + rows), rows);
  if (!run(list)) GTEST_SKIP() << "no numpy";
  const PythonRun all = read_run(file("empty64")), none = read_run(file("empty0"));
  EXPECT_EQ(all.result.substr(0, 1), "0") << all.result;
  EXPECT_EQ(none.result.substr(0, 1), "0") << none.result;
  const auto launches = [](const PythonRun& ran, std::string_view function) {
    return std::count_if(ran.launches.begin(), ran.launches.end(),
                         [&](const PythonLaunch& launch) { return launch.function == function; });
  };
  EXPECT_EQ(launches(all, "codetta_gemm"), 1);
  EXPECT_EQ(launches(none, "codetta_gemm"), 0);
  EXPECT_FALSE(none.launches.empty()) << "t is stored all the same";
}

// A module that knows other structs than the engine's library is refused, and writes beside none of its own.
TEST_F(CudaPython, IsHeldToTheEnginesStructs) {
  FakeGpu gpu;
  Context context = uncached();
  const auto package = package_of("def f(x: f32[64, 64]):\n    y = relu(x)\n    return y\n", {}, context);
  const std::vector<TensorView> views{gpu.tensor(DType::f32, {64, 64}), gpu.tensor(DType::f32, {64, 64})};
  const struct {
    std::string from, to, wanted;
  } cases[] = {
      {"", "", "0"},
      {", (\"unaligned\", ctypes.c_bool)]", "]",
       fmt::format("-1 E0508: " CODETTA_TEST_HOST " has {} bytes for a Trouble, and this module has {}: emit it again "
                   "with the version that the library is of",
                   sizeof(gpu::host::Trouble), sizeof(gpu::host::Trouble) - 8)},
      {"_INTERFACE = ", "_INTERFACE = 9",
       fmt::format("-1 E0508: " CODETTA_TEST_HOST " has interface {0}, and this module is emitted for 9{0}: emit it "
                   "again with the version that the library is of",
                   codetta::host::host_interface)},
  };
  for (const auto& one : cases) {
    const std::string list = write("held", *package, views);
    std::ifstream read(file("held.py"));
    std::string module{std::istreambuf_iterator<char>(read), {}};
    ASSERT_NE(module.find(one.from), std::string::npos);
    std::ofstream(file("held.py")) << module.replace(module.find(one.from), one.from.size(), one.to);
    if (!run(list)) GTEST_SKIP() << "no numpy";
    EXPECT_EQ(read_run(file("held.out")).result, one.wanted);
  }
}

TEST_F(CudaPython, TakesWhatTheDeviceCanReadAndIsOfItsType) {
  FakeGpu gpu;
  Context context = uncached();
  const auto package = package_of(
      "def f(x: f32[64, 64], r: bf16[64], s: f8e4m3[64]):\n    y = x + cast(r, f32) + cast(s, f32)\n    return y\n", {},
      context);
  write("types", *package, {});
  const std::string begin = file("types.py") + " " + file("types.out") + " ",
                    other = "r is int16, and bf16 has to be passed as uint16 or bfloat16";
  const struct {
    std::string x, r, s, wanted;
  } cases[] = {
      {"f32:64,64", "bf16:64", "f8e4m3:64", ""},
      {"f32:64,64@managed", "u16:64@pinned", "u8:64", ""},
      {"<f4:64,64", "<V2:64", "|V1:64", ""},
      {"<f4:64,64", "<u2:64", "|u1:64", ""},
      {"i32:64,64", "bf16:64", "f8e4m3:64", "E0610: x is int32, and f32 has to be passed as float32"},
      {"<i4:64,64", "bf16:64", "f8e4m3:64", "E0610: x is int32, and f32 has to be passed as float32"},
      {">f4:64,64", "bf16:64", "f8e4m3:64", "E0610: x is >f4, and f32 has to be passed as float32"},
      {"f64:64,64", "bf16:64", "f8e4m3:64", "E0610: x is float64, and f32 has to be passed as float32"},
      {"f32:64,64", "f16:64", "f8e4m3:64", "E0610: r is float16, and bf16 has to be passed as uint16 or bfloat16"},
      {"f32:64,64", "<i2:64", "f8e4m3:64", "E0610: " + other},
      {"f32:64,64", "bf16:64", "f8e5m2:64",
       "E0610: s is float8_e5m2, and f8e4m3 has to be passed as uint8 or float8_e4m3fn"},
      {"f32:64,64", "bf16:64@host", "f8e4m3:64", "E0648: r does not lie on device 0: its address 0x"},
      {"<f4:64,64@host", "bf16:64", "f8e4m3:64", "is host memory that the device can not read"},
      {"f32:64,64", "bf16:64", "f8e4m3:64@device1", "is memory of device 1"},
  };
  for (const auto& one : cases) {
    if (!run(begin + one.x + " " + one.r + " " + one.s + " f32:64,64\n")) GTEST_SKIP() << "no numpy";
    const PythonRun said = read_run(file("types.out"));
    EXPECT_EQ(said.launches.size(), one.wanted.empty() ? 1U : 0U) << said.result;
    if (one.wanted.empty()) {
      EXPECT_EQ(said.result, "0");
    } else {
      EXPECT_TRUE(said.result.starts_with("-1 ") && said.result.find(one.wanted) != std::string::npos) << said.result;
    }
  }
}

// Kernels rely on the alignment of the memory that they are planned in, whoever allocated it.
TEST_F(CudaPython, TakesDonatedMemoryThatIsAligned) {
  FakeGpu gpu;
  Context context = uncached();
  const auto package = package_of(
      "def f(x: donated[f32['m', 256]], w: f32[256, 256]):\n    y = relu(relu(x @ w) @ w)\n    z = y @ w\n    return "
      "z\n",
      {{"m", 4096}}, context);
  ASSERT_TRUE(std::any_of(package->steps.begin(), package->steps.end(), [&](const package::Step& step) {
    const auto* reuse = std::get_if<package::Reuse>(&step);
    return reuse != nullptr && package->buffers[reuse->from].donated &&
           package->buffers[reuse->buffer].alignment == 256;
  })) << "x is reused";
  const std::vector<TensorView> views{gpu.tensor(DType::f32, {4096, 256}), gpu.tensor(DType::f32, {256, 256}),
                                      gpu.tensor(DType::f32, {4096, 256})};
  const std::string good = write("donated", *package, views);
  const std::string first = " f32:4096,256,";
  const size_t at = good.find(first) + first.size();
  for (const auto& [shift, wanted] : {std::pair<const char*, const char*>{"+256", "0"},
                                      {"+128", "E0610: donated x can not be reused: its address is 128 modulo 256"}}) {
    if (!run(good.substr(0, at) + shift + good.substr(at))) GTEST_SKIP() << "no numpy";
    const std::string result = read_run(file("donated.out")).result;
    EXPECT_TRUE(result.find(wanted) != std::string::npos && (result == "0") == (wanted == std::string("0")))
        << shift << ": " << result;
  }
}

}  // namespace
}  // namespace codetta::test
