// SPDX-License-Identifier: Apache-2.0
// The instructions of device/cuda/ptx.h that kernels of sm_80 use, emulated. Shared-memory addresses count from the
// begin of the block's dynamic shared memory, and every access by one is checked.
#pragma once

#include "device/gpu/abi.h"

namespace codetta::gpu::ptx {

#define CODETTA_PTX __device__ __forceinline__

CODETTA_PTX u32 shared_address(const void* p) { return (u32)((const unsigned char*)p - emulator::machine->shared); }

CODETTA_PTX void* shared_memory(u32 address, u32 bytes, emulator::Site site) {
  if ((u64)address + bytes > emulator::machine->shared_bytes || address % bytes != 0)
    emulator::machine->fail("no shared memory, or not aligned:", address, site);
  return emulator::machine->shared + address;
}

CODETTA_PTX u32 uniform(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }

CODETTA_PTX void dependency_wait() {}
inline constexpr u64 evict_normal = 0, evict_first = 0;  // policies of an L2 that is not here
CODETTA_PTX void dependents_launch() {}

}  // namespace codetta::gpu::ptx
