// SPDX-License-Identifier: Apache-2.0
// Where an item of a factor begins (device/host/items.h), for every GPU.
#pragma once

#include "device/gpu/abi.h"
#include "device/gpu/builtins.h"

namespace codetta::gpu {

// In elements behind the first item. A launch has fewer than 2^32 of them.
CODETTA_FN i64 item_place(i64 item, i64 stride, i64 skip, i64 inner) {
  return item * stride + (skip != 0 ? (i64)((u32)item / (u32)inner) * skip : 0);
}

}  // namespace codetta::gpu
