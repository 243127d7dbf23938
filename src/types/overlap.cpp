// SPDX-License-Identifier: Apache-2.0
// The overlap test. Two strided views meet where a linear equation with bounded unknowns has a solution:
//   sum of stride * index over both views = distance, each index in [0, size), plus the byte inside of each element.
// This is subset sum in general; for the views that occur (boxes in a matrix) the bounds leave one or two values each.
#include "types/overlap.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace codetta::types {
namespace {

// coefficient * x with x in [0, most]; coefficient > 0, most > 0.
struct Unknown {
  __int128 coefficient = 0;
  __int128 most = 0;
};

class Equation {
 public:
  void add(__int128 coefficient, __int128 most) {
    if (coefficient != 0 && most > 0) unknowns_.push_back({coefficient, most});
  }

  // Is there a solution of sum = target? True also when the search gives up.
  bool solvable(__int128 target) {
    std::sort(unknowns_.begin(), unknowns_.end(),
              [](const Unknown& a, const Unknown& b) { return a.coefficient > b.coefficient; });
    std::vector<Unknown> merged;
    for (const Unknown& u : unknowns_) {
      if (!merged.empty() && merged.back().coefficient == u.coefficient) {
        merged.back().most += u.most;
      } else {
        merged.push_back(u);
      }
    }
    unknowns_ = std::move(merged);
    const size_t n = unknowns_.size();
    reach_.assign(n + 1, 0);
    divisor_.assign(n + 1, 0);
    dense_.assign(n + 1, true);
    for (size_t i = n; i-- > 0;) {
      const Unknown& u = unknowns_[i];
      reach_[i] = reach_[i + 1] + u.coefficient * u.most;
      divisor_[i] = gcd(divisor_[i + 1], u.coefficient);
      // The rest reaches every multiple of its divisor up to reach, so no gap when this step is no longer than that.
      dense_[i] = dense_[i + 1] && (i + 1 == n || u.coefficient <= reach_[i + 1] + divisor_[i + 1]) &&
                  (i + 1 == n || u.coefficient % divisor_[i + 1] == 0);
    }
    budget_ = 100000;
    return search(0, target);
  }

 private:
  static __int128 gcd(__int128 a, __int128 b) {
    while (b != 0) a = std::exchange(b, a % b);
    return a;
  }

  bool search(size_t i, __int128 target) {
    if (target < 0 || target > reach_[i]) return false;
    if (i == unknowns_.size() || target == 0) return target == 0;
    if (target % divisor_[i] != 0) return false;
    if (dense_[i] || --budget_ < 0) return true;
    const Unknown& u = unknowns_[i];
    const __int128 missing = target - reach_[i + 1];
    const __int128 first = missing > 0 ? (missing + u.coefficient - 1) / u.coefficient : 0;
    const __int128 last = std::min(u.most, target / u.coefficient);
    for (__int128 x = last; x >= first; --x) {
      if (search(i + 1, target - x * u.coefficient)) return true;
    }
    return false;
  }

  std::vector<Unknown> unknowns_;
  std::vector<__int128> reach_;    // the largest sum of the unknowns from i on
  std::vector<__int128> divisor_;  // their common divisor
  std::vector<bool> dense_;        // they reach every multiple of it in [0, reach]
  int budget_ = 0;
};

__int128 absolute(__int128 v) { return v < 0 ? -v : v; }

bool empty(const Placed& view) {
  for (int i = 0; i < view.rank; ++i) {
    if (view.sizes[i] == 0) return true;
  }
  return false;
}

// First and one-past-last byte that the view can touch.
std::pair<const std::byte*, const std::byte*> bytes_of(const Placed& view) {
  const auto* data = static_cast<const std::byte*>(view.data);
  if (empty(view)) return {data, data};
  int64_t below = 0, above = 0;
  for (int i = 0; i < view.rank; ++i) {
    const int64_t reach = view.strides[i] * (view.sizes[i] - 1);
    (reach < 0 ? below : above) += reach;
  }
  return {data + below * view.element, data + (above + 1) * view.element};
}

}  // namespace

bool overlaps(const Placed& a, const Placed& b) {
  const auto [a_begin, a_end] = bytes_of(a);
  const auto [b_begin, b_end] = bytes_of(b);
  if (a_begin == a_end || b_begin == b_end || a_end <= b_begin || b_end <= a_begin) return false;
  // Count a from its lowest byte upward and b from its highest downward; all steps are then positive.
  Equation equation;
  for (const Placed* view : {&a, &b}) {
    const __int128 size = view->element;
    for (int i = 0; i < view->rank; ++i) equation.add(absolute(view->strides[i]) * size, view->sizes[i] - 1);
    equation.add(1, size - 1);
  }
  return equation.solvable(b_end - a_begin - 1);
}

bool overlaps_itself(const Placed& view) {
  if (empty(view)) return false;
  std::vector<std::pair<__int128, int64_t>> steps;  // stride, size
  for (int i = 0; i < view.rank; ++i) {
    if (view.sizes[i] > 1) steps.emplace_back(absolute(view.strides[i]), view.sizes[i]);
  }
  std::sort(steps.begin(), steps.end());
  // The usual case: every step goes beyond all that the smaller ones reach together.
  __int128 reach = 0;
  bool nested = true;
  for (const auto& [stride, size] : steps) {
    if (stride == 0) return true;
    nested = nested && stride > reach;
    reach += stride * (size - 1);
  }
  if (nested) return false;
  // Two elements differ by d_i positions along each dimension, |d_i| < size_i. The first d_i that is not 0 counts as
  // positive (else swap the two): d_i = 1 + y, and the later ones are x - (size - 1). Is the sum of d_i strides 0?
  for (size_t first = 0; first < steps.size(); ++first) {
    Equation equation;
    equation.add(steps[first].first, steps[first].second - 2);
    __int128 target = -steps[first].first;
    for (size_t i = first + 1; i < steps.size(); ++i) {
      const auto& [stride, size] = steps[i];
      equation.add(stride, 2 * (static_cast<__int128>(size) - 1));
      target += stride * (size - 1);
    }
    if (equation.solvable(target)) return true;
  }
  return false;
}

}  // namespace codetta::types
