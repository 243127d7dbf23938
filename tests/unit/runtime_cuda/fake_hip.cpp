// SPDX-License-Identifier: Apache-2.0
// A pretended libamdhip64.so.6 over the pretended CUDA driver and its state: the same devices, memory and launches
// under HIP's names and numbers of attributes.
#include "unit/runtime_cuda/fake_hip.hpp"

using namespace codetta::runtime::cuda;
using codetta::test::FakeHip;

extern "C" {
Status cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceId device);
Status cuDevicePrimaryCtxRelease_v2(DeviceId device);
Status cuCtxPushCurrent_v2(ContextHandle context);
Status cuCtxPopCurrent_v2(ContextHandle* context);
Status cuCtxGetDevice(DeviceId* device);
}

namespace {

FakeHip state;

// The pretended CUDA driver has the context of the thread's device meanwhile.
struct OnDevice {
  OnDevice() {
    ContextHandle context = nullptr;
    cuDevicePrimaryCtxRetain(&context, state.device);
    cuDevicePrimaryCtxRelease_v2(state.device);
    cuCtxPushCurrent_v2(context);
  }
  ~OnDevice() {
    ContextHandle popped = nullptr;
    cuCtxPopCurrent_v2(&popped);
  }
};

}  // namespace

extern "C" {

FakeHip* codetta_fake_hip() { return &state; }

// What is the same but for its name.
#define SAME(hip, cuda, parameters, arguments) \
  Status cuda parameters;                      \
  Status hip parameters {                      \
    const OnDevice here;                       \
    return cuda arguments;                     \
  }
SAME(hipInit, cuInit, (unsigned flags), (flags))
SAME(hipDrvGetErrorName, cuGetErrorName, (Status status, const char** text), (status, text))
SAME(hipDrvGetErrorString, cuGetErrorString, (Status status, const char** text), (status, text))
SAME(hipDeviceGet, cuDeviceGet, (DeviceId * device, int ordinal), (device, ordinal))
SAME(hipDeviceGetName, cuDeviceGetName, (char* name, int length, DeviceId device), (name, length, device))
SAME(hipMalloc, cuMemAlloc_v2, (DeviceAddress * address, size_t bytes), (address, bytes))
SAME(hipFree, cuMemFree_v2, (DeviceAddress address), (address))
SAME(hipHostMalloc, cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags), (memory, bytes, flags))
SAME(hipHostFree, cuMemFreeHost, (void* memory), (memory))
SAME(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (DeviceAddress to, const void* from, size_t bytes, StreamHandle stream),
     (to, from, bytes, stream))
SAME(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void* to, DeviceAddress from, size_t bytes, StreamHandle stream),
     (to, from, bytes, stream))
SAME(hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2,
     (DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream), (to, from, bytes, stream))
SAME(hipMemsetD8Async, cuMemsetD8Async, (DeviceAddress to, unsigned char value, size_t count, StreamHandle stream),
     (to, value, count, stream))
SAME(hipDrvPointerGetAttributes, cuPointerGetAttributes,
     (unsigned count, int* attributes, void** values, DeviceAddress address), (count, attributes, values, address))
SAME(hipStreamCreateWithFlags, cuStreamCreate, (StreamHandle * stream, unsigned flags), (stream, flags))
SAME(hipStreamDestroy, cuStreamDestroy_v2, (StreamHandle stream), (stream))
SAME(hipStreamSynchronize, cuStreamSynchronize, (StreamHandle stream), (stream))
SAME(hipStreamIsCapturing, cuStreamIsCapturing, (StreamHandle stream, int* capture), (stream, capture))
SAME(hipThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int* mode), (mode))
SAME(hipModuleLoadData, cuModuleLoadData, (ModuleHandle * module, const void* image), (module, image))
SAME(hipModuleUnload, cuModuleUnload, (ModuleHandle module), (module))
SAME(hipModuleGetFunction, cuModuleGetFunction, (FunctionHandle * function, ModuleHandle module, const char* name),
     (function, module, name))
SAME(hipFuncGetAttribute, cuFuncGetAttribute, (int* value, int attribute, FunctionHandle function),
     (value, attribute, function))
SAME(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor,
     (int* blocks, FunctionHandle function, int threads, size_t shared), (blocks, function, threads, shared))
#undef SAME

Status hipGetDevice(DeviceId* device) {
  *device = state.device;
  return Status::Success;
}
Status hipSetDevice(DeviceId device) {
  state.device = device;
  return Status::Success;
}

// Takes host functions only: a caller with a module's function has not read the manual.
Status hipFuncSetAttribute(const void*, int, int) { return Status::InvalidValue; }

Status cuDeviceGetAttribute(int* value, int attribute, DeviceId device);
Status hipDeviceGetAttribute(int* value, int attribute, DeviceId device) {
  switch (attribute) {
    case 29:
      return cuDeviceGetAttribute(value, device_max_grid_x, device);
    case 30:
      return cuDeviceGetAttribute(value, device_max_grid_y, device);
    case 31:
      return cuDeviceGetAttribute(value, device_max_grid_z, device);
    case 63:
      return cuDeviceGetAttribute(value, device_multiprocessors, device);
    case 74:
      *value = 65536;
      return Status::Success;
    default:
      return Status::InvalidValue;
  }
}

Status cuStreamGetCtx(StreamHandle stream, ContextHandle* context);
Status hipStreamGetDevice(StreamHandle stream, DeviceId* device) {
  ContextHandle context = nullptr;
  if (const Status status = cuStreamGetCtx(stream, &context); status != Status::Success) return status;
  cuCtxPushCurrent_v2(context);
  const Status status = cuCtxGetDevice(device);
  cuCtxPopCurrent_v2(&context);
  return status;
}

Status cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** parameters, void** extra);
Status hipModuleLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, StreamHandle stream,
                             void** parameters, void** extra) {
  const LaunchConfig config{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, function, parameters, extra);
}

Status hipRuntimeGetVersion(int* version) {
  *version = state.version;
  return Status::Success;
}

}  // extern "C"
