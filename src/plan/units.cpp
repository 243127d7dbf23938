// SPDX-License-Identifier: Apache-2.0
// From units to steps.
#include "plan/units.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/result.hpp"
#include "plan/memory_check.hpp"
#include "plan/takeover.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using package::Buffer;
using types::Dim;

namespace {

// Calls f for the buffers of one step.
struct BufferVisitor {
  const std::function<void(uint32_t&)>& f;

  void all(std::vector<uint32_t>& list) const {
    for (uint32_t& buffer : list) f(buffer);
  }
  void operator()(package::Allocate& s) const { f(s.buffer); }
  void operator()(package::AllocateFromPool& s) const { f(s.buffer); }
  void operator()(package::Free& s) const { f(s.buffer); }
  void operator()(package::Reuse& s) const { f(s.from), f(s.buffer); }
  void operator()(package::Reinterpret& s) const { f(s.source), f(s.buffer); }
  void operator()(package::LoadConstant& s) const { f(s.buffer); }
  void operator()(package::Copy& s) const { f(s.source), f(s.target); }
  void operator()(package::Fill& s) const { f(s.buffer); }
  void operator()(package::LaunchKernel& s) const {
    if (s.product) {
      f(s.product->a), f(s.product->b);
      all(s.product->more_b);
      for (package::Prologue& made : s.product->b_made) all(made.arguments);
    }
    all(s.arguments);
  }
  void operator()(package::CallExtern& s) const { all(s.inputs), all(s.outputs); }
  void operator()(package::SelectOutput& s) const { f(s.buffer); }
  void operator()(package::IndexPut& s) const { f(s.target), all(s.indices), f(s.values); }
  void operator()(package::Scatter& s) const { f(s.target), f(s.index), f(s.source); }
  void operator()(package::DefineSymbol& s) const {
    using From = package::DefineSymbol::From;
    if (s.from == From::Size || s.from == From::Stride || s.from == From::Value) f(s.buffer);
  }
  void operator()(package::Check& s) const { std::visit(*this, s.guard); }
  void operator()(package::UnitStrideGuard& g) const { f(g.buffer); }
  void operator()(package::NoOverlapGuard& g) const { f(g.output), f(g.other); }
  void operator()(package::SizeGuard& g) const { f(g.buffer); }
  void operator()(package::StrideGuard& g) const { f(g.buffer); }
  void operator()(package::AlignmentGuard& g) const { f(g.buffer); }
  void operator()(package::NanGuard& g) const { f(g.buffer); }
  void operator()(package::IndexGuard& g) const { f(g.buffer); }
  void operator()(package::EnterSubgraph& s) const { all(s.results); }
  void operator()(package::If& s) const { f(s.predicate); }
  void operator()(package::While& s) const { f(s.predicate); }
  template <class Other>
  void operator()(Other&) const {}
};

class Scheduler {
 public:
  Scheduler(Plan& plan, UnitProgram& program, const SizeHint& hint)
      : plan_(plan), program_(program), hint_(hint), spans_(plan.buffers.size()) {
    const size_t blocks = program.blocks.size();
    parent_.resize(blocks);
    scope_.assign(blocks, 0);
    positions_.resize(blocks);
    for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
      if (plan.buffers[b].donated) program.home[b] = 0;  // as if it were a temporary that is there from the start
    }
  }

  Result<void> run() {
    take_over_operands(plan_, program_);
    if (program_.blocks.size() > 1) problem().scopes.push_back({});
    number(0);
    if (!problem().scopes.empty()) problem().scopes[0].end = next_;
    for (uint32_t b = 0; b < program_.blocks.size(); ++b) touch_block(b);
    find_late();
    for (uint32_t b = 0; b < spans_.size(); ++b) {
      if (plan_.buffers[b].donated && spans_[b].first != SIZE_MAX) spans_[b].first = spans_[b].first_unit = 0;
    }
    find_placed();
    ask(0);
    CODETTA_TRY(plan_.memory, plan_memory(problem()));
    CODETTA_CHECK_OK(check_memory(problem(), plan_.memory));
    for (const MemoryPool& pool : plan_.memory.pools) plan_.pools.push_back({pool.device, pool.bytes, pool.alignment});
    // A pool of nothing, too, for temporaries of no bytes.
    if (plan_.pools.empty() && !problem().requests.empty())
      plan_.pools.push_back({0, Dim::constant(0), memory_alignment()});
    request_of_.assign(plan_.buffers.size(), UINT32_MAX);
    for (uint32_t i = 0; i < problem().requests.size(); ++i) request_of_[problem().requests[i].buffer] = i;
    plan_.step_lists.resize(program_.blocks.size() - 1);
    plan_.nested.resize(plan_.step_lists.size());
    find_tenants();
    emit(0, 0);
    plan_.steps.emplace_back(package::Return{});
    drop_unused();
    return {};
  }

