// SPDX-License-Identifier: Apache-2.0
// The complete table of one instruction-set level, put together from those of the single files. Whoever names a level
// here links its kernels; no other level comes with it.
#pragma once

#include "device/cpu/micro/table.hpp"

namespace codetta::cpu {

constexpr MicroTable with(MicroTable base, const MicroTable& more) {
  for (int i = 0; i < product_count; ++i) {
    if (more.packed[i].lanes != 0) base.packed[i] = more.packed[i];
  }
  base.enter = more.enter;
  base.leave = more.leave;
  return base;
}

// Null where this is built for another architecture.
template <CpuIsa level>
const MicroTable* table_of() {
#if defined(__x86_64__)
  if constexpr (level == CpuIsa::avx2) return &avx2_table();
  if constexpr (level == CpuIsa::avx512) return &avx512_table();
  if constexpr (level == CpuIsa::avx512_vnni) {
    static const MicroTable table = with(avx512_table(), avx512_vnni_table());
    return &table;
  }
  if constexpr (level == CpuIsa::avx512_bf16) {
    static const MicroTable table = with(*table_of<CpuIsa::avx512_vnni>(), avx512_bf16_table());
    return &table;
  }
  if constexpr (level == CpuIsa::amx) {
    static const MicroTable table = with(*table_of<CpuIsa::avx512_bf16>(), amx_table());
    return &table;
  }
#elif defined(__aarch64__)
  if constexpr (level == CpuIsa::neon) return &neon_table();
#endif
  if constexpr (level == CpuIsa::generic) return &generic_table();
  return nullptr;
}

}  // namespace codetta::cpu
