// SPDX-License-Identifier: Apache-2.0
// The search for offsets. That "largest first into the best gap" comes close to the bound is measured in
// tests/unit/plan/memory_quality_test.cpp; items that are alive at the peak are tried first, too, as in the "greedy by
// breadth" of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020).
#include "plan/memory_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "plan/memory_tree.hpp"

namespace codetta::plan {
namespace {

using Order = std::vector<uint32_t>;

// Free ranges below the end of an allocation that grows; neighbours are merged.
class FreeRanges {
 public:
  int64_t take(int64_t bytes) {
    auto fit = by_size_.lower_bound({bytes, 0});
    if (fit != by_size_.end()) {
      const auto [size, at] = *fit;
      erase(at, size);
      if (size > bytes) insert(at + bytes, size - bytes);
      return at;
    }
    int64_t at = end_;
    if (!by_place_.empty()) {
      const auto [last, size] = *by_place_.rbegin();
      if (last + size == end_) {
        erase(last, size);
        at = last;
      }
    }
    end_ = at + bytes;
    return at;
  }
  void give(int64_t at, int64_t bytes) {
    auto next = by_place_.lower_bound(at);
    if (next != by_place_.end() && at + bytes == next->first) {
      bytes += next->second;
      erase(next->first, next->second);
      next = by_place_.lower_bound(at);
    }
    if (next != by_place_.begin()) {
      const auto [before, size] = *std::prev(next);
      if (before + size == at) {
        erase(before, size);
        at = before;
        bytes += size;
      }
    }
    insert(at, bytes);
  }
  [[nodiscard]] int64_t end() const { return end_; }

