// SPDX-License-Identifier: Apache-2.0
// Limits of the fully fused form.
#include "plan/fused.hpp"

#include <fmt/format.h>

#include "types/dtype.hpp"

namespace codetta::plan {

std::optional<FusedBlock> fused_block(CpuIsa isa, DType a, DType b) {
  if (isa < CpuIsa::avx2) return std::nullopt;
  FusedBlock block;
  if (a == DType::f32 && b == DType::f32) {
    block.multiply = "multiply_f32";
    block.packed_isa = isa == CpuIsa::avx2 ? CpuIsa::avx2 : CpuIsa::avx512;
  } else if (a == DType::bf16 && b == DType::bf16 && isa >= CpuIsa::avx512_bf16) {
    block.multiply = "multiply_bf16";
    block.group = 2;
    block.packed_isa = CpuIsa::avx512_bf16;
  } else if (a == DType::u8 && b == DType::i8 && isa >= CpuIsa::avx512_vnni) {
    block.multiply = "multiply_u8s8";
    block.group = 4;
    block.accumulator = DType::i32;
    block.packed_isa = CpuIsa::avx512_vnni;
  } else {
    return std::nullopt;
  }
  block.nr = isa == CpuIsa::avx2 ? 16 : 64;
  return block;
}

std::string fused_obstacle(const package::EpilogueProgram& program, CpuIsa isa, DType a, DType b) {
  const auto block = fused_block(isa, a, b);
  if (!block)
    return fmt::format("no fused micro-kernel multiplies {} by {} on {}", dtype_name(a), dtype_name(b), isa_name(isa));
  if (program.accumulator != block->accumulator)
    return fmt::format("the fused form accumulates in {}", dtype_name(block->accumulator));
  if (program.phases.size() != 1)
    return fmt::format("the epilogue has {} phases and the fused form runs one", program.phases.size());
  if (!program.reductions.empty()) {
    return fmt::format("the epilogue has {} reductions and the fused form has none", program.reductions.size());
  }
  if (program.split.ways != 1) return "the epilogue splits the accumulator's columns";
  if (has_wide_values(program)) return "the epilogue computes with 64-bit values";
  return {};
}

bool has_wide_values(const package::EpilogueProgram& program) {
  using package::Inst;
  const auto wide = [](DType d) { return types::bits(d) == 64; };
  if (wide(program.accumulator)) return true;
  for (const package::Operand& o : program.operands) {
    if (wide(o.dtype)) return true;
  }
  for (const package::Reduction& r : program.reductions) {
    if (wide(r.type)) return true;
  }
  for (const package::Phase& phase : program.phases) {
    for (const Inst& in : phase.insts) {
      if (wide(in.type) || (in.op == types::Op::cast && wide(in.aux))) return true;
      if (in.kind == Inst::Kind::Op && in.op == types::Op::dropout) return true;
    }
  }
  return false;
}

}  // namespace codetta::plan
