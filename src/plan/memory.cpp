// SPDX-License-Identifier: Apache-2.0
// Where temporaries lie in the workspace, and the checker that doesn't trust the planner.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "plan/plan.hpp"

namespace codetta::plan {
namespace {

int64_t aligned(int64_t bytes) { return base::round_up(bytes, memory_alignment); }
bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Places in the given order; returns the bytes used.
int64_t place(std::vector<Lifetime>& lifetimes, const std::vector<size_t>& order) {
  int64_t total = 0;
  std::vector<size_t> placed;
  for (const size_t i : order) {
    Lifetime& lifetime = lifetimes[i];
    std::vector<std::pair<int64_t, int64_t>> taken;  // [begin, end) of what lives at the same time
    for (const size_t j : placed) {
      if (meet(lifetime, lifetimes[j]))
        taken.emplace_back(lifetimes[j].offset, lifetimes[j].offset + aligned(lifetimes[j].bytes));
    }
    std::sort(taken.begin(), taken.end());
    const int64_t need = aligned(lifetime.bytes);
    int64_t best = -1, best_gap = INT64_MAX, end = 0;
    for (const auto& [begin, after] : taken) {
      const int64_t gap = begin - end;
      if (gap >= need && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, after);
    }
    lifetime.offset = best >= 0 ? best : end;
    total = std::max(total, lifetime.offset + need);
    placed.push_back(i);
  }
  return total;
}

int64_t peak(const std::vector<Lifetime>& lifetimes) {
  int64_t most = 0;
  for (const Lifetime& at : lifetimes) {  // the peak is reached where some lifetime begins
    int64_t live = 0;
    for (const Lifetime& other : lifetimes) {
      if (other.first <= at.first && at.first <= other.last) live += aligned(other.bytes);
    }
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

MemoryPlan plan_memory(std::vector<Lifetime> lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto length = [&](size_t i) { return lifetimes[i].last - lifetimes[i].first; };
  const auto by = [&](auto key) {
    std::vector<size_t> sorted = order;
    std::stable_sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
    return sorted;
  };
  const std::vector<size_t> orders[] = {
      by([&](size_t i) { return std::make_pair(lifetimes[i].bytes, static_cast<int64_t>(length(i))); }),
      by([&](size_t i) { return std::make_pair(static_cast<int64_t>(length(i)), lifetimes[i].bytes); }),
      by([&](size_t i) { return -static_cast<int64_t>(lifetimes[i].first); }),
  };
  MemoryPlan plan;
  plan.lower_bound = peak(lifetimes);
  plan.bytes = INT64_MAX;
  for (const auto& candidate : orders) {
    std::vector<Lifetime> trial = lifetimes;
    const int64_t bytes = place(trial, candidate);
    if (bytes >= plan.bytes) continue;
    plan.bytes = bytes;
    plan.lifetimes = std::move(trial);
    if (bytes == plan.lower_bound) break;
  }
  return plan;
}

Result<void> check_memory(const MemoryPlan& plan) {
  const auto internal = [](std::string reason) {
    return diag::error(diag::Code::internal, "the memory plan is wrong")
        .reason(std::move(reason))
        .help("please report this with the program");
  };
  for (size_t i = 0; i < plan.lifetimes.size(); ++i) {
    const Lifetime& a = plan.lifetimes[i];
    if (a.bytes < 0 || a.offset < 0 || a.first > a.last || a.offset % memory_alignment != 0) {
      return internal(fmt::format("buffer {} has {} bytes at offset {} from step {} to {}", a.buffer, a.bytes, a.offset,
                                  a.first, a.last));
    }
    if (a.bytes > plan.bytes || a.offset > plan.bytes - a.bytes) {
      return internal(fmt::format("buffer {} ends at {}, beyond the workspace of {} bytes", a.buffer,
                                  a.offset + a.bytes, plan.bytes));
    }
    for (size_t j = 0; j < i; ++j) {
      const Lifetime& b = plan.lifetimes[j];
      const bool same_time = !(a.last < b.first || b.last < a.first);
      const bool same_place = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      if (same_time && same_place) {
        return internal(fmt::format("buffers {} and {} share bytes from {} while both live", b.buffer, a.buffer,
                                    std::max(a.offset, b.offset)));
      }
    }
  }
  return {};
}

}  // namespace codetta::plan
