// SPDX-License-Identifier: Apache-2.0
// Recording instructions and cutting them into phases.
#include <algorithm>
#include <utility>

#include "plan/lowering.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using package::Axis;
using package::Phase;
using package::ReduceAxis;
using package::Scope;
using types::Op;

ValueRef Recorder::add(const Inst& inst) {
  const auto key = std::make_tuple(static_cast<int>(inst.kind), static_cast<int>(inst.op), static_cast<int>(inst.type),
                                   static_cast<int>(inst.aux), inst.in[0], inst.in[1], inst.in[2], inst.in[3],
                                   inst.index, inst.bits);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  uint32_t level = inst.kind == Inst::Kind::Result ? reductions_[inst.index].phase + 1 : 0;
  bool accumulator = inst.kind == Inst::Kind::Accumulator;
  for (uint32_t i = 0; i < inst.arity; ++i) {
    level = std::max(level, level_[inst.in[i]]);
    accumulator = accumulator || accumulators_[inst.in[i]];
  }
  const auto value = static_cast<ValueRef>(insts_.size());
  insts_.push_back(inst);
  level_.push_back(level);
  accumulators_.push_back(accumulator);
  known_.emplace(key, value);
  return value;
}

ValueRef Recorder::op(Op op, DType type, std::initializer_list<ValueRef> in, DType aux) {
  Inst inst;
  inst.kind = Inst::Kind::Op;
  inst.op = op;
  inst.type = type;
  inst.aux = aux;
  for (ValueRef value : in) inst.in[inst.arity++] = value;
  return add(inst);
}

ValueRef Recorder::literal(DType type, uint64_t bits) {
  Inst inst;
  inst.kind = Inst::Kind::Literal;
  inst.type = inst.aux = type;
  inst.bits = bits;
  return add(inst);
}

ValueRef Recorder::convert(ValueRef value, DType type) {
  if (insts_[value].type == type) return value;
  return op(Op::cast, type, {value}, type);
}

ValueRef Recorder::size(const Dim& size) {
  if (const auto constant = size.as_constant()) return integer(*constant);
  const auto known = std::find(sizes_.begin(), sizes_.end(), size);
  Inst extent;
  extent.kind = Inst::Kind::Extent;
  extent.type = extent.aux = DType::i64;
  extent.index = 3 + static_cast<uint32_t>(known - sizes_.begin());
  if (known == sizes_.end()) sizes_.push_back(size);
  return add(extent);
}

ValueRef Recorder::index_value(const Index& index) {
  const auto binary = [&](Op which, ValueRef a, ValueRef b) { return op(which, DType::i64, {a, b}, DType::i64); };
  std::optional<ValueRef> sum;
  for (const IndexTerm& term : index.terms) {
    Inst axis;
    axis.kind = term.axis == Axis::Batch ? Inst::Kind::BatchIndex
                : term.axis == Axis::Row ? Inst::Kind::RowIndex
                                         : Inst::Kind::ColIndex;
    axis.type = axis.aux = DType::i64;
    ValueRef value = add(axis);
    if (term.div != 1) value = binary(Op::floordiv, value, integer(term.div));
    if (term.mod != 0) value = binary(Op::mod, value, integer(term.mod));
    if (term.coef != 1) value = binary(Op::mul, value, integer(term.coef));
    if (term.is_scaled()) value = binary(Op::mul, value, size(term.factor));
    sum = sum ? binary(Op::add, *sum, value) : value;
  }
  if (index.value) sum = sum ? binary(Op::add, *sum, *index.value) : *index.value;
  if (index.is_shifted()) {
    const ValueRef start = size(index.shift);
    sum = sum ? binary(Op::add, *sum, start) : start;
  }
  if (!sum) return integer(index.constant);
  return index.constant == 0 ? *sum : binary(Op::add, *sum, integer(index.constant));
}

void Recorder::store(uint32_t operand, ValueRef value) { sinks_.push_back({true, operand, value}); }

ValueRef Recorder::before_rounding(ValueRef value, DType stored) const {
  const Inst& inst = insts_[value];
  const bool rounds = inst.kind == Inst::Kind::Op && inst.op == types::Op::cast && inst.aux == stored;
  return rounds && types::is_float(stored) && types::is_float(type(inst.in[0])) ? inst.in[0] : value;
}

ValueRef Recorder::reduce(package::Reduction reduction, ValueRef value) {
  reduction.phase = level_[value];
  // The same reduction of the same value is made once.
  const auto [known, is_new] =
      reduced_.try_emplace({value, reduction.kind, reduction.axis, reduction.mean, reduction.parts},
                           static_cast<uint32_t>(reductions_.size()));
  const uint32_t index = known->second;
  if (is_new) {
    reductions_.push_back(reduction);
    sinks_.push_back({false, index, value});
  }
  Inst inst;
  inst.kind = Inst::Kind::Result;
  inst.type = inst.aux = reduction.type;
  inst.index = index;
  return add(inst);
}

size_t Recorder::phases() const {
  uint32_t phases = 0;
  for (const Sink& sink : sinks_) phases = std::max(phases, level_[sink.value] + 1);
  return phases;
}

void Recorder::finish(package::EpilogueProgram& program) const {
  program.reductions = reductions_;
  program.sizes = sizes_;
  std::vector<std::vector<Sink>> sinks;  // by phase
  for (const Sink& sink : sinks_) {
    if (sinks.size() <= level_[sink.value]) sinks.resize(level_[sink.value] + size_t{1});
    sinks[level_[sink.value]].push_back(sink);
  }
  bool whole = false;                          // once the whole problem was needed, later phases start after it
  std::vector<uint32_t> local(insts_.size());  // of this phase
  std::vector<uint32_t> phase_of(insts_.size(), UINT32_MAX);  // by instruction: the last one that it is needed in
  for (uint32_t p = 0; p < sinks.size(); ++p) {
    std::vector<ValueRef> needed;
    const auto need = [&](ValueRef value) {
      if (std::exchange(phase_of[value], p) != p) needed.push_back(value);
    };
    for (const Sink& sink : sinks[p]) need(sink.value);
    for (size_t n = 0; n < needed.size(); ++n) {
      const Inst& inst = insts_[needed[n]];
      for (uint32_t i = 0; i < inst.arity; ++i) need(inst.in[i]);
    }
    std::sort(needed.begin(), needed.end());
    Phase phase;
    phase.reads_accumulator = false;
    for (const ValueRef v : needed) {
      Inst inst = insts_[v];
      for (uint32_t i = 0; i < inst.arity; ++i) inst.in[i] = local[inst.in[i]];
      phase.reads_accumulator |= inst.kind == Inst::Kind::Accumulator;
      if (inst.kind == Inst::Kind::Result) whole |= reductions_[inst.index].axis != ReduceAxis::Row;
      local[v] = static_cast<uint32_t>(phase.insts.size());
      phase.insts.push_back(inst);
    }
    phase.scope = p == 0 ? Scope::Tile : whole ? Scope::Whole : Scope::RowPanel;
    for (const Sink& sink : sinks[p]) {
      if (sink.is_store) {
        phase.stores.push_back({sink.index, local[sink.value]});
      } else {
        program.reductions[sink.index].phase = p;
        program.reductions[sink.index].value = local[sink.value];
      }
    }
    program.phases.push_back(std::move(phase));
  }
}

}  // namespace codetta::plan
