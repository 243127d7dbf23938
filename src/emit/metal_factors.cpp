// SPDX-License-Identifier: Apache-2.0
#include "emit/metal_factors.hpp"

#include <algorithm>
#include <set>

#include "emit/factors.hpp"

namespace codetta::emit {

using base::CodeWriter;

std::string metal_aligned_text(const package::EpilogueProgram& program, const package::FactorProgram* factor) {
  std::string text;
  for (uint32_t k = 0; k < program.operands.size(); ++k) {
    const package::Operand& o = program.operands[k];
    const bool made_of = std::any_of(program.factors.begin(), program.factors.end(),
                                     [&](const package::FactorProgram& one) { return reads_operand(one, k); });
    if (factor != nullptr ? !reads_operand(*factor, k) : made_of) continue;
    if (!o.unit_stride || (o.access != package::Access::Full && o.access != package::Access::Row)) continue;
    text += CodeWriter::text_of(" && vectorable<", metal_dialect().type(o.dtype).element, ">(params.operand[", k, "])");
  }
  return text;
}

void print_metal_products(CodeWriter& out, const package::EpilogueProgram& program) {
  out.line("static CODETTA_CONSTANT int products = ", program.split.products, ";");
  out.line(product_choice(program, "static constexpr int ", "more_b", [&](size_t p) { return program.more_b[p]; }));
}

Result<void> print_metal_maker(CodeWriter& out, const package::EpilogueProgram& program,
                               const package::FactorProgram& factor, bool comments) {
  std::set<PartLibrary::Request> needs;
  CODETTA_TRY(const MakerText text, maker_text(program, factor, metal_dialect(), comments, needs));
  const PhaseText& phase = text.phase;
  const bool is_a = factor.which == package::FactorProgram::Which::A;
  const auto body = out.block_with("};", "struct Maker", is_a ? "A" : "B");
  out.line("using Vector = ", metal_dialect().type(factor.dtype).raw, ";");
  out.line("static CODETTA_CONSTANT bool batch_in_rows = ", factor.batch_in_rows, ";");
  out.line("template <class P>");
  {
    const std::string whole = metal_aligned_text(program, &factor);
    const auto function =
        out.block("static CODETTA_MEMBER bool aligned(constant P&", whole.empty() ? "" : " params", ")");
    out.line("return ", whole.empty() ? "true" : whole.substr(4), ";");
  }
  out.line("template <bool whole, class P>");
  const auto function =
      out.block("static CODETTA_MEMBER Vector make(constant P& params, const thread MakerTile& tile)");
  out.line("TileFragment<whole, 1, P, MakerTile> f(params, tile);");
  put_lines(out, phase.setup);
  put_lines(out, phase.by_column);
  put_lines(out, phase.row);
  for (const Held& load : phase.loads) out.line("const ", load.type, " ", load.name, " = ", load.text, ";");
  out.line("Made<Vector> o", text.made, ";");
  put_lines(out, phase.full);
  out.line("return o", text.made, ".v;");
  return {};
}

}  // namespace codetta::emit
