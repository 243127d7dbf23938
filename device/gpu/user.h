// SPDX-License-Identifier: Apache-2.0
// What stands in front of a kernel of the user's on any GPU: names of element types, and a check of what its function
// takes. Includes nothing; the user's source may include what its compiler finds.
#ifndef CODETTA_GPU_USER_H
#define CODETTA_GPU_USER_H

// ROCm before 7 declares these in hiprtc.
#if !defined(__HIPCC_RTC__) || HIP_VERSION_MAJOR >= 7
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
#endif

namespace codetta {

// Floats of 16 bits are in the file that includes this one; of 8-bit floats there are the bits.
struct float16;
struct bfloat16;
struct float8_e4m3 {
  uint8_t bits;
};
struct float8_e5m2 {
  uint8_t bits;
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

#endif
