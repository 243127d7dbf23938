// SPDX-License-Identifier: Apache-2.0
// plan_memory: what is placed where, and the report. The searches and the guard on reuse have files of their own.
#include "plan/memory.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/result.hpp"
#include "diag/diagnostic.hpp"
#include "plan/memory_blocks.hpp"
#include "plan/memory_reuse.hpp"
#include "plan/memory_search.hpp"
#include "plan/memory_symbolic.hpp"

namespace codetta::plan {

using types::Dim;
using Kind = Placement::Kind;
using Storage = MemoryRequest::Storage;

namespace {

// Streams are told apart pair by pair on problems up to this size; larger ones give each stream a part of the pool.
constexpr size_t max_items_by_pairs = 2048;

Error no_room(std::string reason) {
  return diag::error(diag::Code::tensor_overflow, "temporaries leave 64 bits")
      .reason(std::move(reason))
      .help("use smaller sizes");
}

class PoolPlanner {
 public:
  PoolPlanner(const MemoryProblem& problem, const Blocks& all)
      : problem_(problem), all_(all), place_(all.blocks.size()), hinted_at_(all.blocks.size(), -1) {}

  Result<MemoryPlan> run() {
    ByPool by_pool;
    for (uint32_t b = 0; b < all_.blocks.size(); ++b) {
      const Block& block = all_.blocks[b];
      if (block.of_caller) {
        place_[b].kind = Kind::Caller;
      } else if (!(block.bytes == Dim::constant(0))) {
        by_pool[{block.device, problem_.requests[block.members[0]].known_from}].push_back(b);
      }
    }
    fill_donated(by_pool);
    for (const auto& [pool, blocks] : by_pool) {
      if (!blocks.empty()) CODETTA_CHECK_OK(add_pool(pool.first, blocks));
    }
    plan_.placements.resize(problem_.requests.size());
    for (uint32_t b = 0; b < all_.blocks.size(); ++b) {
      for (const uint32_t i : all_.blocks[b].members) {
        Placement& placement = plan_.placements[i];
        placement = place_[b];
        place_in_others(problem_, all_, i, placement);
      }
    }
    return std::move(plan_);
  }

  // The hinted end of each block in its pool, -1: not in a pool.
  [[nodiscard]] int64_t end_of(uint32_t block) const {
    return hinted_at_[block] < 0 ? -1 : hinted_at_[block] + all_.blocks[block].hinted;
  }

 private:
  // A pool is placed as a whole, and its bytes are known then: by device and MemoryRequest::known_from.
  using ByPool = std::map<std::pair<uint32_t, size_t>, std::vector<uint32_t>>;

  // A donated input holds blocks of its own stream after its last use, one after another, the largest first.
  void fill_donated(ByPool& by_pool) {
    for (const uint32_t i : all_.sorted) {
      const MemoryRequest& donor = problem_.requests[i];
      if (donor.storage != Storage::Donated || all_.base[i] != i) continue;
      const Block& home = all_.blocks[all_.block_of[i]];
      const auto of_device = by_pool.find({donor.device, 0});
      if (home.uses.size() != 1 || of_device == by_pool.end()) continue;
      std::vector<uint32_t> guests;
      for (const uint32_t b : of_device->second) {
        const Block& block = all_.blocks[b];
        const MemoryRequest& owner = problem_.requests[block.members[0]];
        if (block.uses.size() == 1 && block.stream == home.stream && block.first > home.last &&
            owner.alignment <= donor.alignment && proven_at_most(owner.bytes, donor.bytes))
          guests.push_back(b);
      }
      std::sort(guests.begin(), guests.end(), [&](uint32_t a, uint32_t b) {
        const Block &x = all_.blocks[a], &y = all_.blocks[b];
        if (x.hinted != y.hinted) return x.hinted > y.hinted;
        return std::make_pair(x.last - x.first, b) > std::make_pair(y.last - y.first, a);
      });
      std::map<size_t, size_t> taken;  // first to last
      for (const uint32_t b : guests) {
        const Block& block = all_.blocks[b];
        const auto next = taken.lower_bound(block.first);
        if ((next != taken.end() && next->first <= block.last) ||
            (next != taken.begin() && std::prev(next)->second >= block.first))
          continue;
        taken.emplace(block.first, block.last);
        place_[b].kind = Kind::Reuse;
        place_[b].of = donor.buffer;
        ++plan_.report.reused;
      }
      std::erase_if(of_device->second, [&](uint32_t b) { return place_[b].kind == Kind::Reuse; });
    }
  }

