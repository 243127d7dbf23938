// SPDX-License-Identifier: Apache-2.0
// Policies in GNU vector extensions over 16-byte vectors: what the compiler's baseline gives, and Advanced SIMD on AArch64.
// The multiply-add contracts where the file is compiled with -ffp-contract=fast and the machine has one.
#pragma once

#include "device/cpu/micro/packers.inl"

namespace codetta::cpu::CODETTA_MICRO_ISA {

template <class T>
struct Vector {
  typedef T Type __attribute__((vector_size(16)));
};
template <class To, class From>
CODETTA_INLINE To bits(From v) {
  return __builtin_bit_cast(To, v);
}

template <class T, class Sum = T>
struct Lanes {
  using A = T;
  using Acc = T;
  using Vec = typename Vector<T>::Type;
  using AVec = Vec;
  using BVec = Vec;
  static constexpr int lanes = 16 / static_cast<int>(sizeof(T)), group = 1, b_step = 16;
  CODETTA_INLINE static Vec zero() { return Vec{}; }
  CODETTA_INLINE static Vec load_c(const void* p) {
    Vec v;
    __builtin_memcpy(&v, p, 16);
    return v;
  }
  CODETTA_INLINE static Vec load_c_partial(const void* p, i64 n) {
    Vec v{};
    for (i64 i = 0; i < n; ++i) v[i] = static_cast<const T*>(p)[i];
    return v;
  }
  CODETTA_INLINE static void store_c(void* p, Vec v) { __builtin_memcpy(p, &v, 16); }
  CODETTA_INLINE static void store_c_partial(void* p, Vec v, i64 n) {
    for (i64 i = 0; i < n; ++i) static_cast<T*>(p)[i] = v[i];
  }
  CODETTA_INLINE static AVec broadcast(const void* p) { return *static_cast<const T*>(p) - Vec{}; }
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  CODETTA_INLINE static BVec load_b_partial(const void* p, i64 n) { return load_c_partial(p, n); }
  CODETTA_INLINE static Vec add(Vec a, Vec b) {
    using Sums = typename Vector<Sum>::Type;
    return bits<Vec>(bits<Sums>(a) + bits<Sums>(b));
  }
  CODETTA_INLINE static T add_scalar(T a, T b) { return static_cast<T>(static_cast<Sum>(a) + static_cast<Sum>(b)); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) {
    using Sums = typename Vector<Sum>::Type;  // unsigned for integers, which wrap
    return bits<Vec>(bits<Sums>(c) + bits<Sums>(a) * bits<Sums>(b));
  }
};
using F32 = Lanes<float>;
using F64 = Lanes<double>;
using I32 = Lanes<i32, u32>;
using I64 = Lanes<i64, u64>;

struct I16 : I32 {
  using A = i16;
  static constexpr int group = 2;
  CODETTA_INLINE static AVec broadcast(const void* p) {
    i32 word;
    __builtin_memcpy(&word, p, 4);
    return AVec{word, word, word, word};
  }
  CODETTA_INLINE static AVec broadcast_tail(const void* p, i64) {
    const i32 word = *static_cast<const u16*>(p);
    return AVec{word, word, word, word};
  }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) {
#if defined(__SSE2__)
    typedef short Shorts __attribute__((vector_size(16)));
    return I32::add(c, bits<Vec>(__builtin_ia32_pmaddwd128(bits<Shorts>(a), bits<Shorts>(b))));
#else
    const Vec low = ((a << 16) >> 16) * ((b << 16) >> 16);
    return I32::add(c, I32::add(low, (a >> 16) * (b >> 16)));
#endif
  }
};

// B widened element by element from a stored type; the compiler finds the widening moves.
template <class P, class From>
struct Widened : P {
  static constexpr int b_step = P::lanes * static_cast<int>(sizeof(From));
  CODETTA_INLINE static typename P::BVec load_b(const void* p) {
    typename P::BVec v{};
    for (int i = 0; i < P::lanes; ++i) v[i] = static_cast<typename P::Acc>(value(static_cast<const From*>(p)[i]));
    return v;
  }
  CODETTA_INLINE static typename P::BVec load_b_partial(const void* p, i64 n) {
    typename P::BVec v{};
    for (i64 i = 0; i < n; ++i) v[i] = static_cast<typename P::Acc>(value(static_cast<const From*>(p)[i]));
    return v;
  }
};
using Bf16Source = Widened<F32, Bfloat>;
using F16Source = Widened<F32, Half>;
using I8Source = Widened<I32, i8>;
using U8Source = Widened<I32, u8>;

// Two vector counts: the wide block and one vector.
template <class P, int V, int R, int R1, bool InPlace>
constexpr KernelSet set_of() {
  KernelSet set;
  add_blocks<P, V, R, InPlace>(set);
  add_blocks<P, 1, R1, InPlace>(set);
  return set;
}
template <int V, int R, int R1>
constexpr MicroTable make_table() {
  return level_table(
      {set_of<F32, V, R, R1, true>(), set_of<F64, V, R, R1, true>(), set_of<I32, V, R, R1, true>(),
       set_of<I16, V, R, R1, false>(), set_of<I64, V, R, R1, false>()},
      {set_of<Bf16Source, V, R, R1, true>(), set_of<F16Source, V, R, R1, true>(), set_of<I8Source, V, R, R1, true>(),
       set_of<U8Source, V, R, R1, true>()},
      {dot_set<F32, 2, 2>(), dot_set<F64, 2, 2>(), dot_set<I32, 2, 2>(), dot_set<Bf16Source, 2, 2>(),
       dot_set<F16Source, 2, 2>(), dot_set<I8Source, 2, 2>(), dot_set<U8Source, 2, 2>()});
}

}  // namespace codetta::cpu::CODETTA_MICRO_ISA
