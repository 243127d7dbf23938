// SPDX-License-Identifier: Apache-2.0
// Any bytes are a text: it parses or is rejected with a diagnostic, and what parses prints to a text that parses back
// to an equivalent function and prints the same again.
#include "frontend/lower.hpp"
#include "frontend/parser.hpp"
#include "support.hpp"

namespace {

using namespace codetta;
using namespace codetta::fuzz;

// False when the text is refused.
template <class Parse>
bool round_trip(const std::string& text, Parse parse) {
  const auto function = parse(source_of(text));
  if (!function) {
    check_error(function.error(), 100, 199);
    return false;
  }
  const std::string printed = ir::print(*function);
  const auto again = parse(source_of(printed));
  require(again.has_value() && ir::equivalent(*function, *again) && ir::print(*again) == printed);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(view_of(data, size));
  if (const auto module = frontend::parse_text(source_of(text))) {
    require(frontend::ast::print_ast(*module).size() > 10);
  }
  if (!round_trip(text, [](const diag::SourceRef& source) { return frontend::parse_epilogue(source); }))
    (void)round_trip(text, [](const diag::SourceRef& source) { return frontend::parse_program(source); });
  return 0;
}
