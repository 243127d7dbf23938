// SPDX-License-Identifier: Apache-2.0
#include "driver/value_place.hpp"

#include <charconv>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "types/op.hpp"

namespace codetta::driver {
namespace {

// The numbers of "t2_3": 2, 3; nullopt where it is no such name.
std::optional<std::vector<size_t>> numbers_in(std::string_view text) {
  std::vector<size_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    const auto [behind, failed] = std::from_chars(at, end, numbers.emplace_back());
    if (failed != std::errc()) return std::nullopt;
    if (behind == end) return numbers;
    if (*behind != '_') return std::nullopt;
    at = behind + 1;
  }
}

// Block 0 is the program.
const ir::Graph* graph_of(const ir::Graph& graph, const plan::Plan& plan, size_t block) {
  if (block == 0) return &graph;
  return block <= plan.nested.size() ? plan.nested[block - 1].graph.get() : nullptr;
}

// The node, or where what was folded is read, which is nowhere in the text itself.
std::optional<ValuePlace> place_in(const ir::Graph& graph, ir::NodeId node) {
  diag::Span span = graph.span(node);
  for (size_t n = node.index() + 1; !span.known() && n < graph.size(); ++n) {
    const auto operands = graph.operands(ir::NodeId(n));
    for (const ir::NodeId operand : operands) {
      if (operand == node) span = graph.span(ir::NodeId(n));
    }
  }
  if (!span.known() || !graph.source()) return std::nullopt;
  return ValuePlace{graph.source(), span, graph.name_hint(node)};
}

// What reads the input's elements as indices, if anything does.
std::optional<ir::NodeId> indexed_by(const ir::Graph& graph, size_t input) {
  if (input >= graph.inputs().size()) return std::nullopt;
  for (size_t n = 0; n < graph.size(); ++n) {
    const ir::NodeId node(n);
    if (types::op_info(graph.node(node).op).rule != types::OpRule::indexed) continue;
    ir::NodeId index = graph.operands(node)[1];
    while (graph.node(index).op == types::Op::reshape || graph.node(index).op == types::Op::permute ||
           graph.node(index).op == types::Op::broadcast || graph.node(index).op == types::Op::cast)
      index = graph.operands(index)[0];
    if (index == graph.inputs()[input].node) return node;
  }
  return std::nullopt;
}

std::set<uint32_t> looked_at(const package::Package& package) {
  std::set<uint32_t> found;
  const auto look = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      if (const auto* put = std::get_if<package::IndexPut>(&step))
        found.insert(put->indices.begin(), put->indices.end());
      if (const auto* scatter = std::get_if<package::Scatter>(&step)) found.insert(scatter->index);
      const auto* check = std::get_if<package::Check>(&step);
      if (check == nullptr) continue;
      if (const auto* nan = std::get_if<package::NanGuard>(&check->guard)) found.insert(nan->buffer);
      if (const auto* index = std::get_if<package::IndexGuard>(&check->guard)) found.insert(index->buffer);
    }
  };
  look(package.steps);
  for (const package::StepList& list : package.step_lists) look(list);
  std::erase_if(found, [&](uint32_t buffer) { return !is_temporary(package.buffers[buffer].name); });
  return found;
}

}  // namespace

bool looks_at_temporaries(const package::Package& package) { return !looked_at(package).empty(); }

std::map<uint32_t, std::string> told_temporaries(const package::Package& package, const ir::Graph& graph,
                                                 const plan::Plan& plan) {
  std::map<uint32_t, std::string> told;
  for (const uint32_t buffer : looked_at(package)) {
    const auto place = place_of_temporary(graph, plan, package.buffers[buffer].name);
    if (!place) continue;
    const SourceLocation at = place->source->locate(place->span);
    const std::string& file = place->source->name();
    told[buffer] = fmt::format("{} ({}:{}:{})", place->name.empty() ? "a value" : place->name,
                               file.substr(file.rfind('/') + 1), at.line, at.column);
  }
  return told;
}

bool is_temporary(std::string_view name) {
  return (name.starts_with('t') && numbers_in(name.substr(1))) ||
         (name.starts_with("loop") && numbers_in(name.substr(4)));
}

std::optional<ValuePlace> place_of_temporary(const ir::Graph& graph, const plan::Plan& plan,
                                             std::string_view temporary) {
  const bool loop = temporary.starts_with("loop");
  if (!loop && !temporary.starts_with('t')) return std::nullopt;
  const auto numbers = numbers_in(temporary.substr(loop ? 4 : 1));
  if (!numbers || numbers->size() > (loop ? 3U : 2U) || (loop && numbers->size() != 3)) return std::nullopt;
  const size_t block = numbers->size() == 1 ? 0 : numbers->front(), node = (*numbers)[numbers->size() == 1 ? 0 : 1];
  const ir::Graph* at = graph_of(graph, plan, block);
  if (at == nullptr || node >= at->size()) return std::nullopt;
  const ir::NodeId id(static_cast<uint32_t>(node));
  if (loop) {
    for (const ir::GraphRef& child : ir::children(at->attr(id))) {
      if (const auto reader = indexed_by(*child, numbers->back())) {
        if (auto found = place_in(*child, *reader)) {
          found->name.clear();
          return found;
        }
      }
    }
  }
  return place_in(*at, id);
}

}  // namespace codetta::driver
