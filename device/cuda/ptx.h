// SPDX-License-Identifier: Apache-2.0
// Thin wrappers of the PTX instructions that the sm_90a kernels use, one instruction each. Header-free (NVRTC compiles
// this into every kernel). Shared-memory addresses are 32-bit shared::cta addresses (shared_address). The wgmma
// instruction itself is in wgmma.h, because its text depends on the width.
#pragma once

#include "device/gpu/abi.h"

namespace codetta::gpu::ptx {

#define CODETTA_PTX __device__ __forceinline__

CODETTA_PTX u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// One value for the whole warp, so that the compiler may keep it in a uniform register.
CODETTA_PTX u32 uniform(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }

// True in exactly one lane of a converged warp.
CODETTA_PTX bool elect() {
  u32 chosen;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
  return chosen != 0;
}

// --- mbarriers -------------------------------------------------------------------------------------------------------
CODETTA_PTX void barrier_init(u32 bar, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
// Makes the inits visible to the cluster and to the copy engine.
CODETTA_PTX void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

CODETTA_PTX void barrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
// Arrives at the same barrier of CTA `rank` of the cluster.
CODETTA_PTX void barrier_arrive_at(u32 bar, u32 rank) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;"
      " mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(bar),
      "r"(rank)
      : "memory");
}
// Arrives and adds `bytes` to what the phase waits for.
CODETTA_PTX void barrier_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
// Whether the phase of this parity is complete; suspends the thread for a while first if it is not.
CODETTA_PTX bool barrier_try(u32 bar, u32 parity) {
  u32 done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(bar), "r"(parity)
               : "memory");
  return done != 0;
}
CODETTA_PTX void barrier_wait(u32 bar, u32 parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }" ::"r"(bar),
      "r"(parity)
      : "memory");
}

// --- named barriers, clusters, registers, dependent launch -----------------------------------------------------------
CODETTA_PTX void named_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
CODETTA_PTX void named_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
CODETTA_PTX u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
CODETTA_PTX void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
template <u32 registers>
CODETTA_PTX void register_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <u32 registers>
CODETTA_PTX void register_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
// Programmatic dependent launch: both do nothing in a launch without that attribute.
CODETTA_PTX void dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
CODETTA_PTX void dependents_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// --- the copy engine -------------------------------------------------------------------------------------------------
// L2 policies as createpolicy.fractional makes them for a fraction of 1.
inline constexpr u64 evict_normal = 0x1000000000000000ull, evict_first = 0x12F0000000000000ull,
                     evict_last = 0x14F0000000000000ull;

CODETTA_PTX void map_prefetch(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
// Loads the box at (fast, slow, batch) to `dst` and counts its bytes at `bar`; with a mask of CTA ranks: to the same
// address, and counted at the same barrier, in each of them.
CODETTA_PTX void tma_load(u32 dst, const TensorMap* map, u32 bar, i32 fast, i32 slow, i32 batch, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(fast), "r"(slow), "r"(batch), "l"(policy)
      : "memory");
}
// Brings the box into L2 only.
CODETTA_PTX void tma_prefetch(const TensorMap* map, i32 fast, i32 slow, i32 batch) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(fast), "r"(slow),
               "r"(batch)
               : "memory");
}
CODETTA_PTX void tma_load_multicast(u32 dst, const TensorMap* map, u32 bar, i32 fast, i32 slow, i32 batch, u16 mask,
                                    u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(fast), "r"(slow), "r"(batch), "h"(mask), "l"(policy)
      : "memory");
}
// Stores the box at `src`; bulk_commit closes a group of stores, bulk_wait_read waits until all but `groups` of them
// have read their shared memory, bulk_wait until they are written.
CODETTA_PTX void tma_store(const TensorMap* map, u32 src, i32 fast, i32 slow, i32 batch) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(src), "r"(fast), "r"(slow), "r"(batch)
               : "memory");
}
CODETTA_PTX void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int groups>
CODETTA_PTX void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(groups) : "memory");
}
template <int groups>
CODETTA_PTX void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(groups) : "memory");
}
// Orders this thread's ordinary shared-memory accesses before later ones of the copy engine and the tensor cores.
CODETTA_PTX void async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- matrices in shared memory ---------------------------------------------------------------------------------------
CODETTA_PTX void stmatrix_x4(u32 dst, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(dst), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}
CODETTA_PTX void stmatrix_x4_transposed(u32 dst, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(dst), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}
CODETTA_PTX void ldmatrix_x4(u32 (&r)[4], u32 src) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(src)
               : "memory");
}
CODETTA_PTX void ldmatrix_x4_transposed(u32 (&r)[4], u32 src) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(src)
               : "memory");
}
CODETTA_PTX void load_one(u32& r, u32 src) { asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(src) : "memory"); }
CODETTA_PTX void store_one(u32 dst, u32 a) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(dst), "r"(a) : "memory"); }
CODETTA_PTX void load_two(u32 (&r)[2], u32 src) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(src) : "memory");
}
CODETTA_PTX void store_two(u32 dst, u32 a, u32 b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(dst), "r"(a), "r"(b) : "memory");
}
CODETTA_PTX void load_four(u32 (&r)[4], u32 src) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(src)
               : "memory");
}
CODETTA_PTX void store_four(u32 dst, const u32 (&r)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(dst), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

// --- warpgroup matrix multiply ---------------------------------------------------------------------------------------
CODETTA_PTX void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
CODETTA_PTX void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int groups>
CODETTA_PTX void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}

// The shared-memory matrix descriptor of 128-byte swizzled tiles whose atoms (8 rows of 128 bytes) lie `atom_stride`
// bytes apart along the strided direction and `lead_stride` along the leading one (MN-major only). PTX ISA, "Matrix
// descriptor".
CODETTA_PTX u64 descriptor_128b(u32 address, u32 lead_stride, u32 atom_stride) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)(lead_stride >> 4) << 16 | (u64)(atom_stride >> 4) << 32 | 1ull << 62;
}

}  // namespace codetta::gpu::ptx
