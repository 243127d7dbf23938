// SPDX-License-Identifier: Apache-2.0
// The complete micro-kernel table of each instruction-set level. Compiled for the baseline.
#include "device/cpu/micro/table.hpp"

namespace codetta::cpu {
namespace {

static_assert(static_cast<int>(DType::f64) + 1 == dtype_slots && static_cast<int>(DType::f8e4m3) == 9 &&
              static_cast<int>(DType::u8) == 5 && static_cast<int>(DType::f16) == 11);

[[maybe_unused]] MicroTable with(MicroTable base, const MicroTable& more) {
  for (int i = 0; i < product_count; ++i) {
    if (more.packed[i].lanes != 0) base.packed[i] = more.packed[i];
  }
  base.enter = more.enter;
  base.leave = more.leave;
  return base;
}

}  // namespace

const MicroTable* micro_table(CpuIsa isa) {
#if defined(CODETTA_GENERIC_ONLY)
#elif defined(__x86_64__)
  static const MicroTable vnni = with(avx512_table(), avx512_vnni_table());
  static const MicroTable bf16 = with(vnni, avx512_bf16_table());
  static const MicroTable amx = with(bf16, amx_table());
  switch (isa) {
    case CpuIsa::avx2:
      return &avx2_table();
    case CpuIsa::avx512:
      return &avx512_table();
    case CpuIsa::avx512_vnni:
      return &vnni;
    case CpuIsa::avx512_bf16:
      return &bf16;
    case CpuIsa::amx:
      return &amx;
    default:
      break;
  }
#elif defined(__aarch64__)
  if (isa == CpuIsa::neon) return &neon_table();
#endif
  return isa == CpuIsa::generic ? &generic_table() : nullptr;
}

}  // namespace codetta::cpu