 private:
  struct Span {
    size_t first = SIZE_MAX, last = 0;            // positions
    size_t first_unit = SIZE_MAX, last_unit = 0;  // of its home
  };
  struct Tenancy {           // of donated memory
    size_t unit = SIZE_MAX;  // of the program: where its memory changes hands
    uint32_t owner = no_buffer;
  };

  MemoryProblem& problem() { return plan_.temporaries; }
  // A cache line; what CUDA's allocations have.
  [[nodiscard]] int64_t memory_alignment() const { return plan_.target.backend == Backend::cpu ? 64 : 256; }

  uint32_t open_scope(uint32_t parent, MemoryScope::Kind kind) {
    problem().scopes.push_back({parent, next_, next_, kind});
    return static_cast<uint32_t>(problem().scopes.size() - 1);
  }

  // A unit has a position, and behind it those of its blocks.
  void number(uint32_t block) {
    const std::vector<Unit>& units = program_.blocks[block].units;
    for (uint32_t u = 0; u < units.size(); ++u) {
      positions_[block].push_back(next_++);
      if (units[u].blocks.empty()) continue;
      const bool loop = std::holds_alternative<package::While>(units[u].steps.back());
      const uint32_t around = loop ? open_scope(scope_[block], MemoryScope::Kind::Loop) : scope_[block];
      for (const uint32_t child : units[u].blocks) {
        parent_[child] = {block, u};
        scope_[child] = open_scope(around, MemoryScope::Kind::Block);
        number(child);
        problem().scopes[scope_[child]].end = next_;
      }
      if (loop) problem().scopes[around].end = next_;
    }
  }

  void touch(uint32_t buffer, uint32_t block, uint32_t unit) {
    const uint32_t home = program_.home[buffer];
    if (home == no_block) return;
    Span& span = spans_[buffer];
    span.first = std::min(span.first, positions_[block][unit]);
    span.last = std::max(span.last, positions_[block][unit]);
    while (block != home) {
      unit = parent_[block].second;
      block = parent_[block].first;
    }
    span.first_unit = std::min<size_t>(span.first_unit, unit);
    span.last_unit = std::max<size_t>(span.last_unit, unit);
  }
  void touch_block(uint32_t block) {
    std::vector<Unit>& units = program_.blocks[block].units;
    for (uint32_t u = 0; u < units.size(); ++u) {
      for (package::Step& step : units[u].steps) {
        // A loop reads its predicate inside, where its condition has made it.
        if (const auto* loop = std::get_if<package::While>(&step)) {
          touch(loop->predicate, units[u].blocks[0], last_unit_of(units[u].blocks[0]));
        } else {
          each_buffer(step, [&](uint32_t& buffer) { touch(buffer, block, u); });
        }
      }
    }
  }
  [[nodiscard]] uint32_t last_unit_of(uint32_t block) const {
    return static_cast<uint32_t>(program_.blocks[block].units.size() - 1);
  }

  // Buffers of a block by the unit in which they begin (or end), in their own order.
  [[nodiscard]] std::vector<std::vector<uint32_t>> by_unit(uint32_t block, size_t Span::*unit) const {
    std::vector<std::vector<uint32_t>> lists(program_.blocks[block].units.size());
    for (const uint32_t b : placed_[block]) lists[spans_[b].*unit].push_back(b);
    return lists;
  }

