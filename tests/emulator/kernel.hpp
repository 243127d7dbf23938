// SPDX-License-Identifier: Apache-2.0
// What the kernels of all dialects see of the emulator: the machine, as a variable of each thread of the host, and
// shared memory, which lies beside it.
#pragma once

#include "emulator/machine.hpp"

extern "C" {
void* memcpy(void*, const void*, unsigned long) noexcept;
void* memset(void*, int, unsigned long) noexcept;
int memcmp(const void*, const void*, unsigned long) noexcept;
}

namespace codetta::emulator {

// All other variables of a kernel's object that are thread_local are the block's shared memory.
extern thread_local Machine* machine __attribute__((visibility("hidden")));

inline void check(bool fine, const char* what, const void* address, Site site) {
  if (__builtin_expect(!fine, 0)) machine->fail(what, (Bits)address, site);
}

// An access of the machine is aligned to its size.
template <class T>
inline T load(const void* p, Site site) {
  check((Bits)p % sizeof(T) == 0, "a load that is not aligned, at", p, site);
  T value;
  memcpy(&value, p, sizeof value);
  return value;
}
template <class T>
inline void store(void* p, T value, Site site) {
  check((Bits)p % sizeof(T) == 0, "a store that is not aligned, at", p, site);
  memcpy(p, &value, sizeof value);
}

// The value that lane `from` gives; lanes of a mask call it together.
template <class T>
inline T taken(Bits mask, T value, Word from, Word kind, Site site) {
  Bits bits = 0;
  memcpy(&bits, &value, sizeof value);
  const Bits* const all = machine->exchange(mask, kind, &bits, 1, site);
  if (from >= machine->current->lanes || (mask >> from & 1) == 0)
    machine->fail("a value is taken from a lane that gives none:", from, site);
  memcpy(&value, all + from, sizeof value);
  return value;
}

// A kernel's parameter, as a launch holds it: its bytes, wherever they lie. A struct of tensor maps asks for 64-byte
// alignment, which drivers don't.
template <class P>
inline P given(const void* from) {
  P value;
  memcpy(&value, from, sizeof value);
  return value;
}

// A kernel with its parameters by value.
template <int... I>
struct Places {};
template <int count, int... I>
struct FirstPlaces : FirstPlaces<count - 1, count - 1, I...> {};
template <int... I>
struct FirstPlaces<0, I...> {
  using type = Places<I...>;
};
template <class... P, int... I>
inline void call_with(void (*kernel)(P...), const void* const* p, Places<I...>) {
  kernel(given<P>(p[I])...);
}
template <class... P>
inline void call(void (*kernel)(P...), const void* const* p) {
  call_with(kernel, p, typename FirstPlaces<sizeof...(P)>::type{});
}

}  // namespace codetta::emulator

#define CODETTA_SITE (::codetta::emulator::Site{__FILE__, __LINE__})
