// SPDX-License-Identifier: Apache-2.0
// What stands behind Device, DeviceTensor and DeviceStream.
#pragma once

#include "codetta/device.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/stream.hpp"

namespace codetta::driver {

struct DeviceMemory {
  runtime::cuda::DeviceRef device;
  DeviceInfo info;
};

struct StreamState {
  runtime::cuda::OwnedStream stream;
};

struct DeviceAccess {
  static const runtime::cuda::DeviceRef& of(const Device& device);
};

runtime::cuda::StreamHandle handle(Stream stream);

}  // namespace codetta::driver
