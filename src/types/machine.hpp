// SPDX-License-Identifier: Apache-2.0
// Facts about instruction sets (targets.def) and about the processor that runs this (CPUID, sysconf, /sys).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codetta/target.hpp"
#include "codetta/tensor.hpp"

namespace codetta::types {

enum class CpuArchitecture : uint8_t { any, x86, arm };

struct IsaInfo {
  CpuIsa isa;
  std::string_view name;
  CpuArchitecture architecture;
  int vector_bytes;
  int vector_registers;
  std::string_view has;  // "AVX2, FMA and F16C"
};
std::span<const IsaInfo> all_isas();  // in the order of CpuIsa
const IsaInfo& isa_info(CpuIsa isa);

// Whether this machine runs code for a CPU target. Errors: E0403 with what the processor has.
Result<void> cpu_target_runs(const Target& target);

// What one accumulated product costs; see targets.def.
struct AccumulationModel {
  std::string_view name;  // "dot2_bf16"
  DType accumulator;
  int roundings;           // per product, each of relative size unit_roundoff; 0: exact
  int extra_roundings;     // per dot product
  bool flushes_denormals;  // of operands and of results, at the least normal f32
  std::string_view doc;
  double unit_roundoff;  // of the accumulator; 0 for integers
  double flush_below;    // 2^-126, or 0 when nothing is flushed
};
// The least exact instruction that kernels of this level may use for operands of this type. Of bool and wide integers:
// exact_i32.
const AccumulationModel& accumulation_model(CpuIsa isa, DType operand);

// Whether this processor splits each 512-bit operation in two halves: AMD family 19h (Zen 4) issues one 512-bit FMA a
// clock, not two. Asked once.
bool halves_512_bit();

// Caches in bytes: of one core where it has its own, L3 as shared; what the system doesn't tell is as here.
struct CpuFacts {
  std::string name;          // "AMD EPYC 9654", or the architecture
  std::vector<CpuIsa> isas;  // what this process may use, ascending
  CpuIsa best = CpuIsa::generic;
  int cores = 1;  // logical processors that this process may run on, at least 1
  int64_t l1d = 32 << 10;
  int64_t l2 = 1 << 20;
  int64_t l3 = 8 << 20;
};
// Reads everything anew (tens of microseconds in a virtual machine).
CpuFacts read_cpu_facts();

}  // namespace codetta::types
