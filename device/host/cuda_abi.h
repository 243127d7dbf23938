// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver's binary interface that Codetta uses, in process and in emitted libraries, declared here
// so that building needs no CUDA toolkit. Names follow this library; values and layouts follow cuda.h of CUDA 12 and
// 13, which keep them stable.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace codetta::cuda_driver {

using DeviceId = int;
using DeviceAddress = uint64_t;
using ContextHandle = struct OpaqueContext*;
using StreamHandle = struct OpaqueStream*;  // nullptr: the legacy default stream
using EventHandle = struct OpaqueEvent*;
using ModuleHandle = struct OpaqueModule*;
using FunctionHandle = struct OpaqueFunction*;
using GraphHandle = struct OpaqueGraph*;
using GraphExecHandle = struct OpaqueGraphExec*;

struct Uuid {
  unsigned char bytes[16];
};

// CUresult, as far as it is told apart here.
enum class Status : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  Deinitialized = 4,
  StubLibrary = 34,
  CallRequiresNewerDriver = 36,
  DeviceUnavailable = 46,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  EccUncorrectable = 214,
  UnsupportedPtxVersion = 222,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeout = 702,
  ContextIsDestroyed = 709,
  Assert = 710,
  HardwareStackError = 714,
  IllegalInstruction = 715,
  MisalignedAddress = 716,
  InvalidAddressSpace = 717,
  InvalidPc = 718,
  LaunchFailed = 719,
  SystemNotReady = 802,
  SystemDriverMismatch = 803,
  CompatNotSupported = 804,
  CaptureUnsupported = 900,
  CaptureInvalidated = 901,
  CaptureImplicit = 906,
  CapturedEvent = 907,
  CaptureWrongThread = 908,
  InvalidClusterSize = 912,
  Unknown = 999,
};
// Of cudaError_t, whose other values are the driver's.
inline constexpr int runtime_insufficient_driver = 35, runtime_invalid_function = 98;

enum DeviceAttribute : int {
  device_max_threads_per_block = 1,
  device_max_block_x = 2,
  device_max_block_y = 3,
  device_max_block_z = 4,
  device_max_grid_x = 5,
  device_max_grid_y = 6,
  device_max_grid_z = 7,
  device_shared_per_block = 8,
  device_clock_khz = 13,
  device_multiprocessors = 16,
  device_memory_clock_khz = 36,
  device_memory_bus_bits = 37,
  device_l2_bytes = 38,
  device_max_threads_per_multiprocessor = 39,
  device_capability_major = 75,
  device_capability_minor = 76,
  device_shared_per_multiprocessor = 81,
  device_registers_per_multiprocessor = 82,
  device_shared_per_block_optin = 97,
  device_cooperative_launch = 95,
  device_max_window_bytes = 109,
  device_reserved_shared_per_block = 111,
  device_cluster_launch = 120,
  device_tensor_maps = 127,
};

enum FunctionAttribute : int {
  function_max_threads = 0,
  function_static_shared = 1,
  function_local_bytes = 3,
  function_registers = 4,
  function_max_dynamic_shared = 8,
  function_non_portable_cluster = 14,
};

enum PointerAttribute : int {
  pointer_memory_type = 2,
  pointer_is_managed = 8,
  pointer_device_ordinal = 9,
};
inline constexpr unsigned memory_type_host = 1, memory_type_device = 2;

inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr int capture_mode_thread_local = 1, capture_mode_relaxed = 2;
inline constexpr int capture_status_none = 0;

struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

enum LaunchAttributeId : int {
  launch_access_policy_window = 1,
  launch_cooperative = 2,
  launch_cluster_dimension = 4,
  launch_programmatic_serialization = 6,
};
struct AccessPolicyWindow {
  void* base;
  size_t bytes;
  float hit_ratio;
  int hit_property;   // 0 normal, 1 streaming, 2 persisting
  int miss_property;  // 0 normal, 1 streaming
};
struct LaunchAttribute {
  int id;
  int padding;
  union {
    char bytes[64];
    int flag;
    struct {
      unsigned x, y, z;
    } cluster;
    AccessPolicyWindow window;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned dynamic_shared;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(void*) != 8 || sizeof(LaunchConfig) == 56);

}  // namespace codetta::cuda_driver
