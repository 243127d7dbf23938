// SPDX-License-Identifier: Apache-2.0
// Any bytes are a text: it parses or is rejected with a diagnostic, and what parses prints to a text that parses back
// to an equivalent function and prints the same again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "frontend/lower.hpp"
#include "frontend/parser.hpp"

namespace {

using namespace codetta;

diag::SourceRef source_of(std::string text) { return std::make_shared<const diag::SourceText>("t", std::move(text)); }

void require(bool holds) {
  if (!holds) std::abort();
}

template <class Parse>
void round_trip(const std::string& text, Parse parse) {
  const auto function = parse(source_of(text));
  if (!function) {
    require(!function.error().diagnostics().empty());
    for (const Diagnostic& diagnostic : function.error().diagnostics()) {
      require(!diagnostic.headline.empty() && !diagnostic.help.empty());
      require(diagnostic.code >= 100 && diagnostic.code < 200);
    }
    require(!function.error().render().empty() && !function.error().to_json().empty());
    return;
  }
  const std::string printed = ir::print(*function);
  const auto again = parse(source_of(printed));
  require(again.has_value() && ir::equivalent(*function, *again) && ir::print(*again) == printed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto module = frontend::parse_text(source_of(text))) {
    require(frontend::ast::print_ast(*module).size() > 10);
  }
  round_trip(text, [](const diag::SourceRef& source) { return frontend::parse_epilogue(source); });
  round_trip(text, [](const diag::SourceRef& source) { return frontend::parse_program(source); });
  return 0;
}
