// SPDX-License-Identifier: Apache-2.0
#include "emit/cuda_factors.hpp"

#include <algorithm>
#include <set>

#include "emit/factors.hpp"
#include "plan/copy_engine.hpp"
#include "plan/making.hpp"

namespace codetta::emit {

using base::CodeWriter;

namespace {

// Of what is the same for several vectors: how far before one the first lies, which has loaded it.
std::string before_text(const Held& load) {
  if (load.rows == 1 && load.cols == 1) return {};
  return CodeWriter::text_of("Place::template before<", load.rows, ", ", load.cols, ">()");
}

// As aligned_text, of what is loaded by runs of columns.
std::string aligned_runs_text(const package::EpilogueProgram& program, const package::FactorProgram& factor,
                              uint32_t operand) {
  const package::Operand& o = program.operands[operand];
  if (o.access != package::Access::Indexed || !o.gathered.empty() || !reads_operand(factor, operand)) return {};
  const int64_t run = plan::run_along(o, package::Axis::Col);
  const auto unit = run > 1 ? run_term(o) : std::nullopt;
  if (!unit) return {};
  return CodeWriter::text_of(" && vectorable_runs<", cuda_dialect().type(o.dtype).element, ", ", run,
                             ">(params.operand[", operand, "], ", *unit, ", ", o.terms.size(), ")");
}

}  // namespace

bool makes_factors(const package::EpilogueProgram& program, const package::GpuGemmConfig& config) {
  return std::all_of(program.factors.begin(), program.factors.end(), [&](const package::FactorProgram& factor) {
    const bool engine = plan::feeds_on_copies(config.family);
    return package::makes_factor(config.family, factor.which == package::FactorProgram::Which::A) &&
           (!engine || (config.lanes == 2 && plan::brought_for_a(program)));
  });
}

bool is_of_factor(const package::EpilogueProgram& program, uint32_t operand) {
  return std::any_of(program.factors.begin(), program.factors.end(),
                     [&](const package::FactorProgram& factor) { return reads_operand(factor, operand); });
}

std::string aligned_text(const package::EpilogueProgram& program, const std::function<bool(uint32_t)>& operand) {
  std::string text;
  for (uint32_t k = 0; k < program.operands.size(); ++k) {
    const package::Operand& o = program.operands[k];
    if (!operand(k)) continue;
    if (const auto unit = unit_term(o)) {
      text += CodeWriter::text_of(" && vectorable<", cuda_dialect().type(o.dtype).element, ", ", column_block(o),
                                  "ll>(params.operand[", k, "], ", *unit, ", ", o.terms.size(), ")");
    }
    const bool columns = o.access == package::Access::Full || o.access == package::Access::Row;
    if (!o.unit_stride || !columns) continue;
    text += CodeWriter::text_of(" && vectorable<", cuda_dialect().type(o.dtype).element, ">(params.operand[", k, "])");
  }
  return text;
}

namespace {

// Of products with root spaces of their own: how many columns each has, and which of them a tile is of.
void print_spaces(CodeWriter& out, const package::EpilogueProgram& program) {
  out.line("static constexpr int spaces = ", program.spaces.size(), ";");
  out.line("template <class P>");
  const auto function = out.block("static __device__ __forceinline__ i64 columns(const P& params, int product)");
  for (size_t p = 0; p + 1 < program.spaces.size(); ++p)
    out.line("if (product == ", p, ") return params.scalar[", program.arguments.size() + program.spaces[p].columns,
             "].i;");
  out.line("return params.scalar[", program.arguments.size() + program.spaces.back().columns, "].i;");
}

}  // namespace

bool touches(const package::Phase& phase, uint32_t operand) {
  return std::any_of(phase.stores.begin(), phase.stores.end(),
                     [&](const package::Store& store) { return store.operand == operand; }) ||
         std::any_of(phase.insts.begin(), phase.insts.end(), [&](const package::Inst& inst) {
           const bool loads = inst.kind == package::Inst::Kind::Load || inst.kind == package::Inst::Kind::LoadAt;
           return loads && inst.index == operand;
         });
}

void print_products(CodeWriter& out, const package::EpilogueProgram& program,
                    const std::vector<package::CudaTensorMap>& maps) {
  if (program.spaces.empty())
    out.line("static constexpr int products = ", program.split.products, ";");
  else
    print_spaces(out, program);
  constexpr std::string_view head = "static __device__ constexpr int ";
  out.line(product_choice(program, head, "more_b", [&](size_t p) { return program.more_b[p]; }));
  std::vector<size_t> further;
  for (size_t i = 0; i < maps.size(); ++i) {
    if (maps[i].source == package::CudaTensorMap::Source::MoreB) further.push_back(i);
  }
  if (!further.empty()) out.line(product_choice(program, head, "more_map", [&](size_t p) { return further[p]; }));
}

Result<void> print_maker(CodeWriter& out, const package::EpilogueProgram& program, const package::FactorProgram& factor,
                         std::optional<uint32_t> brought, bool comments) {
  std::set<PartLibrary::Request> needs;
  // Rows of all items follow each other from any multiple on. What the copy engine brings is one vector by itself.
  Dialect vectors = cuda_dialect();
  vectors.runs = !brought;
  CODETTA_TRY(MakerText text, maker_text(program, factor, vectors, comments, needs));
  if (factor.batch_in_rows || brought) {
    for (Held& load : text.phase.loads) load.rows = 1;
  }
  const PhaseText& phase = text.phase;
  const uint32_t made = text.made;
  const TypeNames& type = cuda_dialect().type(factor.dtype);

  const auto any = [&](auto is) { return std::any_of(factor.insts.begin(), factor.insts.end(), is); };
  const bool along = any([&](const package::Inst& inst) {
    return inst.kind == package::Inst::Kind::Load && program.operands[inst.index].access == package::Access::Row;
  });

  const bool is_a = factor.which == package::FactorProgram::Which::A;
  const auto body = out.block_with("};", "struct Maker", is_a ? "A" : "B");
  {
    const auto held = out.block_with("};", "struct Held");
    for (const Held& load : phase.loads)
      out.line(brought ? load.type : CodeWriter::text_of("Kept<", load.type, ">"), " ", load.name, ";");
  }
  out.line("using Vector = ", type.raw, ";");
  out.line("static constexpr bool batch_in_rows = ", factor.batch_in_rows, ";");
  if (brought) {
    out.line("static constexpr int source = ", *brought, ";");
    out.line("static constexpr bool along = ", along, ";");
    out.line("static constexpr bool masked = ", package::may_mask(program, factor.insts), ";");
  }
  out.line("template <class P>");
  {
    const auto function = out.block("static __device__ __forceinline__ bool aligned(const P& params)");
    std::string whole = aligned_text(program, [&](uint32_t k) { return reads_operand(factor, k); });
    for (uint32_t k = 0; k < program.operands.size() && vectors.runs; ++k)
      whole += aligned_runs_text(program, factor, k);
    out.line("return ", whole.empty() ? "true" : whole.substr(4), ";");
  }
  const auto begin = [&](std::string_view result, std::string_view name, std::string_view last) {
    out.line("template <bool whole, class Place, class P>");
    return out.block("static __device__ __forceinline__ ", result, " ", name, "(const P& params, const Tile& tile, ",
                     last, ")");
  };
  {
    const auto function = begin("void", "load", "Held& held");
    if (!phase.loads.empty()) out.line("MakerFragment<whole, P> f(params, tile);");
    std::set<std::string> references;
    for (const Held& load : phase.loads) references.insert(load.setup);
    if (references.contains({})) {
      put_lines(out, phase.setup);
    } else {
      for (const std::string& line : references) out.line(line);
    }
    for (const Held& load : phase.loads) {
      const std::string before = before_text(load);
      out.line(before.empty() ? "" : CodeWriter::text_of("if constexpr (", before, " == 0) "), "held.", load.name,
               " = ", load.text, ";");
    }
  }
  const auto finish = [&](const PhaseText& of) {
    for (const Held& load : of.loads) {
      const std::string before = before_text(load);
      const std::string from = before.empty() ? "held" : CodeWriter::text_of("(&held)[-", before, "]");
      out.line("const ", load.type, " ", load.name, " = ", from, ".", load.name, ";");
    }
    out.line("Made<Vector> o", made, ";");
    put_lines(out, of.full);
    out.line("return o", made, ".v;");
  };
  if (brought) {
    out.line("template <class P>");
    const auto function = out.block("static __device__ __forceinline__ auto at_row(const P& params, const Tile& tile)");
    Dialect dialect = cuda_dialect();
    dialect.quotients = "quotients";
    CODETTA_TRY(const MakerText row_text, maker_text(program, factor, dialect, comments, needs));
    const PhaseText& of_row = row_text.phase;
    out.line("RowOfA<batch_in_rows, P> f(params, tile);");
    put_lines(out, phase.setup);
    put_lines(out, of_row.row);
    const auto vector = out.block_with("};", "return [=](const Held& held, const auto& f, auto& quotients)");
    put_lines(out, of_row.by_column);
    finish(of_row);
  }
  const auto function = begin("Vector", "make", "const Held& held");
  out.line("MakerFragment<whole, P> f(params, tile);");
  put_lines(out, phase.setup);
  put_lines(out, phase.by_column);
  put_lines(out, phase.row);
  finish(phase);
  return {};
}

}  // namespace codetta::emit
