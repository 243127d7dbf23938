// SPDX-License-Identifier: Apache-2.0
// From requests to blocks: scopes and streams as facts about lifetimes, views and operands taken over merged.
#include "plan/memory_blocks.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/result.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::plan {

using types::Dim;

namespace {

constexpr size_t max_positions = size_t{1} << 28;  // arrays are made of this length
constexpr uint32_t max_streams = 1024;             // so are clocks
constexpr int64_t max_alignment = int64_t{1} << 30;

Error malformed(std::string reason) {
  return diag::error(diag::Code::internal, "the memory problem is malformed")
      .reason(std::move(reason))
      .help("please report this with the program");
}

Error too_large(const std::string& what) {
  return diag::error(diag::Code::tensor_overflow, "temporaries leave 64 bits")
      .reason(what + " exceeds 2^63 bytes")
      .help("use smaller sizes");
}

size_t line_length(const MemoryProblem& problem) {
  size_t length = problem.scopes.empty() ? 0 : problem.scopes[0].end;
  for (const MemoryRequest& request : problem.requests) {
    length = std::max(length, request.last + 1);
    for (const MemoryRequest::Use& use : request.elsewhere) length = std::max(length, use.last + 1);
  }
  return length;
}

// The innermost scope of each position. Scopes must nest.
Result<std::vector<uint32_t>> innermost_scopes(const std::vector<MemoryScope>& scopes, size_t positions) {
  std::vector<uint32_t> result(positions, 0);
  if (scopes.empty()) return result;
  std::vector<uint32_t> order(scopes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (scopes[a].begin != scopes[b].begin) return scopes[a].begin < scopes[b].begin;
    if (scopes[a].end != scopes[b].end) return scopes[a].end > scopes[b].end;
    return a < b;
  });
  std::vector<uint32_t> open;
  size_t next = 0;
  for (size_t position = 0; position <= positions; ++position) {
    while (!open.empty() && scopes[open.back()].end <= position) open.pop_back();
    for (; next < order.size() && scopes[order[next]].begin == position; ++next) {
      const uint32_t id = order[next];
      const MemoryScope& scope = scopes[id];
      if (scope.begin > scope.end || scope.end > positions || scope.parent > id || (id != 0 && scope.parent == id))
        return malformed(
            fmt::format("scope {} takes {} to {} below scope {}", id, scope.begin, scope.end, scope.parent));
      if (scope.begin == scope.end) continue;
      if (open.empty() ? id != 0 || scope.end != positions
                       : open.back() != scope.parent || scope.end > scopes[open.back()].end) {
        return malformed(fmt::format("scope {} is not inside of its parent {}", id, scope.parent));
      }
      open.push_back(id);
    }
    if (position < positions && !open.empty()) result[position] = open.back();
  }
  if (next != order.size()) return malformed("a scope begins behind the end of the line");
  return result;
}

class BlockMaker {
 public:
  explicit BlockMaker(const MemoryProblem& problem) : problem_(problem), requests_(problem.requests) {}

  Result<Blocks> run() {
    all_.positions = line_length(problem_);
    if (all_.positions > max_positions || requests_.size() >= no_buffer)
      return malformed(fmt::format("{} buffers over {} positions", requests_.size(), all_.positions));
    CODETTA_TRY(scope_at_, innermost_scopes(problem_.scopes, all_.positions));
    CODETTA_CHECK_OK(check_requests());
    CODETTA_TRY(all_.order, StreamOrder::make(problem_, scope_at_));
    CODETTA_CHECK_OK(find_lifetimes());
    CODETTA_CHECK_OK(find_sizes());
    CODETTA_CHECK_OK(find_bases());
    take_over();
    make();
    return std::move(all_);
  }

 private:
  Result<void> check_requests() {
    const size_t scopes = std::max<size_t>(problem_.scopes.size(), 1);
    for (const MemoryRequest& r : requests_) {
      const bool aligned = r.alignment > 0 && r.alignment <= max_alignment && (r.alignment & (r.alignment - 1)) == 0;
      bool uses = r.stream < max_streams && r.first <= r.last;
      for (const MemoryRequest::Use& use : r.elsewhere)
        uses = uses && use.stream < max_streams && use.stream != r.stream && use.last >= r.first;
      if (!aligned || !uses || r.scope >= scopes || r.buffer == no_buffer) {
        return malformed(fmt::format("buffer {} of scope {} at positions {} to {}, aligned to {}", r.buffer, r.scope,
                                     r.first, r.last, r.alignment));
      }
      all_.alignment = std::max(all_.alignment, r.alignment);
    }
    all_.sorted.resize(requests_.size());
    std::iota(all_.sorted.begin(), all_.sorted.end(), 0U);
    std::sort(all_.sorted.begin(), all_.sorted.end(),
              [&](uint32_t a, uint32_t b) { return requests_[a].buffer < requests_[b].buffer; });
    for (size_t i = 1; i < all_.sorted.size(); ++i) {
      if (requests_[all_.sorted[i]].buffer == requests_[all_.sorted[i - 1]].buffer)
        return malformed(fmt::format("buffer {} is asked for twice", requests_[all_.sorted[i]].buffer));
    }
    return {};
  }

