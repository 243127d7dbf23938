// SPDX-License-Identifier: Apache-2.0
// A pretended libamdhip64.so.6 over the pretended CUDA driver and its state: the same devices, memory and launches
// under HIP's names and numbers of attributes; and a pretended libhiprtc, whose code objects hold the names of the
// source's kernels, as the pretended driver wants them.
#include "unit/runtime_cuda/fake_hip.hpp"

#include <cstring>
#include <mutex>
#include <regex>
#include <utility>

#include "support/code_object.hpp"

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
std::mutex recording;  // kernels of one call are compiled side by side

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
SAME(hipDrvGetErrorString, cuGetErrorString, (Status status, const char** text), (status, text))
SAME(hipDeviceGet, cuDeviceGet, (DeviceId * device, int ordinal), (device, ordinal))
SAME(hipDeviceGetName, cuDeviceGetName, (char* name, int length, DeviceId device), (name, length, device))
SAME(hipMalloc, cuMemAlloc_v2, (DeviceAddress * address, size_t bytes), (address, bytes))
SAME(hipFree, cuMemFree_v2, (DeviceAddress address), (address))
SAME(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (DeviceAddress to, const void* from, size_t bytes, StreamHandle stream),
     (to, from, bytes, stream))
SAME(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void* to, DeviceAddress from, size_t bytes, StreamHandle stream),
     (to, from, bytes, stream))
SAME(hipMemsetD8Async, cuMemsetD8Async, (DeviceAddress to, unsigned char value, size_t count, StreamHandle stream),
     (to, value, count, stream))
SAME(hipStreamCreateWithFlags, cuStreamCreate, (StreamHandle * stream, unsigned flags), (stream, flags))
SAME(hipStreamDestroy, cuStreamDestroy_v2, (StreamHandle stream), (stream))
SAME(hipStreamSynchronize, cuStreamSynchronize, (StreamHandle stream), (stream))
SAME(hipThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int* mode), (mode))
SAME(hipHostMalloc, cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags), (memory, bytes, flags))
SAME(hipHostFree, cuMemFreeHost, (void* memory), (memory))
SAME(hipGetDeviceCount, cuDeviceGetCount, (int* count), (count))
SAME(hipDeviceGetUuid, cuDeviceGetUuid, (Uuid * uuid, DeviceId device), (uuid, device))
SAME(hipDeviceTotalMem, cuDeviceTotalMem_v2, (size_t * bytes, DeviceId device), (bytes, device))
SAME(hipDeviceSynchronize, cuCtxSynchronize, (), ())
SAME(hipMemGetInfo, cuMemGetInfo_v2, (size_t * free, size_t* total), (free, total))
SAME(hipStreamBeginCapture, cuStreamBeginCapture_v2, (StreamHandle stream, int mode), (stream, mode))
SAME(hipStreamEndCapture, cuStreamEndCapture, (StreamHandle stream, GraphHandle* graph), (stream, graph))
SAME(hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,
     (GraphExecHandle * executable, GraphHandle graph, unsigned long long flags), (executable, graph, flags))
SAME(hipGraphLaunch, cuGraphLaunch, (GraphExecHandle executable, StreamHandle stream), (executable, stream))
SAME(hipGraphExecDestroy, cuGraphExecDestroy, (GraphExecHandle executable), (executable))
SAME(hipGraphDestroy, cuGraphDestroy, (GraphHandle graph), (graph))
SAME(hipEventCreateWithFlags, cuEventCreate, (EventHandle * event, unsigned flags), (event, flags))
SAME(hipEventDestroy, cuEventDestroy_v2, (EventHandle event), (event))
SAME(hipEventRecord, cuEventRecord, (EventHandle event, StreamHandle stream), (event, stream))
SAME(hipStreamWaitEvent, cuStreamWaitEvent, (StreamHandle stream, EventHandle event, unsigned flags),
     (stream, event, flags))