 private:
  void insert(int64_t at, int64_t bytes) {
    by_place_.emplace(at, bytes);
    by_size_.emplace(bytes, at);
  }
  void erase(int64_t at, int64_t bytes) {
    by_place_.erase(at);
    by_size_.erase({bytes, at});
  }
  std::map<int64_t, int64_t> by_place_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

// As an allocator would see the line, forward or backward.
Offsets sweep(const std::vector<SearchItem>& items, bool backward) {
  const auto begin = [&](uint32_t i) { return backward ? SIZE_MAX - items[i].last : items[i].first; };
  const auto end = [&](uint32_t i) { return backward ? SIZE_MAX - items[i].first : items[i].last; };
  Order order(items.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) {  // of one position, what lives longest lies lowest
              return std::make_tuple(begin(a), ~end(a), -items[a].bytes, a) <
                     std::make_tuple(begin(b), ~end(b), -items[b].bytes, b);
            });
  Offsets result;
  result.at.resize(items.size());
  FreeRanges free;
  std::priority_queue<std::pair<size_t, uint32_t>, std::vector<std::pair<size_t, uint32_t>>, std::greater<>> alive;
  for (const uint32_t i : order) {
    for (; !alive.empty() && alive.top().first < begin(i); alive.pop()) {
      const uint32_t over = alive.top().second;
      free.give(result.at[over], items[over].bytes);
    }
    result.at[i] = free.take(items[i].bytes);
    alive.emplace(end(i), i);
  }
  result.bytes = free.end();
  return result;
}

class Search {
 public:
  Search(const std::vector<SearchItem>& items, const Conflicts& conflicts, int64_t lower_bound)
      : items_(items), conflicts_(conflicts), lower_bound_(lower_bound) {
    best_.bytes = INT64_MAX;
    trial_.at.resize(items.size());
    placed_.resize(items.size());
    // Enough for every order on small problems; on large ones for one or two.
    work_left_ = std::max<size_t>(300'000, 60 * items.size());
  }

  void offer(Offsets other) {
    if (other.bytes >= best_.bytes) return;
    best_ = std::move(other);
    best_order_.resize(items_.size());
    std::iota(best_order_.begin(), best_order_.end(), 0U);
    std::sort(best_order_.begin(), best_order_.end(),
              [&](uint32_t a, uint32_t b) { return best_.at[a] != best_.at[b] ? best_.at[a] < best_.at[b] : a < b; });
  }

  Offsets run() {
    const auto length = [&](uint32_t i) { return items_[i].last - items_[i].first + 1; };
    const auto area = [&](uint32_t i) { return static_cast<double>(items_[i].bytes) * static_cast<double>(length(i)); };
    const std::vector<int64_t> breadth = breadths();
    attempt([&](uint32_t i) { return std::make_tuple(items_[i].bytes, length(i), ~items_[i].first); });
    attempt([&](uint32_t i) { return std::make_tuple(breadth[i], items_[i].bytes, length(i)); });
    attempt([&](uint32_t i) { return std::make_tuple(area(i), items_[i].bytes, ~items_[i].first); });
    attempt([&](uint32_t i) { return std::make_tuple(length(i), items_[i].bytes, ~items_[i].first); });
    attempt([&](uint32_t i) { return std::make_tuple(~items_[i].first, items_[i].bytes, length(i)); });
    attempt([&](uint32_t i) { return std::make_tuple(items_[i].last, items_[i].bytes, length(i)); });
    improve();
    return std::move(best_);
  }

 private:
  [[nodiscard]] bool finished() const { return best_.bytes <= lower_bound_ || work_left_ == 0; }

  // The largest sum of live bytes that each item sees.
  [[nodiscard]] std::vector<int64_t> breadths() const {
    size_t positions = 0;
    for (const SearchItem& item : items_) positions = std::max(positions, item.last + 1);
    std::vector<int64_t> live(positions + 1, 0);
    for (const SearchItem& item : items_) {
      live[item.first] += item.bytes;
      live[item.last + 1] -= item.bytes;
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    const RangeMaxTree tree(live);
    std::vector<int64_t> result;
    result.reserve(items_.size());
    for (const SearchItem& item : items_) result.push_back(tree.max(item.first, item.last + 1).value_or(0));
    return result;
  }

  template <class Key>
  void attempt(Key key) {
    if (finished()) return;
    using Value = decltype(key(0U));
    std::vector<Value> keys;
    keys.reserve(items_.size());
    for (uint32_t i = 0; i < items_.size(); ++i) keys.push_back(key(i));
    Order order(items_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
    if (place(order)) best_order_ = std::move(order);
  }

  // Whether it is better than the best so far, which it then is.
  bool place(const Order& order) {
    std::fill(placed_.begin(), placed_.end(), false);
    trial_.bytes = 0;
    size_t work = 0;
    for (const uint32_t i : order) {
      taken_.clear();
      for (const uint32_t other : conflicts_.of(i)) {
        if (placed_[other]) taken_.emplace_back(trial_.at[other], trial_.at[other] + items_[other].bytes);
      }
      std::sort(taken_.begin(), taken_.end());
      const int64_t need = items_[i].bytes;
      int64_t best = -1, best_gap = INT64_MAX, end = 0;
      for (const auto& [begin, after] : taken_) {
        const int64_t gap = begin - end;
        if (gap >= need && gap < best_gap) {
          best = end;
          best_gap = gap;
        }
        end = std::max(end, after);
      }
      trial_.at[i] = best >= 0 ? best : end;
      placed_[i] = true;
      trial_.bytes = std::max(trial_.bytes, trial_.at[i] + need);
      work += conflicts_.of(i).size() + 2;
      if (trial_.bytes >= best_.bytes) break;  // no better than what is known
    }
    work_left_ -= std::min(work, work_left_);
    if (trial_.bytes >= best_.bytes) return false;
    best_ = trial_;
    return true;
  }

  // Draws what lies on top to the front of the order, or exchanges two at random, and keeps what helps.
  void improve() {
    constexpr size_t most = 3000;  // larger problems gain too little for the work
    if (best_order_.empty() || items_.size() > most) return;
    uint64_t state = 0x9E3779B97F4A7C15u;  // SplitMix64: the same on every machine
    const auto random = [&](size_t below) {
      state += 0x9E3779B97F4A7C15u;
      uint64_t z = state;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      return static_cast<size_t>((z ^ (z >> 31)) % below);
    };
    Order order = best_order_;
    for (size_t round = 0; !finished(); ++round) {
      Order next = order;
      if (round % 2 == 0) {
        size_t top = 0;
        for (size_t at = 1; at < next.size(); ++at) {
          if (best_.at[next[at]] + items_[next[at]].bytes > best_.at[next[top]] + items_[next[top]].bytes) top = at;
        }
        const size_t to = random(top + 1);
        std::rotate(next.begin() + static_cast<std::ptrdiff_t>(to), next.begin() + static_cast<std::ptrdiff_t>(top),
                    next.begin() + static_cast<std::ptrdiff_t>(top) + 1);
      }
      for (size_t swaps = round % 4; swaps > 0; --swaps)
        std::swap(next[random(next.size())], next[random(next.size())]);
      if (place(next)) order = std::move(next);
    }
  }

  const std::vector<SearchItem>& items_;
  const Conflicts& conflicts_;
  int64_t lower_bound_;
  size_t work_left_ = 0;
  Offsets best_, trial_;
  Order best_order_;
  std::vector<bool> placed_;
  std::vector<std::pair<int64_t, int64_t>> taken_;
};

Order by_first(const std::vector<SearchItem>& items) {
  Order order(items.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return items[a].first != items[b].first ? items[a].first < items[b].first : a < b;
  });
  return order;
}

}  // namespace

std::optional<Conflicts> Conflicts::of_lifetimes(const std::vector<SearchItem>& items, size_t most) {
  const Order order = by_first(items);
  // How many are alive where each begins, without naming them.
  std::vector<size_t> ends;
  ends.reserve(items.size());
  for (const SearchItem& item : items) ends.push_back(item.last);
  std::sort(ends.begin(), ends.end());
  size_t pairs = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto over = std::lower_bound(ends.begin(), ends.end(), items[order[i]].first) - ends.begin();
    pairs += i - static_cast<size_t>(over);
    if (pairs > most) return std::nullopt;
  }
  std::vector<std::pair<uint32_t, uint32_t>> list;
  list.reserve(pairs);
  std::vector<uint32_t> alive;
  for (const uint32_t i : order) {
    for (size_t at = 0; at < alive.size();) {
      if (items[alive[at]].last < items[i].first) {
        alive[at] = alive.back();
        alive.pop_back();
      } else {
        list.emplace_back(alive[at], i);
        ++at;
      }
    }
    alive.push_back(i);
  }
  return of_pairs(items.size(), list);
}

Conflicts Conflicts::of_pairs(size_t items, const std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
  Conflicts result;
  result.begin_.assign(items + 1, 0);
  for (const auto& [a, b] : pairs) {
    ++result.begin_[a + 1];
    ++result.begin_[b + 1];
  }
  std::partial_sum(result.begin_.begin(), result.begin_.end(), result.begin_.begin());
  result.neighbours_.resize(2 * pairs.size());
  std::vector<size_t> next(result.begin_.begin(), result.begin_.end() - 1);
  for (const auto& [a, b] : pairs) {
    result.neighbours_[next[a]++] = b;
    result.neighbours_[next[b]++] = a;
  }
  return result;
}

int64_t most_alive(const std::vector<SearchItem>& items) {
  std::vector<std::pair<size_t, int64_t>> changes;
  changes.reserve(2 * items.size());
  for (const SearchItem& item : items) {
    changes.emplace_back(item.first, item.bytes);
    changes.emplace_back(item.last + 1, -item.bytes);
  }
  std::sort(changes.begin(), changes.end());  // at one position what ends comes first
  int64_t live = 0, most = 0;
  for (const auto& [at, bytes] : changes) {
    live += bytes;
    most = std::max(most, live);
  }
  return most;
}

Offsets search_offsets(const std::vector<SearchItem>& items, const Conflicts* conflicts, bool by_lifetimes,
                       int64_t lower_bound) {
  if (items.empty()) return {};
  Offsets best{{}, INT64_MAX};
  if (conflicts == nullptr || by_lifetimes) {
    best = sweep(items, false);
    if (best.bytes <= lower_bound) return best;
    Offsets backward = sweep(items, true);
    if (backward.bytes < best.bytes) best = std::move(backward);
  }
  if (conflicts == nullptr || best.bytes <= lower_bound) return best;
  Search search(items, *conflicts, lower_bound);
  search.offer(std::move(best));
  return search.run();
}

}  // namespace codetta::plan
