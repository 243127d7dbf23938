// SPDX-License-Identifier: Apache-2.0
// Tensor maps: what the copy engine (TMA) needs to know about a view, checked before the driver sees it.
#pragma once

#include <string>

#include "codetta/tensor.hpp"
#include "runtime/cuda/device.hpp"

namespace codetta::runtime::cuda {

// A matrix, or a batch of them, with elements side by side along `fast`. Sizes count elements, strides bytes.
struct TiledView {
  std::string name;  // for messages
  DType dtype = DType::f32;
  DeviceAddress address = 0;
  int64_t fast = 1, slow = 1, batches = 1;
  int64_t slow_stride = 0, batch_stride = 0;
  int32_t box_fast = 0, box_slow = 0;
  int32_t swizzle_bytes = 0;  // 0, 32, 64, 128
};

// A map of rank 3 {fast, slow, batch} with a box of one matrix; what lies outside reads as zero. Strides that are never
// taken (sizes of 1) may be anything. Errors: E0649 with the constraint that does not hold, E0647.
Result<void> encode_tiled(const Driver& driver, const TiledView& view, TensorMap& map);

}  // namespace codetta::runtime::cuda
