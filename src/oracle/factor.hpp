// SPDX-License-Identifier: Apache-2.0
// Operands of a matrix product, a slice of K at a time, and the sums over what K has had so far. Every element adds its
// products in the order of k, whatever the slices are, so that these don't show in any bit.
#pragma once

#include "oracle/block.hpp"
#include "oracle/exactness.hpp"
#include "oracle/pulse.hpp"

namespace codetta::oracle {

// Steps first..first + count along K, of the `of` that a block has.
template <class T>
struct Slice {
  const Block<T>* block = nullptr;
  size_t first = 0, count = 0, of = 0;
};

// Stored matrices, whose lines are rows of A, columns of B.
struct Lines {
  bool rows = false;
  size_t items = 0, lines = 0;
  // Of (line, step) in the block of a slice.
  template <class T>
  [[nodiscard]] size_t at(const Slice<T>& slice, size_t item, size_t line, size_t step) const {
    const size_t k = slice.first + step;
    return item * lines * slice.of + (rows ? line * slice.of + k : k * lines + line);
  }
};

// One operand of floats as the loops want it.
template <class T>
struct Factor {
  Lines of;
  bool points = true;  // the whole operand
  T flush = 0;         // what is smaller is taken as 0

  // By stored line, over what was taken.
  std::vector<uint8_t> flags, tiny;  // OR; whether something is there that is flushed
  std::vector<uint8_t> nan;          // whether something is there that can be NaN alone
  std::vector<int> lowest;           // lowest bit, of points
  std::vector<T> size;               // of magnitudes, where something is flushed
  // Of the slice, without gaps.
  std::vector<T> middle, most;  // most: |middle| + radius
  std::vector<T> magnitude;     // |middle|, of what is not points
  bool finite = true;

  Factor(Lines lines, bool all_points, T flush_below) : of(lines), points(all_points), flush(flush_below) {
    const size_t count = of.items * of.lines;
    flags.resize(count);
    nan.resize(count);
    lowest.resize(count, Quantum().lowest);
    if (flush > 0) tiny.resize(count), size.resize(count);
  }

  void take(const Slice<T>& slice) {
    const size_t count = of.items * of.lines * slice.count;
    middle.resize(count);
    most.resize(count);
    finite = true;
    const size_t outer = of.rows ? of.lines : slice.count, inner = of.rows ? slice.count : of.lines;
    size_t to = 0;
    for (size_t item = 0; item < of.items; ++item) {
      for (size_t o = 0; o < outer; ++o) {
        for (size_t i = 0; i < inner; ++i, ++to) {
          const size_t line = of.rows ? o : i;
          take(slice.block->reals[of.at(slice, item, line, of.rows ? i : o)], item * of.lines + line, to);
        }
      }
    }
  }
  // Of both operands of a product: whether sums of magnitudes without radii are kept.
  void keep_magnitudes() {
    magnitude.resize(middle.size());
    for (size_t i = 0; i < middle.size(); ++i) magnitude[i] = std::abs(middle[i]);
  }

 private:
  void take(const Real<T>& x, size_t line, size_t to) {
    middle[to] = x.middle();
    most[to] = std::abs(middle[to]) + x.radius() * (1 + 4 * unit_of<T>);
    finite = finite && std::isfinite(x.lo) && std::isfinite(x.hi);
    flags[line] |= x.flags;
    nan[line] |= uint8_t{x.is_nan()};
    if (points) {
      Quantum quantum{lowest[line]};
      quantum.take(x.lo);
      lowest[line] = quantum.lowest;
    }
    if (flush > 0) size[line] += most[to], tiny[line] |= uint8_t{most[to] != 0 && most[to] < flush};
  }
};

// c += a b. False: it was stopped.
template <class T>
bool multiply(const T* a, const T* b, T* c, size_t m, size_t n, size_t k, Pulse& pulse) {
  constexpr size_t block = 64;
  for (size_t k0 = 0; k0 < k; k0 += block) {
    const size_t k1 = std::min(k, k0 + block);
    for (size_t i = 0; i < m; ++i) {
      if (!pulse.beats(static_cast<int64_t>((k1 - k0) * n))) return false;
      T* row = c + i * n;
      for (size_t p = k0; p < k1; ++p) {
        const T x = a[i * k + p];
        const T* y = b + p * n;
        for (size_t j = 0; j < n; ++j) row[j] += x * y[j];
      }
    }
  }
  return true;
}

// Of elements of the result, over what K has had so far.
template <class T>
struct Sums {
  std::vector<T> sum, most;  // of products; of magnitudes with radii
  std::vector<T> plain;      // of magnitudes without, where an operand is no points
  std::vector<T> within;     // of the magnitudes that are finite, where `most` is not; empty while nothing was infinite
  void clear(size_t count, bool points) {
    sum.assign(count, T(0));
    most.assign(count, T(0));
    plain.assign(points ? 0 : count, T(0));
    within.clear();
  }
  // m x n elements from `at` on, of items item_a and item_b of the slices that were taken last. False: it was stopped.
  bool add(const Factor<T>& a, size_t item_a, const Factor<T>& b, size_t item_b, size_t k, size_t at, Pulse& pulse) {
    const size_t m = a.of.lines, n = b.of.lines, from_a = item_a * m * k, from_b = item_b * n * k;
    const bool infinite = !a.finite || !b.finite || !within.empty();
    std::vector<T> before;
    if (infinite) before.assign(most.data() + at, most.data() + at + m * n);
    const auto product = [&](const std::vector<T>& x, const std::vector<T>& y, std::vector<T>& to) {
      return multiply(x.data() + from_a, y.data() + from_b, to.data() + at, m, n, k, pulse);
    };
    if (!product(a.middle, b.middle, sum) || !product(a.most, b.most, most)) return false;
    if (!plain.empty() && !product(a.magnitude, b.magnitude, plain)) return false;
    if (!infinite) return true;
    // What no infinity was in and is infinite is beyond T.
    if (within.empty()) within.assign(most.size(), std::numeric_limits<T>::infinity());
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        if (std::isfinite(most[at + i * n + j])) continue;
        T& finite = within[at + i * n + j];
        if (std::isfinite(before[i * n + j])) finite = before[i * n + j];
        for (size_t p = 0; p < k; ++p) {
          const T term = a.most[from_a + i * k + p] * b.most[from_b + p * n + j];
          if (std::isfinite(term)) finite += term;
        }
      }
    }
    return true;
  }
};

}  // namespace codetta::oracle
