// SPDX-License-Identifier: Apache-2.0
// What a user of an AMD GPU meets, without one: devices, runs, captures, and every way in which it can go wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/files.hpp"
#include "codetta/codetta.hpp"
#include "codetta/diagnose.hpp"
#include "device/gpu/abi.h"
#include "diag/diagnostic.hpp"
#include "runtime/hip/driver.hpp"
#include "support/expect_error.hpp"
#include "support/gpu_problem.hpp"
#include "toolchain/hiprtc.hpp"
#include "unit/runtime_cuda/fake_hip.hpp"

namespace codetta {
namespace {

using diag::Code;
using runtime::cuda::Status;

class HipApi : public ::testing::Test, public test::ExpectsErrors, public test::GpuProblems {
 protected:
  void SetUp() override {
    fake_.reset();
    fake_.parameter_bytes = sizeof(gpu::Params<0, 1, 1, 0>);
    fake_.computes = true;
    hip_.reset();
    folder_.emplace(*base::TemporaryDirectory::make("/tmp"));
  }
  ContextOptions options() {
    ContextOptions made = test::hip_options(*folder_, CODETTA_FAKE_HIP);
    made.log = [this](std::string_view line) { log_.emplace_back(line); };
    return made;
  }
  Context context() { return Context::make(options()).value(); }

  static Problem problem(Context& context, const std::string& text = plain) {
    return problem_on(Device::open(Backend::hip, context).value(), f32, text);
  }
  static KernelList kernels(const Problem& of, Context& context, const Target& target = hip) {
    DiscoveryOptions simt;  // what the pretended driver computes
    simt.filter = [](const KernelMetadata& kernel) { return kernel.family == "simt"; };
    return find_kernels(of.arguments, target, simt, context).value();
  }
  static const Finding& finding(const std::vector<Finding>& findings, std::string_view what) {
    return *std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.what == what; });
  }

  static inline const Target hip{Backend::hip, {}, ""};
  test::FakeDriver& fake_ = test::fake_driver(CODETTA_FAKE_LIBCUDA);
  test::FakeHip& hip_ = test::fake_hip(CODETTA_FAKE_HIP);
  std::optional<base::TemporaryDirectory> folder_;
  std::vector<std::string> log_;
};

// The first test: what is in use stays so until the process ends.
TEST_F(HipApi, E0654AProcessHasOneRuntimeOnceOneIsUsable) {
  const std::string other = folder_->path() + "/libamdhip64.so.6";
  std::filesystem::copy_file(CODETTA_FAKE_HIP, other);
  test::FakeHip& other_hip = test::fake_hip(other.c_str());
  ASSERT_NE(&other_hip, &hip_) << "a library of its own";
  other_hip.version = 50700000;
  expect(runtime::hip::load(other), Code::hip_runtime, "HIP 6.0 is needed");
  other_hip.reset();
  fake_.fail["cuInit"] = Status::NoDevice;
  expect(runtime::hip::load(other), Code::device_missing, "hipErrorNoDevice");
  fake_.fail["cuInit"] = Status::SystemNotReady;
  expect(runtime::hip::load(other), Code::hip_runtime, "hipInit: ");
  fake_.fail.clear();
  EXPECT_TRUE(runtime::hip::load(CODETTA_FAKE_HIP)) << "one that can not be used is not in use";
  other_hip.reset();
  expect(runtime::hip::load(other), Code::hip_runtime, "a HIP runtime that is not " + other);
  EXPECT_TRUE(runtime::hip::load(CODETTA_FAKE_HIP));
}

TEST_F(HipApi, DevicesTellTheirArchitecture) {
  Context c = context();
  EXPECT_EQ(device_count(Backend::hip, c).value(), 2);
  const Device device = Device::open(Backend::hip, c).value();
  EXPECT_EQ(device.info().arch, "gfx942") << "without the modes of gfx942:sramecc+:xnack-";
  EXPECT_EQ(device.info().driver, 60300000);
  EXPECT_GT(device.info().multiprocessors, 0);
  EXPECT_GT(device.free_bytes().value(), 0);
  expect(Device::open(Backend::metal, c), Code::target_unavailable, "Backend::hip");
  expect(device_count(Backend::cpu, c), Code::target_unavailable, "devices and their memory");
}

