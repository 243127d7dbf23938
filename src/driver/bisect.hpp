// SPDX-License-Identifier: Apache-2.0
// Parts of bisect() that say where two things first differ.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "oracle/oracle.hpp"

namespace codetta::driver {

// The graph with further outputs: `extra` by name, node and the type that it is stored as. Errors: those of
// GraphBuilder::finish.
struct ExtraOutput {
  std::string name;
  ir::NodeId node;
  DType dtype = DType::f32;
};
Result<ir::Graph> with_outputs(const ir::Graph& graph, const std::vector<ExtraOutput>& extra);

// An element for which no value is admitted by both: "D [3, 17]: 1 to 1.5 before, 2 to 2 behind". Outputs of which
// different elements were evaluated are not compared.
std::optional<std::string> disagreement(const oracle::OracleResult& before, const oracle::OracleResult& behind);

}  // namespace codetta::driver
