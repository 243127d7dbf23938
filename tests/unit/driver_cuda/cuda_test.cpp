// SPDX-License-Identifier: Apache-2.0
// What a user of a GPU does, over the pretended driver: find, prepare, run, check, time, tune, look at the code.
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

using diag::Code;

TEST_F(CudaApi, ThePlainTargetAsksTheDevice) {
  Context c = context();
  EXPECT_EQ(device_count(c).value(), 2);
  const Device device = Device::open(c).value();
  EXPECT_EQ(device.info().arch, "sm_90a");
  EXPECT_EQ(device.info().multiprocessors, 132);
  EXPECT_GT(device.free_bytes().value(), 0);
  const Problem p = problem(c);
  const KernelList found = kernels(p, c);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].metadata().target.to_string(), "cuda:sm_90a");
  ContextOptions second = options();
  second.device = 1;
  Context other = Context::make(second).value();
  EXPECT_EQ(Device::open(other).value().info().name, "Pretended GPU 1");
}

TEST_F(CudaApi, RunsAndIsChecked) {
  Context c = context();
  Problem p = problem(c);
  const KernelList found = kernels(p, c);
  Execution execution = found.prepare(p.arguments).value();
  EXPECT_GE(execution.compile_seconds(), 0);
  EXPECT_FALSE(execution.interpreted());
  const Target cuda{Backend::cuda, {}, ""};
  const auto poisoned = verify(p.arguments, {}, cuda, 1, c).value();
  EXPECT_EQ(poisoned.verdict, VerifyReport::Verdict::Fail) << poisoned.text;
  ASSERT_TRUE(execution.run());
  const auto checked = verify(p.arguments, {}, cuda, 1, c).value();
  EXPECT_EQ(checked.verdict, VerifyReport::Verdict::Pass) << checked.text;
  EXPECT_EQ(checked.outputs.at(0).checked, m * n);
  // What lies on the device can be read back by hand.
  const Tensor host = Tensor::make(f32, {m, n}).value();
  ASSERT_TRUE(p.tensors[2].download(host));
  EXPECT_NE(host.view().as<float>()[0], 0.0F);
  expect(p.tensors[2].download(Tensor::make(f32, {n, m}).value()), Code::output_shape, "different shapes");
  expect(p.tensors[2].download(Tensor::make(i32, {m, n}).value()), Code::output_binding, "different types");
  expect(p.tensors[2].download(host.view().as_read_only()), Code::output_binding, "destination is read-only memory");
}

TEST_F(CudaApi, ViewsKeepTheirStridesOnTheDevice) {
  Context c = context();
  const Device device = Device::open(c).value();
  const Tensor host = Tensor::make(f32, {4, 6}).value();
  fill_random(host, 7);
  const TensorView back = TensorView::make(host.view().as<float>() + 23, f32, {2, 3}, {-12, -2}).value();
  const DeviceTensor copy = DeviceTensor::copy_of(device, back).value();
  EXPECT_EQ(copy.view().strides(), back.strides());
  EXPECT_EQ(copy.byte_size(), (12 + 2 * 2 + 1) * 4);
  EXPECT_EQ(*copy.view().as<float>(), *back.as<float>()) << "the pretended device's memory can be read";
  ASSERT_TRUE(copy.fill_bytes(0));
  ASSERT_TRUE(copy.download(back));
  EXPECT_EQ(host.view().as<float>()[23], 0.0F);
  EXPECT_EQ(DeviceTensor::make(device, f32, {0, 5}).value().byte_size(), 0);
}

TEST_F(CudaApi, SecondContextCompilesNothing) {
  Context first = context();
  const Problem p = problem(first);
  ASSERT_TRUE(kernels(p, first).prepare(p.arguments));
  const int compiles = nvrtc_.compiles;
  EXPECT_GE(compiles, 1);
  Context second = context();
  ASSERT_TRUE(kernels(p, second).prepare(p.arguments));
  EXPECT_EQ(nvrtc_.compiles, compiles);
  ContextOptions strict = options();
  strict.no_jit = true;
  Context third = Context::make(strict).value();
  EXPECT_TRUE(kernels(p, third).prepare(p.arguments)) << "what is in the cache may be used";
}

