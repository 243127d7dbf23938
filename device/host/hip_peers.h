// SPDX-License-Identifier: Apache-2.0
// What stands on HIP for CUDA's function that lets a device reach another one's memory.
#pragma once

#include "device/host/hip_abi.h"

namespace codetta::hip_runtime {

struct PeerCalls {
  Status (*enable)(DeviceId peer, unsigned flags);
  Status (*last_error)();
};
inline PeerCalls peer_calls;

template <class F>
inline void for_each_peer_call(PeerCalls& table, const F& f) {
  f(table.enable, "hipDeviceEnablePeerAccess");
  f(table.last_error, "hipGetLastError");
}

// HIP keeps the error of a call for whoever asks for it next, which is no matter of the caller's here: that the other
// device is reached already is one.
inline Status enable_peer(ContextHandle peer, unsigned flags) {
  const Status status = peer_calls.enable(device_of(peer), flags);
  if (status != Status::Success) (void)peer_calls.last_error();
  return status;
}

}  // namespace codetta::hip_runtime
