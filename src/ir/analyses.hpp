// SPDX-License-Identifier: Apache-2.0
// Facts about a finished graph, computed on demand and never kept in sync. All are iterative and linear in the graph.
#pragma once

#include <optional>
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

// All matmul nodes, in graph order.
std::vector<NodeId> matmuls(const Graph& graph);

// The dtype to which an op converts its operands before it works: the node's own for arithmetic, the join for
// comparisons, the stored dtype for layout. where's condition stays bool; dropout's p is f32 and its seed i64.
DType operand_dtype(const Graph& graph, NodeId node);

}  // namespace codetta::ir