TEST_F(CudaApi, SpillingKernelsArePassedOverAndSaidSo) {
  nvrtc_.spills_if = "gemm_sm90";
  Context c = context();
  const Problem p = problem(c, bf16, plain, 512, 512, 512);
  fake_.parameter_bytes = 0;
  const auto two_families = [](const KernelMetadata& kernel) {
    return kernel.family == "sm90" || kernel.family == "simt";
  };
  const Target cuda{Backend::cuda, {}, ""};
  const KernelList found = find_kernels(p.arguments, cuda, {.filter = two_families}, c).value();
  ASSERT_GT(found.size(), 1U);
  ASSERT_EQ(found[0].metadata().family, "sm90");
  expect(found[0].prepare(p.arguments), Code::kernel_resources, "72 bytes stored and 80 loaded");
  expect(found[0].compile(), Code::kernel_resources, "72 bytes stored and 80 loaded");
  size_t chosen = 0;
  ASSERT_TRUE(found.prepare(p.arguments, &chosen));
  EXPECT_EQ(found[chosen].metadata().family, "simt");
  EXPECT_EQ(logged(found[0].metadata().name + " is passed over"), 1U);
  ASSERT_TRUE(found.prepare(p.arguments));
  EXPECT_EQ(logged(found[0].metadata().name + " is passed over"), 1U) << "said once";
  // The family that always exists is used all the same.
  nvrtc_.spills_if = "gemm_simt";
  ContextOptions elsewhere = options();
  elsewhere.cache_enabled = false;
  Context other = Context::make(elsewhere).value();
  const KernelList again = find_kernels(p.arguments, cuda, {.filter = two_families}, other).value();
  ASSERT_TRUE(again[chosen].prepare(p.arguments));
  EXPECT_EQ(logged("may be slow"), 1U);
}

// A map of which threads keep rows has candidates that keep less; the last of them is used whatever it costs.
TEST_F(CudaApi, MapsThatSpillArePassedOver) {
  const auto program =
      Program::parse("def f(x: f32[4096, \"n\"]):\n    y = softmax(x * 2.0, dim=-1)\n    return y\n", "f.py").value();
  const auto rows = [&](const std::string& spills) {
    nvrtc_.spills_if = spills;
    nvrtc_.sources.clear();
    ContextOptions fresh = options();
    fresh.cache_enabled = false;
    Context c = Context::make(fresh).value();
    const auto compiled = compile(program, {Backend::cuda, {}, ""}, {{"n", 2048}}, c);
    EXPECT_TRUE(compiled) << compiled.error().render();
    return nvrtc_.sources;
  };
  EXPECT_NE(rows("").back().find("short_rows<0, 8>"), std::string::npos) << "all of a row";
  EXPECT_EQ(logged("is passed over"), 0U);
  EXPECT_NE(rows("short_rows<0, 8>").back().find("short_rows<0, 4>"), std::string::npos) << "half of one";
  EXPECT_EQ(logged("is passed over"), 2U) << "with as many registers as there are, too";
  EXPECT_EQ(logged("may be slow"), 0U);
  EXPECT_EQ(rows("codetta_rows").back().find("short_rows<0"), std::string::npos);
  EXPECT_EQ(logged("is passed over"), 5U);
  EXPECT_EQ(logged("may be slow"), 1U);
}

TEST_F(CudaApi, MeasuresByReplayingAGraph) {
  Context c = context();
  const Problem p = problem(c);
  std::vector<Execution> executions;
  const KernelList found = kernels(p, c);
  executions.push_back(found.prepare(p.arguments).value());
  executions.push_back(found.prepare(p.arguments).value());
  const Timing timing = measure(executions, 0).value();
  EXPECT_GT(timing.median_us, 0);
  EXPECT_EQ(timing.samples, 5);
  EXPECT_GT(fake_.count("cuGraphLaunch"), 5U);
  EXPECT_EQ(fake_.graphs, 0);
  EXPECT_EQ(fake_.executables, 0) << "nothing is left";
  expect(measure(std::span<Execution>()), Code::usage, "nothing to time");
}

