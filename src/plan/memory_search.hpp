// SPDX-License-Identifier: Apache-2.0
// Offsets of constant sizes by search: several orders, each thing into the gap that fits best, the best order kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace codetta::plan {

// Placed as [offset, offset + bytes); those with meeting [first, last] must not overlap.
struct SearchItem {
  int64_t bytes = 0;
  size_t first = 0, last = 0;
};

// Which items must not overlap, as neighbours of each.
class Conflicts {
 public:
  // Items whose lifetimes meet; nullopt where there are more than `most` pairs.
  static std::optional<Conflicts> of_lifetimes(const std::vector<SearchItem>& items, size_t most);
  // From pairs, each once.
  static Conflicts of_pairs(size_t items, const std::vector<std::pair<uint32_t, uint32_t>>& pairs);
  [[nodiscard]] std::span<const uint32_t> of(size_t item) const {
    return {neighbours_.data() + begin_[item], begin_[item + 1] - begin_[item]};
  }
  [[nodiscard]] size_t size() const { return neighbours_.size(); }

 private:
  std::vector<size_t> begin_;
  std::vector<uint32_t> neighbours_;
};

struct Offsets {
  std::vector<int64_t> at;
  int64_t bytes = 0;
};

// The largest sum of sizes alive at one position.
int64_t most_alive(const std::vector<SearchItem>& items);

// `conflicts` say what must not overlap; nullptr: lifetimes do, and one sweep over the line in each direction has to
// do. With `by_lifetimes` both say the same. Work is bounded by a multiple of the number of items, so large problems
// get fewer orders. Sizes must add up within 64 bits.
Offsets search_offsets(const std::vector<SearchItem>& items, const Conflicts* conflicts, bool by_lifetimes,
                       int64_t lower_bound);

}  // namespace codetta::plan
