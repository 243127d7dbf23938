// SPDX-License-Identifier: Apache-2.0
// Analyses over finished graphs; operands have smaller numbers than their users, so one pass in either direction
// suffices.
#include "ir/analyses.hpp"

#include <algorithm>
#include <set>

#include "ir/infer.hpp"
#include "ir/input_sources.hpp"

namespace codetta::ir {

Uses uses(const Graph& graph) {
  Uses out;
  out.users.resize(graph.size());
  for (size_t i = 0; i < graph.size(); ++i) {
    for (const NodeId operand : graph.operands(NodeId(i))) out.users[operand.index()].push_back(NodeId(i));
  }
  return out;
}

std::vector<bool> needed_by(const Graph& graph, std::span<const NodeId> roots) {
  std::vector<bool> needed(graph.size(), false);
  for (const NodeId root : roots) needed[root.index()] = true;
  for (size_t i = graph.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const NodeId operand : graph.operands(NodeId(i))) needed[operand.index()] = true;
  }
  return needed;
}

std::vector<NodeId> topological_order(const Graph& graph, std::span<const NodeId> roots) {
  const std::vector<bool> needed = needed_by(graph, roots);
  std::vector<NodeId> order;
  for (size_t i = 0; i < graph.size(); ++i) {
    if (needed[i]) order.emplace_back(i);
  }
  return order;
}

std::vector<bool> reachable_from(const Graph& graph, NodeId source) {
  std::vector<bool> reached(graph.size(), false);
  reached[source.index()] = true;
  for (size_t i = source.index() + 1; i < graph.size(); ++i) {
    for (const NodeId operand : graph.operands(NodeId(i))) reached[i] = reached[i] || reached[operand.index()];
  }
  return reached;
}

namespace {

void insert(std::set<std::string>& symbols, std::vector<std::string> more) {
  for (std::string& symbol : more) symbols.insert(std::move(symbol));
}

// Of types and attribute, and of the graphs inside, which share the symbols.
void add_symbols(const Graph& graph, NodeId node, std::set<std::string>& symbols) {
  for (const Dim& dim : graph.type(node).shape) {
    if (!dim.is_constant()) insert(symbols, dim.symbols());
  }
  insert(symbols, symbols_of(graph.attr(node)));
  for (const GraphRef& child : children(graph.attr(node))) {
    for (size_t i = 0; i < child->size(); ++i) add_symbols(*child, NodeId(i), symbols);
  }
}

}  // namespace

const SizeSource* SizeSources::find(std::string_view symbol) const {
  for (const SizeSource& source : sources) {
    if (source.symbol == symbol) return &source;
  }
  return nullptr;
}

size_t SizeSources::count(const Graph& graph, NodeId node) const {
  return graph.operands(node).size() + (needed.empty() ? 0 : needed[node.index()].size());
}

NodeId SizeSources::at(const Graph& graph, NodeId node, size_t i) const {
  const size_t sizes = needed.empty() ? 0 : needed[node.index()].size();
  return i < sizes ? needed[node.index()][i] : graph.operands(node)[i - sizes];
}

