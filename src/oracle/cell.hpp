// SPDX-License-Identifier: Apache-2.0
// Values of single elements: intervals that hold every admissible result. T is double, and long double for graphs with
// f64: on x86 with 11 more bits than f64, on AArch64 Linux with 60 more. Where long double is no wider, bounds grow and
// stay valid, because each operation that is inexact in T moves the ends outwards.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::oracle {

enum CellFlag : uint8_t {
  may_be_nan = 1,
  ambiguous = 2,
};

// lo <= hi, also when infinite. Both NaN: certainly NaN. One point (equal ends) of known sign: the result is exactly
// that.
template <class T>
struct Real {
  T lo = 0, hi = 0;
  uint8_t flags = 0;
  static Real point(T x) { return {x, x, x != x ? uint8_t{may_be_nan} : uint8_t{0}}; }
  static Real anything(unsigned flags) {
    constexpr T inf = std::numeric_limits<T>::infinity();
    return {-inf, inf, static_cast<uint8_t>(flags | may_be_nan | ambiguous)};
  }
  [[nodiscard]] bool is_nan() const { return lo != lo; }
  [[nodiscard]] bool is_point() const { return lo == hi && std::signbit(lo) == std::signbit(hi) && flags == 0; }
  [[nodiscard]] T middle() const { return lo == hi ? lo : lo / 2 + hi / 2; }
  [[nodiscard]] T radius() const { return lo == hi ? T(0) : hi / 2 - lo / 2; }
};

// Payloads as in types::Scalar, so u64 compares after widening.
struct Int {
  int64_t lo = 0, hi = 0;
  uint8_t flags = 0;
  static Int point(int64_t x) { return {x, x, 0}; }
  [[nodiscard]] bool is_point() const { return lo == hi; }
};

__extension__ using Wide = __int128;
inline Wide widened(int64_t payload, DType d) {
  return d == DType::u64 ? Wide(static_cast<uint64_t>(payload)) : Wide(payload);
}
inline Wide least(DType d) { return types::min_int(d); }
inline Wide greatest(DType d) { return Wide(types::max_int(d)); }

// A payload modulo 2^bits.
inline int64_t wrapped(uint64_t x, DType d) {
  const int unused = 64 - (types::is_bool(d) ? 1 : types::bits(d));
  if (unused == 0) return static_cast<int64_t>(x);
  if (types::is_unsigned(d) || types::is_bool(d)) return static_cast<int64_t>((x << unused) >> unused);
  return static_cast<int64_t>(x << unused) >> unused;
}
inline Int any_int(DType d, unsigned flags) {
  return {static_cast<int64_t>(least(d)), static_cast<int64_t>(greatest(d)), static_cast<uint8_t>(flags | ambiguous)};
}
// An interval of mathematical results; one that leaves the type wraps, and then only a point stays one.
inline Int int_result(Wide lo, Wide hi, DType d, unsigned flags) {
  if (lo == hi) {
    const int64_t x = wrapped(static_cast<uint64_t>(lo), d);
    return {x, x, static_cast<uint8_t>(flags)};
  }
  if (lo < least(d) || hi > greatest(d)) return any_int(d, flags);
  return {static_cast<int64_t>(lo), static_cast<int64_t>(hi), static_cast<uint8_t>(flags)};
}

template <class T>
constexpr T unit_of = std::numeric_limits<T>::epsilon() / 2;

// Outwards by more than the error of one rounding of T, a result that has one.
template <class T>
T downward(T x) {
  if (std::isinf(x)) return x;
  return x - (std::abs(x) * (2 * unit_of<T>)+std::numeric_limits<T>::denorm_min());
}
template <class T>
T upward(T x) {
  if (std::isinf(x)) return x;
  return x + (std::abs(x) * (2 * unit_of<T>)+std::numeric_limits<T>::denorm_min());
}

// To nearest even in a compute dtype (f32 or f64).
template <class T>
T nearest(T x, DType d) {
  if (d == DType::f32) {
    // volatile: GCC 12 at -O2 drops the conversion to float and back when it vectorizes a pair of them.
    const volatile float rounded = static_cast<float>(x);
    return T(rounded);
  }
  const volatile double rounded = static_cast<double>(x);
  return T(rounded);
}
// As cast to any float dtype.
template <class T>
T stored(T x, DType d) {
  if (d == DType::f32 || d == DType::f64) return nearest(x, d);
  unsigned char bytes[8] = {};
  types::store_f64(bytes, d, static_cast<double>(x));
  return T(types::load_f64(bytes, d));
}

// Two exact sums: the rounding error of a + b (Knuth's TwoSum); meaningless for infinities.
template <class T>
T sum_error(T a, T b, T s) {
  const T t = s - a;
  return (a - (s - t)) + (b - t);
}

// Spacing of a compute dtype at y, from above.
template <class T>
T spacing(T y, DType d) {
  return d == DType::f32 ? std::abs(y) * T(0x1p-23) + T(0x1p-149) : std::abs(y) * T(0x1p-52) + T(0x1p-1074);
}

// Whether an interval of integers says less than the reals that were rounded to it. Of many integers it does not: there
// a rounding matters no more than elsewhere.
template <class T>
bool widened_by_rounding(T lo, T hi, T real_lo, T real_hi) {
  return lo != hi && !(std::isfinite(hi - lo) && hi - lo <= 2 * (real_hi - real_lo));
}

template <class T>
Real<T> hull(const Real<T>& a, const Real<T>& b, unsigned flags) {
  flags |= a.flags | b.flags;
  if (a.is_nan() && b.is_nan()) return a;
  if (a.is_nan()) return {b.lo, b.hi, static_cast<uint8_t>(flags | may_be_nan)};
  if (b.is_nan()) return {a.lo, a.hi, static_cast<uint8_t>(flags | may_be_nan)};
  // Of zeros of opposite sign, both.
  const bool lower = b.lo < a.lo || (b.lo == a.lo && std::signbit(b.lo));
  const bool higher = b.hi > a.hi || (b.hi == a.hi && !std::signbit(b.hi));
  return {lower ? b.lo : a.lo, higher ? b.hi : a.hi, static_cast<uint8_t>(flags)};
}

}  // namespace codetta::oracle
