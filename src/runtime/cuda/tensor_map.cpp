// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tensor_map.hpp"

#include <fmt/format.h>

#include "diag/diagnostic.hpp"

namespace codetta::runtime::cuda {

Result<void> encode_tiled(const Driver& driver, const TiledView& view, TensorMap& map) {
  gpu::host::Trouble trouble;
  if (!gpu::host::check_tiled(view, trouble)) {
    return diag::error(diag::Code::tensor_map, trouble.headline).reason(trouble.reason).help(trouble.help);
  }
  const gpu::host::TiledArguments call = gpu::host::arguments_of(view);
  CODETTA_CUDA(driver, "cuTensorMapEncodeTiled",
               fmt::format("{}: sizes = {} x {} x {}, strides = {}, {}, box = {} x {}, swizzle = {}", view.name,
                           call.sizes[0], call.sizes[1], call.sizes[2], call.strides[0], call.strides[1], call.box[0],
                           call.box[1], view.swizzle_bytes),
               driver.call().tensor_map_tiled(&map, call.dtype, 3, reinterpret_cast<void*>(view.address), call.sizes,
                                              call.strides, call.box, call.steps, call.interleave, call.swizzle,
                                              call.l2_promotion, call.fill));
  return {};
}

}  // namespace codetta::runtime::cuda
