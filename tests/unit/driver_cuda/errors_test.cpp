// SPDX-License-Identifier: Apache-2.0
// What can be wrong with a GPU, its driver, its compiler, its memory and its streams: each a typed error.
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

using diag::Code;
using runtime::cuda::Status;

class CudaErrors : public CudaApi {
 protected:
  static Result<KernelList> find(const Problem& of, Context& c, const std::string& target) {
    return find_kernels(of.arguments, Target::parse(target).value(), {}, c);
  }
};

TEST_F(CudaErrors, NoDriver) {
  Context good = context();
  const Problem p = problem(good);
  ContextOptions without = options();
  without.cuda_driver = "/nonexistent/libcuda.so.1";
  Context c = Context::make(without).value();
  expect(Device::open(c), Code::driver_missing, "/nonexistent/libcuda.so.1");
  expect(device_count(c), Code::driver_missing, "");
  expect(find(p, c, "cuda"), Code::driver_missing, "to compile alone name an architecture, such as cuda:sm_90a");
  const KernelList crossed = find(p, c, "cuda:sm_80").value();
  ASSERT_FALSE(crossed.empty());
  expect(crossed[0].prepare(p.arguments), Code::driver_missing, "");
  expect(tune(p.arguments, {Backend::cuda, {}, "sm_80"}, {}, c), Code::driver_missing, "");
  expect(verify(p.arguments, {}, {Backend::cuda, {}, "sm_80"}, 1, c), Code::driver_missing, "");
}

TEST_F(CudaErrors, OldDriverAndNoDevice) {
  ContextOptions old = options();
  old.cuda_driver = CODETTA_FAKE_OLD_DRIVER;
  Context c = Context::make(old).value();
  expect(Device::open(c), Code::driver_old, "cuTensorMapEncodeTiled");
  ContextOptions far = options();
  far.device = 7;
  Context beyond = Context::make(far).value();
  expect(Device::open(beyond), Code::device_missing, "there is no CUDA device 7");
  fake_.devices = 0;
  Context none = context();
  expect(Device::open(none), Code::device_missing, "");
}

TEST_F(CudaErrors, E0608HandlesThatHoldNothing) {
  const Device device;
  const DeviceStream stream;
  EXPECT_EQ(device.info().name, "");
  EXPECT_EQ(stream.get().handle, nullptr);
  expect(device.free_bytes(), Code::empty_handle, "the device holds nothing");
  expect(device.synchronize(), Code::empty_handle, "the device holds nothing");
  expect(device.synchronize(Stream()), Code::empty_handle, "the device holds nothing");
  expect(DeviceTensor::make(device, f32, {2}), Code::empty_handle, "the device holds nothing");
  expect(DeviceTensor::copy_of(device, Tensor::make(f32, {2}).value()), Code::empty_handle, "");
  expect(DeviceStream::make(device), Code::empty_handle, "the device holds nothing");
  expect(stream.synchronize(), Code::empty_handle, "the stream holds nothing");
}

TEST_F(CudaErrors, NoCompiler) {
  Context good = context();
  const Problem p = problem(good);
  ContextOptions without = options();
  without.nvrtc = "/nonexistent/libnvrtc.so.13";
  Context c = Context::make(without).value();
  const KernelList found = find(p, c, "cuda").value();
  expect(found[0].prepare(p.arguments), Code::cuda_compiler_missing, "/nonexistent/libnvrtc.so.13");
  expect(found[0].emit(Stage::Ptx), Code::cuda_compiler_missing, "");
}

TEST_F(CudaErrors, E0503CompilingIsSwitchedOff) {
  ContextOptions strict = options();
  strict.no_jit = true;
  Context c = Context::make(strict).value();
  const Problem p = problem(c);
  const KernelList found = find(p, c, "cuda").value();
  expect(found[0].prepare(p.arguments), Code::jit_disabled, "is not in the cache");
  EXPECT_EQ(nvrtc_.compiles, 0);
}

