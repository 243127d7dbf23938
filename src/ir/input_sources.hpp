// SPDX-License-Identifier: Apache-2.0
// Which inputs give symbols their values.
#pragma once

#include <vector>

#include "ir/graph.hpp"
#include "types/symbol_source.hpp"

namespace codetta::ir {

// As types::symbol_sources of the inputs' shapes, in the graph's order: SymbolSource::shape counts inputs.
inline std::vector<types::SymbolSource> input_sources(const Graph& graph) {
  std::vector<types::Shape> shapes;
  for (const GraphInput& input : graph.inputs()) shapes.push_back(graph.type(input.node).shape);
  return types::symbol_sources(shapes);
}

}  // namespace codetta::ir
