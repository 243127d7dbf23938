// SPDX-License-Identifier: Apache-2.0
// The byte form of an EpilogueProgram.
#include "package/epilogue_program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "diag/diagnostic.hpp"
#include "package/bytes.hpp"
#include "package/serialize.hpp"
#include "package/step.hpp"
#include "types/dtype.hpp"

namespace codetta::package {
namespace {

// Digests name kernels, and stay what they are where a program has nothing that the first format lacks: not contracting
// adds one to it, sizes add two, spaces of products four.
constexpr uint64_t program_format = 3, last_format = 10;

void write(ByteWriter& out, const Inst& inst) {
  out.choice(inst.kind);
  out.choice(inst.op);
  out.choice(inst.type);
  out.choice(inst.aux);
  out.number(inst.arity);
  for (uint8_t i = 0; i < inst.arity; ++i) out.number(inst.in[i]);
  out.number(inst.index);
  out.number(inst.bits);
}

Inst read_inst(ByteReader& in) {
  Inst inst;
  inst.kind = in.choice<Inst::Kind>(static_cast<uint64_t>(Inst::Kind::LoadAt) + 1, "instruction");
  inst.op = in.choice<Op>(types::all_ops().size(), "op");
  inst.type = in.dtype();
  inst.aux = in.dtype();
  inst.arity = static_cast<uint8_t>(in.number_up_to(4, "arity"));
  for (uint8_t i = 0; i < inst.arity; ++i) inst.in[i] = in.index("operand");
  inst.index = in.index("index");
  inst.bits = in.number();
  return inst;
}

void write(ByteWriter& out, const std::vector<Inst>& insts) {
  out.number(insts.size());
  for (const Inst& inst : insts) write(out, inst);
}

std::vector<Inst> read_insts(ByteReader& in) {
  std::vector<Inst> insts;
  for (size_t n = in.count(max_items, "number of instructions"); n > 0 && in.ok(); --n) insts.push_back(read_inst(in));
  return insts;
}

void write(ByteWriter& out, const Operand& operand) {
  out.number(operand.argument);
  out.choice(operand.dtype);
  out.choice(operand.access);
  out.flag(operand.unit_stride);
  out.flag(operand.column_major);
  out.flag(operand.is_store);
  out.number(operand.terms.size());
  for (const IndexTerm& term : operand.terms) {
    out.choice(term.axis);
    out.integer(term.div);
    out.integer(term.mod);
    out.number(term.dim);
    out.dim(term.scale);
  }
  out.number(operand.offsets.size());
  for (const auto& [dim, start] : operand.offsets) {
    out.number(dim);
    out.dim(start);
  }
  out.number(operand.gathered.size());
  for (const uint8_t dim : operand.gathered) out.number(dim);
}

Operand read_operand(ByteReader& in) {
  Operand operand;
  operand.argument = in.index("argument");
  operand.dtype = in.dtype();
  operand.access = in.choice<Access>(5, "access");
  operand.unit_stride = in.flag();
  operand.column_major = in.flag();
  operand.is_store = in.flag();
  operand.terms.resize(in.count(max_index_terms, "number of index terms"));
  for (IndexTerm& term : operand.terms) {
    term.axis = in.choice<Axis>(3, "axis");
    term.div = in.integer();
    term.mod = in.integer();
    term.dim = static_cast<uint8_t>(in.number_up_to(max_rank, "dim"));
    term.scale = in.dim();
  }
  operand.offsets.resize(in.count(max_rank, "number of offsets"));
  for (auto& [dim, start] : operand.offsets) {
    dim = static_cast<uint8_t>(in.number_up_to(max_rank, "dim"));
    start = in.dim();
  }
  operand.gathered.resize(in.count(max_index_terms / 2, "number of gathered dims"));
  for (uint8_t& dim : operand.gathered) dim = static_cast<uint8_t>(in.number_up_to(max_rank, "dim"));
  return operand;
}

}  // namespace

void write(ByteWriter& out, const std::vector<Dim>& shape) {
  out.number(shape.size());
  for (const Dim& dim : shape) out.dim(dim);
}

std::vector<Dim> read_shape(ByteReader& in) {
  std::vector<Dim> shape(in.count(max_rank, "rank"));
  for (Dim& dim : shape) dim = in.dim();
  return shape;
}

void write(ByteWriter& out, const EpilogueProgram& program) {
  out.number(program_format + (program.contracts ? 0 : 1) + (program.sizes.empty() ? 0 : 2) +
             (program.spaces.empty() ? 0 : 4));
  out.choice(program.accumulator);
  out.integer(program.split.ways);
  out.dim(program.split.chunk);
  if (program.split.ways > 1) out.integer(program.split.products);
  out.number(program.arguments.size());
  for (const Argument& argument : program.arguments) {
    out.text(argument.name);
    out.choice(argument.dtype);
    out.flag(argument.is_scalar);
    out.flag(argument.is_output);
    write(out, argument.shape);
  }
  out.number(program.operands.size());
  for (const Operand& operand : program.operands) write(out, operand);
  out.number(program.reductions.size());
  for (const Reduction& reduction : program.reductions) {
    out.choice(reduction.kind);
    out.choice(reduction.axis);
    out.flag(reduction.mean);
    out.integer(reduction.parts);
    out.choice(reduction.type);
    out.number(reduction.phase);
    out.number(reduction.value);
  }
  out.number(program.phases.size());
  for (const Phase& phase : program.phases) {
    out.choice(phase.scope);
    out.flag(phase.reads_accumulator);
    write(out, phase.insts);
    out.number(phase.stores.size());
    for (const Store& store : phase.stores) {
      out.number(store.operand);
      out.number(store.value);
    }
  }
  out.number(program.factors.size());
  for (const FactorProgram& factor : program.factors) {
    out.choice(factor.which);
    out.number(factor.product);
    out.choice(factor.dtype);
    out.flag(factor.batch_in_rows);
    write(out, factor.insts);
    out.number(factor.value);
  }
  out.number(program.more_b.size());
  for (const uint32_t operand : program.more_b) out.number(operand);
  if (!program.sizes.empty()) {
    out.number(program.sizes.size());
    for (const Dim& size : program.sizes) out.dim(size);
  }
  if (program.spaces.empty()) return;
  out.number(program.spaces.size());
  for (const ProductSpace& space : program.spaces) {
    out.number(space.columns);
    out.number(space.stores);
  }
}

// Elements are read one by one and not sized ahead: a count says little about how much follows it.
EpilogueProgram read_program(ByteReader& in) {
  EpilogueProgram program;
  const uint64_t format = in.number();
  if (in.ok() && (format < program_format || format > last_format)) {
    in.damage(
        fmt::format("the program has format {}, this library reads {} to {}", format, program_format, last_format));
  }
  program.contracts = (format - program_format) % 2 == 0;
  const bool has_sizes = ((format - program_format) & 2) != 0, has_spaces = ((format - program_format) & 4) != 0;
  program.accumulator = in.dtype();
  program.split.ways = in.small(1, max_split_ways, "parts of a split");
  program.split.chunk = in.dim();
  if (program.split.ways > 1) program.split.products = in.small(1, max_split_ways, "products");
  for (size_t n = in.count(max_items, "number of arguments"); n > 0 && in.ok(); --n) {
    Argument argument;
    argument.name = in.text(max_name_bytes, "length of a name");
    argument.dtype = in.dtype();
    argument.is_scalar = in.flag();
    argument.is_output = in.flag();
    argument.shape = read_shape(in);
    program.arguments.push_back(std::move(argument));
  }
  for (size_t n = in.count(max_items, "number of operands"); n > 0 && in.ok(); --n)
    program.operands.push_back(read_operand(in));
  for (size_t n = in.count(max_items, "number of reductions"); n > 0 && in.ok(); --n) {
    Reduction reduction;
    reduction.kind = in.choice<ReduceKind>(5, "reduction");
    reduction.axis = in.choice<ReduceAxis>(4, "reduction axis");
    reduction.mean = in.flag();
    reduction.parts = in.small(1, INT32_MAX, "parts of a reduction");
    reduction.type = in.dtype();
    reduction.phase = in.index("phase");
    reduction.value = in.index("value");
    program.reductions.push_back(reduction);
  }
  for (size_t n = in.count(max_items, "number of phases"); n > 0 && in.ok(); --n) {
    Phase phase;
    phase.scope = in.choice<Scope>(3, "scope");
    phase.reads_accumulator = in.flag();
    phase.insts = read_insts(in);
    for (size_t i = in.count(max_items, "number of stores"); i > 0 && in.ok(); --i) {
      Store store;
      store.operand = in.index("operand");
      store.value = in.index("value");
      phase.stores.push_back(store);
    }
    program.phases.push_back(std::move(phase));
  }
  for (size_t n = in.count(max_items, "number of made factors"); n > 0 && in.ok(); --n) {
    FactorProgram factor;
    factor.which = in.choice<FactorProgram::Which>(2, "factor");
    factor.product = in.index("product");
    factor.dtype = in.dtype();
    factor.batch_in_rows = in.flag();
    factor.insts = read_insts(in);
    factor.value = in.index("value");
    program.factors.push_back(std::move(factor));
  }
  for (size_t n = in.count(max_items, "number of further factors"); n > 0 && in.ok(); --n)
    program.more_b.push_back(in.index("operand"));
  for (size_t n = has_sizes ? in.count(max_items, "number of sizes") : 0; n > 0 && in.ok(); --n)
    program.sizes.push_back(in.dim());
  for (size_t n = has_spaces ? in.count(max_products, "number of products") : 0; n > 0 && in.ok(); --n) {
    ProductSpace space;
    space.columns = in.index("size");
    space.stores = in.index("number of stores");
    program.spaces.push_back(space);
  }
  if (!in.ok()) return {};
  if (const auto defect = find_defect(program)) in.damage(*defect);
  return program;
}

Error damaged(std::string_view reason) {
  return diag::error(diag::Code::package_damaged, "package is damaged")
      .reason(std::string(reason))
      .help("build the package again; entries of the cache are replaced without further ado");
}

bool EpilogueProgram::factors_read(uint32_t argument) const {
  for (const uint32_t operand : more_b) {
    if (operands[operand].argument == argument) return true;
  }
  for (const FactorProgram& factor : factors) {
    for (const Inst& inst : factor.insts) {
      const bool loads = inst.kind == Inst::Kind::Load || inst.kind == Inst::Kind::LoadAt;
      if (loads && operands[inst.index].argument == argument) return true;
    }
  }
  return false;
}

EpilogueProgram program_of(const EpilogueProgram& program, size_t product) {
  EpilogueProgram own = program;
  const Phase& phase = program.phases[0];
  size_t first = 0;
  for (size_t p = 0; p < product; ++p) first += program.spaces[p].stores;
  Phase& kept = own.phases[0];
  kept.stores.assign(phase.stores.begin() + static_cast<std::ptrdiff_t>(first),
                     phase.stores.begin() + static_cast<std::ptrdiff_t>(first + program.spaces[product].stores));
  std::vector<bool> needed(phase.insts.size());
  for (const Store& store : kept.stores) needed[store.value] = true;
  for (size_t i = phase.insts.size(); i-- > 0;) {
    for (uint8_t a = 0; needed[i] && a < phase.insts[i].arity; ++a) needed[phase.insts[i].in[a]] = true;
  }
  std::vector<uint32_t> place(phase.insts.size());
  kept.insts.clear();
  kept.reads_accumulator = false;
  for (size_t i = 0; i < phase.insts.size(); ++i) {
    if (!needed[i]) continue;
    place[i] = static_cast<uint32_t>(kept.insts.size());
    Inst inst = phase.insts[i];
    for (uint8_t a = 0; a < inst.arity; ++a) inst.in[a] = place[inst.in[a]];
    kept.reads_accumulator = kept.reads_accumulator || inst.kind == Inst::Kind::Accumulator;
    kept.insts.push_back(inst);
  }
  for (Store& store : kept.stores) store.value = place[store.value];
  own.more_b.clear();
  own.spaces.clear();
  return own;
}

Phase idle_phase() {
  Inst nothing;
  nothing.kind = Inst::Kind::Literal;
  return {Scope::Tile, false, {nothing}, {}};
}

Phase phase_of(const FactorProgram& factor) { return {Scope::Tile, false, factor.insts, {}}; }

bool may_mask(const EpilogueProgram& program, std::span<const Inst> insts) {
  return std::any_of(insts.begin(), insts.end(), [&](const Inst& inst) {
    switch (inst.kind) {
      case Inst::Kind::Op:
        return inst.op == Op::where;
      case Inst::Kind::Load: {
        const Operand& operand = program.operands[inst.index];
        return operand.access == Access::Row && types::is_float(operand.dtype);
      }
      case Inst::Kind::ColIndex:
        return true;
      default:
        return false;
    }
  });
}

std::string EpilogueProgram::encode() const {
  ByteWriter out;
  write(out, *this);
  return std::move(out).take();
}

Result<EpilogueProgram> EpilogueProgram::decode(std::string_view bytes) {
  ByteReader in(bytes);
  EpilogueProgram program = read_program(in);
  if (in.ok() && in.left() != 0) in.damage(fmt::format("{} bytes follow the program", in.left()));
  if (!in.ok()) return damaged(in.reason());
  return program;
}

}  // namespace codetta::package
