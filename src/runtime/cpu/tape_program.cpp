// SPDX-License-Identifier: Apache-2.0
// Nests and places of values. Values that outlive a row keep their place; those inside of a row share, by last use.
#include "runtime/cpu/tape_program.hpp"

#include <algorithm>
#include <array>

#include "types/dtype.hpp"

namespace codetta::runtime::cpu::tape {
namespace {

using package::Access;
using package::Axis;
using package::EpilogueProgram;
using package::Inst;

Varies operator|(Varies a, Varies b) { return static_cast<Varies>(static_cast<int>(a) | static_cast<int>(b)); }

OperandCode operand_code(const package::Operand& operand) {
  OperandCode code;
  code.dtype = operand.dtype;
  code.size = types::byte_size(operand.dtype);
  code.access = operand.access;
  code.is_store = operand.is_store;
  code.terms = operand.terms;
  for (const package::IndexTerm& term : operand.terms) {
    if (term.axis == Axis::Row) code.varies = code.varies | by_row;
    if (term.axis == Axis::Col) code.varies = code.varies | by_column;
  }
  code.has_column_terms = (code.varies & by_column) != 0;
  return code;
}

Varies varies_of(const ProgramCode& program, const Inst& inst, const std::vector<Varies>& earlier) {
  switch (inst.kind) {
    case Inst::Kind::Accumulator:
      return by_both;
    case Inst::Kind::Load:
      return program.operands[inst.index].varies;
    case Inst::Kind::Result: {
      const package::ReduceAxis axis = program.result_axis[inst.index];
      return axis == package::ReduceAxis::Row ? by_row : axis == package::ReduceAxis::Column ? by_column : nothing;
    }
    case Inst::Kind::RowIndex:
      return by_row;
    case Inst::Kind::ColIndex:
      return by_column;
    case Inst::Kind::Op:
    case Inst::Kind::LoadAt:
      break;
    default:
      return nothing;
  }
  Varies v = inst.kind == Inst::Kind::LoadAt ? program.operands[inst.index].varies : nothing;
  for (int i = 0; i < inst.arity; ++i) v = v | earlier[inst.in[i]];
  return v;
}

// Numbered places of each element size; numbers become offsets once all are known.
class Places {
 public:
  uint32_t take(int64_t size) {
    auto& free = free_[which(size)];
    if (!free.empty()) {
      const uint32_t place = free.back();
      free.pop_back();
      return place;
    }
    return static_cast<uint32_t>(which(size) << 28) | count_[which(size)]++;
  }
  void give(uint32_t place) { free_[place >> 28].push_back(place); }
  // Phases run one after the other: each starts with every place free.
  void forget() {
    for (size_t c = 0; c < 4; ++c) {
      free_[c].clear();
      for (uint32_t i = count_[c]; i-- > 0;) free_[c].push_back(static_cast<uint32_t>(c << 28) | i);
    }
  }
  // Bytes per lane, and where the places of a size begin (8-byte ones first, so that all are aligned).
  [[nodiscard]] int64_t bytes_per_lane() const { return 8 * count_[3] + 4 * count_[2] + 2 * count_[1] + count_[0]; }
  [[nodiscard]] uint32_t offset(uint32_t place, int64_t lanes) const {
    const size_t c = place >> 28;
    int64_t at = 0;
    for (size_t larger = 3; larger > c; --larger) at += (int64_t{1} << larger) * count_[larger];
    at += (int64_t{1} << c) * (place & 0x0FFFFFFF);
    return static_cast<uint32_t>(at * lanes);
  }

 private:
  static size_t which(int64_t size) { return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3; }
  std::array<std::vector<uint32_t>, 4> free_;
  std::array<uint32_t, 4> count_{};
};

class PhaseBuilder {
 public:
  PhaseBuilder(const EpilogueProgram& source, const ProgramCode& program, uint32_t index, Places& places)
      : source_(source), phase_(source.phases[index]), program_(program), index_(index), places_(places) {}

  PhaseCode build() {
    for (const Inst& inst : phase_.insts) varies_.push_back(varies_of(program_, inst, varies_));
    find_last_uses();
    const size_t count = phase_.insts.size();
    place_.assign(count, nowhere);
    // What outlives a row first, in the order of the program, then the rest with shared places.
    for (uint32_t i = 0; i < count; ++i) {
      if (last_use_[i] == 0 || (varies_[i] & by_row) != 0) continue;
      place_[i] = places_.take(types::byte_size(phase_.insts[i].type));
      (varies_[i] == nothing ? code_.tile : code_.columns).push_back(code_of(i));
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (last_use_[i] == 0 || (varies_[i] & by_row) == 0) continue;
      place_[i] = places_.take(types::byte_size(phase_.insts[i].type));
      code_.inner.push_back(code_of(i));
      const Inst& inst = phase_.insts[i];
      for (int j = 0; j < inst.arity; ++j) release(inst.in[j], i, j, inst);
    }
    add_stores();
    add_reductions();
    return std::move(code_);
  }

 private:
  static constexpr uint32_t never_freed = UINT32_MAX;

  // last_use_: 0 = never used; stores and reductions keep their value to the end.
  void find_last_uses() {
    last_use_.assign(phase_.insts.size(), 0);
    for (const package::Store& store : phase_.stores) last_use_[store.value] = never_freed;
    for (const package::Reduction& r : source_.reductions) {
      if (r.phase == index_) last_use_[r.value] = never_freed;
    }
    for (size_t i = phase_.insts.size(); i-- > 0;) {
      const Inst& inst = phase_.insts[i];
      if (last_use_[i] == 0) continue;
      for (int j = 0; j < inst.arity; ++j) {
        uint32_t& last = last_use_[inst.in[j]];
        last = std::max(last, static_cast<uint32_t>(i) + 1);
      }
    }
  }

