// SPDX-License-Identifier: Apache-2.0
// The line is walked once, in the order of its steps. Every byte remembers who used it last; whoever takes it must come
// after all uses of that one.
#include "plan/memory_check.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "base/result.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::plan {

using types::Dim;
using Kind = Placement::Kind;
using Storage = MemoryRequest::Storage;

namespace {

Error wrong(std::string reason) {
  return diag::error(diag::Code::internal, "the memory plan is wrong")
      .reason(std::move(reason))
      .help("please report this with the program");
}

// A place in one address space: a pool, or an allocation named by the request that brought it.
struct Extent {
  bool pool = false;
  uint32_t space = 0;
  int64_t begin = 0, bytes = 0;
  int64_t capacity = 0;  // bytes from `begin` on that may be used
};

class Checker {
 public:
  Checker(const MemoryProblem& problem, const MemoryPlan& plan)
      : problem_(problem), plan_(plan), requests_(problem.requests) {}

  // What does not depend on sizes.
  Result<void> prepare() {
    for (const MemoryRequest& request : requests_) sizes_.push_back(number_of(request.bytes));
    for (const Placement& placement : plan_.placements) offsets_.push_back(number_of(placement.offset));
    for (const MemoryPool& pool : plan_.pools) pools_.push_back(number_of(pool.bytes));
    if (plan_.placements.size() != requests_.size())
      return wrong(fmt::format("{} places for {} buffers", plan_.placements.size(), requests_.size()));
    for (uint32_t i = 0; i < requests_.size(); ++i) {
      if (!index_.emplace(requests_[i].buffer, i).second)
        return wrong(fmt::format("buffer {} is there twice", requests_[i].buffer));
    }
    find_loops();
    lives_.resize(requests_.size());
    for (uint32_t i = 0; i < requests_.size(); ++i) {
      if (outside_of_scope(requests_[i]))
        return wrong(fmt::format("buffer {} is used outside of its scope", requests_[i].buffer));
      add_life(i);
    }
    CODETTA_CHECK_OK(find_viewers());
    CODETTA_CHECK_OK(check_kinds());
    return find_clocks();
  }

  // Gives every size and offset its value.
  void assign(const SymbolValues& values) {
    values_.clear();
    for (const Dim& dim : dims_) values_.push_back(dim.evaluate(values));
  }

  // Whether the values make sizes that exist; others are no test.
  [[nodiscard]] bool possible() const {
    const auto fine = [&](uint32_t number) {
      const auto& value = values_[number];
      return value && *value >= 0 && *value < (int64_t{1} << 56);
    };
    return std::all_of(sizes_.begin(), sizes_.end(), fine) && std::all_of(pools_.begin(), pools_.end(), fine);
  }

  // With the values assigned last.
  Result<void> check() {
    extents_.assign(requests_.size(), {});
    resolved_.assign(requests_.size(), 0);
    for (uint32_t i = 0; i < requests_.size(); ++i) CODETTA_CHECK_OK(resolve(i));
    return walk();
  }

  [[nodiscard]] std::set<std::string> symbols() const {
    std::set<std::string> result;
    for (const Dim& dim : dims_) {
      if (dim.is_constant()) continue;
      for (std::string& symbol : dim.symbols()) result.insert(std::move(symbol));
    }
    return result;
  }

  // Pairs of one pool that meet in time; nullopt where there are too many to look at.
  [[nodiscard]] std::optional<size_t> unproven_pairs() const;

 private:
  struct Life {
    size_t first = 0;
    std::map<uint32_t, size_t> last;  // by stream
  };

  void find_loops() {
    for (uint32_t s = 1; s < problem_.scopes.size(); ++s) {
      if (problem_.scopes[s].kind == MemoryScope::Kind::Loop && problem_.scopes[s].begin < problem_.scopes[s].end)
        loops_.push_back(s);
    }
  }

  [[nodiscard]] bool belongs_to(uint32_t scope, uint32_t ancestor) const {
    while (scope != ancestor && scope != 0) scope = problem_.scopes[scope].parent;
    return scope == ancestor;
  }

  [[nodiscard]] bool outside_of_scope(const MemoryRequest& r) const {
    if (problem_.scopes.empty()) return r.scope != 0;
    if (r.scope >= problem_.scopes.size()) return true;
    const MemoryScope& scope = problem_.scopes[r.scope];
    size_t last = r.last;
    for (const MemoryRequest::Use& use : r.elsewhere) last = std::max(last, use.last);
    return r.first < scope.begin || last >= scope.end || r.first > r.last;
  }

