// SPDX-License-Identifier: Apache-2.0
// How each operand of an element-wise node spreads over its result, and along what a reduction runs: what explain
// prints.
#pragma once

#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace codetta::opt {

// Over [..., rows, columns]. Items: the same for a whole matrix of a batch.
enum class Spread : uint8_t { Full, Row, Column, Scalar, Items, ItemRows, ItemColumns, Other };
enum class ReductionAxis : uint8_t { None, Row, Column, Matrix, All, Other };
std::string_view to_string(Spread spread);
std::string_view to_string(ReductionAxis axis);

struct Classification {
  std::vector<std::vector<Spread>> operands;  // by node and operand; empty unless element-wise
  std::vector<ReductionAxis> reductions;      // by node
};
Classification classify(const ir::Graph& graph);

}  // namespace codetta::opt
