// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu/machine.hpp"

#include <sched.h>

#include <cstdint>

#include "codetta/target.hpp"

namespace codetta::bench {

#if defined(__x86_64__)
#define CODETTA_TWELVE(I, r) \
  I(0, r) I(1, r) I(2, r) I(3, r) I(4, r) I(5, r) I(6, r) I(7, r) I(8, r) I(9, r) I(10, r) I(11, r)
#define CODETTA_FMA(i, r) "vfmadd231ps %%" #r "mm14, %%" #r "mm15, %%" #r "mm" #i "\n"
#define CODETTA_BF16(i, r) "vdpbf16ps %%" #r "mm14, %%" #r "mm15, %%" #r "mm" #i "\n"
#define CODETTA_INT8(i, r) "vpdpbusd %%" #r "mm14, %%" #r "mm15, %%" #r "mm" #i "\n"
PeakLoop peak_loop(DType dtype) {
  constexpr int steps = 20000;
  const bool wide = cpu_supports(CpuIsa::avx512);
  if (dtype == f32 && wide) {
    return {[] {
              for (int i = 0; i < steps; ++i) asm volatile(CODETTA_TWELVE(CODETTA_FMA, z)::: "memory");
            },
            12.0 * 32 * steps};
  }
  if (dtype == f32 && cpu_supports(CpuIsa::avx2)) {
    return {[] {
              for (int i = 0; i < steps; ++i) asm volatile(CODETTA_TWELVE(CODETTA_FMA, y)::: "memory");
            },
            12.0 * 16 * steps};
  }
  if (dtype == bf16 && cpu_supports(CpuIsa::avx512_bf16)) {
    return {[] {
              for (int i = 0; i < steps; ++i) asm volatile(CODETTA_TWELVE(CODETTA_BF16, z)::: "memory");
            },
            12.0 * 64 * steps};
  }
  if (dtype == u8 && cpu_supports(CpuIsa::avx512_vnni)) {
    return {[] {
              for (int i = 0; i < steps; ++i) asm volatile(CODETTA_TWELVE(CODETTA_INT8, z)::: "memory");
            },
            12.0 * 128 * steps};
  }
  return {};
}
#else
PeakLoop peak_loop(DType) { return {}; }
#endif

void read_all(const void* data, size_t bytes) {
  using Vector [[gnu::vector_size(64), gnu::aligned(16)]] = uint64_t;
  const Vector* p = static_cast<const Vector*>(data);
  // Four streams at once, each fetched ahead: one alone does not keep enough lines on their way.
  const size_t quarter = bytes / 256;
  Vector s0{}, s1{}, s2{}, s3{};
  for (size_t i = 0; i < quarter; ++i) {
    for (size_t stream = 0; stream < 4; ++stream) __builtin_prefetch(p + stream * quarter + i + 16);
    s0 += p[i];
    s1 += p[quarter + i];
    s2 += p[2 * quarter + i];
    s3 += p[3 * quarter + i];
  }
  s0 += s1 + s2 + s3;
  asm volatile("" : : "r"(s0[0] ^ s0[1] ^ s0[2] ^ s0[3] ^ s0[4] ^ s0[5] ^ s0[6] ^ s0[7]));
}

void pin_to_one_core() {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&one);
  for (int i = CPU_SETSIZE - 1; i >= 0; --i) {
    if (!CPU_ISSET(i, &allowed)) continue;
    CPU_SET(i, &one);
    break;
  }
  sched_setaffinity(0, sizeof one, &one);
}

}  // namespace codetta::bench
