// SPDX-License-Identifier: Apache-2.0
// Text -> untyped function. The last def of a text is the entry unless one is named; calls of the others are inlined.
#pragma once

#include <string_view>

#include "codetta/error.hpp"
#include "diag/diagnostic.hpp"
#include "ir/function.hpp"

namespace codetta::frontend {

Result<ir::EpilogueFunction> parse_epilogue(const diag::SourceRef& source, std::string_view function_name = {});
// Parameters carry types: x: bf16["batch", 4096].
Result<ir::ProgramFunction> parse_program(const diag::SourceRef& source, std::string_view function_name = {});

}  // namespace codetta::frontend
