// SPDX-License-Identifier: Apache-2.0
#include "emit/factors.hpp"

#include <algorithm>

namespace codetta::emit {

using base::CodeWriter;

bool reads_operand(const package::FactorProgram& factor, uint32_t operand) {
  return std::any_of(factor.insts.begin(), factor.insts.end(), [&](const package::Inst& inst) {
    const bool load = inst.kind == package::Inst::Kind::Load || inst.kind == package::Inst::Kind::LoadAt;
    return load && inst.index == operand;
  });
}

Result<MakerText> maker_text(const package::EpilogueProgram& program, const package::FactorProgram& factor,
                             const Dialect& dialect, bool comments, std::set<PartLibrary::Request>& needs) {
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
  CODETTA_TRY(PhaseText phase, print_phase(maker, 0, dialect, comments, {}, needs));
  const std::string reference =
      CodeWriter::text_of("const Ref<", dialect.type(factor.dtype).element, "> o", made, " = ");
  std::erase_if(phase.setup, [&](const std::string& line) { return line.starts_with(reference); });
  return MakerText{std::move(phase), made};
}

std::string product_choice(const package::EpilogueProgram& program, std::string_view head, std::string_view name,
                           const std::function<size_t(size_t)>& value) {
  std::string text;
  for (size_t p = 0; p < program.more_b.size(); ++p) {
    const bool last = p + 1 == program.more_b.size();
    text += last ? std::to_string(value(p)) : CodeWriter::text_of("product == ", p + 1, " ? ", value(p), " : ");
  }
  const std::string_view parameter = program.more_b.size() > 1 ? "int product" : "int";
  return CodeWriter::text_of(head, name, "(", parameter, ") { return ", text, "; }");
}

}  // namespace codetta::emit
