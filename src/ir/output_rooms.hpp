// SPDX-License-Identifier: Apache-2.0
// Outputs with dims that a run computes: the caller makes them before the run, with room for what comes, and learns
// behind it how much of that was filled.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace codetta::ir {

struct OutputRoom {
  types::Shape shape;  // the output's, with a size of its own in the place of each dim that a run computes
  // By dim: the name of that size, "y_capacity", or "y_capacity_1" where the run computes several dims of y; empty: the
  // caller knows the dim.
  std::vector<std::string> names;
  [[nodiscard]] bool computed() const;  // whether a run computes any of the dims
};
// By output.
std::vector<OutputRoom> output_rooms(const Graph& graph);

// The most that a size can be, in sizes that are known before the run: what runs check bounds it. Nothing where they
// don't.
std::optional<Dim> most_of(const Graph& graph, const Dim& size);

}  // namespace codetta::ir