  // Where sizes are known that a run computes.
  void find_late() {
    using From = package::DefineSymbol::From;
    for (uint32_t b = 0; b < program_.blocks.size(); ++b) {
      const std::vector<Unit>& units = program_.blocks[b].units;
      for (uint32_t u = 0; u < units.size(); ++u) {
        for (const package::Step& step : units[u].steps) {
          const auto* define = std::get_if<package::DefineSymbol>(&step);
          if (define != nullptr && (define->from == From::Value || define->from == From::OutputSize))
            late_.emplace(define->symbol, positions_[b][u] + 1);
        }
      }
    }
  }
  void find_placed() {
    placed_.resize(program_.blocks.size());
    for (uint32_t b = 0; b < spans_.size(); ++b) {
      if (program_.home[b] < placed_.size() && spans_[b].first != SIZE_MAX) placed_[program_.home[b]].push_back(b);
    }
  }

  void ask(uint32_t block) {
    const auto begins = by_unit(block, &Span::first_unit);
    for (uint32_t u = 0; u < begins.size(); ++u) {
      for (const uint32_t buffer : begins[u]) ask_for(buffer, block);
      for (const uint32_t child : program_.blocks[block].units[u].blocks) ask(child);
    }
  }
  void ask_for(uint32_t buffer, uint32_t block) {
    MemoryRequest request;
    request.buffer = buffer;
    request.bytes = size_in_bytes(plan_.buffers[buffer], block != 0);
    request.hint = hint_(request.bytes);
    for (const std::string& symbol : late_.empty() ? std::vector<std::string>() : request.bytes.symbols()) {
      if (const auto late = late_.find(symbol); late != late_.end())
        request.known_from = std::max(request.known_from, late->second);
    }
    request.alignment = memory_alignment();
    request.dtype = plan_.buffers[buffer].dtype;
    request.device = plan_.buffers[buffer].device;
    request.scope = scope_[block];
    request.first = spans_[buffer].first;
    request.last = spans_[buffer].last;
    if (plan_.buffers[buffer].donated) {
      request.storage = MemoryRequest::Storage::Donated;
    } else {
      request.in_place_of = operands_of(buffer, block);
    }
    problem().requests.push_back(std::move(request));
  }

  // What the buffer may take over where it begins.
  [[nodiscard]] std::vector<uint32_t> operands_of(uint32_t buffer, uint32_t home) const {
    const auto [block, u] = unit_at(spans_[buffer].first, home, spans_[buffer].first_unit);
    const Unit& unit = program_.blocks[block].units[u];
    std::vector<uint32_t> operands;
    for (const package::Step& step : unit.steps) {
      if (const auto* launch = std::get_if<package::LaunchKernel>(&step)) {
        const auto& arguments = plan_.kernels[launch->kernel].lowered.program.arguments;
        for (size_t i = 0; i < launch->arguments.size(); ++i) {
          const uint32_t operand = launch->arguments[i];
          const bool loaded = i >= arguments.size() || !arguments[i].is_output;
          if (loaded && program_.home[operand] != no_block && updates_in_place(plan_, unit, *launch, operand, buffer))
            operands.push_back(operand);
        }
      }
      const auto* copy = std::get_if<package::Copy>(&step);
      if (copy == nullptr || copy->target != buffer || block != home || program_.home[copy->source] != home) continue;
      if (read_only_by_copies(unit, copy->source)) operands.push_back(copy->source);
    }
    return operands;
  }
  // Which unit has a position: the one of `home`, or one in its blocks.
  [[nodiscard]] std::pair<uint32_t, size_t> unit_at(size_t position, uint32_t home, size_t unit) const {
    uint32_t block = home;
    while (positions_[block][unit] != position) {
      for (const uint32_t child : program_.blocks[block].units[unit].blocks) {
        const auto& places = positions_[child];
        if (places.empty() || places.front() > position) continue;
        block = child;
      }
      const auto behind = std::upper_bound(positions_[block].begin(), positions_[block].end(), position);
      unit = static_cast<size_t>(behind - positions_[block].begin()) - 1;
    }
    return {block, unit};
  }
  // The copy whose target lies where its source does.
  [[nodiscard]] bool is_taken_over(const package::Step& step) const {
    const auto* copy = std::get_if<package::Copy>(&step);
    if (copy == nullptr || request_of_[copy->target] == UINT32_MAX) return false;
    const Placement& placement = plan_.memory.placements[request_of_[copy->target]];
    return placement.kind == Placement::Kind::InPlace && placement.of == copy->source;
  }