  Result<void> add_pool(uint32_t device, const std::vector<uint32_t>& blocks) {
    MemoryPool pool;
    pool.device = device;
    pool.alignment = all_.alignment;
    const Block& one = all_.blocks[blocks[0]];
    const bool one_stream = std::all_of(blocks.begin(), blocks.end(), [&](uint32_t b) {
      return all_.blocks[b].uses.size() == 1 && all_.blocks[b].stream == one.stream;
    });
    if (one_stream || blocks.size() <= max_items_by_pairs) {
      CODETTA_CHECK_OK(add_part(pool, blocks, one_stream));
    } else {
      std::map<uint32_t, std::vector<uint32_t>> by_stream;
      for (const uint32_t b : blocks) by_stream[all_.blocks[b].stream].push_back(b);
      for (const auto& [stream, part] : by_stream) CODETTA_CHECK_OK(add_part(pool, part, true));
    }
    plan_.report.peak += pool.hinted;
    plan_.pools.push_back(std::move(pool));
    return {};
  }

  // Until when a block keeps its own stream from using its place.
  [[nodiscard]] size_t held_until(const Block& block) const {
    size_t last = block.last;
    for (const MemoryRequest::Use& use : block.uses) {
      const size_t free = all_.order.release(use.stream, use.last, block.stream);
      last = std::max(last, free == never ? all_.positions : free - 1);
    }
    return last;
  }

