// SPDX-License-Identifier: Apache-2.0
// The verifier: every node is what its op, operands and attribute say, and the numbering is canonical.
#include "ir/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "ir/analyses.hpp"
#include "ir/devices.hpp"
#include "ir/literals.hpp"
#include "ir/print.hpp"
#include "ir/report.hpp"
#include "types/dtype.hpp"

namespace codetta::ir {
namespace {

Complaint broken(std::string headline, std::string reason) {
  return {diag::Code::graph_invalid, std::move(headline), std::move(reason),
          "rebuild the graph with GraphBuilder, which infers and numbers", -1};
}

bool literal_fits(const LiteralAttr& literal, const TensorType& type) {
  if (!type.shape.empty()) return false;
  if (literal.kind == LiteralAttr::Kind::Bool) return types::is_bool(type.dtype) && !type.weak;
  if (literal.kind == LiteralAttr::Kind::Float)
    return type.weak ? type.dtype == DType::f64 : types::is_float(type.dtype);
  if (type.weak) return type.dtype == DType::i64;
  if (types::is_float(type.dtype))
    return literal.i < -(int64_t{1} << 53) || literal.i > int64_t{1} << 53;  // else a Float literal
  if (types::is_bool(type.dtype)) return false;
  return holds(type.dtype, literal.i);
}

MaybeComplaint check_type(const TensorType& type) {
  if (!types::is_valid(type.dtype))
    return broken("a node has an unknown dtype", fmt::format("its number is {}", static_cast<int>(type.dtype)));
  if (type.shape.size() > static_cast<size_t>(max_rank)) {
    return broken(fmt::format("a node has {} dims", type.shape.size()),
                  fmt::format("a tensor has at most {}", max_rank));
  }
  if (type.weak && type.dtype != DType::i64 && type.dtype != DType::f64) {
    return broken(fmt::format("a weak value is {}", dtype_name(type.dtype)), "weak values are i64 or f64");
  }
  for (const Dim& dim : type.shape) {
    const std::optional<int64_t> size = dim.as_constant();
    if (dim.fault() == types::DimFault::none && (!size || *size >= 0)) continue;
    return broken(fmt::format("a node has the size {}", dim.to_string()), "sizes are 0 or more");
  }
  return std::nullopt;
}

MaybeComplaint check_node(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const std::span<const NodeId> operands = graph.operands(id);
  const TensorType& type = graph.type(id);
  if (MaybeComplaint complaint = check_type(type)) return complaint;
  if (MaybeComplaint complaint = check_form(types::op_info(node.op), operands.size(), graph.attr(id))) return complaint;
  for (const NodeId operand : operands) {
    if (operand.index() >= id.index())
      return broken("an operand comes after its user", fmt::format("%{} uses %{}", id.index(), operand.index()));
  }
  const bool among_inputs = id.index() < graph.inputs().size();
  if ((node.op == Op::input) != among_inputs) {
    return broken(among_inputs ? "an input is missing" : "an input is not declared",
                  fmt::format("the graph has {} inputs", graph.inputs().size()));
  }
  if (node.op == Op::input) {
    const bool own = graph.attr_as<InputAttr>(id).parameter == id.index() && graph.inputs()[id.index()].node == id;
    if (!own) return broken("inputs are out of order", fmt::format("%{} is another input's node", id.index()));
    if (graph.inputs()[id.index()].is_scalar && !type.shape.empty())
      return broken("a scalar input has dims", to_string(type));
    if (graph.inputs()[id.index()].is_scalar && graph.inputs()[id.index()].donated)
      return broken("a scalar input is donated", "numbers are passed by value");
    return std::nullopt;
  }
  if (node.op == Op::literal) {
    const LiteralAttr& literal = graph.attr_as<LiteralAttr>(id);
    if (literal_fits(literal, type)) return std::nullopt;
    return broken(fmt::format("the literal {} is typed {}", literal_text(literal), to_string(type)),
                  "the type does not hold it as written");
  }
  std::vector<OperandFacts> facts;
  for (const NodeId operand : operands)
    facts.push_back({&graph.type(operand), std::get_if<LiteralAttr>(&graph.attr(operand)), &graph.attr(operand)});
  Inference inference =
      infer(node.op, facts, graph.attr(id), [&](size_t i) { return display_name(graph, operands[i]); });
  if (auto* complaint = std::get_if<Complaint>(&inference)) return std::move(*complaint);
  const auto& inferred = *std::get_if<Inferred>(&inference);
  if (!(inferred.type == type))
    return broken(fmt::format("{} is typed {}", types::op_info(node.op).name, to_string(type)),
                  fmt::format("its operands make it {}", to_string(inferred.type)));
  if (!(inferred.attr == graph.attr(id)))
    return broken(fmt::format("the attribute of {} is not in normal form", types::op_info(node.op).name),
                  "normal form is" + attr_text(inferred.attr));
  for (const GraphRef& child : children(graph.attr(id))) {
    if (std::optional<Violation> violation = find_violation(*child, true)) return std::move(violation->complaint);
  }
  for (size_t i = 0; inferred.joins && i < operands.size(); ++i) {
    if (facts[i].type->weak)
      return broken(fmt::format("the weak operand %{} meets a typed one", operands[i].index()),
                    "it must have the type that the op computes in");
  }
  return std::nullopt;
}

std::optional<Violation> check_outputs(const Graph& graph) {
  if (graph.outputs().empty())
    return Violation{NodeId(), broken("the graph has no outputs", "nothing would be computed")};
  std::unordered_set<std::string_view> names;
  for (const GraphOutput& output : graph.outputs()) {
    if (output.node.index() >= graph.size())
      return Violation{
          NodeId(), broken(fmt::format("output {} has no node", output.name), fmt::format("%{}", output.node.index()))};
    if (!types::is_valid(output.dtype))
      return Violation{output.node, broken(fmt::format("output {} has an unknown dtype", output.name), "")};
    if (!names.insert(output.name).second)
      return Violation{output.node,
                       broken(fmt::format("two outputs are named {}", output.name), "names of outputs are unique")};
  }
  return std::nullopt;
}

// Symbols that values of the graphs inside of the node give.
void add_inner_sizes(const Graph& graph, NodeId node, std::vector<std::string>& symbols) {
  for (const GraphRef& child : children(graph.attr(node))) {
    for (size_t i = 0; i < child->size(); ++i) {
      if (const auto* size = std::get_if<SizeAttr>(&child->attr(NodeId(i)))) symbols.push_back(size->symbol);
      add_inner_sizes(*child, NodeId(i), symbols);
    }
  }
}

// A size from a value has one source, in front of all that uses it, and a symbol that no other graph has. What a graph
// `inside` of another is checked for may rest on values of the one around it.
std::optional<Violation> check_sizes(const Graph& graph, bool inside) {
  const SizeSources sizes = size_sources(graph);
  std::set<std::string> known;
  for (const GraphInput& input : graph.inputs()) {
    for (const Dim& dim : graph.type(input.node).shape) {
      for (std::string& symbol : dim.symbols()) known.insert(std::move(symbol));
    }
  }
  for (const SizeSource& source : sizes.sources) known.insert(source.symbol);
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId node(i);
    if (const auto* size = std::get_if<SizeAttr>(&graph.attr(node))) {
      const SizeSource* source = sizes.find(size->symbol);
      if (source == nullptr || !(source->node == node))
        return Violation{node,
                         broken(fmt::format("size {} has a value already", size->symbol), "a symbol has one source")};
    }
    if (const auto* slice = std::get_if<SliceAttr>(&graph.attr(node)); slice != nullptr && slice->checked && !inside) {
      const std::vector<std::string> symbols = symbols_of(graph.attr(node));
      const Dim& size = graph.type(graph.operands(node)[0]).shape[static_cast<size_t>(slice->dim)];
      const bool shown = types::is_non_negative(slice->start) && types::is_non_negative(slice->count) &&
                         types::is_non_negative(size - slice->start - slice->count);
      if (shown && std::none_of(symbols.begin(), symbols.end(),
                                [&](const auto& symbol) { return sizes.find(symbol) != nullptr; }))
        return Violation{node, broken("a slice is checked in a run", "its bounds come from no value, and lie inside")};
    }
    std::vector<std::string> inner;
    add_inner_sizes(graph, node, inner);
    for (std::string& symbol : inner) {
      if (!known.insert(symbol).second)
        return Violation{node, broken(fmt::format("size {} of a branch or loop has a value already", symbol),
                                      "a symbol has one source in all graphs")};
    }
    if (sizes.needed.empty()) continue;
    for (const NodeId source : sizes.needed[i]) {
      if (source.index() > i)
        return Violation{node, broken("a size is used in front of what defines it",
                                      fmt::format("%{} needs %{}", i, source.index()))};
    }
  }
  return std::nullopt;
}

// Depth-first from the outputs, operands first, must meet the nodes behind the inputs in their order.
std::optional<Violation> check_numbering(const Graph& graph) {
  const SizeSources sizes = size_sources(graph);
  std::vector<std::pair<NodeId, uint32_t>> stack;
  auto expected = static_cast<uint32_t>(graph.inputs().size());
  for (const GraphOutput& output : graph.outputs()) {
    if (output.node.index() >= expected) stack.emplace_back(output.node, 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < sizes.count(graph, node)) {
        const NodeId operand = sizes.at(graph, node, next++);
        if (operand.index() >= expected) stack.emplace_back(operand, 0);
        continue;
      }
      if (node.index() > expected)
        return Violation{
            node, broken("the numbering is not canonical", fmt::format("%{} should be %{}", node.index(), expected))};
      if (node.index() == expected) ++expected;
      stack.pop_back();
    }
  }
  if (expected != graph.size())
    return Violation{NodeId(expected),
                     broken(fmt::format("%{} is not needed by any output", expected), "finish() drops such nodes")};
  return std::nullopt;
}

}  // namespace

