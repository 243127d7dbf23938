// SPDX-License-Identifier: Apache-2.0
// What stands in front of a kernel of the user's: tensors with a type and a rank, and how the caller's are turned into
// them. Includes nothing but <stdint.h>; the user's source may include what it likes.
#ifndef CODETTA_USER_H
#define CODETTA_USER_H

#include <stdint.h>

// What the executor finds. By GCC all else is of the kernel's file alone (-fwhole-program), for libraries link several,
// whose functions may have the same names; of Clang's files what is neither static nor in an unnamed namespace is not.
#ifdef __clang__
#define CODETTA_FOUND __attribute__((visibility("default")))
#else
#define CODETTA_FOUND __attribute__((visibility("default"), externally_visible))
#endif

namespace codetta {

// Elements of type T over Rank dims, where the caller has them: strides count elements. x(i, j) is one of them.
template <class T, int Rank>
struct Tensor {
  T* data;
  int64_t sizes[Rank > 0 ? Rank : 1];
  int64_t strides[Rank > 0 ? Rank : 1];

  int64_t size(int dim) const { return sizes[dim]; }
  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank, "one index a dim");
    const int64_t at[] = {static_cast<int64_t>(index)..., 0};
    int64_t offset = 0;
    for (int d = 0; d < Rank; ++d) offset += at[d] * strides[d];
    return data[offset];
  }
};

// Floats of 16 and 8 bits. bfloat16 converts to and from float, to nearest even; of 8-bit floats there are the bits.
#if defined(__aarch64__) && !defined(__clang__) && __GNUC__ < 13
using float16 = __fp16;  // that GCC knows _Float16 in C only
#else
using float16 = _Float16;
#endif
struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  bfloat16(float value) {
    uint32_t wide = 0;
    __builtin_memcpy(&wide, &value, sizeof wide);
    const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? (wide >> 16) | 0x40u : (wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
  }
  operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value = 0;
    __builtin_memcpy(&value, &wide, sizeof value);
    return value;
  }
};
struct float8_e4m3 {
  uint8_t bits;
};
struct float8_e5m2 {
  uint8_t bits;
};

namespace detail {

// CodettaTensor of codetta/extern.h.
struct Given {
  void* data;
  int64_t shape[8];
  int64_t strides[8];
  int32_t rank, dtype, device, reserved;
  void (*release)(Given*);
  void* owner;
};

template <class T, int Rank>
Tensor<T, Rank> tensor(const Given& given) {
  Tensor<T, Rank> made{};
  made.data = static_cast<T*>(given.data);
  for (int d = 0; d < Rank; ++d) {
    made.sizes[d] = given.shape[d];
    made.strides[d] = given.strides[d];
  }
  return made;
}
template <class T>
T value(const Given& given) {
  return *static_cast<const T*>(given.data);
}

// A function that returns an int says 0 or a code of its own; one that returns nothing has not failed.
struct Done {};
inline int operator,(int code, Done) { return code; }
inline int status(Done) { return 0; }
inline int status(int code) { return code; }

}  // namespace detail
}  // namespace codetta

using codetta::bfloat16;
using codetta::float16;
using codetta::float8_e4m3;
using codetta::float8_e5m2;
using codetta::Tensor;

#endif