TEST_F(CudaErrors, E0534NoDisassembler) {
  ContextOptions made = options();
  made.cuda_home = "/nonexistent/cuda";
  Context c = Context::make(made).value();
  const Problem p = problem(c);
  const auto sass = find(p, c, "cuda").value()[0].emit(Stage::Sass);
  ASSERT_FALSE(sass) << "the pretended binary is none";
  if (sass.error().code() == static_cast<uint16_t>(Code::compiler_failed)) GTEST_SKIP() << "nvdisasm is installed";
  expect(sass, Code::disassembler_missing, "/nonexistent/cuda/bin");
  EXPECT_EQ(nvrtc_.compiles, 0) << "nothing is compiled for what can't be shown";
}

TEST_F(CudaErrors, E0430AnotherArchitecture) {
  Context c = context();
  const Problem p = problem(c);
  const KernelList found = find(p, c, "cuda:sm_80").value();
  expect(found[0].prepare(p.arguments), Code::architecture_mismatch, "the target is cuda:sm_80, and device 0");
  expect(found[0].run(p.arguments), Code::architecture_mismatch, "is of sm_90a");
  EXPECT_TRUE(found[0].emit(Stage::Source)) << "it may be looked at";
  EXPECT_TRUE(find(p, c, "cuda:sm_90a").value().prepare(p.arguments));
}

TEST_F(CudaErrors, E0403TargetsWithoutAnything) {
  expect(device_supports(Target::parse("metal").value()), Code::target_unavailable, "can not run here");
  Context c = context();
  const Problem p = problem(c);
  expect(find(p, c, "cutlass:sm_90"), Code::target_without_families, "cutlass:sm_90");
  expect(find(p, c, "hip:gfx1030"), Code::target_architecture, "hip:gfx1030");
  const auto kernels = find(p, c, "metal:apple7");
  ASSERT_TRUE(kernels) << kernels.error().render();
  expect((*kernels)[0].prepare(p.arguments), Code::target_unavailable, "can not run here");
}

TEST_F(CudaErrors, OutOfMemory) {
  Context c = context();
  const Device device = Device::open(c).value();
  const Problem p = problem(c, f32, reducing, m, 136);
  fake_.memory_limit = 100;
  expect(DeviceTensor::make(device, f32, {1024}), Code::device_memory, "cuMemAlloc(bytes = 4096");
  expect(find(p, c, "cuda").value()[0].prepare(p.arguments), Code::device_memory, "cuMemAlloc(bytes = ");
}

// Counts, and gives nothing once it is empty.
class Stingy : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    if (left == 0) return nullptr;
    --left;
    ++alive;
    EXPECT_EQ(alignment, 256U);
    runtime::cuda::DeviceAddress address = 0;
    EXPECT_EQ(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value()->call().mem_alloc(&address, bytes),
              Status::Success)
        << "the context is current";
    return reinterpret_cast<void*>(address);
  }
  void free(void* memory, size_t, size_t) override {
    --alive;
    (void)runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER)
        .value()
        ->call()
        .mem_free(reinterpret_cast<uintptr_t>(memory));
  }
  int left = 1, alive = 0;
};

TEST_F(CudaErrors, TheCallersAllocator) {
  Stingy stingy;
  ContextOptions made = options();
  made.device_allocator = &stingy;
  Context c = Context::make(made).value();
  const Problem p = problem(c, f32, reducing, m, 136);
  const KernelList found = find(p, c, "cuda").value();
  {
    Execution execution = found.prepare(p.arguments).value();
    EXPECT_GT(execution.workspace_size(), 0);
    EXPECT_EQ(stingy.alive, 1);
    expect(found.prepare(p.arguments), Code::device_memory, "the allocator of the context gave none");
    const DeviceTensor own = DeviceTensor::make(Device::open(c).value(), u8, {execution.workspace_size()}).value();
    ASSERT_TRUE(execution.set_workspace(own.data(), own.byte_size()));
    EXPECT_EQ(stingy.alive, 0) << "given back once it is not needed";
    ASSERT_TRUE(execution.run());
    expect(execution.set_workspace(own.data(), 8), Code::workspace_small, "8 bytes are given");
  }
  EXPECT_EQ(stingy.alive, 0);
}

