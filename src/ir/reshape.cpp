// SPDX-License-Identifier: Apache-2.0
#include "ir/reshape.hpp"

#include <algorithm>

namespace codetta::ir {

std::vector<ReshapeSegment> reshape_segments(const std::vector<Dim>& to, const std::vector<Dim>& from) {
  const Dim one = Dim::constant(1);
  std::vector<ReshapeSegment> segments;
  size_t i = to.size(), j = from.size();
  while (true) {
    while (i > 0 && to[i - 1] == one) --i;
    while (j > 0 && from[j - 1] == one) --j;
    if (i == 0 && j == 0) return segments;
    if (i == 0 || j == 0) return {};
    // The shortest pair of runs whose products agree, by trying every length: ranks are small.
    bool found = false;
    for (size_t total = 2; total <= i + j && !found; ++total) {
      for (size_t a = 1; a < total && a <= i && !found; ++a) {
        const size_t b = total - a;
        if (b > j) continue;
        Dim left = one, right = one;
        for (size_t d = i - a; d < i; ++d) left = left * to[d];
        for (size_t d = j - b; d < j; ++d) right = right * from[d];
        if (!(left == right)) continue;
        ReshapeSegment segment;
        for (size_t d = i - a; d < i; ++d) {
          if (to[d] != one) segment.to.push_back(d);
        }
        for (size_t d = j - b; d < j; ++d) {
          if (from[d] != one) segment.from.push_back(d);
        }
        segments.push_back(std::move(segment));
        i -= a;
        j -= b;
        found = true;
      }
    }
    if (!found) return {};
  }
}

std::optional<size_t> step_of(const ReshapeSegment& segment, const std::vector<Dim>& from) {
  for (size_t d = segment.from.back(); d < from.size(); ++d) {
    const auto low = from[d].lower_bound();
    if (low && *low >= 2) return d;
  }
  return std::nullopt;
}

bool needs_order(const std::vector<Dim>& to, const std::vector<Dim>& from) {
  const std::vector<ReshapeSegment> segments = reshape_segments(to, from);
  return std::any_of(segments.begin(), segments.end(),
                     [&](const ReshapeSegment& segment) { return segment.from.size() > 1 && !step_of(segment, from); });
}

}  // namespace codetta::ir