SizeSources size_sources(const Graph& graph) {
  SizeSources found;
  std::set<std::string, std::less<>> known;
  const auto add = [&](std::string_view symbol, NodeId node, size_t output, size_t dim) {
    if (known.emplace(symbol).second)
      found.sources.push_back({std::string(symbol), node, static_cast<int32_t>(output), static_cast<int32_t>(dim)});
  };
  for (const types::SymbolSource& source : input_sources(graph)) known.insert(source.symbol);
  for (size_t i = 0; i < graph.size(); ++i) {
    const Attr& attr = graph.attr(NodeId(i));
    if (const auto* size = std::get_if<SizeAttr>(&attr)) add(size->symbol, NodeId(i), 0, 0);
    const auto* call = std::get_if<ExternAttr>(&attr);
    if (call == nullptr || call->form != ExternForm::Alloc) continue;
    for (size_t r = 0; r < call->results.size(); ++r) {
      for (size_t d = 0; d < call->results[r].shape.size(); ++d) {
        if (const auto symbol = call->results[r].shape[d].as_symbol()) add(*symbol, NodeId(i), r, d);
      }
    }
  }
  if (found.sources.empty()) return found;
  found.needed.resize(graph.size());
  for (size_t i = 0; i < graph.size(); ++i) {
    std::set<std::string> symbols;
    add_symbols(graph, NodeId(i), symbols);
    for (const SizeSource& source : found.sources) {
      if (source.node == NodeId(i) || symbols.count(source.symbol) == 0) continue;
      std::vector<NodeId>& needed = found.needed[i];
      if (needed.empty() || !(needed.back() == source.node)) needed.push_back(source.node);
    }
  }
  return found;
}

std::vector<SizeCheck> size_checks(const Graph& graph) {
  std::vector<SizeCheck> checks;
  for (size_t i = 0; i < graph.size(); ++i) {
    const auto* slice = std::get_if<SliceAttr>(&graph.attr(NodeId(i)));
    if (slice == nullptr || !slice->checked) continue;
    const Dim& size = graph.type(graph.operands(NodeId(i))[0]).shape[static_cast<size_t>(slice->dim)];
    const Dim stop = slice->start + slice->count;
    if (!types::is_non_negative(slice->start)) checks.push_back({NodeId(i), slice->start, Dim::constant(0), size});
    if (!types::is_non_negative(size - stop) || !types::is_non_negative(slice->count))
      checks.push_back({NodeId(i), stop, slice->start, stop == size ? Dim::constant(INT64_MAX) : size});
  }
  const auto known = [&](const Dim& dim) {
    return std::any_of(checks.begin(), checks.end(), [&](const SizeCheck& check) {
      return check.value == dim || check.most - check.value == dim || check.value - check.least == dim;
    });
  };
  const auto check = [&](NodeId node, const std::vector<Dim>& shape) {
    for (const Dim& dim : shape) {
      if (!types::is_non_negative(dim) && !known(dim))
        checks.push_back({node, dim, Dim::constant(0), Dim::constant(INT64_MAX)});
    }
  };
  for (size_t i = 0; i < graph.size(); ++i) {
    const Attr& attr = graph.attr(NodeId(i));
    if (const auto* shaped = std::get_if<ReshapeAttr>(&attr)) check(NodeId(i), shaped->shape);
    const auto* call = std::get_if<ExternAttr>(&attr);
    const auto* kernel = std::get_if<UserKernelAttr>(&attr);
    if (call == nullptr && kernel == nullptr) continue;
    for (const TensorType& result : call != nullptr ? call->results : kernel->results) check(NodeId(i), result.shape);
  }
  return checks;
}

std::vector<NodeId> matmuls(const Graph& graph) {
  std::vector<NodeId> out;
  for (size_t i = 0; i < graph.size(); ++i) {
    if (graph.node(NodeId(i)).op == Op::matmul) out.emplace_back(i);
  }
  return out;
}

DType operand_dtype(const Graph& graph, NodeId node) {
  const types::OpInfo& info = types::op_info(graph.node(node).op);
  const std::span<const NodeId> operands = graph.operands(node);
  if (operands.empty()) return graph.type(node).dtype;
  if (info.rule == types::OpRule::cast || info.rule == types::OpRule::matmul) return graph.type(operands[0]).dtype;
  if (info.rule != types::OpRule::compare) return graph.type(node).dtype;
  std::vector<OperandFacts> facts;
  for (const NodeId operand : operands)
    facts.push_back({&graph.type(operand), std::get_if<LiteralAttr>(&graph.attr(operand)), &graph.attr(operand)});
  return join_types(facts).dtype;
}

}  // namespace codetta::ir
