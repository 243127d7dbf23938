// SPDX-License-Identifier: Apache-2.0
// The protocol of the sm_100a GEMM: what each role of a block does, in which order, and which barrier it waits at. The
// roles are templates over a Machine, so that the very same loops run on the GPU (sm100.h, where a Machine's functions
// are PTX instructions) and in a model on the host that interleaves them at random and checks every access
// (tests/unit/device_cuda/roles_test.cpp).
//
// Traits (the kernel's Config) offers stages, dynamic and makes_a: A is computed from what was copied in its place, in
// the same shared memory (make_tcgen05.h).
// A group is one block, or a pair of blocks that work on one product (cta_group::2). The block of rank 0 is the group's
// leader: it issues the products of both. Each block has these roles, all of which walk the same units (a tile of one
// slice of K) in the same order:
//   producer   one thread, copies the block's share of A and B into a ring of stages
//   multiplier one thread of the leader, issues the products of both blocks
//   scheduler  one thread, asks for further units (Traits::dynamic only)
//   finisher   4 warps a warpgroup, bring accumulators from tensor memory to the epilogue
//   maker      4 warps, compute the block's rows of A where they lie (Traits::makes_a only)
//
// Barriers (mbarriers in shared memory). "At the leader" means that only the leader's is used.
//   Full[stage]     at the leader. A phase: 1 arrival (the leader's producer, which announces the bytes of both blocks)
//                   and those bytes. Bytes of the other block may come before the announcement: the phase still lacks
//                   its arrival then. They cannot come a phase too early, since that block's producer waited for Empty.
//                   Where A is made: in each block, of its own bytes, which its makers wait for, too.
//   Made[stage]     at the leader, where A is made. An arrival of every maker warp of the group, once the stage holds
//   A:
//                   the other block's copies are there then, since its makers have waited for them.
//   Empty[stage]    in each block. 1 arrival: the commit behind the last product that reads the stage, to both blocks.
//   Ready[set]      in each block. 1 arrival: the commit behind the last product of a unit. Two sets of accumulators.
//   Drained[set]    at the leader. An arrival of every finisher warp of the group, once it has read its accumulators.
//   Answer[slot]    in each block. 1 arrival (the block's scheduler, which announces 16 bytes) and the 16 bytes.
//   Heard[slot]     at the leader. An arrival of everyone in the group who reads the answer: producers, schedulers,
//                   finisher and maker warps, and the multiplier.
// Phases: a ring's place is (stage, turn), turn being the parity of how often the ring went round. Who waits for
// something to be filled waits for parity `turn`; who waits for something to be free, for parity `turn ^ 1`, which a
// fresh barrier has already passed. Nobody can be a whole turn ahead: each fills only what the other has emptied.
//
// Tails: boxes beyond a tensor's end are filled with zeros and count all their bytes, so that every stage of a unit is
// alike; a block of the pair whose tile lies outside takes part and stores nothing. A unit without steps of K has no
// stage and no product: the multiplier commits nothing but the arrival at Ready, and the finishers take zeros instead
// of reading tensor memory. The end: a producer waits until all that it has filled was read, so that no commit arrives
// at a block that has gone; finishers' and readers' arrivals at the leader precede the barrier of the whole group
// behind which tensor memory is given back. After a `no` nobody asks again.
#pragma once

#include "device/cuda/tcgen05_bits.h"

namespace codetta::gpu::sm100 {

enum class Bar { Full, Empty, Ready, Drained, Answer, Heard, Made };
inline constexpr u32 accumulator_sets = 2, answer_slots = 3;

// Place in a ring of `count`, see above.
template <u32 count>
struct Ring {
  u32 stage = 0, turn = 0;
  CODETTA_ANYWHERE void advance() {
    if (++stage == count) {
      stage = 0;
      turn ^= 1;
    }
  }
};

// Arrivals that complete a phase; blocks: of the group, finishers and makers: warps of a block.
CODETTA_ANYWHERE constexpr u32 arrivals(Bar bar, u32 blocks, u32 finishers, u32 makers) {
  return bar == Bar::Drained ? blocks * finishers
         : bar == Bar::Made  ? blocks * makers
         : bar == Bar::Heard ? blocks * (finishers + makers + 2) + 1
                             : 1;
}

// The units of a role. Static: first, first + step, ... below count. Dynamic: first, and then what the answers say.
template <class Traits, class Machine>
struct Walk {
  Machine& machine;
  u32 index;
  bool more;
  Ring<answer_slots> slot;

