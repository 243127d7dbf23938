// SPDX-License-Identifier: Apache-2.0
// Which instruction-set levels this process may use. It depends on nothing else of Codetta: emitted libraries link it.
#include <array>
#include <cstddef>

#include "codetta/target.hpp"
#include "types/cpuid.hpp"
#include "types/machine.hpp"

#if CODETTA_X86
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace codetta {
namespace {

constexpr size_t isa_levels = static_cast<size_t>(CpuIsa::amx) + 1;
using IsaSet = std::array<bool, isa_levels>;

#if CODETTA_X86
using types::bit;
using types::Cpuid;
using types::cpuid;

// Which register states the operating system saves (XCR0).
unsigned saved_states() {
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// AMX state is 8 KiB a thread, so Linux hands it out on request only (Documentation/arch/x86/xstate.rst).
bool request_amx() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long arch_req_xcomp_perm = 0x1023, xfeature_tile_data = 18;
  return syscall(SYS_arch_prctl, arch_req_xcomp_perm, xfeature_tile_data) == 0;
#else
  return false;
#endif
}

// Bits: Intel SDM volume 2, CPUID; volume 1, 13.3 (XCR0).
IsaSet detect() {
  IsaSet has{};
  const auto set = [&has](CpuIsa isa, bool value) { return has[static_cast<size_t>(isa)] = value; };
  set(CpuIsa::generic, true);
  const Cpuid one = cpuid(1, 0), seven = cpuid(7, 0), seven1 = cpuid(7, 1);
  if (!bit(one.ecx, 27)) return has;  // OSXSAVE
  const unsigned states = saved_states();
  const bool ymm = (states & 0x06) == 0x06, zmm = (states & 0xe6) == 0xe6, tiles = (states & 0x60000) == 0x60000;
  const bool avx2 =
      set(CpuIsa::avx2, ymm && bit(one.ecx, 28) && bit(one.ecx, 12) && bit(one.ecx, 29) && bit(seven.ebx, 5));
  const bool avx512 = set(CpuIsa::avx512, avx2 && zmm && bit(seven.ebx, 16) && bit(seven.ebx, 17) &&
                                              bit(seven.ebx, 28) && bit(seven.ebx, 30) && bit(seven.ebx, 31));
  const bool vnni = set(CpuIsa::avx512_vnni, avx512 && bit(seven.ecx, 11));
  const bool bf16 = set(CpuIsa::avx512_bf16, vnni && seven.eax >= 1 && bit(seven1.eax, 5));
  set(CpuIsa::amx, bf16 && tiles && bit(seven.edx, 22) && bit(seven.edx, 24) && bit(seven.edx, 25) && request_amx());
  return has;
}

#else
IsaSet detect() {
  IsaSet has{};
  has[static_cast<size_t>(CpuIsa::generic)] = true;
#if defined(__aarch64__)
  has[static_cast<size_t>(CpuIsa::neon)] = true;  // part of the AArch64 baseline
#endif
  return has;
}
#endif

bool detect_halves() {
#if CODETTA_X86
  if (cpuid(0, 0).ebx != signature_AMD_ebx) return false;
  const unsigned eax = cpuid(1, 0).eax, base = (eax >> 8) & 0xF;
  return (base == 0xF ? base + ((eax >> 20) & 0xFF) : base) == 0x19;
#else
  return false;
#endif
}

// Detection traps in virtual machines and the AMX request is a system call; both answers stay the same.
const IsaSet& supported_levels() {
  static const IsaSet set = detect();
  return set;
}

}  // namespace

bool cpu_supports(CpuIsa isa) {
  const auto i = static_cast<size_t>(isa);
  return i < isa_levels && supported_levels()[i];
}

namespace types {

bool halves_512_bit() {
  static const bool halves = detect_halves();
  return halves;
}

}  // namespace types
}  // namespace codetta
