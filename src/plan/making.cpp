// SPDX-License-Identifier: Apache-2.0
#include "plan/making.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <vector>

#include "plan/families.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using package::Axis;
using package::Inst;
using types::Op;

namespace {

constexpr unsigned by_row = 1, by_col = 2;

unsigned variation_of(const package::Operand& operand) {
  unsigned v = 0;
  for (const package::IndexTerm& term : operand.terms)
    v |= term.axis == Axis::Row ? by_row : term.axis == Axis::Col ? by_col : 0;
  return v;
}

bool is_whole(const package::Operand& operand) {
  return operand.access == package::Access::Full || operand.access == package::Access::Indexed;
}

// Of integers by a number that is known: compilers shift and mask, or multiply.
double operation_clocks(const std::vector<Inst>& insts, const Inst& inst) {
  const double clocks = vector_clocks(inst.op, inst.type);
  const bool divides = (inst.op == Op::floordiv || inst.op == Op::mod) && !types::is_float(inst.type);
  if (!divides || insts[inst.in[1]].kind != Inst::Kind::Literal) return clocks;
  constexpr double masked = 1, shifted = 8, multiplied = 10;
  const double known = !std::has_single_bit(insts[inst.in[1]].bits) ? multiplied
                       : types::is_unsigned(inst.type)              ? masked
                                                                    : shifted;
  return known * (types::bits(inst.type) == 64 ? 2 : 1);
}

}  // namespace

int64_t run_along(const package::Operand& operand, Axis axis) {
  int64_t run = max_run;
  for (const package::IndexTerm& term : operand.terms) {
    if (term.axis == axis) run = std::gcd(run, term.div);
  }
  return run;
}

MakingCost making_cost(const package::EpilogueProgram& map, double elements, const SizeOf& size) {
  constexpr double lanes = 4, load_clocks = 0.5;  // of a vector, which lies along columns
  MakingCost cost;
  const std::vector<Inst>& insts = map.phases[0].insts;
  const bool masked = package::may_mask(map, insts);
  std::vector<unsigned> varies;
  for (const Inst& inst : insts) {
    unsigned v = 0;
    if (inst.kind == Inst::Kind::Load || inst.kind == Inst::Kind::LoadAt) v = variation_of(map.operands[inst.index]);
    if (inst.kind == Inst::Kind::RowIndex) v = by_row;
    if (inst.kind == Inst::Kind::ColIndex) v = by_col;
    for (uint8_t i = 0; i < inst.arity; ++i) v |= varies[inst.in[i]];
    varies.push_back(v);
    const bool op = inst.kind == Inst::Kind::Op;
    if (!op) {
      cost.clocks += load_clocks;
      cost.unshared_clocks += load_clocks;
      continue;
    }
    double clocks = operation_clocks(insts, inst);
    if (masked && inst.op == Op::exp) clocks += 1;  // two instructions bound and compare its argument
    cost.clocks += clocks * ((v & by_col) != 0 ? 1 : v != 0 ? 1 / lanes : 0);
    cost.unshared_clocks += v != 0 ? clocks : 0;
  }
  std::map<uint32_t, double> bytes;  // by argument
  for (const package::Operand& operand : map.operands) {
    if (!is_whole(operand) || operand.is_store) continue;
    const auto run = [&](Axis axis) {
      return (variation_of(operand) & (axis == Axis::Row ? by_row : by_col)) == 0 ? 1 : run_along(operand, axis);
    };
    bytes[operand.argument] +=
        static_cast<double>(types::byte_size(operand.dtype)) / static_cast<double>(run(Axis::Row) * run(Axis::Col));
  }
  for (const auto& [argument, read] : bytes) {
    double all = static_cast<double>(types::byte_size(map.arguments[argument].dtype));
    for (const types::Dim& dim : map.arguments[argument].shape) all *= static_cast<double>(size(dim));
    cost.read_bytes += std::min(read, all / std::max(elements, 1.0));
  }
  return cost;
}

double held_bytes(const package::EpilogueProgram& program, package::FactorProgram::Which which, const HeldRows& rows) {
  double most = 0;
  for (const package::FactorProgram& factor : program.factors) {
    if (factor.which != which) continue;
    std::vector<uint32_t> loaded;
    double bytes = 0;
    for (const Inst& inst : factor.insts) {
      if (inst.kind != Inst::Kind::Load || std::find(loaded.begin(), loaded.end(), inst.index) != loaded.end())
        continue;
      const package::Operand& operand = program.operands[inst.index];
      if (!is_whole(operand)) continue;
      loaded.push_back(inst.index);
      const bool indexed = operand.access == package::Access::Indexed;
      const int64_t in_rows =
          indexed && !factor.batch_in_rows
              ? std::max<int64_t>(std::min(run_along(operand, Axis::Row), rows.reach) / rows.apart, 1)
              : 1;
      const int64_t in_cols = indexed ? std::min(run_along(operand, Axis::Col), rows.cols) : 1;
      bytes += static_cast<double>(types::byte_size(operand.dtype)) / static_cast<double>(in_rows * in_cols);
    }
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace codetta::plan
