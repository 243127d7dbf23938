// SPDX-License-Identifier: Apache-2.0
// In the place of the real mma.h: shared memory is an array, and a read of global memory is checked against the
// operand.
#pragma once

#include <cstdint>
#include <cstring>

#include "device/gpu/abi.h"

#define CODETTA_FN static inline
#define CODETTA_MEMBER inline

namespace codetta::gpu::host {
inline unsigned char shared[1 << 16];
inline const char *lowest, *highest;  // of the operand
inline int misreads;
}  // namespace codetta::gpu::host

struct uint4 {
  unsigned x, y, z, w;
};
template <class T>
T __ldg(const T* p) {
  const char* const at = reinterpret_cast<const char*>(p);
  T value{};
  if (at < codetta::gpu::host::lowest || at + sizeof(T) > codetta::gpu::host::highest ||
      reinterpret_cast<uintptr_t>(p) % sizeof(T) != 0)
    ++codetta::gpu::host::misreads;
  else
    std::memcpy(&value, p, sizeof value);
  return value;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((uint64_t{high} << 32) | low) >> (shift & 31));
}

namespace codetta::gpu {

template <bool, class Yes, class No>
struct Choose {
  using type = Yes;
};
template <class Yes, class No>
struct Choose<false, Yes, No> {
  using type = No;
};

namespace ptx {
template <int unit>
void copy_async(u32 to, const void* from, u32 valid) {
  std::memset(host::shared + to, 0, unit);
  const char* const at = static_cast<const char*>(from);
  if (valid == 0) return;
  if (at < host::lowest || at + valid > host::highest || reinterpret_cast<uintptr_t>(at) % unit != 0)
    ++host::misreads;
  else
    std::memcpy(host::shared + to, from, valid);
}
// Brings nothing that is read: it may ask for what is not there.
inline void prefetch_l2(const void*) {}
inline void store_shared_four(u32 to, uint4 v) { std::memcpy(host::shared + to, &v, 16); }
// Fragments are the device's business.
template <bool transposed>
void load_matrices(u32 (&)[4], u32);
u32 load_shared(u32);
double load_shared_f64(u32);
template <u32 choice>
u32 permute(u32, u32);
}  // namespace ptx

}  // namespace codetta::gpu
