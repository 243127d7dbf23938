// SPDX-License-Identifier: Apache-2.0
// EpilogueProgram for people: explain, plans, and the comments of emitted code.
#include <fmt/format.h>

#include "package/epilogue_program.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::package {
namespace {

std::string_view name_of(Axis axis) {
  constexpr std::string_view names[] = {"batch", "row", "col"};
  return names[static_cast<size_t>(axis)];
}

std::string_view name_of(Scope scope) {
  constexpr std::string_view names[] = {"tile", "row panel", "whole"};
  return names[static_cast<size_t>(scope)];
}

// "col // 16 % 4 in dim -2": the index in the operand's second dim from the end.
std::string text_of(const IndexTerm& term) {
  std::string text(name_of(term.axis));
  if (term.div != 1) text += fmt::format(" // {}", term.div);
  if (term.mod != 0) text += fmt::format(" % {}", term.mod);
  if (!(term.scale == Dim::constant(1))) {
    if (term.div != 1 || term.mod != 0) text = "(" + text + ")";
    text = fmt::format("{} * {}", term.scale.to_string(), text);
  }
  return text + fmt::format(" in dim {}", -1 - static_cast<int>(term.dim));
}

std::string text_of(const EpilogueProgram& program, const Operand& operand) {
  std::string text = fmt::format("{}[{}", program.arguments[operand.argument].name, name_of(operand.access));
  if (operand.unit_stride) text += ", unit";
  if (operand.column_major) text += ", column-major";
  for (const IndexTerm& term : operand.terms) {
    if (operand.access == Access::Indexed || !(term.scale == Dim::constant(1))) text += ", " + text_of(term);
  }
  for (const uint8_t dim : operand.gathered) text += fmt::format(", gathered in dim {}", -1 - static_cast<int>(dim));
  for (const auto& [dim, start] : operand.offsets)
    text += fmt::format(", {} in dim {}", start.to_string(), -1 - static_cast<int>(dim));
  return text + "]";
}

std::string text_of_literal(const Inst& inst) {
  if (inst.type == DType::f32) {
    const auto bits = static_cast<uint32_t>(inst.bits);
    return types::to_string(types::Scalar::load(&bits, DType::f32));
  }
  if (inst.type == DType::f64) return types::to_string(types::Scalar::load(&inst.bits, DType::f64));
  if (types::is_bool(inst.type)) return inst.bits != 0 ? "true" : "false";
  if (types::is_unsigned(inst.type)) return fmt::format("{}", inst.bits);
  return fmt::format("{}", static_cast<int64_t>(inst.bits));
}

std::string text_of_shape(const Argument& argument) {
  if (argument.is_scalar) return fmt::format("{} scalar", dtype_name(argument.dtype));
  std::vector<std::string> sizes;
  for (const Dim& dim : argument.shape) sizes.push_back(dim.to_string());
  return fmt::format("{}[{}]{}", dtype_name(argument.dtype), fmt::join(sizes, ", "),
                     argument.is_output ? " output" : "");
}

}  // namespace

std::string_view name_of(ReduceKind kind) {
  constexpr std::string_view names[] = {"sum", "max", "min", "logsumexp", "sumexp"};
  return names[static_cast<size_t>(kind)];
}

std::string_view name_of(ReduceAxis axis) {
  constexpr std::string_view names[] = {"row", "column", "all", "item"};
  return names[static_cast<size_t>(axis)];
}

std::string_view name_of(Access access) {
  constexpr std::string_view names[] = {"full", "row", "column", "scalar", "indexed"};
  return names[static_cast<size_t>(access)];
}

