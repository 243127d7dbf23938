// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tensor_map.hpp"

#include <fmt/format.h>

namespace codetta::runtime::cuda {

namespace {

constexpr int l2_promotion_256 = 3;
constexpr int64_t max_size = int64_t{1} << 32, max_stride = int64_t{1} << 40;

// CUtensorMapDataType; types without one of their own travel as integers of their width.
int map_dtype(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 6;
    case DType::bf16:
      return 9;
    case DType::f32:
      return 7;
    case DType::f64:
      return 8;
    default:
      break;
  }
  switch (dtype_size(dtype)) {
    case 1:
      return 0;
    case 2:
      return 1;
    case 4:
      return 2;
    default:
      return 4;
  }
}

int swizzle_code(int32_t bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0; }

std::string defect_of(const TiledView& view) {
  const int64_t element = dtype_size(view.dtype);
  if (view.address % 16 != 0) {
    return fmt::format("its address is {} modulo 16; addresses are multiples of 16", view.address % 16);
  }
  const struct {
    const char* name;
    int64_t size, box, stride;
  } dims[] = {{"the fastest dim", view.fast, view.box_fast, 0},
              {"the slower dim", view.slow, view.box_slow, view.slow_stride},
              {"the batch", view.batches, 1, view.batch_stride}};
  for (const auto& dim : dims) {
    if (dim.size < 1 || dim.size > max_size)
      return fmt::format("{} has {} elements; sizes go from 1 to 2^32", dim.name, dim.size);
    if (dim.box < 1 || dim.box > 256)
      return fmt::format("the box has {} elements in {}; boxes have 1 to 256", dim.box, dim.name);
    if (dim.size > 1 && &dim != dims) {
      if (dim.stride <= 0 || dim.stride % 16 != 0)
        return fmt::format("the stride of {} is {} bytes; strides are positive multiples of 16", dim.name, dim.stride);
      if (dim.stride >= max_stride)
        return fmt::format("the stride of {} is {} bytes; strides are below 2^40", dim.name, dim.stride);
    }
  }
  const int64_t span = view.box_fast * element;
  if (span % 16 != 0) return fmt::format("a row of the box has {} bytes; rows are multiples of 16 bytes", span);
  if (view.swizzle_bytes != 0 && span > view.swizzle_bytes)
    return fmt::format("a row of the box has {} bytes, more than the swizzle's {}", span, view.swizzle_bytes);
  return {};
}

}  // namespace

Result<void> encode_tiled(const Driver& driver, const TiledView& view, TensorMap& map) {
  if (const std::string defect = defect_of(view); !defect.empty()) {
    return diag::error(diag::Code::tensor_map, fmt::format("the tensor map of {} breaks a constraint", view.name))
        .reason(defect)
        .help("find a kernel with this view; kernels that copy without tensor maps take any alignment");
  }
  const auto element = static_cast<uint64_t>(dtype_size(view.dtype));
  const uint64_t sizes[] = {static_cast<uint64_t>(view.fast), static_cast<uint64_t>(view.slow),
                            static_cast<uint64_t>(view.batches)};
  // Strides that are never taken: the smallest that the driver accepts.
  const uint64_t row = (sizes[0] * element + 15) / 16 * 16;
  const uint64_t slow_stride = view.slow > 1 ? static_cast<uint64_t>(view.slow_stride) : row;
  const uint64_t strides[] = {slow_stride, view.batches > 1 ? static_cast<uint64_t>(view.batch_stride) : slow_stride};
  const uint32_t box[] = {static_cast<uint32_t>(view.box_fast), static_cast<uint32_t>(view.box_slow), 1};
  const uint32_t steps[] = {1, 1, 1};
  CODETTA_CUDA(
      driver, "cuTensorMapEncodeTiled",
      fmt::format("{}: sizes = {} x {} x {}, strides = {}, {}, box = {} x {}, swizzle = {}", view.name, sizes[0],
                  sizes[1], sizes[2], strides[0], strides[1], box[0], box[1], view.swizzle_bytes),
      driver.call().tensor_map_tiled(&map, map_dtype(view.dtype), 3, reinterpret_cast<void*>(view.address), sizes,
                                     strides, box, steps, 0, swizzle_code(view.swizzle_bytes), l2_promotion_256, 0));
  return {};
}

}  // namespace codetta::runtime::cuda
