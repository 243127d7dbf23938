// SPDX-License-Identifier: Apache-2.0
// What to compile for: cpu[:isa] | cuda[:sm_NN[a|f]] | hip[:gfxN] | metal[:family] | cutlass:sm_NN.
#pragma once

#include <string>
#include <string_view>

#include "codetta/error.hpp"

namespace codetta {

// Instruction-set levels of CPUs. On x86 each implies those before it (neon apart). Values are part of file formats.
enum class CpuIsa : uint8_t {
  generic = 0,      // what the compiler's baseline gives
  neon = 1,         // AArch64 Advanced SIMD
  avx2 = 2,         // AVX2 + FMA + F16C
  avx512 = 3,       // F, BW, DQ, VL, CD
  avx512_vnni = 4,  // + VNNI (u8 x s8 dot products)
  avx512_bf16 = 5,  // + BF16 dot products
  amx = 6,          // + AMX TILE, BF16, INT8
};
CODETTA_API std::string_view isa_name(CpuIsa isa);
CODETTA_API bool cpu_supports(CpuIsa isa);  // this machine, now; AMX asks the kernel for permission once

enum class Backend : uint8_t { cpu, cuda, hip, metal, cutlass };

struct CODETTA_API Target {
  Backend backend = Backend::cpu;
  CpuIsa isa = CpuIsa::generic;  // cpu only
  std::string arch;              // "sm_90a", "gfx942", ...; empty for cpu

  // Errors: E0401 unknown target, E0402 unknown ISA or architecture (both with "did you mean").
  static Result<Target> parse(std::string_view text);
  static Target host();  // the best ISA of this CPU
  [[nodiscard]] std::string to_string() const;
  bool operator==(const Target&) const = default;
};

// Can this machine run code for `target` now? For cuda and hip: is there a device, of that architecture if one is
// named. Errors: E0403 with what was looked for and what is there; E0640 to E0642 (no driver, too old, no device),
// E0654 (hip).
CODETTA_API Result<void> device_supports(const Target& target);

}  // namespace codetta
