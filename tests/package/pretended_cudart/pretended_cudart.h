// SPDX-License-Identifier: Apache-2.0
// What .cu files for nvcc use of the CUDA runtime, over the pretended driver: in front of each of them, in a C++
// compiler. A kernel is a function that does nothing, registered with its image, as nvcc's code does it.
#pragma once

using cudaFunction_t = struct CUfunc_st*;
enum cudaError_t { cudaSuccess = 0 };

struct PretendedKernel {
  PretendedKernel(const void* symbol, const unsigned char* image, const char* name);
};

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol);
