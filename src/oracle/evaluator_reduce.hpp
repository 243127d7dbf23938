// SPDX-License-Identifier: Apache-2.0
// Reductions. A kernel may add in any order within a tile, so the error of a sum is that of as many roundings as it has
// terms, or as the largest tile: partial sums in f32 are folded in f64, or in two floats where there is none.
#pragma once

#include "oracle/evaluator_elementwise.hpp"
#include "oracle/exactness.hpp"

namespace codetta::oracle {

// No f32 sum of a kernel takes more terms one after the other (docs/semantics.md): the largest tile, that of maps on a
// CPU whose rows and columns are reduced, where it is one column wide. f64 has no such limit.
constexpr int64_t longest_chain = int64_t{1} << 17;

// Of n roundings to nearest whose errors are independent of each other and 0 on average: exceeded with a probability of
// less than 2 exp(-8^2 / 2) = 2.6e-14 (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis",
// 2019; the martingale form of Connolly, Higham and Mary, 2021).
template <class T>
T probable_gamma(T roundings, T unit) {
  return std::expm1(8 * std::sqrt(roundings) * unit + roundings * unit * unit);
}

// The relative error of a sum of `terms`, each rounded `roundings` times on its way, in a kernel and in T. `cancels`:
// much of the terms does, on the way, too; where it does not, equal terms may round one way all along.
template <class T>
T sum_rounding(int64_t terms, int roundings, DType d, bool cancels) {
  const bool tiled = d == DType::f32 && terms > longest_chain;
  const T steps = T(tiled ? longest_chain + 1 : terms) * T(roundings);
  const T folding = tiled ? gamma<T>(T(terms), T(0x1p-44)) : T(0);
  const T unit = T(types::unit_roundoff(d)), certain = gamma<T>(steps, unit);
  return (cancels ? std::min(certain, probable_gamma<T>(steps, unit)) : certain) + folding +
         gamma<T>(T(terms) * T(roundings) + 2, unit_of<T>);
}

// What is known of one sum of reals.
template <class T>
struct Sum {
  T lo = 0, hi = 0, magnitudes = 0;  // magnitudes of the finite ends
  T passed = 0;                      // sizes of the partial sums in this order, of which each rounds by a part
  int64_t terms = 0;
  Quantum quantum;
  unsigned flags = 0;
  bool points = true, nan = false;
  bool no_negative = true, no_positive = true;  // then partial sums only grow: one that overflows is the result
  bool negative_zeros = true;  // each term may be -0: then so may the sum, where it has one term or starts with one

  void take(const Real<T>& x) {
    ++terms;
    flags |= x.flags;
    if (x.is_nan()) {
      nan = true;
      return;
    }
    points = points && x.lo == x.hi;
    no_negative = no_negative && x.lo >= 0;
    no_positive = no_positive && x.hi <= 0;
    const bool positive_zero = x.lo == x.hi && !std::signbit(x.lo);
    negative_zeros = negative_zeros && x.lo <= 0 && x.hi >= 0 && !positive_zero;
    lo += x.lo;
    hi += x.hi;
    const T most = std::max(std::abs(x.lo), std::abs(x.hi));
    if (std::isfinite(most)) magnitudes += most;
    passed += std::max(std::abs(lo), std::abs(hi));
    if (points) quantum.take(x.lo);
  }

