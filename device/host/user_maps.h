// SPDX-License-Identifier: Apache-2.0
// Tensor maps of kernels of the user's: what the driver is asked for, and every constraint of cuTensorMapEncodeTiled
// and cuTensorMapEncodeIm2col by name, before it is asked (its reference, CUDA 12 and 13). No standard C++ headers.
#pragma once

#include "device/host/gpu_plan.h"

namespace codetta::gpu::host {

inline constexpr i32 most_map_rank = 5, most_map_steps = 8;

// package::TensorMap. Dims are counted from the fastest; enumerations travel as their numbers, which are the driver's.
struct UserMap {
  bool im2col;
  i32 argument;              // which value of the launch
  i32 box[most_map_rank];    // tiled
  i32 steps[most_map_rank];  // every n-th element of a dim
  i32 lower[3], upper[3];    // im2col: of the spatial dims
  i32 channels, pixels;      // im2col
  i32 swizzle;               // none, 32, 64, 128 bytes
  i32 interleave;            // none, 16, 32 bytes
  i32 promotion;             // none, 64, 128, 256 bytes
  bool nan_outside;
};
// The tensor: sizes and strides in elements, the fastest dim first.
struct UserMapView {
  const char* name;
  u8 dtype;
  u64 address;
  i32 rank;
  i64 size[8], stride[8];
};
struct UserMapArguments {
  int dtype, interleave, swizzle, promotion, fill;
  u32 rank;
  unsigned long sizes[most_map_rank], strides[most_map_rank - 1];  // uint64_t; bytes
  u32 box[most_map_rank], steps[most_map_rank];
  int lower[3], upper[3];
  u32 channels, pixels;
};

__attribute__((format(printf, 3, 4))) inline bool no_map(Trouble& trouble, const char* name, const char* format, ...) {
  trouble.code = trouble_map;
  say(trouble.headline, "the tensor map of %.160s breaks a constraint", name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(trouble.reason, sizeof trouble.reason, format, arguments);
  va_end(arguments);
  trouble.help = "change what the source says about the map, or pass a tensor that fits it";
  return false;
}

// Addresses, sizes and strides, which tiled and im2col maps have in common.
inline bool check_map_tensor(const UserMap& map, const UserMapView& view, Trouble& trouble) {
  const u64 unit = map.interleave == 2 ? 32 : 16;
  const i64 element = element_bytes(view.dtype);
  if (view.address % unit != 0)
    return no_map(trouble, view.name, "its address is %llu modulo %llu; addresses are multiples of %llu",
                  view.address % unit, unit, unit);
  if (view.size[0] > 1 && view.stride[0] != 1)
    return no_map(trouble, view.name, "elements of its last dim are %lld apart; they lie side by side", view.stride[0]);
  for (i32 d = 0; d < view.rank; ++d) {
    if (view.size[d] < 1 || view.size[d] > 1LL << 32)
      return no_map(trouble, view.name, "dim %d has %lld elements; sizes go from 1 to 2^32", view.rank - 1 - d,
                    view.size[d]);
    if (d == 0 || view.size[d] == 1) continue;
    i64 bytes = 0;
    const bool over = __builtin_mul_overflow(view.stride[d], element, &bytes);
    if (over || bytes <= 0 || bytes >= 1LL << 40)
      return no_map(trouble, view.name,
                    "the stride of dim %d is %lld elements; strides are positive and below 2^40 bytes",
                    view.rank - 1 - d, view.stride[d]);
    if (bytes % static_cast<i64>(unit) != 0)
      return no_map(trouble, view.name, "the stride of dim %d is %lld bytes; strides are multiples of %llu",
                    view.rank - 1 - d, bytes, unit);
  }
  if (map.interleave == 2 && map.swizzle != 1)
    return no_map(trouble, view.name, "it is interleaved by 32 bytes, which needs a swizzle of 32 bytes");
  const int type = map_dtype(view.dtype);
  if (map.nan_outside && (type < 6 || type > 9))
    return no_map(trouble, view.name, "elements outside of it read as NaN, and its type has none that the copy knows");
  for (i32 d = 0; d < view.rank; ++d) {
    if (map.steps[d] < 1 || map.steps[d] > most_map_steps)
      return no_map(trouble, view.name, "every %d-th element of dim %d is taken; steps go from 1 to %d", map.steps[d],
                    view.rank - 1 - d, most_map_steps);
  }
  if (map.interleave == 0 && view.rank > 0 && map.steps[0] != 1)
    return no_map(trouble, view.name,
                  "every %d-th element of its last dim is taken; that dim is taken whole, and steps are for the others",
                  map.steps[0]);
  return true;
}

// The bytes that lie side by side in a box.
inline bool check_map_span(const UserMap& map, const UserMapView& view, i64 elements, Trouble& trouble) {
  if (map.interleave != 0) return true;
  const i64 span = elements * element_bytes(view.dtype);
  if (span % 16 != 0)
    return no_map(trouble, view.name, "a row of its box has %lld bytes; rows are multiples of 16 bytes", span);
  const i64 swizzle = map.swizzle == 0 ? 0 : 16LL << map.swizzle;
  if (swizzle != 0 && span > swizzle)
    return no_map(trouble, view.name, "a row of its box has %lld bytes, more than the swizzle's %lld", span, swizzle);
  return true;
}

inline bool check_im2col(const UserMap& map, const UserMapView& view, Trouble& trouble) {
  if (view.rank < 3 || view.rank > most_map_rank)
    return no_map(trouble, view.name, "it has %d dims; im2col maps have 3 to 5: batch, one to three spatial, channels",
                  view.rank);
  if (map.channels < 1 || map.channels > 256)
    return no_map(trouble, view.name, "a pixel has %d channels; 1 to 256 are possible", map.channels);
  if (map.pixels < 1 || map.pixels > 1024)
    return no_map(trouble, view.name, "a box has %d pixels; 1 to 1024 are possible", map.pixels);
  const i32 spatial = view.rank - 2, most = spatial == 1 ? 32768 : spatial == 2 ? 128 : 16;
  for (i32 i = 0; i < spatial; ++i) {
    const i32 dim = view.rank - 2 - i;
    const i32 corners[] = {map.lower[i], map.upper[i]};
    for (const i32 corner : corners) {
      if (corner < -most || corner >= most)
        return no_map(trouble, view.name, "a corner of dim %d is %d; with %d spatial dims corners go from %d to %d",
                      dim, corner, spatial, -most, most - 1);
    }
    if (view.size[i + 1] - 1 + map.upper[i] < map.lower[i])
      return no_map(trouble, view.name,
                    "no position is within the corners %d and %d of dim %d, which has %lld elements", map.lower[i],
                    map.upper[i], dim, view.size[i + 1]);
  }
  return check_map_span(map, view, map.channels, trouble);
}

inline bool check_tiled_box(const UserMap& map, const UserMapView& view, Trouble& trouble) {
  if (view.rank < 1 || view.rank > most_map_rank)
    return no_map(trouble, view.name, "it has %d dims; maps have 1 to 5", view.rank);
  if (map.interleave != 0 && view.rank < 3)
    return no_map(trouble, view.name, "it has %d dims; interleaved maps have 3 to 5", view.rank);
  for (i32 d = 0; d < view.rank; ++d) {
    if (map.box[d] < 1 || map.box[d] > 256)
      return no_map(trouble, view.name, "the box has %d elements in dim %d; boxes have 1 to 256", map.box[d],
                    view.rank - 1 - d);
  }
  return check_map_span(map, view, map.box[0], trouble);
}

// What the driver is asked for.
inline bool user_map(const UserMap& map, const UserMapView& view, UserMapArguments& call, Trouble& trouble) {
  call = UserMapArguments{};
  if (map.im2col ? !check_im2col(map, view, trouble) : !check_tiled_box(map, view, trouble)) return false;
  if (!check_map_tensor(map, view, trouble)) return false;
  call.dtype = map_dtype(view.dtype);
  call.interleave = map.interleave;
  call.swizzle = map.swizzle;
  call.promotion = map.promotion;
  call.fill = map.nan_outside ? 1 : 0;
  call.rank = static_cast<u32>(view.rank);
  call.channels = static_cast<u32>(map.channels);
  call.pixels = static_cast<u32>(map.pixels);
  const u64 unit = map.interleave == 2 ? 32 : 16, element = static_cast<u64>(element_bytes(view.dtype));
  // Strides that are never taken: the smallest that the driver accepts.
  u64 extent = (static_cast<u64>(view.size[0]) * element + unit - 1) / unit * unit;
  for (i32 d = 0; d < view.rank; ++d) {
    call.sizes[d] = static_cast<u64>(view.size[d]);
    call.box[d] = static_cast<u32>(map.box[d]);
    call.steps[d] = static_cast<u32>(map.steps[d]);
    if (d == 0) continue;
    call.strides[d - 1] = view.size[d] > 1 ? static_cast<u64>(view.stride[d]) * element : extent;
    if (view.size[d] > 1) extent = call.strides[d - 1] * call.sizes[d];
  }
  for (i32 i = 0; i < 3; ++i) call.lower[i] = map.lower[i], call.upper[i] = map.upper[i];
  return true;
}

}  // namespace codetta::gpu::host
