// SPDX-License-Identifier: Apache-2.0
#include "emit/cuda_factors.hpp"

#include <algorithm>
#include <set>

#include "emit/phase_printer.hpp"
#include "plan/copy_engine.hpp"

namespace codetta::emit {

using base::CodeWriter;

namespace {

bool loads(const std::vector<package::Inst>& insts, uint32_t operand) {
  return std::any_of(insts.begin(), insts.end(), [&](const package::Inst& inst) {
    const bool load = inst.kind == package::Inst::Kind::Load || inst.kind == package::Inst::Kind::LoadAt;
    return load && inst.index == operand;
  });
}

}  // namespace

bool makes_factors(const package::EpilogueProgram& program, const package::GpuGemmConfig& config) {
  return std::all_of(program.factors.begin(), program.factors.end(), [&](const package::FactorProgram& factor) {
    const bool engine = config.family == package::GpuFamily::Sm90;
    return package::makes_factor(config.family, factor.which == package::FactorProgram::Which::A) &&
           (!engine || (config.lanes == 2 && plan::brought_for_a(program)));
  });
}

bool is_of_factor(const package::EpilogueProgram& program, uint32_t operand) {
  return std::any_of(program.factors.begin(), program.factors.end(),
                     [&](const package::FactorProgram& factor) { return loads(factor.insts, operand); });
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

void print_products(CodeWriter& out, const package::EpilogueProgram& program, std::optional<size_t> first_map) {
  out.line("static constexpr int products = ", program.split.products, ";");
  const auto choice = [&](std::string_view name, auto value) {
    std::string text;
    for (size_t p = 0; p < program.more_b.size(); ++p) {
      const bool last = p + 1 == program.more_b.size();
      text += last ? std::to_string(value(p)) : CodeWriter::text_of("product == ", p + 1, " ? ", value(p), " : ");
    }
    const std::string_view parameter = program.more_b.size() > 1 ? "int product" : "int";
    out.line("static __device__ constexpr int ", name, "(", parameter, ") { return ", text, "; }");
  };
  choice("more_b", [&](size_t p) { return program.more_b[p]; });
  if (first_map) choice("more_map", [&](size_t p) { return *first_map + p; });
}

Result<void> print_maker(CodeWriter& out, const package::EpilogueProgram& program, const package::FactorProgram& factor,
                         std::optional<uint32_t> brought, bool comments) {
  std::set<PartLibrary::Request> needs;
  package::EpilogueProgram maker = program;
  const auto made = static_cast<uint32_t>(maker.operands.size());
  package::Operand store;
  store.dtype = factor.dtype;
  store.is_store = true;
  store.terms = {{package::Axis::Row, 1, 0, 1}, {package::Axis::Col, 1, 0, 0}};
  maker.operands.push_back(store);
  maker.reductions.clear();
  maker.phases = {package::phase_of(factor)};
  maker.phases[0].stores.push_back({made, factor.value});
  CODETTA_TRY(PhaseText phase, print_phase(maker, 0, cuda_dialect(), comments, {}, needs));
  const TypeNames& type = cuda_dialect().type(factor.dtype);
  const std::string reference = CodeWriter::text_of("const Ref<", type.element, "> o", made, " = ");
  std::erase_if(phase.setup, [&](const std::string& line) { return line.starts_with(reference); });

  const auto any = [&](auto is) { return std::any_of(factor.insts.begin(), factor.insts.end(), is); };
  const bool along = any([&](const package::Inst& inst) {
    return inst.kind == package::Inst::Kind::Load && program.operands[inst.index].access == package::Access::Row;
  });

  const bool is_a = factor.which == package::FactorProgram::Which::A;
  const auto body = out.block_with("};", "struct Maker", is_a ? "A" : "B");
  {
    const auto held = out.block_with("};", "struct Held");
    for (const Held& load : phase.loads) out.line(load.type, " ", load.name, ";");
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
    const std::string text = aligned_text(program, [&](uint32_t k) { return loads(factor.insts, k); });
    out.line("return ", text.empty() ? "true" : text.substr(4), ";");
  }
  const auto begin = [&](std::string_view result, std::string_view name, std::string_view last) {
    out.line("template <bool whole, class P>");
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
    for (const Held& load : phase.loads) out.line("held.", load.name, " = ", load.text, ";");
  }
  const auto finish = [&](const PhaseText& text) {
    for (const Held& load : text.loads) out.line("const ", load.type, " ", load.name, " = held.", load.name, ";");
    out.line("Made<Vector> o", made, ";");
    put_lines(out, text.full);
    out.line("return o", made, ".v;");
  };
  if (brought) {
    out.line("template <class P>");
    const auto function = out.block("static __device__ __forceinline__ auto at_row(const P& params, const Tile& tile)");
    Dialect dialect = cuda_dialect();
    dialect.quotients = "quotients";
    CODETTA_TRY(const PhaseText of_row, print_phase(maker, 0, dialect, comments, {}, needs));
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