  // `roundings`: of each term on its way.
  [[nodiscard]] Real<T> result(DType d, int roundings) const {
    if (nan) return Real<T>::point(std::numeric_limits<T>::quiet_NaN());
    if (lo != lo || hi != hi) return points ? Real<T>::point(lo != lo ? lo : hi) : Real<T>::anything(flags);
    if (std::isinf(lo) && std::isinf(hi) && lo != hi) return Real<T>::anything(flags);  // inf - inf lies inside
    const bool may_overflow = magnitudes > T(types::max_finite(d)) && !no_negative && !no_positive;
    if (std::isinf(lo) || std::isinf(hi))  // against an infinity that follows
      return {lo, hi, static_cast<uint8_t>(flags | (may_overflow ? may_be_nan : 0))};
    if (lo == 0 && hi == 0 && terms > 0 && negative_zeros) return {-T(0), T(0), static_cast<uint8_t>(flags)};
    if (points && exact_sum(magnitudes, quantum.lowest, d)) return {lo, hi, static_cast<uint8_t>(flags)};
    if (terms == 1) return {nearest(lo, d), nearest(hi, d), static_cast<uint8_t>(flags)};
    if (may_overflow) return Real<T>::anything(flags);
    const T n = T(terms) * T(roundings);
    // Terms that first add up and then cancel may round one way all along, too: -1 and then 1 / n, n times.
    const bool cancels =
        std::max(std::abs(lo), std::abs(hi)) <= magnitudes / 4 && passed <= 8 * std::sqrt(n) * magnitudes;
    const T error = magnitudes * sum_rounding<T>(terms, roundings, d, cancels) + n * T(types::min_subnormal(d));
    return {nearest(lo - error, d), nearest(hi + error, d), static_cast<uint8_t>(flags)};
  }
};

template <class T>
Real<T> squared(const Real<T>& x) {
  if (x.is_nan()) return x;
  const Real<T> magnitude = absolute(x);
  Real<T> s = exact_product(Real<T>{magnitude.lo, magnitude.lo, 0}, Real<T>{magnitude.lo, magnitude.lo, 0});
  s.hi = exact_product(Real<T>{magnitude.hi, magnitude.hi, 0}, Real<T>{magnitude.hi, magnitude.hi, 0}).hi;
  s.flags = x.flags;
  return s;
}

// sum / n as a division or as a product with the rounded 1 / n.
template <class T>
Real<T> mean_of(const Real<T>& sum, int64_t n, const RealContext& c) {
  if (n == 0) return Real<T>::point(std::numeric_limits<T>::quiet_NaN());
  if (sum.is_nan()) return sum;
  const RealContext strict{c.dtype, c.accuracy, false};
  const Real<T> count = Real<T>::point(nearest(T(n), c.dtype));
  const Real<T> part = div(Real<T>::point(1), count, strict);
  return hull(div(sum, count, strict), mul(sum, part, strict), 0);
}

// log(sum exp(x)): a kernel subtracts the maximum, perhaps of a part, and rescales; every term then has a few
// roundings, of the exponent, too, where |x - max| exp(-|x - max|) < 1/2.
template <class T>
Real<T> logsumexp_of(T low_max, T high_max, T low_sum, T high_sum, int64_t n, unsigned flags, const RealContext& c) {
  constexpr T inf = std::numeric_limits<T>::infinity();
  if (high_max == inf || low_max == -inf) {
    const T lo = low_max == inf ? inf : low_max == -inf ? -inf : low_max, hi = high_max;
    if (lo == hi) return {lo, hi, static_cast<uint8_t>(flags)};
    if (hi == inf) return {lo, hi, static_cast<uint8_t>(flags)};
  }
  const T lo = low_max == -inf ? -inf : low_max + std::log(low_sum);
  const T hi = high_max + std::log(high_sum);
  const T unit = T(types::unit_roundoff(c.dtype));
  const T most = std::max(std::abs(low_max == -inf ? hi : low_max), std::abs(high_max));
  // Partials may be folded in f32, then several side by side: those of 256 terms or more, by eight threads.
  const int64_t steps = c.dtype == DType::f32 ? std::min(n, longest_chain + n / 64) : n;
  const T error = gamma<T>(T(steps) + 16, unit) + 4 * unit * (most + std::abs(hi) + std::abs(std::log(high_sum)) + 2);
  return {nearest(lo - (lo == -inf ? T(0) : error), c.dtype), nearest(hi + error, c.dtype),
          static_cast<uint8_t>(flags)};
}

template <class T, class GoesOn>
void reduce_ints(Op op, const Block<T>& in, const Sizes& strides, Block<T>& out, GoesOn&& goes_on_at) {
  const DType d = out.dtype;
  const auto apply = [&](Op arithmetic, std::initializer_list<Int> v) {
    return int_arithmetic(arithmetic, {v.begin(), v.size()}, d);
  };
  Int start = Int::point(0);
  if (op == Op::reduce_max) start = Int::point(types::min_int(d));
  if (op == Op::reduce_min) start = Int::point(static_cast<int64_t>(types::max_int(d)));
  std::fill(out.ints.begin(), out.ints.end(), start);
  size_t i = 0;
  for_each_row(in.axes.locals(), [&](int64_t, const Sizes& at) {
    int64_t base = 0;
    for (size_t k = 0; k + 1 < at.size(); ++k) base += at[k] * strides[k];
    const int64_t inner = at.empty() ? 1 : in.axes.local(at.size() - 1);
    for (int64_t j = 0; j < inner && goes_on_at(j, inner); ++j, ++i) {
      Int& total = out.ints[static_cast<size_t>(base + (at.empty() ? 0 : j * strides.back()))];
      const Int& x = in.ints[i];
      if (op == Op::reduce_sum) total = apply(Op::add, {total, x});
      if (op == Op::reduce_max) total = apply(Op::maximum, {total, x});
      if (op == Op::reduce_min) total = apply(Op::minimum, {total, x});
      if (op == Op::reduce_amax) total = apply(Op::maximum, {total, apply(Op::abs, {x})});
      if (op == Op::reduce_sum_of_squares) total = apply(Op::add, {total, apply(Op::mul, {x, x})});
    }
  });
}

template <class T>
void Evaluator<T>::reduce(ir::NodeId id, Block<T>& out) {
  const Op op = graph_.node(id).op;
  Block<T> room;
  const Block<T>& in = as(graph_.operands(id)[0], out.dtype, room);
  Sizes strides = broadcast_strides(out.axes.locals(), in.axes.rank());
  for (const int32_t dim : graph_.attr_as<ir::ReduceAttr>(id).dims) strides[static_cast<size_t>(dim)] = 0;
  if (!out.real())
    return reduce_ints(op, in, strides, out, [this](int64_t j, int64_t row) { return goes_on_at(j, row); });

  const RealContext c = context(op, out.dtype);
  constexpr T inf = std::numeric_limits<T>::infinity();
  const Sizes space = in.axes.locals();
  const auto visit = [&](auto&& f) {
    size_t i = 0;
    for_each_row(space, [&](int64_t, const Sizes& at) {
      int64_t base = 0;
      for (size_t k = 0; k + 1 < at.size(); ++k) base += at[k] * strides[k];
      const int64_t inner = space.empty() ? 1 : space.back();
      for (int64_t j = 0; j < inner && goes_on_at(j, inner); ++j, ++i)
        f(static_cast<size_t>(base + (space.empty() ? 0 : j * strides.back())), in.reals[i]);
    });
  };
  if (op == Op::reduce_max || op == Op::reduce_min || op == Op::reduce_amax) {
    const T start = op == Op::reduce_max ? -inf : op == Op::reduce_min ? inf : T(0);
    std::fill(out.reals.begin(), out.reals.end(), Real<T>::point(start));
    return visit([&](size_t to, const Real<T>& x) {
      Real<T>& best = out.reals[to];
      if (op == Op::reduce_min) {
        best = minimum(best, x);
      } else {
        best = maximum(best, op == Op::reduce_amax && !x.is_nan() ? absolute(x) : x);
      }
    });
  }
  std::vector<Sum<T>> sums(out.reals.size());
  if (op != Op::reduce_logsumexp) {
    const bool squares = op == Op::reduce_sum_of_squares;
    visit([&](size_t to, const Real<T>& x) { sums[to].take(squares ? squared(x) : x); });
    for (size_t i = 0; i < sums.size(); ++i) {
      const Sum<T>& sum = sums[i];
      // One square is a product, which may be contracted with what takes it.
      Real<T> r = squares && sum.terms == 1 && !sum.nan
                      ? contractible(Real<T>{sum.lo, sum.hi, static_cast<uint8_t>(sum.flags)}, c)
                      : sum.result(c.dtype, squares ? 2 : 1);
      if (squares && !r.is_nan() && r.lo < 0) r.lo = 0;
      out.reals[i] = op == Op::reduce_mean ? mean_of(r, sums[i].terms, c) : r;
    }
    return;
  }
  std::vector<T> low_max(sums.size(), -inf), high_max(sums.size(), -inf);
  visit([&](size_t to, const Real<T>& x) {
    if (x.is_nan()) return;
    low_max[to] = std::max(low_max[to], x.lo);
    high_max[to] = std::max(high_max[to], x.hi);
  });
  visit([&](size_t to, const Real<T>& x) {
    sums[to].flags |= x.flags;
    ++sums[to].terms;
    sums[to].nan = sums[to].nan || x.is_nan();
    if (std::isfinite(low_max[to])) sums[to].lo += std::exp(x.lo - low_max[to]);
    if (std::isfinite(high_max[to])) sums[to].hi += std::exp(x.hi - high_max[to]);
  });
  for (size_t i = 0; i < sums.size(); ++i) {
    out.reals[i] = sums[i].nan
                       ? Real<T>::point(std::numeric_limits<T>::quiet_NaN())
                       : logsumexp_of(low_max[i], high_max[i], sums[i].lo, sums[i].hi, sums[i].terms, sums[i].flags, c);
  }
}

}  // namespace codetta::oracle
