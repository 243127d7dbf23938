// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's in Python modules for CUDA: what runs in process launches, with the same attributes, parameters
// and tensor maps, and the same refusals before anything is enqueued.
#include <fmt/format.h>

#include "package/gpu_python.hpp"
#include "package/user_cases.hpp"

namespace codetta::test {
namespace {

struct Made {
  package::PackageRef package;
  std::vector<TensorView> views;
};

// `kernel`: the name that the program calls the source by. Its parameters have these sizes.
package::PackageRef user_package(const std::string& text, const std::string& kernel, const std::string& source,
                                 const std::vector<size_t>& sizes, Context& context) {
  auto made = planned(Program::parse(text, "p.py")
                          .value()
                          .with_kernels({{kernel, source, UserKernel::Language::cuda, kernel + ".cu"}})
                          .value(),
                      Target::parse("cuda:sm_90a").value(), {}, context);
  EXPECT_TRUE(made) << made.error().render();
  if (!made) return nullptr;
  for (package::Kernel& one : made->kernels) {
    if (!package::is_user(one.config)) continue;
    std::string said;
    for (const size_t size : sizes) said += (said.empty() ? "" : ",") + std::to_string(size);
    one.binary =
        "\x7f"
        "ELF." +
        kernel + ":" + said + " ";
    one.binary.resize(128);
  }
  return std::make_shared<const package::Package>(*std::move(made));
}

class CudaPythonUser : public CudaPython {
 protected:
  CudaPythonUser() {
    ContextOptions options;
    options.cache_enabled = false;
    context_ = std::make_unique<Context>(*Context::make(options));
  }
  package::PackageRef mix(const std::string& source, const UserCase& one) {
    return user_package(program_text, "mix", source, parameter_sizes(one), *context_);
  }
  std::vector<TensorView> mix_views(int64_t m, int64_t n) {
    return {gpu_.tensor(DType::f32, {m, n}), gpu_.tensor(DType::f32, {m, n}), gpu_.tensor(DType::f16, {m})};
  }
  // A line of the list: a module of `mix`, and what it is called with.
  std::string line(const std::string& name, const package::Package& package, const std::vector<TensorView>& views,
                   const std::string& strides = "") {
    return write(name, package) + form_of(views[0]) + strides + " =0.1 =1.7 =-5 =1e300" + form_of(views[1]) +
           form_of(views[2]) + "\n";
  }
  // What runs in process, with the numbers of that line.
  Result<runtime::cuda::Execution> prepare(const package::PackageRef& package, const std::vector<TensorView>& views) {
    std::vector<runtime::cuda::ModuleRef> modules;
    for (const package::Kernel& kernel : package->kernels) {
      CODETTA_TRY(runtime::cuda::ModuleRef module,
                  runtime::cuda::Module::load(gpu_.device, kernel.binary, kernel.name));
      modules.push_back(std::move(module));
    }
    runtime::Bindings bindings;
    bindings.tensors.resize(package->buffers.size());
    bindings.scalars.resize(package->buffers.size());
    size_t next = 0, number = 0;
    for (size_t b = 0; b < package->buffers.size(); ++b) {
      const package::Buffer& buffer = package->buffers[b];
      if (buffer.role == package::Buffer::Role::Temporary) continue;
      if (!buffer.is_scalar) {
        bindings.tensors[b] = views[next++];
        continue;
      }
      const double values[] = {0.1, 1.7, -5, 1e300};
      const double value = values[number++];
      if (buffer.dtype == DType::i32) {
        bindings.scalars[b].i = static_cast<int64_t>(value);
      } else if (buffer.dtype == DType::f64) {
        bindings.scalars[b].d = value;
      } else {
        bindings.scalars[b].f = static_cast<float>(value);
      }
    }
    return runtime::cuda::Execution::make(package, std::move(modules), std::move(bindings));
  }
  // Empty: the module of `line` launches what runs in process.
  std::string launches_the_same(const package::PackageRef& package, const std::vector<TensorView>& views,
                                const std::string& kernel, const std::vector<size_t>& sizes, const PythonRun& ran) {
    gpu_.fake.parameter_sizes = {{kernel, sizes}};
    auto execution = prepare(package, views);
    if (!execution) return execution.error().render();
    const auto bytes = static_cast<uint64_t>(execution->workspace_size());
    const auto workspace = runtime::cuda::DeviceBuffer::make(gpu_.device, bytes + 256).value();
    if (!execution->set_workspace(reinterpret_cast<void*>(workspace.address()), static_cast<int64_t>(bytes)))
      return "no workspace";
    gpu_.fake.launches.clear();
    if (const auto done = execution->run(nullptr); !done) return done.error().render();
    return compare(gpu_.fake.launches, views, workspace.address(), bytes, ran);
  }