  void add_life(uint32_t i) {
    const MemoryRequest& r = requests_[i];
    Life& life = lives_[i];
    life.first = r.first;
    life.last[r.stream] = r.last;
    for (const MemoryRequest::Use& use : r.elsewhere) life.last[use.stream] = std::max(life.last[use.stream], use.last);
    // Growing by one loop may reach into no further one: loops nest, and a use inside counts for all around it.
    for (const uint32_t s : loops_) {
      const MemoryScope& loop = problem_.scopes[s];
      if (belongs_to(r.scope, s)) continue;
      const auto inside = [&](size_t at) { return at >= loop.begin && at < loop.end; };
      bool touched = inside(r.first) || inside(r.last);
      for (const MemoryRequest::Use& use : r.elsewhere) touched = touched || inside(use.last);
      if (!touched) continue;
      life.first = std::min(life.first, loop.begin);
      for (auto& [stream, last] : life.last) {
        if (last >= loop.begin) last = std::max(last, loop.end - 1);
      }
    }
  }

  // A view's uses are uses of what it shows.
  Result<void> find_viewers() {
    shown_.resize(requests_.size());
    viewers_.resize(requests_.size());
    for (uint32_t i = 0; i < requests_.size(); ++i) {
      uint32_t at = i;
      for (size_t steps = 0; requests_[at].view_of != no_buffer; ++steps) {
        const auto next = index_.find(requests_[at].view_of);
        if (next == index_.end() || steps > requests_.size())
          return wrong(fmt::format("buffer {} is a view of nothing", requests_[i].buffer));
        at = next->second;
      }
      shown_[i] = at;
      viewers_[at].push_back(i);
    }
    return {};
  }

  Result<void> check_kinds() {
    for (uint32_t i = 0; i < requests_.size(); ++i) {
      const MemoryRequest& r = requests_[i];
      const Placement& p = plan_.placements[i];
      const bool callers = r.storage != Storage::Temporary;
      bool fits = false;
      if (r.view_of != no_buffer) {
        fits = p.kind == Kind::View && p.of == r.view_of;
      } else if (callers) {
        fits = p.kind == Kind::Caller;
      } else if (p.kind == Kind::InPlace) {
        fits = std::find(r.in_place_of.begin(), r.in_place_of.end(), p.of) != r.in_place_of.end();
      } else {
        fits = p.kind == Kind::Pool || p.kind == Kind::Fresh || p.kind == Kind::Reuse;
      }
      if (p.kind == Kind::Pool) fits = fits && p.pool < plan_.pools.size() && plan_.pools[p.pool].device == r.device;
      if (p.of != no_buffer) fits = fits && index_.count(p.of) != 0 && requests_[index_.at(p.of)].device == r.device;
      if (!fits) {
        return wrong(fmt::format("buffer {} may not be placed in this way: kind {}, of {}, pool {}", r.buffer,
                                 static_cast<int>(p.kind), static_cast<int64_t>(p.of), p.pool));
      }
      if (!p.terms.empty()) {
        Dim largest = p.terms[0];
        for (const Dim& term : p.terms) largest = max(largest, term);
        if (!(largest == p.offset)) return wrong(fmt::format("the terms of buffer {} are not its offset", r.buffer));
      }
    }
    return {};
  }

  // When each buffer begins, what is over on every stream. Events inside of branches and loops count for nothing.
  Result<void> find_clocks() {
    enum Event : uint8_t { Wait, Given, Begin, Record };  // at one position in this order
    std::vector<std::tuple<size_t, Event, uint32_t>> events;
    const auto sure = [&](size_t at) {
      return std::none_of(problem_.scopes.begin(), problem_.scopes.end(), [&](const MemoryScope& s) {
        return &s != problem_.scopes.data() && at >= s.begin && at < s.end;
      });
    };
    for (uint32_t w = 0; w < problem_.waits.size(); ++w) {
      const MemoryWait& wait = problem_.waits[w];
      if (wait.record >= wait.wait) return wrong(fmt::format("wait {} is for something later", w));
      if (!sure(wait.record) || !sure(wait.wait)) continue;
      events.emplace_back(wait.record, Record, w);
      events.emplace_back(wait.wait, Wait, w);
    }
    for (uint32_t i = 0; i < requests_.size(); ++i) {
      const bool callers = requests_[i].storage != Storage::Temporary;
      events.emplace_back(lives_[i].first, callers ? Given : Begin, i);
    }
    std::sort(events.begin(), events.end());
    std::map<uint32_t, std::map<uint32_t, size_t>> clock;  // of a stream: how far others are known to be, exclusive
    std::unordered_map<uint32_t, std::map<uint32_t, size_t>> recorded;
    const bool one_stream = events.size() == requests_.size();
    for (const auto& [position, event, id] : events) {
      if (event == Given || event == Begin) {
        order_.push_back(id);
        if (!one_stream) begins_with_.emplace(id, clock[requests_[id].stream]);
        continue;
      }
      const MemoryWait& wait = problem_.waits[id];
      if (event == Record) {
        auto& seen = recorded[id] = clock[wait.from];
        seen[wait.from] = position + 1;
        continue;
      }
      for (const auto& [stream, until] : recorded[id]) {
        size_t& known = clock[wait.to][stream];
        known = std::max(known, until);
      }
    }
    return {};
  }

