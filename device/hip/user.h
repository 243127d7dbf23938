// SPDX-License-Identifier: Apache-2.0
// What stands in front of a kernel of the user's on an AMD GPU, beside gpu/user.h: floats of 16 bits, and what the
// language has without an include. Clang alone knows none of that; hiprtc declares it of its own accord.
#ifndef CODETTA_HIP_USER_H
#define CODETTA_HIP_USER_H

#include "device/gpu/user.h"
#include "device/hip/builtins.h"

#undef __launch_bounds__  // threads, and blocks of a compute unit at least
#define CODETTA_LAUNCH_BOUNDS(threads, ...) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define __launch_bounds__(...) CODETTA_LAUNCH_BOUNDS(__VA_ARGS__, 1)

namespace codetta {

// Floats of 16 bits, which convert to and from float, to nearest even; a kernel may take _Float16 or types of its own
// of the same size instead, such as __half.
struct float16 {
  uint16_t bits;
  float16() = default;
  __device__ float16(float value) { bits = static_cast<uint16_t>(gpu::to_f16(value)); }
  __device__ operator float() const { return gpu::unpack_f16(bits); }
};
struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  __device__ bfloat16(float value) { bits = static_cast<uint16_t>(gpu::to_bf16(value)); }
  __device__ operator float() const { return gpu::bits_to_float(static_cast<uint32_t>(bits) << 16); }
};

#ifdef __AMDGCN__
namespace user {
template <>
inline constexpr bool holds<float16, _Float16> = true;
}  // namespace user
#endif

}  // namespace codetta

#ifndef __HIPCC_RTC__
#include "device/hip/user_builtins.h"

// The type that a parameter has without being deduced from its argument.
template <class T>
struct CodettaPlain {
  using type = T;
};
template <class T>
using codetta_plain = typename CodettaPlain<T>::type;

template <class A, class B>
CODETTA_FN constexpr auto min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
CODETTA_FN constexpr auto max(A a, B b) {
  return a < b ? b : a;
}
CODETTA_FN float min(float a, float b) { return __builtin_fminf(a, b); }
CODETTA_FN float max(float a, float b) { return __builtin_fmaxf(a, b); }
CODETTA_FN double min(double a, double b) { return __builtin_fmin(a, b); }
CODETTA_FN double max(double a, double b) { return __builtin_fmax(a, b); }

// Values of other lanes: numbers of 4 or 8 bytes. `width`: lanes of a group, a power of two.
template <class T>
CODETTA_FN T codetta_of_lane(T value, int lane) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes exchange numbers of 4 or 8 bytes");
  uint32_t words[sizeof(T) / 4];
  __builtin_memcpy(words, &value, sizeof value);
  for (uint32_t& word : words) word = codetta::gpu::word_of_lane(word, static_cast<uint32_t>(lane));
  __builtin_memcpy(&value, words, sizeof value);
  return value;
}
template <class T>
CODETTA_FN T __shfl(T value, int from, int width = warpSize) {
  const int lane = codetta::gpu::lane_of_wave();
  return codetta_of_lane(value, (from & (width - 1)) + (lane & ~(width - 1)));
}
template <class T>
CODETTA_FN T __shfl_xor(T value, int bits, int width = warpSize) {
  const int lane = codetta::gpu::lane_of_wave(), from = lane ^ bits;
  return codetta_of_lane(value, from >= ((lane + width) & ~(width - 1)) ? lane : from);
}
template <class T>
CODETTA_FN T __shfl_up(T value, unsigned distance, int width = warpSize) {
  const int lane = codetta::gpu::lane_of_wave(), from = lane - static_cast<int>(distance);
  return codetta_of_lane(value, from < (lane & ~(width - 1)) ? lane : from);
}
template <class T>
CODETTA_FN T __shfl_down(T value, unsigned distance, int width = warpSize) {
  const int lane = codetta::gpu::lane_of_wave();
  const bool beyond = (lane & (width - 1)) + static_cast<int>(distance) >= width;
  return codetta_of_lane(value, beyond ? lane : lane + static_cast<int>(distance));
}

// Of the device's memory and of LDS: the value before.
template <class T>
CODETTA_FN T atomicAdd(T* p, codetta_plain<T> value) {
  return codetta::gpu::atomic_add(p, value);
}
template <class T>
CODETTA_FN T atomicMin(T* p, codetta_plain<T> value) {
  return codetta::gpu::atomic_min(p, value);
}
template <class T>
CODETTA_FN T atomicMax(T* p, codetta_plain<T> value) {
  return codetta::gpu::atomic_max(p, value);
}
template <class T>
CODETTA_FN T atomicExch(T* p, codetta_plain<T> value) {
  return codetta::gpu::atomic_exchange(p, value);
}
template <class T>
CODETTA_FN T atomicCAS(T* p, codetta_plain<T> wanted, codetta_plain<T> value) {
  return codetta::gpu::atomic_swap(p, wanted, value);
}
#endif

#endif
