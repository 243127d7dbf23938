// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text for an AMD GPU includes beside gpu.h: AMD's HIP runtime (libamdhip64), whose functions
// fill the table of gpu_calls.h.
#pragma once

#include "device/host/gpu_calls.h"
#include "device/host/hip_abi.h"

namespace codetta::host {

// The table from libamdhip64: the one that the process has loaded, else the newest.
inline Status load_hip(GpuCalls& calls) {
  void* handle = nullptr;
  static const int ways[] = {RTLD_NOLOAD, 0};
  for (const int loaded : ways) {
    for (const char* library : hip_runtime::libraries) {
      if (handle == nullptr) handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | loaded);
    }
  }
  if (handle == nullptr) {
    const char* said = dlerror();
    return fail(wrong_machine, "E0654: no HIP runtime was found: looked for %s, %s and %s: %.400s",
                hip_runtime::libraries[0], hip_runtime::libraries[1], hip_runtime::libraries[2],
                said != nullptr ? said : "it can not be loaded");
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
  hip_runtime::for_each_call(hip_runtime::calls, look_up);
  dlclose(handle);  // of the count only
  if (missing != nullptr) return fail(wrong_machine, "E0654: the HIP runtime is too old: it lacks %s", missing);
  calls.device_attribute = hip_runtime::device_attribute;
  calls.pointer_attributes = hip_runtime::pointer_attributes;
  calls.primary_retain = hip_runtime::primary_retain;
  calls.primary_release = hip_runtime::primary_release;
  calls.context_current = hip_runtime::context_current;
  calls.context_push = hip_runtime::context_push;
  calls.context_pop = hip_runtime::context_pop;
  calls.context_device = hip_runtime::context_device;
  calls.stream_context = hip_runtime::stream_context;
  calls.stream_capturing = hip_runtime::stream_capturing;
  calls.function_allow = hip_runtime::function_allow;
  calls.launch = hip_runtime::launch;
  calls.clusters_that_fit = nullptr;
  calls.map_tiled = nullptr;
  calls.map_im2col = nullptr;
  int version = 0;
  const DriverStatus asked = hip_runtime::calls.runtime_version(&version);
  if (asked == DriverStatus::Success && version < hip_runtime::oldest_version)
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
