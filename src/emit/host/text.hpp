// SPDX-License-Identifier: Apache-2.0
// Pieces of C++ host text: numbers over symbols, literals, comments, and the names that may be public in a C header.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "codetta/tensor.hpp"
#include "package/package.hpp"
#include "types/dim.hpp"

namespace codetta::emit::host {

// An expression of Number (device/host/views.h) for a size; `symbol` gives the variable of a symbol.
using SymbolText = std::function<std::string(std::string_view symbol)>;
std::string number_text(const types::Dim& dim, const SymbolText& symbol);
// What an operand of view `buffer` begins behind the view's own begin, in elements; "" when nothing.
std::string start_text(const package::Operand& operand, uint32_t buffer, const SymbolText& symbol);

// item(one) of each, with commas between.
template <class Range, class F>
std::string comma_list(const Range& range, F&& item) {
  std::string text;
  for (const auto& one : range) text += (text.empty() ? "" : ", ") + std::string(item(one));
  return text;
}

// A string literal that holds exactly these bytes, quotes included.
std::string literal_text(std::string_view bytes);
// The text as it may stand behind "//": one line, nothing that moves the cursor, no backslash at the end.
std::string comment_text(std::string_view text);

// The C type of an element in the header and in host text: "float", "uint16_t" for f16 and bf16.
std::string_view c_type(DType dtype);

// Whether a call that finds out behind a computed size which kernels it needs may not begin anew with these: the
// package takes donated tensors or calls functions of the caller's, or, an expression, outputs lie in place. Empty: it
// may. What of this is behind the size is not told apart.
std::string runs_once(const package::Package& package);

// The call that checks the guard, over views v[buffer]; "" for temporaries, which the planner has placed: those that do
// not live at the same time may share memory.
std::string overlap_check(const package::Package& package, const package::NoOverlapGuard& guard);

// Why a name cannot be public in a C header; empty when it can: an identifier, at most 128 bytes, no word of C or C++,
// none of those that the standards or the usual headers keep for themselves.
std::string public_name_defect(std::string_view name);

}  // namespace codetta::emit::host
