// SPDX-License-Identifier: Apache-2.0
// The machine of device/hip/user_builtins.h, emulated; the functions of floats are the host's.
#pragma once

#include "device/hip/builtins.h"

#define warpSize static_cast<int>(codetta::emulator::machine->current->lanes)

namespace codetta::gpu {

CODETTA_FN int lane_of_wave() { return static_cast<int>(emulator::machine->current->lane); }
// All lanes of a wave exchange together.
CODETTA_FN u32 word_of_lane(u32 word, u32 lane) { return emulator::taken(~0ull, word, lane, 34, CODETTA_SITE); }

template <class T>
CODETTA_FN T atomic_exchange(T* p, T value) {
  emulator::machine->update(p, CODETTA_SITE);
  const T before = *p;
  *p = value;
  return before;
}
template <class T>
CODETTA_FN T atomic_add(T* p, T value) {
  return atomic_exchange<T>(p, *p + value);
}
template <class T>
CODETTA_FN T atomic_min(T* p, T value) {
  return atomic_exchange<T>(p, value < *p ? value : *p);
}
template <class T>
CODETTA_FN T atomic_max(T* p, T value) {
  return atomic_exchange<T>(p, *p < value ? value : *p);
}
template <class T>
CODETTA_FN T atomic_swap(T* p, T wanted, T value) {
  return atomic_exchange<T>(p, *p == wanted ? value : *p);
}

}  // namespace codetta::gpu