TEST_F(CudaErrors, E0648TensorsElsewhere) {
  Context c = context();
  const Problem p = problem(c);
  const KernelList found = find(p, c, "cuda").value();
  const Tensor host = Tensor::make(f32, {k, n}).value();
  GemmArguments mixed = p.arguments;
  mixed.B = host;
  expect(found[0].prepare(mixed), Code::pointer_place, "B does not lie on device 0");
  ContextOptions second = options();
  second.device = 1;
  Context other = Context::make(second).value();
  const Problem foreign = problem(other);
  mixed.B = foreign.arguments.B;
  expect(found[0].prepare(mixed), Code::pointer_place, "memory of device 1");
}

TEST_F(CudaErrors, MisalignedPointersStillRun) {
  Context c = context();
  Problem p = problem(c);
  const DeviceTensor wide = DeviceTensor::make(Device::open(c).value(), f32, {m * k + 1}).value();
  ASSERT_TRUE(wide.fill_bytes(0));
  p.arguments.A = TensorView::make(wide.view().as<float>() + 1, f32, {m, k}).value();
  const KernelList found = find(p, c, "cuda").value();
  ASSERT_FALSE(found.empty());
  Execution execution = found.prepare(p.arguments).value();
  ASSERT_TRUE(execution.run());
  EXPECT_EQ(verify(p.arguments, {}, {Backend::cuda, {}, ""}, 1, c)->outputs.at(0).wrong, 0);
}

TEST_F(CudaErrors, E0644KernelsThatFail) {
  Context c = context();
  const Problem p = problem(c);
  Execution execution = find(p, c, "cuda").value().prepare(p.arguments).value();
  fake_.fail["cuLaunchKernelEx"] = Status::IllegalAddress;
  expect(execution.run(), Code::device_failed, "cuLaunchKernelEx");
  expect(tune(p.arguments, {Backend::cuda, {}, ""}, {}, c), Code::device_failed, "the device's context is lost");
  fake_.fail.clear();
  fake_.fail["cuStreamSynchronize"] = Status::LaunchFailed;
  expect(Device::open(c)->synchronize(Stream{}), Code::device_failed, "");
}

TEST_F(CudaErrors, E0645StreamsOfOtherContexts) {
  Context c = context();
  const Problem p = problem(c);
  const KernelList found = find(p, c, "cuda").value();
  ContextOptions second = options();
  second.device = 1;
  Context other = Context::make(second).value();
  const DeviceStream foreign = DeviceStream::make(Device::open(other).value()).value();
  expect(found[0].run(p.arguments, foreign), Code::context_wrong, "is not of the primary context of device 0");
  Execution execution = found.prepare(p.arguments).value();
  expect(execution.run(Stream::from_cuda(&other)), Code::context_wrong, "cuLaunchKernelEx");
}

TEST_F(CudaErrors, PackedWeightsAreForProcessors) {
  Context c = context();
  const Problem p = problem(c);
  const KernelList found = find(p, c, "cuda").value();
  expect(found[0].pack(p.arguments.B), Code::not_packable, "has no packed form of B");
}

TEST_F(CudaErrors, TakingFromWhatHasNoElementsIsRefused) {
  Context c = context();
  const Device device = Device::open(c).value();
  const Program program =
      Program::parse("def f(x: f32[\"m\", 20], i: i64[\"n\"]):\n    y = take(x, i, 0)\n    return y\n", "p.py").value();
  const CompiledProgram compiled = compile(program, {Backend::cuda, {}, ""}, {{"m", 4}, {"n", 4}}, c).value();
  const auto run = [&](int64_t rows, int64_t count) {
    const DeviceTensor x = DeviceTensor::make(device, f32, {rows, 20}).value(),
                       i = DeviceTensor::make(device, i64, {count}).value(),
                       y = DeviceTensor::make(device, f32, {count, 20}).value();
    return compiled.run({{"x", x.view()}, {"i", i.view()}, {"y", y.view()}});
  };
  expect(run(0, 5), Code::index_range, "it has none");
  EXPECT_TRUE(run(0, 0)) << "no element is taken";
  EXPECT_TRUE(run(3, 5));
}

}  // namespace
}  // namespace codetta
