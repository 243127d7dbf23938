// SPDX-License-Identifier: Apache-2.0
// AMD's HIP runtime (libamdhip64) behind the functions of CUDA's driver, in process and in emitted libraries: what
// takes something else there is wrapped here. Names, parameters and numbers follow hip_runtime_api.h of ROCm 6 and 7.
// Results have the numbers of CUDA's driver wherever both have a meaning, and so have functions' attributes, those of
// pointers, places of memory and modes of capture; attributes of devices are numbered otherwise.
#pragma once

#include "device/host/cuda_abi.h"

namespace codetta::hip_runtime {

using namespace cuda_driver;  // NOLINT: the types of both

// Functions that take something else than CUDA's do, or stand behind those that do. A process has one HIP runtime.
struct Calls {
  Status (*get_device)(DeviceId* device);
  Status (*set_device)(DeviceId device);
  Status (*device_attribute)(int* value, int attribute, DeviceId device);
  Status (*pointer_attributes)(unsigned count, int* attributes, void** values, DeviceAddress address);
  Status (*stream_device)(StreamHandle stream, DeviceId* device);
  Status (*stream_capturing)(StreamHandle stream, int* capture);
  Status (*launch)(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned dynamic_shared, StreamHandle stream, void** parameters,
                   void** extra);
  Status (*launch_together)(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_shared,
                            StreamHandle stream, void** parameters);
  Status (*runtime_version)(int* version);
};
inline Calls calls;

// f(member, "symbol") for each of them.
template <class F>
inline void for_each_call(Calls& table, const F& f) {
  f(table.get_device, "hipGetDevice");
  f(table.set_device, "hipSetDevice");
  f(table.device_attribute, "hipDeviceGetAttribute");
  f(table.pointer_attributes, "hipDrvPointerGetAttributes");
  f(table.stream_device, "hipStreamGetDevice");
  f(table.stream_capturing, "hipStreamIsCapturing");
  f(table.launch, "hipModuleLaunchKernel");
  f(table.launch_together, "hipModuleLaunchCooperativeKernel");
  f(table.runtime_version, "hipRuntimeGetVersion");
}

inline constexpr const char* libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"};
inline constexpr int oldest_version = 60000000;  // 6.0: places of memory are numbered otherwise before

// A thread has a device at all times, and a device has one context, which its number stands for: HIP's functions of
// contexts are deprecated, and popping does not bring the device back.
inline ContextHandle context_of(DeviceId device) {
  return reinterpret_cast<ContextHandle>(static_cast<size_t>(device) + 1);
}
inline DeviceId device_of(ContextHandle context) {
  return static_cast<DeviceId>(reinterpret_cast<size_t>(context) - 1);
}
struct Devices {
  DeviceId before[8];  // of the pushes that are under way; a call has three at most
  int count;
};
inline thread_local Devices devices;

inline Status context_current(ContextHandle* context) {
  DeviceId device = 0;
  const Status status = calls.get_device(&device);
  *context = context_of(device);
  return status;
}
inline Status context_push(ContextHandle context) {
  Devices& mine = devices;
  if (mine.count == 8) return Status::InvalidContext;
  Status status = calls.get_device(&mine.before[mine.count]);
  if (status == Status::Success) status = calls.set_device(device_of(context));
  if (status == Status::Success) ++mine.count;
  return status;
}
inline Status context_pop(ContextHandle* context) {
  Devices& mine = devices;
  if (mine.count == 0) return Status::InvalidContext;
  const Status status = context_current(context);
  const Status back = calls.set_device(mine.before[--mine.count]);
  return status == Status::Success ? back : status;
}
inline Status context_device(DeviceId* device) { return calls.get_device(device); }
inline Status primary_retain(ContextHandle* context, DeviceId device) {
  *context = context_of(device);
  return Status::Success;
}
inline Status primary_release(DeviceId) { return Status::Success; }
inline Status stream_context(StreamHandle stream, ContextHandle* context) {
  DeviceId device = 0;
  const Status status = calls.stream_device(stream, &device);
  *context = context_of(device);
  return status;
}
// The default stream is never captured; HIP may refuse to be asked about it.
inline Status stream_capturing(StreamHandle stream, int* capture) {
  const Status status = calls.stream_capturing(stream, capture);
  if (stream != nullptr || status != Status::InvalidValue) return status;
  *capture = capture_status_none;
  return Status::Success;
}
// Memory that HIP does not know is an error there; CUDA's query writes zeros.
inline Status pointer_attributes(unsigned count, int* attributes, void** values, DeviceAddress address) {
  const Status status = calls.pointer_attributes(count, attributes, values, address);
  if (status != Status::InvalidValue) return status;
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == pointer_memory_type) *static_cast<unsigned*>(values[i]) = 0;
    if (attributes[i] == pointer_is_managed) *static_cast<unsigned char*>(values[i]) = 0;
    if (attributes[i] == pointer_device_ordinal) *static_cast<int*>(values[i]) = -1;
  }
  return Status::Success;
}

