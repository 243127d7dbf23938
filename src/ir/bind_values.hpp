// SPDX-License-Identifier: Apache-2.0
// Turns the values of an untyped function into graph nodes, once its parameters have nodes.
#pragma once

#include <unordered_map>
#include <vector>

#include "ir/function.hpp"
#include "ir/graph.hpp"

namespace codetta::ir {

struct BindOptions {
  std::vector<Dim> index_space;  // what row_index() and the like count in when nothing else decides; empty: not allowed
  bool round_as_unfused = false;  // each float result is rounded to the promoted dtype of its operands
};

// An index function counts in the value that it meets: `C + row_index()` counts the rows of C. Until the other operands
// of an element-wise op have the dims that it needs, an expression of index functions stays open; it is then built for
// their shape, and for index_space where none comes (outputs, reductions, layout).
class ValueBinder {
 public:
  // The parameters are there; values may come after each run().
  ValueBinder(const Function& function, GraphBuilder& builder, BindOptions options);
  void set(ValueId parameter, NodeId node) { slots_[parameter.index()].node = node; }
  Result<void> run();                  // all values that are there and have none yet
  Result<NodeId> node(ValueId value);  // after run()

 private:
  struct Slot {
    NodeId node;         // invalid: open
    uint32_t needs = 0;  // open: bit i = dim i + 1 from the end
  };
  struct Space {
    std::vector<Dim> shape;
    std::unordered_map<uint32_t, NodeId> built;
  };
  [[nodiscard]] bool is_open(ValueId value) const { return !slots_[value.index()].node.valid(); }
  Result<void> bind(ValueId id);
  Result<NodeId> add(const Value& value, std::span<const NodeId> operands);
  Result<NodeId> repeated(NodeId factor, NodeId other, const Value& value);
  Result<NodeId> add_control(const Value& value, std::span<const NodeId> operands);  // bind_control.cpp
  Result<NodeId> build_open(ValueId id, const std::vector<Dim>& shape);
  [[nodiscard]] std::vector<Dim> known_shape(const Value& value) const;
  NodeId rounded(NodeId result, const Value& value, std::span<const NodeId> operands);

  const Function& function_;
  GraphBuilder& builder_;
  BindOptions options_;
  std::vector<Slot> slots_;
  std::vector<Space> spaces_;
  size_t next_;  // that has not been bound
};

// What a value made of literals alone becomes where it needs a type: an integer that i32 cannot hold is i64.
DType default_dtype(const GraphBuilder& builder, NodeId weak);

}  // namespace codetta::ir
