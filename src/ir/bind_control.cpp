// SPDX-License-Identifier: Apache-2.0
// Branches and loops: their untyped functions become graphs over the types of the operands.
#include <fmt/format.h>

#include "ir/bind_values.hpp"
#include "ir/literals.hpp"
#include "types/dtype.hpp"

namespace codetta::ir {

DType default_dtype(const GraphBuilder& builder, NodeId weak) {
  if (types::is_float(builder.type(weak).dtype)) return DType::f32;
  const auto* literal = std::get_if<LiteralAttr>(&builder.attr(weak));
  return literal != nullptr && !holds(DType::i32, literal->i) ? DType::i64 : DType::i32;
}

namespace {

// `node` with a type: a literal anew, other weak values cast.
Result<NodeId> typed(GraphBuilder& builder, NodeId node, DType dtype) {
  if (!builder.type(node).weak) return node;
  if (const auto* literal = std::get_if<LiteralAttr>(&builder.attr(node))) return builder.add_literal(*literal, dtype);
  const NodeId from[] = {node};
  return builder.add(Op::cast, from, CastAttr{dtype});
}

// A weak number takes `wanted` unless it is a float and that is none.
DType weak_as(const GraphBuilder& builder, NodeId node, const TensorType* wanted) {
  const TensorType& weak = builder.type(node);
  const bool takes = wanted != nullptr && !wanted->weak && !types::is_bool(wanted->dtype) &&
                     (types::is_float(wanted->dtype) || !types::is_float(weak.dtype));
  return takes ? wanted->dtype : default_dtype(builder, node);
}

// A function whose values have nodes; what weak results become is open.
struct Body {
  GraphBuilder builder;
  std::vector<NodeId> nodes;        // of the results
  std::vector<TensorType> results;  // their types
};

Result<Body> open_body(const Function& function, std::span<const TensorType> parameters, bool round_as_unfused) {
  Body body{GraphBuilder(function.source), {}, {}};
  ValueBinder binder(function, body.builder, {{}, round_as_unfused});
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = function.parameters[i];
    binder.set(ValueId(i), body.builder.add_input(parameter.name, parameters[i], false, parameter.span));
  }
  CODETTA_CHECK_OK(binder.run());
  for (const Output& output : function.outputs) {
    CODETTA_TRY(const NodeId node, binder.node(output.value));
    body.nodes.push_back(node);
    body.results.push_back(body.builder.type(node));
  }
  return body;
}

// `wanted`: types that weak results take, where they are known.
Result<GraphRef> close_body(Body body, const Function& function, std::span<const TensorType> wanted) {
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const DType dtype = weak_as(body.builder, body.nodes[i], i < wanted.size() ? &wanted[i] : nullptr);
    CODETTA_TRY(const NodeId node, typed(body.builder, body.nodes[i], dtype));
    body.builder.add_output(function.outputs[i].name, node, body.builder.type(node).dtype);
  }
  CODETTA_TRY(Graph graph, std::move(body.builder).finish());
  return GraphRef(std::make_shared<const Graph>(std::move(graph)));
}

}  // namespace

Result<NodeId> ValueBinder::add_control(const Value& value, std::span<const NodeId> operands) {
  const bool loop = value.op == Op::while_loop;
  std::vector<NodeId> nodes;
  std::vector<TensorType> types;
  for (size_t i = 0; i < operands.size(); ++i) {
    NodeId node = operands[i];
    if (loop || i > 0) {
      CODETTA_TRY(node, typed(builder_, node, default_dtype(builder_, node)));
      types.push_back(builder_.type(node));
    }
    nodes.push_back(node);
  }
  const bool round = options_.round_as_unfused;
  if (loop) {
    const WhileAttr& functions = *std::get_if<WhileAttr>(&value.attr);
    const Function &test = *functions.condition_function, &step = *functions.body_function;
    CODETTA_TRY(Body condition, open_body(test, types, round));
    CODETTA_TRY(Body body, open_body(step, types, round));
    WhileAttr attr;
    CODETTA_TRY(attr.condition, close_body(std::move(condition), test, {}));
    CODETTA_TRY(attr.body, close_body(std::move(body), step, types));
    return builder_.add(value.op, nodes, std::move(attr), value.span, value.name);
  }
  const CondAttr& functions = *std::get_if<CondAttr>(&value.attr);
  CODETTA_TRY(Body then, open_body(*functions.then_function, types, round));
  CODETTA_TRY(Body otherwise, open_body(*functions.otherwise_function, types, round));
  // Numbers written in one branch take the types of the other.
  const std::vector<TensorType> then_types = then.results, otherwise_types = otherwise.results;
  CondAttr attr;
  CODETTA_TRY(attr.then, close_body(std::move(then), *functions.then_function, otherwise_types));
  CODETTA_TRY(attr.otherwise, close_body(std::move(otherwise), *functions.otherwise_function, then_types));
  return builder_.add(value.op, nodes, std::move(attr), value.span, value.name);
}

}  // namespace codetta::ir