// The numbers of hipDeviceAttribute_t; -1: HIP has none that is asked for. Compute capabilities count as 0.0, because
// the runtime itself refuses a code object of another architecture when a module is loaded.
inline int attribute_number(int attribute) {
  switch (attribute) {
    case device_clock_khz:
      return 5;
    case device_cooperative_launch:
      return 10;
    case device_max_block_x:
      return 26;
    case device_max_block_y:
      return 27;
    case device_max_block_z:
      return 28;
    case device_l2_bytes:
      return 19;
    case device_max_grid_x:
      return 29;
    case device_max_grid_y:
      return 30;
    case device_max_grid_z:
      return 31;
    case device_max_threads_per_block:
      return 56;
    case device_max_threads_per_multiprocessor:
      return 57;
    case device_memory_bus_bits:
      return 59;
    case device_memory_clock_khz:
      return 60;
    case device_multiprocessors:
      return 63;
    case device_registers_per_multiprocessor:
      return 72;
    case device_shared_per_block:
    case device_shared_per_block_optin:
      return 74;  // of a block; nothing has to be asked for to use all of it
    case device_shared_per_multiprocessor:
      return 76;
    default:
      return -1;
  }
}
// What nothing is decided by: 0 where a runtime does not tell it.
inline bool is_informative(int attribute) {
  return attribute == device_clock_khz || attribute == device_l2_bytes || attribute == device_memory_bus_bits ||
         attribute == device_memory_clock_khz || attribute == device_registers_per_multiprocessor ||
         attribute == device_max_threads_per_multiprocessor || attribute == device_shared_per_multiprocessor;
}
inline Status device_attribute(int* value, int attribute, DeviceId device) {
  switch (attribute) {
    case device_capability_major:
    case device_capability_minor:
    case device_max_window_bytes:
    case device_reserved_shared_per_block:
    case device_cluster_launch:
    case device_tensor_maps:
      *value = 0;
      return Status::Success;
    default:
      break;
  }
  const int number = attribute_number(attribute);
  const Status status = number < 0 ? Status::InvalidValue : calls.device_attribute(value, number, device);
  if (status == Status::Success || !is_informative(attribute)) return status;
  *value = 0;
  return Status::Success;
}

// A block may use all that it can have without being allowed to.
inline Status function_allow(FunctionHandle, int, int) { return Status::Success; }

// Of CUDA's attributes only that of a cooperative launch is ever set, or means anything: the device tells of no
// clusters and windows of L2, and kernels of a stream follow each other.
inline Status launch(const LaunchConfig* config, FunctionHandle function, void** parameters, void** extra) {
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    if (config->attributes[i].id != launch_cooperative || config->attributes[i].value.flag == 0) continue;
    return calls.launch_together(function, config->grid_x, config->grid_y, config->grid_z, config->block_x,
                                 config->block_y, config->block_z, config->dynamic_shared, config->stream, parameters);
  }
  return calls.launch(function, config->grid_x, config->grid_y, config->grid_z, config->block_x, config->block_y,
                      config->block_z, config->dynamic_shared, config->stream, parameters, extra);
}

}  // namespace codetta::hip_runtime