// What is donated is copied once, and back in front of each sample but the first.
TEST_F(CudaApi, MeasuresWithDonatedTensorsAsTheyAre) {
  fake_.computes = false;
  Context c = context();
  const Device device = Device::open(c).value();
  const auto program =
      Program::parse("def f(x: donated[bf16[512, 512]], w: bf16[512, 512]):\n    y = x @ w\n    return y\n", "f.py")
          .value();
  const auto compiled = compile(program, {Backend::cuda, {}, "sm_90a"}, {}, c).value();
  const auto x = DeviceTensor::make(device, bf16, {512, 512}).value(),
             w = DeviceTensor::make(device, bf16, {512, 512}).value(),
             y = DeviceTensor::make(device, f32, {512, 512}).value();
  Execution execution = compiled.prepare({{"x", x.view()}, {"w", w.view()}, {"y", y.view()}}).value();
  const size_t before = fake_.count("cuMemcpyDtoDAsync_v2");
  const Timing timing = measure(execution, 0).value();
  EXPECT_EQ(timing.samples, 5);
  EXPECT_EQ(fake_.count("cuMemcpyDtoDAsync_v2") - before, fake_.count("cuGraphLaunch") + 2);
}

TEST_F(CudaApi, TunesAndRemembers) {
  Context c = context();
  const Problem p = problem(c);
  const Target cuda{Backend::cuda, {}, ""};
  const TuneReport report = tune(p.arguments, cuda, {.budget_seconds = 60, .max_candidates = 3}, c).value();
  ASSERT_FALSE(report.results.empty());
  for (const TuneResult& result : report.results) EXPECT_EQ(result.failure, "") << result.kernel;
  const KernelList ranked = kernels(p, c);
  EXPECT_TRUE(ranked[0].metadata().tuned);
  EXPECT_EQ(ranked[0].metadata().name, report.results[0].kernel);
  EXPECT_EQ(verify(p.arguments, {}, cuda, 1, c)->verdict, VerifyReport::Verdict::Pass) << "outputs as after one run";
  // Kept for this device and driver: another driver starts anew.
  fake_.version = 12080;
  Context later = context();
  EXPECT_FALSE(kernels(p, later)[0].metadata().tuned);
}

TEST_F(CudaApi, WrongResultsCannotWin) {
  fake_.computes = false;
  Context c = context();
  const Problem p = problem(c);
  const TuneReport report = tune(p.arguments, {Backend::cuda, {}, ""}, {.max_candidates = 2}, c).value();
  ASSERT_FALSE(report.results.empty());
  for (const TuneResult& result : report.results) EXPECT_EQ(result.failure.substr(0, 12), "wrong result");
  EXPECT_FALSE(kernels(p, c)[0].metadata().tuned);
}

TEST_F(CudaApi, ProgramsRunToo) {
  Context c = context();
  const Device device = Device::open(c).value();
  const auto program = Program::parse(
                           "def two(x: f32[\"rows\", 17], v: f32[17, 20], w: f32[20, 8]):\n"
                           "    y = (x @ v) @ w\n"
                           "    return y\n",
                           "two.py")
                           .value();
  const auto compiled = compile(program, {Backend::cuda, {}, "sm_90a"}, {{"rows", 33}}, c).value();
  const Dims shapes[] = {{33, 17}, {17, 20}, {20, 8}, {33, 8}};
  std::vector<DeviceTensor> tensors;
  for (const Dims& shape : shapes) tensors.push_back(DeviceTensor::make(device, f32, shape).value());
  const std::vector<NamedArgument> bound{
      {"x", tensors[0].view()}, {"v", tensors[1].view()}, {"w", tensors[2].view()}, {"y", tensors[3].view()}};
  Execution execution = compiled.prepare(bound).value();
  EXPECT_GE(execution.workspace_size(), 33 * 20 * 4);
  fake_.launches.clear();
  ASSERT_TRUE(execution.run());
  EXPECT_EQ(fake_.launches.size(), 2U);
  ASSERT_TRUE(compiled.run(bound));
  EXPECT_EQ(fake_.launches.size(), 4U);
  EXPECT_NE(compiled.emit(Stage::Source)->find("__global__"), std::string::npos);
}

