// SPDX-License-Identifier: Apache-2.0
// From a rule's Complaint to a located Error.
#pragma once

#include "ir/infer.hpp"

namespace codetta::ir {

// How messages call a node: its input name or name hint, "the accumulator", "the literal 2.0", "the result of mul".
std::string display_name(const Graph& graph, NodeId node);
// What the source calls it: an input's name or the name hint; may be empty.
const std::string& source_name(const Graph& graph, NodeId node);

// Points into the source when it is there, at the complained-of operand within `span`: where it is `written`, or its
// name; else into the printed graph, with the node that could not be added as its last line.
Error located(const Graph& graph, const Complaint& complaint, Op op, std::span<const NodeId> operands, const Attr& attr,
              diag::Span span, std::span<const diag::Span> written);

}  // namespace codetta::ir
