// SPDX-License-Identifier: Apache-2.0
// The nodes of a visitor tree, before it is one: a graph whose edges are fragments.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emit/evt/evt.hpp"

namespace codetta::emit::evt {

inline bool is(const Dim& dim, int64_t value) { return dim.as_constant() == value; }

enum class Kind : uint8_t {
  Accumulator,
  Source,  // the tensor that the collective loads itself
  AuxLoad,
  Row,     // one value per column
  Column,  // one value per row
  Scalar,  // one element in memory
  Number,  // of the host
  Immediate,
  Compute,
  Store,         // passes on what it stores, as all that follow do
  RowReduce,     // over the rows: one result per column
  ColumnReduce,  // over the columns: one result per row
  ScalarReduce,
};

// Every use has a node of its own: they hold no state that is worth sharing.
constexpr bool is_free(Kind kind) {
  return kind == Kind::Accumulator || kind == Kind::Source || kind == Kind::Number || kind == Kind::Immediate;
}
constexpr bool is_reduction(Kind kind) {
  return kind == Kind::RowReduce || kind == Kind::ColumnReduce || kind == Kind::ScalarReduce;
}
constexpr bool is_store(Kind kind) { return kind == Kind::Store || is_reduction(kind); }

enum class ReduceFunction : uint8_t { Sum, Max, Min };

struct Node {
  Kind kind = Kind::Accumulator;
  std::vector<uint32_t> inputs;
  DType type = DType::f32;     // of its fragment
  DType compute = DType::f32;  // Compute, reductions: what it works in
  std::string function;        // Compute: a name of functors.hpp
  ReduceFunction reduce = ReduceFunction::Sum;
  size_t operand = 0;            // tensors and numbers
  std::array<Dim, 3> strides{};  // tensors: row, column, batch; 0 where there is one value for all
  std::string immediate;         // C++ text
  std::string comment;           // the line of the graph, with the name that the epilogue's text gives
  ir::NodeId origin{};
};

// Inputs come before their users.
struct Dag {
  std::vector<Node> nodes;
  uint32_t root = 0;
  std::vector<uint32_t> sinks;  // stores that the root does not depend on
  std::optional<size_t> source, destination;
  std::array<Dim, 3> source_strides{}, destination_strides{};
};

// Errors: E0311, E0407, E0409.
Result<Dag> lower(const Problem& problem);

// What the tree is made of. A Graph is a topological visitor: its parts' inputs are positions in it.
struct Part {
  enum class Form : uint8_t { Leaf, Tree, Graph };
  Form form = Form::Leaf;
  uint32_t node = 0;                           // Leaf, Tree
  std::vector<Part> parts;                     // Tree: of the inputs; Graph: in order
  std::vector<std::vector<uint32_t>> edges{};  // Graph: by part
};
Part shape_tree(const Dag& dag);
int nesting_of(const Dag& dag);    // the most nodes within one another, had none several users
int nesting_of(const Part& part);  // trees and topological visitors within one another

}  // namespace codetta::emit::evt
