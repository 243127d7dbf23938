// SPDX-License-Identifier: Apache-2.0
// Element-wise operations over integers and booleans: exact and wrapping on points, intervals where a conversion of a
// float was ambiguous.
#pragma once

#include <span>

#include "oracle/cell.hpp"
#include "types/op.hpp"

namespace codetta::oracle {

// An arithmetic op (rule arith) over operands of the node's dtype d.
Int int_arithmetic(types::Op op, std::span<const Int> operands, DType d);

// a < b and so on: 0, 1, or both and ambiguous.
struct Outcomes {
  bool less = false, equal = false, greater = false, unordered = false;
};
Int compared(types::Op op, Outcomes possible, unsigned flags);
Outcomes compare_ints(const Int& a, const Int& b, DType d);
template <class T>
Outcomes compare_reals(const Real<T>& a, const Real<T>& b) {
  if (a.is_nan() || b.is_nan()) return {false, false, false, true};
  const bool nan = ((a.flags | b.flags) & may_be_nan) != 0;
  return {a.lo < b.hi, a.lo <= b.hi && b.lo <= a.hi, a.hi > b.lo, nan};
}

Int logical(types::Op op, const Int& a, const Int& b);
Int int_hull(const Int& a, const Int& b, DType d, unsigned flags);

// Integer or bool payload to another one, as cast and stores do.
Int convert_int(const Int& x, DType from, DType to);
template <class T>
Real<T> int_to_real(const Int& x, DType from, DType to) {
  const auto one = [&](int64_t payload) {
    if (from == DType::u64) {
      const auto u = static_cast<uint64_t>(payload);
      return to == DType::f32 ? T(static_cast<float>(u)) : T(static_cast<double>(u));
    }
    return to == DType::f32 ? T(static_cast<float>(payload)) : T(static_cast<double>(payload));
  };
  return {one(x.lo), one(x.hi), x.flags};
}

// Saturating conversion of an integral value.
template <class T>
int64_t saturated(T x, DType d) {
  if (d == DType::u64) {
    if (!(x > 0)) return 0;
    return x >= T(0x1p64) ? static_cast<int64_t>(UINT64_MAX) : static_cast<int64_t>(static_cast<uint64_t>(x));
  }
  const auto low = types::min_int(d);
  const auto high = static_cast<int64_t>(types::max_int(d));
  if (x >= (d == DType::i64 ? T(0x1p63) : T(high))) return high;
  if (x <= T(low)) return low;
  return static_cast<int64_t>(x);
}
// Float to integer or bool; `integral` rounds (trunc for cast, to nearest even for stores).
template <class T, class Integral>
Int real_to_int(const Real<T>& x, DType d, Integral&& integral) {
  const unsigned kept = x.flags & ambiguous;
  Int r;
  if (types::is_bool(d)) {
    if (x.is_nan()) return Int::point(1);
    const bool zero = x.lo <= 0 && x.hi >= 0, other = x.lo != 0 || x.hi != 0 || (x.flags & may_be_nan) != 0;
    r = {zero ? 0 : 1, other ? 1 : 0, 0};
  } else {
    if (x.is_nan()) return Int::point(0);
    r = {saturated(integral(x.lo), d), saturated(integral(x.hi), d), 0};
    if ((x.flags & may_be_nan) != 0) r = int_hull(r, Int::point(0), d, ambiguous);
  }
  const bool vague = types::is_bool(d) || (x.flags & may_be_nan) != 0
                         ? r.lo != r.hi
                         : widened_by_rounding(T(widened(r.lo, d)), T(widened(r.hi, d)), x.lo, x.hi);
  r.flags = static_cast<uint8_t>(vague ? kept | ambiguous : kept);
  return r;
}

}  // namespace codetta::oracle
