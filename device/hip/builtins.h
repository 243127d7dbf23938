// SPDX-License-Identifier: Apache-2.0
// What kernels need of an AMD GPU and of the language, by name: Clang's HIP without any header or device library.
// Groups of 32 threads ("warps") exist on every one of them: a wave of 64 is two that run together. A test that runs a
// group of threads on the host puts its own file in the place of this one.
#pragma once

#include "device/gpu/abi.h"

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads, blocks) __attribute__((amdgpu_flat_work_group_size(threads, threads)))
#define __grid_constant__
#define CODETTA_FN static __device__ __forceinline__
#define CODETTA_MEMBER __device__ __forceinline__
#define CODETTA_OWN_MATH 1  // device/hip/math_f32.h, math_f64.h
// Loops whose rounds wait for much else than the loop (multiplications at a quarter of the rate, other lanes,
// barriers). Unrolled, Clang takes much longer.
#define CODETTA_EACH_ROUND _Pragma("unroll 1")
#define CODETTA_EACH_WARP _Pragma("unroll S::width > 1 ? 1 : 64")  // states S; merging two wide ones is a chain
#define CODETTA_HAS_FP8 0                                          // gfx942 converts another kind of 8-bit floats

namespace codetta::gpu {

// --- where a thread is
// ------------------------------------------------------------------------------------------------

struct Index {
  u32 x, y, z;
};
CODETTA_FN Index thread_index() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()};
}
CODETTA_FN Index block_index() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()};
}
// The first three words behind the arguments (code object version 5).
CODETTA_FN Index grid_size() {
  const auto* const hidden = (const __attribute__((address_space(4))) u32*)__builtin_amdgcn_implicitarg_ptr();
  return {hidden[0], hidden[1], hidden[2]};
}
#define threadIdx codetta::gpu::thread_index()
#define blockIdx codetta::gpu::block_index()
#define gridDim codetta::gpu::grid_size()

// A value that is the same in all threads of a wave.
CODETTA_FN u32 uniform(u32 x) { return __builtin_amdgcn_readfirstlane(x); }

// The kernel's parameter, read anew, and a number (of all threads of a wave) of which nothing is known: in a loop
// around a whole epilogue that rarely turns twice, what the compiler carries from turn to turn takes more registers
// than there are.
#define CODETTA_REREADS 1
template <class P>
CODETTA_FN const P& reread(const P&) {
  const auto* parameter = (const __attribute__((address_space(4))) P*)__builtin_amdgcn_kernarg_segment_ptr();
  asm volatile("" : "+s"(parameter));
  return *(const P*)parameter;
}
CODETTA_FN i64 reread(i64 x) {
  asm volatile("" : "+s"(x));
  return x;
}
// The same of a number of each thread's own.
CODETTA_FN i32 reread_own(i32 x) {
  asm volatile("" : "+v"(x));
  return x;
}
// Stores before it are not compared with those behind it: Clang looks for dead ones among the last ninety of each.
CODETTA_FN void part_stores() { asm volatile("" ::: "memory"); }

// --- memory
// -----------------------------------------------------------------------------------------------------------

struct alignas(8) uint2 {
  u32 x, y;
};
struct alignas(16) uint4 {
  u32 x, y, z, w;
};
CODETTA_FN void memcpy(void* to, const void* from, unsigned long bytes) { __builtin_memcpy(to, from, bytes); }

// n values in registers, at places that are known when the kernel runs and are the same in all threads of a wave:
// an array would lie in scratch memory. At most 32 words, the most that instructions take an index into.
template <class V, int n>
class RegisterArray {
  static constexpr int words = sizeof(V) / 4;
  static_assert(sizeof(V) % 4 == 0 && n * words <= 32, "what has an index");
  typedef u32 Words __attribute__((ext_vector_type(n * words)));
  Words all;