  // Whether `early` is over when `late` begins; with `same_step` its last use may be the step where `late` begins.
  [[nodiscard]] bool over(uint32_t early, uint32_t late, bool same_step) const {
    for (const auto& [stream, last] : lives_[early].last) {
      if (stream == requests_[late].stream) {
        if (same_step ? last > lives_[late].first : last >= lives_[late].first) return false;
        continue;
      }
      const auto clock = begins_with_.find(late);
      if (clock == begins_with_.end()) return false;
      const auto until = clock->second.find(stream);
      if (until == clock->second.end() || until->second <= last) return false;
    }
    return true;
  }

  // Equal expressions are evaluated once.
  uint32_t number_of(const Dim& dim) {
    const auto [at, added] = numbers_.emplace(dim, static_cast<uint32_t>(dims_.size()));
    if (added) dims_.push_back(dim);
    return at->second;
  }

  Result<int64_t> value(uint32_t number, uint32_t buffer) const {
    if (values_[number]) return *values_[number];
    return wrong(fmt::format("buffer {}: {} has no value", buffer, dims_[number].to_string()));
  }

  // Follows `of` to a pool or an allocation, without recursion: chains are as long as programs.
  Result<void> resolve(uint32_t start) {
    std::vector<uint32_t> path{start};
    while (!path.empty()) {
      const uint32_t i = path.back();
      if (resolved_[i] == 2) {
        path.pop_back();
        continue;
      }
      const Placement& p = plan_.placements[i];
      const bool inner = p.kind == Kind::Reuse || p.kind == Kind::InPlace || p.kind == Kind::View;
      if (inner && p.of == no_buffer) return wrong(fmt::format("buffer {} is placed in nothing", requests_[i].buffer));
      const uint32_t outer = inner ? index_.at(p.of) : i;
      if (inner && resolved_[outer] != 2) {
        if (resolved_[outer] == 1 || outer == i)
          return wrong(fmt::format("buffer {} is placed in itself", requests_[i].buffer));
        resolved_[i] = 1;
        path.push_back(outer);
        continue;
      }
      CODETTA_TRY(extents_[i], extent(i, outer, inner));
      resolved_[i] = 2;
      path.pop_back();
    }
    return {};
  }

  Result<Extent> extent(uint32_t i, uint32_t outer, bool inner) const {
    const MemoryRequest& r = requests_[i];
    const Placement& p = plan_.placements[i];
    CODETTA_TRY(const int64_t bytes, value(sizes_[i], r.buffer));
    CODETTA_TRY(const int64_t offset, value(offsets_[i], r.buffer));
    if (bytes < 0 || offset < 0) return wrong(fmt::format("buffer {} has {} bytes at {}", r.buffer, bytes, offset));
    Extent e;
    e.bytes = bytes;
    if (p.kind == Kind::Caller || p.kind == Kind::Fresh) {
      e.space = i;
      e.capacity = bytes;
      return e;
    }
    if (p.kind == Kind::Pool) {
      const MemoryPool& pool = plan_.pools[p.pool];
      CODETTA_TRY(const int64_t room, value(pools_[p.pool], r.buffer));
      e.pool = true;
      e.space = p.pool;
      e.begin = offset;
      e.capacity = room - offset;
      if (bytes > e.capacity) {
        return wrong(
            fmt::format("buffer {} of {} bytes at {} ends behind its pool of {}", r.buffer, bytes, offset, room));
      }
      if (offset % r.alignment != 0 || pool.alignment % r.alignment != 0)
        return wrong(fmt::format("buffer {} at {} is not aligned to {}", r.buffer, offset, r.alignment));
      return e;
    }
    e = extents_[outer];
    if (p.kind == Kind::View) {  // it may show the same bytes many times over, so its size says nothing
      e.bytes = 0;
      return e;
    }
    const int64_t behind = p.kind == Kind::Reuse ? offset : 0;
    if (inner && (behind > e.capacity || bytes > e.capacity - behind))
      return wrong(fmt::format("buffer {} of {} bytes does not fit into buffer {}", r.buffer, bytes, p.of));
    const bool callers = !e.pool && requests_[e.space].storage != Storage::Temporary;
    if (callers && requests_[e.space].storage != Storage::Donated)
      return wrong(fmt::format("buffer {} lies in the caller's buffer {}", r.buffer, requests_[e.space].buffer));
    const int64_t granted = e.pool ? plan_.pools[e.space].alignment : requests_[e.space].alignment;
    if (granted % r.alignment != 0 || (e.begin + behind) % r.alignment != 0)
      return wrong(fmt::format("buffer {} is not aligned to {} in buffer {}", r.buffer, r.alignment, p.of));
    e.begin += behind;
    e.capacity -= behind;
    e.bytes = bytes;
    return e;
  }

