// SPDX-License-Identifier: Apache-2.0
#include "base/checked.hpp"
#include "runtime/forms.hpp"

namespace codetta::runtime {

void OffsetSpace::insert(int64_t offset, int64_t bytes) {
  if (bytes == 0) return;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    by_size_.erase({next->second, next->first});
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      by_size_.erase({before->second, before->first});
      free_.erase(before);
    }
  }
  free_[offset] = bytes;
  by_size_.insert({bytes, offset});
}

std::optional<int64_t> OffsetSpace::take(int64_t bytes, int64_t alignment) {
  constexpr int64_t unit = 64;
  // Every range begins at a multiple of the unit; a larger alignment takes room in front.
  const auto rounded = base::checked_round_up(bytes, unit);
  const auto need = rounded ? base::checked_add(*rounded, alignment > unit ? alignment - unit : 0) : std::nullopt;
  if (!need) return std::nullopt;
  int64_t offset = 0;
  if (const auto fit = by_size_.lower_bound({*need, 0}); fit != by_size_.end() && *need > 0) {
    offset = fit->second;
    const int64_t left = fit->first - *need;
    free_.erase(offset);
    by_size_.erase(fit);
    if (left > 0) insert(offset + *need, left);
  } else {
    const auto end = base::checked_add(end_, *need);
    if (!end || *end > INT64_MAX / 2) return std::nullopt;
    offset = end_;
    end_ = *end;
  }
  const int64_t aligned = alignment > unit ? base::round_up(offset, alignment) : offset;
  if (*need > 0) taken_[aligned] = {offset, *need};
  return aligned;
}

void OffsetSpace::give_back(int64_t offset) {
  const auto at = taken_.find(offset);
  if (at == taken_.end()) return;  // of an empty buffer
  const auto [begin, bytes] = at->second;
  taken_.erase(at);
  insert(begin, bytes);
}

}  // namespace codetta::runtime