 public:
  CODETTA_MEMBER V get(i32 at) const {
    u32 own[words];
#pragma unroll
    for (int i = 0; i < words; ++i) own[i] = all[at * words + i];
    V v;
    memcpy(&v, own, sizeof v);
    return v;
  }
  CODETTA_MEMBER void put(i32 at, const V& v) {
    u32 own[words];
    memcpy(own, &v, sizeof v);
#pragma unroll
    for (int i = 0; i < words; ++i) all[at * words + i] = own[i];
  }
};

// 16 bytes of LDS by one load: four of a struct's parts are joined only where their places are seen to follow each
// other.
CODETTA_FN uint4 load_shared(const uint4* p) {
  typedef u32 Words __attribute__((ext_vector_type(4)));
  const Words v = *(const Words*)p;
  return {v.x, v.y, v.z, v.w};
}

template <class T>
using Global = __attribute__((address_space(1))) T;

// Global memory that this thread may write later.
template <class T>
CODETTA_FN T load_global(const T* p) {
  return *(const Global<T>*)p;
}
CODETTA_FN uint2 load_global(const uint2* p) {
  typedef u32 Words __attribute__((ext_vector_type(2)));
  const Words v = *(const Global<Words>*)p;
  return {v.x, v.y};
}
CODETTA_FN uint4 load_global(const uint4* p) {
  typedef u32 Words __attribute__((ext_vector_type(4)));
  const Words v = *(const Global<Words>*)p;
  return {v.x, v.y, v.z, v.w};
}
// A number to global memory. Clang finds out by itself where most pointers lead, and stores as if LDS may lie there
// where it does not.
template <class T>
CODETTA_FN void store_global(T* p, T value) {
  *(Global<T>*)p = value;
}
// Global memory that no thread writes while the kernel runs.
template <class T>
CODETTA_FN T __ldg(const T* p) {
  return load_global(p);
}
// 16 bytes of such memory at any address: the runtime (HSA) lets loads be unaligned.
CODETTA_FN uint4 load_unaligned(const char* p) {
  typedef u32 Words __attribute__((ext_vector_type(4), aligned(1)));
  const Words v = *(const Global<Words>*)p;
  return {v.x, v.y, v.z, v.w};
}
CODETTA_FN void store_two(void* p, u32 a, u32 b) {
  typedef u32 Words __attribute__((ext_vector_type(2)));
  *(Global<Words>*)p = Words{a, b};
}
CODETTA_FN void store_four(void* p, u32 a, u32 b, u32 c, u32 d) {
  typedef u32 Words __attribute__((ext_vector_type(4)));
  *(Global<Words>*)p = Words{a, b, c, d};
}
// What another block of this kernel has written, past the caches that are not coherent.
template <class T>
CODETTA_FN T __ldcg(const T* p) {
  T value;
  if constexpr (sizeof(T) == 8) {
    const u64 bits = __hip_atomic_load((const Global<u64>*)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    memcpy(&value, &bits, sizeof value);
  } else {
    const u32 bits = __hip_atomic_load((const Global<u32>*)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    memcpy(&value, &bits, sizeof value);
  }
  return value;
}
CODETTA_FN u32 atomicAdd(u32* p, u32 value) {
  return __hip_atomic_fetch_add((Global<u32>*)p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
CODETTA_FN void prefetch_line(const void*) {}
// A word of the device's own memory. It was 0 and is 1 now: of all callers one is told so, until that one gives it
// back.
CODETTA_FN bool claim(u32* word) {
  u32 old = 0;
  return __hip_atomic_compare_exchange_strong((Global<u32>*)word, &old, 1u, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED,
                                              __HIP_MEMORY_SCOPE_AGENT);
}
CODETTA_FN void give_back(u32* word) {
  __hip_atomic_store((Global<u32>*)word, 0u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}
// Words that the host sees, too: as one is now, and one written behind everything that this thread has written.
CODETTA_FN u32 look_up(const u32* word) {
  return __hip_atomic_load((const Global<u32>*)word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
CODETTA_FN void publish(u32* word, u32 value) {
  __hip_atomic_store((Global<u32>*)word, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}

// --- threads together
// -------------------------------------------------------------------------------------------------

CODETTA_FN void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
CODETTA_FN void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// How blocks hand over what they have written: each thread is at before_arrival(), the block meets, and one thread
// counts it at a word of the device's own memory, which gives how many had been there. What these have written is
// visible to this block once it has met again.
CODETTA_FN void before_arrival() { __threadfence(); }
CODETTA_FN u32 arrive(u32* word) {
  const u32 before = atomicAdd(word, 1u);
  __threadfence();
  return before;
}
// Groups are whole blocks.
CODETTA_FN void group_barrier(i32, i32) { __syncthreads(); }
CODETTA_FN void begin_dependent() {}

// Of the thread whose number in its warp differs by the bits of `distance`, all of which are below 32.
CODETTA_FN u32 shuffle_xor(u32, u32 value, int distance) {
  const u32 lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
  return (u32)__builtin_amdgcn_ds_bpermute((int)((lane ^ (u32)distance) << 2), (int)value);
}

// --- bits and numbers
// -------------------------------------------------------------------------------------------------

CODETTA_FN float bits_to_float(u32 x) { return __builtin_bit_cast(float, x); }
CODETTA_FN u32 float_to_bits(float x) { return __builtin_bit_cast(u32, x); }
CODETTA_FN double bits_to_double(u64 x) { return __builtin_bit_cast(double, x); }
CODETTA_FN u64 double_to_bits(double x) { return __builtin_bit_cast(u64, x); }
CODETTA_FN float __int_as_float(int x) { return bits_to_float((u32)x); }
CODETTA_FN u32 __funnelshift_l(u32 low, u32 high, u32 by) {
  return (u32)((((u64)high << 32) | low) << (by & 31) >> 32);
}
CODETTA_FN u32 __funnelshift_r(u32 low, u32 high, u32 by) { return (u32)((((u64)high << 32) | low) >> (by & 31)); }
// Four bytes of eight, the lowest first: each byte of `which` is the number of one, 0 to 3 of low, 4 to 7 of high.
CODETTA_FN u32 chosen_bytes(u32 low, u32 high, u32 which) { return __builtin_amdgcn_perm(high, low, which); }
CODETTA_FN u64 __umul64hi(u64 x, u64 y) { return (u64)(((unsigned __int128)x * y) >> 64); }

CODETTA_FN float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
CODETTA_FN double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }

// 2^x and 1 / x, at most 2 and 1 ulp off; subnormal operands and results are 0.
CODETTA_FN float ex2_approx(float x) { return __builtin_amdgcn_exp2f(x); }
CODETTA_FN float rcp_approx(float x) { return __builtin_amdgcn_rcpf(x); }

// The larger and the smaller; NaN if either is NaN; +0 is above -0 (so do the instructions). The median needs no
// quieting of its operands before it; with -inf it would not tell zeros apart.
CODETTA_FN float max_nan(float x, float y) {
  return __builtin_isunordered(x, y) ? __builtin_nanf("") : __builtin_amdgcn_fmed3f(x, y, __builtin_inff());
}
CODETTA_FN float min_nan(float x, float y) {
  return __builtin_isunordered(x, y) ? __builtin_nanf("") : __builtin_fminf(x, y);
}
// The nearest to x from low to high; of NaN one of these.
CODETTA_FN float clamped(float x, float low, float high) { return __builtin_amdgcn_fmed3f(x, low, high); }
// x 2^n, rounded once.
CODETTA_FN float ldexp(float x, i32 n) { return __builtin_amdgcn_ldexpf(x, n); }
CODETTA_FN double ldexp(double x, i32 n) { return __builtin_amdgcn_ldexp(x, n); }

// To 16 bits, to nearest even; NaN stays NaN.
CODETTA_FN u32 to_bf16(float x) {
  const u32 b = float_to_bits(x);
  return x != x ? (b >> 16) | 0x40u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
}
CODETTA_FN u32 to_f16(float x) { return __builtin_bit_cast(u16, (_Float16)x); }
CODETTA_FN u32 pack_bf16(float low, float high) { return to_bf16(low) | to_bf16(high) << 16; }
CODETTA_FN u32 pack_f16(float low, float high) { return to_f16(low) | to_f16(high) << 16; }
CODETTA_FN float unpack_f16(u16 x) { return (float)__builtin_bit_cast(_Float16, x); }

// Towards 0.
CODETTA_FN float __double2float_rz(double x) {
  const float near = (float)x;
  const u32 b = float_to_bits(near);
  return __builtin_fabs((double)near) > __builtin_fabs(x) ? bits_to_float(b - 1) : near;
}
// Integral values to integers, saturating. `above`: the least power of two that the type does not hold.
template <class T, class F>
CODETTA_FN T saturating(F x, F above) {
  constexpr bool is_signed_type = (T)-1 < (T)0;
  constexpr T top = is_signed_type ? (T)(((u64)1 << (sizeof(T) * 8 - 1)) - 1) : (T) ~(T)0;
  const F below = is_signed_type ? -above : (F)0;
  return x >= above ? top : x <= below ? (is_signed_type ? (T)(-top - 1) : (T)0) : (T)x;
}
CODETTA_FN i32 __float2int_rn(float x) { return saturating<i32>(__builtin_rintf(x), 0x1p31f); }
CODETTA_FN u32 __float2uint_rn(float x) { return saturating<u32>(__builtin_rintf(x), 0x1p32f); }
CODETTA_FN i64 __float2ll_rn(float x) { return saturating<i64>(__builtin_rintf(x), 0x1p63f); }
CODETTA_FN u64 __float2ull_rn(float x) { return saturating<u64>(__builtin_rintf(x), 0x1p64f); }
CODETTA_FN i32 __double2int_rn(double x) { return saturating<i32>(__builtin_rint(x), 0x1p31); }
CODETTA_FN u32 __double2uint_rn(double x) { return saturating<u32>(__builtin_rint(x), 0x1p32); }
CODETTA_FN i64 __double2ll_rn(double x) { return saturating<i64>(__builtin_rint(x), 0x1p63); }
CODETTA_FN u64 __double2ull_rn(double x) { return saturating<u64>(__builtin_rint(x), 0x1p64); }
CODETTA_FN i32 __float2int_rz(float x) { return saturating<i32>(__builtin_truncf(x), 0x1p31f); }
CODETTA_FN u32 __float2uint_rz(float x) { return saturating<u32>(__builtin_truncf(x), 0x1p32f); }
CODETTA_FN i64 __float2ll_rz(float x) { return saturating<i64>(__builtin_truncf(x), 0x1p63f); }
CODETTA_FN u64 __float2ull_rz(float x) { return saturating<u64>(__builtin_truncf(x), 0x1p64f); }
CODETTA_FN i32 __double2int_rz(double x) { return saturating<i32>(__builtin_trunc(x), 0x1p31); }
CODETTA_FN u32 __double2uint_rz(double x) { return saturating<u32>(__builtin_trunc(x), 0x1p32); }
CODETTA_FN i64 __double2ll_rz(double x) { return saturating<i64>(__builtin_trunc(x), 0x1p63); }
CODETTA_FN u64 __double2ull_rz(double x) { return saturating<u64>(__builtin_trunc(x), 0x1p64); }

// Correctly rounded, or exact.
CODETTA_FN float rounded_sqrt(float x) { return __builtin_sqrtf(x); }
CODETTA_FN double rounded_sqrt(double x) { return __builtin_sqrt(x); }
CODETTA_FN float down(float x) { return __builtin_floorf(x); }
CODETTA_FN double down(double x) { return __builtin_floor(x); }
CODETTA_FN float up(float x) { return __builtin_ceilf(x); }
CODETTA_FN double up(double x) { return __builtin_ceil(x); }
CODETTA_FN float towards_zero(float x) { return __builtin_truncf(x); }
CODETTA_FN double towards_zero(double x) { return __builtin_trunc(x); }
CODETTA_FN float to_even(float x) { return __builtin_rintf(x); }
CODETTA_FN double to_even(double x) { return __builtin_rint(x); }

}  // namespace codetta::gpu
