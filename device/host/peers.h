// SPDX-License-Identifier: Apache-2.0
// Devices that reach each other's memory, in process and in emitted libraries.
#pragma once

#include "device/host/cuda_abi.h"

namespace codetta::cuda_driver {

// What enabling says where the process has done so before: CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, and HIP's of the
// same number.
inline constexpr Status peer_reached_already{704};
inline bool is_reached(Status enabled) { return enabled == Status::Success || enabled == peer_reached_already; }

}  // namespace codetta::cuda_driver
