// SPDX-License-Identifier: Apache-2.0
// Random memory problems: programs-like lifetimes, with every feature of a request; and ways to break a correct plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "plan/memory.hpp"

namespace codetta::test {

using plan::MemoryPlan;
using plan::MemoryProblem;
using plan::MemoryRequest;
using plan::MemoryScope;
using plan::Placement;
using types::Dim;

class RandomMemory {
 public:
  explicit RandomMemory(uint64_t seed) : random_(seed) {}

  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  bool chance(size_t percent) { return below(100) < percent; }

  // A straight program: each step reads a few recent values, some of them old ones, and makes one or two.
  MemoryProblem program(size_t steps) {
    MemoryProblem problem;
    const int64_t widths[] = {64, 128, 256, 512, 1024, 4096};
    const int64_t rows = int64_t{1} << below(8);
    for (size_t step = 0; step < steps; ++step) {
      const size_t reads = std::min(problem.requests.size(), 1 + below(3));
      for (size_t i = 0; i < reads; ++i) {
        size_t back = 0;
        while (back + 1 < problem.requests.size() && chance(chance(8) ? 95 : 45)) ++back;
        MemoryRequest& read = problem.requests[problem.requests.size() - 1 - back];
        read.last = std::max(read.last, step);
      }
      for (size_t made = 1 + (chance(15) ? 1U : 0U); made > 0; --made) {
        MemoryRequest request;
        request.buffer = static_cast<uint32_t>(problem.requests.size());
        request.bytes = Dim::constant(rows * widths[below(6)] * (chance(30) ? 2 : 4));
        request.first = step;
        request.last = step + (step + 1 < steps ? 1 : 0);
        problem.requests.push_back(request);
      }
    }
    return problem;
  }

  // Every feature at once: sizes of all kinds, devices, streams with waits, branches and loops, views, operands that
  // may be taken over, memory of the caller.
  MemoryProblem problem() {
    MemoryProblem problem = program(1 + below(chance(10) ? 120 : 30));
    const size_t steps = problem.requests.back().first + 1;
    const bool symbolic = chance(50), scoped = chance(40), streams = chance(30), devices = chance(20);
    const int64_t alignment = chance(50) ? 64 : 256;
    for (MemoryRequest& r : problem.requests) {
      r.alignment = alignment;
      if (chance(5)) r.bytes = Dim::constant(0);
      if (chance(10)) r.bytes = Dim::constant(static_cast<int64_t>(1 + below(5000)));
      if (symbolic && chance(80)) make_symbolic(r);
      if (devices) r.device = static_cast<uint32_t>(below(2));
      if (streams) r.stream = 2 * r.device + static_cast<uint32_t>(below(2));
      if (!streams) r.stream = r.device;
      if (streams && chance(10)) r.elsewhere.push_back({r.stream ^ 1U, r.last});
      if (chance(10)) r.storage = static_cast<MemoryRequest::Storage>(below(4));
    }
    for (size_t i = below(4); streams && i > 0 && steps > 1; --i) {
      plan::MemoryWait wait;
      wait.record = below(steps - 1);
      wait.wait = wait.record + 1 + below(steps - 1 - wait.record);
      wait.from = static_cast<uint32_t>(below(devices ? 4 : 2));
      wait.to = wait.from ^ 1U;
      problem.waits.push_back(wait);
    }
    if (scoped) add_scopes(problem, steps);
    for (MemoryRequest& r : problem.requests) add_relations(problem, r);
    return problem;
  }

 private:
  void make_symbolic(MemoryRequest& r) {
    const Dim n = Dim::symbol("n"), m = Dim::symbol("m"), c = Dim::constant(static_cast<int64_t>(4 * (1 + below(64))));
    const Dim forms[] = {n * c,
                         n * c,
                         n * Dim::constant(4096),
                         m * n * Dim::constant(4),
                         m * c,
                         m * c + Dim::constant(100),
                         floordiv(n, Dim::constant(2)) * c,
                         n * n * Dim::constant(2)};
    r.bytes = forms[below(8)];
    const std::vector<std::pair<std::string, int64_t>> hints{{"n", 100}, {"m", 30}};
    if (!chance(10)) r.hint = r.bytes.evaluate(hints);
  }

