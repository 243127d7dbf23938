// SPDX-License-Identifier: Apache-2.0
// Branches and loops: their untyped functions become graphs over the types of the operands.
#include <fmt/format.h>

#include "ir/bind_values.hpp"
#include "types/dtype.hpp"

namespace codetta::ir {
namespace {

// What a value made of literals alone becomes where it needs a type.
DType default_dtype(const TensorType& weak) { return types::is_float(weak.dtype) ? DType::f32 : DType::i32; }

// `node` with a type: a literal anew, other weak values cast.
Result<NodeId> typed(GraphBuilder& builder, NodeId node, DType dtype) {
  if (!builder.type(node).weak) return node;
  if (const auto* literal = std::get_if<LiteralAttr>(&builder.attr(node))) return builder.add_literal(*literal, dtype);
  const NodeId from[] = {node};
  return builder.add(Op::cast, from, CastAttr{dtype});
}

// A weak number takes `wanted` unless it is a float and that is none.
DType weak_as(const TensorType& weak, const TensorType* wanted) {
  const bool takes = wanted != nullptr && !wanted->weak && !types::is_bool(wanted->dtype) &&
                     (types::is_float(wanted->dtype) || !types::is_float(weak.dtype));
  return takes ? wanted->dtype : default_dtype(weak);
}

struct Body {
  Graph graph;
  std::vector<TensorType> results;  // as they are before weak ones get a type
};

// `wanted`: types that weak results take, where they are known.
Result<Body> bind_body(const Function& function, std::span<const TensorType> parameters,
                       std::span<const TensorType> wanted, bool round_as_unfused) {
  GraphBuilder builder(function.source);
  ValueBinder binder(function, builder, {{}, round_as_unfused});
  for (size_t i = 0; i < parameters.size(); ++i) {
    binder.set(ValueId(i),
               builder.add_input(function.parameters[i].name, parameters[i], false, function.parameters[i].span));
  }
  CODETTA_CHECK_OK(binder.run());
  Body body;
  for (size_t i = 0; i < function.outputs.size(); ++i) {
    const Output& output = function.outputs[i];
    CODETTA_TRY(NodeId node, binder.node(output.value));
    body.results.push_back(builder.type(node));
    const DType dtype = weak_as(body.results.back(), i < wanted.size() ? &wanted[i] : nullptr);
    CODETTA_TRY(node, typed(builder, node, dtype));
    builder.add_output(output.name, node, builder.type(node).dtype);
  }
  CODETTA_TRY(body.graph, std::move(builder).finish());
  return body;
}

GraphRef shared(Graph graph) { return std::make_shared<const Graph>(std::move(graph)); }

}  // namespace

Result<NodeId> ValueBinder::add_control(const Value& value, std::span<const NodeId> operands) {
  const bool loop = value.op == Op::while_loop;
  std::vector<NodeId> nodes;
  std::vector<TensorType> types;
  for (size_t i = 0; i < operands.size(); ++i) {
    NodeId node = operands[i];
    if (loop || i > 0) {
      CODETTA_TRY(node, typed(builder_, node, default_dtype(builder_.type(node))));
      types.push_back(builder_.type(node));
    }
    nodes.push_back(node);
  }
  const bool round = options_.round_as_unfused;
  if (loop) {
    const WhileAttr& functions = *std::get_if<WhileAttr>(&value.attr);
    CODETTA_TRY(Body condition, bind_body(*functions.condition_function, types, {}, round));
    CODETTA_TRY(Body body, bind_body(*functions.body_function, types, types, round));
    WhileAttr attr;
    attr.condition = shared(std::move(condition.graph));
    attr.body = shared(std::move(body.graph));
    return builder_.add(value.op, nodes, std::move(attr), value.span, value.name);
  }
  const CondAttr& functions = *std::get_if<CondAttr>(&value.attr);
  CODETTA_TRY(Body then, bind_body(*functions.then_function, types, {}, round));
  CODETTA_TRY(Body otherwise, bind_body(*functions.otherwise_function, types, then.results, round));
  bool again = false;  // numbers written in the first branch take the types of the second
  for (size_t i = 0; i < then.results.size() && i < otherwise.results.size(); ++i)
    again = again || (then.results[i].weak && !otherwise.results[i].weak);
  if (again) {
    CODETTA_TRY(then, bind_body(*functions.then_function, types, otherwise.results, round));
  }
  CondAttr attr;
  attr.then = shared(std::move(then.graph));
  attr.otherwise = shared(std::move(otherwise.graph));
  return builder_.add(value.op, nodes, std::move(attr), value.span, value.name);
}

}  // namespace codetta::ir
