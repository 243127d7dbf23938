// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu/machine.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "bench/cpu/clock.hpp"
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

namespace {

using Line [[gnu::vector_size(64), gnu::aligned(16)]] = uint64_t;

// With the widest registers that there are.
#if defined(__x86_64__)
#define CODETTA_WIDEST [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define CODETTA_WIDEST
#endif

[[gnu::always_inline]] inline void use(const Line& x) {
  asm volatile("" : : "r"(x[0] ^ x[1] ^ x[2] ^ x[3] ^ x[4] ^ x[5] ^ x[6] ^ x[7]));
}

CODETTA_WIDEST void read_one_stream(const void* data, size_t bytes) {
  const Line* p = static_cast<const Line*>(data);
  Line s[8]{};
  for (size_t i = 0; i < bytes / 512; ++i, p += 8) {
    for (size_t j = 0; j < 8; ++j) s[j] += p[j];
  }
  use(s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7]);
}

// Each fetched ahead.
CODETTA_WIDEST void read_four_streams(const void* data, size_t bytes) {
  const Line* p = static_cast<const Line*>(data);
  const size_t quarter = bytes / 256;
  Line s0{}, s1{}, s2{}, s3{};
  for (size_t i = 0; i < quarter; ++i) {
    for (size_t stream = 0; stream < 4; ++stream) __builtin_prefetch(p + stream * quarter + i + 16);
    s0 += p[i];
    s1 += p[quarter + i];
    s2 += p[2 * quarter + i];
    s3 += p[3 * quarter + i];
  }
  use(s0 + s1 + s2 + s3);
}

}  // namespace

void read_all(const void* data, size_t bytes) {
  // One stream keeps enough lines on their way on some processors, four on others.
  static const bool one_is_faster = [&] {
    double least[2] = {1e9, 1e9};
    for (int round = 0; round < 5; ++round) {
      const double start = now(Clock::Processor);
      read_one_stream(data, bytes);
      const double middle = now(Clock::Processor);
      read_four_streams(data, bytes);
      least[0] = std::min(least[0], middle - start);
      least[1] = std::min(least[1], now(Clock::Processor) - middle);
    }
    return least[0] < least[1];
  }();
  one_is_faster ? read_one_stream(data, bytes) : read_four_streams(data, bytes);
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