  // A few disjoint parts of the line, some with a part inside; buffers that stay inside of one belong to it.
  void add_scopes(MemoryProblem& problem, size_t steps) {
    problem.scopes.push_back({0, 0, steps, MemoryScope::Kind::Block});
    for (size_t at = below(4); at + 2 < steps;) {
      const size_t end = std::min(steps, at + 1 + below(8));
      const auto kind = chance(50) ? MemoryScope::Kind::Loop : MemoryScope::Kind::Block;
      problem.scopes.push_back({0, at, end, kind});
      if (end - at > 2 && chance(40)) {
        const auto parent = static_cast<uint32_t>(problem.scopes.size() - 1);
        problem.scopes.push_back({parent, at + 1, end - 1, chance(50) ? MemoryScope::Kind::Loop : kind});
      }
      at = end + below(5);
    }
    for (MemoryRequest& r : problem.requests) {
      for (uint32_t s = 1; s < problem.scopes.size(); ++s) {
        const MemoryScope& scope = problem.scopes[s];
        if (r.storage == MemoryRequest::Storage::Temporary && r.first >= scope.begin && r.last < scope.end &&
            chance(80))
          r.scope = s;
      }
    }
  }

  void add_relations(const MemoryProblem& problem, MemoryRequest& r) {
    std::vector<uint32_t> ending, before;
    for (const MemoryRequest& other : problem.requests) {
      const bool given = other.storage == MemoryRequest::Storage::Donated;  // there before any step
      if (given && other.device == r.device && other.first == r.first && other.last == r.first &&
          other.buffer < r.buffer)
        ending.push_back(other.buffer);
      if (other.device != r.device || other.first >= r.first) continue;
      if (other.last == r.first) ending.push_back(other.buffer);
      if (other.scope == r.scope) before.push_back(other.buffer);
    }
    if (!before.empty() && r.storage == MemoryRequest::Storage::Temporary && chance(8)) {
      r.view_of = before[below(before.size())];
    } else if (!ending.empty() && chance(40)) {
      std::shuffle(ending.begin(), ending.end(), random_);
      r.in_place_of.assign(ending.begin(), ending.begin() + static_cast<std::ptrdiff_t>(1 + below(ending.size())));
    }
  }

