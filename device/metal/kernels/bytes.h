// SPDX-License-Identifier: Apache-2.0
// Copies and fills of contiguous memory, one kernel for every type: blit encoders take ranges of whole words only. The
// host (device/host/metal.h) passes the same bytes as Parameters holds.
#pragma once

#include "device/metal/builtins.h"

namespace codetta::gpu {

struct Parameters {
  device u8* to;
  const device u8* from;  // null: filled
  i64 count;              // bytes
  u64 value;              // of an element
  u64 width;              // its bytes, up to 8
};

}  // namespace codetta::gpu

CODETTA_KERNEL(codetta_bytes, 256) {
  using namespace codetta::gpu;
  (void)memory;
  const i64 step = (i64)groups.x * 256;
  for (i64 i = (i64)group.x * 256 + (i64)id; i < params.count; i += step)
    params.to[i] = params.from != nullptr ? params.from[i] : (u8)(params.value >> (8 * ((u64)i % params.width)));
}
