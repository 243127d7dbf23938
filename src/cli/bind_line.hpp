// SPDX-License-Identifier: Apache-2.0
// The line "# bind: C=tensor[M,N]:T alpha=scalar:0.5 D=out[M,N]:T" of an epilogue's text: what its names are bound to
// where the command line says nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cli/options.hpp"
#include "cli/specs.hpp"

namespace codetta::cli {

struct BindLine {
  std::map<std::string, Form> tensors, outputs;
  std::map<std::string, std::string> scalars;
  std::map<std::string, int64_t> sizes;
};

// Where the text has no such line at the beginning of a line, nothing is bound. Errors: E0701 for an item that binds
// nothing, or a name bound twice.
Result<BindLine> parse_bind_line(const Source& source);

// Decimal digits and a sign.
std::optional<int64_t> parse_int(std::string_view text);

}  // namespace codetta::cli
