// SPDX-License-Identifier: Apache-2.0
#include "emit/gpu_phases.hpp"

#include <algorithm>
#include <set>

#include "base/code_writer.hpp"

namespace codetta::emit {

using base::CodeWriter;

bool keeps_accumulators(const package::EpilogueProgram& program) {
  return std::any_of(program.phases.begin() + 1, program.phases.end(),
                     [](const package::Phase& phase) { return phase.reads_accumulator; });
}

void keep_accumulators(const package::EpilogueProgram& program, const std::function<std::string(uint32_t)>& accumulator,
                       PhaseText& phase) {
  for (int32_t part = 0; part < program.split.ways; ++part) {
    phase.full.push_back(CodeWriter::text_of("f.keep(", part, ", ", program.split.ways, ", ",
                                             accumulator(static_cast<uint32_t>(part)), ");"));
  }
  phase.has_full_work = true;
}

bool only_stores_results(const package::EpilogueProgram& program, uint32_t index) {
  const package::Phase& phase = program.phases[index];
  std::set<uint32_t> stored;
  if (phase.reads_accumulator || phase.stores.empty()) return false;
  for (const package::Reduction& reduction : program.reductions) {
    if (reduction.phase == index) return false;
  }
  return std::all_of(phase.stores.begin(), phase.stores.end(), [&](const package::Store& store) {
    const package::Inst& value = phase.insts[store.value];
    if (value.kind != package::Inst::Kind::Result || !stored.insert(value.index).second) return false;
    const package::Reduction& reduction = program.reductions[value.index];
    const package::Operand& operand = program.operands[store.operand];
    const package::Access fitting = reduction.axis == package::ReduceAxis::Row      ? package::Access::Column
                                    : reduction.axis == package::ReduceAxis::Column ? package::Access::Row
                                                                                    : package::Access::Scalar;
    return reduction.phase + 1 == index && operand.access == fitting && operand.dtype == reduction.type &&
           value.type == reduction.type;
  });
}

std::vector<std::optional<uint32_t>> combined_outputs(const package::EpilogueProgram& program) {
  std::vector<std::optional<uint32_t>> outputs(program.reductions.size());
  for (uint32_t p = 1; p < program.phases.size(); ++p) {
    if (!only_stores_results(program, p)) continue;
    for (const package::Store& store : program.phases[p].stores)
      outputs[program.phases[p].insts[store.value].index] = store.operand;
  }
  return outputs;
}

}  // namespace codetta::emit
