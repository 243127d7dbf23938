// SPDX-License-Identifier: Apache-2.0
// PTX wrappers of sm_80: asynchronous copies into shared memory, matrix loads from it, mma.sync. Every product is
// brought to one shape, 16 x 8 accumulators from 32 bytes of K: a thread of lane 4 g + t holds the accumulators
// (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). Shared-memory addresses are those of ptx::shared_address.
#pragma once

#include "device/cuda/ptx.h"
#include "device/gpu/vec.h"

namespace codetta::gpu::ptx {

// --- copies ----------------------------------------------------------------------------------------------------------
// `unit` bytes (4, 8 or 16), of which the first `valid` are read and the others become 0. With 16, L1 is passed by.
template <int unit>
CODETTA_PTX void copy_async(u32 dst, const void* src, u32 valid) {
  if constexpr (unit == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(valid) : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %3, %2;" ::"r"(dst), "l"(src), "r"(valid), "n"(unit)
                 : "memory");
}
CODETTA_PTX void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all but the newest `groups` groups of this thread have landed.
template <int groups>
CODETTA_PTX void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}
// 16 bytes that a block reads once: L1 is passed by, and L2 keeps them by the policy.
CODETTA_PTX uint4 load_once(const void* p, u64 policy) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p), "l"(policy));
  return v;
}
CODETTA_PTX void prefetch_l2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// --- matrices in shared memory ---------------------------------------------------------------------------------------
// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. Transposed: the
// thread gets elements (2t, g) and (2t + 1, g) instead of (g, 2t) and (g, 2t + 1).
template <bool transposed>
CODETTA_PTX void load_matrices(u32 (&r)[4], u32 src) {
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(src)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(src)
                 : "memory");
}
CODETTA_PTX u32 load_shared(u32 src) {
  u32 r;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(src) : "memory");
  return r;
}
CODETTA_PTX double load_shared_f64(u32 src) {
  double r;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(r) : "r"(src) : "memory");
  return r;
}
CODETTA_PTX uint2 load_shared_two(u32 src) {
  uint2 r;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(r.x), "=r"(r.y) : "r"(src) : "memory");
  return r;
}
CODETTA_PTX uint4 load_shared_four(u32 src) {
  uint4 r;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "r"(src)
               : "memory");
  return r;
}
CODETTA_PTX void store_shared_four(u32 dst, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(dst), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
template <class E>
CODETTA_PTX void store_shared_element(u32 dst, const E& value) {
  if constexpr (sizeof(E) == 1) {
    u8 bits;
    memcpy(&bits, &value, 1);
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(dst), "r"((u32)bits) : "memory");
  } else if constexpr (sizeof(E) == 2) {
    u16 bits;
    memcpy(&bits, &value, 2);
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(dst), "h"(bits) : "memory");
  } else {
    u32 bits;
    memcpy(&bits, &value, 4);
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(dst), "r"(bits) : "memory");
  }
}
// Bytes chosen from lo (0 to 3) and hi (4 to 7) by the four digits of `choice`.
template <u32 choice>
CODETTA_PTX u32 permute(u32 lo, u32 hi) {
  return __byte_perm(lo, hi, choice);
}

// --- products --------------------------------------------------------------------------------------------------------
// To tf32, to nearest, ties away from zero.
CODETTA_PTX u32 to_tf32(u32 x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(__uint_as_float(x)));
  return r;
}

#define CODETTA_MMA(NAME, TYPES, DTYPE, CONSTRAINT)                                                           \
  CODETTA_PTX void NAME(DTYPE(&d)[4], const u32(&a)[4], u32 b0, u32 b1) {                                     \
    asm volatile("mma.sync.aligned." TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : CONSTRAINT(d[0]), CONSTRAINT(d[1]), CONSTRAINT(d[2]), CONSTRAINT(d[3])                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                             \
  }
CODETTA_MMA(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "+f")
CODETTA_MMA(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32", float, "+f")
CODETTA_MMA(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "+f")
CODETTA_MMA(mma_s8s8, "m16n8k32.row.col.s32.s8.s8.s32", i32, "+r")
CODETTA_MMA(mma_s8u8, "m16n8k32.row.col.s32.s8.u8.s32", i32, "+r")
CODETTA_MMA(mma_u8s8, "m16n8k32.row.col.s32.u8.s8.s32", i32, "+r")
CODETTA_MMA(mma_u8u8, "m16n8k32.row.col.s32.u8.u8.s32", i32, "+r")
#if __CUDA_ARCH__ >= 890
CODETTA_MMA(mma_e4m3e4m3, "m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "+f")
CODETTA_MMA(mma_e4m3e5m2, "m16n8k32.row.col.f32.e4m3.e5m2.f32", float, "+f")
CODETTA_MMA(mma_e5m2e4m3, "m16n8k32.row.col.f32.e5m2.e4m3.f32", float, "+f")
CODETTA_MMA(mma_e5m2e5m2, "m16n8k32.row.col.f32.e5m2.e5m2.f32", float, "+f")
#endif
#undef CODETTA_MMA

// K = 4. Before sm_90 in two halves of 8 rows.
CODETTA_PTX void mma_f64(double (&d)[4], double a0, double a1, double b) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(a0), "d"(a1), "d"(b));
#else
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(d[0]), "+d"(d[1])
               : "d"(a0), "d"(b));
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(d[2]), "+d"(d[3])
               : "d"(a1), "d"(b));
#endif
}

}  // namespace codetta::gpu::ptx

namespace codetta::gpu {

// Which instruction multiplies elements of X (16 rows) and Y (8 columns).
template <class X, class Y>
struct Mma;
#define CODETTA_MMA_OF(X, Y, D, NAME)                                                                         \
  template <>                                                                                                 \
  struct Mma<X, Y> {                                                                                          \
    static CODETTA_MEMBER void add(D (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { ptx::NAME(d, a, b0, b1); } \
  };
CODETTA_MMA_OF(bf16, bf16, float, mma_bf16)
CODETTA_MMA_OF(f16, f16, float, mma_f16)
CODETTA_MMA_OF(f32, f32, float, mma_tf32)
CODETTA_MMA_OF(i8, i8, i32, mma_s8s8)
CODETTA_MMA_OF(i8, u8, i32, mma_s8u8)
CODETTA_MMA_OF(u8, i8, i32, mma_u8s8)
CODETTA_MMA_OF(u8, u8, i32, mma_u8u8)
#if __CUDA_ARCH__ >= 890
CODETTA_MMA_OF(f8e4m3, f8e4m3, float, mma_e4m3e4m3)
CODETTA_MMA_OF(f8e4m3, f8e5m2, float, mma_e4m3e5m2)
CODETTA_MMA_OF(f8e5m2, f8e4m3, float, mma_e5m2e4m3)
CODETTA_MMA_OF(f8e5m2, f8e5m2, float, mma_e5m2e5m2)
#endif
#undef CODETTA_MMA_OF

// x as a sum for three products of tf32: x (the instruction leaves the low 13 bits out) and the rest. Infinities
// have no rest, and meet no rest of another factor: `cross` is 0 for them.
struct Split {
  u32 rest, cross;
  CODETTA_MEMBER explicit Split(u32 x) {
    const bool infinite = (x & 0x7fffffffu) == 0x7f800000u;
    rest = infinite ? 0u : __float_as_uint(__uint_as_float(x) - __uint_as_float(x & 0xffffe000u));
    cross = infinite ? 0u : x;
  }
};

}  // namespace codetta::gpu
