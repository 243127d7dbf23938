// SPDX-License-Identifier: Apache-2.0
// Included first where the host's compiler, which knows no CUDA, checks texts that use CUTLASS: names of the device
// that its headers use outside of what they hide from such a compiler.
#pragma once

#include <cuda_runtime.h>

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
extern int warpSize;
void __syncthreads();
int __syncthreads_and(int);
int __syncthreads_or(int);
void __syncwarp(unsigned mask = ~0u);
void __threadfence();
float __double2float_rz(double);
int __float_as_int(float);
float __int_as_float(int);
namespace cutlass::arch {
int SmId();
int LaneId();
}  // namespace cutlass::arch
