// SPDX-License-Identifier: Apache-2.0
// Names and places in messages about nodes.
#include "ir/report.hpp"

#include <fmt/format.h>

#include "ir/print.hpp"

namespace codetta::ir {

const std::string& source_name(const Graph& graph, NodeId node) {
  const auto* input = std::get_if<InputAttr>(&graph.attr(node));
  if (input != nullptr && input->parameter < graph.inputs().size()) return graph.inputs()[input->parameter].name;
  return graph.name_hint(node);
}

std::string display_name(const Graph& graph, NodeId node) {
  const std::string& name = source_name(graph, node);
  if (name == "accum") return "the accumulator";
  if (!name.empty()) return name;
  if (const auto* literal = std::get_if<LiteralAttr>(&graph.attr(node)))
    return fmt::format("the literal {}", literal_text(*literal));
  if (graph.source()) {  // a short expression is its own best name
    const diag::Span span = graph.span(node);
    const std::string_view text = graph.source()->text();
    if (span.known() && span.begin < span.end && span.end <= text.size() && span.end - span.begin <= 40) {
      const std::string_view expression = text.substr(span.begin, span.end - span.begin);
      if (expression.find('\n') == std::string_view::npos) return fmt::format("`{}`", expression);
    }
  }
  return fmt::format("the result of {}", types::op_info(graph.node(node).op).name);
}

Error located(const Graph& graph, const Complaint& complaint, Op op, std::span<const NodeId> operands, const Attr& attr,
              diag::Span span, std::span<const diag::Span> written) {
  auto error = diag::error(complaint.code, complaint.headline);
  error.reason(complaint.reason).help(complaint.help);
  const bool at_operand = complaint.operand >= 0 && static_cast<size_t>(complaint.operand) < operands.size();
  const NodeId operand = at_operand ? operands[static_cast<size_t>(complaint.operand)] : NodeId();
  const std::string label = at_operand ? to_string(graph.type(operand)) : "";
  if (graph.source() && span.known()) {
    diag::Span place = span;
    if (at_operand) {
      const auto index = static_cast<size_t>(complaint.operand);
      const diag::Span own = index < written.size() ? written[index] : diag::Span();
      // What a variable stands for is written elsewhere.
      const bool inside = own.known() && own.begin >= span.begin && own.end <= span.end;
      place = inside ? own : narrow(graph.source(), span, source_name(graph, operand));
    }
    return error.at(graph.source(), place, label);
  }
  const PrintedGraph printed =
      print_with_lines(graph, fmt::format("%{}:? = {}", graph.size(), node_text(op, operands, attr)));
  diag::Span place = printed.lines.back();
  if (at_operand) place = narrow(printed.text, place, fmt::format("%{}", operand.index()));
  return error.at(printed.text, place, label);
}

}  // namespace codetta::ir