  FakeGpu gpu_;
  std::unique_ptr<Context> context_;
};

TEST_F(CudaPythonUser, LaunchesWhatRunsInProcessLaunch) {
  const std::span<const UserCase> cases = user_cases();
  std::vector<Made> made;
  std::string list;
  for (const UserCase& one : cases) {
    made.push_back({mix(source_of(one.clauses), one), mix_views(one.m, one.n)});
    ASSERT_NE(made.back().package, nullptr);
    list += line("case_" + std::to_string(made.size() - 1), *made.back().package, made.back().views);
  }
  if (!run(list)) GTEST_SKIP() << "no numpy";
  size_t launched = 0;
  for (size_t c = 0; c < cases.size(); ++c) {
    SCOPED_TRACE(cases[c].clauses);
    const PythonRun ran = read_run(file("case_" + std::to_string(c) + ".out"));
    if (cases[c].refused != nullptr) {
      const auto refused = prepare(made[c].package, made[c].views);
      ASSERT_FALSE(refused);
      EXPECT_EQ(ran.result.rfind("-1 E0" + std::to_string(refused.error().code()) + ": ", 0), 0U) << ran.result;
      EXPECT_NE(ran.result.find(cases[c].refused), std::string::npos) << ran.result;
      EXPECT_TRUE(ran.launches.empty());
      continue;
    }
    EXPECT_EQ(launches_the_same(made[c].package, made[c].views, "mix", parameter_sizes(cases[c]), ran), "");
    const auto own = std::count_if(ran.launches.begin(), ran.launches.end(),
                                   [](const PythonLaunch& launch) { return launch.function == "mix"; });
    EXPECT_EQ(own, cases[c].m == 0 ? 0 : 1);
    launched += static_cast<size_t>(own);
  }
  EXPECT_EQ(launched, 10U);
}

// Between kernels of Codetta's, over temporaries, with what is asked for in all of them: the memory of a call is the
// module's own.
TEST_F(CudaPythonUser, TakesTemporariesAndMapsOfImages) {
  const std::vector<size_t> chained{128, 8, 8}, image{128, 8};
  const auto chain = user_package(
      "def f(x: f32['m', 64], w: f32[64, 64]):\n    h = user_kernel('own', relu(x @ w), out='f32[m, 64]')\n"
      "    y = h @ w + x\n    return y\n",
      "own",
      "#pragma codetta kernel(x: f32[m, n], out y: f32[m, n])\n"
      "#pragma codetta sizes(stride(x, 0)) block(32, 4) grid(ceil_div(m, 4)) map(x, box(4, 32), swizzle(128)) "
      "window(y)\n",
      chained, *context_);
  const auto convolution = user_package(
      "def f(x: bf16['b', 14, 14, 64]):\n    y = user_kernel('own', x, out='f32[b, 14, 14]')\n    return y\n", "own",
      "#pragma codetta kernel(x: bf16[b, h, w, c], out y: f32[b, h, w])\n"
      "#pragma codetta im2col(x, filter(3, 3), padding(1, 2), padding_after(2, 1), dilation(2, 1), stride(1, 2), "
      "channels(64), pixels(64))\n#pragma codetta block(128) grid(b) cooperative\n",
      image, *context_);
  ASSERT_TRUE(chain != nullptr && convolution != nullptr);
  const std::vector<TensorView> matrices{gpu_.tensor(DType::f32, {10, 64}), gpu_.tensor(DType::f32, {64, 64}),
                                         gpu_.tensor(DType::f32, {10, 64})},
      images{gpu_.tensor(DType::bf16, {3, 14, 14, 64}), gpu_.tensor(DType::f32, {3, 14, 14})};
  if (!run(write("chain", *chain, matrices) + write("convolution", *convolution, images))) GTEST_SKIP() << "no numpy";
  const PythonRun first = read_run(file("chain.out")), second = read_run(file("convolution.out"));
  EXPECT_EQ(launches_the_same(chain, matrices, "own", chained, first), "");
  EXPECT_GE(first.launches.size(), 3U);
  EXPECT_EQ(launches_the_same(convolution, images, "own", image, second), "");
  EXPECT_EQ(std::count_if(second.launches.begin(), second.launches.end(),
                          [](const PythonLaunch& launch) { return launch.function == "own"; }),
            1);
}

// An output that does not lie as the kernel takes it is served by another program, which takes no stride of it.
TEST_F(CudaPythonUser, WritesOutputsThatLieAnywhere) {
  const Program program =
      Program::parse("def f(x: f32['m', 8]):\n    y = user_kernel('own', x, out='f32[m, 8]')\n    return y\n", "p.py")
          .value()
          .with_kernels({{"own",
                          "#pragma codetta kernel(x: f32[m, n], out y: f32[m, n])\n"
                          "#pragma codetta sizes(m, stride(x, 0), stride(y, 0)) block(32) grid(m)\n",
                          UserKernel::Language::cuda, "own.cu"}})
          .value();
  std::vector<package::Package> packages;
  for (const auto alignment : {plan::Alignment::Hinted, plan::Alignment::Uneven})
    packages.push_back(planned(program, Target::parse("cuda:sm_90a").value(), {}, *context_, alignment).value());
  EXPECT_EQ(packages[0].kernels.size(), 1U);
  for (const bool checked : {true, false}) {
    const auto module = emit::host::emit_python(packages[0], {CODETTA_TEST_HOST, {}, checked, {&packages[1]}});
    ASSERT_TRUE(module) << module.error().render();
    std::ofstream(file("lies.py")) << *module;
    const struct {
      const char* y;
      bool written;
    } cases[] = {{"f32:6,8,", true}, {"f32:6,8^12,1", true}, {"f32:6,8^16,2", false}, {"f32:6,8^-8,1", false}};
    std::string list;
    for (size_t i = 0; i < std::size(cases); ++i)
      list += fmt::format("{} {} f32:6,8, {}\n", file("lies.py"), file("lies" + std::to_string(i)), cases[i].y);
    if (!run(list)) GTEST_SKIP() << "no numpy";
    for (size_t i = 0; i < std::size(cases); ++i) {
      const PythonRun ran = read_run(file("lies" + std::to_string(i)));
      EXPECT_EQ(ran.result.substr(0, 1), "0") << cases[i].y << ": " << ran.result;
      EXPECT_EQ(ran.launches.size(), cases[i].written ? 1U : 2U) << cases[i].y;
      EXPECT_EQ(ran.launches.at(0).function, "own") << cases[i].y;
    }
  }
}

TEST_F(CudaPythonUser, SaysWhatIsWrong) {
  const auto with_sizes = [](const std::string& first) {
    std::string source = source_of("block(64) grid(m)");
    return source.replace(source.find("sizes(m,"), 8, "sizes(" + first + ",");
  };
  const struct {
    std::string source, failing, wanted, strides{};
  } cases[] = {
      {source_of("block(64) grid(m) cooperative"), "cooperative=0", "E0650: Failed to launch kernel codetta_mix_"},
      {source_of("block(64) grid(m) shared(1024)"), "cuFuncSetAttribute=701",
       "E0647: Failed to set the allowed dynamic shared memory size to 1024 with error: "
       "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"},
      {source_of("block(64) grid(16) cluster(16)"), "cuFuncSetAttribute=1", "E0647: Failed to allow large clusters"},
      {source_of("block(64) grid(m) cooperative"), "cuOccupancyMaxActiveBlocksPerMultiprocessor=1",
       "E0647: Failed to ask how many blocks fit"},
      {source_of("block(64) grid(2 * m) cluster(2) cooperative"), "cuOccupancyMaxActiveClusters=1",
       "E0647: Failed to ask how many clusters fit"},
      {source_of("block(64) grid(m)"), "cuFuncGetAttribute=1", "E0647: Failed to ask for a fact of a kernel"},
      {source_of("block(64) grid(m)"), "cuLaunchKernelEx=701", "E0647: Failed to launch kernel codetta_mix_"},
      {source_of("block(32) grid(1) map(x, box(4, 8))"), "cuTensorMapEncodeTiled=1",
       "E0647: Failed to initialize the TMA descriptor of x with error: CUDA_ERROR_INVALID_VALUE (1)"},
      {source_of("block(64) grid(4611686018427387904 * m)"), "", "E0610: a size of the launch of codetta_mix_"},
      {source_of("block(64) grid(m) shared(4611686018427387904 * m)"), "",
       "has no value: 27670116110564327424 takes more than 64 bits"},
      {source_of("block(64) grid(m) window(x, bytes = 4611686018427387904 * m)"), "",
       "E0610: a size of the launch of codetta_mix_"},
      {with_sizes("4611686018427387904 * m"), "", "E0610: a size of the launch of codetta_mix_"},
      {with_sizes("m / (n - 8)"), "", "has no value: it divides by 0"},
      {with_sizes("4294967296 * m: i32"), "", "its size 0 is 25769803776, and it takes 32 bits of it"},
      {source_of("block(64) grid(m)"), "",
       "E0610: the stride of dim 0 of x is negative: it is -8 elements, and a kernel takes it", "^-8,1"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.source);
    const UserCase form{one.source.find("map(x") != std::string::npos ? "map(x" : "", 6, 8, nullptr};
    const auto package = mix(one.source, form);
    ASSERT_NE(package, nullptr);
    const std::string list = line("wrong", *package, mix_views(6, 8), one.strides);
    if (!run(list, one.failing.empty() ? std::vector<std::string>() : std::vector<std::string>{one.failing}))
      GTEST_SKIP() << "no numpy";
    const PythonRun ran = read_run(file("wrong.out"));
    EXPECT_TRUE(ran.result.starts_with("-1 ") && ran.result.find(one.wanted) != std::string::npos) << ran.result;
    EXPECT_EQ(ran.launches.size(), one.failing == "cuLaunchKernelEx=701" ? 1U : 0U);
  }
}

// A kernel whose launch this module has no text for, and one that was not compiled.
TEST_F(CudaPythonUser, LacksWhatLibrariesLack) {
  package::Package package = *mix(source_of("block(64) grid(m)"), {"", 6, 8, nullptr});
  for (package::Step& step : package.steps) {
    auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch == nullptr) continue;
    auto& arguments = package.kernels[launch->kernel].epilogue.arguments;
    launch->arguments.insert(launch->arguments.begin(), 256, launch->arguments[0]);
    arguments.insert(arguments.begin(), 256, package::Argument(arguments[0]));
  }
  const auto refused = emit::host::emit_python(package, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 614) << refused.error().render();
  EXPECT_NE(refused.error().render().find("takes more than 256 values"), std::string::npos);
  package = *mix(source_of("block(64) grid(m)"), {"", 6, 8, nullptr});
  package.kernels[0].binary.clear();
  const auto uncompiled = emit::host::emit_python(package, {});
  ASSERT_FALSE(uncompiled);
  EXPECT_NE(uncompiled.error().render().find("is not compiled"), std::string::npos) << uncompiled.error().render();
}

}  // namespace
}  // namespace codetta::test
