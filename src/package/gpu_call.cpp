// SPDX-License-Identifier: Apache-2.0
#include "package/gpu_call.hpp"

#include <algorithm>

#include "package/cpu_call.hpp"
#include "types/dtype.hpp"

namespace codetta::package {

std::optional<FoldSlots> fold_slots(const Operand& operand) {
  FoldSlots slots;
  for (size_t i = 0; i < operand.terms.size(); ++i) {
    const IndexTerm& term = operand.terms[i];
    if (term.axis == Axis::Col) continue;
    int8_t& slot = term.axis == Axis::Batch ? slots.batch : slots.row;
    const bool indexed = operand.access == Access::Indexed;
    // Affine operands have a stride an axis, whatever terms add up to it.
    if (indexed && (slot >= 0 || term.div != 1 || term.mod != 0)) return std::nullopt;
    slot = static_cast<int8_t>(indexed ? static_cast<int>(i) : term.axis == Axis::Batch ? 0 : 1);
  }
  if (slots.batch >= 0 && slots.row < 0) return std::nullopt;
  return slots;
}

static bool is_more_b(const EpilogueProgram& program, size_t operand) {
  return std::find(program.more_b.begin(), program.more_b.end(), operand) != program.more_b.end();
}

FoldSlots fold_slots_of(const EpilogueProgram& program, size_t operand) {
  if (is_more_b(program, operand)) return {0, -1};
  return fold_slots(program.operands[operand]).value_or(FoldSlots{});
}

bool rows_fold_by_slots(const EpilogueProgram& program) {
  // What a factor is made of has coordinates of its own.
  if (program.operands.size() > max_folded_operands || !program.factors.empty()) return false;
  for (const Phase& phase : program.phases) {
    for (const Inst& inst : phase.insts) {
      const bool extent = inst.kind == Inst::Kind::Extent && inst.index <= 2;
      if (inst.kind == Inst::Kind::RowIndex || inst.kind == Inst::Kind::BatchIndex || extent ||
          inst.kind == Inst::Kind::LoadAt)
        return false;
    }
  }
  for (size_t i = 0; i < program.operands.size(); ++i) {
    if (!is_more_b(program, i) && !fold_slots(program.operands[i])) return false;
  }
  return std::all_of(program.reductions.begin(), program.reductions.end(), [](const Reduction& reduction) {
    return reduction.axis == ReduceAxis::Row || reduction.axis == ReduceAxis::All;
  });
}

static unsigned bit_of(Axis axis) { return axis == Axis::Batch ? 1u : axis == Axis::Row ? 2u : 4u; }
static unsigned axes_of_results(ReduceAxis axis) {
  switch (axis) {
    case ReduceAxis::Row:
      return bit_of(Axis::Batch) | bit_of(Axis::Row);
    case ReduceAxis::Column:
      return bit_of(Axis::Batch) | bit_of(Axis::Col);
    case ReduceAxis::Item:
      return bit_of(Axis::Batch);
    case ReduceAxis::All:
      break;
  }
  return 0;
}

uint8_t missing_when(const EpilogueProgram& program, bool in_product) {
  unsigned missing = 0;
  // What has no batch, or one of which nothing is told apart, is never without items.
  const bool batched = std::any_of(program.operands.begin(), program.operands.end(), [](const Operand& operand) {
    return std::any_of(operand.terms.begin(), operand.terms.end(), [](const auto& t) { return t.axis == Axis::Batch; });
  });
  for (const Phase& phase : program.phases) {
    for (const Store& store : phase.stores) {
      unsigned along = 0, read = 0;
      for (const IndexTerm& term : program.operands[store.operand].terms) along |= bit_of(term.axis);
      std::vector<bool> wanted(phase.insts.size());
      wanted[store.value] = true;
      for (size_t i = store.value + size_t{1}; i-- > 0;) {
        const Inst& inst = phase.insts[i];
        if (!wanted[i]) continue;
        for (uint8_t a = 0; a < inst.arity; ++a) wanted[inst.in[a]] = true;
        if (inst.kind == Inst::Kind::Result) read |= axes_of_results(program.reductions[inst.index].axis);
      }
      for (unsigned empty = 1; empty < 8; ++empty) {
        if ((along & empty) != 0) continue;
        const bool beside = (in_product && &phase == program.phases.data()) || ((empty & 1u) != 0 && along != 0);
        if ((beside && (batched || (empty & 1u) == 0)) || (read & empty) != 0) missing |= 1u << empty;
      }
    }
  }
  return static_cast<uint8_t>(missing);
}

uint8_t missing_when(const EpilogueProgram& program, bool in_product, const types::Dim& batch, const types::Dim& rows,
                     const types::Dim& columns) {
  const auto may_be_0 = [](const types::Dim& size) { return size.lower_bound().value_or(0) < 1; };
  const unsigned possible = (may_be_0(batch) ? 1u : 0u) | (may_be_0(rows) ? 2u : 0u) | (may_be_0(columns) ? 4u : 0u);
  unsigned missing = possible == 0 ? 0u : missing_when(program, in_product);
  for (unsigned empty = 1; empty < 8; ++empty) {
    if ((empty & ~possible) != 0) missing &= ~(1u << empty);
  }
  return static_cast<uint8_t>(missing);
}

bool misses_stores(const Package& package) {
  const auto misses = [&](const Step& step) {
    const auto* launch = std::get_if<LaunchKernel>(&step);
    if (launch == nullptr || is_user(package.kernels[launch->kernel].config)) return false;
    const EpilogueProgram& program = package.kernels[launch->kernel].epilogue;
    return missing_when(program, launch->product.has_value(), launch->batch, launch->m, launch->n) != 0;
  };
  const auto any = [&](const StepList& list) { return std::any_of(list.begin(), list.end(), misses); };
  return any(package.steps) || std::any_of(package.step_lists.begin(), package.step_lists.end(), any);
}

int32_t bytes_of_loads(const EpilogueProgram& program) {
  std::vector<bool> loaded(program.operands.size());
  int32_t bytes = 0;
  for (const Inst& inst : program.phases[0].insts) {
    if (inst.kind != Inst::Kind::Load || loaded[inst.index]) continue;
    const Operand& operand = program.operands[inst.index];
    loaded[inst.index] = true;
    if (operand.access == Access::Full || operand.access == Access::Indexed)
      bytes += static_cast<int32_t>(types::byte_size(operand.dtype));
  }
  return bytes;
}

}  // namespace codetta::package
