// SPDX-License-Identifier: Apache-2.0
// The functions of a GPU's driver that emitted libraries call, in one table: X(member, CUDA's name, HIP's name,
// parameters). A library holds one filled table; another driver is another column, and a wrapper where its function
// takes something else ("" where there is nothing to look up). CUDA's names carry version suffixes, as libcuda exports
// them.
#pragma once

#include <dlfcn.h>

#include "device/host/cuda_abi.h"
#include "device/host/support.h"

namespace codetta::host {

using cuda_driver::ContextHandle;
using cuda_driver::DeviceAddress;
using cuda_driver::DeviceId;
using cuda_driver::FunctionHandle;
using cuda_driver::LaunchAttribute;
using cuda_driver::LaunchConfig;
using cuda_driver::ModuleHandle;
using cuda_driver::StreamHandle;
using DriverStatus = cuda_driver::Status;

#define CODETTA_GPU_CALLS(X)                                                                                          \
  X(init, "cuInit", "hipInit", (unsigned flags))                                                                      \
  X(error_name, "cuGetErrorName", "hipDrvGetErrorName", (DriverStatus status, const char** text))                     \
  X(error_string, "cuGetErrorString", "hipDrvGetErrorString", (DriverStatus status, const char** text))               \
  X(device_get, "cuDeviceGet", "hipDeviceGet", (DeviceId * device, int ordinal))                                      \
  X(device_name, "cuDeviceGetName", "hipDeviceGetName", (char* name, int length, DeviceId device))                    \
  X(device_attribute, "cuDeviceGetAttribute", "hipDeviceGetAttribute", (int* value, int attribute, DeviceId device))  \
  X(primary_retain, "cuDevicePrimaryCtxRetain", "", (ContextHandle * context, DeviceId device))                       \
  X(primary_release, "cuDevicePrimaryCtxRelease_v2", "", (DeviceId device))                                           \
  X(context_current, "cuCtxGetCurrent", "", (ContextHandle * context))                                                \
  X(context_push, "cuCtxPushCurrent_v2", "", (ContextHandle context))                                                 \
  X(context_pop, "cuCtxPopCurrent_v2", "", (ContextHandle * context))                                                 \
  X(context_device, "cuCtxGetDevice", "", (DeviceId * device))                                                        \
  X(allocate, "cuMemAlloc_v2", "hipMalloc", (DeviceAddress * address, size_t bytes))                                  \
  X(release, "cuMemFree_v2", "hipFree", (DeviceAddress address))                                                      \
  X(allocate_host, "cuMemHostAlloc", "hipHostMalloc", (void** memory, size_t bytes, unsigned flags))                  \
  X(release_host, "cuMemFreeHost", "hipHostFree", (void* memory))                                                     \
  X(copy_in, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync",                                                            \
    (DeviceAddress to, const void* from, size_t bytes, StreamHandle stream))                                          \
  X(copy_out, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync",                                                           \
    (void* to, DeviceAddress from, size_t bytes, StreamHandle stream))                                                \
  X(copy_within, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync",                                                        \
    (DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream))                                        \
  X(set_bytes, "cuMemsetD8Async", "hipMemsetD8Async",                                                                 \
    (DeviceAddress to, unsigned char value, size_t count, StreamHandle stream))                                       \
  X(pointer_attributes, "cuPointerGetAttributes", "hipDrvPointerGetAttributes",                                       \
    (unsigned count, int* attributes, void** values, DeviceAddress address))                                          \
  X(stream_create, "cuStreamCreate", "hipStreamCreateWithFlags", (StreamHandle * stream, unsigned flags))             \
  X(stream_destroy, "cuStreamDestroy_v2", "hipStreamDestroy", (StreamHandle stream))                                  \
  X(stream_wait, "cuStreamSynchronize", "hipStreamSynchronize", (StreamHandle stream))                                \
  X(stream_capturing, "cuStreamIsCapturing", "hipStreamIsCapturing", (StreamHandle stream, int* status))              \
  X(stream_context, "cuStreamGetCtx", "", (StreamHandle stream, ContextHandle * context))                             \
  X(exchange_capture, "cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode", (int* mode))         \
  X(module_load, "cuModuleLoadData", "hipModuleLoadData", (ModuleHandle * module, const void* image))                 \
  X(module_unload, "cuModuleUnload", "hipModuleUnload", (ModuleHandle module))                                        \
  X(function_find, "cuModuleGetFunction", "hipModuleGetFunction",                                                     \
    (FunctionHandle * function, ModuleHandle module, const char* name))                                               \
  X(function_attribute, "cuFuncGetAttribute", "hipFuncGetAttribute",                                                  \
    (int* value, int attribute, FunctionHandle function))                                                             \
  X(function_allow, "cuFuncSetAttribute", "hipFuncSetAttribute", (FunctionHandle function, int attribute, int value)) \
  X(blocks_that_fit, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                                   \
    "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",                                                             \
    (int* blocks, FunctionHandle function, int block_size, size_t dynamic_shared))                                    \
  X(clusters_that_fit, "cuOccupancyMaxActiveClusters", "",                                                            \
    (int* clusters, FunctionHandle function, const LaunchConfig* config))                                             \
  X(launch, "cuLaunchKernelEx", "hipModuleLaunchKernel",                                                              \
    (const LaunchConfig* config, FunctionHandle function, void** parameters, void** extra))                           \
  X(map_tiled, "cuTensorMapEncodeTiled", "",                                                                          \
    (cuda_driver::TensorMap * map, int dtype, uint32_t rank, void* address, const uint64_t* sizes,                    \
     const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle,      \
     int l2_promotion, int oob_fill))                                                                                 \
  X(map_im2col, "cuTensorMapEncodeIm2col", "",                                                                        \
    (cuda_driver::TensorMap * map, int dtype, uint32_t rank, void* address, const uint64_t* sizes,                    \
     const uint64_t* strides, const int* lower, const int* upper, uint32_t channels, uint32_t pixels,                 \
     const uint32_t* element_strides, int interleave, int swizzle, int l2_promotion, int oob_fill))

struct GpuCalls {
#define CODETTA_GPU_MEMBER(member, cuda, hip, parameters) DriverStatus(*member) parameters;
  CODETTA_GPU_CALLS(CODETTA_GPU_MEMBER)
#undef CODETTA_GPU_MEMBER
};

// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", in one of a few buffers of the thread.
inline const char* driver_text(const GpuCalls& calls, DriverStatus status) {
  static thread_local char texts[2][192];
  static thread_local unsigned next = 0;
  char* text = texts[next++ % 2];
  const char *name = nullptr, *words = nullptr;
  if (calls.error_name == nullptr || calls.error_name(status, &name) != DriverStatus::Success) name = nullptr;
  if (calls.error_string == nullptr || calls.error_string(status, &words) != DriverStatus::Success) words = nullptr;
  snprintf(text, sizeof texts[0], "%s (%d): %s", name != nullptr ? name : "an error", static_cast<int>(status),
           words != nullptr ? words : "the driver has no text for it");
  return text;
}

// What a failed call means; `what` was to be done.
inline Status fail(const GpuCalls& calls, DriverStatus status, const char* what) {
  const char* text = driver_text(calls, status);
  switch (status) {
    case DriverStatus::OutOfMemory:
      return fail(no_memory, "E0643: the device has not enough memory: %s failed with error: %s", what, text);
    case DriverStatus::NoBinaryForGpu:
      return fail(wrong_machine, "E0430: the kernels are compiled for another architecture than the device's: %s: %s",
                  what, text);
    case DriverStatus::InvalidImage:
      return fail(gpu_failed, "E0508: a compiled kernel can not be loaded: %s: %s", what, text);
    case DriverStatus::UnsupportedPtxVersion:
    case DriverStatus::CallRequiresNewerDriver:
      return fail(wrong_machine, "E0641: the GPU's driver is too old: %s: %s", what, text);
    case DriverStatus::InvalidContext:
    case DriverStatus::InvalidHandle:
    case DriverStatus::NotInitialized:
    case DriverStatus::Deinitialized:
      return fail(bad_argument, "E0645: the stream or memory belongs to another context: %s: %s", what, text);
    case DriverStatus::CaptureUnsupported:
    case DriverStatus::CaptureInvalidated:
    case DriverStatus::CaptureImplicit:
    case DriverStatus::CapturedEvent:
    case DriverStatus::CaptureWrongThread:
      return fail(bad_argument, "E0646: this can not be done while a stream is being captured: %s: %s", what, text);
    default:
      return fail(gpu_failed, "E0647: %s failed with error: %s", what, text);
  }
}

// The table from libcuda, which is never unloaded: a driver does not support that.
inline Status load_cuda(GpuCalls& calls) {
  static const char* const libraries[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};
  void* handle = nullptr;
  for (const char* library : libraries) {
    if (handle == nullptr) handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
  if (handle == nullptr) {
    const char* said = dlerror();
    return fail(wrong_machine, "E0640: no NVIDIA driver was found: looked for %s: %.400s", libraries[0],
                said != nullptr ? said : "it can not be loaded");
  }
  const char* missing = nullptr;
#define CODETTA_GPU_LOOK_UP(member, cuda, hip, parameters)                      \
  calls.member = reinterpret_cast<decltype(calls.member)>(dlsym(handle, cuda)); \
  if (calls.member == nullptr && missing == nullptr) missing = cuda;
  CODETTA_GPU_CALLS(CODETTA_GPU_LOOK_UP)
#undef CODETTA_GPU_LOOK_UP
  dlclose(handle);  // of the count only
  if (missing != nullptr)
    return fail(wrong_machine, "E0641: the NVIDIA driver is too old: %s lacks %s", libraries[0], missing);
  const DriverStatus status = calls.init(0);
  if (status == DriverStatus::Success) return ok;
  return fail(wrong_machine,
              status == DriverStatus::NoDevice ? "E0642: the NVIDIA driver finds no device: %s"
                                               : "E0640: the NVIDIA driver can not be started: %s",
              driver_text(calls, status));
}

}  // namespace codetta::host