std::optional<Violation> find_violation(const Graph& graph, bool inside) {
  if (graph.inputs().size() > graph.size())
    return Violation{NodeId(), broken("inputs without nodes", fmt::format("{} inputs", graph.inputs().size()))};
  for (size_t i = 0; i < graph.size(); ++i) {
    if (MaybeComplaint complaint = check_node(graph, NodeId(i))) return Violation{NodeId(i), std::move(*complaint)};
  }
  if (std::optional<Violation> violation = check_outputs(graph)) return violation;
  if (std::optional<Violation> violation = check_sizes(graph, inside)) return violation;
  if (std::optional<Violation> violation = check_numbering(graph)) return violation;
  if (inside || !uses_devices(graph)) return std::nullopt;
  if (std::optional<MixedDevices> mixed = find_mixed(graph))
    return Violation{mixed->graph == &graph ? mixed->node : NodeId(), std::move(mixed->complaint)};
  return std::nullopt;
}

namespace {

Result<void> told(const Graph& graph, const std::optional<Violation>& violation) {
  if (!violation) return {};
  const PrintedGraph printed = print_with_lines(graph);
  const diag::Span place = violation->node.valid() && violation->node.index() < printed.lines.size()
                               ? printed.lines[violation->node.index()]
                               : diag::Span{};
  if (violation->complaint.code == diag::Code::device_mixed) {
    return diag::error(diag::Code::device_mixed, violation->complaint.headline)
        .at(printed.text, place)
        .reason(violation->complaint.reason)
        .help(violation->complaint.help);
  }
  return diag::error(diag::Code::graph_invalid, violation->complaint.headline)
      .at(printed.text, place)
      .reason(violation->complaint.reason)
      .help("this is a bug of the pass or builder that made the graph; please report it");
}

}  // namespace

Result<void> verify(const Graph& graph) { return told(graph, find_violation(graph)); }
Result<void> verify_inside(const Graph& graph) { return told(graph, find_violation(graph, true)); }

}  // namespace codetta::ir
