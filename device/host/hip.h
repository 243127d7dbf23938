// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text for an AMD GPU includes beside gpu.h: AMD's HIP runtime (libamdhip64), whose functions
// fill the table of gpu_calls.h. Names, parameters and numbers follow hip_runtime_api.h of ROCm 6 and 7. Results have
// the numbers of CUDA's driver wherever both have a meaning, and so have functions' attributes, those of pointers,
// places of memory and modes of capture; attributes of devices are numbered otherwise.
#pragma once

#include "device/host/gpu_calls.h"

namespace codetta::host {

// Functions that take something else than CUDA's do, or stand behind those that do.
struct HipCalls {
  DriverStatus (*get_device)(DeviceId* device);
  DriverStatus (*set_device)(DeviceId device);
  DriverStatus (*device_attribute)(int* value, int attribute, DeviceId device);
  DriverStatus (*stream_device)(StreamHandle stream, DeviceId* device);
  DriverStatus (*launch)(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned dynamic_shared, StreamHandle stream,
                         void** parameters, void** extra);
  DriverStatus (*runtime_version)(int* version);
};
inline HipCalls hip_calls;

// A thread has a device at all times, and a device has one context, which its number stands for: HIP's functions of
// contexts are deprecated, and popping does not bring the device back.
inline ContextHandle hip_context(DeviceId device) {
  return reinterpret_cast<ContextHandle>(static_cast<size_t>(device) + 1);
}
inline DeviceId hip_device(ContextHandle context) {
  return static_cast<DeviceId>(reinterpret_cast<size_t>(context) - 1);
}
struct HipDevices {
  DeviceId before[8];  // of the pushes that are under way; a call has two at most
  int count;
};
inline thread_local HipDevices hip_devices;

inline DriverStatus hip_context_current(ContextHandle* context) {
  DeviceId device = 0;
  const DriverStatus status = hip_calls.get_device(&device);
  *context = hip_context(device);
  return status;
}
inline DriverStatus hip_context_push(ContextHandle context) {
  HipDevices& devices = hip_devices;
  if (devices.count == 8) return DriverStatus::InvalidContext;
  DriverStatus status = hip_calls.get_device(&devices.before[devices.count]);
  if (status == DriverStatus::Success) status = hip_calls.set_device(hip_device(context));
  if (status == DriverStatus::Success) ++devices.count;
  return status;
}
inline DriverStatus hip_context_pop(ContextHandle* context) {
  HipDevices& devices = hip_devices;
  if (devices.count == 0) return DriverStatus::InvalidContext;
  const DriverStatus status = hip_context_current(context);
  const DriverStatus back = hip_calls.set_device(devices.before[--devices.count]);
  return status == DriverStatus::Success ? back : status;
}
inline DriverStatus hip_context_device(DeviceId* device) { return hip_calls.get_device(device); }
inline DriverStatus hip_primary_retain(ContextHandle* context, DeviceId device) {
  *context = hip_context(device);
  return DriverStatus::Success;
}
inline DriverStatus hip_primary_release(DeviceId) { return DriverStatus::Success; }
inline DriverStatus hip_stream_context(StreamHandle stream, ContextHandle* context) {
  DeviceId device = 0;
  const DriverStatus status = hip_calls.stream_device(stream, &device);
  *context = hip_context(device);
  return status;
}

// The numbers of hipDeviceAttribute_t; -1: HIP has none that is asked for. Compute capabilities count as 0.0, because
// the runtime itself refuses a code object of another architecture when a module is loaded.
inline int hip_attribute(int attribute) {
  switch (attribute) {
    case cuda_driver::device_max_grid_x:
      return 29;
    case cuda_driver::device_max_grid_y:
      return 30;
    case cuda_driver::device_max_grid_z:
      return 31;
    case cuda_driver::device_multiprocessors:
      return 63;
    case cuda_driver::device_shared_per_block_optin:
      return 74;  // of a block; nothing has to be asked for to use all of it
    default:
      return -1;
  }
}

inline DriverStatus hip_device_attribute(int* value, int attribute, DeviceId device) {
  if (attribute == cuda_driver::device_capability_major || attribute == cuda_driver::device_capability_minor)
    return *value = 0, DriverStatus::Success;
  const int number = hip_attribute(attribute);
  return number < 0 ? DriverStatus::InvalidValue : hip_calls.device_attribute(value, number, device);
}

// A block may use all that it can have without being allowed to.
inline DriverStatus hip_function_allow(FunctionHandle, int, int) { return DriverStatus::Success; }

// No attribute of CUDA's is ever set: there are no clusters, and kernels of a stream follow each other.
inline DriverStatus hip_launch(const LaunchConfig* config, FunctionHandle function, void** parameters, void** extra) {
  return hip_calls.launch(function, config->grid_x, config->grid_y, config->grid_z, config->block_x, config->block_y,
                          config->block_z, config->dynamic_shared, config->stream, parameters, extra);
}

// The table from libamdhip64: the one that the process has loaded, else the newest.
inline Status load_hip(GpuCalls& calls) {
  static const char* const libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"};
  void* handle = nullptr;
  static const int ways[] = {RTLD_NOLOAD, 0};
  for (const int loaded : ways) {
    for (const char* library : libraries) {
      if (handle == nullptr) handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | loaded);
    }
  }
  if (handle == nullptr) {
    const char* said = dlerror();
    return fail(wrong_machine, "E0654: no HIP runtime was found: looked for %s, %s and %s: %.400s", libraries[0],
                libraries[1], libraries[2], said != nullptr ? said : "it can not be loaded");
  }
  const char* missing = nullptr;
  const auto look_up = [&](auto& function, const char* name) {
    function = reinterpret_cast<decltype(+function)>(dlsym(handle, name));
    if (function == nullptr && missing == nullptr) missing = name;
  };
#define CODETTA_GPU_LOOK_UP(member, cuda, hip, parameters) \
  if (hip[0] != '\0') look_up(calls.member, hip);
  CODETTA_GPU_CALLS(CODETTA_GPU_LOOK_UP)
#undef CODETTA_GPU_LOOK_UP
  look_up(hip_calls.get_device, "hipGetDevice");
  look_up(hip_calls.set_device, "hipSetDevice");
  look_up(hip_calls.device_attribute, "hipDeviceGetAttribute");
  look_up(hip_calls.stream_device, "hipStreamGetDevice");
  look_up(hip_calls.launch, "hipModuleLaunchKernel");
  look_up(hip_calls.runtime_version, "hipRuntimeGetVersion");
  dlclose(handle);  // of the count only
  if (missing != nullptr) return fail(wrong_machine, "E0654: the HIP runtime is too old: it lacks %s", missing);
  calls.device_attribute = hip_device_attribute;
  calls.primary_retain = hip_primary_retain;
  calls.primary_release = hip_primary_release;
  calls.context_current = hip_context_current;
  calls.context_push = hip_context_push;
  calls.context_pop = hip_context_pop;
  calls.context_device = hip_context_device;
  calls.stream_context = hip_stream_context;
  calls.function_allow = hip_function_allow;
  calls.launch = hip_launch;
  calls.clusters_that_fit = nullptr;
  calls.map_tiled = nullptr;
  calls.map_im2col = nullptr;
  int version = 0;
  const DriverStatus asked = hip_calls.runtime_version(&version);
  if (asked == DriverStatus::Success && version < 60000000)  // places of memory are numbered otherwise before
    return fail(wrong_machine, "E0654: the HIP runtime is too old: it is version %d.%d, and 6.0 is needed",
                version / 10000000, version / 100000 % 100);
  const DriverStatus status = calls.init(0);
  if (status == DriverStatus::Success) return ok;
  return fail(wrong_machine,
              status == DriverStatus::NoDevice ? "E0642: the HIP runtime finds no device: %s"
                                               : "E0654: the HIP runtime can not be started: %s",
              driver_text(calls, status));
}

}  // namespace codetta::host
