// SPDX-License-Identifier: Apache-2.0
// Short spelling for EpilogueProgram in tests: one phase unless more are begun; values are ids.
#pragma once

#include <bit>
#include <string>
#include <vector>

#include "package/epilogue_program.hpp"
#include "types/dtype.hpp"

namespace codetta::emit {

class ProgramMaker {
 public:
  using Inst = package::Inst;
  package::EpilogueProgram program;

  explicit ProgramMaker(DType accumulator = DType::f32) {
    program.accumulator = accumulator;
    program.phases.emplace_back();
  }
  void next_phase(package::Scope scope, bool reads_accumulator) {
    program.phases.emplace_back();
    phase().scope = scope;
    phase().reads_accumulator = reads_accumulator;
  }
  uint32_t accum(uint32_t part = 0) { return put(Inst::Kind::Accumulator, program.accumulator, part); }
  uint32_t load(DType dtype, package::Access access, bool unit = true) {
    return put(Inst::Kind::Load, types::compute_dtype(dtype), operand(dtype, access, unit, false));
  }
  uint32_t load_operand(uint32_t k) {
    return put(Inst::Kind::Load, types::compute_dtype(program.operands[k].dtype), k);
  }
  uint32_t scalar(DType dtype) {
    program.arguments.push_back({name(), dtype, true, false, {}});
    return put(Inst::Kind::Scalar, types::compute_dtype(dtype), static_cast<uint32_t>(program.arguments.size() - 1));
  }
  uint32_t literal(float value) {
    const uint32_t id = put(Inst::Kind::Literal, DType::f32, 0);
    phase().insts[id].bits = std::bit_cast<uint32_t>(value);
    return id;
  }
  uint32_t literal(double value) {
    const uint32_t id = put(Inst::Kind::Literal, DType::f64, 0);
    phase().insts[id].bits = std::bit_cast<uint64_t>(value);
    return id;
  }
  uint32_t integer(DType type, int64_t value) {
    const uint32_t id = put(Inst::Kind::Literal, type, 0);
    phase().insts[id].bits = static_cast<uint64_t>(value);
    return id;
  }
  uint32_t result(uint32_t reduction) { return put(Inst::Kind::Result, program.reductions[reduction].type, reduction); }
  uint32_t extent(uint32_t which) { return put(Inst::Kind::Extent, DType::i64, which); }
  uint32_t index(Inst::Kind kind) { return put(kind, DType::i64, 0); }
  uint32_t op(types::Op op, DType type, const std::vector<uint32_t>& in) { return op_aux(op, type, type, in); }
  uint32_t op_aux(types::Op op, DType type, DType aux, const std::vector<uint32_t>& in) {
    const uint32_t id = put(Inst::Kind::Op, type, 0);
    Inst& inst = phase().insts[id];
    inst.op = op;
    inst.aux = aux;
    inst.arity = static_cast<uint8_t>(in.size());
    for (size_t i = 0; i < in.size(); ++i) inst.in[i] = in[i];
    return id;
  }
  uint32_t cast(uint32_t value, DType to) { return op_aux(types::Op::cast, types::compute_dtype(to), to, {value}); }
  // Returns the operand.
  uint32_t store(uint32_t value, DType dtype, package::Access access = package::Access::Full, bool unit = true) {
    const uint32_t k = operand(dtype, access, unit, true);
    phase().stores.push_back({k, value});
    return k;
  }
  uint32_t reduce(package::ReduceKind kind, package::ReduceAxis axis, uint32_t value) {
    program.reductions.push_back(
        {kind, axis, false, 1, type_of(value), static_cast<uint32_t>(program.phases.size() - 1), value});
    return static_cast<uint32_t>(program.reductions.size() - 1);
  }
  uint32_t operand(DType dtype, package::Access access, bool unit, bool is_store) {
    using package::Axis;
    program.arguments.push_back({name(), dtype, false, is_store, {}});
    package::Operand o;
    o.argument = static_cast<uint32_t>(program.arguments.size() - 1);
    o.dtype = dtype;
    o.access = access;
    o.unit_stride = unit;
    o.is_store = is_store;
    using package::Access;
    if (access != Access::Indexed) {
      o.terms.push_back({Axis::Batch, 1, 0, 2, types::Dim::constant(1)});
      if (access == Access::Full || access == Access::Column)
        o.terms.push_back({Axis::Row, 1, 0, 1, types::Dim::constant(1)});
      if (access == Access::Full || access == Access::Row)
        o.terms.push_back({Axis::Col, 1, 0, 0, types::Dim::constant(1)});
    }
    o.unit_stride = unit && (access == Access::Full || access == Access::Row);
    program.operands.push_back(o);
    return static_cast<uint32_t>(program.operands.size() - 1);
  }
  [[nodiscard]] DType type_of(uint32_t value) { return phase().insts[value].type; }
  package::Phase& phase() { return program.phases.back(); }

 private:
  uint32_t put(Inst::Kind kind, DType type, uint32_t index) {
    Inst inst;
    inst.kind = kind;
    inst.type = type;
    inst.aux = type;
    inst.index = index;
    phase().insts.push_back(inst);
    return static_cast<uint32_t>(phase().insts.size() - 1);
  }
  std::string name() { return "a" + std::to_string(program.arguments.size()); }
};

// Of rows, in three phases.
inline package::EpilogueProgram softmax() {
  using types::Op;
  const DType f32 = DType::f32;
  ProgramMaker m;
  const uint32_t top = m.reduce(package::ReduceKind::Max, package::ReduceAxis::Row, m.accum());
  m.next_phase(package::Scope::RowPanel, true);
  const uint32_t e = m.op(Op::exp, f32, {m.op(Op::sub, f32, {m.accum(), m.result(top)})});
  const uint32_t sum = m.reduce(package::ReduceKind::Sum, package::ReduceAxis::Row, e);
  m.next_phase(package::Scope::RowPanel, true);
  const uint32_t again = m.op(Op::exp, f32, {m.op(Op::sub, f32, {m.accum(), m.result(top)})});
  m.store(m.op(Op::div, f32, {again, m.result(sum)}), f32);
  return m.program;
}

}  // namespace codetta::emit
