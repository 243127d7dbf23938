// SPDX-License-Identifier: Apache-2.0
// The expressions that the C++ tracer makes: immutable nodes, shared by whatever uses them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codetta/trace.hpp"
#include "frontend/build.hpp"

namespace codetta::detail {

struct ExprNode {
  enum class Kind : uint8_t { Accum, Input, Literal, Operator, Call, Part, Broken };

  ExprNode() = default;
  ExprNode(const ExprNode&) = delete;
  ExprNode& operator=(const ExprNode&) = delete;
  ~ExprNode();  // a loop: expressions are deep

  Kind kind = Kind::Broken;
  CallSite site{};
  std::weak_ptr<const TraceState> owner;             // Accum, Input; the state holds outputs, so never the other way
  std::string name;                                  // Input
  ir::LiteralAttr literal;                           // Literal
  bool is_unsigned = false;                          // Literal: of the u64 with the same bits
  types::Op op = types::Op::input;                   // Operator
  const frontend::FunctionInfo* function = nullptr;  // Call
  std::vector<frontend::CallArgument> arguments;     // Call; those of kind Value are the operands in order
  size_t part = 0;                                   // Part: which result of the call operands[0]
  std::optional<Diagnostic> problem;                 // Broken
  std::vector<std::shared_ptr<const ExprNode>> operands;
};

struct TraceState {
  struct Input {
    std::string name;
    CallSite site;
  };
  struct Output {
    std::string name;
    Expr value;
    CallSite site;
  };
  std::vector<Input> inputs;  // in the order of the calls; for those that no output uses
  std::vector<Output> outputs;
};

// The way into the public classes.
struct TraceAccess {
  static Expr make(NodeRef node) { return Expr(std::move(node)); }
  static const NodeRef& node(const Expr& expr) { return expr.node_; }
  static const std::shared_ptr<TraceState>& state(const EpilogueTracer& tracer) { return tracer.state_; }
  static frontend::CallArgument dims(const ReduceOver& over);
  static frontend::CallArgument axis(const ReduceOver& over);
};

// A call of the table's function; `arguments` are in the order of its parameters, values in `operands`.
Expr call(std::string_view function, std::vector<NodeRef> operands, std::vector<frontend::CallArgument> arguments,
          CallSite at);

}  // namespace codetta::detail

namespace codetta::frontend {

// The function that the tracer's outputs describe; `at`: the call that traces.
Result<ir::EpilogueFunction> trace_epilogue(const detail::TraceState& state, CallSite at);

}  // namespace codetta::frontend