TEST_F(HipApi, KernelsAreCompiledLoadedAndRun) {
  Context c = context();
  const Problem p = problem(c);
  const KernelList found = kernels(p, c);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].metadata().target.to_string(), "hip:gfx942");
  Execution execution = found[0].prepare(p.arguments).value();
  EXPECT_EQ(hip_.compiles, 1);
  EXPECT_NE(std::find(hip_.flags.begin(), hip_.flags.end(), "--offload-arch=gfx942"), hip_.flags.end());
  EXPECT_NE(std::find(hip_.headers.begin(), hip_.headers.end(), "device/hip/builtins.h"), hip_.headers.end());
  const DeviceStream stream = DeviceStream::make(Device::open(Backend::hip, c).value()).value();
  ASSERT_TRUE(execution.run(stream));
  ASSERT_TRUE(stream.synchronize());
  ASSERT_EQ(fake_.launches.size(), 1U);
  const runtime::cuda::LaunchConfig& config = fake_.launches[0].config;
  EXPECT_EQ(config.stream, stream.get().handle);
  EXPECT_TRUE(fake_.launches[0].attributes.empty()) << "HIP has none of CUDA's";
  EXPECT_GE(uint64_t{config.grid_x} * config.grid_y * config.grid_z, 1U);
  EXPECT_EQ(config.block_y * config.block_z, 1U);
  gpu::Params<0, 1, 1, 0> params{};
  std::memcpy(&params, fake_.launches[0].parameters.data(), sizeof params);
  EXPECT_EQ(params.problem.m, m);
  EXPECT_EQ(params.problem.n, n);
  EXPECT_EQ(params.problem.k, k);
  EXPECT_EQ(params.problem.a, p.arguments.A.data());
  EXPECT_EQ(verify(p.arguments, {}, hip, 1, c)->verdict, VerifyReport::Verdict::Pass);
  // Another context finds it in the cache.
  Context again = context();
  ASSERT_TRUE(kernels(p, again)[0].run(p.arguments));
  EXPECT_EQ(hip_.compiles, 1);
}

TEST_F(HipApi, TheThreadsDeviceIsGivenBack) {
  ContextOptions on_second = options();
  on_second.device = 1;
  Context c = Context::make(on_second).value();
  hip_.device = 0;
  const Problem p = problem(c);
  EXPECT_EQ(hip_.device, 0);
  Execution execution = kernels(p, c).prepare(p.arguments).value();
  EXPECT_EQ(hip_.device, 0);
  ASSERT_TRUE(execution.run());
  EXPECT_EQ(hip_.device, 0);
  fake_.fail["cuLaunchKernelEx"] = Status::LaunchOutOfResources;
  expect(execution.run(), Code::launch_limits, "hipModuleLaunchKernel(");
  EXPECT_EQ(hip_.device, 0) << "after an error, too";
}

TEST_F(HipApi, RunsAreCapturedAndNothingIsCompiledMeanwhile) {
  Context c = context();
  const Problem p = problem(c);
  const DeviceStream stream = DeviceStream::make(Device::open(Backend::hip, c).value()).value();
  const auto driver = runtime::hip::load(CODETTA_FAKE_HIP).value();
  const runtime::cuda::DriverTable& call = driver->call();
  auto* const handle = static_cast<runtime::cuda::StreamHandle>(stream.get().handle);
  const auto replay = [&] {
    runtime::cuda::GraphHandle graph = nullptr;
    ASSERT_EQ(call.stream_end_capture(handle, &graph), Status::Success) << "the capture is valid";
    runtime::cuda::GraphExecHandle executable = nullptr;
    ASSERT_EQ(call.graph_instantiate(&executable, graph, 0), Status::Success);
    ASSERT_EQ(call.graph_launch(executable, handle), Status::Success);
    (void)call.graph_exec_destroy(executable);
    (void)call.graph_destroy(graph);
  };
  const KernelList found = kernels(p, c);
  ASSERT_EQ(call.stream_begin_capture(handle, 1), Status::Success);
  expect(found[0].run(p.arguments, stream), Code::compile_in_capture, "the capture is still valid");
  EXPECT_EQ(hip_.compiles, 0);
  replay();
  EXPECT_TRUE(fake_.launches.empty());
  Execution execution = found[0].prepare(p.arguments).value();
  ASSERT_EQ(call.stream_begin_capture(handle, 1), Status::Success);
  fake_.calls.clear();
  ASSERT_TRUE(execution.run(stream));
  for (const char* forbidden : {"cuMemAlloc_v2", "cuStreamSynchronize", "cuModuleLoadData", "cuMemFree_v2"})
    EXPECT_EQ(fake_.count(forbidden), 0U) << forbidden;
  EXPECT_TRUE(fake_.launches.empty());
  replay();
  EXPECT_EQ(fake_.launches.size(), 1U);
  // A workspace that goes with the run would not live as long as the graph.
  const Problem reduced = problem(c, reducing);
  const KernelList reducers = kernels(reduced, c);
  ASSERT_TRUE(reducers[0].run(reduced.arguments, stream));
  ASSERT_EQ(call.stream_begin_capture(handle, 1), Status::Success);
  expect(reducers[0].run(reduced.arguments, stream), Code::capture_active, "needs a workspace of");
  replay();
}

