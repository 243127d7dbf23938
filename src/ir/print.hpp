// SPDX-License-Identifier: Apache-2.0
// Pieces of the text form that diagnostics share with print().
#pragma once

#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace codetta::ir {

std::string literal_text(const LiteralAttr& literal);  // "2.0", "3", "true", "nan:0x7ff8000000000000"
std::string attr_text(const Attr& attr);               // "(dims=[1])", " 2.0" of a literal, ""

// The printed graph, also of one that is still being built, with the span of each node's line. `extra` is a further
// line: the node that could not be added; its span comes last.
struct PrintedGraph {
  diag::SourceRef text;
  std::vector<diag::Span> lines;
};
PrintedGraph print_with_lines(const Graph& graph, std::string_view extra = {});
std::string_view to_string(ScatterReduce reduce);                                  // "none", "sum", ...
std::string node_text(Op op, std::span<const NodeId> operands, const Attr& attr);  // "relu %2"

// The part of `span` (in `source`) that is `name` as a whole word; `span` itself when it isn't there.
diag::Span narrow(const diag::SourceRef& source, diag::Span span, std::string_view name);

}  // namespace codetta::ir
