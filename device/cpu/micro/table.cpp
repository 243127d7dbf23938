// SPDX-License-Identifier: Apache-2.0
// Access to the complete micro-kernel tables. Compiled for the baseline, as part of libcodetta with all levels, and
// once for each level (CODETTA_ONLY_LEVEL) as what an emitted library of that level links in its place.
#include "device/cpu/micro/table_of.hpp"

namespace codetta::cpu {

static_assert(static_cast<int>(DType::f64) + 1 == dtype_slots && static_cast<int>(DType::f8e4m3) == 9 &&
              static_cast<int>(DType::u8) == 5 && static_cast<int>(DType::f16) == 11);

const MicroTable* micro_table(CpuIsa isa) {
#if defined(CODETTA_GENERIC_ONLY)
  return isa == CpuIsa::generic ? table_of<CpuIsa::generic>() : nullptr;
#elif defined(CODETTA_ONLY_LEVEL)
  // Kernels of a level may read the panels of a lower one of its family, whose kernels are among its own.
  constexpr CpuIsa level = CpuIsa::CODETTA_ONLY_LEVEL;
  if constexpr (level >= CpuIsa::avx512) {
    if (isa == CpuIsa::avx512) return table_of<CpuIsa::avx512>();
  }
  if constexpr (level >= CpuIsa::avx512_vnni) {
    if (isa == CpuIsa::avx512_vnni) return table_of<CpuIsa::avx512_vnni>();
  }
  if constexpr (level >= CpuIsa::avx512_bf16) {
    if (isa == CpuIsa::avx512_bf16) return table_of<CpuIsa::avx512_bf16>();
  }
  return isa == level ? table_of<level>() : nullptr;
#else
  switch (isa) {
    case CpuIsa::generic:
      return table_of<CpuIsa::generic>();
    case CpuIsa::neon:
      return table_of<CpuIsa::neon>();
    case CpuIsa::avx2:
      return table_of<CpuIsa::avx2>();
    case CpuIsa::avx512:
      return table_of<CpuIsa::avx512>();
    case CpuIsa::avx512_vnni:
      return table_of<CpuIsa::avx512_vnni>();
    case CpuIsa::avx512_bf16:
      return table_of<CpuIsa::avx512_bf16>();
    case CpuIsa::amx:
      return table_of<CpuIsa::amx>();
  }
  return nullptr;
#endif
}

}  // namespace codetta::cpu
