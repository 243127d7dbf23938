// SPDX-License-Identifier: Apache-2.0
// What the stub of the Metal standard library leaves to whoever runs kernels on a CPU; declared here, never defined by
// the stub: a kernel that is only compiled needs none of it.
//
// Contract. A threadgroup's threads lie along x; lane = index % 32, SIMD group = index / 32, whole SIMD groups only.
// The runner calls the kernel function once for each thread, with the threadgroup memory as a pointer that all threads
// of the threadgroup share (256-byte aligned) and the parameters of device/gpu/abi.h.
// - threadgroup_barrier: returns when all threads of the threadgroup have called it.
// - simdgroup_barrier: the same of the 32 threads of a SIMD group.
// - simdgroup_gather: all 32 threads of a SIMD group call it; each gives `bytes` bytes, and gets those of all, lane
// after
//   lane. Everything that crosses lanes is made of it (simd_shuffle_xor, simdgroup_matrix).
// - thread_index_in_simdgroup: the calling thread's lane.
// Which lane holds which element of a simdgroup_matrix is opaque in Metal. The stub's choice: lane l holds the elements
// (l / 4, 2 * (l % 4)) and (l / 4, 2 * (l % 4) + 1).
#pragma once

namespace metal_hooks {

void threadgroup_barrier();
void simdgroup_barrier();
void simdgroup_gather(const void* own, unsigned bytes, void* all);
unsigned thread_index_in_simdgroup();

}  // namespace metal_hooks
