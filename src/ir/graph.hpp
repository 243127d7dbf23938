// SPDX-License-Identifier: Apache-2.0
// Graph: the one typed IR, for epilogues bound to tensors and for programs. Tagged 32-bit ids over flat stores; types
// and attributes are interned; finished graphs are immutable and canonically numbered (inputs in declared order, then
// depth-first from the outputs in operand order), so equal math gives equal graphs whatever compiler built Codetta.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "diag/diagnostic.hpp"
#include "ir/attr.hpp"
#include "types/op.hpp"

namespace codetta::ir {

using types::Op;
using NodeId = base::Id<struct NodeTag>;
using TypeId = base::Id<struct TypeTag>;
using AttrId = base::Id<struct AttrTag>;

struct Node {
  Op op = Op::input;
  TypeId type;
  uint32_t first_operand = 0;  // into the operand pool
  uint32_t operand_count = 0;
  AttrId attr;
};
static_assert(sizeof(Node) <= 24);

struct GraphInput {
  std::string name;
  NodeId node;
  bool is_scalar = false;  // a host value rather than a tensor
  bool donated = false;    // of a program: its memory is the program's own once the value is not needed any more
  uint8_t device = 0;      // of a program: which of its devices has the tensor; of a branch or a loop 0
};
struct GraphOutput {
  std::string name;
  NodeId node;
  DType dtype = DType::f32;  // of the tensor it is stored to; one rounding there
};

class GraphBuilder;

class Graph {
 public:
  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id.index()]; }
  [[nodiscard]] std::span<const NodeId> operands(NodeId id) const;
  [[nodiscard]] const TensorType& type(NodeId id) const;
  [[nodiscard]] const Attr& attr(NodeId id) const;
  template <class A>
  [[nodiscard]] const A& attr_as(NodeId id) const {
    return *std::get_if<A>(&attr(id));
  }
  [[nodiscard]] const std::vector<GraphInput>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<GraphOutput>& outputs() const { return outputs_; }
  [[nodiscard]] size_t size() const { return nodes_.size(); }
  // Outside equality and hash:
  [[nodiscard]] diag::Span span(NodeId id) const;
  [[nodiscard]] const std::string& name_hint(NodeId id) const;
  [[nodiscard]] const diag::SourceRef& source() const { return source_; }

  bool operator==(const Graph& other) const;  // structure, types, attributes, names of inputs and outputs
  [[nodiscard]] uint64_t hash() const;

 private:
  friend class GraphBuilder;
  std::vector<Node> nodes_;
  std::vector<NodeId> operand_pool_;
  std::vector<TensorType> types_;
  std::vector<Attr> attrs_;
  std::vector<GraphInput> inputs_;
  std::vector<GraphOutput> outputs_;
  std::vector<diag::Span> spans_;
  std::vector<std::string> names_;
  diag::SourceRef source_;
};

// Builds a graph node by node; every add() infers the type from ops.def's rule and reports shape and dtype errors at
// once (E02xx, located by the span given, else by the printed graph). Not thread safe.
//
// Weak values (literals, and what is made of literals only) are i64 or f64 until they meet a typed operand; there a
// literal is added anew with the type that the op computes in, any other weak value is cast to it. So in a finished
// graph every operand of an op that joins types is typed, or all are weak. A literal node means its value converted to
// the node's dtype.
//
// Attributes are normalized: dims count from 0; a ReduceAttr of Row, Column or All becomes Dims (the last, the last but
// one, all); a ReshapeAttr becomes a Shape without -1, a SliceAttr a start from 0 on and a Count. Graphs in attributes
// are finished ones. row_index, col_index and batch_index take a ReshapeAttr with the shape that
// they count in, such as [m, 1], [1, n], [batch, 1, 1]. matmul keeps the accumulator of its MatmulAttr.
class GraphBuilder {
 public:
  explicit GraphBuilder(diag::SourceRef source = nullptr);
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;
  ~GraphBuilder();

  NodeId add_input(std::string name, TensorType type, bool is_scalar = false, diag::Span span = {});
  // The input of another graph, with all that is said of it.
  NodeId add_input(const Graph& graph, const GraphInput& input);
  void donate(NodeId input);                   // a tensor
  void lay_on(NodeId input, uint32_t device);  // a tensor; below max_devices
  // Equal nodes (op, operands, attribute) are one node; the first one's span and name stay. `written`: where each
  // operand stands in the text, for errors.
  Result<NodeId> add(Op op, std::span<const NodeId> operands, Attr attr = {}, diag::Span span = {},
                     std::string name = {}, std::span<const diag::Span> written = {});
  NodeId add_literal(LiteralAttr literal, diag::Span span = {});               // weak
  NodeId add_literal(LiteralAttr literal, DType dtype, diag::Span span = {});  // typed
  // A node with the type as given, unchecked: what the parser and passes that keep types use; verify() the graph
  // afterwards.
  NodeId add_unchecked(Op op, std::span<const NodeId> operands, Attr attr, TensorType type, diag::Span span = {},
                       std::string name = {});
  void add_output(std::string name, NodeId node, DType dtype);
  [[nodiscard]] const TensorType& type(NodeId id) const;
  [[nodiscard]] const Node& node(NodeId id) const;
  [[nodiscard]] std::span<const NodeId> operands(NodeId id) const { return graph_.operands(id); }
  [[nodiscard]] const Attr& attr(NodeId id) const { return graph_.attr(id); }
  [[nodiscard]] size_t size() const { return graph_.size(); }
  // Drops nodes that no output needs (inputs stay), renumbers canonically. The builder is empty afterwards.
  // Errors: E0241 when there is no output.
  Result<Graph> finish() &&;

 private:
  struct Tables;  // hash tables of nodes, types and attributes
  NodeId intern(Op op, std::span<const NodeId> operands, Attr attr, TensorType type, diag::Span span, std::string name);
  NodeId coerce(NodeId operand, DType dtype);
  NodeId fold_weak(Op op, std::span<const NodeId> operands, diag::Span span);
  Graph graph_;
  std::unique_ptr<Tables> tables_;
};

// All results of a node, result 0 first: of one with a single result its own type.
std::vector<TensorType> results_of(const Graph& graph, NodeId node);
// The graphs in a node's attribute: of cond then and otherwise, of while_loop condition and body; else none.
std::vector<GraphRef> children(const Attr& attr);

// Values computed on demand.
struct Uses {
  std::vector<std::vector<NodeId>> users;  // by node; a user appears once per operand slot
};
Uses uses(const Graph& graph);

// Checks every invariant of a graph (ops.def arity and rule, operand order, attributes, types). Errors: E09xx with a
// caret in the printed graph: a graph that fails is our bug unless it was parsed from text.
Result<void> verify(const Graph& graph);

// Text form, one node a line: `%3:f32[m, n] = relu %2`; graphs inside of a node as blocks that begin on its line.
// parse(print(g)) == g.
std::string print(const Graph& graph);
Result<Graph> parse_graph(const diag::SourceRef& text);

}  // namespace codetta::ir