// For a GPU that is not here: planned, or, as `codetta compile` does, compiled for the cache of a machine that has it.
TEST_F(CudaApi, ProgramsForAnotherGpuFillTheCache) {
  const auto program = Program::parse(
                           "def two(x: f32[\"rows\", 17], v: f32[17, 20], w: f32[20, 8]):\n"
                           "    y = sum(relu(x @ v), dim=0) @ w\n"
                           "    return y\n",
                           "two.py")
                           .value();
  const Target other{Backend::cuda, {}, "sm_80"};
  const auto compile_into_cache = [&](Context& c, bool fill_cache) {
    std::vector<CompileProgress> told;
    const auto compiled = compile(
        program, other, {{"rows", 33}}, c, [&](const CompileProgress& one) { told.push_back(one); }, fill_cache);
    EXPECT_TRUE(compiled) << compiled.error().render();
    return told;
  };
  Context c = context();
  EXPECT_TRUE(compile_into_cache(c, false).empty());
  EXPECT_EQ(nvrtc_.compiles, 0);
  const auto told = compile_into_cache(c, true);
  ASSERT_GE(told.size(), 2U);
  EXPECT_EQ(told.back().done, told.back().total);
  for (const CompileProgress& one : told) EXPECT_GT(one.seconds, 0) << one.kernel << ": compiled ahead, with others";
  const int compiles = nvrtc_.compiles;
  Context later = context();
  for (const CompileProgress& one : compile_into_cache(later, true)) EXPECT_EQ(one.seconds, 0) << one.kernel;
  EXPECT_EQ(nvrtc_.compiles, compiles) << "found";
  ContextOptions frozen = options();
  frozen.no_jit = true;
  frozen.cache_dir = folder_->path() + "/empty";
  Context none = Context::make(frozen).value();
  expect(compile(program, other, {{"rows", 33}}, none, {}, true), Code::jit_disabled, "codetta_");
  const auto on_mac = Target::parse("metal").value();
  expect(compile(program, on_mac, {{"rows", 33}}, c, {}, true), Code::target_unavailable, "on macOS");
  EXPECT_TRUE(compile(program, on_mac, {{"rows", 33}}, c));
}

// The seconds of what is compiled ahead are told for a GPU that is here, too.
TEST_F(CudaApi, ProgramsTellWhatWasCompiled) {
  const auto program = Program::parse(
                           "def two(x: f32[\"rows\", 17], v: f32[17, 20], w: f32[20, 8]):\n"
                           "    y = relu(x @ v) @ w\n"
                           "    return y\n",
                           "two.py")
                           .value();
  for (const bool found : {false, true}) {
    Context c = context();
    size_t kernels = 0;
    ASSERT_TRUE(compile(program, {Backend::cuda, {}, "sm_90a"}, {{"rows", 33}}, c, [&](const CompileProgress& one) {
      EXPECT_EQ(one.seconds == 0, found) << one.kernel;
      ++kernels;
    }));
    EXPECT_EQ(kernels, 2U);
  }
}

