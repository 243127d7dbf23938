// SPDX-License-Identifier: Apache-2.0
// Facts about a finished graph, computed on demand and never kept in sync. All are iterative and linear in the graph.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace codetta::ir {

// Nodes are stored operands first, so 0..size-1 is already a topological order; this is the same order for the nodes
// that `roots` need only.
std::vector<NodeId> topological_order(const Graph& graph, std::span<const NodeId> roots);

// By node: does its value depend on `source` (a node depends on itself)?
std::vector<bool> reachable_from(const Graph& graph, NodeId source);
// By node: is it needed by one of `roots` (a root needs itself)?
std::vector<bool> needed_by(const Graph& graph, std::span<const NodeId> roots);

// Where symbols that no input has get their values, which a run computes: from a size_value, or from the first
// call_extern in alloc-form one of whose results has a dim that is the symbol alone.
struct SizeSource {
  std::string symbol;
  NodeId node;
  int32_t output = 0, dim = 0;  // of a call_extern: which result, and which of its dims
};
struct SizeSources {
  std::vector<SizeSource> sources;          // in graph order
  std::vector<std::vector<NodeId>> needed;  // by node: sources of the symbols in it and in its graphs; empty: of none
  [[nodiscard]] const SizeSource* find(std::string_view symbol) const;
  // What a node comes behind: the sources of its sizes, then its operands.
  [[nodiscard]] size_t count(const Graph& graph, NodeId node) const;
  [[nodiscard]] NodeId at(const Graph& graph, NodeId node, size_t i) const;
};
// A node comes behind what it needs, as it comes behind its operands.
SizeSources size_sources(const Graph& graph);
// What a run has to check of slices whose bounds come from values, and of sizes that may be below 0, as differences
// are: least <= value <= most. The sizes of the second kind may rest on symbols that are known around the graph alone.
struct SizeCheck {
  NodeId node;
  Dim value, least, most;
};
std::vector<SizeCheck> size_checks(const Graph& graph);

// All matmul nodes, in graph order.
std::vector<NodeId> matmuls(const Graph& graph);

// The dtype to which an op converts its operands before it works: the node's own for arithmetic, the join for
// comparisons, the stored dtype for layout. where's condition stays bool; dropout's p is f32 and its seed i64.
DType operand_dtype(const Graph& graph, NodeId node);

}  // namespace codetta::ir
