// SPDX-License-Identifier: Apache-2.0
#include "package/cpu_call.hpp"

#include <algorithm>

#include "package/gpu_call.hpp"

namespace codetta::package {

bool only_stores(const EpilogueProgram& program) {
  if (program.split.ways != 1 || !program.reductions.empty() || program.phases.size() != 1) return false;
  const Phase& phase = program.phases[0];
  if (phase.insts.size() != 1 || phase.insts[0].kind != Inst::Kind::Accumulator || phase.stores.size() != 1)
    return false;
  const Operand& operand = program.operands[phase.stores[0].operand];
  if (!operand.unit_stride || operand.dtype != program.accumulator || !operand.offsets.empty()) return false;
  bool seen[3] = {};
  for (const IndexTerm& term : operand.terms) {
    const int dim = term.axis == Axis::Col ? 0 : term.axis == Axis::Row ? 1 : 2;
    if (operand.access == Access::Indexed || term.dim != dim || !(term.scale == Dim::constant(1)) || seen[dim])
      return false;
    seen[dim] = true;
  }
  return true;
}

bool rows_fold(const EpilogueProgram& program) {
  return rows_fold_by_slots(program) &&
         std::none_of(program.operands.begin(), program.operands.end(),
                      [](const Operand& operand) { return operand.access == Access::Indexed; });
}

// A phase without accumulators whose stores all lie in one reduced space runs over that space only.
CpuSpace space_of(const EpilogueProgram& program, size_t index) {
  const Phase& phase = program.phases[index];
  const bool reduces = std::any_of(program.reductions.begin(), program.reductions.end(),
                                   [&](const Reduction& r) { return r.phase == index; });
  if (phase.reads_accumulator || reduces || phase.stores.empty()) return CpuSpace::Tiles;
  std::optional<CpuSpace> space;
  for (const Store& store : phase.stores) {
    const Operand& operand = program.operands[store.operand];
    const bool batched =
        std::any_of(operand.terms.begin(), operand.terms.end(), [](const auto& t) { return t.axis == Axis::Batch; });
    CpuSpace wanted = CpuSpace::Tiles;
    if (operand.access == Access::Column) wanted = CpuSpace::Rows;
    if (operand.access == Access::Row) wanted = CpuSpace::Columns;
    if (operand.access == Access::Scalar && !batched) wanted = CpuSpace::Once;
    if (space && *space != wanted) return CpuSpace::Tiles;
    space = wanted;
  }
  return *space;
}

}  // namespace codetta::package