  CODETTA_ANYWHERE explicit Walk(Machine& m) : machine(m), index(m.first()), more(m.first() < m.count()) {}
  CODETTA_ANYWHERE void next() {
    if constexpr (Traits::dynamic) {
      machine.wait(Bar::Answer, slot.stage, slot.turn);
      more = machine.answer(slot.stage, index);
      machine.arrive(Bar::Heard, slot.stage);
      slot.advance();
    } else {
      index += machine.step();
      more = index < machine.count();
    }
  }
};

template <class Traits, class Machine>
CODETTA_ANYWHERE void produce(Machine& m) {
  Ring<(u32)Traits::stages> ring;
  for (Walk<Traits, Machine> walk(m); walk.more; walk.next()) {
    const auto unit = m.unit(walk.index);
    const auto copies = m.copies(unit);
#pragma unroll 1
    for (u32 block = 0; block < unit.blocks; ++block) {
      m.wait(Bar::Empty, ring.stage, ring.turn ^ 1);
      m.copy(copies, block, ring.stage);
      ring.advance();
    }
  }
#pragma unroll 1
  for (u32 i = 0; i < (u32)Traits::stages; ++i) {
    m.wait(Bar::Empty, ring.stage, ring.turn ^ 1);
    ring.advance();
  }
}

template <class Traits, class Machine>
CODETTA_ANYWHERE void multiply(Machine& m) {
  Ring<(u32)Traits::stages> ring;
  Ring<accumulator_sets> set;
  for (Walk<Traits, Machine> walk(m); walk.more; walk.next()) {
    const auto unit = m.unit(walk.index);
    m.wait(Bar::Drained, set.stage, set.turn ^ 1);
    m.after_sync();
#pragma unroll 1
    for (u32 block = 0; block < unit.blocks; ++block) {
      m.wait(Bar::Full, ring.stage, ring.turn);
      if constexpr (Traits::makes_a) m.wait(Bar::Made, ring.stage, ring.turn);
      m.after_sync();
      m.multiply(unit, block, ring.stage, set.stage);
      m.commit(Bar::Empty, ring.stage);
      ring.advance();
    }
    m.commit(Bar::Ready, set.stage);
    set.advance();
  }
}

// A maker: all threads of a warp.
template <class Traits, class Machine>
CODETTA_ANYWHERE void make(Machine& m) {
  Ring<(u32)Traits::stages> ring;
  for (Walk<Traits, Machine> walk(m); walk.more; walk.next()) {
    const auto unit = m.unit(walk.index);
    const auto rows = m.rows(unit);
#pragma unroll 1
    for (u32 block = 0; block < unit.blocks; ++block) {
      m.wait(Bar::Full, ring.stage, ring.turn);
      m.make(rows, block, ring.stage);
      m.arrive(Bar::Made, ring.stage);
      ring.advance();
    }
  }
}

template <class Traits, class Machine>
CODETTA_ANYWHERE void schedule(Machine& m) {
  Ring<answer_slots> slot;
  for (bool more = m.first() < m.count(); more; slot.advance()) {
    if (m.leads()) m.wait(Bar::Heard, slot.stage, slot.turn ^ 1);
    m.announce(slot.stage);
    if (m.leads()) m.request(slot.stage);
    m.wait(Bar::Answer, slot.stage, slot.turn);
    u32 index;
    more = m.answer(slot.stage, index);
    m.arrive(Bar::Heard, slot.stage);
  }
}

// A finisher: all threads of a warp. m.finish() calls m.arrive(Bar::Drained, set) once it has read the accumulators.
template <class Traits, class Machine>
CODETTA_ANYWHERE void finish(Machine& m) {
  Ring<accumulator_sets> set;
  for (Walk<Traits, Machine> walk(m); walk.more; walk.next()) {
    const auto unit = m.unit(walk.index);
    m.prepare(unit);
    m.wait(Bar::Ready, set.stage, set.turn);
    m.after_sync();
    m.finish(unit, set.stage);
    set.advance();
  }
}

}  // namespace codetta::gpu::sm100