SAME(hipDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int* can, DeviceId device, DeviceId peer), (can, device, peer))
SAME(hipEventSynchronize, cuEventSynchronize, (EventHandle event), (event))
SAME(hipEventElapsedTime, cuEventElapsedTime, (float* milliseconds, EventHandle start, EventHandle end),
     (milliseconds, start, end))
SAME(hipModuleUnload, cuModuleUnload, (ModuleHandle module), (module))
SAME(hipModuleGetFunction, cuModuleGetFunction, (FunctionHandle * function, ModuleHandle module, const char* name),
     (function, module, name))
SAME(hipFuncGetAttribute, cuFuncGetAttribute, (int* value, int attribute, FunctionHandle function),
     (value, attribute, function))
SAME(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor,
     (int* blocks, FunctionHandle function, int threads, size_t shared), (blocks, function, threads, shared))
#undef SAME

Status hipDrvGetErrorName(Status status, const char** text) {
  *text = status == Status::OutOfMemory      ? "hipErrorOutOfMemory"
          : status == Status::IllegalAddress ? "hipErrorIllegalAddress"
          : status == Status::NoDevice       ? "hipErrorNoDevice"
                                             : "hipErrorUnknown";
  return Status::Success;
}

Status cuModuleLoadData(ModuleHandle* module, const void* image);
Status hipModuleLoadData(ModuleHandle* module, const void* image) {
  const OnDevice here;
  std::string payload = codetta::test::payload_of(image);
  payload.resize(payload.empty() ? 0 : std::max<size_t>(payload.size() + 1, 256));
  return cuModuleLoadData(module, payload.empty() ? image : payload.data());
}

// Between devices, too.
Status cuMemcpyAsync(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream);
Status cuMemcpyDtoDAsync_v2(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream);
Status cuPointerGetAttributes(unsigned count, int* attributes, void** values, DeviceAddress address);
Status hipMemcpyDtoDAsync(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream) {
  const OnDevice here;
  int which = pointer_device_ordinal, devices[2] = {};
  for (int i = 0; i < 2; ++i) {
    void* device = &devices[i];
    cuPointerGetAttributes(1, &which, &device, i == 0 ? to : from);
  }
  return devices[0] == devices[1] ? cuMemcpyDtoDAsync_v2(to, from, bytes, stream)
                                  : cuMemcpyAsync(to, from, bytes, stream);
}
Status cuCtxEnablePeerAccess(ContextHandle peer, unsigned flags);
Status hipDeviceEnablePeerAccess(DeviceId peer, unsigned flags) {
  const OnDevice here;
  ContextHandle context = nullptr;
  cuDevicePrimaryCtxRetain(&context, peer);
  cuDevicePrimaryCtxRelease_v2(peer);
  const Status status = cuCtxEnablePeerAccess(context, flags);
  if (status != Status::Success) state.last_error = status;
  return status;
}
Status hipGetLastError() { return std::exchange(state.last_error, Status::Success); }

// Memory that it does not know is an error.
Status hipDrvPointerGetAttributes(unsigned count, int* attributes, void** values, DeviceAddress address) {
  const OnDevice here;
  unsigned type = 0;
  int which = pointer_memory_type;
  void* value = &type;
  const Status status = cuPointerGetAttributes(1, &which, &value, address);
  if (status != Status::Success) return status;
  return type == 0 ? Status::InvalidValue : cuPointerGetAttributes(count, attributes, values, address);
}

// The default stream can't be asked about.
Status cuStreamIsCapturing(StreamHandle stream, int* capture);
Status hipStreamIsCapturing(StreamHandle stream, int* capture) {
  const OnDevice here;
  return stream == nullptr ? Status::InvalidValue : cuStreamIsCapturing(stream, capture);
}

