// SPDX-License-Identifier: Apache-2.0
// Reducers. State1<T> of a kind folds values of one result and merges with another's; Sum<V> and the others hold one a
// lane. A state is `width` values of T. NaN propagates through all of them.
#pragma once

#include "device/gpu/math.h"

namespace codetta::gpu {

template <class T>
CODETTA_FN T lowest() {
  if constexpr (is_float<T>) return -(T)bits_to_float(0x7f800000u);
  return is_signed<T> ? (T)((wrapping<T>)1 << (sizeof(T) * 8 - 1)) : (T)0;
}
template <class T>
CODETTA_FN T highest() {
  if constexpr (is_float<T>) return (T)bits_to_float(0x7f800000u);
  return (T) ~(wrapping<T>)lowest<T>();
}

template <class T>
struct SumState {
  static constexpr int width = 1;
  T v[1] = {(T)0};
  CODETTA_MEMBER void add(T x) { v[0] = one::add(v[0], x); }
  CODETTA_MEMBER void merge(const SumState& o) { add(o.v[0]); }
};
template <class T>
struct MaxState {
  static constexpr int width = 1;
  T v[1] = {lowest<T>()};
  CODETTA_MEMBER void add(T x) { v[0] = one::maximum(v[0], x); }
  CODETTA_MEMBER void merge(const MaxState& o) { add(o.v[0]); }
};
template <class T>
struct MinState {
  static constexpr int width = 1;
  T v[1] = {highest<T>()};
  CODETTA_MEMBER void add(T x) { v[0] = one::minimum(v[0], x); }
  CODETTA_MEMBER void merge(const MinState& o) { add(o.v[0]); }
};
// exp(-d) as a term of a sum that is 1 at least: 2 ulp and twice d of what rounding x - m has cost already, which is
// little where d is little, and of little where it is not. Half of the instructions that exp has.
template <class T>
CODETTA_FN T exponent(T x) {
  if constexpr (sizeof(T) == 4) return ex2_approx(x * 1.4426950408889634f);
  return one::exp(x);
}
// A statement for each value `i` of a state, one or two.
#define CODETTA_EACH_VALUE(S, ...) \
  {                                \
    {                              \
      constexpr int i = 0;         \
      __VA_ARGS__;                 \
    }                              \
    if constexpr (S::width == 2) { \
      constexpr int i = 1;         \
      __VA_ARGS__;                 \
    }                              \
  }
// To (m, s), the largest so far and the sum of exp(x - m), several values at once: first their largest, then one
// exponential each, as if all of the row were there. `against` gives what is subtracted where m is the largest.
template <class T, int n, class F>
CODETTA_FN void add_exponents(T (&v)[2], const T (&x)[n], F against) {
  T top[n], terms[n];
#pragma unroll
  for (int i = 0; i < n; ++i) top[i] = x[i];
#pragma unroll
  for (int d = 1; d < n; d *= 2) {
#pragma unroll
    for (int i = 0; i + d < n; i += 2 * d) top[i] = one::maximum(top[i], top[i + d]);
  }
  const T from = v[0], scaled = against(one::maximum(from, top[0]));
#pragma unroll
  for (int i = 0; i < n; ++i) terms[i] = exponent(x[i] - scaled);
#pragma unroll
  for (int d = 1; d < n; d *= 2) {
#pragma unroll
    for (int i = 0; i + d < n; i += 2 * d) terms[i] += terms[i + d];
  }
  v[1] = v[1] * exponent(from - scaled) + terms[0];
  v[0] = one::maximum(from, top[0]);
}

// (m, s): the largest so far, and the sum of exp(x - m). Equal values (both may be infinite) count 1; a NaN makes s
// NaN. Where m is infinite, s is no sum but 0 at least: several values at once are compared with 0 then.
template <class T>
struct LogSumExpState {
  static constexpr int width = 2;
  T v[2] = {lowest<T>(), (T)0};
  CODETTA_MEMBER void add(T x) {
    const T m = v[0], less = one::exp(x > m ? m - x : x - m);
    if (x > m) {
      v[1] = v[1] * less + (T)1;
      v[0] = x;
    } else {
      v[1] += x == m ? (T)1 : less;
    }
  }
  template <int n>
  CODETTA_MEMBER void add(const T (&x)[n]) {
    add_exponents(v, x, [](T top) { return top > lowest<T>() && top < highest<T>() ? top : (T)0; });
  }
  CODETTA_MEMBER void merge(const LogSumExpState& o) {
    const T top = v[0] > o.v[0] ? v[0] : o.v[0], less = one::exp((v[0] == top ? o.v[0] : v[0]) - top);
    v[1] = v[1] * (v[0] == top ? (T)1 : less) + o.v[1] * (o.v[0] == top ? (T)1 : less);
    v[0] = top;
  }
};

// (m, s): the largest so far, and the sum of exp(x - m), 0 where m is -inf. +inf and NaN make s NaN.
template <class T>
struct SumExpState {
  static constexpr int width = 2;
  T v[2] = {lowest<T>(), (T)0};
  template <int n>
  CODETTA_MEMBER void add(const T (&x)[n]) {
    add_exponents(v, x, [](T m) { return against(m); });
  }
  CODETTA_MEMBER void merge(const SumExpState& o) {
    const T top = one::maximum(v[0], o.v[0]), scaled = against(top);
    v[1] = v[1] * exponent(v[0] - scaled) + o.v[1] * exponent(o.v[0] - scaled);
    v[0] = top;
  }
  static CODETTA_MEMBER T against(T m) { return m == lowest<T>() ? (T)0 : m; }
};

template <class S, class V>
struct Reducer {
  using State = S;
  static constexpr int width = S::width;
  S lane[lanes];
  CODETTA_MEMBER void add(V x, boolv valid) { CODETTA_EACH_LANE(if (valid.e[i]) lane[i].add(x.e[i])); }
  CODETTA_MEMBER S folded() const {
    S s = lane[0];
    CODETTA_EACH_LANE(if (i > 0) s.merge(lane[i]));
    return s;
  }
  // All that a thread has of a row.
  template <int n>
  CODETTA_MEMBER void add_all(const element<V> (&x)[n]) {
    lane[0].add(x);
  }
};
// One state for all lanes.
template <class T, class V>
struct Reducer<SumExpState<T>, V> {
  using State = SumExpState<T>;
  static constexpr int width = State::width;
  State state;
  CODETTA_MEMBER void add(V x, boolv valid) {
    CODETTA_EACH_LANE(x.e[i] = valid.e[i] ? x.e[i] : lowest<T>());
    state.add(x.e);
  }
  template <int n>
  CODETTA_MEMBER void add_all(const T (&x)[n]) {
    state.add(x);
  }
  CODETTA_MEMBER State folded() const { return state; }
};
template <class V>
struct Sum : Reducer<SumState<element<V>>, V> {};
template <class V>
struct SumExp : Reducer<SumExpState<element<V>>, V> {};
template <class V>
struct Max : Reducer<MaxState<element<V>>, V> {
  // Of the same values.
  CODETTA_MEMBER void take(const SumExp<V>& q) { this->lane[0].v[0] = q.state.v[0]; }
};
template <class V>
struct Min : Reducer<MinState<element<V>>, V> {};
template <class V>
struct LogSumExp : Reducer<LogSumExpState<element<V>>, V> {};

// The values of a row that a thread comes by, n times `lanes`, for a reducer that takes them all at once. Which of them
// count is for others to say.
template <class V, int n>
struct Gathered {
  element<V> x[n * lanes];
  struct Place {
    element<V>* x;
    CODETTA_MEMBER void add(V v, boolv) const { CODETTA_EACH_LANE(x[i] = v.e[i]); }
  };
  CODETTA_MEMBER Place at(int i) { return {x + i * lanes}; }
};

template <class T>
CODETTA_FN T exchanged(u32 mask, T x, int distance) {
  if constexpr (sizeof(T) == 8) {
    u64 b;
    memcpy(&b, &x, 8);
    b = (u64)shuffle_xor(mask, (u32)b, distance) | ((u64)shuffle_xor(mask, (u32)(b >> 32), distance) << 32);
    memcpy(&x, &b, 8);
  } else if constexpr (is_float<T>) {
    x = bits_to_float(shuffle_xor(mask, float_to_bits(x), distance));
  } else {
    x = (T)shuffle_xor(mask, (u32)x, distance);
  }
  return x;
}
// Merges with the threads at distances first, 2 first, ... below last (powers of two). The lower lane's state comes
// first; what counts is what the lowest lane of a group ends with, and that always was the lower one.
template <class S>
CODETTA_FN void merge_threads(u32 mask, S& s, int first, int last) {
  CODETTA_EACH_ROUND
  for (int d = first; d < last; d *= 2) {
    S other;
    CODETTA_EACH_VALUE(S, other.v[i] = exchanged(mask, s.v[i], d));
    s.merge(other);
  }
}

}  // namespace codetta::gpu
