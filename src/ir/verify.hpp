// SPDX-License-Identifier: Apache-2.0
// What verify() and parse_graph() share: the first broken invariant of a graph.
#pragma once

#include "ir/infer.hpp"

namespace codetta::ir {

struct Violation {
  NodeId node;  // invalid: the graph as a whole
  Complaint complaint;
};
// `inside`: of a branch or a loop of another, whose values may give sizes.
std::optional<Violation> find_violation(const Graph& graph, bool inside = false);
// As verify(graph), of such a graph.
Result<void> verify_inside(const Graph& graph);

// The arity and the kind of attribute that the op table asks for (builder.cpp).
MaybeComplaint check_form(const types::OpInfo& info, size_t operand_count, const Attr& attr);

}  // namespace codetta::ir
