// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tensor_map.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "diag/diagnostic.hpp"

namespace codetta::runtime::cuda {

Result<void> encode_tiled(const Driver& driver, const TiledView& view, TensorMap& map, bool& unaligned) {
  gpu::host::Trouble trouble;
  if (!gpu::host::check_tiled(view, trouble)) {
    unaligned = trouble.unaligned;
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

Result<void> encode_user(const Driver& driver, const gpu::host::UserMap& wanted, const gpu::host::UserMapView& view,
                         TensorMap& map) {
  gpu::host::Trouble trouble;
  gpu::host::UserMapArguments call;
  if (!gpu::host::user_map(wanted, view, call, trouble)) {
    return diag::error(diag::Code::tensor_map, trouble.headline).reason(trouble.reason).help(trouble.help);
  }
  const std::string argument =
      fmt::format("{}: Failed to initialize the TMA descriptor: rank = {}, sizes = {}, strides = {}", view.name,
                  call.rank, fmt::join(call.sizes, call.sizes + call.rank, " x "),
                  fmt::join(call.strides, call.strides + call.rank - 1, ", "));
  void* address = reinterpret_cast<void*>(view.address);
  if (wanted.im2col) {
    CODETTA_CUDA(driver, "cuTensorMapEncodeIm2col", argument,
                 driver.call().tensor_map_im2col(&map, call.dtype, call.rank, address, call.sizes, call.strides,
                                                 call.lower, call.upper, call.channels, call.pixels, call.steps,
                                                 call.interleave, call.swizzle, call.promotion, call.fill));
    return {};
  }
  CODETTA_CUDA(driver, "cuTensorMapEncodeTiled", argument,
               driver.call().tensor_map_tiled(&map, call.dtype, call.rank, address, call.sizes, call.strides, call.box,
                                              call.steps, call.interleave, call.swizzle, call.promotion, call.fill));
  return {};
}

}  // namespace codetta::runtime::cuda