// What stands behind a size that a run finds is resolved in the run, which compiles nothing: prepare() looks how the
// tensors lie.
TEST_F(CudaApi, TensorsThatAreAlignedLessTakeOtherKernelsBehindASizeFromAValue) {
  fake_.computes = false;
  const auto program = Program::parse(
                           "def f(x: bf16[\"m\", 512], w: bf16[512, 512], k: i64[()]):\n"
                           "    y = sum(x[:k] @ w, dim=0)\n    return y\n",
                           "f.py")
                           .value();
  Context c = context();
  const Device device = Device::open(c).value();
  const auto compiled = compile(program, {Backend::cuda, {}, "sm_90a"}, {{"m", 512}}, c).value();
  const DeviceTensor memory = DeviceTensor::make(device, bf16, {512 * 520 + 8}).value(),
                     x = DeviceTensor::make(device, bf16, {64, 512}).value(),
                     k = DeviceTensor::make(device, DType::i64, {}).value(),
                     y = DeviceTensor::make(device, f32, {1, 512}).value();
  *static_cast<int64_t*>(const_cast<void*>(static_cast<const void*>(k.view().data()))) = 48;
  const auto kernels = [&](int64_t shift, int64_t row) {
    auto* const data = static_cast<std::byte*>(memory.view().data()) + shift * 2;
    const std::vector<NamedArgument> arguments = {{"x", x.view()},
                                                  {"w", TensorView::make(data, bf16, {512, 512}, {row, 1}).value()},
                                                  {"k", k.view()},
                                                  {"y", y.view()}};
    auto execution = compiled.prepare(arguments);
    EXPECT_TRUE(execution) << execution.error().render();
    if (!execution) return std::vector<std::string>();
    fake_.launches.clear();
    const auto ran = execution->run();
    EXPECT_TRUE(ran) << shift << " " << row << ": " << ran.error().render();
    EXPECT_FALSE(fake_.launches.empty());
    return execution->kernels();
  };
  const std::vector<std::string> aligned = kernels(0, 512);
  EXPECT_EQ(kernels(8, 520), aligned);
  EXPECT_NE(kernels(1, 512), aligned);
  EXPECT_NE(kernels(0, 513), aligned);
}

