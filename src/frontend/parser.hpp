// SPDX-License-Identifier: Apache-2.0
// Text -> syntax tree. What the language leaves out is reported here, each construct with its own code.
#pragma once

#include "codetta/error.hpp"
#include "frontend/ast.hpp"
#include "frontend/report.hpp"

namespace codetta::frontend {

// Nesting of operators and brackets that one expression may have. Brackets alone end at 200, as in CPython; each may
// stand right of two operators.
inline constexpr size_t max_nesting = 600;
// Expressions in one text.
inline constexpr size_t max_expressions = size_t{1} << 21;

// `complete` becomes false when statements were skipped after an error, so that names may seem undefined.
ast::Module parse_module(Report& report, bool& complete);

// For `emit --what=ast`.
Result<ast::Module> parse_text(diag::SourceRef source);

}  // namespace codetta::frontend