// RunOptions::graph: a HIP graph, whose launches are those of the steps.
TEST_F(HipApi, AProgramAsOneGraph) {
  fake_.computes = false;
  Context c = context();
  const Device device = Device::open(Backend::hip, c).value();
  const auto program = Program::parse(
                           "def two(x: f32[\"rows\", 17], v: f32[17, 20], w: f32[20, 8]):\n    y = (x @ v) @ w\n"
                           "    return y\n",
                           "two.py")
                           .value();
  const auto compiled = compile(program, hip, {{"rows", 33}}, c);
  ASSERT_TRUE(compiled) << compiled.error().render();
  std::vector<DeviceTensor> tensors;
  for (const Dims& shape : {Dims{33, 17}, Dims{17, 20}, Dims{20, 8}, Dims{33, 8}})
    tensors.push_back(DeviceTensor::make(device, f32, shape).value());
  RunOptions how;
  how.graph = true;
  const DeviceStream stream = DeviceStream::make(device).value();
  {
    Execution execution = compiled
                              ->prepare({{"x", tensors[0].view()},
                                         {"v", tensors[1].view()},
                                         {"w", tensors[2].view()},
                                         {"y", tensors[3].view()}},
                                        how)
                              .value();
    EXPECT_TRUE(fake_.launches.empty());
    EXPECT_EQ(fake_.executables, 1);
    fake_.calls.clear();
    ASSERT_TRUE(execution.run(stream));
    EXPECT_EQ(fake_.count("cuGraphLaunch"), 1U);
    EXPECT_EQ(fake_.count("cuLaunchKernelEx"), 0U);
    EXPECT_EQ(fake_.launches.size(), 2U);
  }
  EXPECT_EQ(fake_.executables, 0);
}

TEST_F(HipApi, ProgramsRunInWorkspacesOfTheCallers) {
  Context c = context();
  const Device device = Device::open(Backend::hip, c).value();
  const Problem p = problem(c, reducing);
  Execution execution = kernels(p, c).prepare(p.arguments).value();
  const int64_t needed = execution.workspace_size();
  ASSERT_GT(needed, 0);
  const DeviceTensor workspace = DeviceTensor::make(device, u8, {needed}).value();
  expect(execution.set_workspace(workspace.data(), needed - 1), Code::workspace_small, "are needed");
  std::vector<std::byte> host(static_cast<size_t>(needed) + 512);
  void* const aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(host.data()) + 255) / 256 * 256);
  expect(execution.set_workspace(aligned, needed), Code::pointer_place, "hipMalloc");
  ASSERT_TRUE(execution.set_workspace(workspace.data(), needed));
  ASSERT_TRUE(execution.run());
}

TEST_F(HipApi, E0654WhatIsMissingOfTheRuntime) {
  ContextOptions none = options();
  none.hip_runtime = folder_->path() + "/libamdhip64.so";
  Context c = Context::make(none).value();
  expect(Device::open(Backend::hip, c), Code::hip_runtime, "looked for " + none.hip_runtime);
  none.hip_runtime = CODETTA_NO_HIP;
  Context lacking = Context::make(none).value();
  expect(Device::open(Backend::hip, lacking), Code::hip_runtime, "lacks hipInit");
  hip_.version = 50700000;
  Context old = context();
  expect(Device::open(Backend::hip, old), Code::hip_runtime, "HIP 5.7; HIP 6.0 is needed");
  hip_.reset();
  fake_.fail["cuInit"] = Status::SystemNotReady;
  expect(Device::open(Backend::hip, old), Code::hip_runtime, "hipInit: ");
  fake_.fail["cuInit"] = Status::NoDevice;
  expect(Device::open(Backend::hip, old), Code::device_missing, "hipInit: hipErrorNoDevice");
  fake_.fail.clear();
  EXPECT_TRUE(Device::open(Backend::hip, old)) << "what was missing has come";
}

