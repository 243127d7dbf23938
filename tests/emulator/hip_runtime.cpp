// SPDX-License-Identifier: Apache-2.0
// libamdhip64 and libhiprtc over the emulator, as one library: what asks a HIP runtime for a device, memory, code
// objects and launches gets them on the host, and results are those of the kernels. CODETTA_EMULATED_GFX names the
// architecture (gfx942). Everything that is enqueued runs at once; captures are refused. Code objects are those of this
// library's hiprtc: AMD's own instructions do not run here.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "emulator/compile.hpp"
#include "emulator/driver.hpp"
#include "support/code_object.hpp"

namespace {

using namespace codetta::runtime::cuda;
using codetta::emulator::Compiler;

std::string gfx() {
  const char* wanted = std::getenv("CODETTA_EMULATED_GFX");
  return wanted != nullptr ? wanted : "gfx942";
}

const DriverTable& emulator() {
  static const DeviceRef device = [] {
    codetta::emulator::Model model;
    model.lanes = gfx().starts_with("gfx9") ? 64 : 32;
    return codetta::emulator::open_device(model).value();
  }();
  return device->driver().call();
}

std::mutex mutex;
std::map<DeviceAddress, size_t>& allocations() {  // by address: bytes
  static std::map<DeviceAddress, size_t> all;
  return all;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// What is the same but for its name.
#define SAME(hip, member, parameters, arguments) \
  EXPORTED Status hip parameters { return emulator().member arguments; }
SAME(hipInit, init, (unsigned flags), (flags))
SAME(hipDrvGetErrorString, get_error_string, (Status status, const char** text), (status, text))
SAME(hipGetDeviceCount, device_get_count, (int* count), (count))
SAME(hipDeviceGet, device_get, (DeviceId * device, int ordinal), (device, ordinal))
SAME(hipDeviceGetName, device_get_name, (char* name, int length, DeviceId device), (name, length, device))
SAME(hipDeviceGetUuid, device_get_uuid, (Uuid * uuid, DeviceId device), (uuid, device))
SAME(hipDeviceTotalMem, device_total_mem, (size_t * bytes, DeviceId device), (bytes, device))
SAME(hipDeviceSynchronize, context_synchronize, (), ())
SAME(hipHostMalloc, mem_host_alloc, (void** memory, size_t bytes, unsigned flags), (memory, bytes, flags))
SAME(hipHostFree, mem_host_free, (void* memory), (memory))
SAME(hipMemGetInfo, mem_get_info, (size_t * free, size_t* total), (free, total))
SAME(hipMemcpyHtoDAsync, copy_to_device, (DeviceAddress to, const void* from, size_t bytes, StreamHandle stream),
     (to, from, bytes, stream))
SAME(hipMemcpyDtoHAsync, copy_to_host, (void* to, DeviceAddress from, size_t bytes, StreamHandle stream),
     (to, from, bytes, stream))
SAME(hipMemcpyDtoDAsync, copy_on_device, (DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream),
     (to, from, bytes, stream))
SAME(hipDeviceCanAccessPeer, can_access_peer, (int* can, DeviceId device, DeviceId peer), (can, device, peer))
SAME(hipStreamWaitEvent, stream_wait_event, (StreamHandle stream, EventHandle event, unsigned flags),
     (stream, event, flags))
SAME(hipMemsetD8Async, memset_8, (DeviceAddress to, unsigned char value, size_t count, StreamHandle stream),
     (to, value, count, stream))
SAME(hipStreamCreateWithFlags, stream_create, (StreamHandle * stream, unsigned flags), (stream, flags))
SAME(hipStreamDestroy, stream_destroy, (StreamHandle stream), (stream))
SAME(hipStreamSynchronize, stream_synchronize, (StreamHandle stream), (stream))
SAME(hipStreamIsCapturing, stream_is_capturing, (StreamHandle stream, int* capture), (stream, capture))
SAME(hipStreamBeginCapture, stream_begin_capture, (StreamHandle stream, int mode), (stream, mode))
SAME(hipStreamEndCapture, stream_end_capture, (StreamHandle stream, GraphHandle* graph), (stream, graph))
SAME(hipGraphInstantiateWithFlags, graph_instantiate,
     (GraphExecHandle * executable, GraphHandle graph, unsigned long long flags), (executable, graph, flags))
SAME(hipGraphLaunch, graph_launch, (GraphExecHandle executable, StreamHandle stream), (executable, stream))
SAME(hipGraphExecDestroy, graph_exec_destroy, (GraphExecHandle executable), (executable))
SAME(hipGraphDestroy, graph_destroy, (GraphHandle graph), (graph))
SAME(hipThreadExchangeStreamCaptureMode, exchange_capture_mode, (int* mode), (mode))
SAME(hipEventCreateWithFlags, event_create, (EventHandle * event, unsigned flags), (event, flags))
SAME(hipEventDestroy, event_destroy, (EventHandle event), (event))
SAME(hipEventRecord, event_record, (EventHandle event, StreamHandle stream), (event, stream))
SAME(hipEventSynchronize, event_synchronize, (EventHandle event), (event))
SAME(hipEventElapsedTime, event_elapsed_time, (float* milliseconds, EventHandle start, EventHandle end),
     (milliseconds, start, end))
SAME(hipModuleUnload, module_unload, (ModuleHandle module), (module))
SAME(hipModuleGetFunction, module_get_function, (FunctionHandle * function, ModuleHandle module, const char* name),
     (function, module, name))
SAME(hipFuncGetAttribute, function_get_attribute, (int* value, int attribute, FunctionHandle function),
     (value, attribute, function))
SAME(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, max_active_blocks,
     (int* blocks, FunctionHandle function, int threads, size_t shared), (blocks, function, threads, shared))
#undef SAME

EXPORTED Status hipFuncSetAttribute(FunctionHandle, int, int) { return Status::Success; }  // nothing has to be allowed
EXPORTED Status hipDrvGetErrorName(Status status, const char** text) {
  *text = status == Status::LaunchFailed ? "hipErrorLaunchFailure" : "hipErrorUnknown";
  return Status::Success;
}
EXPORTED Status hipDeviceEnablePeerAccess(DeviceId, unsigned) { return Status::InvalidValue; }  // it is the only one
EXPORTED Status hipGetLastError() { return Status::Success; }
EXPORTED Status hipGetDevice(DeviceId* device) { return *device = 0, Status::Success; }
EXPORTED Status hipSetDevice(DeviceId device) { return device == 0 ? Status::Success : Status::InvalidDevice; }
EXPORTED Status hipStreamGetDevice(StreamHandle, DeviceId* device) { return *device = 0, Status::Success; }
EXPORTED Status hipRuntimeGetVersion(int* version) { return *version = 60300000, Status::Success; }
EXPORTED Status hipGetDevicePropertiesR0600(char* properties, int) {
  std::memset(properties, 0, 1472);
  const std::string name = gfx();
  std::memcpy(properties + 1160, name.data(), std::min<size_t>(name.size(), 255));
  return Status::Success;
}
EXPORTED Status hipDeviceGetAttribute(int* value, int attribute, DeviceId device) {
  const std::map<int, int> numbers = {{29, device_max_grid_x},      {30, device_max_grid_y},
                                      {31, device_max_grid_z},      {56, device_max_threads_per_block},
                                      {63, device_multiprocessors}, {57, device_max_threads_per_multiprocessor}};
  if (attribute >= 26 && attribute <= 28) return *value = 1024, Status::Success;
  if (attribute == 10) return *value = 0, Status::Success;  // blocks run one behind the other
  if (attribute == 74) return *value = 65536, Status::Success;
  const auto at = numbers.find(attribute);
  return at == numbers.end() ? Status::InvalidValue : emulator().device_get_attribute(value, at->second, device);
}

EXPORTED Status hipMalloc(DeviceAddress* address, size_t bytes) {
  const Status status = emulator().mem_alloc(address, bytes);
  const std::lock_guard lock(mutex);
  if (status == Status::Success) allocations()[*address] = bytes;
  return status;
}
EXPORTED Status hipFree(DeviceAddress address) {
  {
    const std::lock_guard lock(mutex);
    allocations().erase(address);
  }
  return emulator().mem_free(address);
}
EXPORTED Status hipDrvPointerGetAttributes(unsigned count, int* attributes, void** values, DeviceAddress address) {
  const std::lock_guard lock(mutex);
  auto at = allocations().upper_bound(address);
  if (at == allocations().begin()) return Status::InvalidValue;
  --at;
  if (address >= at->first + std::max<size_t>(at->second, 1)) return Status::InvalidValue;
  return emulator().pointer_get_attributes(count, attributes, values, address);
}

EXPORTED Status hipModuleLoadData(ModuleHandle* module, const void* image) {
  const std::string payload = codetta::test::payload_of(image);
  return payload.empty() ? Status::NoBinaryForGpu : emulator().module_load_data(module, payload.data());
}
EXPORTED Status hipModuleLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                      StreamHandle stream, void** parameters, void** extra) {
  // What the hardware does not launch: more LDS than a block has, or more than 2^32 - 1 threads along one dim.
  if (shared > 65536 || uint64_t{grid_x} * block_x > UINT32_MAX || block_x * block_y * block_z > 1024)
    return Status::InvalidValue;
  const LaunchConfig config{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, nullptr, 0};
  return emulator().launch_kernel(&config, function, parameters, extra);
}

EXPORTED Status hipModuleLaunchCooperativeKernel(FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned,
                                                 unsigned, unsigned, StreamHandle, void**) {
  return Status::InvalidValue;
}

// ---- the compiler ----

struct EmulatedProgram {
  std::string source, object, log;
};

EXPORTED int hiprtcVersion(int* major, int* minor) { return *major = 6, *minor = 3, 0; }
EXPORTED const char* hiprtcGetErrorString(int) { return "refused by the emulator"; }
EXPORTED int hiprtcCreateProgram(EmulatedProgram** program, const char* source, const char*, int, const char* const*,
                                 const char* const*) {
  *program = new EmulatedProgram{source, {}, {}};
  return 0;
}
EXPORTED int hiprtcDestroyProgram(EmulatedProgram** program) {
  delete *program;
  return 0;
}
EXPORTED int hiprtcCompileProgram(EmulatedProgram* program, int count, const char* const* flags) {
  const auto compiler = Compiler::find();
  const auto object = compiler ? compiler->compile(program->source, {flags, flags + count})
                               : codetta::Result<std::string>(compiler.error());
  if (!object) {
    program->log = object.error().render();
    return 6;
  }
  std::vector<codetta::test::PretendedKernel> kernels;
  for (const std::string& name : codetta::emulator::entries_of(program->source)) kernels.push_back({name});
  program->object = codetta::test::make_code_object(kernels, *object);
  return 0;
}
EXPORTED int hiprtcGetCodeSize(EmulatedProgram* program, size_t* bytes) { return *bytes = program->object.size(), 0; }
EXPORTED int hiprtcGetCode(EmulatedProgram* program, char* to) {
  std::memcpy(to, program->object.data(), program->object.size());
  return 0;
}
EXPORTED int hiprtcGetProgramLogSize(EmulatedProgram* program, size_t* bytes) {
  return *bytes = program->log.size(), 0;
}
EXPORTED int hiprtcGetProgramLog(EmulatedProgram* program, char* to) {
  std::memcpy(to, program->log.data(), program->log.size());
  return 0;
}
