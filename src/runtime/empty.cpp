// SPDX-License-Identifier: Apache-2.0
#include "runtime/empty.hpp"

#include <array>
#include <vector>

namespace codetta::runtime {

using package::Access;
using package::Inst;
using package::Phase;
using package::Store;

namespace {

// What the stores need of a phase, and nothing else.
Phase phase_of(const Phase& from, const std::vector<Store>& stores) {
  std::vector<bool> needed(from.insts.size());
  for (const Store& store : stores) needed[store.value] = true;
  for (size_t v = from.insts.size(); v-- > 0;) {
    if (!needed[v]) continue;
    for (uint32_t i = 0; i < from.insts[v].arity; ++i) needed[from.insts[v].in[i]] = true;
  }
  Phase phase;
  phase.scope = package::Scope::Whole;
  phase.reads_accumulator = false;
  std::vector<uint32_t> place(from.insts.size());
  for (size_t v = 0; v < from.insts.size(); ++v) {
    if (!needed[v]) continue;
    Inst inst = from.insts[v];
    for (uint32_t i = 0; i < inst.arity; ++i) inst.in[i] = place[inst.in[i]];
    phase.reads_accumulator |= inst.kind == Inst::Kind::Accumulator;
    place[v] = static_cast<uint32_t>(phase.insts.size());
    phase.insts.push_back(inst);
  }
  for (const Store& store : stores) phase.stores.push_back({store.operand, place[store.value]});
  return phase;
}

}  // namespace

std::optional<package::EpilogueProgram> stores_apart(const package::EpilogueProgram& program) {
  package::EpilogueProgram result = program;
  std::vector<Phase> apart;  // behind all others, where every reduction is finished
  for (Phase& phase : result.phases) {
    constexpr std::array kinds{Access::Row, Access::Column, Access::Scalar};
    for (const Access kind : kinds) {
      std::vector<Store> moved, kept;
      for (const Store& store : phase.stores) {
        const bool moves =
            program.operands[store.operand].access == kind && !phase_of(phase, {store}).reads_accumulator;
        (moves ? moved : kept).push_back(store);
      }
      if (moved.empty()) continue;
      apart.push_back(phase_of(phase, moved));
      phase.stores = std::move(kept);
    }
  }
  if (apart.empty()) return std::nullopt;
  for (Phase& phase : apart) result.phases.push_back(std::move(phase));
  return result;
}

}  // namespace codetta::runtime