// Kernels are chosen for the hinted sizes, whose rows begin at multiples of 16 bytes. What is aligned less runs as
// well: by kernels that are compiled when they are needed, and kept.
TEST_F(CudaApi, TensorsThatAreAlignedLessTakeOtherKernels) {
  fake_.computes = false;  // not with tensor maps
  const auto program =
      Program::parse("def f(x: bf16[\"m\", \"k\"], w: bf16[\"k\", 512]):\n    y = x @ w\n    return y\n", "f.py")
          .value();
  struct Bound {
    std::vector<DeviceTensor> tensors;
    std::vector<NamedArgument> arguments;
  };
  const auto bound = [](Context& on, int64_t size_k, int64_t shift, int64_t apart = 1) {
    const Device device = Device::open(on).value();
    Bound made;
    const std::pair<const char*, Dims> wanted[] = {{"x", {512, size_k}}, {"w", {size_k, 512}}, {"y", {512, 512}}};
    for (const auto& [name, shape] : wanted) {
      const DType dtype = name == std::string("y") ? f32 : bf16;
      const int64_t step = name == std::string("y") ? 1 : apart;
      made.tensors.push_back(DeviceTensor::make(device, dtype, {shape[0] * shape[1] * step + shift}).value());
      auto* const data = static_cast<std::byte*>(made.tensors.back().view().data()) + shift * dtype_size(dtype);
      made.arguments.emplace_back(name, TensorView::make(data, dtype, shape, {shape[1] * step, step}).value());
    }
    return made;
  };
  Context c = context();
  const auto compiled = compile(program, {Backend::cuda, {}, "sm_90a"}, {{"m", 512}, {"k", 512}}, c).value();
  const int first = nvrtc_.compiles;
  const std::vector<std::string> hinted = compiled.prepare(bound(c, 512, 0).arguments)->kernels();
  ASSERT_EQ(hinted.size(), 1U);
  const auto runs = [&](int64_t size_k, int64_t shift, int more, int64_t apart = 1) {
    const Bound b = bound(c, size_k, shift, apart);
    const int before = nvrtc_.compiles;
    const auto execution = compiled.prepare(b.arguments);
    ASSERT_TRUE(execution) << execution.error().render();
    EXPECT_EQ(nvrtc_.compiles - before, more) << size_k << " " << shift;
    const bool as_hinted = size_k % 8 == 0 && shift == 0 && apart == 1;
    EXPECT_EQ(execution->kernels() == hinted, as_hinted) << execution->kernels()[0] << " told of " << hinted[0];
    fake_.launches.clear();
    ASSERT_TRUE(compiled.run(b.arguments));
    EXPECT_FALSE(fake_.launches.empty());
  };
  runs(512, 0, 0);
  runs(520, 0, 0);
  runs(33, 0, 2);  // the product, and what packs its factors
  runs(35, 0, 0);
  runs(512, 1, 2);
  runs(520, 1, 0);
  runs(512, 0, 0, 2);  // elements apart
  runs(33, 1, 0, 3);
  EXPECT_EQ(nvrtc_.compiles, first + 4);
  // The next process compiles nothing, either way.
  Context later = context();
  const auto again = compile(program, {Backend::cuda, {}, "sm_90a"}, {{"m", 512}, {"k", 512}}, later).value();
  EXPECT_TRUE(again.prepare(bound(later, 33, 0).arguments));
  EXPECT_EQ(nvrtc_.compiles, first + 4);
  // What does not fit for another reason is said at once.
  Bound wrong = bound(c, 33, 0);
  wrong.arguments[2].value = TensorView::make(wrong.tensors[2].view().data(), f32, {1, 512}).value();
  ASSERT_FALSE(compiled.prepare(wrong.arguments));
  EXPECT_EQ(nvrtc_.compiles, first + 4);
  // Where nothing may be compiled, it is the alignment that is told.
  ContextOptions no_jit = options();
  no_jit.cache_dir = folder_->path() + "/other";
  Context here = Context::make(no_jit).value();
  ASSERT_TRUE(compile(program, {Backend::cuda, {}, "sm_90a"}, {{"m", 512}, {"k", 512}}, here));
  no_jit.no_jit = true;
  Context without = Context::make(no_jit).value();
  const auto kept = compile(program, {Backend::cuda, {}, "sm_90a"}, {{"m", 512}, {"k", 512}}, without).value();
  EXPECT_TRUE(kept.prepare(bound(without, 512, 0).arguments));
  expect(kept.prepare(bound(without, 33, 0).arguments), Code::guard_failed, "66 bytes, no multiple of");
  expect(kept.prepare(bound(without, 33, 0).arguments), Code::guard_failed, "once it is prepared with such tensors");
  // That there are none is found out once.
  no_jit.debug = "dump:plan";
  int lines = 0;
  no_jit.log = [&](std::string_view) { ++lines; };
  Context watched = Context::make(no_jit).value();
  const auto asked = compile(program, {Backend::cuda, {}, "sm_90a"}, {{"m", 512}, {"k", 512}}, watched).value();
  const Bound odd = bound(watched, 33, 0);
  lines = 0;
  ASSERT_FALSE(asked.prepare(odd.arguments));
  EXPECT_GT(lines, 0) << "the program is planned";
  lines = 0;
  expect(asked.prepare(odd.arguments), Code::guard_failed, "66 bytes, no multiple of");
  EXPECT_EQ(lines, 0);
}