  // The donated buffer in whose memory a buffer lies; no_buffer: in none.
  [[nodiscard]] uint32_t donor_of(uint32_t buffer) const {
    for (uint32_t at = buffer; at != no_buffer && request_of_[at] != UINT32_MAX;) {
      if (plan_.buffers[at].donated) return at;
      const Placement& placement = plan_.memory.placements[request_of_[at]];
      const bool inner = placement.kind == Placement::Kind::InPlace || placement.kind == Placement::Kind::Reuse;
      at = inner ? placement.of : no_buffer;
    }
    return no_buffer;
  }

  // Donated memory changes hands once, in front of the first unit of the program that holds a step which writes to it:
  // a temporary of the same form takes it over, and all that lies there is a view of that one.
  void find_tenants() {
    for (uint32_t b = 0; b < spans_.size(); ++b) {
      const uint32_t donor = plan_.buffers[b].donated || spans_[b].first == SIZE_MAX ? no_buffer : donor_of(b);
      if (donor == no_buffer) continue;
      Tenancy& tenancy = tenancies_[donor];
      const auto& units = positions_[0];
      const auto behind = std::upper_bound(units.begin(), units.end(), spans_[b].first);
      tenancy.unit = std::min(tenancy.unit, static_cast<size_t>(behind - units.begin()) - 1);
      tenant_of_[b] = donor;
    }
  }

  // What still reads the donated buffer in this unit reads it from its new owner.
  void change_hands(uint32_t unit, const std::function<void(uint32_t)>& go_to) {
    for (auto& [donor, tenancy] : tenancies_) {
      if (tenancy.unit != unit) continue;
      const Buffer& given = plan_.buffers[donor];
      Buffer owner{given.name + "_donated", Buffer::Role::Temporary, given.dtype, false, given.shape, {}};
      owner.device = given.device;
      owner.alignment = plan_.target.backend == Backend::cpu ? largest_element(donor) : memory_alignment();
      tenancy.owner = static_cast<uint32_t>(plan_.buffers.size());
      plan_.buffers.push_back(std::move(owner));
      program_.home.push_back(no_block);
      go_to(plan_.buffers[donor].device);
      plan_.steps.emplace_back(package::Reuse{donor, tenancy.owner});
      replace(program_.blocks[0].units[unit], donor, tenancy.owner);
    }
  }
  // Bytes of the widest element among a donated buffer and what lies there: the kernels of a CPU need no more.
  [[nodiscard]] int64_t largest_element(uint32_t donor) const {
    int64_t most = types::byte_size(plan_.buffers[donor].dtype);
    for (const auto& [tenant, of] : tenant_of_) {
      if (of == donor) most = std::max(most, static_cast<int64_t>(types::byte_size(plan_.buffers[tenant].dtype)));
    }
    return most;
  }
  void replace(Unit& unit, uint32_t from, uint32_t to) {
    for (package::Step& step : unit.steps) {
      each_buffer(step, [&](uint32_t& buffer) { buffer = buffer == from ? to : buffer; });
    }
    for (const uint32_t child : unit.blocks) {
      for (Unit& inner : program_.blocks[child].units) replace(inner, from, to);
    }
  }

  // Whose step it is; nothing of a copy between two devices, which belongs to both.
  [[nodiscard]] std::optional<uint32_t> device_of(const package::Step& step, const Unit& unit) const {
    const auto* copy = std::get_if<package::Copy>(&step);
    if (copy == nullptr) return unit.device;
    const uint32_t from = plan_.buffers[copy->source].device;
    return from == plan_.buffers[copy->target].device ? std::optional(from) : std::nullopt;
  }
  // What has no bytes has a pool on its device all the same.
  uint32_t pool_of(uint32_t buffer, uint32_t placed) {
    const uint32_t device = plan_.buffers[buffer].device;
    if (plan_.pools[placed].device == device) return placed;
    const auto there = std::find_if(plan_.pools.begin(), plan_.pools.end(),
                                    [&](const package::Pool& pool) { return pool.device == device; });
    if (there != plan_.pools.end()) return static_cast<uint32_t>(there - plan_.pools.begin());
    plan_.pools.push_back({device, Dim::constant(0), memory_alignment()});
    return static_cast<uint32_t>(plan_.pools.size() - 1);
  }