TEST_F(HipApi, E0642OrdinalsAreThoseOfTheRuntime) {
  ContextOptions third = options();
  third.device = 2;
  Context c = Context::make(third).value();
  expect(Device::open(Backend::hip, c), Code::device_missing, "there is no HIP device 2");
}

TEST_F(HipApi, TargetsTakeTheDevicesArchitectureOrCompileForAnother) {
  Context c = context();
  const Problem p = problem(c);
  const Target other{Backend::hip, {}, "gfx90a"};
  const KernelList found = kernels(p, c, other);
  EXPECT_TRUE(found[0].compile()) << "for another machine";
  expect(found[0].prepare(p.arguments), Code::architecture_mismatch, "gfx942");
  hip_.architecture = "gfx1030";
  Context strange = context();
  const auto refused = find_kernels(p.arguments, hip, {}, strange);
  expect(refused, Code::target_architecture, "hip:gfx1030, which the device is of");
  EXPECT_NE(refused.error().render().find("gfx90a, gfx942, gfx1100 and gfx1201"), std::string::npos);
}

TEST_F(HipApi, FailuresNameTheCallOfTheRuntime) {
  Context c = context();
  const Device device = Device::open(Backend::hip, c).value();
  fake_.memory_limit = 1000;
  expect(DeviceTensor::make(device, f32, {1000}), Code::device_memory, "hipMalloc(bytes = 4000");
  fake_.memory_limit = size_t{1} << 30;
  const Problem p = problem(c);
  Execution execution = kernels(p, c).prepare(p.arguments).value();
  fake_.fail["cuLaunchKernelEx"] = Status::IllegalAddress;
  expect(execution.run(), Code::device_failed, "hipErrorIllegalAddress");
  fake_.fail["cuLaunchKernelEx"] = Status::Unknown;
  expect(execution.run(), Code::driver_call, "a call of the HIP runtime failed");
  fake_.fail.clear();
  fake_.fail["cuModuleLoadData"] = Status::NoBinaryForGpu;
  Context fresh = context();
  expect(kernels(p, fresh)[0].prepare(p.arguments), Code::architecture_mismatch, "the target 'hip'");
}

TEST_F(HipApi, HiprtcsRefusalsAreDiagnostics) {
  Context c = context();
  const Problem p = problem(c);
  hip_.rejects_if = "codetta_gemm";
  const auto refused = kernels(p, c)[0].prepare(p.arguments);
  expect(refused, Code::compile_rejected, "unknown type name 'oops'");
  EXPECT_NE(refused.error().render().find("kept as"), std::string::npos) << refused.error().render();
  hip_.rejects_if.clear();
  ContextOptions strict = options();
  strict.no_jit = true;
  Context frozen = Context::make(strict).value();
  expect(kernels(p, frozen)[0].prepare(p.arguments), Code::jit_disabled, "is not in the cache");
  ContextOptions none = options();
  none.hiprtc = folder_->path() + "/libhiprtc.so";
  Context without = Context::make(none).value();
  expect(kernels(p, without)[0].prepare(p.arguments), Code::hip_compiler_missing, "there is no file " + none.hiprtc);
  none.hiprtc = CODETTA_NO_HIP;
  Context lacking = Context::make(none).value();
  expect(kernels(p, lacking)[0].prepare(p.arguments), Code::hip_compiler_unusable, "lacks hiprtcVersion");
  none.hiprtc = folder_->path() + "/libhiprtc.so.6";
  std::filesystem::copy_file(CODETTA_FAKE_HIP, none.hiprtc);
  std::filesystem::resize_file(none.hiprtc, (uintmax_t{1} << 30) + 1);  // holes; more than is read
  Context beyond = Context::make(none).value();
  expect(kernels(p, beyond)[0].prepare(p.arguments), Code::hip_compiler_unusable, "is not readable");
  EXPECT_TRUE(kernels(p, c)[0].prepare(p.arguments));
  expect(kernels(p, c)[0].emit(Stage::Asm), Code::hip_compiler_missing, "makes code objects only");
}

