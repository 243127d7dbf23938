// SPDX-License-Identifier: Apache-2.0
// Tensor maps: what the copy engine (TMA) needs to know about a view, checked before the driver sees it.
#pragma once

#include "device/host/gpu_plan.h"
#include "device/host/user_maps.h"
#include "runtime/cuda/device.hpp"

namespace codetta::runtime::cuda {

using TiledView = gpu::host::Tiled;

// A map of rank 3 {fast, slow, batch} with a box of one matrix; what lies outside reads as zero. Strides that are never
// taken (sizes of 1) may be anything. Errors: E0649 with the constraint that does not hold, E0647.
Result<void> encode_tiled(const Driver& driver, const TiledView& view, TensorMap& map, bool& unaligned);

// A map of a kernel of the user's, tiled or im2col. The device's context is current. Errors: as above.
Result<void> encode_user(const Driver& driver, const gpu::host::UserMap& wanted, const gpu::host::UserMapView& view,
                         TensorMap& map);

}  // namespace codetta::runtime::cuda