  std::mt19937_64 random_;
};

// Whether two requests with bytes of their own are in use at the same time, whatever the streams: written for reading,
// not for speed. With loops: what comes from outside lives through all of a loop that it is touched in.
inline bool naively_meet(const MemoryProblem& problem, const MemoryRequest& a, const MemoryRequest& b) {
  const auto life = [&](const MemoryRequest& r) {
    size_t first = r.first, last = r.last;
    for (const MemoryRequest::Use& use : r.elsewhere) last = std::max(last, use.last);
    for (uint32_t s = 1; s < problem.scopes.size(); ++s) {
      if (problem.scopes[s].kind != MemoryScope::Kind::Loop) continue;
      bool inner = false;
      for (uint32_t at = r.scope; at != 0; at = problem.scopes[at].parent) inner = inner || at == s;
      const auto in = [&](size_t at) { return at >= problem.scopes[s].begin && at < problem.scopes[s].end; };
      if (inner || (!in(r.first) && !in(last))) continue;
      first = std::min(first, problem.scopes[s].begin);
      last = std::max(last, problem.scopes[s].end - 1);
    }
    return std::make_pair(first, last);
  };
  const auto [a_first, a_last] = life(a);
  const auto [b_first, b_last] = life(b);
  return a_first <= b_last && b_first <= a_last;
}

// Mistakes of planners. Each returns a plan that is wrong for certain, or nothing where this plan offers no place for
// it.
inline constexpr size_t memory_mistakes = 8;
inline std::optional<MemoryPlan> with_mistake(const MemoryProblem& problem, const MemoryPlan& plan, size_t mistake,
                                              RandomMemory& random) {
  const auto& requests = problem.requests;
  const auto has_bytes = [&](size_t i) {
    return requests[i].view_of == plan::no_buffer && requests[i].storage == MemoryRequest::Storage::Temporary &&
           !(requests[i].bytes == Dim::constant(0));
  };
  std::vector<size_t> in_pool, others;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (has_bytes(i)) (plan.placements[i].kind == Placement::Kind::Pool ? in_pool : others).push_back(i);
  }
  MemoryPlan broken = plan;
  const auto move_to = [&](size_t i, Dim offset) {
    broken.placements[i].offset = std::move(offset);
    broken.placements[i].terms.clear();
  };
  std::vector<std::pair<size_t, size_t>> pairs;
  const auto find_pairs = [&](const std::vector<size_t>& among, bool other_streams) {
    for (const size_t i : among) {
      for (const size_t j : among) {
        if (i == j || requests[i].device != requests[j].device) continue;
        const bool apart = requests[i].stream != requests[j].stream && problem.waits.empty();
        if (other_streams ? apart : naively_meet(problem, requests[i], requests[j])) pairs.emplace_back(i, j);
      }
    }
  };
  switch (mistake) {
    case 0:    // two that meet lie at one place
    case 1: {  // two of streams that nothing orders do
      find_pairs(in_pool, mistake == 1);
      if (pairs.empty()) return std::nullopt;
      const auto [i, j] = pairs[random.below(pairs.size())];
      move_to(i, plan.placements[j].offset);
      return broken;
    }
    case 2: {  // overlap by one unit of alignment only
      for (const size_t i : in_pool) {
        for (const size_t j : in_pool) {
          const auto bytes = requests[j].bytes.as_constant(), at = plan.placements[j].offset.as_constant();
          if (i != j && bytes && at && *bytes > 0 && requests[i].bytes.is_constant() &&
              plan.placements[i].offset == Dim::constant(*at + (*bytes + 255) / 256 * 256) &&
              naively_meet(problem, requests[i], requests[j]) && requests[i].device == requests[j].device) {
            move_to(i, Dim::constant(*at + (*bytes - 1) / requests[i].alignment * requests[i].alignment));
            return broken;
          }
        }
      }
      return std::nullopt;
    }
    case 3: {  // misaligned
      if (in_pool.empty()) return std::nullopt;
      const size_t i = in_pool[random.below(in_pool.size())];
      move_to(i, plan.placements[i].offset + Dim::constant(requests[i].alignment / 2));
      return broken;
    }
    case 4: {  // behind the end of the pool
      if (in_pool.empty()) return std::nullopt;
      const size_t i = in_pool[random.below(in_pool.size())];
      move_to(i, plan.pools[plan.placements[i].pool].bytes);
      return broken;
    }
    case 5: {  // a pool that is too small
      for (plan::MemoryPool& pool : broken.pools) {
        if (!pool.bytes.is_constant()) continue;
        pool.bytes = pool.bytes - Dim::constant(pool.alignment);
        return broken;
      }
      return std::nullopt;
    }
    case 6: {  // takes over something that nobody offered
      for (const size_t i : in_pool.empty() ? others : in_pool) {
        for (const MemoryRequest& other : requests) {
          const auto& offered = requests[i].in_place_of;
          if (other.buffer == requests[i].buffer || other.device != requests[i].device ||
              std::find(offered.begin(), offered.end(), other.buffer) != offered.end())
            continue;
          broken.placements[i].kind = Placement::Kind::InPlace;
          broken.placements[i].of = other.buffer;
          return broken;
        }
      }
      return std::nullopt;
    }
    default: {  // an allocation that is still in use changes hands
      std::vector<size_t> fresh;
      for (const size_t i : others) {
        if (plan.placements[i].kind == Placement::Kind::Fresh) fresh.push_back(i);
      }
      find_pairs(fresh, false);
      if (pairs.empty()) return std::nullopt;
      const auto [i, j] = pairs[random.below(pairs.size())];
      broken.placements[i].kind = Placement::Kind::Reuse;
      broken.placements[i].of = requests[j].buffer;
      return broken;
    }
  }
}

}  // namespace codetta::test
