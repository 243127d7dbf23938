// SPDX-License-Identifier: Apache-2.0
// Reducers: fold vectors lane by lane, then the lanes pairwise. Deterministic; NaN propagates through all of them.
// A Reducer<V> starts at its identity and has add(x, valid) (lanes that are not valid stay), merge-in-memory for column
// partials (first / next / last kept by the fragment) and put(), which writes its one partial (two for LogSumExp).
#pragma once

#include "device/cpu/math.h"

namespace codetta::cpu {

//% fold_lanes
// Pairwise: lane i with lane i + n / 2, until one is left. Op works on vectors of any length.
template <class Op, class H>
CODETTA_FN element<H> fold_lanes(H v) {
  constexpr int n = sizeof(H) / sizeof(element<H>);
  if constexpr (n == 16) {
    return fold_lanes<Op>(Op::of(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                                 __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)));
  } else if constexpr (n == 8) {
    return fold_lanes<Op>(Op::of(__builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7)));
  } else if constexpr (n == 4) {
    v = Op::of(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
    return Op::of(v, __builtin_shufflevector(v, v, 1, 0, 3, 2))[0];
  } else {
    return Op::of(v, __builtin_shufflevector(v, v, 1, 0))[0];
  }
}

//% lowest
// The least value: -inf, or the minimum of an integer.
template <class V>
CODETTA_FN V lowest() {
  if constexpr (is_float<V>)
    return splat<V>(-__builtin_inff());
  else if constexpr ((element<V>)-1 < (element<V>)0)
    return (V) ~(~unsigned_of<V>{} >> 1);
  else
    return V{};
}
//% highest
template <class V>
CODETTA_FN V highest() {
  if constexpr (is_float<V>)
    return splat<V>(__builtin_inff());
  else if constexpr ((element<V>)-1 < (element<V>)0)
    return (V)(~unsigned_of<V>{} >> 1);
  else
    return ~V{};
}

//% SumOp
struct SumOp {
  template <class H>
  CODETTA_FN H of(H x, H y) {
    if constexpr ((element<H>)0.5f != (element<H>)0) {
      return x + y;
    } else {
      typedef typename UnsignedElement<sizeof(element<H>)>::type U __attribute__((vector_size(sizeof(H))));
      return (H)((U)x + (U)y);
    }
  }
};
//% Sum
template <class V>
struct Sum {
  static constexpr int width = 1;
  V s = {};
  CODETTA_MEMBER void add(V x, boolv valid) { s = SumOp::of(s, select(valid, x, V{})); }
  CODETTA_MEMBER void put(element<V>* p) const { *p = fold_lanes<SumOp>(s); }
  CODETTA_MEMBER void take(const element<V>* p, i64 n) { s = load<V>(p, n); }
  CODETTA_MEMBER void give(element<V>* p, i64 n) const { store(p, s, n); }
};

//% MaxOp
struct MaxOp {
  template <class H>
  CODETTA_FN H of(H x, H y) {
    const H m = x > y ? x : y;
    return x != x ? x : m;
  }
};
//% Max
template <class V>
struct Max {
  static constexpr int width = 1;
  V m = lowest<V>();
  CODETTA_MEMBER void add(V x, boolv valid) { m = MaxOp::of(m, select(valid, x, m)); }
  CODETTA_MEMBER void put(element<V>* p) const { *p = fold_lanes<MaxOp>(m); }
  CODETTA_MEMBER void take(const element<V>* p, i64 n) { m = load<V>(p, n); }
  CODETTA_MEMBER void give(element<V>* p, i64 n) const { store(p, m, n); }
};

//% MinOp
struct MinOp {
  template <class H>
  CODETTA_FN H of(H x, H y) {
    const H m = x < y ? x : y;
    return x != x ? x : m;
  }
};
//% Min
template <class V>
struct Min {
  static constexpr int width = 1;
  V m = highest<V>();
  CODETTA_MEMBER void add(V x, boolv valid) { m = MinOp::of(m, select(valid, x, m)); }
  CODETTA_MEMBER void put(element<V>* p) const { *p = fold_lanes<MinOp>(m); }
  CODETTA_MEMBER void take(const element<V>* p, i64 n) { m = load<V>(p, n); }
  CODETTA_MEMBER void give(element<V>* p, i64 n) const { store(p, m, n); }
};

//% LogSumExp
// Pairs (m, s): m is the largest so far, s the sum of exp(x - m); one exp per element. Equal values (both may be
// infinite) count 1; a NaN makes s NaN.
template <class V>
struct LogSumExp {
  static constexpr int width = 2;
  V m = lowest<V>(), s = {};
  CODETTA_MEMBER void add(V x, boolv valid) {
    const V top = x > m ? x : m;
    const V d = x > m ? m - x : x - m;
    const V e = x == m ? splat<V>(1) : ct_exp(d);
    const V sum = x > m ? s * e + splat<V>(1) : s + e;
    s = select(valid, sum, s);
    m = select(valid, top, m);
  }
  CODETTA_MEMBER void put(element<V>* p) const {
    const element<V> top = fold_lanes<MaxOp>(m);
    const V t = splat<V>(top);
    const V scaled = m == t ? s : s * ct_exp(m - t);
    p[0] = top;
    p[1] = fold_lanes<SumOp>(scaled);
  }
  CODETTA_MEMBER void take(const element<V>* p, i64 n) {
    m = gather<V>(p, 2, n);
    s = gather<V>(p + 1, 2, n);
  }
  CODETTA_MEMBER void give(element<V>* p, i64 n) const {
    scatter(p, 2, m, n);
    scatter(p + 1, 2, s, n);
  }
};

//% SumExp
// The same partials; what they end as differs (runtime/cpu/reduce.cpp).
template <class V>
struct SumExp : LogSumExp<V> {};

//% .
}  // namespace codetta::cpu
