// SPDX-License-Identifier: Apache-2.0
// What gpu_plan.h counts with: limits, arithmetic, and the parts of a workspace. No standard C++ headers.
#pragma once

#include "device/gpu/abi.h"

namespace codetta::gpu::host {

inline constexpr i64 workspace_step = 256;  // alignment of everything in the workspace
inline constexpr i64 most_parameter_bytes = 4096;
inline constexpr i64 max_coordinate = 0x7fffffff;   // of an element in a tensor map
inline constexpr i64 map_stride_limit = 1LL << 40;  // bytes, below which strides of tensor maps are
inline constexpr i64 map_alignment = 16;            // bytes that their addresses and strides are multiples of
inline constexpr i64 pack_alignment = 16;           // bytes that rows of a packed factor are multiples of
inline constexpr i64 pack_blocks = 8;               // a multiprocessor, which walk the rows
// Rows that are being finished at once are read again, phase after phase: so many bytes of them stay in L2. The bound
// of blocks on a multiprocessor is what hides the latency of memory.
inline constexpr i64 panel_cache = 24 << 20, least_panels = 2, most_panels = 8;

inline constexpr i32 most_spaces = 8;  // package::max_products

inline i64 ceil_div(i64 a, i64 b) { return a / b + (a % b != 0 ? 1 : 0); }
inline i64 larger(i64 a, i64 b) { return a < b ? b : a; }
inline i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
inline i64 element_bytes(u8 dtype) {  // by the numbers of DType, which are part of file formats
  constexpr u8 bytes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 2, 2, 4, 8};
  return dtype < sizeof bytes ? bytes[dtype] : 1;
}

// Sizes of the workspace's parts; any overflow makes the whole size negative.
struct Placer {
  i64 end = 0;
  bool overflow = false;

  i64 add(i64 a, i64 b = 1, i64 c = 1, i64 d = 1, i64 e = 1) {
    const i64 at = end;
    i64 bytes = 1;
    const i64 factors[] = {a, b, c, d, e};
    for (const i64 factor : factors) overflow = __builtin_mul_overflow(bytes, factor, &bytes) || overflow;
    overflow = __builtin_add_overflow(bytes, workspace_step - 1, &bytes) || overflow;
    overflow = __builtin_add_overflow(end, bytes / workspace_step * workspace_step, &end) || overflow;
    return at;
  }
  i64 size() const { return overflow ? -1 : end; }
};

}  // namespace codetta::gpu::host
