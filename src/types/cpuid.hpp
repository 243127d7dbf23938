// SPDX-License-Identifier: Apache-2.0
// The CPUID instruction. Private to the room.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define CODETTA_X86 1
#else
#define CODETTA_X86 0
#endif

#if CODETTA_X86
namespace codetta::types {

struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
inline Cpuid cpuid(unsigned leaf, unsigned subleaf) {
  Cpuid r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}
constexpr bool bit(unsigned word, int position) { return ((word >> position) & 1u) != 0; }

}  // namespace codetta::types
#endif