  // Everything that shows the bytes of `held` is over when `i` begins.
  Result<void> may_follow(uint32_t i, uint32_t held) const {
    const uint32_t operand = plan_.placements[i].kind == Kind::InPlace ? index_.at(plan_.placements[i].of) : no_buffer;
    for (const uint32_t other : viewers_[held]) {
      const bool same_step = other == operand && lives_[i].first == requests_[i].first;
      if (other == i || over(other, i, same_step)) continue;
      return wrong(
          fmt::format("buffers {} and {} share bytes while both live", requests_[other].buffer, requests_[i].buffer));
    }
    return {};
  }

  Result<void> walk() {
    struct Range {
      int64_t end = 0;
      uint32_t owner = 0;
    };
    std::map<std::pair<bool, uint32_t>, std::map<int64_t, Range>> spaces;
    for (const uint32_t i : order_) {
      const Extent& e = extents_[i];
      if (requests_[i].view_of != no_buffer || e.bytes == 0) continue;
      const Kind kind = plan_.placements[i].kind;
      if (kind == Kind::InPlace) {
        const uint32_t operand = index_.at(plan_.placements[i].of);
        const Extent& taken = extents_[operand];
        if (taken.pool != e.pool || taken.space != e.space || taken.begin != e.begin)
          return wrong(fmt::format("buffer {} does not lie where its operand does", requests_[i].buffer));
      }
      auto& space = spaces[{e.pool, e.space}];
      const int64_t end = e.begin + e.bytes;
      auto at = space.upper_bound(e.begin);
      if (at != space.begin() && std::prev(at)->second.end > e.begin) --at;
      while (at != space.end() && at->first < end) {
        CODETTA_CHECK_OK(may_follow(i, at->second.owner));
        // What remains of the range keeps its owner.
        const int64_t begin = at->first;
        const Range old = at->second;
        at = space.erase(at);
        if (begin < e.begin) space.emplace(begin, Range{e.begin, old.owner});
        if (old.end > end) at = space.emplace(end, old).first;
      }
      space.emplace(e.begin, Range{end, i});
    }
    return {};
  }

