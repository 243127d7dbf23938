// SPDX-License-Identifier: Apache-2.0
// Reducers, as device/gpu/reduce.h has them, in Metal's terms: no derived classes, references with their memory. Sums
// of f32 over partials fold in two floats (hi + lo), because there is no f64.
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

// A state is `width` values of T; NaN propagates through all of them.
template <class T>
struct SumState {
  using Value = T;
  static CODETTA_CONSTANT int width = 1;
  T v[1] = {(T)0};
  CODETTA_MEMBER void add(T x) { v[0] = one::add(v[0], x); }
  CODETTA_MEMBER void merge(SumState o) { add(o.v[0]); }
};
template <class T>
struct MaxState {
  using Value = T;
  static CODETTA_CONSTANT int width = 1;
  T v[1] = {lowest<T>()};
  CODETTA_MEMBER void add(T x) { v[0] = one::maximum(v[0], x); }
  CODETTA_MEMBER void merge(MaxState o) { add(o.v[0]); }
};
template <class T>
struct MinState {
  using Value = T;
  static CODETTA_CONSTANT int width = 1;
  T v[1] = {highest<T>()};
  CODETTA_MEMBER void add(T x) { v[0] = one::minimum(v[0], x); }
  CODETTA_MEMBER void merge(MinState o) { add(o.v[0]); }
};
// (m, s): the largest so far, and the sum of exp(x - m). Equal values (both may be infinite) count 1; a NaN makes s
// NaN.
template <class T>
struct LogSumExpState {
  using Value = T;
  static CODETTA_CONSTANT int width = 2;
  T v[2] = {lowest<T>(), (T)0};
  CODETTA_MEMBER void add(T x) {
    const T m = v[0];
    if (x > m) {
      v[1] = v[1] * one::exp(m - x) + (T)1;
      v[0] = x;
    } else {
      v[1] += x == m ? (T)1 : one::exp(x - m);
    }
  }
  CODETTA_MEMBER void merge(LogSumExpState o) {
    const T top = v[0] > o.v[0] ? v[0] : o.v[0];
    v[1] =
        v[1] * (v[0] == top ? (T)1 : one::exp(v[0] - top)) + o.v[1] * (o.v[0] == top ? (T)1 : one::exp(o.v[0] - top));
    v[0] = top;
  }
};
// The same; what it ends as differs.
template <class T>
struct SumExpState {
  using Value = T;
  static CODETTA_CONSTANT int width = 2;
  T v[2] = {lowest<T>(), (T)0};
  CODETTA_MEMBER LogSumExpState<T> pair() const {
    LogSumExpState<T> s;
    s.v[0] = v[0], s.v[1] = v[1];
    return s;
  }
  CODETTA_MEMBER void set(LogSumExpState<T> s) { v[0] = s.v[0], v[1] = s.v[1]; }
  CODETTA_MEMBER void add(T x) {
    LogSumExpState<T> s = pair();
    s.add(x);
    set(s);
  }
  CODETTA_MEMBER void merge(SumExpState o) {
    LogSumExpState<T> s = pair();
    s.merge(o.pair());
    set(s);
  }
};
// What a pair ends as.
template <class T>
CODETTA_FN T ended(LogSumExpState<T> s) {  // infinite: all are -inf, or there is a +inf
  if (s.v[1] != s.v[1]) return s.v[1];
  return s.v[0] > lowest<T>() && s.v[0] < highest<T>() ? s.v[0] + one::log(s.v[1]) : s.v[0];
}
template <class T>
CODETTA_FN T ended(SumExpState<T> s) {  // NaN where the largest is infinite: exp(x - x) is, there
  const bool infinite = s.v[0] == lowest<T>() || s.v[0] == highest<T>();
  return infinite && s.v[1] != 0 ? s.v[0] - s.v[0] : s.v[1];
}

template <class S, class V>
struct Reducer {
  using State = S;
  using Vector = V;
  S lane[lanes];
  CODETTA_MEMBER void add(V x, boolv valid) { CODETTA_EACH_LANE(if (valid.e[i]) lane[i].add(x.e[i])); }
  CODETTA_MEMBER S folded() const {
    S s = lane[0];
    for (int i = 1; i < lanes; ++i) s.merge(lane[i]);
    return s;
  }
};
template <class V>
using Sum = Reducer<SumState<element<V>>, V>;
template <class V>
using Max = Reducer<MaxState<element<V>>, V>;
template <class V>
using Min = Reducer<MinState<element<V>>, V>;
template <class V>
using LogSumExp = Reducer<LogSumExpState<element<V>>, V>;
template <class V>
using SumExp = Reducer<SumExpState<element<V>>, V>;