// What compiles is libamd_comgr, which may be updated alone.
TEST_F(HipApi, AnotherComgrIsAnotherCompiler) {
  const std::string hiprtc = folder_->path() + "/libhiprtc.so.7", comgr = folder_->path() + "/libamd_comgr.so.3";
  std::filesystem::copy_file(CODETTA_FAKE_HIP, hiprtc);
  const auto identity = [&] { return toolchain::Hiprtc::find(hiprtc).value()->identity(); };
  const std::string alone = identity();
  std::ofstream(comgr) << "first";
  const std::string first = identity();
  EXPECT_EQ(identity(), first);
  std::ofstream(comgr) << "second";
  const std::string second = identity();
  EXPECT_TRUE(!alone.empty() && !first.empty() && !second.empty());
  EXPECT_TRUE(alone != first && first != second && alone != second);
}

TEST_F(HipApi, DoctorListsRuntimeDevicesAndCompiler) {
  Context c = context();
  const std::vector<Finding> there = diagnose(c);
  EXPECT_NE(finding(there, "HIP runtime").detail.find("HIP 6.3"), std::string::npos);
  EXPECT_NE(finding(there, "HIP device 0").detail.find("gfx942"), std::string::npos);
  EXPECT_NE(finding(there, "HIP device 1").detail.find("compute units"), std::string::npos);
  EXPECT_NE(finding(there, "HIP compiler").detail.find("hiprtc 6.3"), std::string::npos);
  hip_.architecture = "gfx1100";  // of RDNA the runtime counts pairs of compute units
  Context rdna = context();
  EXPECT_NE(finding(diagnose(rdna), "HIP device 0").detail.find("work-group processors"), std::string::npos);
  hip_.architecture = "gfx942";
  ContextOptions none = options();
  none.hip_runtime = none.hiprtc = folder_->path() + "/none.so";
  Context without = Context::make(none).value();
  const std::vector<Finding> missing = diagnose(without);
  for (const char* what : {"HIP runtime", "HIP compiler"}) {
    EXPECT_FALSE(finding(missing, what).ok);
    EXPECT_FALSE(finding(missing, what).needed) << "no fault of the machine";
  }
  EXPECT_NE(finding(missing, "HIP runtime").detail.find("no HIP runtime was found; looked for"), std::string::npos);
  const auto parsed = [](const char* text) { return Target::parse(text).value(); };
  const std::vector<Finding> wanted = diagnose(parsed("hip"), without);
  EXPECT_FALSE(finding(wanted, "target").ok);
  EXPECT_TRUE(!finding(wanted, "HIP runtime").ok && finding(wanted, "HIP runtime").needed);
  EXPECT_FALSE(finding(wanted, "NVIDIA driver").needed);
  const std::vector<Finding> runs = diagnose(parsed("hip:gfx942"), c);
  EXPECT_TRUE(finding(runs, "target").ok) << finding(runs, "target").detail;
  EXPECT_TRUE(finding(runs, "HIP device 0").needed);
  EXPECT_FALSE(finding(runs, "HIP device 1").needed);
  const std::vector<Finding> other = diagnose(parsed("hip:gfx1100"), c);
  EXPECT_FALSE(finding(other, "target").ok);
  EXPECT_NE(finding(other, "target").detail.find("another architecture"), std::string::npos);
}

TEST_F(HipApi, TuningTimesRunsOnTheDevice) {
  Context c = context();
  const Problem p = problem(c);
  TuneOptions quick;
  quick.budget_seconds = 20;
  const KernelList found = kernels(p, c);
  const auto tuned = tune(p.arguments, hip, quick, c);
  ASSERT_TRUE(tuned) << tuned.error().render();
  EXPECT_FALSE(tuned->results.empty());
  const bool measured = std::any_of(tuned->results.begin(), tuned->results.end(),
                                    [](const TuneResult& result) { return result.microseconds > 0; });
  EXPECT_TRUE(measured) << "of the pretended times";
}

}  // namespace
}  // namespace codetta