Status hipGetDevicePropertiesR0600(char* properties, int device) {
  if (device < 0 || device > 7) return Status::InvalidDevice;
  std::memset(properties, 0, 1472);
  std::memcpy(properties + 1160, state.architecture.data(), state.architecture.size());
  return Status::Success;
}

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
    case 26:
      return cuDeviceGetAttribute(value, device_max_block_x, device);
    case 27:
      return cuDeviceGetAttribute(value, device_max_block_y, device);
    case 28:
      return cuDeviceGetAttribute(value, device_max_block_z, device);
    case 29:
      return cuDeviceGetAttribute(value, device_max_grid_x, device);
    case 30:
      return cuDeviceGetAttribute(value, device_max_grid_y, device);
    case 31:
      return cuDeviceGetAttribute(value, device_max_grid_z, device);
    case 5:
      return cuDeviceGetAttribute(value, device_clock_khz, device);
    case 10:
      return cuDeviceGetAttribute(value, device_cooperative_launch, device);
    case 19:
      return cuDeviceGetAttribute(value, device_l2_bytes, device);
    case 56:
      return cuDeviceGetAttribute(value, device_max_threads_per_block, device);
    case 57:
      return cuDeviceGetAttribute(value, device_max_threads_per_multiprocessor, device);
    case 59:
      return cuDeviceGetAttribute(value, device_memory_bus_bits, device);
    case 60:
      return cuDeviceGetAttribute(value, device_memory_clock_khz, device);
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
  const OnDevice here;
  const LaunchConfig config{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, function, parameters, extra);
}

Status hipModuleLaunchCooperativeKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                        StreamHandle stream, void** parameters) {
  const OnDevice here;
  LaunchAttribute together{};
  together.id = launch_cooperative;
  together.value.flag = 1;
  const LaunchConfig config{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, &together, 1};
  return cuLaunchKernelEx(&config, function, parameters, nullptr);
}

Status hipRuntimeGetVersion(int* version) {
  *version = state.version;
  return Status::Success;
}

// ---- the compiler ----

struct HipProgram {
  std::string source, object, log;
};

int hiprtcVersion(int* major, int* minor) {
  *major = 6;
  *minor = 3;
  return 0;
}
const char* hiprtcGetErrorString(int result) { return result == 6 ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_ERROR_OTHER"; }
int hiprtcCreateProgram(HipProgram** program, const char* source, const char*, int headers, const char* const*,
                        const char* const* names) {
  *program = new HipProgram{source, {}, {}};
  state.headers.assign(names, names + headers);
  return 0;
}
int hiprtcDestroyProgram(HipProgram** program) {
  delete *program;
  return 0;
}
int hiprtcCompileProgram(HipProgram* program, int flags, const char* const* given) {
  {
    const std::lock_guard lock(recording);
    ++state.compiles;
    state.flags.assign(given, given + flags);
  }
  if (!state.rejects_if.empty() && program->source.find(state.rejects_if) != std::string::npos) {
    program->log = "kernel.hip:3:1: error: unknown type name 'oops'\n1 error generated.\n";
    return 6;
  }
  const bool scratch = !state.scratch_if.empty() && program->source.find(state.scratch_if) != std::string::npos;
  std::string names =
      "\x7f"
      "ELF";
  std::vector<codetta::test::PretendedKernel> kernels;
  static const std::regex kernel(R"(__global__ void __launch_bounds__\([^)]*\) (\w+)\()");
  for (std::sregex_iterator at(program->source.begin(), program->source.end(), kernel), end; at != end; ++at) {
    kernels.push_back({(*at)[1], 96, 0, scratch ? 336U : 0U, 16384});
    names += kernels.back().name + " ";
  }
  program->object = codetta::test::make_code_object(kernels, names);
  return 0;
}
int hiprtcGetCodeSize(HipProgram* program, size_t* bytes) {
  *bytes = program->object.size();
  return 0;
}
int hiprtcGetCode(HipProgram* program, char* to) {
  std::memcpy(to, program->object.data(), program->object.size());
  return 0;
}
int hiprtcGetProgramLogSize(HipProgram* program, size_t* bytes) {
  *bytes = program->log.size();
  return 0;
}
int hiprtcGetProgramLog(HipProgram* program, char* to) {
  std::memcpy(to, program->log.data(), program->log.size());
  return 0;
}

}  // extern "C"