  const MemoryProblem& problem_;
  const MemoryPlan& plan_;
  const std::vector<MemoryRequest>& requests_;
  std::unordered_map<uint32_t, uint32_t> index_;  // by buffer
  std::vector<uint32_t> loops_;
  std::vector<Life> lives_;
  std::vector<uint32_t> shown_;                 // by request: what owns the bytes
  std::vector<std::vector<uint32_t>> viewers_;  // by owner: itself and its views
  std::vector<uint32_t> order_;                 // requests as they begin
  std::unordered_map<uint32_t, std::map<uint32_t, size_t>> begins_with_;
  struct ByForm {
    bool operator()(const Dim& a, const Dim& b) const { return Dim::order(a, b) < 0; }
  };
  std::map<Dim, uint32_t, ByForm> numbers_;
  std::vector<Dim> dims_;                          // by number
  std::vector<std::optional<int64_t>> values_;     // by number
  std::vector<uint32_t> sizes_, offsets_, pools_;  // numbers, by request and by pool
  std::vector<Extent> extents_;
  std::vector<uint8_t> resolved_;
};

std::optional<size_t> Checker::unproven_pairs() const {
  constexpr size_t most = 20'000;
  struct Thing {
    size_t first = 0, last = 0;
    uint32_t index = 0;
  };
  std::vector<Thing> things;
  for (const uint32_t i : order_) {
    if (plan_.placements[i].kind != Kind::Pool) continue;
    Thing thing{lives_[i].first, 0, i};
    for (const uint32_t other : viewers_[i]) {
      for (const auto& [stream, last] : lives_[other].last) thing.last = std::max(thing.last, last);
    }
    things.push_back(thing);
  }
  const auto below = [&](uint32_t a, uint32_t b) {
    const Placement &x = plan_.placements[a], &y = plan_.placements[b];
    const std::vector<Dim> one_x{x.offset}, one_y{y.offset};
    const std::vector<Dim>& from = x.terms.empty() ? one_x : x.terms;
    const std::vector<Dim>& to = y.terms.empty() ? one_y : y.terms;
    return std::all_of(from.begin(), from.end(), [&](const Dim& low) {
      return std::any_of(to.begin(), to.end(), [&](const Dim& high) {
        // Offsets are multiples of the alignment, so what lies below ends at such a multiple at the latest.
        const auto gap = (high - low - requests_[a].bytes).lower_bound();
        if (gap && *gap >= 0) return true;
        const Dim unit = Dim::constant(plan_.pools[x.pool].alignment);
        const Dim whole = floordiv(requests_[a].bytes + unit - Dim::constant(1), unit) * unit;
        const auto wide = (high - low - whole).lower_bound();
        return wide && *wide >= 0;
      });
    });
  };
  size_t pairs = 0, unproven = 0;
  std::multimap<size_t, uint32_t> alive;  // by last position
  for (const Thing& thing : things) {
    alive.erase(alive.begin(), alive.lower_bound(thing.first));
    for (const auto& [last, other] : alive) {
      if (plan_.placements[other].pool != plan_.placements[thing.index].pool) continue;
      if (++pairs > most) return std::nullopt;
      unproven += below(other, thing.index) || below(thing.index, other) ? 0 : 1;
    }
    alive.emplace(thing.last, thing.index);
  }
  return unproven;
}

// Sizes that programs have, and corners: nothing, one, not quite a power of two, large.
std::vector<SymbolValues> own_valuations(const std::set<std::string>& symbols, size_t random_ones) {
  std::vector<SymbolValues> result;
  uint64_t state = 88172645463325252u;  // xorshift64: the same on every machine
  const auto random = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  constexpr int64_t same[] = {0, 1, 17, 4096};
  for (const int64_t value : same) {
    SymbolValues values;
    for (const std::string& symbol : symbols) values[symbol] = value;
    result.push_back(std::move(values));
  }
  for (size_t i = 0; i < random_ones; ++i) {
    SymbolValues values;
    for (const std::string& symbol : symbols) {
      const uint64_t bits = random() % 15;
      values[symbol] = static_cast<int64_t>(random() % (uint64_t{2} << bits));
    }
    result.push_back(std::move(values));
  }
  return result;
}

}  // namespace

Result<MemoryProof> check_memory(const MemoryProblem& problem, const MemoryPlan& plan,
                                 const std::vector<SymbolValues>& values) {
  Checker checker(problem, plan);
  CODETTA_CHECK_OK(checker.prepare());
  const std::set<std::string> symbols = checker.symbols();
  MemoryProof proof;
  if (symbols.empty()) {
    checker.assign({});
    CODETTA_CHECK_OK(checker.check());
    proof.symbolic = true;
    return proof;
  }
  std::vector<SymbolValues> all = own_valuations(symbols, problem.requests.size() > 10'000 ? 2 : 8);
  all.insert(all.end(), values.begin(), values.end());
  for (const SymbolValues& valuation : all) {
    checker.assign(valuation);
    if (!checker.possible()) continue;
    const auto checked = checker.check();
    if (!checked) {
      std::string with;
      for (const auto& [symbol, value] : valuation)
        with += fmt::format("{}{} = {}", with.empty() ? "" : ", ", symbol, value);
      return wrong(fmt::format("{}, with {}", checked.error().diagnostics().front().reason, with));
    }
    ++proof.valuations;
  }
  if (const auto unproven = checker.unproven_pairs()) {
    proof.symbolic = true;
    proof.unproven = *unproven;
  }
  if (proof.valuations == 0 && (!proof.symbolic || proof.unproven > 0))
    return wrong("no values of the symbols give sizes that exist, so nothing could be checked");
  return proof;
}

}  // namespace codetta::plan