  // Temporaries are placed in front of the first unit that uses them and end behind the last. `device`: where the list
  // begins.
  void emit(uint32_t block, uint32_t device) {
    const auto begins = by_unit(block, &Span::first_unit), ends = by_unit(block, &Span::last_unit);
    const auto list = [&]() -> package::StepList& { return block == 0 ? plan_.steps : plan_.step_lists[block - 1]; };
    uint32_t at = device;
    const std::function<void(uint32_t)> go_to = [&](uint32_t next) {
      if (next == at) return;
      if (at != device) list().emplace_back(package::ExitDevice{});
      if (next != device) list().emplace_back(package::EnterDevice{next});
      at = next;
    };
    const auto put = [&](package::Step step, const Unit& unit) {
      if (const auto own = device_of(step, unit)) go_to(*own);
      list().push_back(std::move(step));
    };
    for (package::RangeGuard& check : program_.blocks[block].checks) {
      package::Check& step = *std::get_if<package::Check>(&list().emplace_back(std::in_place_type<package::Check>));
      step.guard.emplace<package::RangeGuard>(std::move(check));
    }
    std::vector<Unit>& units = program_.blocks[block].units;
    for (uint32_t u = 0; u < units.size(); ++u) {
      Unit& unit = units[u];
      std::vector<package::Reuse> reuses;
      std::vector<bool> taken_over;  // by step
      for (const package::Step& step : unit.steps) {
        taken_over.push_back(is_taken_over(step));
        const auto* copy = std::get_if<package::Copy>(&step);
        if (taken_over.back() && tenant_of_.count(copy->target) == 0) reuses.push_back({copy->source, copy->target});
      }
      if (block == 0) change_hands(u, go_to);
      const auto begins_by_reuse = [&](uint32_t b) {
        return std::any_of(reuses.begin(), reuses.end(), [&](const package::Reuse& r) { return r.buffer == b; });
      };
      const auto ends_by_reuse = [&](uint32_t b) {
        return std::any_of(reuses.begin(), reuses.end(), [&](const package::Reuse& r) { return r.from == b; });
      };
      for (const uint32_t buffer : begins[u]) {
        if (begins_by_reuse(buffer) || plan_.buffers[buffer].donated) continue;
        if (const auto tenant = tenant_of_.find(buffer); tenant != tenant_of_.end()) {
          go_to(plan_.buffers[buffer].device);
          list().emplace_back(package::Reinterpret{tenancies_.at(tenant->second).owner, buffer});
          continue;
        }
        const Placement& placement = plan_.memory.placements[request_of_[buffer]];
        list().emplace_back(package::AllocateFromPool{buffer, pool_of(buffer, placement.pool), placement.offset});
      }
      size_t s = 0;
      for (; s < unit.steps.size() && std::holds_alternative<package::Copy>(unit.steps[s]); ++s) {
        if (!taken_over[s]) put(unit.steps[s], unit);
      }
      for (const package::Reuse& reuse : reuses) {
        go_to(plan_.buffers[reuse.buffer].device);
        list().emplace_back(reuse);
      }
      for (; s < unit.steps.size(); ++s) put(std::move(unit.steps[s]), unit);
      for (const uint32_t child : unit.blocks) emit(child, unit.device);
      for (const uint32_t buffer : ends[u]) {
        if (!ends_by_reuse(buffer) && !plan_.buffers[buffer].donated) list().emplace_back(package::Free{buffer});
      }
    }
    go_to(device);
  }

  void drop_unused() {
    std::vector<bool> used(plan_.buffers.size());
    for (size_t b = 0; b < used.size(); ++b) used[b] = plan_.buffers[b].role != Buffer::Role::Temporary;
    const auto each_step = [&](const std::function<void(uint32_t&)>& f) {
      for (package::Step& step : plan_.steps) each_buffer(step, f);
      for (package::StepList& list : plan_.step_lists) {
        for (package::Step& step : list) each_buffer(step, f);
      }
    };
    each_step([&](uint32_t& buffer) { used[buffer] = true; });
    std::vector<uint32_t> now(used.size(), no_buffer);
    std::vector<Buffer> kept;
    for (size_t b = 0; b < used.size(); ++b) {
      if (!used[b]) continue;
      now[b] = static_cast<uint32_t>(kept.size());
      kept.push_back(std::move(plan_.buffers[b]));
    }
    plan_.buffers = std::move(kept);
    const auto renumber = [&](uint32_t& buffer) {
      if (buffer != no_buffer) buffer = now[buffer];
    };
    each_step(renumber);
    for (MemoryRequest& request : problem().requests) {
      renumber(request.buffer);
      for (uint32_t& operand : request.in_place_of) renumber(operand);
    }
    for (Placement& placement : plan_.memory.placements) renumber(placement.of);
    for (NestedGraph& nested : plan_.nested) {
      for (uint32_t& input : nested.inputs) renumber(input);
    }
  }

