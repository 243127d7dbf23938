// SPDX-License-Identifier: Apache-2.0
// What makes an EpilogueProgram consistent. decode() rests on it, and so may everything that reads a program.
#include <fmt/format.h>

#include "package/epilogue_program.hpp"
#include "package/step.hpp"
#include "types/dtype.hpp"

namespace codetta::package {
namespace {

using types::OpRule;
using MaybeText = std::optional<std::string>;

MaybeText defect_of_argument(const Argument& argument) {
  if (!types::is_valid(argument.dtype)) return "an argument has no dtype";
  if (argument.is_scalar && (argument.is_output || !argument.shape.empty()))
    return "a scalar argument is an output or has dims";
  if (argument.shape.size() > static_cast<size_t>(max_rank)) return "an argument has too many dims";
  for (const Dim& dim : argument.shape) {
    if (dim.fault() != types::DimFault::none) return "an argument's size has no value";
  }
  return std::nullopt;
}

MaybeText defect_of_terms(const Operand& operand) {
  if (operand.terms.size() > max_index_terms) return fmt::format("an operand has {} index terms", operand.terms.size());
  bool affine = true, row = false, col = false;
  for (const IndexTerm& term : operand.terms) {
    if (term.div < 1 || term.mod < 0 || term.dim >= max_rank) return "an index term is out of range";
    if (term.scale.fault() != types::DimFault::none) return "an index term has no scale";
    affine = affine && term.div == 1 && term.mod == 0;
    row = row || term.axis == Axis::Row;
    col = col || term.axis == Axis::Col;
  }
  if (operand.terms.size() + 2 * operand.gathered.size() > max_index_terms) return "an operand gathers too many dims";
  for (const uint8_t dim : operand.gathered) {
    if (dim >= max_rank) return "a gathered dim is out of range";
  }
  affine = affine && operand.gathered.empty();
  if (!operand.gathered.empty() && operand.is_store) return "a store is gathered";
  const Access affine_access = row && col ? Access::Full : col ? Access::Row : row ? Access::Column : Access::Scalar;
  if (operand.access != (affine ? affine_access : Access::Indexed))
    return "an operand's access contradicts its index terms";
  if (operand.unit_stride && operand.access != Access::Full && operand.access != Access::Row)
    return "an operand without columns has unit stride";
  if (operand.column_major && (operand.unit_stride || operand.access != Access::Full))
    return "a column-major operand has unit stride, or not both rows and columns";
  for (const auto& [dim, start] : operand.offsets) {
    if (dim >= max_rank || start.fault() != types::DimFault::none) return "an operand's offset is out of range";
  }
  return std::nullopt;
}

MaybeText defect_of_operand(const EpilogueProgram& program, const Operand& operand) {
  if (operand.argument >= program.arguments.size())
    return fmt::format("an operand reads argument {} of {}", operand.argument, program.arguments.size());
  const Argument& argument = program.arguments[operand.argument];
  if (argument.is_scalar) return "an operand is a scalar argument";
  if (argument.dtype != operand.dtype) return "an operand has another dtype than its argument";
  if (operand.is_store != argument.is_output) return "an output is loaded or an input stored";
  return defect_of_terms(operand);
}

MaybeText defect_of_reduction(const EpilogueProgram& program, const Reduction& reduction) {
  if (reduction.phase >= program.phases.size()) return "a reduction belongs to no phase";
  const auto& insts = program.phases[reduction.phase].insts;
  if (reduction.value >= insts.size() || insts[reduction.value].type != reduction.type)
    return "a reduction has no value of its type";
  if (types::is_bool(reduction.type)) return "a reduction of booleans";
  if (reduction.parts < 1) return "a reduction has no parts";
  const bool real = reduction.mean || values_of(reduction.kind) == 2;
  if (real && !types::is_float(reduction.type)) return "a mean, logsumexp or sumexp of integers";
  if (reduction.kind == ReduceKind::SumExp && reduction.axis != ReduceAxis::Row) return "a sumexp of no rows";
  if (reduction.mean && reduction.kind != ReduceKind::Sum) return "a mean that is no sum";
  return std::nullopt;
}

bool canonical_literal(const Inst& inst) {
  const auto value = static_cast<int64_t>(inst.bits);
  switch (inst.type) {
    case DType::f64:
    case DType::i64:
    case DType::u64:
      return true;
    case DType::f32:
      return inst.bits <= UINT32_MAX;
    default:
      if (types::is_bool(inst.type) || types::is_unsigned(inst.type)) return inst.bits <= types::max_int(inst.type);
      return value >= types::min_int(inst.type) && value <= static_cast<int64_t>(types::max_int(inst.type));
  }
}

// Operands of an op that exist and come before it; their types.
MaybeText defect_of_op(const Phase& phase, const Inst& inst) {
  const types::OpInfo& info = types::op_info(inst.op);
  const uint8_t arity = inst.op == Op::dropout ? 4 : static_cast<uint8_t>(info.arity < 0 ? 0 : info.arity);
  if (inst.arity != arity) return fmt::format("{} has {} operands", info.name, inst.arity);
  const auto in = [&](size_t i) { return phase.insts[inst.in[i]].type; };
  const bool plain = inst.aux == inst.type;
  bool fits = true;
  switch (info.rule) {
    case OpRule::arith:
    case OpRule::real:
      fits = plain && !types::is_bool(inst.type) && (info.rule == OpRule::arith || types::is_float(inst.type));
      for (size_t i = 0; i < arity; ++i)
        fits = fits && in(i) == (inst.op == Op::dropout && i >= 2 ? DType::i64 : inst.type);
      break;
    case OpRule::compare:
      fits = types::is_bool(inst.type) && in(0) == inst.aux && in(1) == inst.aux;
      break;
    case OpRule::logical:
      fits = plain && types::is_bool(inst.type);
      for (size_t i = 0; i < arity; ++i) fits = fits && types::is_bool(in(i));
      break;
    case OpRule::select:
      fits = plain && types::is_bool(in(0)) && in(1) == inst.type && in(2) == inst.type;
      break;
    case OpRule::cast:
      fits = types::compute_dtype(inst.aux) == inst.type;
      break;
    default:
      return fmt::format("{} is no instruction", info.name);
  }
  if (!fits) return fmt::format("{} has operands or a result of the wrong type", info.name);
  return std::nullopt;
}

MaybeText defect_of_inst(const EpilogueProgram& program, const Phase& phase, uint32_t p, size_t at) {
  const Inst& inst = phase.insts[at];
  if (!types::is_valid(inst.type) || !types::is_valid(inst.aux) || types::compute_dtype(inst.type) != inst.type)
    return "a value has no compute dtype";
  if (inst.arity > 4) return "an instruction has too many operands";
  for (size_t i = 0; i < 4; ++i) {
    if (i < inst.arity ? inst.in[i] >= at : inst.in[i] != 0)
      return fmt::format("v{} uses a value that does not come before it", at);
  }
  if (inst.kind == Inst::Kind::Op) {
    if (inst.index != 0 || inst.bits != 0) return "an op has a stray field";
    return defect_of_op(phase, inst);
  }
  if (inst.kind == Inst::Kind::LoadAt) {
    if (inst.op != Op::input || inst.aux != inst.type || inst.bits != 0) return "a value has a stray field";
    if (inst.index >= program.operands.size() || program.operands[inst.index].is_store)
      return fmt::format("v{} reads operand {}, which is not there", at, inst.index);
    const Operand& operand = program.operands[inst.index];
    if (inst.type != types::compute_dtype(operand.dtype)) return "a load has the wrong type";
    if (inst.arity == 0 || inst.arity != operand.gathered.size())
      return "a gathered load has the wrong number of indices";
    for (uint8_t i = 0; i < inst.arity; ++i) {
      if (phase.insts[inst.in[i]].type != DType::i64) return "a gathered load has an index that is not i64";
    }
    return std::nullopt;
  }
  if (inst.op != Op::input || inst.arity != 0 || inst.aux != inst.type) return "a value has a stray field";
  if (inst.kind != Inst::Kind::Literal && inst.bits != 0) return "a value has stray bits";
  const auto out_of_range = [&](const char* what) {
    return fmt::format("v{} reads {} {}, which is not there", at, what, inst.index);
  };
  switch (inst.kind) {
    case Inst::Kind::Accumulator:
      if (inst.index >= static_cast<uint32_t>(program.split.ways)) return out_of_range("part");
      if (inst.type != program.accumulator) return "the accumulator has another dtype";
      break;
    case Inst::Kind::Load:
      if (inst.index >= program.operands.size() || program.operands[inst.index].is_store)
        return out_of_range("operand");
      if (!program.operands[inst.index].gathered.empty()) return "a gathered operand is loaded without indices";
      if (inst.type != types::compute_dtype(program.operands[inst.index].dtype)) return "a load has the wrong type";
      break;
    case Inst::Kind::Scalar:
      if (inst.index >= program.arguments.size() || !program.arguments[inst.index].is_scalar)
        return out_of_range("scalar");
      if (inst.type != types::compute_dtype(program.arguments[inst.index].dtype)) return "a scalar has the wrong type";
      break;
    case Inst::Kind::Literal:
      if (inst.index != 0 || !canonical_literal(inst)) return "a literal does not fit its type";
      break;
    case Inst::Kind::Result: {
      if (inst.index >= program.reductions.size()) return out_of_range("reduction");
      const Reduction& reduction = program.reductions[inst.index];
      if (reduction.phase >= p) return fmt::format("phase {} reads a reduction of phase {}", p, reduction.phase);
      if (reduction.type != inst.type) return "a reduction's result has another type";
      if (reduction.axis != ReduceAxis::Row && phase.scope != Scope::Whole)
        return "a phase reads what is not finished at its scope";
      break;
    }
    case Inst::Kind::Extent:
      if (inst.index >= 3 + program.sizes.size() || inst.type != DType::i64) return out_of_range("extent");
      break;
    default:
      if (inst.index != 0 || inst.type != DType::i64) return "an index has the wrong type";
  }
  return std::nullopt;
}

MaybeText defect_of_phase(const EpilogueProgram& program, uint32_t p) {
  const Phase& phase = program.phases[p];
  if ((p == 0) != (phase.scope == Scope::Tile)) return fmt::format("phase {} has the wrong scope", p);
  if (p > 0 && program.phases[p - 1].scope > phase.scope) return "phases are out of order";
  bool reads = false;
  for (size_t i = 0; i < phase.insts.size(); ++i) {
    if (MaybeText defect = defect_of_inst(program, phase, p, i)) return defect;
    reads = reads || phase.insts[i].kind == Inst::Kind::Accumulator;
  }
  if (reads != phase.reads_accumulator) return fmt::format("phase {} is wrong about reading the accumulator", p);
  for (const Store& store : phase.stores) {
    if (store.operand >= program.operands.size() || !program.operands[store.operand].is_store)
      return "a store writes to no output";
    if (store.value >= phase.insts.size()) return "a store has no value";
  }
  return std::nullopt;
}

MaybeText defect_of_factor(const EpilogueProgram& program, const FactorProgram& factor) {
  const bool is_a = factor.which == FactorProgram::Which::A;
  if (factor.product >= (is_a ? 1u : static_cast<uint32_t>(program.split.products)))
    return fmt::format("a factor of product {} is made", factor.product);
  if (!types::is_valid(factor.dtype)) return "a made factor has no dtype";
  const Phase phase = phase_of(factor);
  for (size_t i = 0; i < phase.insts.size(); ++i) {
    const Inst::Kind kind = phase.insts[i].kind;
    if (kind == Inst::Kind::Accumulator || kind == Inst::Kind::Result || kind == Inst::Kind::Extent)
      return "a factor is made of what the product computes";
    if (MaybeText defect = defect_of_inst(program, phase, 0, i)) return defect;
  }
  if (factor.value >= phase.insts.size()) return "a made factor has no value";
  return std::nullopt;
}

MaybeText defect_of_spaces(const EpilogueProgram& program) {
  const size_t count = program.spaces.size();
  if (count == 0) return std::nullopt;
  if (count < 2 || count > max_products) return fmt::format("there are root spaces of {} products", count);
  if (program.split.products != 1) return "products with root spaces of their own are parts of a split, too";
  if (program.more_b.empty()) return "products with root spaces of their own have no further factor";
  if (program.phases.size() != 1 || !program.reductions.empty())
    return "products with root spaces of their own have reductions or later phases";
  if (program.makes_b()) return "products with root spaces of their own have a B that is made";
  size_t stores = 0;
  for (const ProductSpace& space : program.spaces) {
    if (space.columns >= program.sizes.size()) return fmt::format("there is no size {}", space.columns);
    stores += space.stores;
  }
  if (stores != program.phases[0].stores.size())
    return fmt::format("{} of {} stores are of a product", stores, program.phases[0].stores.size());
  for (const Inst& inst : program.phases[0].insts) {
    if (inst.kind == Inst::Kind::Extent && inst.index == 2) return "a value is the columns of several root spaces";
  }
  return std::nullopt;
}

MaybeText defect_of_factors(const EpilogueProgram& program) {
  if (!program.more_b.empty() && program.more_b.size() + 1 != program.products())
    return fmt::format("{} further factors of {} products", program.more_b.size(), program.products());
  for (const uint32_t operand : program.more_b) {
    if (operand >= program.operands.size() || program.operands[operand].is_store ||
        program.operands[operand].access != Access::Full || program.operands[operand].unit_stride)
      return "a further factor is no matrix that is read";
  }
  size_t of_b = 0;
  for (size_t i = 0; i < program.factors.size(); ++i) {
    const FactorProgram& factor = program.factors[i];
    if (MaybeText defect = defect_of_factor(program, factor)) return defect;
    if (program.made(factor.which, factor.product) != &factor) return "a factor is made twice";
    if (factor.which == FactorProgram::Which::B) ++of_b;
  }
  if (of_b != 0 && of_b != program.products()) return "some of the products have a B that is made, and others not";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_defect(const EpilogueProgram& program) {
  const DType accumulator = program.accumulator;
  if (accumulator != DType::f32 && accumulator != DType::f64 && accumulator != DType::i32 &&
      accumulator != DType::i64) {
    return "the accumulator has no accumulator dtype";
  }
  if (program.split.ways < 1 || program.split.ways > max_split_ways)
    return fmt::format("the columns are split in {} parts", program.split.ways);
  if (program.split.products < 1 || program.split.ways % program.split.products != 0)
    return fmt::format("{} parts are of {} products", program.split.ways, program.split.products);
  const auto chunk = program.split.chunk.as_constant();
  if (program.split.chunk.fault() != types::DimFault::none) return "a split's chunk has no value";
  if (program.split.ways == 1 ? chunk != 0 : chunk && *chunk < 1) return "a split has the wrong chunk";
  if (program.phases.empty()) return "there is no phase";
  for (const Argument& argument : program.arguments) {
    if (MaybeText defect = defect_of_argument(argument)) return defect;
  }
  for (const Operand& operand : program.operands) {
    if (MaybeText defect = defect_of_operand(program, operand)) return defect;
  }
  for (const Reduction& reduction : program.reductions) {
    if (MaybeText defect = defect_of_reduction(program, reduction)) return defect;
  }
  for (uint32_t p = 0; p < program.phases.size(); ++p) {
    if (MaybeText defect = defect_of_phase(program, p)) return defect;
  }
  if (MaybeText defect = defect_of_spaces(program)) return defect;
  return defect_of_factors(program);
}

}  // namespace codetta::package