  [[nodiscard]] uint32_t find(uint32_t buffer) const {
    const auto at = std::lower_bound(all_.sorted.begin(), all_.sorted.end(), buffer,
                                     [&](uint32_t index, uint32_t b) { return requests_[index].buffer < b; });
    return at != all_.sorted.end() && requests_[*at].buffer == buffer ? *at : no_buffer;
  }

  // The outermost loop around `position` that the scope `inside` is not part of; 0: none. Fails where the position lies
  // outside of `inside`.
  [[nodiscard]] std::optional<uint32_t> loop_around(size_t position, uint32_t inside) const {
    if (problem_.scopes.empty()) return 0;
    uint32_t loop = 0;
    for (uint32_t at = scope_at_[position]; at != inside; at = problem_.scopes[at].parent) {
      if (problem_.scopes[at].kind == MemoryScope::Kind::Loop) loop = at;
      if (at == 0) return std::nullopt;
    }
    return loop;
  }

  Result<void> find_lifetimes() {
    for (const MemoryRequest& r : requests_) {
      size_t first = r.first;
      std::vector<MemoryRequest::Use> uses{{r.stream, r.last}};
      uses.insert(uses.end(), r.elsewhere.begin(), r.elsewhere.end());
      const auto cover = [&](size_t position) -> bool {
        const auto loop = loop_around(position, r.scope);
        if (!loop) return false;
        if (*loop == 0) return true;
        first = std::min(first, problem_.scopes[*loop].begin);
        // Whatever stream touches it in one turn may do so in the last one.
        for (MemoryRequest::Use& use : uses) {
          if (use.last >= problem_.scopes[*loop].begin) use.last = std::max(use.last, problem_.scopes[*loop].end - 1);
        }
        return true;
      };
      bool inside = cover(r.first) && cover(r.last);
      for (const MemoryRequest::Use& use : r.elsewhere) inside = inside && cover(use.last);
      if (!inside) return malformed(fmt::format("buffer {} is used outside of its scope {}", r.buffer, r.scope));
      size_t last = 0;
      for (const MemoryRequest::Use& use : uses) last = std::max(last, use.last);
      all_.first.push_back(first);
      all_.last.push_back(last);
      uses_.push_back(std::move(uses));
    }
    return {};
  }

  Result<void> find_sizes() {
    // Equal sizes have one hint, whoever gave it.
    const auto by_size = [](const Dim& a, const Dim& b) { return Dim::order(a, b) < 0; };
    std::map<Dim, int64_t, decltype(by_size)> hints(by_size);
    for (const uint32_t i : all_.sorted) {
      const MemoryRequest& r = requests_[i];
      if (r.hint && r.bytes.fault() == types::DimFault::none && !r.bytes.is_constant()) hints.emplace(r.bytes, *r.hint);
    }
    for (const MemoryRequest& r : requests_) {
      const auto constant = r.bytes.as_constant();
      if (r.bytes.fault() != types::DimFault::none) return too_large(fmt::format("buffer {}", r.buffer));
      const auto hint = hints.find(r.bytes);
      const int64_t expected = hint != hints.end() ? hint->second : r.bytes.upper_bound().value_or(0);
      const int64_t bytes = constant ? *constant : std::max<int64_t>(expected, 0);
      const auto rounded = base::checked_round_up(bytes, all_.alignment);
      if (bytes < 0) return malformed(fmt::format("buffer {} has {} bytes", r.buffer, bytes));
      if (!rounded) return too_large(fmt::format("buffer {}", r.buffer));
      all_.hinted.push_back(r.view_of == no_buffer ? *rounded : 0);
    }
    return {};
  }

  Result<void> find_bases() {
    all_.base.assign(requests_.size(), no_buffer);
    std::vector<uint32_t> path;
    for (uint32_t i = 0; i < requests_.size(); ++i) {
      uint32_t at = i;
      path.clear();
      while (all_.base[at] == no_buffer && requests_[at].view_of != no_buffer) {
        path.push_back(at);
        const uint32_t next = find(requests_[at].view_of);
        if (next == no_buffer || path.size() > requests_.size() || requests_[next].device != requests_[at].device)
          return malformed(fmt::format("buffer {} is a view of {}", requests_[at].buffer, requests_[at].view_of));
        at = next;
      }
      const uint32_t base = all_.base[at] == no_buffer ? at : all_.base[at];
      all_.base[at] = base;
      for (const uint32_t view : path) all_.base[view] = base;
    }
    views_.resize(requests_.size());
    for (const uint32_t i : all_.sorted) views_[all_.base[i]].push_back(i);
    return {};
  }