  void release(uint32_t value, uint32_t user, int operand, const Inst& inst) {
    if (last_use_[value] != user + 1 || (varies_[value] & by_row) == 0) return;
    for (int j = 0; j < operand; ++j) {
      if (inst.in[j] == value) return;  // x * x
    }
    places_.give(place_[value]);
  }

  Code code_of(uint32_t i) const {
    const Inst& inst = phase_.insts[i];
    Code code;
    code.kind = inst.kind;
    code.varies = varies_[i];
    code.type = inst.type;
    code.index = inst.index;
    if (inst.kind == Inst::Kind::Extent && inst.index > 2)
      code.index += static_cast<uint32_t>(source_.arguments.size());
    code.bits = inst.bits;
    code.at = place_[i];
    code.arity = inst.arity;
    for (int j = 0; j < inst.arity; ++j) code.in[j] = place_[inst.in[j]];
    if (inst.kind != Inst::Kind::Op) return code;
    if (inst.op == types::Op::cast) {
      code.from = phase_.insts[inst.in[0]].type;
      code.via = inst.aux;
    } else {
      code.kernel = op_kernel(inst.op, inst.aux);
    }
    return code;
  }

  void add_stores() {
    for (const package::Store& store : phase_.stores) {
      const StoreCode code{store.operand, phase_.insts[store.value].type, place_[store.value]};
      switch (varies_[store.value] | program_.operands[store.operand].varies) {
        case nothing:
          code_.tile_stores.push_back(code);
          break;
        case by_column:
          code_.column_stores.push_back(code);
          break;
        case by_row:
          code_.row_stores.push_back(code);
          break;
        case by_both:
          code_.full_stores.push_back(code);
          break;
      }
      note_indexed(store.operand);
    }
    for (const auto* codes : {&code_.tile, &code_.columns, &code_.inner}) {
      for (const Code& code : *codes) {
        if (code.kind == Inst::Kind::Load || code.kind == Inst::Kind::LoadAt) note_indexed(code.index);
      }
    }
  }
  void note_indexed(uint32_t operand) {
    const OperandCode& code = program_.operands[operand];
    if (code.access != Access::Indexed || !code.has_column_terms) return;
    if (std::find(code_.indexed.begin(), code_.indexed.end(), operand) == code_.indexed.end())
      code_.indexed.push_back(operand);
  }

  void add_reductions() {
    for (uint32_t i = 0; i < source_.reductions.size(); ++i) {
      const package::Reduction& r = source_.reductions[i];
      if (r.phase != index_) continue;
      const int64_t width = package::values_of(r.kind);
      const bool lanes = r.axis == package::ReduceAxis::Column;
      code_.reductions.push_back({i, r.axis, width * types::byte_size(r.type),
                                  lanes ? fold_lanes(r.kind, r.type) : fold_across(r.kind, r.type), place_[r.value]});
    }
  }

  const EpilogueProgram& source_;
  const package::Phase& phase_;
  const ProgramCode& program_;
  uint32_t index_;
  Places& places_;
  PhaseCode code_;
  std::vector<Varies> varies_;
  std::vector<uint32_t> last_use_, place_;
};

}  // namespace

ProgramCode::ProgramCode(const EpilogueProgram& program) {
  accumulator = program.accumulator;
  accumulator_size = types::byte_size(program.accumulator);
  for (const package::Reduction& r : program.reductions) {
    result_axis.push_back(r.axis);
    result_size.push_back(types::byte_size(r.type));
  }
  Places places, fixed;
  for (const package::Operand& operand : program.operands) {
    operands.push_back(operand_code(operand));
    OperandCode& code = operands.back();
    code.gathered = operand.gathered.size();
    if (code.access == Access::Indexed && code.has_column_terms) code.offsets = fixed.take(8);
    if (code.gathered != 0 && sums == nowhere) sums = fixed.take(8);
  }
  raw = fixed.take(8);
  rounded = fixed.take(8);
  for (uint32_t p = 0; p < program.phases.size(); ++p) {
    places.forget();
    phases.push_back(PhaseBuilder(program, *this, p, places).build());
  }

  // As many lanes as the stack has room for. A program that keeps thousands of values at once gets its scratch
  // elsewhere.
  const int64_t per_lane = places.bytes_per_lane() + fixed.bytes_per_lane();
  while (lanes > 8 && lanes * per_lane > stack_bytes) lanes /= 2;
  scratch_bytes = lanes * per_lane;
  const auto base = static_cast<uint32_t>(lanes * fixed.bytes_per_lane());
  for (OperandCode& operand : operands) {
    if (operand.offsets != nowhere) operand.offsets = fixed.offset(operand.offsets, lanes);
  }
  if (sums != nowhere) sums = fixed.offset(sums, lanes);
  raw = fixed.offset(raw, lanes);
  rounded = fixed.offset(rounded, lanes);
  const auto resolve = [&](uint32_t& place) { place = base + places.offset(place, lanes); };
  for (PhaseCode& phase : phases) {
    for (auto* codes : {&phase.tile, &phase.columns, &phase.inner}) {
      for (Code& code : *codes) {
        resolve(code.at);
        for (uint8_t j = 0; j < code.arity; ++j) resolve(code.in[j]);
      }
    }
    for (auto* stores : {&phase.tile_stores, &phase.column_stores, &phase.row_stores, &phase.full_stores}) {
      for (StoreCode& store : *stores) resolve(store.at);
    }
    for (ReduceCode& reduction : phase.reductions) resolve(reduction.at);
  }
}

}  // namespace codetta::runtime::cpu::tape
