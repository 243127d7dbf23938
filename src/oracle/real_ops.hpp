// SPDX-License-Identifier: Apache-2.0
// Element-wise operations over intervals of reals: the value and its error side by side. +, -, *, / and sqrt are
// correctly rounded to the compute dtype; the other functions deviate as the accuracy table says.
#pragma once

#include "oracle/cell.hpp"
#include "oracle/functions.hpp"
#include "oracle/ulp.hpp"

namespace codetta::oracle {

// What an element-wise node computes in.
struct RealContext {
  DType dtype = DType::f32;
  Accuracy accuracy;
  bool contraction = true;
};

// Ends in T, from exact arguments, after one rounding to the compute dtype.
template <class T>
Real<T> rounded(T lo, T hi, unsigned flags, const RealContext& c) {
  if (lo != lo && hi != hi) return Real<T>::point(lo);
  if (lo != lo || hi != hi) return Real<T>::anything(flags);
  return {nearest(lo, c.dtype), nearest(hi, c.dtype), static_cast<uint8_t>(flags)};
}

// y = f(x) within the accuracy of f. At infinite x the value is the limit.
template <class T>
Real<T> inexact(T lo, T hi, bool lo_at_infinity, bool hi_at_infinity, unsigned flags, const RealContext& c) {
  if (lo != lo && hi != hi) return Real<T>::point(lo);
  if (lo != lo || hi != hi) return Real<T>::anything(flags);
  const auto error = [&](T y) {
    T ulps = T(c.accuracy.ulp);
    // What needs this is not used of results beyond 2^100 (device/gpu/math_f32.h: Quotients).
    if (c.accuracy.ln > 0 && y > 0) ulps += T(c.accuracy.ln) * std::min(std::abs(std::log(y)), T(70));
    return ulps * spacing(y, c.dtype) + T(c.accuracy.abs) + 16 * unit_of<T> * std::abs(y);
  };
  if (!lo_at_infinity && std::isfinite(lo)) lo -= error(lo);
  if (!hi_at_infinity && std::isfinite(hi)) hi += error(hi);
  return {nearest(lo, c.dtype), nearest(hi, c.dtype), static_cast<uint8_t>(flags)};
}

template <class T>
Real<T> add(const Real<T>& a, const Real<T>& b, const RealContext& c) {
  const unsigned flags = a.flags | b.flags;
  T lo = a.lo + b.lo, hi = a.hi + b.hi;
  const T infinity = std::numeric_limits<T>::infinity();
  const bool opposite = (a.hi == infinity && b.lo == -infinity) || (a.lo == -infinity && b.hi == infinity);
  if (opposite && (a.lo != a.hi || b.lo != b.hi)) return Real<T>::anything(flags);  // inf - inf lies inside
  if (std::isfinite(lo) && sum_error(a.lo, b.lo, lo) != 0) lo = downward(lo);
  if (std::isfinite(hi) && sum_error(a.hi, b.hi, hi) != 0) hi = upward(hi);
  const Real<T> r = rounded(lo, hi, flags, c);
  // x - 0 is x, so that a product may pass unrounded to a sum behind it.
  const bool same = (b.lo == 0 && b.hi == 0) || (a.lo == 0 && a.hi == 0);
  if (!c.contraction || !same || (lo == 0 && hi == 0)) return r;
  return {std::min(lo, r.lo), std::max(hi, r.hi), r.flags};
}
template <class T>
Real<T> negated(const Real<T>& a) {
  return {-a.hi, -a.lo, a.flags};
}

// A zero of unknown sign.
template <class T>
bool open_sign(const Real<T>& x) {
  return x.lo == 0 && x.hi == 0 && std::signbit(x.lo) != std::signbit(x.hi);
}

// a * b in T, outwards where T rounds.
template <class T>
Real<T> exact_product(const Real<T>& a, const Real<T>& b) {
  const unsigned flags = a.flags | b.flags;
  const auto low = [](T x, T y) {
    const T p = x * y;
    return std::isfinite(p) && std::fma(x, y, -p) != 0 ? downward(p) : p;
  };
  const auto high = [](T x, T y) {
    const T p = x * y;
    return std::isfinite(p) && std::fma(x, y, -p) != 0 ? upward(p) : p;
  };
  if (a.is_nan()) return a;
  if (b.is_nan()) return b;
  if (a.lo == a.hi && b.lo == b.hi) {
    const T lo = low(a.lo, b.lo), hi = high(a.lo, b.lo);
    if (lo == 0 && hi == 0 && (open_sign(a) || open_sign(b))) return {-T(0), T(0), static_cast<uint8_t>(flags)};
    return {lo, hi, static_cast<uint8_t>(flags | (lo != lo ? may_be_nan : 0))};
  }
  const auto has_zero = [](const Real<T>& r) { return r.lo <= 0 && r.hi >= 0; };
  const auto has_infinity = [](const Real<T>& r) { return std::isinf(r.lo) || std::isinf(r.hi); };
  if ((has_zero(a) && has_infinity(b)) || (has_zero(b) && has_infinity(a))) return Real<T>::anything(flags);
  T lo = std::numeric_limits<T>::infinity(), hi = -lo;
  for (const T x : {a.lo, a.hi}) {
    for (const T y : {b.lo, b.hi}) {
      const T p = low(x, y);
      if (p != p) return Real<T>::anything(flags);
      lo = std::min(lo, p);
      hi = std::max(hi, high(x, y));
    }
  }
  if (lo == 0 && hi == 0) {  // min and max don't tell zeros apart
    const bool is_known = !open_sign(a) && !open_sign(b) && !(a.lo <= 0 && a.hi >= 0 && a.lo != a.hi) &&
                          !(b.lo <= 0 && b.hi >= 0 && b.lo != b.hi);
    const T zero = std::signbit(a.lo) != std::signbit(b.lo) ? -T(0) : T(0);
    return is_known ? Real<T>{zero, zero, static_cast<uint8_t>(flags)}
                    : Real<T>{-T(0), T(0), static_cast<uint8_t>(flags)};
  }
  return {lo, hi, static_cast<uint8_t>(flags)};
}
// A product may stay unrounded when it is contracted with the sum that takes it, and finite where it would overflow.
template <class T>
Real<T> contractible(const Real<T>& p, const RealContext& c) {
  const Real<T> r = rounded(p.lo, p.hi, p.flags, c);
  if (!c.contraction || r.is_nan()) return r;
  return {std::min(p.lo, r.lo), std::max(p.hi, r.hi), r.flags};
}
template <class T>
Real<T> mul(const Real<T>& a, const Real<T>& b, const RealContext& c) {
  return contractible(exact_product(a, b), c);
}
template <class T>
Real<T> multiply_add(const Real<T>& x, const Real<T>& y, const Real<T>& z, const RealContext& c) {
  const Real<T> p = exact_product(x, y);
  if (p.is_nan() || z.is_nan()) return p.is_nan() ? p : z;
  const Real<T> r = rounded(p.lo, p.hi, p.flags, c);
  return hull(add(p, z, c), add(r, z, c), 0);
}

template <class T>
Real<T> div(const Real<T>& a, const Real<T>& b, const RealContext& c) {
  const unsigned flags = a.flags | b.flags;
  if (a.is_nan()) return a;
  if (b.is_nan()) return b;
  // x / 1 is x, so that a product may pass unrounded to a sum behind it.
  if (b.lo == 1 && b.hi == 1) return contractible(Real<T>{a.lo, a.hi, static_cast<uint8_t>(flags)}, c);
  const bool zero_inside = b.lo <= 0 && b.hi >= 0;
  const bool known_zero = b.lo == 0 && b.hi == 0 && std::signbit(b.lo) == std::signbit(b.hi);
  if (zero_inside && !(known_zero && ((a.lo > 0) || (a.hi < 0) || (a.lo == 0 && a.hi == 0))))
    return Real<T>::anything(flags);
  T lo = std::numeric_limits<T>::infinity(), hi = -lo;
  for (const T x : {a.lo, a.hi}) {
    for (const T y : {b.lo, b.hi}) {
      const T q = x / y;
      if (q != q) return a.lo == a.hi && b.lo == b.hi ? Real<T>::point(q) : Real<T>::anything(flags);
      const bool exact = !std::isfinite(q) || std::isinf(y) || std::fma(q, y, -x) == 0;
      lo = std::min(lo, exact ? q : downward(q));
      hi = std::max(hi, exact ? q : upward(q));
    }
  }
  if (a.lo == a.hi && known_zero) return {lo, lo, static_cast<uint8_t>(flags)};
  const bool open = open_sign(a) || (a.lo <= 0 && a.hi >= 0 && a.lo != a.hi);
  if (lo == 0 && hi == 0 && open) return {-T(0), T(0), static_cast<uint8_t>(flags)};
  return rounded(lo, hi, flags, c);
}

template <class T>
Real<T> step(T lo, T hi, unsigned flags) {  // results of a discontinuous function at both ends
  return {lo, hi, static_cast<uint8_t>(flags | (lo != hi ? ambiguous : 0))};
}
template <class T, class Integral>
Real<T> to_integers(const Real<T>& x, Integral&& integral) {
  if (x.is_nan()) return x;
  const T lo = integral(x.lo), hi = integral(x.hi);
  return {lo, hi, static_cast<uint8_t>(x.flags | (widened_by_rounding(lo, hi, x.lo, x.hi) ? ambiguous : 0))};
}
template <class T>
T to_nearest_integer(T x) {
  if (!(std::abs(x) < T(0x1p63))) return x;
  const T f = std::floor(x), rest = x - f;
  const T up = rest > T(0.5) || (rest == T(0.5) && std::fmod(f, T(2)) != 0) ? f + 1 : f;
  return std::copysign(up, x);
}

// The rounded quotient, rounded down.
template <class T>
Real<T> floordiv(const Real<T>& a, const Real<T>& b, const RealContext& c) {
  if (a.is_nan()) return a;
  if (b.is_nan()) return b;
  const Real<T> q = div(a, b, c);
  if (q.is_nan()) return q;
  if (!std::isfinite(q.lo) || !std::isfinite(q.hi)) return step(std::floor(q.lo), std::floor(q.hi), q.flags);
  // The exact quotient, too: the rounded one may reach an integer that it doesn't. By infinity it is 0.
  T lo = std::min(q.lo, downward(std::min(std::min(a.lo / b.lo, a.lo / b.hi), std::min(a.hi / b.lo, a.hi / b.hi))));
  if (b.lo == b.hi && (std::isinf(b.lo) || (a.lo == a.hi && std::fmod(a.lo, b.lo) == 0))) lo = q.lo;
  const T least = nearest(std::floor(lo), c.dtype), most = std::floor(q.hi);
  return {least, most, static_cast<uint8_t>(q.flags | (widened_by_rounding(least, most, lo, q.hi) ? ambiguous : 0))};
}
// The exact remainder with the sign of y, rounded.
template <class T>
T python_remainder(T x, T y) {
  const T r = std::fmod(x, y);
  if (r == 0) return std::copysign(T(0), y);
  return (r < 0) != (y < 0) ? r + y : r;
}
template <class T>
Real<T> mod(const Real<T>& a, const Real<T>& b, const RealContext& c) {
  const unsigned flags = a.flags | b.flags;
  if (a.is_nan()) return a;
  if (b.is_nan()) return b;
  if (b.lo == 0 && b.hi == 0) return Real<T>::point(std::numeric_limits<T>::quiet_NaN());
  if (a.lo == a.hi && b.lo == b.hi) {
    const T r = python_remainder(a.lo, b.lo);
    if (r == 0) return {-T(0), T(0), static_cast<uint8_t>(flags)};  // the sign of a zero remainder is open
    // r + y may round in T already.
    const bool exact = r != r || std::fmod(a.lo, b.lo) == r || std::isinf(r);
    return rounded(exact ? r : downward(r), exact ? r : upward(r), r != r ? 0u : flags, c);
  }
  const bool finite_a = std::isfinite(a.lo) && std::isfinite(a.hi);
  if (finite_a && b.lo == b.hi && std::isinf(b.lo) && (a.lo > 0 || a.hi < 0))
    return (a.lo > 0) == (b.lo > 0) ? Real<T>{a.lo, a.hi, static_cast<uint8_t>(flags)}
                                    : Real<T>{b.lo, b.hi, static_cast<uint8_t>(flags)};
  const bool finite = finite_a && std::isfinite(b.lo) && std::isfinite(b.hi);
  if (!finite || (b.lo <= 0 && b.hi >= 0)) return Real<T>::anything(flags);
  // Within one step of the quotient the remainder is linear. Steps are told apart by the exact quotient, not by one
  // that is rounded to the compute dtype: beyond 2^24 that one says nothing about the remainder.
  T low_q = std::numeric_limits<T>::infinity(), high_q = -low_q;
  for (const T x : {a.lo, a.hi}) {
    for (const T y : {b.lo, b.hi}) {
      low_q = std::min(low_q, downward(x / y));
      high_q = std::max(high_q, upward(x / y));
    }
  }
  const T most = std::max(std::abs(b.lo), std::abs(b.hi));
  if (std::floor(low_q) != std::floor(high_q) || std::abs(low_q) > T(1) / (16 * unit_of<T>)) {
    return {b.hi < 0 ? -most : -T(0), b.lo > 0 ? most : T(0), static_cast<uint8_t>(flags | ambiguous)};
  }
  const Real<T> product = exact_product(Real<T>::point(std::floor(low_q)), b);
  const T margin =
      4 * unit_of<T> *
      std::max(std::max(std::abs(a.lo), std::abs(a.hi)), std::max(std::abs(product.lo), std::abs(product.hi)));
  const T lo = std::max(a.lo - product.hi - margin, b.lo > 0 ? -T(0) : -most);
  const T hi = std::min(a.hi - product.lo + margin, b.lo > 0 ? most : T(0));
  return rounded(lo, hi, flags, c);
}

// Of an even y the sign of x doesn't matter; glibc's powl takes that of infinity for one at y = -2^63.
template <class T>
T power(T x, T y) {
  return std::pow(std::fmod(y, T(2)) == 0 ? std::abs(x) : x, y);
}
template <class T>
Real<T> pow(const Real<T>& x, const Real<T>& y, const RealContext& c) {
  const unsigned flags = x.flags | y.flags;
  constexpr T not_a_number = std::numeric_limits<T>::quiet_NaN();
  const Real<T> undefined{not_a_number, not_a_number, static_cast<uint8_t>(flags | may_be_nan)};
  if (x.is_nan() && y.is_nan()) return undefined;
  if (x.is_nan() || y.is_nan()) {  // NaN but for x ** 0 and 1 ** y, which are 1
    const Real<T>& other = x.is_nan() ? y : x;
    const T one_at = x.is_nan() ? 0 : 1;
    if (other.lo > one_at || other.hi < one_at) return undefined;
    if (other.lo != other.hi) return Real<T>::anything(flags);
    return {1, 1, static_cast<uint8_t>(other.flags | (flags & ambiguous))};
  }
  const bool point = x.lo == x.hi && y.lo == y.hi;
  if (point && open_sign(x)) {
    const T below = power(-T(0), y.lo), above = power(T(0), y.lo);
    if (below != above) return Real<T>::anything(flags);  // poles
    if (above == 0) return {below, above, static_cast<uint8_t>(flags)};
  }
  if (point) {
    const T p = power(x.lo, y.lo);
    const bool limit = std::isinf(x.lo) || std::isinf(y.lo) || p == 0 || x.lo == 1 || y.lo == 0;
    return inexact(p, p, limit, limit, p != p ? 0u : flags, c);
  }
  const bool integer = y.lo == y.hi && std::floor(y.lo) == y.lo;
  const bool no_integer = std::ceil(y.lo) > std::floor(y.hi);
  if (x.hi < 0 && std::isfinite(x.lo) && no_integer) return undefined;
  const bool pole = x.lo == 0 && x.hi == 0 && !std::signbit(x.lo) && !std::signbit(x.hi) && y.hi < 0;
  if ((x.lo < 0 || (x.lo == 0 && y.lo <= 0 && !pole)) && !integer) return Real<T>::anything(flags);
  if (x.lo <= 0 && x.hi >= 0 && y.lo < 0 && !pole) return Real<T>::anything(flags);
  T lo = std::numeric_limits<T>::infinity(), hi = -lo;
  for (const T a : {x.lo, x.hi}) {
    for (const T b : {y.lo, y.hi}) {
      const T p = power(a, b);
      if (p != p) return Real<T>::anything(flags);
      lo = std::min(lo, p);
      hi = std::max(hi, p);
    }
  }
  if (x.lo < 0 && x.hi > 0 && y.lo > 0) lo = std::min(lo, T(0));
  return inexact(lo, hi, false, false, flags, c);
}

// NaN wins; an interval that may be NaN says so.
template <class T, class Pick>
Real<T> bound_by(const Real<T>& a, const Real<T>& b, Pick&& pick) {
  if (a.is_nan()) return a;
  if (b.is_nan()) return b;
  Real<T> r{pick(a.lo, b.lo), pick(a.hi, b.hi), static_cast<uint8_t>(a.flags | b.flags)};
  if (r.lo != 0 || r.hi != 0) return r;
  // Of zeros of opposite sign either may come; an end of an interval doesn't tell its sign.
  const auto has_zero = [](const Real<T>& x) { return x.lo <= 0 && x.hi >= 0; };
  const auto known = [](const Real<T>& x) { return x.lo == x.hi && std::signbit(x.lo) == std::signbit(x.hi); };
  if (!has_zero(a) || !has_zero(b)) {
    const Real<T>& zero = has_zero(a) ? a : b;
    r.lo = zero.lo, r.hi = zero.hi;
  } else if (!known(a) || !known(b) || std::signbit(a.lo) != std::signbit(b.lo)) {
    r.lo = -T(0), r.hi = T(0);
  }
  return r;
}
template <class T>
Real<T> minimum(const Real<T>& a, const Real<T>& b) {
  return bound_by(a, b, [](T x, T y) { return x < y ? x : y; });
}
template <class T>
Real<T> maximum(const Real<T>& a, const Real<T>& b) {
  return bound_by(a, b, [](T x, T y) { return x > y ? x : y; });
}
template <class T>
Real<T> absolute(const Real<T>& x) {
  if (x.lo < 0 && x.hi > 0) return {0, std::max(-x.lo, x.hi), x.flags};
  const T a = std::abs(x.lo), b = std::abs(x.hi);
  return {std::min(a, b), std::max(a, b), x.flags};
}

// A function of one operand from the table, monotone between its turning points.
template <class T>
Real<T> real_unary(Op op, const Real<T>& x, const RealContext& c) {
  if (x.is_nan()) return x;
  const auto f = [op](T v) { return real_function<T>(op, v); };
  if (x.lo == x.hi) {
    // Of a zero of unknown sign, only the reciprocals tell.
    if (open_sign(x) && (op == Op::reciprocal || op == Op::rsqrt)) return Real<T>::anything(x.flags);
    const T y = f(x.lo);
    if (open_sign(x) && y == 0) return x;
    const bool limit = std::isinf(x.lo) || y != y || std::isinf(y);
    if (op == Op::sqrt || op == Op::reciprocal) {
      const bool exact = limit || (op == Op::sqrt ? std::fma(y, y, -x.lo) : std::fma(y, x.lo, T(-1))) == 0;
      return rounded(exact ? y : downward(y), exact ? y : upward(y), y != y ? 0u : x.flags, c);
    }
    if (limit || (x.lo == 0 && y == 0))
      return y != y ? Real<T>::point(y) : Real<T>{nearest(y, c.dtype), nearest(y, c.dtype), x.flags};
    return inexact(y, y, false, false, x.flags, c);
  }
  if (op == Op::sin || op == Op::cos) {
    if (std::isinf(x.lo) || std::isinf(x.hi)) return Real<T>::anything(x.flags);
    const T middle = f(x.middle()),
            radius = x.radius() * (1 + 8 * unit_of<T>)+std::abs(x.middle()) * unit_of<T>;  // slope <= 1
    return inexact(std::max(middle - radius, T(-1)), std::min(middle + radius, T(1)), false, false, x.flags, c);
  }
  const bool has_pole = op == Op::reciprocal || op == Op::rsqrt;  // at zero, where the zero's sign decides
  if (has_pole && x.lo <= 0 && x.hi >= 0) return Real<T>::anything(x.flags);
  T lo = f(x.lo), hi = f(x.hi);
  const bool lo_infinite = std::isinf(x.lo), hi_infinite = std::isinf(x.hi);
  if ((lo_infinite && lo != lo) || (hi_infinite && hi != hi)) return Real<T>::anything(x.flags);  // 0 * inf at an end
  if (lo > hi) std::swap(lo, hi);
  const Turns turns = turning_points(op);
  for (int i = 0; i < turns.count; ++i) {
    const T at = T(turns.at[i]);
    if (!(x.lo < at && at < x.hi)) continue;
    const T y = f(at);
    lo = std::min(lo, y);
    hi = std::max(hi, y);
  }
  if (op == Op::sqrt || op == Op::reciprocal) return rounded(downward(lo), upward(hi), x.flags, c);
  return inexact(lo, hi, lo_infinite && hi_infinite, lo_infinite && hi_infinite, x.flags, c);
}

// x where x > limit, else other(x): both sides where the limit is inside; then ambiguous unless the function is
// continuous there.
template <class T>
Real<T> where_above(bool may_be_above, bool may_be_below, const Real<T>& above, const Real<T>& below, bool continuous) {
  if (!may_be_below) return above;
  if (!may_be_above) return below;
  return hull(above, below, continuous ? 0u : unsigned{ambiguous});
}
template <class T>
Real<T> elu(const Real<T>& x, const Real<T>& alpha, const RealContext& c) {
  if (x.is_nan()) return x;
  if (x.lo > 0) return x;
  const Real<T> low{x.lo, std::min(x.hi, T(0)), x.flags};
  const Real<T> e{std::expm1(low.lo), std::expm1(low.hi), x.flags};
  const Real<T> p = exact_product(e, alpha);
  const Real<T> below = inexact(p.lo, p.hi, false, false, p.flags, c);
  return where_above(x.hi > 0, true, Real<T>{std::max(x.lo, T(0)), x.hi, x.flags},
                     low.lo == 0 && low.hi == 0 ? p : below, true);
}
template <class T>
Real<T> leaky_relu(const Real<T>& x, const Real<T>& slope, const RealContext& c) {
  if (x.is_nan() || x.lo > 0) return x;
  const Real<T> below = mul(Real<T>{x.lo, std::min(x.hi, T(0)), x.flags}, slope, c);
  return where_above(x.hi > 0, true, Real<T>{std::max(x.lo, T(0)), x.hi, x.flags}, below, true);
}
template <class T>
Real<T> softplus(const Real<T>& x, const Real<T>& beta, const Real<T>& threshold, const RealContext& c) {
  if (x.is_nan()) return x;
  const Real<T> z = mul(x, beta, c);
  if (z.is_nan()) return z;  // no number is above the threshold, and none comes of it
  const unsigned flags = z.flags | threshold.flags;
  const bool may_be_below = !(z.lo > threshold.hi) || (flags & may_be_nan) != 0;
  if (!may_be_below) return x;
  if (open_sign(beta) || (beta.lo != beta.hi && beta.lo <= 0 && beta.hi >= 0)) return Real<T>::anything(flags);
  const auto f = [](T v, T by) { return softplus1(v * by) / by; };  // rises with v, falls with either sign of `by`
  const T a = f(x.lo, beta.hi), b = f(x.hi, beta.lo);
  if (a != a || b != b) return Real<T>::anything(flags);
  // The product beta x is rounded, where it is large that moves the result by as much.
  Real<T> smooth = inexact(std::min(a, b), std::max(a, b), false, false, flags, c);
  return where_above(z.hi > threshold.lo, true, x, smooth, false);
}

}  // namespace codetta::oracle
