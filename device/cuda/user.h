// SPDX-License-Identifier: Apache-2.0
// What stands in front of a kernel of the user's on an NVIDIA GPU, beside gpu/user.h: floats of 16 bits and tensor
// maps.
#ifndef CODETTA_CUDA_USER_H
#define CODETTA_CUDA_USER_H

#include "device/gpu/user.h"

namespace codetta {

// Floats of 16 bits, which convert to and from float, to nearest even; a kernel may take types of its own of the
// same size instead, such as __half.
struct float16 {
  uint16_t bits;
  float16() = default;
  __device__ float16(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  __device__ operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  __device__ bfloat16(float value) {
    const uint32_t wide = __float_as_uint(value);
    const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? (wide >> 16) | 0x40u : (wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
  }
  __device__ operator float() const { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }
};

// How the copy engine walks a tensor: a kernel takes it as `const __grid_constant__ TensorMap x` and uses its address.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

namespace user {

struct Map {  // const T of the driver's size and alignment, by value
  template <class P>
  static constexpr bool fits = __is_class(P) && sizeof(P) == sizeof(TensorMap) && alignof(P) >= alignof(TensorMap);
};

}  // namespace user
}  // namespace codetta

using codetta::TensorMap;

#endif
