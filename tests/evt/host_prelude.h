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
unsigned __float_as_uint(float);
float __uint_as_float(unsigned);
long long __double_as_longlong(double);
double __longlong_as_double(long long);
// With types that CUDA has them of.
int atomicMin(int*, int);
int atomicMax(int*, int);
unsigned atomicMin(unsigned*, unsigned);
unsigned atomicMax(unsigned*, unsigned);
long long atomicMin(long long*, long long);
long long atomicMax(long long*, long long);
unsigned long long atomicMin(unsigned long long*, unsigned long long);
unsigned long long atomicMax(unsigned long long*, unsigned long long);
int atomicAdd(int*, int);
unsigned atomicAdd(unsigned*, unsigned);
float atomicAdd(float*, float);
double atomicAdd(double*, double);
unsigned long long atomicAdd(unsigned long long*, unsigned long long);
namespace cutlass::arch {
int SmId();
int LaneId();
}  // namespace cutlass::arch
