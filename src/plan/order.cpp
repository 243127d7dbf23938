// SPDX-License-Identifier: Apache-2.0
// Orders by heuristics, judged by one estimate. Least peak: of the steps that are ready, the one that raises the peak
// the least, then the one that leaves the least behind. Breadth first: what was made first is used first. Depth first:
// one result after another, the operand that takes the most first (as in Sethi and Ullman, "The Generation of Optimal
// Code for Arithmetic Expressions", 1970).
#include "plan/order.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>

#include <fmt/format.h>

#include "base/result.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::plan {
namespace {

constexpr uint32_t nobody = UINT32_MAX;

Error impossible(std::string reason) {
  return diag::error(diag::Code::internal, "the steps cannot be ordered")
      .reason(std::move(reason))
      .help("please report this with the program");
}

// Of the steps that are ready, in the order of what they allocate: the first that suits, in O(log n).
class ReadySteps {
 public:
  using Value = std::pair<int64_t, uint32_t>;  // what remains allocated behind it, step

  // `allocates` by step.
  explicit ReadySteps(const std::vector<int64_t>& allocates) : allocates_(allocates), rank_(allocates.size()) {
    sorted_.resize(allocates.size());
    std::iota(sorted_.begin(), sorted_.end(), 0U);
    std::sort(sorted_.begin(), sorted_.end(), [&](uint32_t a, uint32_t b) {
      return std::make_pair(allocates[a], a) < std::make_pair(allocates[b], b);
    });
    for (uint32_t r = 0; r < sorted_.size(); ++r) rank_[sorted_[r]] = r;
    leaves_ = std::bit_ceil(std::max<size_t>(sorted_.size(), 1));
    tree_.assign(2 * leaves_, none);
  }
  void set(uint32_t step, int64_t remains) { put(step, {remains, step}); }
  void remove(uint32_t step) { put(step, none); }

  // Raises a peak at `room` above what is live by the least; among equals leaves the least; then the first of the list.
  [[nodiscard]] uint32_t best(int64_t room) const {
    const auto fits = std::upper_bound(sorted_.begin(), sorted_.end(), room,
                                       [&](int64_t bytes, uint32_t step) { return bytes < allocates_[step]; });
    Value found = least(0, static_cast<size_t>(fits - sorted_.begin()));
    if (found != none) return found.second;
    const size_t first = first_present();
    const int64_t bytes = allocates_[sorted_[first]];
    const auto same = std::upper_bound(sorted_.begin(), sorted_.end(), bytes,
                                       [&](int64_t b, uint32_t step) { return b < allocates_[step]; });
    return least(first, static_cast<size_t>(same - sorted_.begin())).second;
  }

 private:
  static constexpr Value none{INT64_MAX, nobody};

  void put(uint32_t step, Value value) {
    size_t node = leaves_ + rank_[step];
    tree_[node] = value;
    for (node /= 2; node > 0; node /= 2) tree_[node] = std::min(tree_[2 * node], tree_[2 * node + 1]);
  }
  [[nodiscard]] Value least(size_t begin, size_t end) const {
    Value result = none;
    for (begin += leaves_, end += leaves_; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) result = std::min(result, tree_[begin++]);
      if (end % 2 == 1) result = std::min(result, tree_[--end]);
    }
    return result;
  }
  [[nodiscard]] size_t first_present() const {
    size_t node = 1;
    while (node < leaves_) node = tree_[2 * node] != none ? 2 * node : 2 * node + 1;
    return node - leaves_;
  }

  const std::vector<int64_t>& allocates_;
  std::vector<uint32_t> sorted_;
  std::vector<size_t> rank_;
  size_t leaves_ = 1;
  std::vector<Value> tree_;
};

class Orderer {
 public:
  Orderer(const std::vector<OrderStep>& steps, const std::vector<OrderBuffer>& buffers)
      : steps_(steps), buffers_(buffers) {}

  Result<StepOrder> run() {
    CODETTA_CHECK_OK(connect());
    const std::vector<uint32_t> possible = as_written();
    if (possible.size() != steps_.size()) return impossible("they need one another in a circle");
    StepOrder best;
    best.steps = possible;
    best.peak = peak_of(steps_, buffers_, possible);
    best.as_written = best.peak;
    best.by = "as written";
    const auto offer = [&](std::vector<uint32_t> order, std::string_view by) {
      const int64_t peak = peak_of(steps_, buffers_, order);
      if (peak >= best.peak) return;
      best.steps = std::move(order);
      best.peak = peak;
      best.by = by;
    };
    offer(least_peak(), "least peak");
    offer(breadth_first(), "breadth first");
    offer(depth_first(true), "depth first");
    offer(depth_first(false), "depth first");
    return best;
  }

