// SPDX-License-Identifier: Apache-2.0
// Range add and range maximum over a fixed line, O(log n) each.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

namespace codetta::plan {

// Sums must stay within 64 bits; the caller bounds them. Not for several threads at once.
class RangeMaxTree {
 public:
  explicit RangeMaxTree(const std::vector<int64_t>& values) : size_(values.size()) {
    leaves_ = std::bit_ceil(std::max<size_t>(size_, 1));
    most_.assign(2 * leaves_, INT64_MIN);
    added_.assign(2 * leaves_, 0);
    std::copy(values.begin(), values.end(), most_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (size_t node = leaves_; node-- > 1;) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
  }

  // Over [begin, end); an empty or inverted range, or one that leaves the line, changes nothing and has no maximum.
  void add(size_t begin, size_t end, int64_t value) {
    if (valid(begin, end)) add(1, 0, leaves_, begin, end, value);
  }
  [[nodiscard]] std::optional<int64_t> max(size_t begin, size_t end) const {
    if (!valid(begin, end)) return std::nullopt;
    return max(1, 0, leaves_, begin, end);
  }

 private:
  [[nodiscard]] bool valid(size_t begin, size_t end) const { return begin < end && end <= size_; }

  void add(size_t node, size_t low, size_t high, size_t begin, size_t end, int64_t value) {
    if (begin <= low && high <= end) {
      added_[node] += value;
      // Leaves beyond the line stay at the least value, which is not a number to add to.
      if (most_[node] != INT64_MIN) most_[node] += value;
      return;
    }
    const size_t middle = (low + high) / 2;
    if (begin < middle) add(2 * node, low, middle, begin, end, value);
    if (end > middle) add(2 * node + 1, middle, high, begin, end, value);
    most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
    if (most_[node] != INT64_MIN) most_[node] += added_[node];
  }

  [[nodiscard]] int64_t max(size_t node, size_t low, size_t high, size_t begin, size_t end) const {
    if (begin <= low && high <= end) return most_[node];
    const size_t middle = (low + high) / 2;
    int64_t most = INT64_MIN;
    if (begin < middle) most = max(2 * node, low, middle, begin, end);
    if (end > middle) most = std::max(most, max(2 * node + 1, middle, high, begin, end));
    return most == INT64_MIN ? most : most + added_[node];
  }

  size_t size_, leaves_ = 1;
  std::vector<int64_t> most_, added_;  // added_: to the whole of a node, part of its most_
};

}  // namespace codetta::plan