  Plan& plan_;
  UnitProgram& program_;
  const SizeHint& hint_;
  std::vector<Span> spans_;                            // by buffer
  std::vector<std::vector<uint32_t>> placed_;          // by block: its buffers that are used
  std::vector<std::pair<uint32_t, uint32_t>> parent_;  // by block: block and unit around it
  std::vector<uint32_t> scope_;                        // by block
  std::vector<std::vector<size_t>> positions_;         // by block and unit
  std::vector<uint32_t> request_of_;                   // by buffer
  std::map<uint32_t, Tenancy> tenancies_;              // by donated buffer; of those in whose memory something lies
  std::map<uint32_t, uint32_t> tenant_of_;             // by temporary: the donated buffer whose memory it lies in
  std::map<std::string, size_t> late_;                 // by symbol: the position behind the unit that defines it
  size_t next_ = 0;
};

}  // namespace

Dim size_in_bytes(const Buffer& buffer, bool in_branch) {
  Dim bytes = Dim::constant(types::byte_size(buffer.dtype));
  for (const Dim& dim : buffer.shape)
    bytes = bytes * (in_branch && !types::is_non_negative(dim) ? max(dim, Dim::constant(0)) : dim);
  return bytes;
}

void add_once(std::vector<uint32_t>& list, uint32_t buffer) {
  if (std::find(list.begin(), list.end(), buffer) == list.end()) list.push_back(buffer);
}

void each_buffer(package::Step& step, const std::function<void(uint32_t&)>& f) { std::visit(BufferVisitor{f}, step); }

// They run before anything is taken over or updated.
bool read_only_by_copies(const Unit& unit, uint32_t buffer) {
  bool leading = true, other = false;
  for (package::Step step : unit.steps) {
    leading = leading && std::holds_alternative<package::Copy>(step);
    each_buffer(step, [&](uint32_t& b) { other = other || (b == buffer && !leading); });
  }
  return !other;
}

bool updates_in_place(const Plan& plan, const Unit& unit, const package::LaunchKernel& launch, uint32_t operand,
                      uint32_t result) {
  const auto& arguments = launch.arguments;
  const auto once = [&](uint32_t buffer) { return std::count(arguments.begin(), arguments.end(), buffer) == 1; };
  const auto index = [&](uint32_t buffer) {
    return static_cast<uint32_t>(std::find(arguments.begin(), arguments.end(), buffer) - arguments.begin());
  };
  const auto& product = launch.product;
  // A factor that is a slice of it has a name of its own.
  const auto slices = [&](const package::Step& step) {
    const auto* view = std::get_if<package::Reinterpret>(&step);
    return view != nullptr && view->source == operand && product->reads(view->buffer);
  };
  if (product && (product->reads(operand) || std::any_of(unit.steps.begin(), unit.steps.end(), slices))) return false;
  if (operand == result || !once(operand) || !once(result)) return false;
  const Buffer &from = plan.buffers[operand], &to = plan.buffers[result];
  if (from.dtype != to.dtype || !(from.shape == to.shape)) return false;
  if (plan.kernels[launch.kernel].user) return false;
  const package::EpilogueProgram& epilogue = plan.kernels[launch.kernel].lowered.program;
  const Dim one = Dim::constant(1);
  const bool one_element = launch.batch == one && launch.m == one && launch.n == one;
  if (one_element && !product && may_be_in_place_of_one(epilogue, index(operand), index(result))) return true;
  return may_be_in_place(epilogue, !(launch.batch == one), index(operand), index(result));
}

Result<void> schedule(Plan& plan, UnitProgram& program, const SizeHint& hint) {
  return Scheduler(plan, program, hint).run();
}

}  // namespace codetta::plan