 private:
  Result<void> connect() {
    maker_.assign(buffers_.size(), nobody);
    readers_.resize(buffers_.size());
    before_.resize(steps_.size());
    after_.resize(steps_.size());
    reads_.resize(steps_.size());
    for (uint32_t s = 0; s < steps_.size(); ++s) {
      for (const uint32_t b : steps_[s].makes) {
        if (b >= buffers_.size() || maker_[b] != nobody)
          return impossible(fmt::format("step {} makes buffer {}", s, b));
        maker_[b] = s;
      }
    }
    for (uint32_t s = 0; s < steps_.size(); ++s) {
      reads_[s] = steps_[s].reads;
      std::sort(reads_[s].begin(), reads_[s].end());
      reads_[s].erase(std::unique(reads_[s].begin(), reads_[s].end()), reads_[s].end());
      std::vector<uint32_t>& before = before_[s];
      for (const uint32_t b : reads_[s]) {
        if (b >= buffers_.size() || maker_[b] == s) return impossible(fmt::format("step {} reads buffer {}", s, b));
        readers_[b].push_back(s);
        if (maker_[b] != nobody) before.push_back(maker_[b]);
      }
      for (const uint32_t other : steps_[s].behind) {
        if (other >= steps_.size()) return impossible(fmt::format("step {} is behind step {}", s, other));
        before.push_back(other);
      }
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
      for (const uint32_t other : before) after_[other].push_back(s);
    }
    return {};
  }

  [[nodiscard]] std::vector<size_t> waiting() const {
    std::vector<size_t> count;
    for (const auto& before : before_) count.push_back(before.size());
    return count;
  }

  // The order of the list, as far as it is possible.
  [[nodiscard]] std::vector<uint32_t> as_written() const {
    std::vector<size_t> left = waiting();
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
    for (uint32_t s = 0; s < steps_.size(); ++s) {
      if (left[s] == 0) ready.push(s);
    }
    std::vector<uint32_t> order;
    while (!ready.empty()) {
      const uint32_t s = ready.top();
      ready.pop();
      order.push_back(s);
      for (const uint32_t next : after_[s]) {
        if (--left[next] == 0) ready.push(next);
      }
    }
    return order;
  }

  [[nodiscard]] int64_t made_by(uint32_t s) const {
    int64_t bytes = 0;
    for (const uint32_t b : steps_[s].makes) bytes += buffers_[b].bytes;
    return bytes;
  }

  [[nodiscard]] std::vector<uint32_t> least_peak() const {
    std::vector<int64_t> allocates, remains;
    for (uint32_t s = 0; s < steps_.size(); ++s) {
      const int64_t made = made_by(s);
      allocates.push_back(made + steps_[s].scratch);
      remains.push_back(made);
      for (const uint32_t b : steps_[s].makes) {
        if (readers_[b].empty() && !buffers_[b].is_kept) remains.back() -= buffers_[b].bytes;
      }
    }
    std::vector<size_t> uses, left = waiting();
    int64_t live = 0;
    for (uint32_t b = 0; b < buffers_.size(); ++b) {
      uses.push_back(readers_[b].size());
      if (maker_[b] == nobody) live += buffers_[b].bytes;
      if (readers_[b].size() == 1 && !buffers_[b].is_kept) remains[readers_[b][0]] -= buffers_[b].bytes;
    }
    ReadySteps ready(allocates);
    for (uint32_t s = 0; s < steps_.size(); ++s) {
      if (left[s] == 0) ready.set(s, remains[s]);
    }
    std::vector<uint32_t> order;
    std::vector<bool> done(steps_.size(), false);
    int64_t peak = live;
    while (order.size() < steps_.size()) {
      const uint32_t s = ready.best(peak - live);
      ready.remove(s);
      done[s] = true;
      order.push_back(s);
      peak = std::max(peak, live + allocates[s]);
      live += remains[s];
      for (const uint32_t b : reads_[s]) {
        if (--uses[b] != 1 || buffers_[b].is_kept) continue;
        for (const uint32_t last : readers_[b]) {  // found once a buffer: all others are done
          if (done[last]) continue;
          remains[last] -= buffers_[b].bytes;
          if (left[last] == 0) ready.set(last, remains[last]);
        }
      }
      for (const uint32_t next : after_[s]) {
        if (--left[next] == 0) ready.set(next, remains[next]);
      }
    }
    return order;
  }

