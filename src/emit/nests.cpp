// SPDX-License-Identifier: Apache-2.0
// Variation analysis and demand: a value is computed in the outermost nest that can hold it, and only where it is used.
#include "emit/nests.hpp"

#include "diag/diagnostic.hpp"

namespace codetta::emit {

using package::Access;
using package::Inst;

namespace {

Error broken(std::string headline) {
  return diag::error(diag::Code::internal, std::move(headline))
      .reason("the epilogue program contradicts itself")
      .help("this is a bug in Codetta; please report it with the epilogue");
}

// By phase, then by value.
using Variations = std::vector<std::vector<Variation>>;

// `known`: of all earlier phases, and of the earlier values of this one.
Result<Variation> inst_variation(const package::EpilogueProgram& program, const Inst& inst, const Variations& known) {
  switch (inst.kind) {
    case Inst::Kind::Accumulator:
      if (inst.index >= static_cast<uint32_t>(program.split.ways)) return broken("an accumulator part is out of range");
      return by_both;
    case Inst::Kind::Load:
      if (inst.index >= program.operands.size()) return broken("a load names an operand that is not there");
      return emit::variation_of(program.operands[inst.index]);
    case Inst::Kind::Result: {
      if (inst.index >= program.reductions.size()) return broken("a result names a reduction that is not there");
      const package::Reduction& reduction = program.reductions[inst.index];
      if (reduction.axis == package::ReduceAxis::All || reduction.axis == package::ReduceAxis::Item) return uniform;
      // The columns of a value that has one for all rows share a result, too.
      const Variation kept = reduction.axis == package::ReduceAxis::Row ? by_row : by_column;
      if (reduction.phase + 1 >= known.size()) return broken("a result of a reduction is used before it is there");
      const std::vector<Variation>& values = known[reduction.phase];
      if (reduction.value >= values.size()) return broken("a reduction names a value that is not there");
      return static_cast<Variation>(values[reduction.value] & kept);
    }
    case Inst::Kind::RowIndex:
      return by_row;
    case Inst::Kind::ColIndex:
      return by_column;
    case Inst::Kind::Scalar:
      if (inst.index >= program.arguments.size() || !program.arguments[inst.index].is_scalar) {
        return broken("a scalar names an argument that is no scalar");
      }
      return uniform;
    case Inst::Kind::Extent:
      if (inst.index >= 3 + program.sizes.size()) return broken("an extent names a size that is not there");
      return uniform;
    case Inst::Kind::Literal:
    case Inst::Kind::BatchIndex:
      return uniform;
    case Inst::Kind::LoadAt:
      if (inst.index >= program.operands.size()) return broken("a load names an operand that is not there");
      break;
    case Inst::Kind::Op:
      break;
  }
  if (inst.arity > 4) return broken("an instruction has more than 4 operands");
  const std::vector<Variation>& earlier = known.back();
  Variation v = inst.kind == Inst::Kind::LoadAt ? emit::variation_of(program.operands[inst.index]) : uniform;
  for (int i = 0; i < inst.arity; ++i) {
    if (inst.in[i] >= earlier.size()) return broken("an instruction uses a later value");
    v |= earlier[inst.in[i]];
  }
  return v;
}

Result<std::vector<Variation>> variations_of(const package::EpilogueProgram& program, uint32_t phase_index) {
  Variations known;
  for (uint32_t phase = 0; phase <= phase_index; ++phase) {
    known.emplace_back();
    for (const Inst& inst : program.phases[phase].insts) {
      CODETTA_TRY(const Variation v, inst_variation(program, inst, known));
      known.back().push_back(v);
    }
  }
  return std::move(known.back());
}

// Values that `roots` depend on, marked by the nest that asks.
void mark(const package::Phase& phase, uint32_t value, std::vector<bool>& needed) {
  std::vector<uint32_t> open{value};
  while (!open.empty()) {
    const uint32_t id = open.back();
    open.pop_back();
    if (needed[id]) continue;
    needed[id] = true;
    const Inst& inst = phase.insts[id];
    for (int i = 0; i < inst.arity; ++i) open.push_back(inst.in[i]);
  }
}

}  // namespace

Variation variation_of(const package::Operand& operand) {
  switch (operand.access) {
    case Access::Full:
      return by_both;
    case Access::Row:
      return by_column;
    case Access::Column:
      return by_row;
    case Access::Scalar:
      return uniform;
    case Access::Indexed:
      break;
  }
  Variation v = uniform;
  for (const package::IndexTerm& term : operand.terms) {
    if (term.axis == package::Axis::Row) v |= by_row;
    if (term.axis == package::Axis::Col) v |= by_column;
  }
  return v;
}

Result<Nests> make_nests(const package::EpilogueProgram& program, uint32_t phase_index) {
  const package::Phase& phase = program.phases[phase_index];
  Nests nests;
  CODETTA_TRY(nests.variation, variations_of(program, phase_index));
  const size_t count = phase.insts.size();
  std::vector<bool> full(count), row_pass(count), column_pass(count), scalar_pass(count);
  for (uint32_t i = 0; i < phase.stores.size(); ++i) {
    const package::Store& store = phase.stores[i];
    if (store.operand >= program.operands.size() || store.value >= count) return broken("a store is out of range");
    const package::Operand& operand = program.operands[store.operand];
    const Variation holds = emit::variation_of(operand);
    if ((nests.variation[store.value] & ~holds) != 0) return broken("a store cannot hold the variation of its value");
    auto& list = holds == by_both     ? nests.full_stores
                 : holds == by_row    ? nests.column_stores
                 : holds == by_column ? nests.row_stores
                                      : nests.scalar_stores;
    auto& needed = holds == by_both     ? full
                   : holds == by_row    ? row_pass
                   : holds == by_column ? column_pass
                                        : scalar_pass;
    list.push_back(i);
    mark(phase, store.value, needed);
  }
  for (uint32_t i = 0; i < program.reductions.size(); ++i) {
    const package::Reduction& reduction = program.reductions[i];
    if (reduction.phase != phase_index) continue;
    if (reduction.value >= count) return broken("a reduction names a value that is not there");
    nests.reductions.push_back(i);
    mark(phase, reduction.value, full);
  }
  for (uint32_t id = 0; id < count; ++id) {
    const Variation v = nests.variation[id];
    const bool anywhere = full[id] || row_pass[id] || column_pass[id] || scalar_pass[id];
    if (v == uniform && anywhere) nests.uniform_values.push_back(id);
    if (v == by_row && (full[id] || row_pass[id])) nests.row_values.push_back(id);
    if ((v & by_column) != 0 && full[id]) nests.full_values.push_back(id);
    if (v == by_column && column_pass[id]) nests.column_values.push_back(id);
  }
  return nests;
}

}  // namespace codetta::emit
