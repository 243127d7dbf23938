// SPDX-License-Identifier: Apache-2.0
// Single sets of micro-kernels under names of their own, so that an emitted library links those that its products use
// and no others: it has a list of them (driver/build_sets.cpp), of which wanted.cpp makes the tables.
#pragma once

#include "device/cpu/micro/micro.hpp"

namespace codetta::cpu {

using MicroSet_packed = KernelSet;
using MicroSet_in_place = KernelSet;
using MicroSet_dot = DotSet;

// An entry of the list. It ends with one whose `what` is null.
struct WantedSet {
  enum class Kind : u8 { packed = 0, in_place = 1, dot = 2, packers = 3, enter = 4, leave = 5 };
  u8 isa;  // a CpuIsa, in whose table it is
  Kind kind;
  u8 index;  // a Product; of in_place and dot a Source; else 0
  const void* what;
};

}  // namespace codetta::cpu

// "codetta_micro_avx512_packed_0" of the file for AVX-512.
#define CODETTA_MICRO_SET(level, kind, index)                                              \
  extern "C" const codetta::cpu::MicroSet_##kind codetta_micro_##level##_##kind##_##index; \
  constinit const codetta::cpu::MicroSet_##kind codetta_micro_##level##_##kind##_##index = \
      codetta::cpu::level::table.kind[index];
#define CODETTA_MICRO_SOURCE(level, index) \
  CODETTA_MICRO_SET(level, in_place, index) CODETTA_MICRO_SET(level, dot, index)
// Of files that have what every level has.
#define CODETTA_MICRO_SETS(level)                                         \
  CODETTA_MICRO_SET(level, packed, 0)                                     \
  CODETTA_MICRO_SET(level, packed, 1)                                     \
  CODETTA_MICRO_SET(level, packed, 2)                                     \
  CODETTA_MICRO_SET(level, packed, 3)                                     \
  CODETTA_MICRO_SET(level, packed, 9)                                     \
  CODETTA_MICRO_SOURCE(level, 0)                                          \
  CODETTA_MICRO_SOURCE(level, 1)                                          \
  CODETTA_MICRO_SOURCE(level, 2)                                          \
  CODETTA_MICRO_SOURCE(level, 3)                                          \
  CODETTA_MICRO_SOURCE(level, 4)                                          \
  CODETTA_MICRO_SOURCE(level, 5)                                          \
  CODETTA_MICRO_SOURCE(level, 6)                                          \
  extern "C" const codetta::cpu::Packers codetta_micro_##level##_packers; \
  constinit const codetta::cpu::Packers codetta_micro_##level##_packers = codetta::cpu::level::packers;
// Of those that add the products of bytes.
#define CODETTA_MICRO_BYTE_SETS(level) \
  CODETTA_MICRO_SET(level, packed, 5)  \
  CODETTA_MICRO_SET(level, packed, 6)  \
  CODETTA_MICRO_SET(level, packed, 7)  \
  CODETTA_MICRO_SET(level, packed, 8)