  // Whether all uses of request `other` are over when `by` begins; with `same_step` its own last use may be that step.
  [[nodiscard]] bool over(uint32_t other, uint32_t by, bool same_step) const {
    const MemoryRequest& late = requests_[by];
    return std::all_of(uses_[other].begin(), uses_[other].end(), [&](const MemoryRequest::Use& use) {
      if (use.stream == late.stream) return same_step ? use.last <= late.first : use.last < late.first;
      return all_.order.release(use.stream, use.last, late.stream) <= late.first;
    });
  }

  [[nodiscard]] bool fits(uint32_t by, uint32_t owner) const {
    const MemoryRequest &late = requests_[by], &early = requests_[owner];
    if (late.alignment > early.alignment) return false;
    if (early.storage == MemoryRequest::Storage::Donated) return proven_at_most(late.bytes, early.bytes);
    // What is left over would be held as long as the new owner lives, so there must not be any.
    if (!late.bytes.is_constant() || !early.bytes.is_constant()) return late.bytes == early.bytes;
    return *late.bytes.as_constant() <= *early.bytes.as_constant() && all_.hinted[by] == all_.hinted[owner];
  }

  // Decides which operands are taken over, in the order of the steps.
  void take_over() {
    const size_t count = requests_.size();
    all_.taken_over.assign(count, no_buffer);
    owner_.resize(count);
    std::iota(owner_.begin(), owner_.end(), 0U);
    std::vector<bool> given_up(count, false);
    std::vector<uint32_t> order;
    for (const uint32_t i : all_.sorted) {
      const MemoryRequest& r = requests_[i];
      const bool own = r.storage == MemoryRequest::Storage::Temporary && r.view_of == no_buffer;
      if (own && !r.in_place_of.empty() && all_.first[i] == r.first) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return requests_[a].first < requests_[b].first; });
    for (const uint32_t i : order) {
      for (const uint32_t buffer : requests_[i].in_place_of) {
        const uint32_t operand = find(buffer);
        if (operand == no_buffer || operand == i) continue;
        const uint32_t base = all_.base[operand], owner = owner_[base];
        const auto storage = requests_[owner].storage;
        if (given_up[base] || storage == MemoryRequest::Storage::Output || storage == MemoryRequest::Storage::Input)
          continue;
        // What begins with a step is not there for it to take over; the caller's memory is.
        const bool there =
            requests_[base].storage == MemoryRequest::Storage::Donated || all_.first[base] < requests_[i].first;
        if (requests_[base].device != requests_[i].device || !there || all_.last[operand] != requests_[i].first)
          continue;
        const bool free = std::all_of(views_[base].begin(), views_[base].end(),
                                      [&](uint32_t member) { return over(member, i, member == operand); });
        if (!free || !fits(i, owner)) continue;
        given_up[base] = true;
        owner_[i] = owner;
        all_.taken_over[i] = operand;
        break;
      }
    }
  }

  void make() {
    all_.block_of.assign(requests_.size(), no_buffer);
    std::vector<uint32_t> order = all_.sorted;  // owners first, then in the order of taking over
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const auto rank = [&](uint32_t i) { return all_.base[i] == i && all_.taken_over[i] == no_buffer ? 0 : 1; };
      return rank(a) != rank(b) ? rank(a) < rank(b) : rank(a) == 1 && all_.first[a] < all_.first[b];
    });
    for (const uint32_t i : order) {
      const uint32_t owner = owner_[all_.base[i]];
      const MemoryRequest& r = requests_[owner];
      if (all_.block_of[owner] == no_buffer) {
        all_.block_of[owner] = static_cast<uint32_t>(all_.blocks.size());
        Block block;
        block.bytes = r.bytes;
        block.hinted = all_.hinted[owner];
        block.device = r.device;
        block.stream = r.stream;
        block.first = all_.first[owner];
        block.of_caller = r.storage != MemoryRequest::Storage::Temporary;
        all_.blocks.push_back(std::move(block));
      }
      all_.block_of[i] = all_.block_of[owner];
      Block& block = all_.blocks[all_.block_of[i]];
      block.members.push_back(i);
      block.first = std::min(block.first, all_.first[i]);
      block.last = std::max(block.last, all_.last[i]);
      for (const MemoryRequest::Use& use : uses_[i]) {
        const auto known = std::find_if(block.uses.begin(), block.uses.end(),
                                        [&](const MemoryRequest::Use& u) { return u.stream == use.stream; });
        if (known == block.uses.end()) {
          block.uses.push_back(use);
        } else {
          known->last = std::max(known->last, use.last);
        }
      }
    }
  }

  const MemoryProblem& problem_;
  const std::vector<MemoryRequest>& requests_;
  Blocks all_;
  std::vector<uint32_t> scope_at_;                     // by position
  std::vector<std::vector<MemoryRequest::Use>> uses_;  // by request
  std::vector<std::vector<uint32_t>> views_;           // by request: itself and its views
  std::vector<uint32_t> owner_;                        // by request: the first owner of its bytes
};

}  // namespace

