// SPDX-License-Identifier: Apache-2.0
// One table entry per op and compute dtype; compiled with -O3 so that the loops become vector code.
#include "runtime/cpu/tape_kernels.hpp"

#include <type_traits>

#include "runtime/cpu/tape_math.hpp"

namespace codetta::runtime::cpu::tape {
namespace {

template <class T>
const T* source(const std::byte* const* sources, int i) {
  return reinterpret_cast<const T*>(sources[i]);
}

template <class T, auto f>
void map1(std::byte* dst, const std::byte* const* s, int64_t lanes) {
  T* __restrict out = reinterpret_cast<T*>(dst);
  const T* __restrict x = source<T>(s, 0);
  for (int64_t i = 0; i < lanes; ++i) out[i] = f(x[i]);
}
template <class T, auto f>
void map2(std::byte* dst, const std::byte* const* s, int64_t lanes) {
  T* __restrict out = reinterpret_cast<T*>(dst);
  const T* __restrict x = source<T>(s, 0), * __restrict y = source<T>(s, 1);
  for (int64_t i = 0; i < lanes; ++i) out[i] = f(x[i], y[i]);
}
template <class T, auto f>
void map3(std::byte* dst, const std::byte* const* s, int64_t lanes) {
  T* __restrict out = reinterpret_cast<T*>(dst);
  const T* __restrict x = source<T>(s, 0), * __restrict y = source<T>(s, 1), * __restrict z = source<T>(s, 2);
  for (int64_t i = 0; i < lanes; ++i) out[i] = f(x[i], y[i], z[i]);
}

template <class T, Op op>
void compare(std::byte* dst, const std::byte* const* s, int64_t lanes) {
  uint8_t* __restrict out = reinterpret_cast<uint8_t*>(dst);
  const T* __restrict x = source<T>(s, 0), * __restrict y = source<T>(s, 1);
  for (int64_t i = 0; i < lanes; ++i) {
    bool r;
    if constexpr (op == Op::eq)
      r = x[i] == y[i];
    else if constexpr (op == Op::ne)
      r = x[i] != y[i];
    else if constexpr (op == Op::lt)
      r = x[i] < y[i];
    else if constexpr (op == Op::le)
      r = x[i] <= y[i];
    else if constexpr (op == Op::gt)
      r = x[i] > y[i];
    else
      r = x[i] >= y[i];
    out[i] = r ? 1 : 0;
  }
}
template <class T>
void choose(std::byte* dst, const std::byte* const* s, int64_t lanes) {
  T* __restrict out = reinterpret_cast<T*>(dst);
  const uint8_t* __restrict c = source<uint8_t>(s, 0);
  const T* __restrict x = source<T>(s, 1), * __restrict y = source<T>(s, 2);
  for (int64_t i = 0; i < lanes; ++i) out[i] = c[i] != 0 ? x[i] : y[i];
}
template <class T>
void drop(std::byte* dst, const std::byte* const* s, int64_t lanes) {
  T* __restrict out = reinterpret_cast<T*>(dst);
  const T *x = source<T>(s, 0), *p = source<T>(s, 1);
  const int64_t *seed = source<int64_t>(s, 2), *index = source<int64_t>(s, 3);
  for (int64_t i = 0; i < lanes; ++i) out[i] = dropout(x[i], p[i], seed[i], index[i]);
}

// Comparisons and where exist for bool, too.
template <class T>
Kernel any_kernel(Op op) {
  switch (op) {
    case Op::eq:
      return compare<T, Op::eq>;
    case Op::ne:
      return compare<T, Op::ne>;
    case Op::lt:
      return compare<T, Op::lt>;
    case Op::le:
      return compare<T, Op::le>;
    case Op::gt:
      return compare<T, Op::gt>;
    case Op::ge:
      return compare<T, Op::ge>;
    case Op::where:
      return choose<T>;
    default:
      return nullptr;
  }
}

Kernel bool_kernel(Op op) {
  constexpr auto both = [](uint8_t x, uint8_t y) { return static_cast<uint8_t>(x & y); };
  constexpr auto either = [](uint8_t x, uint8_t y) { return static_cast<uint8_t>(x | y); };
  constexpr auto one = [](uint8_t x, uint8_t y) { return static_cast<uint8_t>(x ^ y); };
  constexpr auto inverse = [](uint8_t x) { return static_cast<uint8_t>(x ^ 1); };
  switch (op) {
    case Op::logical_and:
      return map2<uint8_t, both>;
    case Op::logical_or:
      return map2<uint8_t, either>;
    case Op::logical_xor:
      return map2<uint8_t, one>;
    case Op::logical_not:
      return map1<uint8_t, inverse>;
    default:
      return any_kernel<uint8_t>(op);
  }
}

template <class T>
Kernel number_kernel(Op op) {
#define CODETTA_KERNEL(arity, name) \
  case Op::name:                    \
    return map##arity<T, name<T>>;
  switch (op) {
    CODETTA_KERNEL(2, add)
    CODETTA_KERNEL(2, sub)
    CODETTA_KERNEL(2, mul)
    CODETTA_KERNEL(2, pow)
    CODETTA_KERNEL(2, floordiv)
    CODETTA_KERNEL(2, mod)
    CODETTA_KERNEL(1, neg)
    CODETTA_KERNEL(3, multiply_add)
    CODETTA_KERNEL(2, minimum)
    CODETTA_KERNEL(2, maximum)
    CODETTA_KERNEL(3, clamp)
    CODETTA_KERNEL(1, abs)
    CODETTA_KERNEL(1, sign)
    CODETTA_KERNEL(1, floor)
    CODETTA_KERNEL(1, ceil)
    CODETTA_KERNEL(1, round)
    CODETTA_KERNEL(1, trunc)
    CODETTA_KERNEL(1, relu)
    CODETTA_KERNEL(1, drelu)
    default:
      return any_kernel<T>(op);
  }
}

template <Real T>
Kernel real_kernel(Op op) {
  switch (op) {
    CODETTA_KERNEL(2, div)
    CODETTA_KERNEL(1, exp)
    CODETTA_KERNEL(1, exp2)
    CODETTA_KERNEL(1, expm1)
    CODETTA_KERNEL(1, log)
    CODETTA_KERNEL(1, log2)
    CODETTA_KERNEL(1, log1p)
    CODETTA_KERNEL(1, sqrt)
    CODETTA_KERNEL(1, rsqrt)
    CODETTA_KERNEL(1, reciprocal)
    CODETTA_KERNEL(1, sin)
    CODETTA_KERNEL(1, cos)
    CODETTA_KERNEL(1, tanh)
    CODETTA_KERNEL(1, erf)
    CODETTA_KERNEL(1, sigmoid)
    CODETTA_KERNEL(1, silu)
    CODETTA_KERNEL(1, gelu_erf)
    CODETTA_KERNEL(1, gelu_tanh)
    CODETTA_KERNEL(3, softplus)
    CODETTA_KERNEL(2, elu)
    CODETTA_KERNEL(2, leaky_relu)
    CODETTA_KERNEL(1, hardswish)
    CODETTA_KERNEL(1, hardsigmoid)
    CODETTA_KERNEL(1, mish)
    CODETTA_KERNEL(1, dsigmoid)
    CODETTA_KERNEL(1, dtanh)
    CODETTA_KERNEL(1, dsilu)
    CODETTA_KERNEL(1, dgelu_erf)
    CODETTA_KERNEL(1, dgelu_tanh)
    case Op::dropout:
      return drop<T>;
    default:
      return number_kernel<T>(op);
  }
}
#undef CODETTA_KERNEL

}  // namespace

Kernel op_kernel(Op op, DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return bool_kernel(op);
    case DType::i8:
      return number_kernel<int8_t>(op);
    case DType::i16:
      return number_kernel<int16_t>(op);
    case DType::i32:
      return number_kernel<int32_t>(op);
    case DType::i64:
      return number_kernel<int64_t>(op);
    case DType::u8:
      return number_kernel<uint8_t>(op);
    case DType::u16:
      return number_kernel<uint16_t>(op);
    case DType::u32:
      return number_kernel<uint32_t>(op);
    case DType::u64:
      return number_kernel<uint64_t>(op);
    case DType::f32:
      return real_kernel<float>(op);
    case DType::f64:
      return real_kernel<double>(op);
    default:
      return nullptr;
  }
}

}  // namespace codetta::runtime::cpu::tape
