// SPDX-License-Identifier: Apache-2.0
#include "plan/takeover.hpp"

#include <algorithm>

namespace codetta::plan {

namespace {

bool holds(const std::vector<uint32_t>& list, uint32_t buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

class Takeover {
 public:
  Takeover(const Plan& plan, UnitProgram& program) : plan_(plan), program_(program) {}

  void block(uint32_t index) {
    std::vector<Unit>& units = program_.blocks[index].units;
    std::vector<size_t> first(plan_.buffers.size(), SIZE_MAX), last(plan_.buffers.size(), 0);
    for (size_t u = 0; u < units.size(); ++u) {
      for (const auto* list : {&units[u].reads, &units[u].makes}) {
        for (const uint32_t buffer : *list) {
          first[buffer] = std::min(first[buffer], u);
          last[buffer] = u;
        }
      }
    }
    for (size_t u = 0; u < units.size(); ++u) {
      if (const auto* branches = std::get_if<package::If>(&units[u].steps.back())) {
        std::vector<uint32_t> taken{branches->predicate};
        for (const uint32_t result : std::vector<uint32_t>(units[u].makes)) {
          if (program_.home[result] != index || first[result] != u) continue;
          const auto fits = [&](uint32_t operand) {
            return !holds(taken, operand) && program_.home[operand] == index && last[operand] == u &&
                   (first[operand] < u || plan_.buffers[operand].donated) && may_follow(units[u], operand, result);
          };
          taken.push_back(take(units[u], result, fits));
        }
      }
      for (const uint32_t child : units[u].blocks) block(child);
    }
  }

 private:
  // Whether both branches may write the result where the operand lies.
  [[nodiscard]] bool may_follow(const Unit& unit, uint32_t operand, uint32_t result) const {
    const package::Buffer &from = plan_.buffers[operand], &to = plan_.buffers[result];
    if (from.dtype != to.dtype || !(from.shape == to.shape) || from.is_scalar) return false;
    if (from.donated && read_by_user(unit, operand)) return false;
    return std::all_of(unit.blocks.begin(), unit.blocks.end(),
                       [&](uint32_t branch) { return may_write_at_once(plan_, program_, branch, result, operand); });
  }
  // A kernel of the user's may have asked for strides of what the caller gives.
  [[nodiscard]] bool read_by_user(const Unit& unit, uint32_t operand) const {
    const auto* launch = unit.steps.empty() ? nullptr : std::get_if<package::LaunchKernel>(&unit.steps.back());
    if (launch != nullptr && plan_.kernels[launch->kernel].user && holds(launch->arguments, operand)) return true;
    return std::any_of(unit.blocks.begin(), unit.blocks.end(), [&](uint32_t child) {
      const std::vector<Unit>& units = program_.blocks[child].units;
      return std::any_of(units.begin(), units.end(), [&](const Unit& u) { return read_by_user(u, operand); });
    });
  }
  // Whether a branch begins the result as a copy of the operand.
  [[nodiscard]] bool copies(const Unit& unit, uint32_t operand, uint32_t result) const {
    const bool here = std::any_of(unit.steps.begin(), unit.steps.end(), [&](const package::Step& step) {
      const auto* copy = std::get_if<package::Copy>(&step);
      return copy != nullptr && copy->source == operand && copy->target == result;
    });
    return here || std::any_of(unit.blocks.begin(), unit.blocks.end(), [&](uint32_t child) {
             const std::vector<Unit>& units = program_.blocks[child].units;
             return std::any_of(units.begin(), units.end(), [&](const Unit& u) { return copies(u, operand, result); });
           });
  }

  // Which operand, or no_buffer.
  template <class Fits>
  uint32_t take(Unit& unit, uint32_t result, const Fits& fits) {
    uint32_t best = no_buffer;
    for (const uint32_t operand : unit.reads) {
      if (!fits(operand)) continue;
      const bool copied = copies(unit, operand, result);
      if (best == no_buffer || copied) best = operand;
      if (copied) break;
    }
    if (best == no_buffer) return best;
    for (const uint32_t child : unit.blocks) rename(program_, child, best, result);
    unit.steps.insert(unit.steps.begin(), package::Copy{best, result});
    return best;
  }

  const Plan& plan_;
  UnitProgram& program_;
};

}  // namespace

bool may_write_at_once(const Plan& plan, const UnitProgram& program, uint32_t block, uint32_t made, uint32_t old) {
  const std::vector<Unit>& units = program.blocks[block].units;
  size_t maker = units.size();
  for (size_t u = 0; u < units.size(); ++u) {
    if (!holds(units[u].makes, made)) continue;
    if (maker != units.size()) return false;
    maker = u;
  }
  if (maker == units.size()) return false;
  for (size_t u = maker + 1; u < units.size(); ++u) {
    if (holds(units[u].reads, old)) return false;
  }
  const Unit& unit = units[maker];
  if (!holds(unit.reads, old)) return true;
  // One branch runs, behind the predicate, and each makes the value.
  if (std::holds_alternative<package::If>(unit.steps.back())) {
    return std::all_of(unit.blocks.begin(), unit.blocks.end(),
                       [&](uint32_t branch) { return may_write_at_once(plan, program, branch, made, old); });
  }
  for (const uint32_t child : unit.blocks) {
    for (const Unit& inner : program.blocks[child].units) {
      if (holds(inner.reads, old)) return false;
    }
  }
  if (const auto* launch = std::get_if<package::LaunchKernel>(&unit.steps.back()))
    return updates_in_place(plan, unit, *launch, old, made);
  return read_only_by_copies(unit, old);
}

void rename(UnitProgram& program, uint32_t block, uint32_t from, uint32_t to) {
  const auto in_list = [&](std::vector<uint32_t>& list) {
    if (!holds(list, from)) return;
    std::erase(list, from);
    add_once(list, to);
  };
  std::vector<Unit>& units = program.blocks[block].units;
  for (Unit& unit : units) {
    for (package::Step& step : unit.steps) {
      each_buffer(step, [&](uint32_t& buffer) { buffer = buffer == from ? to : buffer; });
    }
    std::erase_if(unit.steps, [](const package::Step& step) {
      const auto* copy = std::get_if<package::Copy>(&step);
      return copy != nullptr && copy->source == copy->target;
    });
    in_list(unit.reads);
    in_list(unit.makes);
    for (const uint32_t child : unit.blocks) rename(program, child, from, to);
  }
  std::erase_if(units, [](const Unit& unit) { return unit.steps.empty(); });
}

void take_over_operands(const Plan& plan, UnitProgram& program) { Takeover(plan, program).block(0); }

}  // namespace codetta::plan
