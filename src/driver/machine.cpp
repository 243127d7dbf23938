// SPDX-License-Identifier: Apache-2.0
// Facts of this machine for the cost model.
#include "driver/machine.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace codetta::driver {
namespace {

// Servers of Intel's from Sapphire Rapids on: what a core has in the last-level cache lies with all the others.
bool has_far_l3([[maybe_unused]] const types::CpuFacts& facts) {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ebx == signature_INTEL_ebx && facts.best == CpuIsa::amx &&
         facts.l2 >= (int64_t{2} << 20);
#else
  return false;
#endif
}

}  // namespace

plan::MachineFacts machine_facts(const types::CpuFacts& facts, CpuIsa isa, int cores) {
  plan::MachineFacts machine;
  machine.isa = isa;
  machine.cores = cores;
  machine.l1 = facts.l1d;
  machine.l2 = facts.l2;
  machine.l3 = facts.l3;
  machine.fma_vectors_per_clock = isa == CpuIsa::generic ? 1 : 2;
  if (types::isa_info(isa).vector_bytes == 64 && types::halves_512_bit()) machine.fma_vectors_per_clock = 1;
  if (has_far_l3(facts)) {  // measured with one core
    machine.l3_rate = 22;
    machine.memory_rate = 13;
  }
  return machine;
}

}  // namespace codetta::driver