std::string line_of(const EpilogueProgram& program, const Phase& phase, size_t at) {
  const Inst& inst = phase.insts[at];
  std::string line = fmt::format("v{}:{} = ", at, dtype_name(inst.type));
  switch (inst.kind) {
    case Inst::Kind::Op:
      line += types::op_info(inst.op).name;
      for (uint8_t i = 0; i < inst.arity; ++i) line += fmt::format(" v{}", inst.in[i]);
      if (inst.op == Op::cast && inst.aux != inst.type) line += fmt::format(" rounded to {}", dtype_name(inst.aux));
      return line;
    case Inst::Kind::Accumulator:
      return line + (program.split.ways > 1 ? fmt::format("accumulator part {}", inst.index) : "accumulator");
    case Inst::Kind::Load:
      return line + "load " + text_of(program, program.operands[inst.index]);
    case Inst::Kind::Scalar:
      return line + "scalar " + program.arguments[inst.index].name;
    case Inst::Kind::Literal:
      return line + text_of_literal(inst);
    case Inst::Kind::Result:
      return line + fmt::format("r{}", inst.index);
    case Inst::Kind::Extent:
      if (inst.index > 2) return line + "size " + program.sizes[inst.index - 3].to_string();
      return line + (inst.index == 0 ? "batches" : inst.index == 1 ? "rows" : "cols");
    case Inst::Kind::RowIndex:
      return line + "row index";
    case Inst::Kind::ColIndex:
      return line + "col index";
    case Inst::Kind::BatchIndex:
      return line + "batch index";
    case Inst::Kind::LoadAt:
      line += "load " + text_of(program, program.operands[inst.index]) + " at";
      for (uint8_t i = 0; i < inst.arity; ++i) line += fmt::format(" v{}", inst.in[i]);
      return line;
  }
  return line;
}

std::string line_of(const EpilogueProgram& program, const Store& store) {
  return fmt::format("store {} = v{}", text_of(program, program.operands[store.operand]), store.value);
}

std::string line_of(const EpilogueProgram& program, size_t index) {
  const Reduction& reduction = program.reductions[index];
  std::string line = fmt::format("reduce {} {} v{} -> r{}", name_of(reduction.axis),
                                 reduction.mean ? "mean" : name_of(reduction.kind), reduction.value, index);
  if (reduction.parts > 1) line += fmt::format(" ({} values each)", reduction.parts);
  return line;
}

std::string EpilogueProgram::to_string() const {
  std::string text = fmt::format("accumulator {}\n", dtype_name(accumulator));
  if (products() > 1) text += fmt::format("{} products\n", products());
  if (split.own_ways() > 1)
    text += fmt::format("split columns in {} by chunks of {}\n", split.own_ways(), split.chunk.to_string());
  if (!contracts) text += "no contraction\n";
  for (const Argument& argument : arguments)
    text += fmt::format("argument {}: {}\n", argument.name, text_of_shape(argument));
  for (size_t p = 0; p < phases.size(); ++p) {
    const Phase& phase = phases[p];
    text += fmt::format("phase {}: {}{}\n", p, name_of(phase.scope), phase.reads_accumulator ? "" : ", no accumulator");
    for (size_t i = 0; i < phase.insts.size(); ++i) text += "  " + line_of(*this, phase, i) + "\n";
    size_t next = 0, product = 0;  // of what has root spaces: the first store of the next product
    for (size_t i = 0; i < phase.stores.size(); ++i) {
      for (; product < spaces.size() && next == i; next += spaces[product++].stores)
        text += fmt::format("  product {}: {} columns\n", product, sizes[spaces[product].columns].to_string());
      text += "  " + line_of(*this, phase.stores[i]) + "\n";
    }
    for (size_t r = 0; r < reductions.size(); ++r) {
      if (reductions[r].phase == p) text += "  " + line_of(*this, r) + "\n";
    }
  }
  for (size_t p = 0; p < more_b.size(); ++p)
    text += fmt::format("B of product {}: {}\n", p + 1, arguments[operands[more_b[p]].argument].name);
  for (const FactorProgram& factor : factors) {
    const bool is_a = factor.which == FactorProgram::Which::A;
    text += fmt::format("made {}", is_a ? "A" : "B");
    if (split.products > 1 && !is_a) text += fmt::format(" of product {}", factor.product);
    text += fmt::format(": {} = v{}{}\n", dtype_name(factor.dtype), factor.value,
                        factor.batch_in_rows ? ", items as further rows" : "");
    const Phase phase = phase_of(factor);
    for (size_t i = 0; i < phase.insts.size(); ++i) text += "  " + line_of(*this, phase, i) + "\n";
  }
  return text;
}

}  // namespace codetta::package
