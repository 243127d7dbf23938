// SPDX-License-Identifier: Apache-2.0
// What stands in front of a kernel of the user's on an NVIDIA GPU: names of element types, and a check of what its
// function takes. Includes nothing; the user's source may include what its compiler finds.
#ifndef CODETTA_CUDA_USER_H
#define CODETTA_CUDA_USER_H

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;

namespace codetta {

// Floats of 16 bits, which convert to and from float, to nearest even; of 8-bit floats there are the bits. A kernel may
// take types of its own of the same size instead, such as __half.
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
struct float8_e4m3 {
  uint8_t bits;
};
struct float8_e5m2 {
  uint8_t bits;
};

// How the copy engine walks a tensor: a kernel takes it as `const __grid_constant__ TensorMap x` and uses its address.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

namespace user {

// Whether a parameter holds elements of T: T itself; an integer of the same size and signedness; for floats of 16 and 8
// bits any class of their size but the ones above, which mean another type.
template <class A, class B>
constexpr bool same = false;
template <class A>
constexpr bool same<A, A> = true;
template <class T>
constexpr bool is_float = same<T, float> || same<T, double>;
template <class T, bool is_class = __is_class(T)>
constexpr bool is_signed = T(-1) < T(0);
template <class T>
constexpr bool is_signed<T, true> = false;
template <class P>
constexpr bool is_own = same<P, float16> || same<P, bfloat16> || same<P, float8_e4m3> || same<P, float8_e5m2>;
template <class T, class P>
constexpr bool holds = same<T, P> || (__is_class(T) && __is_class(P) && !is_own<P> && sizeof(T) == sizeof(P)) ||
                       (!__is_class(T) && !__is_class(P) && !__is_enum(P) && sizeof(T) == sizeof(P) && !is_float<T> &&
                        !is_float<P> && !same<T, bool> && !same<P, bool> && is_signed<T> == is_signed<P>);

template <class T, class P>
constexpr bool reads = false;
template <class T, class P>
constexpr bool reads<T, const P*> = holds<T, P>;
template <class T, class P>
constexpr bool writes = false;
template <class T, class P>
constexpr bool writes<T, P*> = holds<T, P>;
template <class T, class P>
constexpr bool writes<T, const P*> = false;

template <class T>
struct Number {
  template <class P>
  static constexpr bool fits = holds<T, P>;
};
template <class T>
struct Operand {  // const T*
  template <class P>
  static constexpr bool fits = reads<T, P>;
};
template <class T>
struct Result {  // T*
  template <class P>
  static constexpr bool fits = writes<T, P>;
};

struct Map {  // const T of the driver's size and alignment, by value
  template <class P>
  static constexpr bool fits = __is_class(P) && sizeof(P) == sizeof(TensorMap) && alignof(P) >= alignof(TensorMap);
};

template <class Function, class... Wanted>
constexpr bool takes = false;
template <bool equally_many, class... P>
struct Each {
  template <class... Wanted>
  static constexpr bool fit = (Wanted::template fits<P> && ...);
};
template <class... P>
struct Each<false, P...> {
  template <class... Wanted>
  static constexpr bool fit = false;
};
template <class... P, class... Wanted>
constexpr bool takes<void (*)(P...), Wanted...> =
    Each<sizeof...(P) == sizeof...(Wanted), P...>::template fit<Wanted...>;

}  // namespace user
}  // namespace codetta

using codetta::bfloat16;
using codetta::float16;
using codetta::float8_e4m3;
using codetta::float8_e5m2;
using codetta::TensorMap;

#endif
