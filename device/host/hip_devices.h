// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text for AMD GPUs includes beside gpu_devices.h and hip.h where a program uses several devices.
#pragma once

#include "device/host/gpu_devices.h"
#include "device/host/hip.h"
#include "device/host/hip_peers.h"

namespace codetta::host {

// From libamdhip64, which load_hip() has loaded.
inline Status load_hip_device_calls() {
  void* handle = nullptr;
  for (const char* library : hip_runtime::libraries) {
    if (handle == nullptr) handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  }
  const char* missing = handle == nullptr ? "what several devices need" : nullptr;
  DeviceCalls& calls = further_devices.calls;
  const auto look_up = [&](auto& function, const char* name) {
    if (handle != nullptr) function = reinterpret_cast<decltype(+function)>(dlsym(handle, name));
    if (function == nullptr && missing == nullptr) missing = name;
  };
#define CODETTA_DEVICE_LOOK_UP(member, cuda, hip, parameters) \
  if (hip[0] != '\0') look_up(calls.member, hip);
  CODETTA_DEVICE_CALLS(CODETTA_DEVICE_LOOK_UP)
#undef CODETTA_DEVICE_LOOK_UP
  hip_runtime::for_each_peer_call(hip_runtime::peer_calls, look_up);
  calls.reach = hip_runtime::enable_peer;
  if (handle != nullptr) dlclose(handle);  // of the count only
  if (missing == nullptr) return ok;
  return fail(wrong_machine, "E0654: the HIP runtime is too old: it lacks %s", missing);
}

}  // namespace codetta::host
