// SPDX-License-Identifier: Apache-2.0
// The driver's types under the names of this room; device/host/cuda_abi.h declares them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/host/cuda_abi.h"

namespace codetta::runtime::cuda {

using namespace cuda_driver;  // NOLINT: this header is those names

}  // namespace codetta::runtime::cuda
