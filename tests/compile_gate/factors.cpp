// SPDX-License-Identifier: Apache-2.0
#include "compile_gate/factors.hpp"

#include <string>

#include "support/plain_store.hpp"
#include "types/dtype.hpp"

namespace codetta::compile_gate {

using package::Inst;

namespace {

uint32_t add_value(std::vector<Inst>& insts, const Inst& inst) {
  insts.push_back(inst);
  return static_cast<uint32_t>(insts.size() - 1);
}
uint32_t add_op(std::vector<Inst>& insts, types::Op op, DType type, uint32_t x, uint32_t y, uint8_t arity) {
  Inst inst;
  inst.op = op;
  inst.type = inst.aux = type;
  inst.in[0] = x, inst.in[1] = y;
  inst.arity = arity;
  return add_value(insts, inst);
}

uint32_t add_operand(package::EpilogueProgram& program, const char* name, DType type, package::Access access) {
  package::Operand operand;
  operand.argument = static_cast<uint32_t>(program.arguments.size());
  operand.dtype = type;
  operand.access = access;
  if (access == package::Access::Full) operand.terms.push_back({package::Axis::Row, 1, 0, 1});
  operand.terms.push_back({package::Axis::Col, 1, 0, 0});
  program.arguments.push_back({name, type, false, false, {types::Dim::symbol("r"), types::Dim::symbol("c")}});
  program.operands.push_back(operand);
  return static_cast<uint32_t>(program.operands.size() - 1);
}

void add_factor(package::EpilogueProgram& program, package::FactorProgram::Which which, DType dtype, bool heavy) {
  const auto load = [&](const char* name, DType stored, DType type, package::Access access) {
    Inst inst;
    inst.kind = Inst::Kind::Load;
    inst.index = add_operand(program, name, stored, access);
    inst.type = inst.aux = type;
    return inst;
  };
  const DType beside = types::is_float(dtype) ? dtype : DType::f32, type = types::compute_dtype(beside);
  package::FactorProgram factor;
  factor.which = which;
  factor.dtype = dtype;
  const uint32_t q = add_value(factor.insts, load("q", DType::i8, DType::i8, package::Access::Full));
  const uint32_t x = add_op(factor.insts, types::Op::cast, type, q, 0, 1);
  const uint32_t s = add_value(factor.insts, load("s", beside, type, package::Access::Row));
  factor.value = add_op(factor.insts, types::Op::mul, type, x, s, 2);
  if (heavy) {
    const uint32_t z = add_value(factor.insts, load("z", beside, type, package::Access::Full));
    const uint32_t sum = add_op(factor.insts, types::Op::add, type, factor.value, z, 2);
    factor.value = add_op(factor.insts, types::Op::silu, type, sum, 0, 1);
  }
  if (beside != dtype) factor.value = add_op(factor.insts, types::Op::cast, dtype, factor.value, 0, 1);
  program.factors.push_back(std::move(factor));
}

}  // namespace

package::EpilogueProgram made_factors(DType dtype, DType accumulator, bool a, bool b, bool heavy) {
  package::EpilogueProgram program = test::plain_store(accumulator, dtype);
  if (a) add_factor(program, package::FactorProgram::Which::A, dtype, heavy);
  if (b) add_factor(program, package::FactorProgram::Which::B, dtype, heavy);
  return program;
}

package::EpilogueProgram products_of_one_a(DType dtype, DType accumulator, int32_t count) {
  package::EpilogueProgram program = test::plain_store(accumulator, dtype);
  program.split = {count, types::Dim::constant(1), count};
  std::vector<Inst>& insts = program.phases[0].insts;
  uint32_t value = 0;
  for (int32_t p = 1; p < count; ++p) {
    Inst part = insts[0];
    part.index = static_cast<uint32_t>(p);
    const uint32_t next = add_value(insts, part);
    value = add_op(insts, types::Op::mul, insts[0].type, value, next, 2);
    package::Operand operand;
    operand.argument = static_cast<uint32_t>(program.arguments.size());
    operand.dtype = dtype;
    operand.unit_stride = false;
    operand.terms = {{package::Axis::Row, 1, 0, 1}, {package::Axis::Col, 1, 0, 0}};
    program.arguments.push_back({"w", dtype, false, false, {types::Dim::symbol("k"), types::Dim::symbol("n")}});
    program.more_b.push_back(static_cast<uint32_t>(program.operands.size()));
    program.operands.push_back(std::move(operand));
  }
  program.phases[0].stores[0].value = static_cast<uint32_t>(insts.size() - 1);
  return program;
}

package::EpilogueProgram products_with_spaces(DType dtype, DType accumulator, bool turned) {
  package::EpilogueProgram program;
  program.accumulator = accumulator;
  if (turned) program.split = {2, types::Dim::constant(64), 1};
  program.phases.push_back(package::Phase{package::Scope::Tile, true, {}, {}});
  std::vector<Inst>& insts = program.phases[0].insts;
  const DType type = types::compute_dtype(accumulator);
  for (uint32_t p = 0; p < 3; ++p) {
    const auto part = [&](uint32_t index) {
      Inst inst;
      inst.kind = Inst::Kind::Accumulator;
      inst.type = inst.aux = accumulator;
      inst.index = index;
      return add_value(insts, inst);
    };
    const auto store = [&](uint32_t value) {
      const uint32_t d = add_operand(program, "D", dtype, package::Access::Full);
      program.operands[d].is_store = true;
      program.arguments.back().is_output = true;
      program.phases[0].stores.push_back({d, value});
    };
    Inst bias;
    bias.kind = Inst::Kind::Load;
    bias.index = add_operand(program, "bias", accumulator, package::Access::Row);
    bias.type = bias.aux = type;
    const uint32_t b = add_value(insts, bias), first = part(0);
    store(add_op(insts, types::Op::add, type, first, b, 2));
    if (turned) store(add_op(insts, types::Op::sub, type, first, part(1), 2));
    program.spaces.push_back({p, turned ? 2U : 1U});
    program.sizes.push_back(types::Dim::symbol("n" + std::to_string(p)));
    if (p == 0) continue;
    const uint32_t w = add_operand(program, "w", dtype, package::Access::Full);
    program.operands[w].unit_stride = false;
    program.more_b.push_back(w);
  }
  return program;
}

}  // namespace codetta::compile_gate
