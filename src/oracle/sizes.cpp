// SPDX-License-Identifier: Apache-2.0
// Sizes that values of a program give: each value is evaluated alone, in front of everything that has the size.
#include <fmt/format.h>

#include <algorithm>

#include "diag/diagnostic.hpp"
#include "ir/analyses.hpp"
#include "oracle/problem.hpp"

namespace codetta::oracle {
namespace {

using ir::NodeId;

// What the graph computes for one of its values.
Result<ir::Graph> up_to(const ir::Graph& graph, NodeId value) {
  ir::GraphBuilder builder(graph.source());
  std::vector<NodeId> now(graph.size());
  for (const ir::GraphInput& input : graph.inputs()) now[input.node.index()] = builder.add_input(graph, input);
  for (size_t i = 0; i <= value.index(); ++i) {
    const NodeId id(i);
    if (graph.node(id).op == types::Op::input) continue;
    std::vector<NodeId> operands;
    for (const NodeId operand : graph.operands(id)) operands.push_back(now[operand.index()]);
    now[i] = builder.add_unchecked(graph.node(id).op, operands, graph.attr(id), graph.type(id), graph.span(id),
                                   graph.name_hint(id));
  }
  builder.add_output("size", now[value.index()], graph.type(value).dtype);
  return std::move(builder).finish();
}

}  // namespace

Result<void> add_sizes(const ir::Graph& graph, const OracleOptions& options, const SizeOf& size_of,
                       ir::SymbolBindings& known) {
  for (const ir::SizeSource& source : ir::size_sources(graph).sources) {
    const auto is_it = [&](const auto& one) { return one.first == source.symbol; };
    if (std::any_of(known.values.begin(), known.values.end(), is_it)) continue;  // around a branch or a loop
    const auto given = options.sizes.find(source.symbol);
    if (given != options.sizes.end()) {
      known.values.emplace_back(source.symbol, given->second);
      continue;
    }
    if (graph.node(source.node).op != types::Op::size_value) {
      return diag::error(diag::Code::target_lacks, fmt::format("the size {} is not known here", source.symbol))
          .at(graph.source(), graph.span(source.node))
          .reason(fmt::format("{} returns it, and what it computes is taken as given",
                              graph.attr_as<ir::ExternAttr>(source.node).symbol))
          .help("compare what the program makes of it with results of your own");
    }
    CODETTA_TRY(const ir::Graph alone, up_to(graph, graph.operands(source.node)[0]));
    CODETTA_TRY(const SizeRange range, size_of(alone, known));
    if (!range.note.empty() || range.low != range.high) {
      return diag::error(diag::Code::target_lacks, fmt::format("the size {} is not certain", source.symbol))
          .at(graph.source(), graph.span(source.node))
          .reason(range.note.empty() ? fmt::format("roundings leave {} to {}", range.low, range.high) : range.note)
          .help("compute sizes of integers");
    }
    const int64_t value = range.low;
    if (value < 0) {
      return diag::error(diag::Code::guard_failed, fmt::format("{} is negative", source.symbol))
          .at(graph.source(), graph.span(source.node))
          .reason(fmt::format("it is {}, and sizes are 0 or more", value))
          .help("bind tensors that give a size of at least 0");
    }
    known.values.emplace_back(source.symbol, value);
  }
  return {};
}

Result<void> check_slices(const ir::Graph& graph, const ir::SymbolBindings& symbols) {
  for (const ir::SizeCheck& check : ir::size_checks(graph)) {
    types::DimFault fault = types::DimFault::none;
    const auto value = check.value.evaluate(symbols.values, &fault), least = check.least.evaluate(symbols.values),
               most = check.most.evaluate(symbols.values);
    if (value && least && most && *least <= *value && *value <= *most) continue;
    const auto text = [](const std::optional<int64_t>& size) { return size ? std::to_string(*size) : "out of range"; };
    const bool open = check.most.as_constant() == INT64_MAX;
    return diag::error(
               diag::Code::guard_failed,
               fmt::format("{} must be {}{}", check.value.to_string(), open ? "at least " : "",
                           open ? check.least.to_string() : check.least.to_string() + " to " + check.most.to_string()))
        .at(graph.source(), graph.span(check.node))
        .reason(fmt::format("it {}, and {} {} is wanted",
                            value ? "is " + text(value) : fmt::format("has no value ({})", types::to_string(fault)),
                            text(least), open ? "or more" : "to " + text(most)))
        .help("slices are never clamped: bind tensors that give a bound inside of the dim");
  }
  return {};
}

}  // namespace codetta::oracle
