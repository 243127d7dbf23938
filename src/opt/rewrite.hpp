// SPDX-License-Identifier: Apache-2.0
// Rebuilds a graph node by node, operands first, while rules replace nodes. Every rule is a row of a table, so that
// explain can say which ones fired and tests can prove that each does.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "ir/graph.hpp"

namespace codetta::opt {

using ir::NodeId;
using types::Op;

// A node that isn't added yet.
struct Candidate {
  Op op = Op::input;
  std::vector<NodeId> operands;
  ir::Attr attr;
  ir::TensorType type;
};
// What a rule makes of it: nothing, a node that is already there, or another candidate of the same type.
using Rewrite = std::variant<std::monostate, NodeId, Candidate>;

// What rules may look at and do. Nodes are those of the new graph.
class RuleContext {
 public:
  explicit RuleContext(ir::GraphBuilder& builder) : builder_(builder) {}
  void at(const diag::Span& span) { span_ = span; }  // of the node that is replaced
  [[nodiscard]] Op op(NodeId id) const { return builder_.node(id).op; }
  [[nodiscard]] const ir::TensorType& type(NodeId id) const { return builder_.type(id); }
  [[nodiscard]] std::span<const NodeId> operands(NodeId id) const { return builder_.operands(id); }
  [[nodiscard]] NodeId operand(NodeId id, size_t i = 0) const { return builder_.operands(id)[i]; }
  template <class A>
  [[nodiscard]] const A& attr(NodeId id) const {
    return *std::get_if<A>(&builder_.attr(id));
  }
  [[nodiscard]] const ir::LiteralAttr* literal(NodeId id) const {
    return std::get_if<ir::LiteralAttr>(&builder_.attr(id));
  }
  // A literal of this value; floats by bits, so that 0.0 isn't -0.0. Integers compare as integers, and with floats
  // exactly.
  [[nodiscard]] bool is_float(NodeId id, double value) const;
  [[nodiscard]] bool is_number(NodeId id, int64_t value) const;
  [[nodiscard]] bool is_bool(NodeId id, bool value) const;
  NodeId literal(const ir::LiteralAttr& value, DType dtype) { return builder_.add_literal(value, dtype); }
  NodeId add(const Candidate& candidate) {
    return builder_.add_unchecked(candidate.op, candidate.operands, candidate.attr, candidate.type, span_);
  }
  // Itself where it has the shape.
  NodeId reshaped(NodeId node, std::vector<types::Dim> shape);
  // `node` in the place of a value of `type`: itself, or cast as an op would convert it; nothing when shapes differ.
  Rewrite as(NodeId node, const ir::TensorType& type);

 private:
  ir::GraphBuilder& builder_;
  diag::Span span_;
};

struct Rule {
  std::string_view name;      // "mul_one"
  std::string_view equation;  // "x * 1 = x"
  Rewrite (*apply)(const Candidate& node, RuleContext& context);
};

// fired[i] counts rule i.
Result<ir::Graph> rewrite(const ir::Graph& graph, std::span<const Rule> rules, std::vector<uint32_t>& fired);

}  // namespace codetta::opt
