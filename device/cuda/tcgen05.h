// SPDX-License-Identifier: Apache-2.0
// Thin wrappers of the PTX instructions that the sm_100a kernels use besides those of ptx.h, one instruction each (PTX
// ISA 8.6 and later, "TensorCore 5th Generation Instructions" and "clusterlaunchcontrol"). `group` is the number of
// blocks that work on one product, 1 or 2 (.cta_group); all instructions of a kernel have the same. Functions that all
// threads of a warp call together say so; the others are one thread's.
#pragma once

#include "device/cuda/ptx.h"
#include "device/cuda/tcgen05_bits.h"

namespace codetta::gpu::ptx {

// --- tensor memory ---------------------------------------------------------------------------------------------------
// By a warp of each block of the group, together: the address of `columns` columns comes to `slot` (shared memory).
// Waits where others have them. Every column has to be given back before the kernel ends.
template <int group>
CODETTA_PTX void tensor_allocate(u32 slot, u32 columns) {
  if constexpr (group == 2) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot), "r"(columns)
                 : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
  } else {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot), "r"(columns)
                 : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
  }
}
template <int group>
CODETTA_PTX void tensor_free(u32 address, u32 columns) {
  if constexpr (group == 2) {
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns) : "memory");
  } else {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns) : "memory");
  }
}

// By a warp, together: 16 (32) columns of its 32 lanes, a lane a thread; warp w of a warpgroup reaches lanes 32 * w and
// those behind it. The wait belongs to the same statement, so that nothing reads the registers before it.
template <class T>
CODETTA_PTX void tensor_load(T (&v)[16], u32 address) {
  static_assert(sizeof(T) == 4, "columns are 32 bits");
  u32 r[16];
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x16.b32"
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];\n"
      "tcgen05.wait::ld.sync.aligned;"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]), "=r"(r[8]),
        "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15])
      : "r"(address)
      : "memory");
#pragma unroll
  for (int i = 0; i < 16; ++i) v[i] = *(T*)&r[i];
}
template <class T>
CODETTA_PTX void tensor_load(T (&v)[32], u32 address) {
  static_assert(sizeof(T) == 4, "columns are 32 bits");
  u32 r[32];
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32"
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];\n"
      "tcgen05.wait::ld.sync.aligned;"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]), "=r"(r[8]),
        "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15]), "=r"(r[16]),
        "=r"(r[17]), "=r"(r[18]), "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]),
        "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]), "=r"(r[30]), "=r"(r[31])
      : "r"(address)
      : "memory");
#pragma unroll
  for (int i = 0; i < 32; ++i) v[i] = *(T*)&r[i];
}

// Orders this thread's tcgen05 instructions before (after) a barrier that other threads wait at (that it has waited
// at).
CODETTA_PTX void tensor_before_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
CODETTA_PTX void tensor_after_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// --- products --------------------------------------------------------------------------------------------------------
// Accumulators at `d` (+)= A * B, 32 bytes of K. Products of the same shape follow each other in order. In a pair one
// thread of the block of even rank issues for both: each block's shared memory has its half of A's rows and its half of
// B's columns at the same addresses, each block's tensor memory gets its half of the rows.
template <int group, MmaKind kind>
CODETTA_PTX void tensor_mma(u32 d, u64 a, u64 b, u32 instruction, u32 keep) {
#define CODETTA_TENSOR_MMA(g, k)                                                  \
  asm volatile(                                                                   \
      "{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"                                   \
      "tcgen05.mma.cta_group::" g ".kind::" k " [%0], %1, %2, %3, p; }" ::"r"(d), \
      "l"(a), "l"(b), "r"(instruction), "r"(keep)                                 \
      : "memory")
  if constexpr (group == 1) {
    if constexpr (kind == MmaKind::F16) CODETTA_TENSOR_MMA("1", "f16");
    if constexpr (kind == MmaKind::Tf32) CODETTA_TENSOR_MMA("1", "tf32");
    if constexpr (kind == MmaKind::F8) CODETTA_TENSOR_MMA("1", "f8f6f4");
    if constexpr (kind == MmaKind::I8) CODETTA_TENSOR_MMA("1", "i8");
  } else {
    if constexpr (kind == MmaKind::F16) CODETTA_TENSOR_MMA("2", "f16");
    if constexpr (kind == MmaKind::Tf32) CODETTA_TENSOR_MMA("2", "tf32");
    if constexpr (kind == MmaKind::F8) CODETTA_TENSOR_MMA("2", "f8f6f4");
    if constexpr (kind == MmaKind::I8) CODETTA_TENSOR_MMA("2", "i8");
  }
#undef CODETTA_TENSOR_MMA
}
// One arrival at `bar` (of a pair: at that barrier of both blocks) once all products that this thread has issued are
// done; contains tensor_before_sync().
template <int group>
CODETTA_PTX void tensor_commit(u32 bar) {
  if constexpr (group == 2) {
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(bar),
        "h"((u16)3)
        : "memory");
  } else {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
  }
}

// --- pairs of blocks -------------------------------------------------------------------------------------------------
// The address, within the cluster, of what lies at `address` in block `rank`.
CODETTA_PTX u32 address_at(u32 address, u32 rank) {
  u32 remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}
// Arrives at the same barrier of block `rank`, and waits for the parity of an own one; what threads of both blocks have
// written before they arrived is there behind the wait.
CODETTA_PTX void barrier_arrive_releasing(u32 bar, u32 rank) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;"
      " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }" ::"r"(bar),
      "r"(rank)
      : "memory");
}
CODETTA_PTX void barrier_wait_acquiring(u32 bar, u32 parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }" ::"r"(bar),
      "r"(parity)
      : "memory");
}
// tma_load to this block's `dst` whose bytes are counted at a barrier of either block of the pair (`bar` within the
// cluster).
CODETTA_PTX void tma_load_pair(u32 dst, const TensorMap* map, u32 bar, i32 fast, i32 slow, i32 batch, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(fast), "r"(slow), "r"(batch), "l"(policy)
      : "memory");
}

// --- work of clusters that have not begun ----------------------------------------------------------------------------
// Asks for a cluster of this grid that then will not run: 16 bytes come to `answer` (shared memory, 16-byte aligned)
// and are counted at `bar`; of a pair: in both blocks. Not to be asked again once an answer was no.
template <int group>
CODETTA_PTX void cluster_request(u32 answer, u32 bar) {
  if constexpr (group == 2) {
    asm volatile(
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128"
        " [%0], [%1];" ::"r"(answer),
        "r"(bar)
        : "memory");
  } else {
    asm volatile(
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(answer),
        "r"(bar)
        : "memory");
  }
}
// Whether there was one, and the index along x of its first block.
CODETTA_PTX bool cluster_answer(u32 answer, u32& first) {
  u32 yes;
  asm volatile(
      "{ .reg .b128 a; .reg .b64 low, high; .reg .pred p;\n"
      "ld.shared.v2.b64 {low, high}, [%2];\n"
      "mov.b128 a, {low, high};\n"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, a;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "mov.u32 %1, 0;\n"
      "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, _, _, _}, a; }"
      : "=r"(yes), "=r"(first)
      : "r"(answer)
      : "memory");
  return yes != 0;
}

}  // namespace codetta::gpu::ptx
