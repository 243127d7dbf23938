// SPDX-License-Identifier: Apache-2.0
// Kernels with one bug each, which compute-sanitizer must find: proof that its silence over the other tests says
// something. They run only when asked for (--planted memcheck, racecheck, synccheck or initcheck).
#include <gtest/gtest.h>

#include <cstring>

#include "gpu/suite.hpp"
#include "runtime/cuda/stream.hpp"

namespace codetta::gpu {
namespace {

namespace cuda = runtime::cuda;

constexpr int threads = 64;
constexpr size_t words = 64;

constexpr std::string_view source = R"(
extern "C" __global__ void memcheck(unsigned* out, const unsigned*) { out[threadIdx.x * 4096 + 1024] = 1; }
extern "C" __global__ void racecheck(unsigned* out, const unsigned*) {
  __shared__ unsigned held[64];
  held[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = held[63 - threadIdx.x];
}
extern "C" __global__ void synccheck(unsigned* out, const unsigned*) {
  if (threadIdx.x % 32 < 16) __syncthreads();
  out[threadIdx.x] = 1;
}
extern "C" __global__ void initcheck(unsigned* out, const unsigned* never_written) {
  out[threadIdx.x] = never_written[threadIdx.x] + 1;
}
)";

TEST(CudaPlanted, BugIsThere) {
  if (options().planted.empty()) GTEST_SKIP() << "--planted names the bug";
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  const auto run = [&]() -> Result<void> {
    emit::CudaSource planted;
    planted.text = source;
    planted.flags = {"--gpu-architecture=" + gpu->arch(), "--std=c++17"};
    CODETTA_TRY(const cuda::ModuleRef module, gpu->load(planted));
    if (gpu->compiles_only()) return {};
    CODETTA_TRY(const cuda::Function function, module->function(options().planted, 0, 1));
    CODETTA_TRY(const cuda::OwnedStream stream, cuda::OwnedStream::make(gpu->device()));
    CODETTA_TRY(const cuda::DeviceBuffer out, cuda::DeviceBuffer::make(gpu->device(), words * 4));
    CODETTA_TRY(const cuda::DeviceBuffer in, cuda::DeviceBuffer::make(gpu->device(), words * 4));
    cuda::LaunchConfig launch{};
    launch.grid_x = launch.grid_y = launch.grid_z = launch.block_y = launch.block_z = 1;
    launch.block_x = threads;
    launch.stream = stream.get();
    cuda::DeviceAddress addresses[] = {out.address(), in.address()};
    void* parameters[] = {&addresses[0], &addresses[1]};
    {
      CODETTA_TRY(const cuda::ContextGuard guard, gpu->device()->enter());
      CODETTA_CUDA(gpu->device()->driver(), "cuLaunchKernelEx", "planted",
                   gpu->device()->driver().call().launch_kernel(&launch, function.handle, parameters, nullptr));
    }
    return gpu->device()->synchronize(stream.get());
  };
  // What the bug does to the run is the sanitizer's to tell.
  const auto done = run();
  if (!done) ::testing::Test::RecordProperty("run", done.error().render());
}

}  // namespace
}  // namespace codetta::gpu