// A sum in two floats: Knuth's TwoSum keeps the rounding error of each addition. Infinities and NaN stay in hi.
template <>
struct SumState<metal::float2> {
  static CODETTA_CONSTANT int width = 1;
  float hi = 0, lo = 0;
  CODETTA_MEMBER void add_value(float x, float rest) {
    const float s = hi + x, b = s - hi;
    const float error = (hi - (s - b)) + (x - b);
    hi = s;
    if (error == error) lo += error + rest;
  }
  CODETTA_MEMBER void merge(SumState o) { add_value(o.hi, o.lo); }
};

// State of partials (of T) on their way to one result: how it takes a partial, travels through threadgroup memory as
// two words a value, and ends.
template <template <class> class State, class T>
struct Folding {
  State<T> s;
  CODETTA_MEMBER void take(const device T* from, i64 at) {
    State<T> next;
    for (int j = 0; j < State<T>::width; ++j) next.v[j] = from[at * State<T>::width + j];
    s.merge(next);
  }
  CODETTA_MEMBER void merge(Folding o) { s.merge(o.s); }
  template <class P>
  CODETTA_MEMBER void put(P to) const {
    for (int j = 0; j < State<T>::width; ++j) to[j] = (u64)bits_of(s.v[j]);
  }
  template <class P>
  CODETTA_MEMBER void get(P from) {
    for (int j = 0; j < State<T>::width; ++j) s.v[j] = of_bits(from[j]);
  }
  // `count`: what a mean divides by, 0 where nothing was reduced.
  template <bool mean>
  CODETTA_MEMBER T result(i64 count) const {
    T value = s.v[0];
    if constexpr (State<T>::width == 2) value = ended(s);
    if constexpr (mean) value = (T)(value / (T)count);
    return value;
  }

  static CODETTA_MEMBER u64 bits_of(T x) {
    if constexpr (is_float<T>) return float_to_bits(x);
    return (u64)x;
  }
  static CODETTA_MEMBER T of_bits(u64 x) {
    if constexpr (is_float<T>) return bits_to_float((u32)x);
    return (T)x;
  }
};
template <>
struct Folding<SumState, float> {
  SumState<metal::float2> s;
  CODETTA_MEMBER void take(const device float* from, i64 at) { s.add_value(from[at], 0.0f); }
  CODETTA_MEMBER void merge(Folding o) { s.merge(o.s); }
  template <class P>
  CODETTA_MEMBER void put(P to) const {
    to[0] = (u64)float_to_bits(s.hi) | ((u64)float_to_bits(s.lo) << 32);
  }
  template <class P>
  CODETTA_MEMBER void get(P from) {
    const u64 w = from[0];
    s.hi = bits_to_float((u32)w), s.lo = bits_to_float((u32)(w >> 32));
  }
  template <bool mean>
  CODETTA_MEMBER float result(i64 count) const {
    const float value = s.hi + s.lo;
    return mean ? value / (float)count : value;
  }
};

template <class T>
CODETTA_FN T exchanged(T x, u32 distance) {
  if constexpr (sizeof(T) == 8) {
    const u64 b = (u64)x;
    return (T)((u64)shuffle_xor((u32)b, distance) | ((u64)shuffle_xor((u32)(b >> 32), distance) << 32));
  } else if constexpr (is_float<T>) {
    return bits_to_float(shuffle_xor(float_to_bits(x), distance));
  } else {
    return (T)shuffle_xor((u32)x, distance);
  }
}
// Merges with the threads at distances first, 2 first, ... below last (powers of two). The lower lane's state comes
// first; what counts is what the lowest lane of a group ends with, and that always was the lower one. All 32 lanes call
// this.
template <class S>
CODETTA_FN S merged_threads(S s, int first, int last) {
  for (int d = first; d < last; d *= 2) {
    S other;
    for (int i = 0; i < S::width; ++i) other.v[i] = exchanged(s.v[i], (u32)d);
    s.merge(other);
  }
  return s;
}

}  // namespace codetta::gpu