Result<Blocks> make_blocks(const MemoryProblem& problem) { return BlockMaker(problem).run(); }

bool place_in_others(const MemoryProblem& problem, const Blocks& all, uint32_t i, Placement& placement) {
  if (all.base[i] != i) {
    placement.kind = Placement::Kind::View;
    placement.of = problem.requests[i].view_of;
    return true;
  }
  if (all.taken_over[i] == no_buffer) return false;
  placement.kind = Placement::Kind::InPlace;
  placement.of = problem.requests[all.taken_over[i]].buffer;
  return true;
}

Dim rounded_up(const Dim& bytes, int64_t alignment) {
  if (const auto constant = bytes.as_constant()) {
    const auto rounded = base::checked_round_up(*constant, alignment);
    return rounded ? Dim::constant(*rounded) : Dim::faulty(types::DimFault::overflow);
  }
  const Dim unit = Dim::constant(alignment);
  return floordiv(bytes + Dim::constant(alignment - 1), unit) * unit;
}

bool proven_at_most(const Dim& a, const Dim& b) {
  if (const auto x = a.as_constant(), y = b.as_constant(); x && y) return *x <= *y;
  const auto gap = (b - a).lower_bound();
  return gap && *gap >= 0;
}

Result<StreamOrder> StreamOrder::make(const MemoryProblem& problem, const std::vector<uint32_t>& scope_at) {
  uint32_t streams = 1;
  for (const MemoryRequest& r : problem.requests) {
    streams = std::max(streams, r.stream + 1);
    for (const MemoryRequest::Use& use : r.elsewhere) streams = std::max(streams, use.stream + 1);
  }
  std::vector<MemoryWait> waits;
  for (const MemoryWait& wait : problem.waits) {
    if (wait.record >= wait.wait || wait.from == wait.to || wait.from >= max_streams || wait.to >= max_streams) {
      return malformed(
          fmt::format("stream {} waits at {} for stream {} at {}", wait.to, wait.wait, wait.from, wait.record));
    }
    const auto certain = [&](size_t at) { return at >= scope_at.size() || scope_at[at] == 0; };
    if (!certain(wait.record) || !certain(wait.wait)) continue;
    streams = std::max({streams, wait.from + 1, wait.to + 1});
    waits.push_back(wait);
  }
  // In the order of their waiting, what is known at the record is complete: it lies earlier.
  std::sort(waits.begin(), waits.end(), [](const MemoryWait& a, const MemoryWait& b) {
    return std::tie(a.wait, a.record, a.from, a.to) < std::tie(b.wait, b.record, b.from, b.to);
  });
  StreamOrder order;
  order.clocks_.assign(streams, {Clock{0, std::vector<size_t>(streams, 0)}});
  for (const MemoryWait& wait : waits) {
    const auto& others = order.clocks_[wait.from];
    const auto behind = std::upper_bound(others.begin(), others.end(), wait.record,
                                         [](size_t position, const Clock& c) { return position < c.from; });
    Clock clock = *std::prev(behind);
    clock.from = wait.wait;
    clock.before[wait.from] = std::max(clock.before[wait.from], wait.record + 1);
    std::vector<Clock>& own = order.clocks_[wait.to];
    for (size_t s = 0; s < streams; ++s) clock.before[s] = std::max(clock.before[s], own.back().before[s]);
    if (own.back().from == wait.wait) {
      own.back() = std::move(clock);
    } else {
      own.push_back(std::move(clock));
    }
  }
  return order;
}

size_t StreamOrder::release(uint32_t from, size_t at, uint32_t to) const {
  if (from == to) return at + 1;
  const auto& clocks = clocks_[to];
  const auto found =
      std::partition_point(clocks.begin(), clocks.end(), [&](const Clock& clock) { return clock.before[from] <= at; });
  return found == clocks.end() ? never : found->from;
}

bool comes_after(const Blocks& all, const Block& early, const Block& late) {
  return std::all_of(early.uses.begin(), early.uses.end(), [&](const MemoryRequest::Use& use) {
    return all.order.release(use.stream, use.last, late.stream) <= late.first;
  });
}

}  // namespace codetta::plan
