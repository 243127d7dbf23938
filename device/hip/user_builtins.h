// SPDX-License-Identifier: Apache-2.0
// What user.h needs of the machine beside builtins.h, and functions of floats under the language's names. A test that
// runs kernels on the host puts its own file in the place of this one.
#pragma once

#include "device/hip/builtins.h"
#define CODETTA_LANES 1  // of vectors, which nothing here uses
#include "device/hip/math_f32.h"

namespace codetta::gpu {

CODETTA_FN Index block_size() {
  return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
          __builtin_amdgcn_workgroup_size_z()};
}
#define blockDim codetta::gpu::block_size()
#define warpSize static_cast<int>(__builtin_amdgcn_wavefrontsize())

CODETTA_FN int lane_of_wave() {
  return static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)));
}
CODETTA_FN u32 word_of_lane(u32 word, u32 lane) {
  return (u32)__builtin_amdgcn_ds_bpermute((int)(lane << 2), (int)word);
}

template <class T>
CODETTA_FN T atomic_add(T* p, T value) {
  return __hip_atomic_fetch_add(p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
CODETTA_FN T atomic_min(T* p, T value) {
  return __hip_atomic_fetch_min(p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
CODETTA_FN T atomic_max(T* p, T value) {
  return __hip_atomic_fetch_max(p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
CODETTA_FN T atomic_exchange(T* p, T value) {
  return __hip_atomic_exchange(p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
CODETTA_FN T atomic_swap(T* p, T wanted, T value) {
  __hip_atomic_compare_exchange_strong(p, &wanted, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  return wanted;
}

}  // namespace codetta::gpu

using codetta::gpu::__syncthreads;
using codetta::gpu::__threadfence;

CODETTA_FN float fabsf(float x) { return __builtin_fabsf(x); }
CODETTA_FN float fminf(float x, float y) { return __builtin_fminf(x, y); }
CODETTA_FN float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
CODETTA_FN float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
CODETTA_FN float floorf(float x) { return __builtin_floorf(x); }
CODETTA_FN float ceilf(float x) { return __builtin_ceilf(x); }
CODETTA_FN float truncf(float x) { return __builtin_truncf(x); }
CODETTA_FN float rintf(float x) { return __builtin_rintf(x); }
CODETTA_FN float sqrtf(float x) { return codetta::gpu::one::sqrt(x); }
CODETTA_FN float rsqrtf(float x) { return codetta::gpu::one::rsqrt(x); }
CODETTA_FN float expf(float x) { return codetta::gpu::one::exp(x); }
CODETTA_FN float exp2f(float x) { return codetta::gpu::one::exp2(x); }
CODETTA_FN float expm1f(float x) { return codetta::gpu::one::expm1(x); }
CODETTA_FN float logf(float x) { return codetta::gpu::one::log(x); }
CODETTA_FN float log2f(float x) { return codetta::gpu::one::log2(x); }
CODETTA_FN float log1pf(float x) { return codetta::gpu::one::log1p(x); }
CODETTA_FN float tanhf(float x) { return codetta::gpu::one::tanh(x); }
CODETTA_FN float erff(float x) { return codetta::gpu::one::erf(x); }
CODETTA_FN float powf(float x, float y) { return codetta::gpu::one::pow(x, y); }