// Rows of "k" elements begin at multiples of 16 bytes for the hinted size: a module has the programs that take over
// where they do not, too, as runs in process have.
// Its functions share a variable.
TEST_F(CudaApi, TheKernelOfHostStepsIsCompiledWhole) {
  fake_.computes = false;
  Context c = context();
  const auto program = Program::parse(
                           "def f(x: f32[8, 4], i: i64[2], v: f32[2, 4]):\n    y = index_put(x, i, v, dim=0)\n"
                           "    return y\n",
                           "f.py")
                           .value();
  const auto compiled = compile(program, {Backend::cuda, {}, "sm_90a"}, {}, c).value();
  ASSERT_TRUE(compiled.emit(Stage::Python));
  EXPECT_EQ(std::count_if(nvrtc_.sources.begin(), nvrtc_.sources.end(),
                          [](const std::string& source) { return source.find("step_put(") != std::string::npos; }),
            1);
  EXPECT_EQ(std::count_if(nvrtc_.sources.begin(), nvrtc_.sources.end(),
                          [](const std::string& source) { return source.find("step_look(") != std::string::npos; }),
            1);
  EXPECT_TRUE(std::any_of(nvrtc_.sources.begin(), nvrtc_.sources.end(), [](const std::string& source) {
    return source.find("step_put(") != std::string::npos && source.find("step_look(") != std::string::npos;
  }));
}

TEST_F(CudaApi, PythonModulesTakeEverySize) {
  Context c = context();
  const auto program =
      Program::parse("def f(x: bf16[\"m\", \"k\"], w: bf16[\"k\", 512]):\n    y = x @ w\n    return y\n", "f.py")
          .value();
  const auto compiled = compile(program, {Backend::cuda, {}, "sm_90a"}, {{"m", 512}, {"k", 512}}, c).value();
  int before = nvrtc_.compiles;
  const auto text = compiled.emit(Stage::Python);
  ASSERT_TRUE(text) << text.error().render();
  EXPECT_EQ(nvrtc_.compiles - before, 4) << "rows that begin anywhere; elements that lie apart: two parts of each";
  before = nvrtc_.compiles;
  const Device device = Device::open(c).value();
  const auto x = DeviceTensor::make(device, bf16, {512, 33}).value(),
             w = DeviceTensor::make(device, bf16, {33, 512}).value(),
             y = DeviceTensor::make(device, f32, {512, 512}).value();
  ASSERT_TRUE(compiled.prepare({{"x", x.view()}, {"w", w.view()}, {"y", y.view()}}));
  EXPECT_EQ(nvrtc_.compiles, before) << "which takes this one";
}

TEST_F(CudaApi, CodeCanBeLookedAt) {
  ContextOptions nowhere = options();
  nowhere.cuda_driver = "/nonexistent/libcuda.so.1";  // cross-compiling needs no driver
  Context c = Context::make(nowhere).value();
  const std::vector<Tensor> host = [] {
    std::vector<Tensor> made;
    for (const Dims& shape : {Dims{m, k}, Dims{k, n}, Dims{m, n}}) made.push_back(Tensor::make(f32, shape).value());
    return made;
  }();
  GemmArguments arguments{.A = host[0], .B = host[1], .out = host[2].view()};
  arguments.epilogue = EpilogueArguments::make(plain, {{"D", host[2]}}).value();
  const Target target{Backend::cuda, {}, "sm_90a"};
  const KernelList found = find_kernels(arguments, target, {}, c).value();
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found[0].emit(Stage::Source)->find("__global__"), std::string::npos);
  EXPECT_NE(found[0].emit(Stage::Ptx)->find(".entry codetta_gemm"), std::string::npos);
  EXPECT_EQ(found[0].emit(Stage::Asm).value(), found[0].emit(Stage::Ptx).value());
  EXPECT_NE(found[0].emit(Stage::Manifest)->find("codetta_gemm"), std::string::npos);
  EXPECT_TRUE(found[0].source_path()->ends_with(".cu"));
  EXPECT_NE(explain(arguments, target, false, c)->find("registers: known once"), std::string::npos);
  ASSERT_TRUE(found[0].compile());
  const std::string text = explain(arguments, target, false, c).value();
  for (const char* part : {"168 registers a thread", "waves", "shared memory", "stages", "a multiprocessor (limit: "})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_NE(explain(arguments, target, true, c)->find("\"waves\""), std::string::npos);
  expect(found[0].prepare(arguments), Code::driver_missing, "/nonexistent/libcuda.so.1");
  expect(found[0].emit(Stage::Host), Code::stage_missing, "no host code");
}

}  // namespace
}  // namespace codetta