  [[nodiscard]] std::vector<uint32_t> breadth_first() const {
    std::vector<size_t> left = waiting();
    using Entry = std::pair<std::vector<uint32_t>, uint32_t>;  // when what it needs has run, step
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    std::vector<uint32_t> order, at(steps_.size(), 0);
    const auto make_ready = [&](uint32_t s) {
      Entry entry{{}, s};
      for (const uint32_t b : before_[s]) entry.first.push_back(at[b]);
      std::sort(entry.first.begin(), entry.first.end());
      ready.push(std::move(entry));
    };
    for (uint32_t s = 0; s < steps_.size(); ++s) {
      if (left[s] == 0) make_ready(s);
    }
    while (!ready.empty()) {
      const uint32_t s = ready.top().second;
      ready.pop();
      at[s] = static_cast<uint32_t>(order.size());
      order.push_back(s);
      for (const uint32_t next : after_[s]) {
        if (--left[next] == 0) make_ready(next);
      }
    }
    return order;
  }

  [[nodiscard]] std::vector<uint32_t> depth_first(bool largest_first) const {
    std::vector<int64_t> moved;
    for (uint32_t s = 0; s < steps_.size(); ++s) {
      int64_t bytes = made_by(s);
      for (const uint32_t b : reads_[s]) bytes += buffers_[b].bytes;
      moved.push_back(bytes);
    }
    // A stack of its own: programs are deeper than call stacks.
    struct Frame {
      uint32_t step;
      std::vector<uint32_t> before;
      size_t next = 0;
    };
    const auto frame = [&](uint32_t s) {
      Frame made{s, before_[s], 0};
      std::sort(made.before.begin(), made.before.end(), [&](uint32_t a, uint32_t b) {
        if (moved[a] != moved[b]) return largest_first ? moved[a] > moved[b] : moved[a] < moved[b];
        return a < b;
      });
      return made;
    };
    std::vector<uint32_t> order;
    std::vector<bool> seen(steps_.size(), false);
    for (uint32_t root = 0; root < steps_.size(); ++root) {
      if (!after_[root].empty() || seen[root]) continue;
      std::vector<Frame> stack;
      seen[root] = true;
      stack.push_back(frame(root));
      while (!stack.empty()) {
        Frame& top = stack.back();
        if (top.next == top.before.size()) {
          order.push_back(top.step);
          stack.pop_back();
          continue;
        }
        const uint32_t s = top.before[top.next++];
        if (seen[s]) continue;
        seen[s] = true;
        stack.push_back(frame(s));
      }
    }
    return order;
  }

  const std::vector<OrderStep>& steps_;
  const std::vector<OrderBuffer>& buffers_;
  std::vector<uint32_t> maker_;                        // by buffer
  std::vector<std::vector<uint32_t>> readers_;         // by buffer, ascending
  std::vector<std::vector<uint32_t>> before_, after_;  // by step
  std::vector<std::vector<uint32_t>> reads_;           // by step, each once
};

}  // namespace

int64_t peak_of(const std::vector<OrderStep>& steps, const std::vector<OrderBuffer>& buffers,
                const std::vector<uint32_t>& order) {
  std::vector<size_t> first(buffers.size(), 0), last(buffers.size(), SIZE_MAX);  // last: SIZE_MAX, nobody touches it
  for (size_t at = 0; at < order.size(); ++at) {
    const OrderStep& step = steps[order[at]];
    for (const uint32_t b : step.makes) first[b] = last[b] = at;
    for (const uint32_t b : step.reads) last[b] = at;
  }
  std::vector<int64_t> change(order.size() + 1, 0);
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (last[b] == SIZE_MAX && !buffers[b].is_kept) continue;
    change[first[b]] += buffers[b].bytes;
    change[buffers[b].is_kept ? order.size() : last[b] + 1] -= buffers[b].bytes;
  }
  int64_t live = 0, peak = 0;
  for (size_t at = 0; at < order.size(); ++at) {
    live += change[at];
    peak = std::max(peak, live + steps[order[at]].scratch);
  }
  return peak;
}

Result<StepOrder> order_for_memory(const std::vector<OrderStep>& steps, const std::vector<OrderBuffer>& buffers) {
  return Orderer(steps, buffers).run();
}

}  // namespace codetta::plan