  // Places blocks behind what the pool has so far.
  Result<void> add_part(MemoryPool& pool, const std::vector<uint32_t>& blocks, bool by_lifetimes) {
    std::vector<SearchItem> items;
    std::vector<Dim> sizes;
    bool symbolic = false;
    for (const uint32_t b : blocks) {
      const Block& block = all_.blocks[b];
      items.push_back({block.hinted, block.first, by_lifetimes ? held_until(block) : block.last});
      sizes.push_back(problem_.requests[block.members[0]].bytes);
      symbolic = symbolic || !block.bytes.is_constant();
    }
    std::optional<Conflicts> conflicts;
    if (by_lifetimes) {
      conflicts = Conflicts::of_lifetimes(items, std::max<size_t>(100'000, 32 * items.size()));
    } else {
      std::vector<std::pair<uint32_t, uint32_t>> pairs;
      for (uint32_t i = 0; i < blocks.size(); ++i) {
        for (uint32_t j = 0; j < i; ++j) {
          if (in_conflict(all_, all_.blocks[blocks[i]], all_.blocks[blocks[j]])) pairs.emplace_back(j, i);
        }
      }
      conflicts = Conflicts::of_pairs(items.size(), pairs);
    }
    const Offsets found = search_offsets(items, conflicts ? &*conflicts : nullptr, by_lifetimes, most_alive(items));
    if (!symbolic && pool.bytes.is_constant()) {
      const int64_t base = *pool.bytes.as_constant();
      for (size_t i = 0; i < blocks.size(); ++i)
        place(blocks[i], base + found.at[i], Dim::constant(base + found.at[i]));
      pool.bytes = Dim::constant(base + found.bytes);
      pool.hinted += found.bytes;
      return {};
    }
    std::vector<uint32_t> order(items.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return std::make_pair(found.at[a], a) < std::make_pair(found.at[b], b); });
    const SymbolicOffsets stacked =
        stack_in_order(sizes, items, all_.alignment, order, by_lifetimes ? nullptr : &*conflicts);
    const bool moved = !(pool.bytes == Dim::constant(0));
    for (size_t i = 0; i < blocks.size(); ++i) {
      Placement& placement =
          place(blocks[i], pool.hinted + stacked.hinted[i], moved ? pool.bytes + stacked.at[i] : stacked.at[i]);
      if (placement.offset.fault() != types::DimFault::none) return too_complex();
      if (!moved && !placement.offset.is_constant()) placement.terms = stacked.terms[i];
    }
    pool.bytes = moved ? pool.bytes + stacked.bytes : stacked.bytes;
    pool.hinted += stacked.hinted_bytes;
    if (pool.bytes.fault() != types::DimFault::none) return too_complex();
    return {};
  }

  static Error too_complex() { return no_room("the sum of symbolic sizes has no 64-bit expression"); }

  Placement& place(uint32_t block, int64_t hinted, Dim offset) {
    hinted_at_[block] = hinted;
    place_[block].kind = Kind::Pool;
    place_[block].pool = static_cast<uint32_t>(plan_.pools.size());
    place_[block].offset = std::move(offset);
    place_[block].hinted = hinted;
    return place_[block];
  }

  const MemoryProblem& problem_;
  const Blocks& all_;
  MemoryPlan plan_;
  std::vector<Placement> place_;    // by block
  std::vector<int64_t> hinted_at_;  // by block
};

// Live bytes by position. An operand that is taken over counts once where it changes hands. `left_out`: blocks that
// count for nothing; empty: none.
std::vector<int64_t> live_bytes(const Blocks& all, uint32_t device, const std::vector<bool>& left_out = {}) {
  std::vector<int64_t> live(all.positions + 1, 0);
  for (uint32_t b = 0; b < all.blocks.size(); ++b) {
    const Block& block = all.blocks[b];
    if (block.of_caller || block.device != device || (!left_out.empty() && left_out[b])) continue;
    live[block.first] += block.hinted;
    live[block.last + 1] -= block.hinted;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

// The largest need of a device: of what lives, at most as much as has been donated and is not needed any more lies in
// memory of the caller.
int64_t least_bytes(const MemoryProblem& problem, const Blocks& all, uint32_t device,
                    const std::vector<int64_t>& live) {
  std::vector<int64_t> donated(all.positions + 1, 0);
  for (const Block& block : all.blocks) {
    const MemoryRequest& owner = problem.requests[block.members[0]];
    if (owner.storage == Storage::Donated && block.device == device) donated[block.last + 1] += block.hinted;
  }
  int64_t given = 0, least = 0;
  for (size_t p = 0; p < live.size(); ++p) {
    given += donated[p];
    least = std::max(least, live[p] - given);
  }
  return least;
}

// Blocks that lie in donated memory.
std::vector<bool> lent_blocks(const MemoryProblem& problem, const Blocks& all, const MemoryPlan& plan) {
  std::vector<uint32_t> order(all.blocks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return all.blocks[a].first < all.blocks[b].first; });
  std::vector<bool> lent(all.blocks.size(), false);
  for (const uint32_t b : order) {  // what a block reuses begins before it
    const Placement& placement = plan.placements[all.blocks[b].members[0]];
    if (placement.kind != Kind::Reuse) continue;
    const auto at = std::lower_bound(all.sorted.begin(), all.sorted.end(), placement.of,
                                     [&](uint32_t i, uint32_t buffer) { return problem.requests[i].buffer < buffer; });
    const uint32_t other = all.block_of[*at];
    lent[b] = all.blocks[other].of_caller || lent[other];
  }
  return lent;
}

// The end of the highest live block by position.
void add_extents(const Blocks& all, const PoolPlanner& planner, uint32_t device, std::vector<int64_t>& extents) {
  std::vector<uint32_t> begins;
  for (uint32_t b = 0; b < all.blocks.size(); ++b) {
    if (all.blocks[b].device == device && planner.end_of(b) >= 0) begins.push_back(b);
  }
  std::sort(begins.begin(), begins.end(),
            [&](uint32_t a, uint32_t b) { return all.blocks[a].first < all.blocks[b].first; });
  std::multimap<int64_t, size_t> alive;  // end to last position, of those that may still be the highest
  size_t next = 0;
  for (size_t position = 0; position < all.positions; ++position) {
    for (; next < begins.size() && all.blocks[begins[next]].first == position; ++next)
      alive.emplace(planner.end_of(begins[next]), all.blocks[begins[next]].last);
    while (!alive.empty() && alive.rbegin()->second < position) alive.erase(std::prev(alive.end()));
    if (!alive.empty()) extents[position] += alive.rbegin()->first;
  }
}

}  // namespace

Result<MemoryPlan> plan_memory(const MemoryProblem& problem, const MemoryOptions& options) {
  CODETTA_TRY(const Blocks all, make_blocks(problem));
  MemoryReport report;
  std::vector<uint32_t> devices;
  for (const Block& block : all.blocks) {
    if (block.of_caller) continue;
    devices.push_back(block.device);
    report.symbolic = report.symbolic || !block.bytes.is_constant();
  }
  for (const uint32_t i : all.sorted) {
    if (problem.requests[i].storage != Storage::Temporary || all.base[i] != i) continue;
    const auto sum = base::checked_add(report.unshared, all.hinted[i]);
    if (!sum)
      return no_room(fmt::format("the sum of the sizes of {} temporaries exceeds 2^63 bytes", all.sorted.size()));
    report.unshared = *sum;
    report.in_place += all.taken_over[i] != no_buffer ? 1 : 0;
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  report.live.assign(all.positions, 0);
  report.occupied.assign(all.positions, 0);
  std::vector<std::vector<int64_t>> live;
  for (const uint32_t device : devices) {
    live.push_back(live_bytes(all, device));
    report.lower_bound += least_bytes(problem, all, device, live.back());
  }
  MemoryPlan plan;
  if (options.mode == MemoryOptions::Mode::Reuse) {
    CODETTA_TRY(plan, plan_reuse(problem, all, devices, std::move(live), options.candidates));
    report.peak = plan.report.peak;
    report.occupied = std::move(plan.report.occupied);
  } else {
    PoolPlanner planner(problem, all);
    CODETTA_TRY(plan, planner.run());
    report.peak = plan.report.peak;
    for (const uint32_t device : devices) add_extents(all, planner, device, report.occupied);
  }
  report.reused = plan.report.reused;
  const std::vector<bool> lent = lent_blocks(problem, all, plan);
  for (const uint32_t device : devices) {
    const std::vector<int64_t> own = live_bytes(all, device, lent);
    for (size_t p = 0; p < all.positions; ++p) report.live[p] += own[p];
  }
  plan.report = std::move(report);
  return plan;
}

}  // namespace codetta::plan
